"""Asynchronous runs.

What is kept around invocations: who may call, how many wait, what ran, what it was like.

What a run shows, until it is written: bounded, and it says what was cut. Pure, but for the time.

A run that goes on while nobody waits for it: what is known of it, and what it shows. Pure.

Runs and their events as rows of the host's database. Blocking.

One run in the process that does it: its task, and its events on their way to the database.

Asynchronous runs: started by one request, looked at by others, in whichever worker those arrive.

Everything that is known of a run is in the host's database. The worker that does a run says every few seconds that it
is alive, and looks whether somebody wants to cancel; the runs of a worker that has died become `interrupted`.
"""

import asyncio
import json
import logging
import os
import secrets
import sqlite3
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import orjson

from openskills.errors import RunCancelled, RunInterrupted, SkillError, StoreUnavailable, TooManyRequests, UnknownRun
from openskills.host.database import Database, select_rows
from openskills.host.history import new_run_id
from openskills.host.http import encode_result
from openskills.host.model import InvokeResult, Listener, SkillOutputEvent, failure_outcome, normalize_outcome

MAX_OUTPUT_BYTES = 1024 * 1024
MAX_EVENTS = 10_000
CUT_EVENT = "cut"


@dataclass(frozen=True, slots=True)
class PendingEvent:
    """An event before it has an id."""

    kind: str
    at: float
    data: bytes


class RunOutput:
    """Events of one run that wait to be written. After `most_bytes` or `most_events` no more are kept, only counted."""

    def __init__(self, most_bytes: int = MAX_OUTPUT_BYTES, most_events: int = MAX_EVENTS) -> None:
        self._most_bytes = most_bytes
        self._most_events = most_events
        self._waiting: list[PendingEvent] = []
        self._bytes = 0
        self._events = 0
        self.cut = 0

    def add(self, emitted: SkillOutputEvent) -> None:
        """Keep an event, or count what was cut. With the first that is cut there is an event that says so."""
        data = encode_data(emitted.data)
        if self._bytes + len(data) <= self._most_bytes and self._events < self._most_events:
            self._bytes += len(data)
            self._events += 1
            self._waiting.append(PendingEvent(emitted.kind, time.time(), data))
            return
        if not self.cut:
            said = {"kept_bytes": self._bytes, "kept_events": self._events, "reason": "the output is too large to keep"}
            self._waiting.append(PendingEvent(CUT_EVENT, time.time(), encode_data(said)))
        self.cut += len(data)

    def take(self) -> list[PendingEvent]:
        """What waits; then nothing does."""
        waiting, self._waiting = self._waiting, []
        return waiting

    def put_back(self, shown: list[PendingEvent]) -> None:
        """It could not be written: it waits again, before what came meanwhile."""
        self._waiting[:0] = shown


def encode_data(data: object) -> bytes:
    """JSON of whatever a skill shows: half characters are escaped, what is no JSON is shown as text."""
    try:
        return orjson.dumps(data, default=str)
    except TypeError:
        return json.dumps(data, default=str).encode()


class RunState(StrEnum):
    """`QUEUED` waits for a place, `RUNNING` has shown something; the others are ends.

    `INTERRUPTED`: the process that ran it has ended, and nobody knows how far it got.
    """

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class Run:
    """One run. Times are in seconds since 1970. `cut` is how many bytes of its output were not kept.

    `result` is the Normalized Skill Result as JSON, and `status` its HTTP status; both are there when it has `ended`.
    """

    id: str
    principal: str
    skill_id: str
    trace_id: str
    version: str
    state: RunState
    worker: str
    created: float
    started: float | None = None
    ended: float | None = None
    cancel: bool = False
    cut: int = 0
    status: int | None = None
    result: bytes | None = field(default=None, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """As the wire has it."""
        return {
            "id": self.id,
            "state": self.state.value,
            "skill_id": self.skill_id,
            "trace_id": self.trace_id,
            "version": self.version,
            "created": _format_time(self.created),
            "started": _format_time(self.started),
            "ended": _format_time(self.ended),
            "cancel_requested": self.cancel,
            "cut_bytes": self.cut,
            "result": None if self.result is None else orjson.Fragment(self.result),
        }


@dataclass(frozen=True, slots=True)
class RunEvent:
    """Something that a run has shown; `data` is JSON. Ids grow by one. The last is of the kind `result`.

    `kind` is one of `start`, `stdout`, `stderr`, `progress`, `artifact`, `cut`, `result`.
    """

    id: int
    kind: str
    at: float
    data: bytes


def complete_run(run: Run, state: RunState, result: InvokeResult, now: float, *, cut: int = 0) -> Run:
    """The run at its end."""
    said, body = encode_result(result)
    return replace(run, state=state, ended=now, status=said.status, result=body, cut=cut)


def build_error_result(run: Run, error: SkillError, now: float) -> InvokeResult:
    """The result of a run that came to none by itself."""
    return normalize_outcome(
        failure_outcome(error),
        skill_id=run.skill_id,
        trace_id=run.trace_id,
        latency_ms=max(now - run.created, 0.0) * 1000.0,
        version=run.version,
    )


def _format_time(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


RESULT_EVENT = "result"
_COLUMNS = tuple(field.name for field in fields(Run))
_NAMES = ", ".join(f"runs.{name}" for name in _COLUMNS)
_STATE, _CANCEL = _COLUMNS.index("state"), _COLUMNS.index("cancel")
# The words below are our own; nothing from outside is ever in the SQL.
_INSERT_RUN = f"INSERT INTO runs ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608
_SELECT_RUN = f"SELECT {_NAMES}, beat FROM runs LEFT JOIN workers ON workers.id = worker WHERE runs.id = ?"  # noqa: S608
_SELECT_ORPHANS = f"""
    SELECT {_NAMES}, beat FROM runs LEFT JOIN workers ON workers.id = worker
    WHERE ended IS NULL AND coalesce(beat, 0) < ? AND worker != ? LIMIT 100
"""  # noqa: S608
_UPSERT_WORKER = "INSERT OR REPLACE INTO workers (id, pid, beat) VALUES (?, ?, ?)"
_UPDATE_END = "UPDATE runs SET state = ?, ended = ?, status = ?, result = ?, cut = ? WHERE id = ?"
_INSERT_EVENT = "INSERT INTO run_events (run, seq, kind, at, data) VALUES (?, ?, ?, ?, ?)"
_SELECT_LAST_SEQ = "SELECT coalesce(max(seq), 0) FROM run_events WHERE run = ?"
_SELECT_EVENTS = "SELECT seq, kind, at, data FROM run_events WHERE run = ? AND seq > ? ORDER BY seq LIMIT ?"
_SELECT_TO_CANCEL = "SELECT id FROM runs WHERE ended IS NULL AND worker = ? AND cancel = 1"
_SELECT_OLD = "SELECT id FROM runs WHERE ended < ? ORDER BY ended LIMIT ?"
_SELECT_OLDEST_KEPT = "SELECT ended FROM runs WHERE ended IS NOT NULL ORDER BY ended DESC LIMIT 1 OFFSET ?"
_DELETE_BATCH = 200


def _insert_run(at: sqlite3.Connection, run: Run, now: float) -> None:
    """A new run, whose worker is alive."""
    _record_heartbeat(at, run.worker, now)
    at.execute(_INSERT_RUN, tuple(getattr(run, name) for name in _COLUMNS))


def _record_heartbeat(at: sqlite3.Connection, worker: str, now: float) -> None:
    """A worker says that it is alive."""
    at.execute(_UPSERT_WORKER, (worker, os.getpid(), now))


def _select_run(at: sqlite3.Connection, run_id: str) -> tuple[Run, float] | None:
    """A run, and when its worker was last known to be alive."""
    return next((_run_from_row(row) for row in select_rows(at, _SELECT_RUN, (run_id,))), None)


def _insert_events(at: sqlite3.Connection, run_id: str, shown: Sequence[PendingEvent], now: float) -> None:
    """Keep what a run has shown: it is running, then."""
    _append_events(at, run_id, shown)
    at.execute("UPDATE runs SET state = 'running', started = ? WHERE id = ? AND state = 'queued'", (now, run_id))


def _select_events(at: sqlite3.Connection, run_id: str, after: int, limit: int) -> tuple[Run, float, list[RunEvent]]:
    """The run, when its worker was alive, and the next events: if it has ended, they are all there."""
    # Asked for first: the last event comes in the same transaction as the end.
    found = _select_run(at, run_id)
    if found is None:
        raise LookupError(run_id)
    run, beaten = found
    events = [RunEvent(*row) for row in select_rows(at, _SELECT_EVENTS, (run_id, after, limit))]
    return run, beaten, [_add_result(event, run) for event in events]


def _record_end(at: sqlite3.Connection, run: Run, shown: Sequence[PendingEvent]) -> None:
    """A run has ended: `run` has the state, the time, the result. What waits of its events comes before the last."""
    # The result is in the row of the run, once.
    _append_events(at, run.id, [*shown, PendingEvent(RESULT_EVENT, run.ended or 0.0, b"")])
    at.execute(_UPDATE_END, (run.state, run.ended, run.status, run.result, run.cut, run.id))


def _record_cancel_request(at: sqlite3.Connection, run_id: str) -> None:
    """Its worker will see it."""
    at.execute("UPDATE runs SET cancel = 1 WHERE id = ? AND ended IS NULL", (run_id,))


def _select_to_cancel(at: sqlite3.Connection, worker: str) -> list[str]:
    """The runs of a worker that somebody wants to end."""
    return [run_id for (run_id,) in select_rows(at, _SELECT_TO_CANCEL, (worker,))]


def _mark_interrupted(at: sqlite3.Connection, *, before: float, worker: str, now: float) -> int:
    """End the runs whose workers were last alive before that time; how many those were, at most 100.

    Not those of `worker`, who asks: it is alive, even if it was asleep.
    """
    found = [run for run, _ in map(_run_from_row, select_rows(at, _SELECT_ORPHANS, (before, worker)))]
    for run in found:
        _record_end(at, _interrupt_run(run, now), ())
    return len(found)


def _delete_old(at: sqlite3.Connection, *, before: float, most: int) -> bool:
    """Remove runs that ended before that time, and all but the latest `most`; False when there are more to remove."""
    kept = select_rows(at, _SELECT_OLDEST_KEPT, (max(most - 1, 0),))
    limit = max(before, kept[0][0]) if kept else before
    old = select_rows(at, _SELECT_OLD, (limit, _DELETE_BATCH))
    at.executemany("DELETE FROM run_events WHERE run = ?", old)
    at.executemany("DELETE FROM runs WHERE id = ?", old)
    at.execute("DELETE FROM workers WHERE beat < ? AND id NOT IN (SELECT worker FROM runs)", (before,))
    return len(old) < _DELETE_BATCH


def _append_events(at: sqlite3.Connection, run_id: str, shown: Sequence[PendingEvent]) -> None:
    ((last,),) = select_rows(at, _SELECT_LAST_SEQ, (run_id,))
    numbered = enumerate(shown, last + 1)
    at.executemany(_INSERT_EVENT, [(run_id, number, one.kind, one.at, one.data) for number, one in numbered])


def _run_from_row(row: Sequence[Any]) -> tuple[Run, float]:
    *values, beaten = row
    values[_STATE], values[_CANCEL] = RunState(values[_STATE]), bool(values[_CANCEL])
    return Run(*values), beaten or 0.0


def _add_result(event: RunEvent, run: Run) -> RunEvent:
    return RunEvent(event.id, event.kind, event.at, run.result or b"null") if event.kind == RESULT_EVENT else event


def _interrupt_run(run: Run, now: float) -> Run:
    error = RunInterrupted("the process of the host that ran this has ended; how far the skill got is not known")
    return complete_run(run, RunState.INTERRUPTED, build_error_result(run, error, now), now)


RunFunction = Callable[[Listener], Awaitable[InvokeResult]]

_FIRST_PAUSE, _MAX_PAUSE = 0.1, 30.0


class LiveRun:
    """Does a run, writes what it shows, and at last how it ended. `changed` is called when something was written."""

    def __init__(self, run: Run, store: Database, output: RunOutput, changed: Callable[[], None]) -> None:
        self._run = run
        self._store = store
        self._output = output
        self._changed = changed
        self._writing: asyncio.Task[None] | None = None
        self._doing: asyncio.Task[InvokeResult] | None = None
        self._cancelled = False
        self._stopped = False
        self._ended = False

    async def run(self, make: RunFunction) -> None:
        """Do it, to the end, whatever that is. A cancellation of this ends the skill and is written as interrupted."""
        state, result = await self._execute(make)
        self._ended = True
        if self._writing is not None:
            await asyncio.wait([self._writing])
        await self._end(state, result)

    def cancel(self) -> None:
        """Somebody wants it to end. Safe to call twice, and when it has ended."""
        self._cancelled = True
        if self._doing is not None:
            self._doing.cancel()

    def stop(self) -> None:
        """The host ends, and the skill with it: that is written as interrupted. One that is done is written so."""
        self._stopped = True
        if self._doing is not None:
            self._doing.cancel()

    async def _execute(self, make: RunFunction) -> tuple[RunState, InvokeResult]:
        if self._cancelled:
            return self._fail(RunState.CANCELLED, _CANCELLED)
        if self._stopped:
            return self._fail(RunState.INTERRUPTED, _STOPPED)
        # A task of its own: who cancels the skill does not cancel the writing of its end.
        self._doing = asyncio.ensure_future(_call_function(make, self._on_event))
        try:
            result = await self._doing
        except asyncio.CancelledError:
            if self._cancelled:
                return self._fail(RunState.CANCELLED, _CANCELLED)
            self._doing.cancel()
            await asyncio.wait([self._doing])
            return self._fail(RunState.INTERRUPTED, _STOPPED)
        except SkillError as error:
            return self._fail(RunState.FAILED, error)
        except BaseException:
            await self._end(*self._fail(RunState.FAILED, SkillError("the host failed; its log says why")))
            raise
        return _state_from_result(result), result

    def _fail(self, state: RunState, error: SkillError) -> tuple[RunState, InvokeResult]:
        return state, build_error_result(self._run, error, time.time())

    def _on_event(self, emitted: SkillOutputEvent) -> None:
        if self._ended:
            return
        self._output.add(emitted)
        # While a batch is written the next one gathers.
        if self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        while shown := self._output.take():
            now = time.time()
            try:
                await self._store.write(lambda at, shown=shown, now=now: _insert_events(at, self._run.id, shown, now))
            except StoreUnavailable as error:
                # They are written with the next ones, or at the end.
                self._output.put_back(shown)
                _log.warning("events of the run %s wait: %s", self._run.id, error)
                return
            self._changed()

    async def _end(self, state: RunState, result: InvokeResult) -> None:
        run = complete_run(self._run, state, result, time.time(), cut=self._output.cut)
        shown = self._output.take()
        pause = _FIRST_PAUSE
        while True:
            try:
                await self._store.write(lambda at: _record_end(at, run, shown))
            except StoreUnavailable as error:
                # Somebody will ask for the result, so it is worth waiting for a disk that is full.
                _log.warning("the end of the run %s is not written yet: %s", run.id, error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, _MAX_PAUSE)
            else:
                self._changed()
                return


def _state_from_result(result: InvokeResult) -> RunState:
    failure = result.outcome.failure
    if failure is None:
        return RunState.SUCCEEDED
    # A host that stops may give a result instead of passing the cancellation on.
    return _STATES.get(str(failure.details.get("reason")), RunState.FAILED)


async def _call_function(make: RunFunction, listener: Listener) -> InvokeResult:
    return await make(listener)


_STATES = {RunInterrupted.reason: RunState.INTERRUPTED, RunCancelled.reason: RunState.CANCELLED}
_CANCELLED = RunCancelled("the run was cancelled before it was done")
_STOPPED = RunInterrupted("the host was stopped while this ran")


_log = logging.getLogger("openskills.host")
_EVENTS_PER_READ = 200
_MIN_POLL_INTERVAL, _MAX_POLL_INTERVAL = 0.05, 1.0
_CLEANUP_INTERVAL = 60.0
_CLOSE_TIMEOUT = 5.0


@dataclass(frozen=True, slots=True)
class AsyncRunLimits:
    """`live` runs at a time in a worker; how much of the output of each is kept; for how many seconds after its end,
    and how many that have ended are kept in all.

    A worker looks every `look` seconds for runs to cancel, says every `beat` that it is alive, and is taken for dead
    when it has not said so for `dead`.
    """

    max_live: int = 1_000
    output_bytes: int = MAX_OUTPUT_BYTES
    max_events: int = MAX_EVENTS
    keep_seconds: float = 24 * 60 * 60.0
    max_kept: int = 10_000
    poll_seconds: float = 0.5
    heartbeat_seconds: float = 3.0
    dead_seconds: float = 20.0


class Runs:
    """The runs of a host, as one of its workers sees them. It belongs to one event loop."""

    def __init__(self, store: Database, limits: AsyncRunLimits | None = None) -> None:
        self._store = store
        self._limits = limits or AsyncRunLimits()
        self._worker = secrets.token_hex(8)
        self._live: dict[str, LiveRun] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._keeper: asyncio.Task[None] | None = None
        self._followers: dict[str, set[asyncio.Event]] = {}
        self._tidied = 0.0

    @property
    def live_count(self) -> int:
        """How many runs are under way in this worker."""
        return len(self._live)

    async def start(
        self,
        make: RunFunction,
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
        if len(self._live) >= self._limits.max_live:
            message = f"{len(self._live)} asynchronous runs are under way; wait for some of them, or try again later"
            raise TooManyRequests(message, limit="runs", retry_after=1.0)
        now = time.time()
        found = run_id or new_run_id(now)
        run = Run(found, principal, skill_id, trace_id, version, RunState.QUEUED, self._worker, now)
        output = RunOutput(self._limits.output_bytes, self._limits.max_events)
        live = self._live[run.id] = LiveRun(run, self._store, output, lambda: self._notify(run.id))
        try:
            await self._store.write(lambda at: _insert_run(at, run, now))
        except BaseException:
            del self._live[run.id]
            raise
        self._start_task(live, make, run.id)
        return run

    async def get(self, run_id: str, *, principal: str | None = None) -> Run:
        """A run as it is now. Raises `UnknownRun`, for one of another principal too, and `StoreUnavailable`."""
        found = await self._store.read(lambda at: _select_run(at, run_id))
        if found is not None and self._is_orphan(*found):
            await self._interrupt_orphans()
            found = await self._store.read(lambda at: _select_run(at, run_id))
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
            async with aclosing(self._follow(run_id, after, wake)) as followed:
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
        await self._store.write(lambda at: _record_cancel_request(at, run_id))
        return await self.get(run_id, principal=principal)

    async def close(self, grace: float = 0.0) -> None:
        """Let the runs of this worker go on for so many seconds, then end them; those are `interrupted`."""
        if self._tasks and grace > 0:
            await asyncio.wait(self._tasks, timeout=grace)
        for live in self._live.values():
            live.stop()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CLOSE_TIMEOUT)
        # Those that are left wait for a disk to write their end to.
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])

    def _start_task(self, live: LiveRun, make: RunFunction, run_id: str) -> None:
        task = asyncio.get_running_loop().create_task(live.run(make))
        self._tasks.add(task)
        task.add_done_callback(lambda task: self._on_done(task, run_id))
        if self._keeper is None or self._keeper.done():
            self._keeper = asyncio.get_running_loop().create_task(self._maintain())

    def _on_done(self, task: "asyncio.Task[None]", run_id: str) -> None:
        self._tasks.discard(task)
        self._live.pop(run_id, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("the run %s failed through a fault of the host", run_id, exc_info=error)

    def _notify(self, run_id: str) -> None:
        for wake in self._followers.get(run_id, ()):
            wake.set()

    async def _follow(self, run_id: str, after: int, wake: asyncio.Event) -> AsyncGenerator[RunEvent]:
        pause = _MIN_POLL_INTERVAL
        while True:
            wake.clear()
            run, beaten, events = await self._poll(run_id, after)
            for event in events:
                after = event.id
                yield event
            if run.ended is not None and len(events) < _EVENTS_PER_READ:
                return
            if self._is_orphan(run, beaten):
                await self._interrupt_orphans()
            elif not events:
                pause = await self._wait(run_id, wake, pause)
            else:
                pause = _MIN_POLL_INTERVAL

    async def _poll(self, run_id: str, after: int) -> tuple[Run, float, list[RunEvent]]:
        try:
            return await self._store.read(lambda at: _select_events(at, run_id, after, _EVENTS_PER_READ))
        except LookupError:
            raise UnknownRun("the run is over for so long that it was removed", id=run_id) from None

    async def _wait(self, run_id: str, wake: asyncio.Event, pause: float) -> float:
        """Wait for news of a run. Ours are told at once; of others we look less and less often."""
        ours = run_id in self._live
        try:
            async with asyncio.timeout(_MAX_POLL_INTERVAL if ours else pause):
                await wake.wait()
        except TimeoutError:
            return min(pause * 1.5, _MAX_POLL_INTERVAL)
        return _MIN_POLL_INTERVAL

    def _is_orphan(self, run: Run, beaten: float) -> bool:
        return run.ended is None and run.worker != self._worker and beaten < time.time() - self._limits.dead_seconds

    async def _interrupt_orphans(self) -> None:
        now = time.time()
        await self._store.write(
            lambda at: _mark_interrupted(at, before=now - self._limits.dead_seconds, worker=self._worker, now=now)
        )

    async def _maintain(self) -> None:
        """As long as there are runs: say that we live, look for what is to be cancelled, remove what is old."""
        beaten = time.monotonic()
        while self._live:
            await asyncio.sleep(self._limits.poll_seconds)
            try:
                for run_id in await self._store.read(lambda at: _select_to_cancel(at, self._worker)):
                    if run_id in self._live:
                        self._live[run_id].cancel()
                if time.monotonic() - beaten >= self._limits.heartbeat_seconds:
                    beaten = time.monotonic()
                    await self._store.write(lambda at: _record_heartbeat(at, self._worker, time.time()))
                    await self._clean_up()
            except StoreUnavailable as error:
                _log.warning("runs cannot be looked after: %s", error)

    async def _clean_up(self) -> None:
        now = time.time()
        if now - self._tidied < _CLEANUP_INTERVAL:
            return
        await self._interrupt_orphans()
        limits = self._limits
        if await self._store.write(lambda at: _delete_old(at, before=now - limits.keep_seconds, most=limits.max_kept)):
            self._tidied = now
