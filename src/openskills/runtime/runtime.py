"""`SkillRuntime`: skills, an executor and stores for any number of conversations."""

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from copy import copy
from functools import partial
from weakref import WeakValueDictionary

from openskills.arguments import check_arguments
from openskills.artifacts.open import open_artifact_store, open_object_store
from openskills.artifacts.store import ArtifactStore, Scope
from openskills.catalog.catalog import Catalog
from openskills.concurrency import AsyncCloseable, CrossLoopLock
from openskills.errors import ExecutorUnavailable, SkillError
from openskills.executors.checkpoints import refresh_workspace, remove_checkpoints, save_workspace
from openskills.executors.commands import CommandRules, CommandRunner, build_workspace_key, open_command_runner
from openskills.executors.interactive import InteractiveCommands, ProcessOwner, ProcessTable
from openskills.executors.open import open_executor
from openskills.executors.policy import CommandPolicy
from openskills.executors.protocol import Executor
from openskills.executors.records.quota import Quota
from openskills.executors.workspace import DirectoryWorkspace
from openskills.runtime.branch import Branch, BranchedConversation
from openskills.runtime.conversation import (
    Conversation,
    ConversationCache,
    ConversationPool,
    LeaseTerms,
    describe_holder,
)
from openskills.runtime.options import SessionOptions
from openskills.runtime.session import OverviewCache, SkillSession
from openskills.session.events import check_id
from openskills.session.memory import MemorySessionStore
from openskills.session.open import open_session_store
from openskills.session.state import Loaded, RecordedChange
from openskills.session.store import SessionStore
from openskills.settings import Settings
from openskills.tools.approvals import Approvals
from openskills.tools.loaded_texts import LoadedTexts
from openskills.tools.names import build_continuation_hint
from openskills.tools.tool import ToolContext

_LOG = logging.getLogger("openskills")
_MAX_OVERVIEWS = 8


@check_arguments
class SkillRuntime(AsyncCloseable):
    """Skills, an executor for their commands, and stores, for any number of conversations. Close it, or `async with`.

    `executor` is a name (`auto`, `sandbox`, `container`, `local`, …), an `Executor`, or None: then skills can be read
    but not run. `artifacts` is a store or its address (`s3://bucket`), by default that of `open_artifact_store`.
    `store` keeps conversations: a store or its address (`sqlite:///sessions.db`, `postgresql://…`, `redis://…`), by
    default in memory. A conversation is open in one runtime at a time, on all machines that share the store.
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
        self._owns_store = store is None or isinstance(store, str)
        if isinstance(store, str):
            store = open_session_store(store, self.settings)
        self.store: SessionStore = MemorySessionStore() if store is None else store
        if artifacts is None or isinstance(artifacts, str):
            artifacts = open_artifact_store(artifacts, self.settings)
        self.artifacts: ArtifactStore = artifacts
        self._executor = open_executor(executor, self.settings) if isinstance(executor, str) else executor
        self._owns_executor = isinstance(executor, str)
        self._name = secrets.token_hex(4)
        self._storage = open_object_store(self.settings.storage, self.settings) if self.settings.storage else None
        self._sessions = ConversationPool(self._create_conversation)
        # A lock lives while it is held or waited for.
        self._runs: WeakValueDictionary[Scope, CrossLoopLock] = WeakValueDictionary()
        self._processes = ProcessTable()
        self._layers: list[tuple[SessionOptions, OverviewCache]] = []
        self._is_derived = False
        # Check the options now, not in the first conversation.
        self._get_overviews(self.options)

    @check_arguments
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
        parent: SkillSession | None = None,
        keep_commands: bool = True,
    ) -> AsyncGenerator[SkillSession]:
        """Open a session: one agent in one conversation, whose agents share workspace and files, but not loaded skills.

        With `inherit_from`, it starts with the loaded skills of another agent. With a `branch`, the state comes from
        there and is not stored. With a `parent`, which is a session of another runtime and stays open, commands use
        its workspace and files. Without `keep_commands`, interactive commands that still run at the end are killed.
        Raises `SessionInUse` if another runtime has the conversation open for longer than `Settings.lease_wait`.
        """
        chosen = options or self.options
        check_id("agent", agent)
        lender = None if parent is None or self._executor is None else parent.lend_workspace()
        shared = await self._sessions.acquire(Scope(app, user, session), agent, lender)
        try:
            used = shared if branch is None else BranchedConversation(shared, branch)
            opened = self._create_session(used, agent, chosen)
            if isinstance(used, BranchedConversation):
                opened.ledger = used.get_ledger(agent)
            if inherit_from is not None:
                _inherit(used, inherit_from, agent)
            try:
                yield opened
            finally:
                opened.close()
                await opened.close_shell()
        finally:
            await self._sessions.release(shared, keep_commands=keep_commands)

    @check_arguments
    def with_catalog(self, catalog: Catalog, options: SessionOptions | None = None) -> "SkillRuntime":
        """A runtime with other skills that shares everything else, also open sessions: for sub-agents.

        It needs no closing, and cannot be used after this runtime was closed.
        """
        other = copy(self)
        other.catalog = catalog
        other.options = options or self.options
        other._layers = []  # noqa: SLF001 - a copy of ourselves
        other._is_derived = True  # noqa: SLF001
        other._get_overviews(other.options)  # noqa: SLF001
        return other

    def tool_names(self, options: SessionOptions | None = None) -> tuple[str, ...]:
        """The tools of sessions with these options, for the current catalog."""
        return self._get_overviews(options or self.options).get().tools

    def get_run_lock(self, scope: Scope) -> CrossLoopLock:
        """The lock to hold while running an agent in a conversation, so that runs do not interleave."""
        return self._runs.setdefault(scope, CrossLoopLock())

    async def is_isolated(self) -> bool:
        """Whether something isolates commands. Raises `ExecutorUnavailable`."""
        return self._executor is not None and str(await self._executor.check()) != "none"

    def count_commands(self, user: str, *, app: str = "openskills") -> int:
        """How many interactive commands of a user are running, in all sessions."""
        return self._processes.count_running(app, user)

    async def remove_workspace(self, session: str, *, user: str = "local", app: str = "openskills") -> bool:
        """Remove the workspace of a session that is not open, with its files and checkpoints; false without any."""
        if self._executor is None:
            return False
        key = build_workspace_key(Scope(app, user, session))
        was_saved = self._storage is not None and await remove_checkpoints(self._storage, key)
        return await self._executor.remove(key) or was_saved

    def find_loop(self, scope: Scope) -> asyncio.AbstractEventLoop | None:
        """The event loop of a conversation's interactive commands, which can only be used there; None without any."""
        return self._sessions.find_loop(scope)

    async def close(self) -> None:
        """Kill all commands and close all workspaces; files, artifacts and sessions stay."""
        if self._is_derived:
            return
        # First, because each conversation closes its commands in its own event loop.
        failed = await self._sessions.close()
        await self._processes.close()
        if self._owns_executor and self._executor is not None:
            await self._executor.close()
        if self._owns_store and (close := getattr(self.store, "close", None)) is not None:
            await close()
        if failed:
            raise failed[0]

    def _create_conversation(self, scope: Scope, cache: ConversationCache) -> Conversation:
        settings = self.settings
        terms = LeaseTerms(describe_holder(self._name), settings.lease_ttl, settings.lease_wait)
        return Conversation(scope, self.store, self._open_runner, cache, terms, self._save_workspace)

    async def _open_runner(self, shared: Conversation) -> CommandRunner:
        if self._executor is None:
            raise ExecutorUnavailable("no executor; pass one to SkillRuntime, such as executor='sandbox'")
        runner = await open_command_runner(self._executor, self.settings, shared.scope, artifacts=self.artifacts)
        workspace = runner.workspace
        if self._storage is not None and isinstance(workspace, DirectoryWorkspace):
            try:
                epoch, owner = shared.lease.epoch if shared.lease else 0, workspace.owner
                found = await refresh_workspace(workspace.directory, self._storage, runner.key, epoch, owner=owner)
            except BaseException:
                await runner.close()
                raise
            if found is not None:
                runner.notes.extend(found.describe_loss())
        return runner

    async def _save_workspace(self, shared: Conversation, runner: CommandRunner) -> None:
        """Save the files of a closed workspace, so that another machine can continue with them."""
        workspace = runner.workspace
        if self._storage is None or not isinstance(workspace, DirectoryWorkspace):
            return
        quota = Quota(max_bytes=self.settings.workspace_bytes, max_files=self.settings.workspace_files)
        epoch = shared.lease.epoch if shared.lease else 0
        try:
            await save_workspace(workspace.directory, self._storage, runner.key, epoch, quota=quota)
        except SkillError as error:
            # The turn has ended, and its files are still here: the next one saves them.
            _LOG.warning("the workspace of session %r was not saved: %s", shared.scope.session, error.message)

    def _create_session(self, shared: Conversation, agent: str, options: SessionOptions) -> SkillSession:
        rules = self._build_rules(shared, agent, options)
        overviews = self._get_overviews(options)
        tools, executor = overviews.get().tools, self._executor
        owner = ProcessOwner(shared.scope.app, shared.scope.user, shared.scope.session, agent)

        async def open_runner() -> CommandRunner:
            return await shared.open_runner(agent, rules)

        async def open_commands() -> InteractiveCommands:
            return shared.get_commands(owner, await open_runner(), self._processes)

        context = ToolContext(
            agent=agent,
            scope=shared.scope,
            skills=overviews.get().skills,
            view=lambda: shared.state.view_for(agent),
            loaded_texts=shared.get_loaded_texts(
                (agent, tools, options.budget, options.count),
                partial(LoadedTexts, build_continuation_hint(tools), options.budget, options.count),
            ),
            uploads=shared.uploads,
            open_runner=open_runner,
            open_commands=open_commands,
            artifacts=self.artifacts,
            options=options,
            tools=tools,
            take_snapshot=None if executor is None else lambda skill: executor.snapshot(skill.name, skill.path),
            prepare_workspace=None if executor is None else shared.prepare_workspace,
        )
        if options.download is not None:
            shared.uploads.download = options.download
        return SkillSession(shared, overviews, context, options, trace_content=self.settings.trace_content)

    def _get_overviews(self, options: SessionOptions) -> OverviewCache:
        """The overview for these options, cached because many conversations share them."""
        for known, made in self._layers:
            if known is options:
                return made
        note = self._build_policy(options).describe()
        made = OverviewCache(self.catalog, options, executor=self._executor is not None, policy_note=note)
        self._layers = [(options, made), *self._layers[: _MAX_OVERVIEWS - 1]]
        return made

    def _build_policy(self, options: SessionOptions) -> CommandPolicy:
        settings = self.settings
        allowed = settings.allowed_commands if options.allowed_commands is None else options.allowed_commands
        denied = settings.denied_commands if options.denied_commands is None else options.denied_commands
        return CommandPolicy.of(allowed, denied)

    def _build_rules(self, shared: Conversation, agent: str, options: SessionOptions) -> CommandRules:
        settings = self.settings
        # Without anybody to ask, nothing is installed.
        ask = options.ask_install or options.ask
        install = shared.get_approvals((agent, ask, "install"), partial(Approvals, ask)) if ask is not None else None
        return CommandRules(
            policy=self._build_policy(options),
            approve=self._get_approvals(shared, agent, options),
            approve_install=install,
            host_roots=settings.host_roots if options.host_roots is None else options.host_roots,
            values=options.secrets,
            network=tuple({host for grants in options.grants.values() for host in grants.network}),
            index=options.index,
        )

    def _get_approvals(self, shared: Conversation, agent: str, options: SessionOptions) -> Approvals | None:
        if options.ask is None and not options.restrict:
            return None
        made = partial(Approvals, options.ask, allowed_tools_of=self._find_allowed_tools, restrict=options.restrict)
        return shared.get_approvals((agent, options.ask, options.restrict), made)

    def _find_allowed_tools(self, skill: str) -> tuple[str, ...]:
        return self.catalog.snapshot.get(skill).manifest.allowed_tools


def _inherit(shared: Conversation, parent: str, agent: str) -> None:
    view, mine = shared.state.view_for(parent), shared.state.view_for(agent)
    changes = [Loaded(skill, view.docs(skill)) for skill in view.list_loaded() if not mine.is_loaded(skill)]
    shared.fold(
        [RecordedChange(shared.tick(), agent, change) for change in changes], agent, {"why": f"inherited from {parent}"}
    )
