"""SQLite connection in a thread; migrations.

How the host's SQLite file is made, opened and brought up to date. Blocking.

It is in WAL mode with `synchronous=NORMAL`: a killed process loses nothing that was committed, a power cut at most the
last moments, and neither damages the file. That is right for what can be asked for again, and costs no flush of the
disk with every commit.

One connection to the host's database that survives the file being moved away. Blocking; for one thread.

The host's database: one SQLite file that all workers share, without ever keeping an event loop waiting.
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
    sqlite3.SQLITE_READONLY: "this user may not write to it; check the owner and mode of the file and its directory",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; check that it is a file, and that its directory can be written to",
    sqlite3.SQLITE_CORRUPT: "it is damaged; move it away, and the host makes a new one",
    sqlite3.SQLITE_NOTADB: "it is no SQLite database; move it away, or choose another file with OPENSKILL_HOST_HISTORY",
    sqlite3.SQLITE_BUSY: "others write to it for too long; try again",
    sqlite3.SQLITE_LOCKED: "others write to it for too long; try again",
}


def open_connection(
    path: Path | None, *, patience: float, steps: tuple[MigrationStep, ...] = STEPS
) -> sqlite3.Connection:
    """A connection to a database that has all tables; `None` is one in memory, that nobody else sees.

    What is missing is made, for the owner's eyes only. Raises `StoreUnavailable` for what cannot be opened, and
    `SkillError` for a file of a newer version. `patience` is how many seconds each step waits for others who write.
    """
    with translate_errors(path):
        if path is not None:
            _create_file(path)
        connection = sqlite3.connect(
            path or ":memory:", timeout=patience, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA synchronous = NORMAL")
            _enable_wal(connection, time.monotonic() + patience)
            _migrate(connection, path, steps)
        except BaseException:
            connection.close()
            raise
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Generator[None]:
    """All or nothing, after everybody else who writes."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # After some errors SQLite has rolled back by itself.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def translate_errors(path: Path | None) -> Generator[None]:
    """A block in which what SQLite and the file system raise is `StoreUnavailable`."""
    try:
        yield
    except sqlite3.Error as error:
        # The lowest byte is the kind; the rest says more about it.
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        raise _unavailable_error(path, _ADVICE.get(code, str(error))) from error
    except OSError as error:
        where = f" ({os.fsdecode(error.filename)})" if error.filename else ""
        raise _unavailable_error(path, f"{error.strerror or error}{where}") from error


def select_rows(connection: sqlite3.Connection, sql: str, arguments: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Every row of the answer."""
    return connection.execute(sql, arguments).fetchall()


def _unavailable_error(path: Path | None, what: str) -> StoreUnavailable:
    place = "in memory" if path is None else str(path)
    return StoreUnavailable(f"the host's database {place} cannot be used: {what}", store=place)


def _create_file(path: Path) -> None:
    """An empty file, if there is none; SQLite gives the files beside it the same mode."""
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))


def _enable_wal(connection: sqlite3.Connection, deadline: float) -> None:
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            # While another process makes the same change SQLite does not wait by itself.
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
        # Asked again: another process may have been faster.
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
"""Connections that must not be closed, not even by the garbage collector."""


class HostDatabaseConnection:
    """A connection that begins with the first use. Where somebody moved the file away, the next use makes a new one."""

    def __init__(self, path: Path | None, patience: float) -> None:
        self._path = path
        self._patience = patience
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None

    def use(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do this with the connection. Raises what it raises; what SQLite raises is `StoreUnavailable`."""
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
            # To close it would remove the write-ahead log of the database that is there now.
            _abandoned.append(self._connection)
            self._connection = None
        if self._connection is None:
            self._connection = open_connection(self._path, patience=self._patience)
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
    """Two connections to a file, one that writes and one that reads, each in a thread of its own.

    Making one touches nothing; the first use makes the file. `None` is a database in memory, for one process only.
    What is done with it is blocking code that gets the connection. It must be made in the process that uses it, not
    before a fork. `patience` is how many seconds a writer waits for those of other processes.
    """

    def __init__(self, path: Path | None, *, patience: float = BUSY_TIMEOUT) -> None:
        self.path = path
        self._writer = _HostDatabaseThread(path, patience)
        # What is in memory is in one connection only.
        self._reader = self._writer if path is None else _HostDatabaseThread(path, patience)

    async def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do this in one transaction. Raises what it raises, and `StoreUnavailable`."""
        return await self._writer.run(lambda connection: _in_transaction(connection, work))

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do this without waiting for anybody who writes. Raises what it raises, and `StoreUnavailable`."""
        return await self._reader.run(work)

    async def close(self) -> None:
        """Close both connections after what is under way."""
        await self._writer.close()
        if self._reader is not self._writer:
            await self._reader.close()


def _in_transaction(connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], T]) -> T:
    with transaction(connection):
        return work(connection)


class _HostDatabaseThread:
    """A thread, and the connection that only it uses; both begin with the first use."""

    def __init__(self, path: Path | None, patience: float) -> None:
        self._thread: ThreadPoolExecutor | None = None
        self._connected = HostDatabaseConnection(path, patience)

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="openskills-host-db")
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._connected.use, work)

    async def close(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            await asyncio.get_running_loop().run_in_executor(thread, self._connected.close)
            thread.shutdown(wait=False)
