"""The host's SQLite database, shared by all workers of a host and used from threads.

It runs in WAL mode with `synchronous=NORMAL`: a killed process loses no committed data, a power cut at most the last
moments, and neither damages the file. That suits data that can be requested again, and avoids a flush per commit.
"""

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from openskills.errors import StoreUnavailable
from openskills.host.tables import STEPS
from openskills.session.sqlite import (
    CREATE_SCHEMA_TABLE,
    INSERT_SCHEMA_VERSION,
    SELECT_SCHEMA_VERSION,
    MigrationStep,
    find_missing_steps,
)

_IS_RECORDED = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'openskills_schema'"
_RETRY_PAUSE = 0.01
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_ADVICE = {
    sqlite3.SQLITE_FULL: "the disk is full; free some space",
    sqlite3.SQLITE_READONLY: "no permission to write; check the owner and mode of the file and its directory",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; check that it is a file and that its directory is writable",
    sqlite3.SQLITE_CORRUPT: "the file is damaged; move it away, and the host creates a new one",
    sqlite3.SQLITE_NOTADB: "not an SQLite database; move it away, or choose another file with OPENSKILL_HOST_HISTORY",
    **dict.fromkeys(_BUSY, "timed out waiting for other writers; try again"),
}


def open_connection(
    path: Path | None, *, timeout: float, steps: tuple[MigrationStep, ...] = STEPS
) -> sqlite3.Connection:
    """Open a database and bring its tables up to date; `None` is a private database in memory.

    A new file is readable by its owner only. Raises `StoreUnavailable` if it cannot be opened, and `SkillError` for a
    file of a newer version. `timeout` is how many seconds each step waits for other writers.
    """
    with translate_errors(path):
        if path is not None:
            _create_file(path)
        connection = sqlite3.connect(path or ":memory:", timeout=timeout, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA synchronous = NORMAL")
            _enable_wal(connection, time.monotonic() + timeout)
            _migrate(connection, path, steps)
        except BaseException:
            connection.close()
            raise
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Generator[None]:
    """Run the block in one write transaction."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # After some errors SQLite has already rolled back.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def translate_errors(path: Path | None) -> Generator[None]:
    """Turn errors of SQLite and of the file system into `StoreUnavailable`."""
    try:
        yield
    except sqlite3.Error as error:
        # The lowest byte of an extended result code is the primary code.
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        raise _unavailable_error(path, _ADVICE.get(code, str(error))) from error
    except OSError as error:
        where = f" ({os.fsdecode(error.filename)})" if error.filename else ""
        raise _unavailable_error(path, f"{error.strerror or error}{where}") from error


def select_rows(connection: sqlite3.Connection, sql: str, arguments: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """All rows of a query."""
    return connection.execute(sql, arguments).fetchall()


def _unavailable_error(path: Path | None, what: str) -> StoreUnavailable:
    place = "in memory" if path is None else str(path)
    return StoreUnavailable(f"the host's database {place} cannot be used: {what}", store=place)


def _create_file(path: Path) -> None:
    # SQLite gives the files beside it the same mode.
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))


def _enable_wal(connection: sqlite3.Connection, deadline: float) -> None:
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            # SQLite does not wait by itself while another process makes the same change.
            if error.sqlite_errorcode not in _BUSY or time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_PAUSE)
            continue
        return


def _migrate(connection: sqlite3.Connection, path: Path | None, steps: tuple[MigrationStep, ...]) -> None:
    if select_rows(connection, _IS_RECORDED) and not _find_missing_steps(connection, path, steps):
        return
    with transaction(connection):
        connection.execute(CREATE_SCHEMA_TABLE)
        # Checked again: another process may have been faster.
        for version, step in _find_missing_steps(connection, path, steps):
            for sql in step:
                connection.execute(sql)
            connection.execute(INSERT_SCHEMA_VERSION.replace("$1", "?"), (version,))


def _find_missing_steps(
    connection: sqlite3.Connection, path: Path | None, steps: tuple[MigrationStep, ...]
) -> list[tuple[int, MigrationStep]]:
    ((version,),) = select_rows(connection, SELECT_SCHEMA_VERSION)
    return find_missing_steps(version, place=f"the host's database {path}", steps=steps)


T = TypeVar("T")

_abandoned: list[sqlite3.Connection] = []
"""Connections that must never be closed, not even by the garbage collector."""


class HostDatabaseConnection:
    """A lazily opened connection. If the file was moved away, the next use creates a new one. For one thread."""

    def __init__(self, path: Path | None, timeout: float) -> None:
        self._path = path
        self._timeout = timeout
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None

    def use(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Call `work` with the connection. Errors of SQLite become `StoreUnavailable`."""
        with translate_errors(self._path):
            return work(self._get_connection())

    def close(self) -> None:
        """Close it; the next use opens another."""
        if self._connection is not None and self._identity == self._read_identity():
            self._connection.close()
        elif self._connection is not None:
            _abandoned.append(self._connection)
        self._connection = None

    def _get_connection(self) -> sqlite3.Connection:
        if self._connection is not None and self._identity != self._read_identity():
            # Closing it would remove the write-ahead log of the database that is there now.
            _abandoned.append(self._connection)
            self._connection = None
        if self._connection is None:
            self._connection = open_connection(self._path, timeout=self._timeout)
            self._identity = self._read_identity()
        return self._connection

    def _read_identity(self) -> tuple[int, int] | None:
        if self._path is None:
            return None
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return None
        return status.st_dev, status.st_ino


BUSY_TIMEOUT = 5.0


class Database:
    """One connection for writing and one for reading, each in its own thread.

    The file is created on first use; `None` is a database in memory, for one process only. `write` and `read` call
    blocking functions with the connection. Create it in the process that uses it, not before a fork. `timeout` is how
    many seconds a writer waits for writers of other processes.
    """

    def __init__(self, path: Path | None, *, timeout: float = BUSY_TIMEOUT) -> None:
        self.path = path
        self._writer = _HostDatabaseThread(path, timeout)
        # A database in memory exists in one connection only.
        self._reader = self._writer if path is None else _HostDatabaseThread(path, timeout)

    async def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Call `work` in one transaction. Raises what it raises, and `StoreUnavailable`."""

        def work_in_transaction(connection: sqlite3.Connection) -> T:
            with transaction(connection):
                return work(connection)

        return await self._writer.run(work_in_transaction)

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Call `work` without waiting for writers. Raises what it raises, and `StoreUnavailable`."""
        return await self._reader.run(work)

    async def close(self) -> None:
        """Close both connections after pending work."""
        await self._writer.close()
        if self._reader is not self._writer:
            await self._reader.close()


class _HostDatabaseThread:
    """A thread with its own connection; both start on first use."""

    def __init__(self, path: Path | None, timeout: float) -> None:
        self._thread: ThreadPoolExecutor | None = None
        self._connected = HostDatabaseConnection(path, timeout)

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="openskills-host-db")
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._connected.use, work)

    async def close(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            await asyncio.get_running_loop().run_in_executor(thread, self._connected.close)
            thread.shutdown(wait=False)
