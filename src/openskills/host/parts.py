"""A running host: what it is made of.

What one start of the host is told beside its settings. A value that can be handed to worker processes.

The parts of a running host, opened together and closed together.
"""

import asyncio
import os
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Protocol

from openskills.host.admission import Admission
from openskills.host.auth import Authenticator, KeyRing
from openskills.host.database import Database
from openskills.host.history import History
from openskills.host.http import BODY_TIMEOUT, PING_SECONDS
from openskills.host.idempotency import IdempotencyStore
from openskills.host.metrics import Metrics
from openskills.host.model import Registration, SkillRunner
from openskills.host.observers import AccessLog, AccessLogObserver, AccessLogSink, HistoryObserver, MetricsObserver
from openskills.host.registry.registry import Registry
from openskills.host.runners.table import ENTRY_POINT_GROUP, RUNNER_CLASSES
from openskills.host.runs import Runs
from openskills.host.service import Host, InvocationObserver
from openskills.settings import Settings

GRACE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class HostOptions:
    """`manifests` and `skills` are more directories with manifests and with SKILL.md folders.

    `json_log` is where a line for each invocation goes: a file, `-` for stdout, empty for nowhere. `workers` is how
    many processes share the limits and, in `numbers`, their metrics; `supervisor` is the process that they end with.
    `grace` is how many seconds running invocations get when the host is told to end. `watch` looks at the manifests
    for changes.
    """

    manifests: tuple[Path, ...] = ()
    skills: tuple[Path, ...] = ()
    json_log: str = "-"
    workers: int = 1
    numbers: Path | None = None
    supervisor: int | None = None
    grace: float = GRACE_SECONDS
    watch: bool = True
    body_seconds: float = BODY_TIMEOUT
    ping_seconds: float = PING_SECONDS


class RunnerTable(Protocol):
    """All runners."""

    def get_runner(self, registration: Registration) -> SkillRunner:
        """The one of a skill's kind; raises `SkillError`."""
        ...

    async def close(self) -> None:
        """End everything."""
        ...


@dataclass(slots=True)
class HostParts:
    """Everything that routes use. `start` is where the host was started; `prepared` says that every skill was tried.

    `ending` is set when answers without an end have to find one."""

    settings: Settings
    options: HostOptions
    start: Path
    registry: Registry
    runners: RunnerTable
    host: Host
    authenticator: Authenticator
    metrics: Metrics
    history: History
    idempotency: IdempotencyStore
    runs: Runs
    prepared: bool = False
    shutdown: asyncio.Event = field(default_factory=asyncio.Event)
    exit_stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def close(self) -> None:
        """Close what was opened, in the opposite order."""
        await self.exit_stack.aclose()


async def open_parts(settings: Settings, options: HostOptions, runners: RunnerTable) -> HostParts:
    """Open a host. Raises `SkillError` when something that is needed cannot be used."""
    start = Path.cwd()
    closing = AsyncExitStack()
    registry = await asyncio.to_thread(
        Registry.load, settings, manifests=options.manifests, skills=options.skills, start=start, kinds=list_kinds()
    )
    history = History(settings.host_history, settings.host_history_days)
    metrics = Metrics(options.numbers, history_lost=lambda: history.lost_count)
    # Workers share runs and answers through a file, whether or not a history is wanted.
    shared = settings.state_dir / "host.db" if options.workers > 1 else None
    database = Database(settings.host_history or shared)
    books: list[InvocationObserver] = [MetricsObserver(metrics), HistoryObserver(history)]
    # Last opened, first closed: runners end before the books of what they did are closed.
    closing.push_async_callback(database.close)
    closing.callback(metrics.close)
    closing.push_async_callback(history.close)
    if options.json_log:
        books.append(AccessLogObserver(_open_log(options.json_log, closing)))
    closing.push_async_callback(runners.close)
    runs = Runs(database)
    closing.push_async_callback(runs.close)
    capacity = settings.host_concurrency or 2 * (os.cpu_count() or 1)
    admission = Admission(capacity=capacity, queue=settings.host_queue, share=1 / options.workers, watch=metrics)
    host = Host(registry, runners, admission, secrets=settings.environment, watchers=tuple(books))
    return HostParts(
        settings,
        options,
        start,
        registry,
        runners,
        host,
        _open_authenticator(settings),
        metrics,
        history,
        IdempotencyStore(database),
        runs,
        exit_stack=closing,
    )


def list_kinds() -> tuple[str, ...]:
    """What may stand in a manifest as `type:runtime`: what we call ourselves, and what installed packages add."""
    return (*RUNNER_CLASSES, *(found.name for found in entry_points(group=ENTRY_POINT_GROUP)))


def _open_authenticator(settings: Settings) -> Authenticator:
    return Authenticator(
        KeyRing.open(settings.host_keys, required=True), KeyRing.open(settings.host_keys), settings.host_auth
    )


def _open_log(name: str, closing: AsyncExitStack) -> AccessLog:
    # Appended, a batch with one write: workers can share the file.
    sink: AccessLogSink = sys.stdout.buffer if name == "-" else closing.enter_context(open(name, "ab", buffering=0))  # noqa: SIM115
    log = AccessLog(sink)
    closing.callback(log.close)
    return log
