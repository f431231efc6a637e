"""What tools work with, in tests: real parts in a temporary directory."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from openskills.artifacts.store import ArtifactStore, Scope
from openskills.catalog.catalog import Catalog
from openskills.catalog.snapshot import Snapshot
from openskills.errors import ExecutorUnavailable
from openskills.executors.choose import executor as executor_named
from openskills.executors.conversations import Conversations
from openskills.executors.processes.interactive import Owner, Processes
from openskills.executors.protocol import Executor
from openskills.executors.workbench import Rules, Workbench, open_workbench
from openskills.session.changes import Loaded, Recorded
from openskills.session.state import AgentView, SkillState, apply
from openskills.settings import Settings
from openskills.tools.decode import decode
from openskills.tools.result import ToolResult
from openskills.tools.shelf import Shelf
from openskills.tools.tool import AnyTool, ToolContext, ToolOptions
from openskills.tools.uploads import Upload, Uploads
from tests.skill_writer import skill_writer

SCOPE = Scope("app", "user", "session")
AGENT = "tester"


def settings_in(directory: Path) -> Settings:
    """Settings of a user whose home is `directory`."""
    variables = {"HOME": str(directory), "OPENSKILL_STATE_DIR": str(directory / "state"), "PATH": "/usr/bin:/bin"}
    return Settings.from_env(variables)


def write_skill(directory: Path, name: str = "demo", files: Mapping[str, str | bytes] | None = None) -> Path:
    """Write a skill with more files into `directory/skills`, where `tool_context` finds it; scripts can be executed."""
    folder = skill_writer(directory, "skills")(name)
    for path, content in (files or {}).items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        if path.startswith("scripts/"):
            target.chmod(0o755)
    return folder


def skills_in(directory: Path) -> Snapshot:
    """The skills of `directory/skills`."""
    (directory / "skills").mkdir(exist_ok=True)
    return Catalog.from_paths(directory / "skills", settings=settings_in(directory)).snapshot


def loaded_view(*names: str, agent: str = AGENT) -> AgentView:
    """What an agent sees that has loaded these, one after the other."""
    changes = (Recorded(number, agent, Loaded(name)) for number, name in enumerate(names, 1))
    return apply(SkillState(), changes).of(agent)


async def call(context: ToolContext, tool: AnyTool, **arguments: Any) -> ToolResult:
    """What a tool answers to what a model wrote; its errors are raised."""
    return await tool.run(context, decode(tool, arguments))


@asynccontextmanager
async def tool_context(
    directory: Path,
    *,
    skills: Snapshot | None = None,
    executor: str | Executor | None = "local",
    artifacts: ArtifactStore | None = None,
    options: ToolOptions | None = None,
    rules: Rules | None = None,
    loaded: Sequence[str] = (),
    view: Callable[[], AgentView] | None = None,
    uploads: Sequence[Upload] = (),
    tools: Sequence[str] = (),
    agent: str = AGENT,
    scope: Scope = SCOPE,
) -> AsyncGenerator[ToolContext]:
    """What the tools of one agent work with; everything that it opened ends with the block.

    The skills are those of `directory/skills` unless they are given. Without an executor, `bench` and `talks` raise as
    they do in a session that has none. The workspace is opened when it is first asked for.
    """
    # The user that a sandbox runs commands as has to get there.
    directory.chmod(0o755)
    waiting = Uploads()
    for upload in uploads:
        waiting.add(upload)
    seen = loaded_view(*loaded, agent=agent)
    async with AsyncExitStack() as stack:
        place = _Place(directory, executor, stack, artifacts, rules, agent, scope)
        yield ToolContext(
            agent=agent,
            scope=scope,
            skills=skills if skills is not None else skills_in(directory),
            view=view or (lambda: seen),
            shelf=Shelf(lambda skill, path, line, _: f"read skill://{skill}/{path} from line {line}"),
            uploads=waiting,
            bench=place.bench,
            talks=place.talks,
            artifacts=artifacts,
            options=options or ToolOptions(),
            tools=tools,
        )


class _Place:
    """The workspace of a context, opened once, by who asks first."""

    def __init__(
        self,
        directory: Path,
        executor: str | Executor | None,
        stack: AsyncExitStack,
        artifacts: ArtifactStore | None,
        rules: Rules | None,
        agent: str,
        scope: Scope,
    ) -> None:
        self._settings = settings_in(directory)
        self._executor = executor
        self._stack = stack
        self._artifacts = artifacts
        self._rules = rules
        self._owner = Owner(scope.app, scope.user, scope.session, agent)
        self._scope = scope
        self._opening = asyncio.Lock()
        self._bench: Workbench | None = None
        self._talks: Conversations | None = None

    async def bench(self) -> Workbench:
        async with self._opening:
            if self._bench is None:
                self._bench = await self._opened()
            return self._bench

    async def talks(self) -> Conversations:
        bench = await self.bench()
        if self._talks is None:
            processes = Processes()
            self._stack.push_async_callback(processes.close)
            self._talks = Conversations(bench, processes, self._owner)
        return self._talks

    async def _opened(self) -> Workbench:
        chosen = self._executor
        if chosen is None:
            raise ExecutorUnavailable("this session has no executor")
        if isinstance(chosen, str):
            chosen = executor_named(chosen, self._settings)
            self._stack.push_async_callback(chosen.close)
        bench = await open_workbench(
            chosen,
            self._settings,
            self._scope,
            agent=self._owner.agent,
            artifacts=self._artifacts,
            rules=self._rules,
        )
        self._stack.push_async_callback(bench.close)
        return bench
