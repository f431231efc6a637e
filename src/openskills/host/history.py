"""History of invocations: one row per invocation in the host's database.

A background thread writes rows in batches, so that no call waits for the disk.
"""

import asyncio
import hashlib
import json
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from openskills.arguments import check_arguments
from openskills.errors import InvalidArgument, RunCancelled, RunInterrupted, SkillError, StoreUnavailable, UnknownRun
from openskills.host.database import BUSY_TIMEOUT, Database, DatabasePlace, open_connection
from openskills.host.model import InvokeResult
from openskills.host.workers import WORKER_IS_DEAD, WorkerHeartbeat, WorkerLock
from openskills.sql import SqlConnection, select_rows
from openskills.telemetry.mask import get_masker

MAX_MESSAGE_LENGTH = 1_000
MAX_CONTENT_BYTES = 256 * 1024
"""Bytes stored of one request or response body."""
MAX_PENDING_CONTENT_BYTES = 64 * 1024 * 1024
"""Bytes of bodies that may wait to be written; beyond that rows are written without them."""


class RunRecord(NamedTuple):
    """One finished invocation. `began` is in seconds since 1970.

    `waited_ms` and `ran_ms` are None for a call that was not queued or not started, or whose process was killed.
    `state` is one of those of `runs.RunState`; `phases` are the milliseconds of each phase as JSON, `memory_bytes` the
    largest resident size of one of its processes. `input` and `output` are the bodies, if the host stores them
    (`OPENSKILL_HOST_HISTORY_CONTENT`).
    """

    id: str
    trace_id: str
    who: str
    skill_id: str
    version: str
    runner_type: str
    began: float
    latency_ms: float
    success: bool
    code: int
    message: str = ""
    bytes_in: int = 0
    bytes_out: int = 0
    input_digest: str = ""
    waited_ms: float | None = None
    ran_ms: float | None = None
    state: str = ""
    isolation: str = ""
    memory_bytes: int | None = None
    phases: str = ""
    input: bytes | None = None
    output: bytes | None = None

    @classmethod
    def from_result(
        cls,
        result: InvokeResult,
        *,
        run_id: str,
        who: str,
        runner_type: str,
        began: float,
        body: bytes = b"",
        bytes_out: int = 0,
    ) -> "RunRecord":
        """The row of a result. Only the size and the digest of the request `body` are stored."""
        failure, notes = result.outcome.failure, result.outcome.notes
        message = "" if failure is None else failure.message[:MAX_MESSAGE_LENGTH]
        isolation, memory = notes.get("isolation"), notes.get("memory_bytes")
        return cls(
            run_id,
            result.trace_id,
            who,
            result.skill_id,
            result.version,
            runner_type,
            began,
            result.latency_ms,
            failure is None,
            result.status,
            message,
            len(body),
            bytes_out,
            hashlib.sha256(body).hexdigest(),
            result.waited_ms,
            result.ran_ms,
            find_state(result),
            isolation if isinstance(isolation, str) else "",
            memory if isinstance(memory, int) and memory else None,
            orjson.dumps(result.phases).decode() if result.phases else "",
        )

    def with_content(self, request: bytes, response: bytes, secrets: Mapping[str, str]) -> "RunRecord":
        """The row with both bodies, secrets masked and at most `MAX_CONTENT_BYTES` of each."""
        return self._replace(input=mask_content(request, secrets), output=mask_content(response, secrets))

    def to_dict(self) -> dict[str, Any]:
        """As JSON: times and bodies as text; without bodies that were not stored."""
        found: dict[str, Any] = self._asdict()
        found["began"] = datetime.fromtimestamp(self.began, UTC).isoformat(timespec="milliseconds")
        found["phases"] = json.loads(self.phases) if self.phases else {}
        for name in ("input", "output"):
            content = found.pop(name)
            if content is not None:
                found[name] = content.decode("utf-8", "replace")
        return found


def find_state(result: InvokeResult) -> str:
    """The final state of an invocation: `succeeded`, `failed`, `cancelled` or `interrupted`."""
    failure = result.outcome.failure
    if failure is None:
        return "succeeded"
    # A stopping host may return a result instead of raising a cancellation.
    return _STATES.get(str(failure.details.get("reason")), "failed")


_STATES = {RunInterrupted.reason: "interrupted", RunCancelled.reason: "cancelled"}


def new_run_id(now: float | None = None) -> str:
    """An unguessable id. Ids sort by time."""
    return f"{id_prefix(time.time() if now is None else now)}{os.urandom(10).hex()}"


def id_prefix(at: float) -> str:
    """The prefix of ids of runs that began at this time; ids of earlier runs sort before it."""
    return f"run_{max(int(at * 1000), 0):012x}"


def mask_content(content: bytes, secrets: Mapping[str, str]) -> bytes:
    """A body as it is stored: secrets replaced by their names, and cut after `MAX_CONTENT_BYTES`."""
    text = get_masker(secrets).mask_bytes(content).decode("utf-8", "replace").encode()
    if len(text) <= MAX_CONTENT_BYTES:
        return text
    return text[:MAX_CONTENT_BYTES] + f"[... {len(text) - MAX_CONTENT_BYTES:,} more bytes]".encode()


_COLUMNS = tuple(name for name in RunRecord._fields if name not in {"input", "output"})
_NAMES = ", ".join(_COLUMNS)
_VALUES = f"({', '.join('?' * len(_COLUMNS))})"
_INSERT = f"INSERT INTO history ({_NAMES}) VALUES {_VALUES} ON CONFLICT"  # noqa: S608 - our own names
_INSERT_INTERRUPTED = f"{_INSERT} DO NOTHING"
# A host that was paused is taken for dead, and then its calls end after all. Runs have ended as others said.
_INSERT_RECORD = f"""
    {_INSERT} (id) DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in _COLUMNS)}
    WHERE history.state = 'interrupted' AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.id = history.id)
"""  # noqa: S608 - our own names
_ROWS_PER_STATEMENT = 64
# SQLite releases the GIL for each statement, and the event loop waits whenever this thread takes it back.
_INSERT_MANY = _INSERT_RECORD.replace(_VALUES, ", ".join([_VALUES] * _ROWS_PER_STATEMENT))
_INSERT_CONTENT = "INSERT INTO history_content (id, input, output) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
_OLD_IDS = "SELECT id FROM history WHERE id < ? ORDER BY id LIMIT ?"
_OLDEST_KEPT = "SELECT id FROM history ORDER BY id DESC LIMIT 1 OFFSET ?"
_SUCCESS = _COLUMNS.index("success")
_COLUMN_COUNT = len(_COLUMNS)
_MAX_INTEGER = 2**63 - 1
_DELETE_BATCH = 2_000
"""Rows removed in one transaction, so that other writers do not wait long."""


def insert_records(connection: SqlConnection, records: Sequence[RunRecord]) -> None:
    """Insert all of these rows, or none."""
    with connection.transaction():
        try:
            _insert_rows(connection, [record[:_COLUMN_COUNT] for record in records])
        except (UnicodeError, OverflowError):
            # A lone surrogate or a huge integer from a skill. Rare, so values are not checked beforehand.
            _insert_rows(connection, [tuple(map(_to_sqlite_value, record[:_COLUMN_COUNT])) for record in records])
        contents = [
            (record.id, record.input, record.output)
            for record in records
            if record.input is not None or record.output is not None
        ]
        connection.executemany(_INSERT_CONTENT, contents)


def _insert_rows(connection: SqlConnection, rows: Sequence[tuple[Any, ...]]) -> None:
    # PostgreSQL rejects a statement that changes a row twice.
    is_distinct = len({row[0] for row in rows}) == len(rows)
    many = len(rows) - len(rows) % _ROWS_PER_STATEMENT if is_distinct else 0
    for start in range(0, many, _ROWS_PER_STATEMENT):
        connection.execute(_INSERT_MANY, tuple(chain.from_iterable(rows[start : start + _ROWS_PER_STATEMENT])))
    connection.executemany(_INSERT_RECORD, rows[many:])


@check_arguments
@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs to list; `None` and empty fields match all.

    `state` is one of the states, or `unfinished`; `failed` matches all that have ended without success. `since` and
    `until` are in seconds since 1970. `text` is searched for in ids, trace ids, names of skills and error messages.
    `before` is an id: only older runs, for the next page.
    """

    skill: str | None = None
    state: str = ""
    who: str | None = None
    since: float | None = None
    until: float | None = None
    text: str = ""
    before: str = ""
    failed: bool = False

    def __post_init__(self) -> None:
        for name, value in (("since", self.since), ("until", self.until)):
            # Written so that NaN fails, too.
            if value is not None and not 0 <= value < _MAX_TIME:
                raise InvalidArgument(name, f"invalid time {value!r}: expected seconds since 1970")

    def to_sql(self) -> tuple[str, list[Any]]:
        """The condition and its arguments."""
        wanted, arguments = ["1 = 1"], list[Any]()
        given = (
            ("skill_id = ?", self.skill),
            ("who = ?", self.who),
            ("id >= ?", None if self.since is None else id_prefix(self.since)),
            ("id < ?", None if self.until is None else id_prefix(self.until)),
            ("id < ?", self.before or None),
            ("state = ?", self.state if self.state != UNFINISHED and self.state else None),
        )
        for condition, value in given:
            if value is not None:
                wanted.append(condition)
                arguments.append(value)
        if self.state == UNFINISHED:
            wanted.append("state IN ('queued', 'running')")
        if self.failed:
            wanted.append("success = 0 AND state NOT IN ('queued', 'running')")
        if self.text:
            escaped = self.text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
            names = ("id", "trace_id", "skill_id", "message")
            wanted.append(f"({' OR '.join(f'{name} LIKE ? ESCAPE {_BACKSLASH}' for name in names)})")
            arguments += [f"%{escaped}%"] * len(names)
        return " AND ".join(wanted), arguments


_MAX_TIME = 1e11
_BACKSLASH = "'\\'"
UNFINISHED = "unfinished"
"""The filter for runs that are queued or running."""
# Runs that have no row yet: they have not ended, or there is no history.
_RUNS_AS_HISTORY = """
    SELECT id, trace_id, principal AS who, skill_id, version, kind AS runner_type, created AS began,
        (coalesce(ended, ?) - created) * 1000 AS latency_ms, CASE WHEN state = 'succeeded' THEN 1 ELSE 0 END AS success,
        coalesce(status, 0) AS code, '' AS message, 0 AS bytes_in, 0 AS bytes_out, '' AS input_digest,
        (started - created) * 1000 AS waited_ms,
        CAST(NULL AS REAL) AS ran_ms, state, '' AS isolation, CAST(NULL AS BIGINT) AS memory_bytes, '' AS phases
    FROM runs WHERE NOT EXISTS (SELECT 1 FROM history WHERE history.id = runs.id)
"""


def select_records(connection: SqlConnection, wanted: RunFilter, limit: int) -> list[RunRecord]:
    """The matching runs, newest first, without bodies."""
    condition, arguments = wanted.to_sql()
    sql = f"""
        SELECT {_NAMES} FROM history WHERE {condition}
        UNION ALL SELECT {_NAMES} FROM ({_RUNS_AS_HISTORY}) AS unfinished WHERE {condition} ORDER BY id DESC LIMIT ?
    """  # noqa: S608 - our own words
    rows = select_rows(connection, sql, (*arguments, time.time(), *arguments, limit))
    return [_record_from_row(row) for row in rows]


@dataclass(frozen=True, slots=True)
class RunStatistics:
    """The finished runs that began in an interval: how many, how many failed, and percentiles of their latency."""

    began: float
    calls: int
    errors: int
    p50_ms: float | None = None
    p95_ms: float | None = None

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "began": datetime.fromtimestamp(self.began, UTC).isoformat(timespec="seconds")}


_SELECT_SERIES = """
    WITH sample AS (
        SELECT (CAST(began * 1000000 AS BIGINT) - ?) / ? AS bucket, latency_ms, success FROM history
        WHERE {condition}
    ), ranked AS (
        SELECT *, row_number() OVER (PARTITION BY bucket ORDER BY latency_ms) AS place,
            count(*) OVER (PARTITION BY bucket) AS total
        FROM sample
    )
    SELECT bucket, total, CAST(sum(1 - success) AS BIGINT), max(CASE WHEN place = (total + 1) / 2 THEN latency_ms END),
        max(CASE WHEN place = (total * 95 + 99) / 100 THEN latency_ms END)
    FROM ranked WHERE bucket >= 0 AND bucket < ? GROUP BY bucket, total
"""


def select_series(
    connection: SqlConnection, wanted: RunFilter, *, since: float, until: float, buckets: int
) -> list[RunStatistics]:
    """Statistics of the matching finished runs in `buckets` intervals of equal length; empty ones are included."""
    condition, arguments = replace(wanted, since=since, until=until).to_sql()
    seconds = (until - since) / buckets
    sql = _SELECT_SERIES.format(condition=condition)
    # In microseconds: the division of integers is the same in SQLite and PostgreSQL.
    start, length = round(since * 1e6), max(round(seconds * 1e6), 1)
    rows = select_rows(connection, sql, (start, length, *arguments, buckets))
    found = {row[0]: row[1:] for row in rows}
    begun = ((place, since + place * seconds) for place in range(buckets))
    return [RunStatistics(began, *found.get(place, (0, 0))) for place, began in begun]


def select_by_prefix(connection: SqlConnection, beginning: str) -> list[RunRecord]:
    """The row with this id, else up to two rows whose ids start with it, else that have it as trace id; with bodies."""
    sql = f"SELECT {_NAMES} FROM history WHERE id >= ? AND id < ? ORDER BY id LIMIT 2"  # noqa: S608 - our own names
    found = [_record_from_row(row) for row in select_rows(connection, sql, (beginning, beginning + "\U0010ffff"))]
    if not found:
        sql = f"SELECT {_NAMES} FROM history WHERE trace_id = ? ORDER BY id DESC LIMIT 2"  # noqa: S608 - our own names
        found = [_record_from_row(row) for row in select_rows(connection, sql, (beginning,))]
    exact = [record for record in found if record.id == beginning]
    return [_add_content(connection, record) for record in exact or found]


def delete_old_records(connection: SqlConnection, *, before: float, keep_rows: int) -> int:
    """Remove rows from before that time, and all but the newest `keep_rows`; returns how many, at most 2,000."""
    limit = id_prefix(before)
    kept = select_rows(connection, _OLDEST_KEPT, (max(keep_rows - 1, 0),))
    if kept:
        limit = max(limit, kept[0][0])
    with connection.transaction():
        old = select_rows(connection, _OLD_IDS, (limit, _DELETE_BATCH))
        connection.executemany("DELETE FROM history_content WHERE id = ?", old)
        connection.executemany("DELETE FROM history WHERE id = ?", old)
    return len(old)


def _record_from_row(row: Sequence[Any]) -> RunRecord:
    values = list(row)
    values[_SUCCESS] = bool(values[_SUCCESS])
    return RunRecord(*values)


def _add_content(connection: SqlConnection, record: RunRecord) -> RunRecord:
    kept = select_rows(connection, "SELECT input, output FROM history_content WHERE id = ?", (record.id,))
    return record._replace(input=kept[0][0], output=kept[0][1]) if kept else record


def _to_sqlite_value(value: Any) -> Any:
    """A value that SQLite accepts: valid UTF-8 and integers of 64 bits."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, int):
        return max(min(value, _MAX_INTEGER), -_MAX_INTEGER)
    return value


_log = logging.getLogger("openskills.host")
_WRITE_INTERVAL = 0.02
_RETRY_PAUSE = 1.0
_BATCH_SIZE = 1_000
_MAX_ATTEMPTS = 3
_WARN_INTERVAL = 60.0
_CLEANUP_INTERVAL = 300.0
_DAY = 24 * 60 * 60.0


class CallJournal:
    """The calls of this process that have no row yet, in the locked file of a worker; any thread may use it.

    Whoever finds the file of a process that was killed adds the rows.
    """

    def __init__(self, database: Path | None) -> None:
        self._file = WorkerLock(database)
        self._open: dict[str, bytes] = {}
        self._unwritten: list[bytes] = []
        self._end = 0
        self._lock = threading.Lock()

    def add(self, run_id: str, *values: str | float) -> None:
        """Note a call, with the values that `recover` reads.

        Calls that begin in the same turn of an event loop are written together, at its end.
        """
        line = orjson.dumps((run_id, *values)) + b"\n"
        with self._lock:
            self._open[run_id] = line
            self._unwritten.append(line)
            is_first = len(self._unwritten) == 1
        if is_first:
            try:
                asyncio.get_running_loop().call_soon(self._write)
            except RuntimeError:
                self._write()

    def _write(self) -> None:
        # A full disk must not fail a call.
        with self._lock, suppress(OSError):
            lines, self._unwritten = self._unwritten, []
            if not self._open:
                return
            if self._file.descriptor is None:
                self._file.hold()
            assert self._file.descriptor is not None  # noqa: S101 - it has a database
            if self._end < _MAX_JOURNAL_BYTES:
                self._end += os.pwrite(self._file.descriptor, b"".join(lines), self._end)
            else:
                self._end = os.pwrite(self._file.descriptor, b"".join(self._open.values()), 0)
                os.ftruncate(self._file.descriptor, self._end)

    def remove(self, run_ids: Iterable[str]) -> None:
        """Forget calls that have a row."""
        with self._lock, suppress(OSError):
            for run_id in run_ids:
                self._open.pop(run_id, None)
            if self._file.descriptor is not None and self._end and not self._open:
                os.ftruncate(self._file.descriptor, 0)
                self._end = 0

    def close(self) -> None:
        with self._lock:
            self._open.clear()
            self._unwritten.clear()
            self._end = 0
            self._file.close()

    async def recover(self, database: Database) -> None:
        """Add rows for the calls of processes that were killed. Raises `OSError` and `StoreUnavailable`."""
        for path in await asyncio.to_thread(self._file.find_dead):
            rows: list[tuple[Any, ...]] = []
            for line in path.read_bytes().splitlines():
                # The last one may be incomplete.
                with suppress(ValueError, TypeError):
                    rows.append(_row_from_start(line))
            await database.write(lambda at, rows=rows: at.executemany(_INSERT_INTERRUPTED, rows))
            path.unlink(missing_ok=True)

    def list_open(self) -> dict[str, bytes]:
        """The calls that have no row yet."""
        with self._lock:
            return dict(self._open)


def _row_from_start(line: str | bytes) -> tuple[Any, ...]:
    """The row of a call that was interrupted. Raises `ValueError` and `TypeError`."""
    run_id, trace_id, who, skill_id, version, runner_type, bytes_in, began = json.loads(line)
    about = (run_id, trace_id, who, skill_id, version, runner_type, began)
    record = RunRecord(*about, 0.0, False, RunInterrupted.code, _INTERRUPTED, bytes_in)
    record = record._replace(state=_STATES[RunInterrupted.reason])
    return tuple(map(_to_sqlite_value, record[:_COLUMN_COUNT]))


_INSERT_START = "INSERT INTO history_starts (id, worker, data) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
_DELETE_START = "DELETE FROM history_starts WHERE id = ?"
_SELECT_DEAD_STARTS = f"SELECT id, data FROM history_starts WHERE {WORKER_IS_DEAD} LIMIT 1000"  # noqa: S608 - our own words


def _recover_starts(at: SqlConnection) -> None:
    """Add rows for the calls of hosts that were killed; only with PostgreSQL."""
    dead = select_rows(at, _SELECT_DEAD_STARTS)
    if dead:
        at.executemany(_INSERT_INTERRUPTED, [_row_from_start(data) for _, data in dead])
        at.executemany(_DELETE_START, [(run_id,) for run_id, _ in dead])


_MAX_JOURNAL_BYTES = 256 * 1024
_INTERRUPTED = "the worker process ended during the call; how far the skill got is unknown"


KEEP_ROWS = 1_000_000
MAX_PENDING = 20_000


@check_arguments
class History:
    """Rows of invocations in the host's database, shared by all workers. With `place=None` nothing is stored.

    A full or read-only disk never fails an invocation: rows are queued, and dropped when too many are. That is counted
    (`lost_count`) and logged once a minute. Rows older than `keep_days` are removed, and all but the newest
    `keep_rows`. Constructing one does not touch the disk. With PostgreSQL, `journal` is the local file next to which
    running calls are noted, and `worker` shows other hosts whether they are still running; without `journal`, the
    history can only be read.
    """

    def __init__(
        self,
        place: DatabasePlace,
        keep_days: float = 30.0,
        keep_rows: int = KEEP_ROWS,
        *,
        max_pending: int = MAX_PENDING,
        max_content: int = MAX_PENDING_CONTENT_BYTES,
        timeout: float = BUSY_TIMEOUT,
        journal: Path | None = None,
        worker: WorkerHeartbeat | None = None,
    ) -> None:
        self._place = place
        self._database = Database(place, timeout=timeout)
        self._worker = worker
        local = journal or self._database.path
        self._is_writer = place is not None and local is not None
        self._journal = CallJournal(local)
        self._connected = open_connection(place, timeout)
        self._stored_starts: set[str] = set()
        self._keep_days = keep_days
        self._keep_rows = keep_rows
        self._max_pending = max_pending
        self._max_content = max_content
        # Two counters that only grow, each changed by one thread: no lock is needed.
        self._content_added = 0
        self._content_done = 0
        self._waiting: deque[RunRecord] = deque()
        self._batch: list[RunRecord] = []
        self._something = threading.Event()
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._warned = -_WARN_INTERVAL
        self._tidied = -_CLEANUP_INTERVAL
        self.lost_count = 0

    def record_start(
        self, run_id: str, trace_id: str, who: str, skill_id: str, version: str, runner_type: str, bytes_in: int
    ) -> None:
        """Note that a call begins now: if this process is killed before `record`, the call is shown as interrupted."""
        if not self._is_writer:
            return
        self._journal.add(run_id, trace_id, who, skill_id, version, runner_type, bytes_in, time.time())
        # Other hosts know of calls that take longer than the next write.
        if self._worker is not None and not self._something.is_set():
            self._start()
            self._something.set()

    def record(self, record: RunRecord) -> None:
        """Queue a row and return at once; it can be read about 50 ms later."""
        if not self._is_writer:
            return
        if len(self._waiting) >= self._max_pending:
            self.lost_count += 1
            self._journal.remove((record.id,))
            return
        size = _content_size(record)
        if size and self._content_added - self._content_done + size > self._max_content:
            record, size = record._replace(input=None, output=None), 0
        self._content_added += size
        self._waiting.append(record)
        if self._thread is None or not self._something.is_set():
            self._start()
            self._something.set()

    async def list(self, wanted: RunFilter | None = None, *, limit: int = 50) -> Sequence[RunRecord]:
        """The newest runs first, without bodies; also those that have not ended."""
        if not await self._is_readable():
            return ()
        return await self._database.read(lambda found: select_records(found, wanted or RunFilter(), limit))

    async def series(
        self, wanted: RunFilter | None = None, *, since: float, until: float, buckets: int
    ) -> Sequence[RunStatistics]:
        """Calls, errors and percentiles of the latency over time, computed by the database."""
        asked = wanted or RunFilter()
        if not await self._is_readable():
            return [RunStatistics(since + place * (until - since) / buckets, 0, 0) for place in range(buckets)]
        return await self._database.read(
            lambda found: select_series(found, asked, since=since, until=until, buckets=buckets)
        )

    async def get(self, run_id: str) -> RunRecord:
        """One row, by its id, a unique prefix of it, or its trace id.

        Raises `UnknownRun`, or `InvalidArgument` if there are several.
        """
        if not await self._is_readable():
            raise UnknownRun(f"unknown run {run_id!r}: no history has been recorded")
        found = await self._database.read(lambda connection: select_by_prefix(connection, run_id))
        if not found:
            raise UnknownRun(f"unknown run {run_id!r}; `openskills runs list` shows the latest", id=run_id)
        if len(found) > 1:
            if found[0].trace_id == run_id:
                raise InvalidArgument("id", f"several runs have this trace id; use an id, such as {found[0].id}")
            raise InvalidArgument("id", f"several runs start with {run_id!r}; give more of the id")
        return found[0]

    async def recover(self) -> None:
        """Add rows for calls of processes that were killed."""
        if self._is_writer:
            # Who may only read sees the rows when somebody else has added them.
            with suppress(StoreUnavailable, OSError):
                await self._journal.recover(self._database)
                if self._database.is_shared:
                    await self._database.write(_recover_starts)

    async def _is_readable(self) -> bool:
        """Whether there is a history, after `recover`."""
        await self.recover()
        return self._place is not None and (not isinstance(self._place, Path) or self._place.exists())

    async def close(self) -> None:
        """Write what is queued and close the file; a later `record` opens it again."""
        await asyncio.to_thread(self._stop)
        if self._worker is not None:
            await asyncio.to_thread(self._worker.close)
        await self._database.close()

    def _stop(self) -> None:
        """Write what is queued, or count it as lost, and stop the thread. Blocking."""
        # A row may be queued while the thread is stopping, so look again, a few times.
        for _ in range(_MAX_ATTEMPTS):
            if self._waiting:
                self._start()
            thread = self._thread
            if thread is None:
                return
            self._ending.set()
            self._something.set()
            thread.join()
            with self._starting:
                # `add` may have started a new thread meanwhile.
                self._thread = None if self._thread is thread else self._thread

    def _start(self) -> None:
        with self._starting:
            if self._thread is None or not self._thread.is_alive():
                self._ending.clear()
                self._thread = threading.Thread(target=self._run, name="openskills-history", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while not self._ending.is_set():
            self._something.wait()
            # Rows that arrive during this wait go into the same transaction.
            self._ending.wait(_WRITE_INTERVAL)
            self._something.clear()
            if not self._write_all() and not self._ending.is_set():
                self._something.set()
                self._ending.wait(_RETRY_PAUSE)
        if not self._write_all():
            self.lost_count += len(self._waiting) + len(self._batch)
            self._content_done = self._content_added
            self._waiting.clear()
            self._batch.clear()
        self._journal.close()
        self._connected.close()
        self._stored_starts.clear()

    def _write_all(self) -> bool:
        try:
            while self._batch or self._waiting:
                while self._waiting and len(self._batch) < _BATCH_SIZE:
                    self._batch.append(self._waiting.popleft())
                self._connected.use(lambda connection: insert_records(connection, self._batch))
                self._content_done += sum(map(_content_size, self._batch))
                self._journal.remove(record.id for record in self._batch)
                self._batch.clear()
            self._write_starts()
            self._clean_up()
        except SkillError as error:
            self._warn(error)
            return False
        return True

    def _write_starts(self) -> None:
        """Note in the database which calls are running, and forget those that have a row: one transaction for all."""
        worker = self._worker
        if worker is None:
            return
        running = self._journal.list_open()
        done = self._stored_starts - running.keys()
        fresh = {} if self._ending.is_set() else {key: running[key] for key in running.keys() - self._stored_starts}
        if not done and not fresh:
            return

        def write(connection: SqlConnection) -> None:
            with connection.transaction():
                connection.executemany(_DELETE_START, [(run_id,) for run_id in done])
                if fresh:
                    worker.hold(connection)
                rows = [(run_id, worker.id, line.decode("utf-8", "replace")) for run_id, line in fresh.items()]
                connection.executemany(_INSERT_START, rows)

        self._connected.use(write)
        self._stored_starts = (self._stored_starts - done) | fresh.keys()

    def _clean_up(self) -> None:
        now = time.monotonic()
        if now - self._tidied < _CLEANUP_INTERVAL:
            return
        before = time.time() - self._keep_days * _DAY
        removed = self._connected.use(lambda found: delete_old_records(found, before=before, keep_rows=self._keep_rows))
        # If there may be more to remove, go on with the next batch.
        if not removed:
            self._tidied = now

    def _warn(self, error: SkillError) -> None:
        now = time.monotonic()
        if now - self._warned >= _WARN_INTERVAL:
            self._warned = now
            waiting, lost = len(self._waiting) + len(self._batch), self.lost_count
            _log.warning("cannot write the history: %s (%s rows pending, %s lost)", error, waiting, lost)


def _content_size(record: RunRecord) -> int:
    return len(record.input or b"") + len(record.output or b"")
