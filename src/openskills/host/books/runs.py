"""Asynchronous runs: started by one request, looked at by others, in whichever worker those arrive.

Everything that is known of a run is in the host's database. The worker that does a run says every few seconds that it
is alive, and looks whether somebody wants to cancel; the runs of a worker that has died become `interrupted`.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from openskills.errors import StoreUnavailable, TooManyRequests, UnknownRun
from openskills.host.books import run_rows
from openskills.host.books.database import Database
from openskills.host.books.live_run import LiveRun, Make
from openskills.host.books.run_output import MOST_BYTES, MOST_EVENTS, RunOutput
from openskills.host.books.run_record import new_run_id
from openskills.host.books.run_states import Run, RunEvent, RunState

_log = logging.getLogger("openskills.host")
_CHUNK = 200
_FIRST_LOOK, _LAST_LOOK = 0.05, 1.0
_TIDY_EVERY = 60.0
_LAST_WORDS = 5.0


@dataclass(frozen=True, slots=True)
class RunLimits:
    """`live` runs at a time in a worker; how much of the output of each is kept; for how many seconds after its end,
    and how many that have ended are kept in all.

    A worker looks every `look` seconds for runs to cancel, says every `beat` that it is alive, and is taken for dead
    when it has not said so for `dead`.
    """

    live: int = 1_000
    output_bytes: int = MOST_BYTES
    events: int = MOST_EVENTS
    keep: float = 24 * 60 * 60.0
    kept: int = 10_000
    look: float = 0.5
    beat: float = 3.0
    dead: float = 20.0


class Runs:
    """The runs of a host, as one of its workers sees them. It belongs to one event loop."""

    def __init__(self, store: Database, limits: RunLimits | None = None) -> None:
        self._store = store
        self._limits = limits or RunLimits()
        self._worker = secrets.token_hex(8)
        self._live: dict[str, LiveRun] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._keeper: asyncio.Task[None] | None = None
        self._followers: dict[str, set[asyncio.Event]] = {}
        self._tidied = 0.0

    @property
    def live(self) -> int:
        """How many runs are under way in this worker."""
        return len(self._live)

    async def start(
        self,
        make: Make,
        *,
        skill_id: str,
        trace_id: str,
        principal: str,
        version: str = "",
        run_id: str | None = None,
    ) -> Run:
        """Begin a run: `make` does it, and gets a listener for what the skill shows meanwhile.

        The first thing that is shown makes it `running`; who knows when the skill has got its place emits `start` then.
        Raises `TooManyRequests` when this worker has too many, and `StoreUnavailable`.
        """
        if len(self._live) >= self._limits.live:
            message = f"{len(self._live)} asynchronous runs are under way; wait for some of them, or try again later"
            raise TooManyRequests(message, limit="runs", retry_after=1.0)
        now = time.time()
        found = run_id or new_run_id(now)
        run = Run(found, principal, skill_id, trace_id, version, RunState.QUEUED, self._worker, now)
        output = RunOutput(self._limits.output_bytes, self._limits.events)
        live = self._live[run.id] = LiveRun(run, self._store, output, lambda: self._tell(run.id))
        try:
            await self._store.write(lambda at: run_rows.put(at, run, now))
        except BaseException:
            del self._live[run.id]
            raise
        self._begin(live, make, run.id)
        return run

    async def get(self, run_id: str, *, principal: str | None = None) -> Run:
        """A run as it is now. Raises `UnknownRun`, for one of another principal too, and `StoreUnavailable`."""
        found = await self._store.read(lambda at: run_rows.get(at, run_id))
        if found is not None and self._is_orphan(*found):
            await self._interrupt()
            found = await self._store.read(lambda at: run_rows.get(at, run_id))
        if found is None or (principal is not None and found[0].principal != principal):
            raise UnknownRun("there is no such run; runs are kept for a day after their end", id=run_id[:100])
        return found[0]

    async def events(self, run_id: str, after: int = 0, *, principal: str | None = None) -> AsyncGenerator[RunEvent]:
        """What a run has shown after the event with this id, then what it shows, to its end.

        The last event is of the kind `result`. Raises like `get`.
        """
        await self.get(run_id, principal=principal)
        wake = asyncio.Event()
        self._followers.setdefault(run_id, set()).add(wake)
        try:
            async with aclosing(self._followed(run_id, after, wake)) as followed:
                async for event in followed:
                    yield event
        finally:
            self._followers[run_id].discard(wake)
            if not self._followers[run_id]:
                del self._followers[run_id]

    async def cancel(self, run_id: str, *, principal: str | None = None) -> Run:
        """Have a run end soon; one that has ended stays as it is. Raises like `get`."""
        run = await self.get(run_id, principal=principal)
        if run.ended is not None:
            return run
        live = self._live.get(run_id)
        if live is not None:
            live.cancel()
        await self._store.write(lambda at: run_rows.request_cancel(at, run_id))
        return await self.get(run_id, principal=principal)

    async def close(self, grace: float = 0.0) -> None:
        """Let the runs of this worker go on for so many seconds, then end them; those are `interrupted`."""
        if self._tasks and grace > 0:
            await asyncio.wait(self._tasks, timeout=grace)
        for live in self._live.values():
            live.stop()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_LAST_WORDS)
        # Those that are left wait for a disk to write their end to.
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])

    def _begin(self, live: LiveRun, make: Make, run_id: str) -> None:
        task = asyncio.get_running_loop().create_task(live.go(make))
        self._tasks.add(task)
        task.add_done_callback(lambda task: self._over(task, run_id))
        if self._keeper is None or self._keeper.done():
            self._keeper = asyncio.get_running_loop().create_task(self._keep())

    def _over(self, task: "asyncio.Task[None]", run_id: str) -> None:
        self._tasks.discard(task)
        self._live.pop(run_id, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("the run %s failed through a fault of the host", run_id, exc_info=error)

    def _tell(self, run_id: str) -> None:
        for wake in self._followers.get(run_id, ()):
            wake.set()

    async def _followed(self, run_id: str, after: int, wake: asyncio.Event) -> AsyncGenerator[RunEvent]:
        pause = _FIRST_LOOK
        while True:
            wake.clear()
            run, beaten, events = await self._look(run_id, after)
            for event in events:
                after = event.id
                yield event
            if run.ended is not None and len(events) < _CHUNK:
                return
            if self._is_orphan(run, beaten):
                await self._interrupt()
            elif not events:
                pause = await self._wait(run_id, wake, pause)
            else:
                pause = _FIRST_LOOK

    async def _look(self, run_id: str, after: int) -> tuple[Run, float, list[RunEvent]]:
        try:
            return await self._store.read(lambda at: run_rows.events_after(at, run_id, after, _CHUNK))
        except LookupError:
            raise UnknownRun("the run is over for so long that it was removed", id=run_id) from None

    async def _wait(self, run_id: str, wake: asyncio.Event, pause: float) -> float:
        """Wait for news of a run. Ours are told at once; of others we look less and less often."""
        ours = run_id in self._live
        try:
            async with asyncio.timeout(_LAST_LOOK if ours else pause):
                await wake.wait()
        except TimeoutError:
            return min(pause * 1.5, _LAST_LOOK)
        return _FIRST_LOOK

    def _is_orphan(self, run: Run, beaten: float) -> bool:
        return run.ended is None and run.worker != self._worker and beaten < time.time() - self._limits.dead

    async def _interrupt(self) -> None:
        now = time.time()
        await self._store.write(
            lambda at: run_rows.interrupt(at, before=now - self._limits.dead, worker=self._worker, now=now)
        )

    async def _keep(self) -> None:
        """As long as there are runs: say that we live, look for what is to be cancelled, remove what is old."""
        beaten = time.monotonic()
        while self._live:
            await asyncio.sleep(self._limits.look)
            try:
                for run_id in await self._store.read(lambda at: run_rows.to_cancel(at, self._worker)):
                    if run_id in self._live:
                        self._live[run_id].cancel()
                if time.monotonic() - beaten >= self._limits.beat:
                    beaten = time.monotonic()
                    await self._store.write(lambda at: run_rows.beat(at, self._worker, time.time()))
                    await self._tidy()
            except StoreUnavailable as error:
                _log.warning("runs cannot be looked after: %s", error)

    async def _tidy(self) -> None:
        now = time.time()
        if now - self._tidied < _TIDY_EVERY:
            return
        await self._interrupt()
        limits = self._limits
        if await self._store.write(lambda at: run_rows.forget(at, before=now - limits.keep, most=limits.kept)):
            self._tidied = now
