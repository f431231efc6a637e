"""A process that serves conversations with skills."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Protocol, runtime_checkable
from weakref import WeakValueDictionary

from openskills.artifacts.choose import artifact_store
from openskills.artifacts.store import ArtifactStore, Scope
from openskills.catalog.catalog import Catalog
from openskills.errors import ExecutorUnavailable
from openskills.executors.across_loops import AcrossLoops
from openskills.executors.choose import executor as chosen_executor
from openskills.executors.conversations import Conversations
from openskills.executors.processes.interactive import Owner, Processes
from openskills.executors.protocol import Executor
from openskills.executors.rules.policy import CommandPolicy
from openskills.executors.workbench import Rules, Workbench, open_workbench
from openskills.runtime.branch import Branch, BranchedSession
from openskills.runtime.open_sessions import OpenSessions
from openskills.runtime.opened import OpenedSession, Remembered
from openskills.runtime.options import SessionOptions
from openskills.runtime.overviews import Overviews
from openskills.runtime.session import SkillSession
from openskills.session.changes import Loaded, Recorded
from openskills.session.choose import session_store
from openskills.session.memory import MemorySessionStore
from openskills.session.plain import checked_id
from openskills.session.store import SessionStore
from openskills.settings import Settings
from openskills.tools.approvals import Approvals
from openskills.tools.read_on import read_on
from openskills.tools.shelf import Shelf
from openskills.tools.tool import ToolContext, ToolOptions

_LAYERS = 8
"""Of so many options the first layer is kept."""


class SkillRuntime:
    """Skills, an executor for their commands, and stores, for any number of conversations. Close it, or `async with`.

    `executor` is the name of one (`auto`, `sandbox`, `container`, `local`, …), one that you made, or None: then skills
    can be read and not run. `artifacts` are kept in files of the state directory unless you give another store or its
    address (`s3://bucket`); `store` keeps conversations, in memory unless you give another or its address
    (`sqlite:///sessions.db`, `postgresql://…`, `redis://…`).
    """

    def __init__(
        self,
        catalog: Catalog,
        executor: str | Executor | None = None,
        *,
        artifacts: ArtifactStore | str | None = None,
        store: SessionStore | str | None = None,
        settings: Settings | None = None,
        options: SessionOptions | None = None,
    ) -> None:
        self.catalog = catalog
        self.settings = settings or Settings.from_env()
        self.options = options or SessionOptions()
        self.store = _store(store, self.settings)
        self._owns_store = store is None or isinstance(store, str)
        self.artifacts = _artifacts(artifacts, self.settings)
        self._executor = chosen_executor(executor, self.settings) if isinstance(executor, str) else executor
        self._owns_executor = isinstance(executor, str)
        self._sessions = OpenSessions(self._made)
        # A lock lives as long as somebody holds it or waits for it.
        self._runs: WeakValueDictionary[Scope, AcrossLoops] = WeakValueDictionary()
        self._processes = Processes()
        self._layers: list[tuple[SessionOptions, Overviews]] = []
        # Options that cannot work are said now, not in the first conversation.
        self._overviews(self.options)

    @asynccontextmanager
    async def session(
        self,
        session: str,
        *,
        agent: str = "assistant",
        user: str = "local",
        app: str = "openskills",
        options: SessionOptions | None = None,
        inherit_from: str | None = None,
        branch: Branch | None = None,
    ) -> AsyncGenerator[SkillSession]:
        """One agent in one conversation. Agents of a conversation share its workspace and files, not what they loaded.

        `inherit_from` names an agent whose loaded skills this one begins with. With a `branch`, what is loaded is what
        that says, and the store knows nothing of it.
        """
        chosen = options or self.options
        checked_id("agent", agent)
        shared = await self._sessions.take(Scope(app, user, session), agent)
        try:
            used = shared if branch is None else BranchedSession(shared, branch)
            opened = self._session(used, agent, chosen)
            if isinstance(used, BranchedSession):
                opened.ledger = used.ledger(agent)
            if inherit_from is not None:
                _inherit(used, inherit_from, agent)
            try:
                yield opened
            finally:
                opened.end()
        finally:
            await self._sessions.give_back(shared)

    def tool_names(self, options: SessionOptions | None = None) -> tuple[str, ...]:
        """The tools that sessions with these options have, for the skills that there are now."""
        return self._overviews(options or self.options).now().tools

    def one_run_at_a_time(self, scope: Scope) -> AcrossLoops:
        """What whoever runs an agent in a conversation holds meanwhile, so that two do not talk across each other."""
        return self._runs.setdefault(scope, AcrossLoops())

    def loop_of(self, scope: Scope) -> asyncio.AbstractEventLoop | None:
        """The event loop in which commands of a conversation run that outlive their call; None when there are none.

        They end with it, and can be talked to in no other.
        """
        return self._sessions.loop_of(scope)

    async def close(self) -> None:
        """End every command, give back every workspace; files, artifacts and sessions stay."""
        # First: each ends its commands in the event loop that they belong to.
        failed = await self._sessions.close()
        await self._processes.close()
        if self._owns_executor and self._executor is not None:
            await self._executor.close()
        if self._owns_store and isinstance(self.store, _Closable):
            await self.store.close()
        if failed:
            raise failed[0]

    async def __aenter__(self) -> "SkillRuntime":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _made(self, scope: Scope, remembered: Remembered) -> OpenedSession:
        return OpenedSession(scope, self.store, lambda: self._workbench(scope), remembered)

    async def _workbench(self, scope: Scope) -> Workbench:
        if self._executor is None:
            raise ExecutorUnavailable("no executor is configured; give SkillRuntime one, such as executor='sandbox'")
        return await open_workbench(self._executor, self.settings, scope, artifacts=self.artifacts)

    def _session(self, shared: OpenedSession, agent: str, options: SessionOptions) -> SkillSession:
        rules = self._rules(shared, agent, options)
        overviews = self._overviews(options)
        tools = overviews.now().tools
        owner = Owner(shared.scope.app, shared.scope.user, shared.scope.session, agent)

        async def bench() -> Workbench:
            return await shared.bench(agent, rules)

        async def talks() -> Conversations:
            return shared.talks(owner, await bench(), self._processes)

        context = ToolContext(
            agent=agent,
            scope=shared.scope,
            skills=overviews.now().skills,
            view=lambda: shared.state.of(agent),
            shelf=shared.shelf((agent, tools, options.budget, options.count), partial(_shelf, tools, options)),
            uploads=shared.uploads,
            bench=bench,
            talks=talks,
            artifacts=self.artifacts,
            options=_tool_options(options),
            tools=tools,
        )
        if options.download is not None:
            shared.uploads.download = options.download
        return SkillSession(shared, overviews, context, options, trace_content=self.settings.trace_content)

    def _overviews(self, options: SessionOptions) -> Overviews:
        """The first layer for these options: made once, because many conversations have the same ones."""
        for known, made in self._layers:
            if known is options:
                return made
        note = self._policy(options).summary()
        made = Overviews(self.catalog, options, executor=self._executor is not None, policy_note=note)
        self._layers = [(options, made), *self._layers[: _LAYERS - 1]]
        return made

    def _policy(self, options: SessionOptions) -> CommandPolicy:
        settings = self.settings
        allowed = settings.allowed_commands if options.allowed_commands is None else options.allowed_commands
        denied = settings.denied_commands if options.denied_commands is None else options.denied_commands
        return CommandPolicy.of(allowed, denied)

    def _rules(self, shared: OpenedSession, agent: str, options: SessionOptions) -> Rules:
        settings = self.settings
        return Rules(
            policy=self._policy(options),
            approve=self._approve(shared, agent, options),
            host_roots=settings.host_roots if options.host_roots is None else options.host_roots,
            values=options.secrets,
            network=options.network,
            index_arguments=options.index_arguments,
        )

    def _approve(self, shared: OpenedSession, agent: str, options: SessionOptions) -> Approvals | None:
        if options.ask is None and not options.restrict:
            return None
        made = partial(Approvals, options.ask, allowed_tools_of=self._allowed_tools, restrict=options.restrict)
        return shared.approvals((agent, options.ask, options.restrict), made)

    def _allowed_tools(self, skill: str) -> tuple[str, ...]:
        return self.catalog.snapshot.get(skill).manifest.allowed_tools


@runtime_checkable
class _Closable(Protocol):
    """A store that holds a connection or a file."""

    async def close(self) -> None: ...


def _store(store: SessionStore | str | None, settings: Settings) -> SessionStore:
    if store is None:
        return MemorySessionStore()
    return session_store(store, settings) if isinstance(store, str) else store


def _artifacts(artifacts: ArtifactStore | str | None, settings: Settings) -> ArtifactStore:
    if isinstance(artifacts, str) or artifacts is None:
        return artifact_store(artifacts, settings)
    return artifacts


def _shelf(tools: Sequence[str], options: SessionOptions) -> Shelf:
    return Shelf(read_on(tools), options.budget, options.count)


def _tool_options(options: SessionOptions) -> ToolOptions:
    return ToolOptions(
        require_loaded=options.require_loaded,
        force_save=options.force_save,
        inline_bytes=options.inline_bytes,
        primary_bytes=options.primary_bytes,
        max_inline_bytes=options.max_inline_bytes,
        limits=options.limits,
        max_timeout=options.max_timeout,
        network=options.network,
        environment=options.environment,
        secrets=options.secrets_of,
        install=options.install,
    )


def _inherit(shared: OpenedSession, parent: str, agent: str) -> None:
    """Begin with what another agent has loaded now; from here on each goes its own way."""
    view, mine = shared.state.of(parent), shared.state.of(agent)
    changes = [Loaded(skill, view.docs(skill)) for skill in view.loaded() if not mine.is_loaded(skill)]
    shared.fold(
        [Recorded(shared.tick(), agent, change) for change in changes], agent, {"why": f"inherited from {parent}"}
    )
