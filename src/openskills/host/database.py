"""The host's SQLite database, shared by all workers of a host and used from threads.

It runs in WAL mode with `synchronous=NORMAL`: a killed process loses no committed data, a power cut at most the last
moments, and neither damages the file. That suits data that can be requested again, and avoids a flush per commit.
"""

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from openskills.errors import StoreUnavailable
from openskills.host.tables import STEPS, UPLOAD_STEPS
from openskills.sql import BUSY_CODES, SqliteConnection, SqliteHandle, SqliteProfile, SqliteThread

T = TypeVar("T")

_ADVICE = {
    sqlite3.SQLITE_FULL: "the disk is full; free some space",
    sqlite3.SQLITE_READONLY: "no permission to write; check the owner and mode of the file and its directory",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; check that it is a file and that its directory is writable",
    sqlite3.SQLITE_CORRUPT: "the file is damaged; move it away, and the host creates a new one",
    sqlite3.SQLITE_NOTADB: "not an SQLite database; move it away, or choose another file with OPENSKILL_HOST_HISTORY",
    **dict.fromkeys(BUSY_CODES, "timed out waiting for other writers; try again"),
}


def _build_error(path: Path | None, error: sqlite3.Error | OSError) -> StoreUnavailable:
    if isinstance(error, OSError):
        what = f"{error.strerror or error}{f' ({os.fsdecode(error.filename)})' if error.filename else ''}"
    else:
        # The lowest byte of an extended result code is the primary code.
        what = _ADVICE.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, str(error))
    place = "in memory" if path is None else str(path)
    return StoreUnavailable(f"the host's database {place} cannot be used: {what}", store=place)


HOST_DATABASE = SqliteProfile("the host's database", STEPS, ("synchronous = NORMAL",), _build_error, is_essential=False)
UPLOAD_DATABASE = SqliteProfile(
    "the database of uploads", UPLOAD_STEPS, ("synchronous = FULL",), _build_error, is_essential=True
)
"""Uploads exist nowhere else, unlike the history."""


class HostDatabaseConnection(SqliteHandle):
    """A connection that is opened on first use. If the file was moved away, the next use creates a new one."""

    def __init__(self, path: Path | None, timeout: float, profile: SqliteProfile = HOST_DATABASE) -> None:
        super().__init__(path, profile, timeout)

    def use(self, work: Callable[[SqliteConnection], T]) -> T:
        """Call `work` with the connection. Errors of SQLite become `StoreUnavailable`."""
        with self._profile.translate_errors(self._path):
            return super().use(work)


BUSY_TIMEOUT = 5.0


class Database:
    """One connection for writing and one for reading, each in its own thread.

    The file is created on first use; `None` is a database in memory, for one process only. `write` and `read` call
    blocking functions with the connection. Create it in the process that uses it, not before a fork. `timeout` is how
    many seconds a writer waits for writers of other processes; `profile` has the tables.
    """

    def __init__(
        self, path: Path | None, *, timeout: float = BUSY_TIMEOUT, profile: SqliteProfile = HOST_DATABASE
    ) -> None:
        self.path = path

        def connect() -> HostDatabaseConnection:
            return HostDatabaseConnection(path, timeout, profile)

        self._writer = SqliteThread(connect)
        # A database in memory exists in one connection only.
        self._reader = self._writer if path is None else SqliteThread(connect)

    async def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Call `work` in one transaction. Raises what it raises, and `StoreUnavailable`."""

        def work_in_transaction(connection: SqliteConnection) -> T:
            with connection.transaction():
                return work(connection)

        return await self._writer.use(work_in_transaction)

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Call `work` without waiting for writers. Raises what it raises, and `StoreUnavailable`."""
        return await self._reader.use(work)

    async def close(self) -> None:
        """Close both connections after pending work."""
        await self._writer.close()
        if self._reader is not self._writer:
            await self._reader.close()
