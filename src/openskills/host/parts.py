"""The parts of a running host, opened and closed together."""

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

from openskills.errors import SkillError
from openskills.filesystem import make_private
from openskills.host.admission import Admission, SharedBuckets
from openskills.host.auth import Authenticator, KeyRing, Principal
from openskills.host.cluster import ClusterMonitor
from openskills.host.commands import CommandOptions, HostCommands
from openskills.host.console.access import Console
from openskills.host.database import Database, find_database, find_history
from openskills.host.history import History
from openskills.host.http import BODY_TIMEOUT, PING_SECONDS
from openskills.host.idempotency import IdempotencyStore
from openskills.host.keys import HostKeys, open_key_store
from openskills.host.metrics import Metrics
from openskills.host.observers import AccessLog, HistoryObserver
from openskills.host.registry.registry import Registry
from openskills.host.runs import Runs
from openskills.host.service import Host, InvocationObserver, RunnerTable
from openskills.host.skills import SHARED, SkillStore, UploadQuota
from openskills.host.workers import WorkerHeartbeat, open_worker
from openskills.postgres import PostgresUrl
from openskills.project import SkillGrants
from openskills.settings import Settings

if TYPE_CHECKING:
    from openskills.host.conversations import Conversations

RevokeHandler: TypeAlias = Callable[[Callable[[object], bool]], Awaitable[None]]
GRACE_SECONDS = 30.0
_log = logging.getLogger("openskills.host")


@dataclass(frozen=True, slots=True)
class HostOptions:
    """Options of one start of the host besides its settings; can be pickled for worker processes.

    `manifests` and `skills` are further directories with manifests and with SKILL.md folders. `grants` is what scripts
    and programs may use besides what their manifests say, by skill (`*`: all). `json_log` is the file
    of the access log or its descriptor, `-` for stdout, empty for none; with `text_log` its lines are for people
    instead of JSON. `workers` processes share the limits and, in
    the directory `numbers`, their metrics; they stop with the process `supervisor`. With `read_help`, scripts without a
    manifest are run with `--help` in a sandbox to derive their schemas; `install` decides about packages that their
    skills declare (`never` or `always`). `grace` is how many seconds running invocations get at shutdown; for
    `drain_delay` seconds before that, new ones are served while `/readyz` says 503. `watch` reloads changed manifests.
    `mcp_tools` are those of `/mcp`: `session`, `hosted`, `both`, or `off` for no `/mcp`. `console` serves the web
    console at `/`; with `trusted` it shows skills of the project without asking for trust, and with `preload` it is
    prepared at the start.
    """

    manifests: tuple[Path, ...] = ()
    skills: tuple[Path, ...] = ()
    grants: Mapping[str, SkillGrants] = field(default_factory=dict[str, SkillGrants])
    read_help: bool = False
    install: str = "never"
    json_log: str | int = "-"
    text_log: bool = False
    workers: int = 1
    numbers: Path | None = None
    supervisor: int | None = None
    grace: float = GRACE_SECONDS
    drain_delay: float = 0.0
    watch: bool = True
    body_seconds: float = BODY_TIMEOUT
    ping_seconds: float = PING_SECONDS
    mcp_tools: str = "both"
    console: bool = True
    trusted: bool = False
    preload: bool = False


@dataclass(slots=True)
class HostParts:
    """Everything that routes use. `start` is the directory in which the host was started.

    `catalogs` opens the skills that callers may see, `console` is the same object, or None if it is off. `prepared` is
    True when all skills have been checked; `shutdown` is set to end open event streams. Functions in `on_reload` are
    called, and awaited if they can be, when skills have changed; those in `on_revoke` end what callers have running for
    whom the function that they get is true. `uploads` is None if uploads are off. `cluster` shows the nodes of a Ray
    cluster and the hosts that share a database.
    """

    settings: Settings
    options: HostOptions
    start: Path
    registry: Registry
    runners: RunnerTable
    host: Host
    database: Database
    keys: HostKeys
    authenticator: Authenticator
    metrics: Metrics
    history: History
    idempotency: IdempotencyStore
    runs: Runs
    commands: HostCommands
    catalogs: Console
    cluster: ClusterMonitor
    uploads: SkillStore | None = None
    console: Console | None = None
    prepared: bool = False
    shutdown: asyncio.Event = field(default_factory=asyncio.Event)
    exit_stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    on_reload: list[Callable[[], object]] = field(default_factory=list[Callable[[], object]])
    on_revoke: list[RevokeHandler] = field(default_factory=list[RevokeHandler])
    _conversations: "Conversations | None" = field(default=None, init=False, repr=False)

    @property
    def conversations(self) -> "Conversations":
        """Conversations with an agent. Opened on first use, because importing agents takes time."""
        if self._conversations is None:
            from openskills.host.conversations import Conversations

            self._conversations = Conversations(self.settings, self.commands.options, self.host, self.runs)
            self.on_revoke.append(self._conversations.end_invalid)
        return self._conversations

    async def end_invalid(self) -> None:
        """End the commands, turns and MCP sessions of callers whose keys were revoked, changed, or have expired."""

        def is_over(identity: object) -> bool:
            return isinstance(identity, Principal) and not self.authenticator.is_valid(identity)

        done = await asyncio.gather(*(end(is_over) for end in self.on_revoke), return_exceptions=True)
        for error in done:
            if error is not None:
                bug = None if isinstance(error, SkillError) else error
                message = "cannot end what callers with revoked keys have running, trying again: %s"
                _log.warning(message, error, exc_info=bug)

    async def close_conversations(self) -> None:
        """Close the conversations after their runs have ended."""
        if self._conversations is not None:
            await self._conversations.close()

    def list_skill_directories(self, owner: str) -> tuple[Path, ...]:
        """The directories with the SKILL.md folders that callers with this owner of private uploads may see.

        These are shared uploads, the folders of the operator, and private uploads; of equal names the last one counts.
        """
        if self.uploads is None:
            return self.options.skills
        own = (make_private(self.uploads.get_live(owner)),) if owner else ()
        return (self.uploads.get_live(SHARED), *self.options.skills, *own)

    async def close(self) -> None:
        await self.exit_stack.aclose()


async def open_parts(settings: Settings, options: HostOptions, runners: RunnerTable) -> HostParts:
    """Open a host. Raises `SkillError` for unusable settings, directories or key files."""
    start = Path.cwd()
    closing = AsyncExitStack()
    uploads = await _open_uploads(settings, closing)
    registry = await asyncio.to_thread(
        Registry,
        settings,
        manifests=options.manifests,
        skills=options.skills,
        grants=options.grants,
        start=start,
        read_help=options.read_help,
        install=options.install,
        uploads=None if uploads is None else uploads.live,
    )
    # Workers share runs and idempotent responses through a file, even if the history is off.
    is_shared = settings.host_database is not None or settings.host_history is not None or options.workers > 1
    database = Database(find_database(settings) if is_shared else None)
    ring = KeyRing(settings.host_keys if settings.host_database is None else None)
    keys = HostKeys(open_key_store(settings, database), ring)
    await keys.refresh()
    heartbeat = open_worker(database)
    worker = heartbeat if isinstance(heartbeat, WorkerHeartbeat) else None
    history = History(
        find_history(settings),
        settings.host_history_days,
        # With PostgreSQL the calls of this host are noted on its disk, too.
        journal=settings.state_dir / "host.db" if database.is_shared else None,
        worker=worker,
    )
    metrics = Metrics(options.numbers, history_lost=lambda: history.lost_count)
    observers: list[InvocationObserver] = [
        metrics,
        HistoryObserver(history, with_content=settings.host_history_content),
    ]
    # Runners are closed before the observers that record what they did.
    closing.push_async_callback(database.close)
    closing.callback(metrics.close)
    closing.push_async_callback(history.close)
    if options.json_log:
        observers.append(_open_log(options, closing))
    closing.push_async_callback(runners.close)
    runs = Runs(database, worker=worker and worker.share())
    # Skills also wait, so a small machine runs more of them than it has processors.
    capacity = settings.host_concurrency or max(2 * (os.cpu_count() or 1), 8)
    admission = Admission(
        capacity=capacity,
        queue=settings.host_queue,
        share=1 / options.workers,
        observer=metrics,
        shared=SharedBuckets(database) if database.is_shared else None,
    )
    host = Host(registry, runners, admission, secrets=settings.environment, observers=tuple(observers))
    metrics.count_with(lambda: host.in_flight)
    skills = options.skills if uploads is None else (uploads.get_live(SHARED), *options.skills)
    console = Console(settings, skills, start, ring, trusted=options.trusted, uploads=uploads)
    closing.push_async_callback(console.close)
    allowed = CommandOptions(
        console, bool(options.skills), options.grants, options.install, options.workers, settings.host_uploads
    )
    commands = HostCommands(settings, allowed, host, runs)
    authenticator = Authenticator(ring, settings.host_auth)
    idempotency = IdempotencyStore(database, worker and worker.share())
    cluster = ClusterMonitor(settings, database, worker and worker.id)
    if worker is not None:
        # Other hosts see it also if it is idle.
        worker.hold()
    if options.console:
        authenticator.sessions = console.sessions
    parts = HostParts(
        settings,
        options,
        start,
        registry,
        runners,
        host,
        database,
        keys,
        authenticator,
        metrics,
        history,
        idempotency,
        runs,
        commands,
        console,
        cluster,
        uploads,
        console if options.console else None,
        exit_stack=closing,
        on_revoke=[commands.end_invalid],
    )
    closing.push_async_callback(parts.close_conversations)
    closing.push_async_callback(commands.close)
    # Turns of conversations and commands are runs, so these end first.
    closing.push_async_callback(runs.close)
    closing.push_async_callback(idempotency.close)
    closing.push_async_callback(cluster.close)
    return parts


async def _open_uploads(settings: Settings, closing: AsyncExitStack) -> SkillStore | None:
    if settings.host_uploads is None:
        return None
    quota = UploadQuota(settings.host_quota_bytes, settings.host_quota_uploads)
    shared = find_database(settings)
    uploads = SkillStore(settings.host_uploads, quota, shared if isinstance(shared, PostgresUrl) else None)
    closing.push_async_callback(uploads.close)
    await uploads.open()
    return uploads


def _open_log(options: HostOptions, closing: AsyncExitStack) -> AccessLog:
    name = options.json_log
    # Each batch is one append, so that workers can share the file.
    buffering = 0 if isinstance(name, str) else -1
    sink: BinaryIO = sys.stdout.buffer if name == "-" else closing.enter_context(open(name, "ab", buffering))  # noqa: SIM115
    log = AccessLog(sink, as_text=options.text_log)
    closing.callback(log.close)
    return log
