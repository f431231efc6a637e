"""What tools work with, in tests: real parts in a temporary directory."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from openskills.artifacts.store import ArtifactStore, Scope
from openskills.catalog.catalog import Catalog
from openskills.catalog.snapshot import CatalogSnapshot
from openskills.errors import ExecutorUnavailable
from openskills.executors.commands import CommandRules, CommandRunner, open_command_runner
from openskills.executors.interactive import InteractiveCommands, ProcessOwner, ProcessTable
from openskills.executors.open import open_executor as executor_named
from openskills.executors.protocol import Executor
from openskills.session.state import AgentView, Loaded, RecordedChange, SkillState, apply_changes
from openskills.settings import Settings
from openskills.tools.loaded_texts import LoadedTexts
from openskills.tools.tool import AnyTool, ToolContext, ToolOptions, ToolResult, decode
from openskills.tools.uploads import Uploads, UserUpload
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


def skills_in(directory: Path) -> CatalogSnapshot:
    """The skills of `directory/skills`."""
    (directory / "skills").mkdir(exist_ok=True)
    return Catalog.from_paths(directory / "skills", settings=settings_in(directory)).snapshot


def loaded_view(*names: str, agent: str = AGENT) -> AgentView:
    """What an agent sees that has loaded these, one after the other."""
    changes = (RecordedChange(number, agent, Loaded(name)) for number, name in enumerate(names, 1))
    return apply_changes(SkillState(), changes).view_for(agent)


async def call(context: ToolContext, tool: AnyTool, **arguments: Any) -> ToolResult:
    """What a tool answers to what a model wrote; its errors are raised."""
    return await tool.run(context, decode(tool, arguments))


@asynccontextmanager
async def tool_context(
    directory: Path,
    *,
    skills: CatalogSnapshot | None = None,
    executor: str | Executor | None = "local",
    artifacts: ArtifactStore | None = None,
    options: ToolOptions | None = None,
    rules: CommandRules | None = None,
    loaded: Sequence[str] = (),
    view: Callable[[], AgentView] | None = None,
    uploads: Sequence[UserUpload] = (),
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
            loaded_texts=LoadedTexts(lambda skill, path, line, _: f"read skill://{skill}/{path} from line {line}"),
            uploads=waiting,
            open_runner=place.bench,
            open_commands=place.talks,
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
        rules: CommandRules | None,
        agent: str,
        scope: Scope,
    ) -> None:
        self._settings = settings_in(directory)
        self._executor = executor
        self._stack = stack
        self._artifacts = artifacts
        self._rules = rules
        self._owner = ProcessOwner(scope.app, scope.user, scope.session, agent)
        self._scope = scope
        self._opening = asyncio.Lock()
        self._bench: CommandRunner | None = None
        self._talks: InteractiveCommands | None = None

    async def bench(self) -> CommandRunner:
        async with self._opening:
            if self._bench is None:
                self._bench = await self._opened()
            return self._bench

    async def talks(self) -> InteractiveCommands:
        bench = await self.bench()
        if self._talks is None:
            processes = ProcessTable()
            self._stack.push_async_callback(processes.close)
            self._talks = InteractiveCommands(bench, processes, self._owner)
        return self._talks

    async def _opened(self) -> CommandRunner:
        chosen = self._executor
        if chosen is None:
            raise ExecutorUnavailable("this session has no executor")
        if isinstance(chosen, str):
            chosen = executor_named(chosen, self._settings)
            self._stack.push_async_callback(chosen.close)
        bench = await open_command_runner(
            chosen,
            self._settings,
            self._scope,
            agent=self._owner.agent,
            artifacts=self._artifacts,
            rules=self._rules,
        )
        self._stack.push_async_callback(bench.close)
        return bench
