"""Asynchronous runs: started by one request and read by others, through any worker.

Everything about a run is in the host's database. A worker polls for cancellation requests and holds a lock; runs of a
worker that has ended become `interrupted`.
"""

import asyncio
import json
import logging
import re
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from difflib import unified_diff
from enum import StrEnum
from typing import Any, NamedTuple

import orjson

from openskills.errors import (
    InvalidArgument,
    RunCancelled,
    RunInterrupted,
    SkillError,
    StoreUnavailable,
    TooManyRequests,
    UnknownRun,
)
from openskills.host.database import Database
from openskills.host.history import (
    MAX_CONTENT_BYTES,
    RunFilter,
    RunRecord,
    RunStatistics,
    find_state,
    new_run_id,
    select_by_prefix,
    select_records,
    select_series,
)
from openskills.host.http import encode_result
from openskills.host.model import InvokeResult, Listener, SkillOutputEvent, failure_outcome, normalize_outcome
from openskills.host.workers import HostWorker, open_worker
from openskills.sql import SqlConnection, select_rows

MAX_OUTPUT_BYTES = 4 * 1024 * 1024
MAX_EVENTS = 50_000
CUT_EVENT = "cut"


@dataclass(frozen=True, slots=True)
class PendingEvent:
    """An event that has no id yet. `may_be_stored`: it was written, and the commit may have been done."""

    kind: str
    at: float
    data: bytes
    may_be_stored: bool = False


class RunOutput:
    """Buffered events of one run. Beyond `max_bytes` or `max_events` they are only counted."""

    def __init__(self, max_bytes: int = MAX_OUTPUT_BYTES, max_events: int = MAX_EVENTS) -> None:
        self._max_bytes = max_bytes
        self._max_events = max_events
        self._waiting: list[PendingEvent] = []
        self._bytes = 0
        self._events = 0
        self.cut = 0

    def add(self, emitted: SkillOutputEvent) -> None:
        """Buffer an event, or count it as cut; the first cut adds a `cut` event."""
        data = encode_data(emitted.data)
        if self._bytes + len(data) <= self._max_bytes and self._events < self._max_events:
            self._bytes += len(data)
            self._events += 1
            self._waiting.append(PendingEvent(emitted.kind, time.time(), data))
            return
        if not self.cut:
            said = {"kept_bytes": self._bytes, "kept_events": self._events, "reason": "the output is too large to keep"}
            self._waiting.append(PendingEvent(CUT_EVENT, time.time(), encode_data(said)))
        self.cut += len(data)

    def take(self) -> list[PendingEvent]:
        """Remove and return the buffered events."""
        waiting, self._waiting = self._waiting, []
        return waiting

    def put_back(self, shown: list[PendingEvent]) -> None:
        """Put events that could not be written back, before newer ones."""
        self._waiting[:0] = [replace(one, may_be_stored=True) for one in shown]


def encode_data(data: object) -> bytes:
    """Encode the data of an event as JSON; lone surrogates are escaped, other values become text."""
    try:
        return orjson.dumps(data, default=str)
    except TypeError:
        return json.dumps(data, default=str).encode()


class RunState(StrEnum):
    """`QUEUED` waits for a slot, `RUNNING` has sent events; the others are final.

    `INTERRUPTED`: its worker process has ended, and how far the skill got is unknown.
    """

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class Run:
    """One run. Times are in seconds since 1970. `cut` is how many bytes of its output were dropped.

    `kind` is that of its runner: `command` for a command in a workspace. `request` is what was asked for as JSON, with
    secrets masked; None if it is too large to keep. `result` (the Normalized Skill Result as JSON) and `status` (its
    HTTP status) are set when it has `ended`.
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
    kind: str = ""
    request: bytes | None = field(default=None, repr=False)

    def to_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "state": self.state.value,
            "kind": self.kind,
            "skill_id": self.skill_id,
            "trace_id": self.trace_id,
            "version": self.version,
            "created": _format_time(self.created),
            "started": _format_time(self.started),
            "ended": _format_time(self.ended),
            "cancel_requested": self.cancel,
            "cut_bytes": self.cut,
            "request": None if self.request is None else orjson.Fragment(self.request),
            "result": None if self.result is None else orjson.Fragment(self.result),
        }


@dataclass(frozen=True, slots=True)
class RunDetails:
    """A run and its row of the history; one of them may be missing: a synchronous call, or a run that has not ended."""

    run: Run | None
    record: RunRecord | None

    @property
    def id(self) -> str:
        return self.run.id if self.run is not None else self.record.id if self.record is not None else ""

    def read_request(self) -> dict[str, Any] | None:
        """What was asked for: `{"input": {...}}`, or the fields of a command; None if it was not stored."""
        stored = self.run.request if self.run is not None else None
        if stored is None and self.record is not None:
            stored = self.record.input
        try:
            return None if stored is None else orjson.loads(stored)
        except orjson.JSONDecodeError:
            # A body that was cut.
            return None

    def to_dict(self) -> dict[str, Any]:
        """One document: of the run, with what only the history has."""
        found = self.record.to_dict() if self.record is not None else {}
        run = self.run.to_dict() if self.run is not None else _describe_call(found)
        names = ("latency_ms", "waited_ms", "ran_ms", "code", "message", "isolation", "memory_bytes", "phases")
        more = {name: found.get(name) for name in (*names, "bytes_in", "bytes_out", "input", "output") if name in found}
        who = self.run.principal if self.run is not None else found.get("who")
        return {**run, "who": who, **more}


def _describe_call(found: Mapping[str, Any]) -> dict[str, Any]:
    """A synchronous call in the form of `Run.to_dict`."""
    names = ("id", "state", "skill_id", "trace_id", "version")
    about = {"kind": found["runner_type"], "created": found["began"], "started": None, "ended": None}
    rest = {"cancel_requested": False, "cut_bytes": 0, "request": None, "result": None}
    return {**{name: found[name] for name in names}, **about, **rest}


class EventPosition(NamedTuple):
    """A position in the events of a conversation, in `Last-Event-ID` as `RUN:NUMBER`."""

    run: str = ""
    number: int = 0

    @classmethod
    def parse(cls, text: str | None) -> "EventPosition":
        """Parse it; raises `InvalidArgument`."""
        if not text:
            return cls()
        run, _, number = text.rpartition(":")
        if not re.fullmatch(r"[0-9a-z_]{1,64}", run, re.ASCII) or not re.fullmatch(r"\d{1,15}", number, re.ASCII):
            raise InvalidArgument("Last-Event-ID", f"invalid event id {text[:80]!r}: expected RUN:NUMBER")
        return cls(run, int(number))

    def __str__(self) -> str:
        return f"{self.run}:{self.number}"


@dataclass(frozen=True, slots=True)
class RunEvent:
    """An event of a run; `data` is JSON. Ids count from 1, and the last event has the kind `result`.

    `kind` is one of `start`, `stdout`, `stderr`, `progress`, `artifact`, `cut`, `result`.
    """

    id: int
    kind: str
    at: float
    data: bytes


def complete_run(run: Run, state: RunState, result: InvokeResult, now: float, *, cut: int = 0) -> Run:
    said, body = encode_result(result)
    return replace(run, state=state, ended=now, status=said.status, result=body, cut=cut)


def build_error_result(run: Run, error: SkillError, now: float) -> InvokeResult:
    """The result of a run that ended without one of its own."""
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
_NAMES = ", ".join(_COLUMNS)
_STATE, _CANCEL = _COLUMNS.index("state"), _COLUMNS.index("cancel")
# The interpolated names are constants; values are always parameters.
_INSERT_RUN = f"INSERT INTO runs ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608
_SELECT_RUN = f"SELECT {_NAMES} FROM runs WHERE id = ?"  # noqa: S608
_SELECT_WORKERS = "SELECT DISTINCT worker FROM runs WHERE ended IS NULL"
_SELECT_UNFINISHED = f"SELECT {_NAMES} FROM runs WHERE ended IS NULL AND worker = ? LIMIT 100"  # noqa: S608
_UPDATE_END = "UPDATE runs SET state = ?, ended = ?, status = ?, result = ?, cut = ? WHERE id = ? AND ended IS NULL"
_INSERT_EVENT = "INSERT INTO run_events (run, seq, kind, at, data) VALUES (?, ?, ?, ?, ?)"
_SELECT_SINCE = "SELECT kind, at, data FROM run_events WHERE run = ? AND at >= ?"
_SELECT_LAST_SEQ = "SELECT coalesce(max(seq), 0) FROM run_events WHERE run = ?"
_SELECT_EVENTS = "SELECT seq, kind, at, data FROM run_events WHERE run = ? AND seq > ? ORDER BY seq LIMIT ?"
_SELECT_OWN = "SELECT id, cancel FROM runs WHERE ended IS NULL AND worker = ?"
_SELECT_OLD = "SELECT id FROM runs WHERE ended < ? ORDER BY ended LIMIT ?"
_SELECT_OLDEST_KEPT = "SELECT ended FROM runs WHERE ended IS NOT NULL ORDER BY ended DESC LIMIT 1 OFFSET ?"
_DELETE_QUEUED = "DELETE FROM runs WHERE id = ? AND state = 'queued'"
_DELETE_BATCH = 200


def _insert_run(at: SqlConnection, run: Run) -> None:
    at.execute(_INSERT_RUN, tuple(getattr(run, name) for name in _COLUMNS))


def _select_run(at: SqlConnection, run_id: str) -> Run | None:
    return next((_run_from_row(row) for row in select_rows(at, _SELECT_RUN, (run_id,))), None)


def _insert_events(at: SqlConnection, run_id: str, shown: Sequence[PendingEvent], now: float) -> None:
    at.lock(f"run {run_id}")
    if not select_rows(at, "SELECT 1 FROM runs WHERE id = ? AND ended IS NULL", (run_id,)):
        # Others took this worker for dead, and have ended the run.
        return
    _append_events(at, run_id, shown)
    at.execute("UPDATE runs SET state = 'running', started = ? WHERE id = ? AND state = 'queued'", (now, run_id))


def _select_events(at: SqlConnection, run_id: str, after: int, limit: int) -> tuple[Run, list[RunEvent]]:
    # The run is read first: its end and the last event are written in one transaction. If that happens between the two
    # reads, the run has to be read again.
    run = _select_run(at, run_id)
    if run is None:
        raise LookupError(run_id)
    events = [RunEvent(*row) for row in select_rows(at, _SELECT_EVENTS, (run_id, after, limit))]
    if run.ended is None and events and events[-1].kind == RESULT_EVENT:
        run = _select_run(at, run_id) or run
    # The result itself is stored only in the row of the run.
    return run, [replace(one, data=run.result or b"null") if one.kind == RESULT_EVENT else one for one in events]


def _record_end(at: SqlConnection, run: Run, shown: Sequence[PendingEvent]) -> None:
    at.lock(f"run {run.id}")
    # A run ends once: what a worker writes after others took it for dead changes nothing.
    if at.execute(_UPDATE_END, (run.state, run.ended, run.status, run.result, run.cut, run.id)).rowcount:
        _append_events(at, run.id, [*shown, PendingEvent(RESULT_EVENT, run.ended or 0.0, b"")])


def _record_cancel_request(at: SqlConnection, run_id: str) -> None:
    at.execute("UPDATE runs SET cancel = 1 WHERE id = ? AND ended IS NULL", (run_id,))


def _select_own(at: SqlConnection, worker: str) -> dict[str, bool]:
    """The unfinished runs of a worker, and whether each is to be cancelled."""
    return {run_id: bool(cancel) for run_id, cancel in select_rows(at, _SELECT_OWN, (worker,))}


def _find_dead_workers(at: SqlConnection, worker: HostWorker) -> list[str]:
    """The workers that are dead and have unfinished runs."""
    owners = (owner for (owner,) in select_rows(at, _SELECT_WORKERS) if owner != worker.id)
    return [owner for owner in owners if not worker.is_alive(owner, at)]


def _mark_interrupted(at: SqlConnection, worker: HostWorker, now: float) -> int:
    """End runs of workers that are dead. Returns how many there were, at most 100 for each worker."""
    error = RunInterrupted("the worker process has ended; how far the skill got is unknown")
    owners = _find_dead_workers(at, worker)
    found = [_run_from_row(row) for owner in owners for row in select_rows(at, _SELECT_UNFINISHED, (owner,))]
    for run in found:
        result = build_error_result(run, error, now)
        _record_end(at, complete_run(run, RunState.INTERRUPTED, result, now), ())
    return len(found)


def _delete_old(at: SqlConnection, *, before: float, max_kept: int) -> bool:
    """Remove runs that ended before that time, and all but the newest `max_kept`; False if there may be more."""
    kept = select_rows(at, _SELECT_OLDEST_KEPT, (max(max_kept - 1, 0),))
    limit = max(before, kept[0][0]) if kept else before
    old = select_rows(at, _SELECT_OLD, (limit, _DELETE_BATCH))
    at.executemany("DELETE FROM run_events WHERE run = ?", old)
    at.executemany("DELETE FROM runs WHERE id = ?", old)
    return len(old) < _DELETE_BATCH


def _append_events(at: SqlConnection, run_id: str, shown: Sequence[PendingEvent]) -> int:
    """Number and insert events; returns the last number."""
    at.lock(f"run {run_id}")
    if any(one.may_be_stored for one in shown):
        known = set(select_rows(at, _SELECT_SINCE, (run_id, min(one.at for one in shown))))
        shown = [one for one in shown if (one.kind, one.at, one.data) not in known]
    ((last,),) = select_rows(at, _SELECT_LAST_SEQ, (run_id,))
    numbered = enumerate(shown, last + 1)
    at.executemany(_INSERT_EVENT, [(run_id, number, one.kind, one.at, one.data) for number, one in numbered])
    return last + len(shown)


def _run_from_row(row: Sequence[Any]) -> Run:
    values = list(row)
    values[_STATE], values[_CANCEL] = RunState(values[_STATE]), bool(values[_CANCEL])
    return Run(*values)


RunFunction = Callable[[Listener], Coroutine[Any, Any, InvokeResult]]

_FIRST_PAUSE, _MAX_PAUSE, _RETRY_PAUSE = 0.1, 30.0, 1.0


class LiveRun:
    """Executes a run and writes its events and its end. Calls `changed` after every write."""

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
        """Execute it. If this task is cancelled, the run is recorded as interrupted."""
        state, result = await self._execute(make)
        self._ended = True
        if self._writing is not None:
            await asyncio.wait([self._writing])
        await self._end(state, result)

    @property
    def is_started(self) -> bool:
        return self._doing is not None

    def cancel(self) -> None:
        """Cancel the skill. Safe to call twice, and after the end."""
        self._cancelled = True
        if self._doing is not None:
            self._doing.cancel()

    def stop(self) -> None:
        """Stop the skill because the host is shutting down; the run becomes interrupted unless it was finished."""
        self._stopped = True
        if self._doing is not None:
            self._doing.cancel()

    async def _execute(self, make: RunFunction) -> tuple[RunState, InvokeResult]:
        if self._cancelled:
            return self._fail(RunState.CANCELLED, _CANCELLED)
        if self._stopped:
            return self._fail(RunState.INTERRUPTED, _STOPPED)
        # A separate task, so that cancelling the skill does not cancel recording its end.
        self._doing = asyncio.create_task(make(self._on_event))
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
            await self._end(*self._fail(RunState.FAILED, SkillError("internal error; see the log of the host")))
            raise
        return RunState(find_state(result)), result

    def _fail(self, state: RunState, error: SkillError) -> tuple[RunState, InvokeResult]:
        return state, build_error_result(self._run, error, time.time())

    def _on_event(self, emitted: SkillOutputEvent) -> None:
        if self._ended:
            return
        self._output.add(emitted)
        self._start_writing()

    def _start_writing(self) -> None:
        # More events may be buffered while a batch is written. What is left at the end is written with the end.
        if not self._ended and (self._writing is None or self._writing.done()):
            self._writing = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        while shown := self._output.take():
            now = time.time()
            try:
                await self._store.write(lambda at, shown=shown, now=now: _insert_events(at, self._run.id, shown, now))
            except StoreUnavailable as error:
                # Retried after a pause, with the next events, or at the end.
                self._output.put_back(shown)
                _log.warning("cannot write events of run %s yet: %s", self._run.id, error)
                asyncio.get_running_loop().call_later(_RETRY_PAUSE, self._start_writing)
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
                # The result matters, so retry until the disk has space again.
                _log.warning("cannot write the end of run %s yet: %s", run.id, error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, _MAX_PAUSE)
            else:
                self._changed()
                return


_CANCELLED = RunCancelled("the run was cancelled before it finished")
_STOPPED = RunInterrupted("the host was stopped during the run")


_log = logging.getLogger("openskills.host")
_EVENTS_PER_READ = 200
_MIN_POLL_INTERVAL, _MAX_POLL_INTERVAL = 0.05, 1.0
_CLEANUP_INTERVAL = _WARN_INTERVAL = 60.0
_CLOSE_TIMEOUT = 5.0


@dataclass(frozen=True, slots=True)
class AsyncRunLimits:
    """Limits of asynchronous runs: `max_live` per worker, output per run, and how long and how many are kept.

    A worker polls for cancellations every `poll_seconds`.
    """

    max_live: int = 1_000
    output_bytes: int = MAX_OUTPUT_BYTES
    max_events: int = MAX_EVENTS
    keep_seconds: float = 24 * 60 * 60.0
    max_kept: int = 10_000
    poll_seconds: float = 0.5


_COMPARED = (
    *("skill_id", "version", "kind", "who", "state", "code", "message", "latency_ms", "phases", "isolation"),
    *("memory_bytes", "bytes_in", "bytes_out", "request", "input", "output", "result"),
)
_MAX_COMPARED_LINES = 2_000


def format_log(events: Sequence[RunEvent]) -> str:
    """The output of a run as text: its lines, and those of its progress."""
    found: list[str] = []
    for event in events:
        data: Mapping[str, Any] = {} if event.kind == RESULT_EVENT else orjson.loads(event.data)
        if event.kind in {"stdout", "stderr"}:
            found.append(f"{data.get('text', '')}{'' if data.get('raw') else chr(10)}")
        elif event.kind in {"progress", "artifact", CUT_EVENT}:
            said = data.get("message") or data.get("path") or data.get("reason") or ""
            found.append(f"[{event.kind}] {said}\n")
    return "".join(found)


class Runs:
    """The runs of a host, accessed from one worker. Belongs to one event loop."""

    def __init__(
        self, store: Database, limits: AsyncRunLimits | None = None, *, worker: HostWorker | None = None
    ) -> None:
        self._store = store
        self._limits = limits or AsyncRunLimits()
        self._worker = worker or open_worker(store)
        self._live: dict[str, LiveRun] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._maintenance: asyncio.Task[None] | None = None
        self._followers: dict[str, set[asyncio.Event]] = {}
        self._changed = asyncio.Event()
        self._tidied = 0.0
        self._warned = -_WARN_INTERVAL
        self._doubtful: set[str] = set()
        """Runs that were not started, because it is unknown whether they were stored."""

    @property
    def live_count(self) -> int:
        """The number of runs of this worker that have not ended."""
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
        kind: str = "",
        request: bytes | None = None,
    ) -> Run:
        """Start a run: `make` executes it and gets a listener for events; the first event makes it `running`.

        A `request` that is too large is not kept.
        Raises `TooManyRequests` if this worker has too many runs, and `StoreUnavailable`.
        """
        if self.live_count >= self._limits.max_live:
            message = f"too many asynchronous runs ({self.live_count}); wait for some to finish, or try again later"
            raise TooManyRequests(message, limit="runs", retry_after=1.0)
        now = time.time()
        if request is not None and len(request) > MAX_CONTENT_BYTES:
            request = None
        about = (run_id or new_run_id(now), principal, skill_id, trace_id, version)
        run = Run(*about, RunState.QUEUED, self._worker.id, now, kind=kind, request=request)
        output = RunOutput(self._limits.output_bytes, self._limits.max_events)
        live = self._live[run.id] = LiveRun(run, self._store, output, lambda: self._notify(run.id))
        try:
            await self._store.write(lambda at: (self._worker.hold(at), _insert_run(at, run)))
        except BaseException as error:
            del self._live[run.id]
            if isinstance(error, StoreUnavailable) and self._store.is_shared:
                # It may have been stored before the connection was lost.
                self._doubtful.add(run.id)
                self._start_maintenance()
            raise
        self._notify(run.id)
        task = asyncio.create_task(live.run(make))
        self._tasks.add(task)
        task.add_done_callback(lambda task: self._on_done(task, run.id))
        self._start_maintenance()
        return run

    async def get(self, run_id: str, *, principal: str | None = None) -> Run:
        """The current state of a run. Raises `UnknownRun`, also for those of other principals, `StoreUnavailable`."""
        found = await self._store.read(lambda at: _select_run(at, run_id))
        if found is not None and await self._is_orphan(found):
            await self._interrupt_orphans()
            found = await self._store.read(lambda at: _select_run(at, run_id))
        if found is None or (principal is not None and found.principal != principal):
            raise UnknownRun("unknown run; runs are kept for a day after their end", id=run_id[:100])
        return found

    async def list(self, wanted: RunFilter, *, limit: int = 50) -> Sequence[RunRecord]:
        """The newest matching runs and calls first; also those that have not ended. Raises `StoreUnavailable`."""
        if await self._store.read(lambda at: _find_dead_workers(at, self._worker)):
            await self._interrupt_orphans()
        return await self._store.read(lambda at: select_records(at, wanted, limit))

    async def series(self, wanted: RunFilter, *, since: float, until: float, buckets: int) -> Sequence[RunStatistics]:
        """Calls, errors and percentiles of the latency over time. Raises `StoreUnavailable`."""
        return await self._store.read(lambda at: select_series(at, wanted, since=since, until=until, buckets=buckets))

    async def describe(self, run_id: str, *, principal: str | None = None) -> "RunDetails":
        """Everything that is known about a run or a call. Raises like `get`."""
        record = await self._store.read(
            lambda at: next((one for one in select_by_prefix(at, run_id) if one.id == run_id), None)
        )
        try:
            run = await self.get(run_id, principal=principal)
        except UnknownRun:
            if record is None or (principal is not None and record.who != principal):
                raise
            run = None
        return RunDetails(run, record)

    async def compare(self, first: str, second: str, *, principal: str | None = None) -> dict[str, Any]:
        """Two runs, the fields in which they differ, and the differences of their logs. Raises like `get`."""
        both = [await self.describe(one, principal=principal) for one in (first, second)]
        logs = [format_log(await self.read_events(one.id, limit=MAX_EVENTS)) for one in both]
        documents = [one.to_dict() for one in both]
        plain = [orjson.loads(encode_data({name: one.get(name) for name in _COMPARED})) for one in documents]
        names = [name for name in _COMPARED if plain[0][name] != plain[1][name]]
        differences = [{"field": name, "a": plain[0][name], "b": plain[1][name]} for name in names]
        lines = [log.splitlines()[:_MAX_COMPARED_LINES] for log in logs]
        found = unified_diff(lines[0], lines[1], lineterm="", n=2)
        # Without the two lines that name the files.
        changed = await asyncio.to_thread(lambda: list(found)[2:])
        return {"a": documents[0], "b": documents[1], "differences": differences, "log": changed}

    async def read_events(self, run_id: str, after: int = 0, limit: int = 1_000) -> Sequence[RunEvent]:
        """The events that have been written, without waiting for more. Raises `UnknownRun` and `StoreUnavailable`."""
        try:
            return (await self._store.read(lambda at: _select_events(at, run_id, after, limit)))[1]
        except LookupError:
            return ()

    async def append_event(self, run_id: str, kind: str, data: object) -> int:
        """Add an event to a run of any worker; returns its id. Raises `StoreUnavailable`."""
        event = PendingEvent(kind, time.time(), encode_data(data))
        number = await self._store.write(lambda at: _append_events(at, run_id, [event]))
        self._notify(run_id)
        return number

    async def events(self, run_id: str, after: int = 0, *, principal: str | None = None) -> AsyncGenerator[RunEvent]:
        """The events after this id, past and future, up to the last one of kind `result`. Raises like `get`."""
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
        """Request cancellation; a run that has ended is unchanged. Raises like `get`."""
        run = await self.get(run_id, principal=principal)
        if run.ended is not None:
            return run
        live = self._live.get(run_id)
        if live is not None:
            live.cancel()
        await self._store.write(lambda at: _record_cancel_request(at, run_id))
        return await self.get(run_id, principal=principal)

    async def close(self, grace: float = 0.0) -> None:
        """Let the runs of this worker finish for `grace` seconds, then stop them as `interrupted`."""
        if self._tasks and grace > 0:
            await asyncio.wait(self._tasks, timeout=grace)
        for live in self._live.values():
            live.stop()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CLOSE_TIMEOUT)
        # What is left cannot write its end to the disk.
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._maintenance is not None:
            self._maintenance.cancel()
            await asyncio.wait([self._maintenance])
        await asyncio.to_thread(self._worker.close)

    def _start_maintenance(self) -> None:
        if self._maintenance is None or self._maintenance.done():
            self._maintenance = asyncio.get_running_loop().create_task(self._maintain())

    def _on_done(self, task: "asyncio.Task[None]", run_id: str) -> None:
        self._tasks.discard(task)
        self._live.pop(run_id, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("run %s failed because of a bug in the host", run_id, exc_info=error)

    async def wait_for_change(self, timeout: float) -> None:
        """Wait until a run of this worker starts, writes something or ends, at most this time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._changed.wait()

    def _notify(self, run_id: str) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        for wake in self._followers.get(run_id, ()):
            wake.set()

    async def _follow(self, run_id: str, after: int, wake: asyncio.Event) -> AsyncGenerator[RunEvent]:
        pause = _MIN_POLL_INTERVAL
        while True:
            wake.clear()
            run, events = await self._poll(run_id, after)
            for event in events:
                after = event.id
                yield event
            if run.ended is not None and len(events) < _EVENTS_PER_READ:
                return
            if await self._is_orphan(run):
                await self._interrupt_orphans()
            elif not events:
                pause = await self._wait(run_id, wake, pause)
            else:
                pause = _MIN_POLL_INTERVAL

    async def _poll(self, run_id: str, after: int) -> tuple[Run, Sequence[RunEvent]]:
        try:
            return await self._store.read(lambda at: _select_events(at, run_id, after, _EVENTS_PER_READ))
        except LookupError:
            raise UnknownRun("the run ended long ago and was removed", id=run_id) from None

    async def _wait(self, run_id: str, wake: asyncio.Event, pause: float) -> float:
        """Wait for changes: local runs notify us, others are polled at growing intervals."""
        ours = run_id in self._live
        try:
            async with asyncio.timeout(_MAX_POLL_INTERVAL if ours else pause):
                await wake.wait()
        except TimeoutError:
            return min(pause * 1.5, _MAX_POLL_INTERVAL)
        return _MIN_POLL_INTERVAL

    async def _is_orphan(self, run: Run) -> bool:
        if run.ended is not None or run.worker == self._worker.id:
            return False
        return not await self._store.read(lambda at: self._worker.is_alive(run.worker, at))

    async def _interrupt_orphans(self) -> None:
        now = time.time()
        await self._store.write(lambda at: _mark_interrupted(at, self._worker, now))

    async def _maintain(self) -> None:
        """While there are runs: cancel runs on request, remove old ones."""
        while self._live or self._doubtful:
            await asyncio.sleep(self._limits.poll_seconds)
            started = {run_id: live for run_id, live in self._live.items() if live.is_started}
            try:
                own = await self._store.read(lambda at: _select_own(at, self._worker.id))
                for run_id, live in started.items():
                    if run_id not in own:
                        # Others took this worker for dead. A run that has just ended by itself ignores this.
                        live.stop()
                    elif own[run_id]:
                        live.cancel()
                for run_id in tuple(self._doubtful):
                    await self._store.write(lambda at, run_id=run_id: at.execute(_DELETE_QUEUED, (run_id,)))
                    self._doubtful.discard(run_id)
                await self._clean_up()
            except StoreUnavailable as error:
                if time.monotonic() - self._warned > _WARN_INTERVAL:
                    self._warned = time.monotonic()
                    _log.warning("cannot maintain asynchronous runs: %s", error)

    async def _clean_up(self) -> None:
        now = time.time()
        if now - self._tidied < _CLEANUP_INTERVAL:
            return
        await self._interrupt_orphans()
        limits = self._limits
        if await self._store.write(
            lambda at: _delete_old(at, before=now - limits.keep_seconds, max_kept=limits.max_kept)
        ):
            self._tidied = now
