"""History of invocations.

One row of the history: an invocation that has ended. Pure, but for the ids.

The history as rows of the host's database: put, find, forget. Blocking.

The thread that writes the history, a batch at a time, so that no call ever waits for a disk.

The history of a host: one row for each invocation, for as long as it is wanted.
"""

import asyncio
import hashlib
import logging
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from openskills.errors import InvalidArgument, SkillError, UnknownRun
from openskills.host.database import BUSY_TIMEOUT, Database, HostDatabaseConnection, select_rows, transaction
from openskills.host.model import InvokeResult
from openskills.telemetry.values import mask_text

MAX_MESSAGE_LENGTH = 1_000
MAX_CONTENT_BYTES = 256 * 1024
"""Bytes of an input or output that are kept, where keeping them is asked for."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """Who called what, when, and what came of it. `began` is in seconds since 1970.

    `input` and `output` are there only when the host was told to keep them.
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
        """The row for a result. `body` is the request: its size and digest are kept, not the bytes."""
        failure = result.outcome.failure
        message = "" if failure is None else failure.message[:MAX_MESSAGE_LENGTH]
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
        )

    def with_content(self, request: bytes, response: bytes, secrets: Mapping[str, str]) -> "RunRecord":
        """The row with what was asked and answered, for hosts that are told to keep it; never with a secret in it."""
        return replace(self, input=mask_content(request, secrets), output=mask_content(response, secrets))

    def to_dict(self) -> dict[str, Any]:
        """For a program: times as text, contents as text where they are kept."""
        found = asdict(self)
        found["began"] = datetime.fromtimestamp(self.began, UTC).isoformat(timespec="milliseconds")
        for name in ("input", "output"):
            content = found.pop(name)
            if content is not None:
                found[name] = content.decode("utf-8", "replace")
        return found


def new_run_id(now: float | None = None) -> str:
    """An id that nobody can guess. Ids of later runs come later in the alphabet."""
    return f"{id_prefix(time.time() if now is None else now)}{os.urandom(10).hex()}"


def id_prefix(at: float) -> str:
    """How ids of runs begin that began at this time: all earlier ones come before it in the alphabet."""
    return f"run_{max(int(at * 1000), 0):012x}"


def mask_content(content: bytes, secrets: Mapping[str, str]) -> bytes:
    """What may be kept of an input or output: secrets replaced by their names, and not too much of it."""
    text = mask_text(content.decode("utf-8", "replace"), secrets).encode()
    if len(text) <= MAX_CONTENT_BYTES:
        return text
    return text[:MAX_CONTENT_BYTES] + f"[... {len(text) - MAX_CONTENT_BYTES:,} more bytes]".encode()


_COLUMNS = tuple(field.name for field in fields(RunRecord) if field.name not in {"input", "output"})
_NAMES = ", ".join(_COLUMNS)
# An id that is there already is a call that was recorded already.
_INSERT = f"INSERT OR IGNORE INTO history ({_NAMES}) VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608 - our own names
_INSERT_CONTENT = "INSERT OR IGNORE INTO history_content (id, input, output) VALUES (?, ?, ?)"
_OLD_IDS = "SELECT id FROM history WHERE id < ? ORDER BY id LIMIT ?"
_OLDEST_KEPT = "SELECT id FROM history ORDER BY id DESC LIMIT 1 OFFSET ?"
_SUCCESS = _COLUMNS.index("success")
_MAX_INTEGER = 2**63 - 1
_DELETE_BATCH = 2_000
"""Rows that are removed in one transaction, so that nobody waits long."""


def insert_records(connection: sqlite3.Connection, records: Sequence[RunRecord]) -> None:
    """Keep these, all or none."""
    with transaction(connection):
        try:
            connection.executemany(_INSERT, [_row_from_record(record) for record in records])
        except (UnicodeError, OverflowError):
            # Half a character or an endless number from a skill: rare, so nobody else pays for looking.
            connection.executemany(
                _INSERT, [tuple(map(_to_sqlite_value, _row_from_record(record))) for record in records]
            )
        contents = [
            (record.id, record.input, record.output)
            for record in records
            if record.input is not None or record.output is not None
        ]
        connection.executemany(_INSERT_CONTENT, contents)


def select_records(
    connection: sqlite3.Connection, *, skill: str | None, failed: bool, since: float | None, limit: int
) -> list[RunRecord]:
    """The latest first, without contents."""
    wanted = ["1"]
    arguments: list[Any] = []
    if skill is not None:
        wanted.append("skill_id = ?")
        arguments.append(skill)
    if failed:
        wanted.append("success = 0")
    if since is not None:
        wanted.append("id >= ?")
        arguments.append(id_prefix(since))
    sql = f"SELECT {_NAMES} FROM history WHERE {' AND '.join(wanted)} ORDER BY id DESC LIMIT ?"  # noqa: S608 - our own words
    return [_record_from_row(row) for row in select_rows(connection, sql, (*arguments, limit))]


def select_by_prefix(connection: sqlite3.Connection, beginning: str) -> list[RunRecord]:
    """The record with this id, with its contents; else those whose ids begin so, at most two."""
    sql = f"SELECT {_NAMES} FROM history WHERE id >= ? AND id < ? ORDER BY id LIMIT 2"  # noqa: S608 - our own names
    found = [_record_from_row(row) for row in select_rows(connection, sql, (beginning, beginning + "\U0010ffff"))]
    exact = [record for record in found if record.id == beginning]
    return [_add_content(connection, record) for record in exact or found]


def delete_old_records(connection: sqlite3.Connection, *, before: float, keep_rows: int) -> int:
    """Remove what began before that time, and all but the latest rows; how many were removed, at most 2,000."""
    limit = id_prefix(before)
    kept = select_rows(connection, _OLDEST_KEPT, (max(keep_rows - 1, 0),))
    if kept:
        limit = max(limit, kept[0][0])
    with transaction(connection):
        old = select_rows(connection, _OLD_IDS, (limit, _DELETE_BATCH))
        connection.executemany("DELETE FROM history_content WHERE id = ?", old)
        connection.executemany("DELETE FROM history WHERE id = ?", old)
    return len(old)


def _row_from_record(record: RunRecord) -> tuple[Any, ...]:
    # Written out: this is on the way of every call, and `astuple` costs ten times as much.
    return (
        record.id,
        record.trace_id,
        record.who,
        record.skill_id,
        record.version,
        record.runner_type,
        record.began,
        record.latency_ms,
        record.success,
        record.code,
        record.message,
        record.bytes_in,
        record.bytes_out,
        record.input_digest,
    )


def _record_from_row(row: Sequence[Any]) -> RunRecord:
    values = list(row)
    values[_SUCCESS] = bool(values[_SUCCESS])
    return RunRecord(*values)


def _add_content(connection: sqlite3.Connection, record: RunRecord) -> RunRecord:
    kept = select_rows(connection, "SELECT input, output FROM history_content WHERE id = ?", (record.id,))
    return replace(record, input=kept[0][0], output=kept[0][1]) if kept else record


def _to_sqlite_value(value: Any) -> Any:
    """A value that SQLite takes: text of whole characters, numbers of 64 bits."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, int):
        return max(min(value, _MAX_INTEGER), -_MAX_INTEGER)
    return value


_log = logging.getLogger("openskills.host")
_WRITE_INTERVAL = 0.05
_RETRY_PAUSE = 1.0
_BATCH_SIZE = 1_000
_MAX_ATTEMPTS = 3
_WARN_INTERVAL = 60.0
_CLEANUP_INTERVAL = 300.0
_DAY = 24 * 60 * 60.0


class HistoryWriter:
    """Takes records at once and writes them every 50 ms. What the disk does not take is lost, counted and said.

    At most `most` records wait; a disk that comes back in time loses none.
    """

    def __init__(self, path: Path, *, keep_days: float, keep_rows: int, most: int, patience: float) -> None:
        self._connected = HostDatabaseConnection(path, patience)
        self._keep_days = keep_days
        self._keep_rows = keep_rows
        self._most = most
        self._waiting: deque[RunRecord] = deque()
        self._batch: list[RunRecord] = []
        self._something = threading.Event()
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._warned = -_WARN_INTERVAL
        self._tidied = -_CLEANUP_INTERVAL
        self.lost = 0

    def add(self, record: RunRecord) -> None:
        """Take a record; never waits."""
        if len(self._waiting) >= self._most:
            self.lost += 1
            return
        self._waiting.append(record)
        if self._thread is None or not self._something.is_set():
            self._start()
            self._something.set()

    def close(self) -> None:
        """Write what waits, or count it as lost, and end the thread. Blocking."""
        # What is taken while the thread is about to end is nobody's, so it is looked for again; not for ever.
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
                # Somebody may have been quicker to begin anew.
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
            # Whatever comes in this time goes into the same transaction.
            self._ending.wait(_WRITE_INTERVAL)
            self._something.clear()
            if not self._write_all() and not self._ending.is_set():
                self._something.set()
                self._ending.wait(_RETRY_PAUSE)
        if not self._write_all():
            self.lost += len(self._waiting) + len(self._batch)
            self._waiting.clear()
            self._batch.clear()
        self._connected.close()

    def _write_all(self) -> bool:
        try:
            while self._batch or self._waiting:
                while self._waiting and len(self._batch) < _BATCH_SIZE:
                    self._batch.append(self._waiting.popleft())
                self._connected.use(lambda connection: insert_records(connection, self._batch))
                self._batch.clear()
            self._clean_up()
        except SkillError as error:
            self._warn(error)
            return False
        return True

    def _clean_up(self) -> None:
        now = time.monotonic()
        if now - self._tidied < _CLEANUP_INTERVAL:
            return
        before = time.time() - self._keep_days * _DAY
        removed = self._connected.use(lambda found: delete_old_records(found, before=before, keep_rows=self._keep_rows))
        # When there is more to remove it goes on with the next batch.
        if not removed:
            self._tidied = now

    def _warn(self, error: SkillError) -> None:
        now = time.monotonic()
        if now - self._warned >= _WARN_INTERVAL:
            self._warned = now
            waiting, lost = len(self._waiting) + len(self._batch), self.lost
            _log.warning("the history is not written: %s (%s rows wait, %s are lost)", error, waiting, lost)


KEEP_ROWS = 1_000_000
MAX_PENDING = 20_000


class History:
    """Rows of invocations in the host's database, shared by all workers. `None` keeps nothing.

    A disk that is full or read-only never fails an invocation: rows wait, and are lost when too many do, which is
    counted (`lost`) and said in the log once a minute. Rows older than `keep_days` go, and so do all but the latest
    `keep_rows`. Making one touches nothing.
    """

    def __init__(
        self,
        path: Path | None,
        keep_days: float = 30.0,
        keep_rows: int = KEEP_ROWS,
        *,
        most_waiting: int = MAX_PENDING,
        patience: float = BUSY_TIMEOUT,
    ) -> None:
        self._path = path
        self._database = Database(path, patience=patience)
        self._writer: HistoryWriter | None = None
        if path is not None:
            self._writer = HistoryWriter(
                path, keep_days=keep_days, keep_rows=keep_rows, most=most_waiting, patience=patience
            )

    @property
    def lost_count(self) -> int:
        """How many rows could not be kept."""
        return 0 if self._writer is None else self._writer.lost

    def record(self, record: RunRecord) -> None:
        """Keep a row. Returns at once; the row is on its way, and can be found some 50 ms later."""
        if self._writer is not None:
            self._writer.add(record)

    async def list(
        self, *, skill: str | None = None, failed: bool = False, since: float | None = None, limit: int = 50
    ) -> Sequence[RunRecord]:
        """The latest first, without inputs and outputs. `since` is in seconds since 1970."""
        if self._path is None or not self._path.exists():
            return ()
        return await self._database.read(
            lambda found: select_records(found, skill=skill, failed=failed, since=since, limit=limit)
        )

    async def get(self, run_id: str) -> RunRecord:
        """One row, by its id or an unmistakable beginning of it. Raises `UnknownRun`."""
        if self._path is None or not self._path.exists():
            raise UnknownRun(f"there is no run {run_id!r}: there is no history")
        found = await self._database.read(lambda connection: select_by_prefix(connection, run_id))
        if not found:
            raise UnknownRun(f"there is no run {run_id!r}; `openskills runs list` shows the latest", id=run_id)
        if len(found) > 1:
            raise InvalidArgument("id", f"several runs begin with {run_id!r}; write more of it")
        return found[0]

    async def close(self) -> None:
        """Write what waits, and close the file; a record after that opens it again."""
        if self._writer is not None:
            await asyncio.to_thread(self._writer.close)
        await self._database.close()
