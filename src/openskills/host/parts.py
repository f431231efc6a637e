"""The parts of a running host, opened together and closed together."""

import asyncio
import os
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Protocol

from openskills.host.books.access_log import AccessLog, Sink
from openskills.host.books.admission import Admission
from openskills.host.books.books import HistoryBook, LogBook, MetricsBook
from openskills.host.books.database import Database
from openskills.host.books.history import History
from openskills.host.books.idempotency import Idempotency
from openskills.host.books.keys import KeyRing
from openskills.host.books.metrics import Metrics
from openskills.host.books.runs import Runs
from openskills.host.invocation import Watcher
from openskills.host.options import HostOptions
from openskills.host.registration import Registration
from openskills.host.registry.registry import Registry
from openskills.host.runner import Runner
from openskills.host.running.runners import GROUP, KINDS
from openskills.host.service import Host
from openskills.host.wire.gate import Gate
from openskills.settings import Settings


class RunnerTable(Protocol):
    """All runners."""

    def for_(self, registration: Registration) -> Runner:
        """The one of a skill's kind; raises `SkillError`."""
        ...

    async def close(self) -> None:
        """End everything."""
        ...


@dataclass(slots=True)
class Parts:
    """Everything that routes use. `start` is where the host was started; `prepared` says that every skill was tried.

    `ending` is set when answers without an end have to find one."""

    settings: Settings
    options: HostOptions
    start: Path
    registry: Registry
    runners: RunnerTable
    host: Host
    gate: Gate
    metrics: Metrics
    history: History
    idempotency: Idempotency
    runs: Runs
    prepared: bool = False
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    closing: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def close(self) -> None:
        """Close what was opened, in the opposite order."""
        await self.closing.aclose()


async def open_parts(settings: Settings, options: HostOptions, runners: RunnerTable) -> Parts:
    """Open a host. Raises `SkillError` when something that is needed cannot be used."""
    start = Path.cwd()
    closing = AsyncExitStack()
    registry = await asyncio.to_thread(
        Registry.load, settings, manifests=options.manifests, skills=options.skills, start=start, kinds=kinds()
    )
    history = History(settings.host_history, settings.host_history_days)
    metrics = Metrics(options.numbers, history_lost=lambda: history.lost)
    # Workers share runs and answers through a file, whether or not a history is wanted.
    shared = settings.state_dir / "host.db" if options.workers > 1 else None
    database = Database(settings.host_history or shared)
    books: list[Watcher] = [MetricsBook(metrics), HistoryBook(history)]
    # Last opened, first closed: runners end before the books of what they did are closed.
    closing.push_async_callback(database.close)
    closing.callback(metrics.close)
    closing.push_async_callback(history.close)
    if options.json_log:
        books.append(LogBook(_opened_log(options.json_log, closing)))
    closing.push_async_callback(runners.close)
    runs = Runs(database)
    closing.push_async_callback(runs.close)
    capacity = settings.host_concurrency or 2 * (os.cpu_count() or 1)
    admission = Admission(capacity=capacity, queue=settings.host_queue, share=1 / options.workers, watch=metrics)
    host = Host(registry, runners, admission, secrets=settings.environment, watchers=tuple(books))
    return Parts(
        settings,
        options,
        start,
        registry,
        runners,
        host,
        _gate(settings),
        metrics,
        history,
        Idempotency(database),
        runs,
        closing=closing,
    )


def kinds() -> tuple[str, ...]:
    """What may stand in a manifest as `type:runtime`: what we call ourselves, and what installed packages add."""
    return (*KINDS, *(found.name for found in entry_points(group=GROUP)))


def _gate(settings: Settings) -> Gate:
    return Gate(KeyRing.open(settings.host_keys, required=True), KeyRing.open(settings.host_keys), settings.host_auth)


def _opened_log(name: str, closing: AsyncExitStack) -> AccessLog:
    # Appended, a batch with one write: workers can share the file.
    sink: Sink = sys.stdout.buffer if name == "-" else closing.enter_context(open(name, "ab", buffering=0))  # noqa: SIM115
    log = AccessLog(sink)
    closing.callback(log.close)
    return log
