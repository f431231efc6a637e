"""The host's database, shared by all workers of a host and used from threads: an SQLite file, or PostgreSQL.

SQLite runs in WAL mode with `synchronous=NORMAL`: a killed process loses no committed data, a power cut at most the
last moments, and neither damages the file. That suits data that can be requested again, and avoids a flush per commit.
With PostgreSQL, hosts on any number of machines share everything.
"""

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from openskills.errors import InvalidArgument, StoreUnavailable
from openskills.host.tables import STEPS, UPLOAD_STEPS
from openskills.postgres import PostgresHandle, PostgresUrl
from openskills.session.store import strip_credentials
from openskills.settings import Settings
from openskills.sql import (
    BUSY_CODES,
    DatabaseHandle,
    DatabaseProfile,
    DatabaseThreads,
    SqlConnection,
    SqliteConnection,
    SqliteHandle,
    select_rows,
)

T = TypeVar("T")
DatabasePlace: TypeAlias = Path | PostgresUrl | None
"""A file, a database of PostgreSQL, or None for a database in memory."""

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


HOST_DATABASE = DatabaseProfile(
    "the host's database", STEPS, ("synchronous = NORMAL",), _build_error, is_essential=False, schema="openskills_host"
)
UPLOAD_DATABASE = DatabaseProfile(
    "the database of uploads",
    UPLOAD_STEPS,
    ("synchronous = FULL",),
    _build_error,
    is_essential=True,
    schema="openskills_uploads",
)
"""Uploads exist nowhere else, unlike the history."""


def parse_postgres_url(url: str, field: str) -> PostgresUrl:
    """The address of a database of PostgreSQL. Raises `InvalidArgument`, without the URL because of passwords."""
    if not url.startswith(("postgresql://", "postgres://")):
        raise InvalidArgument(field, "expected postgresql://user:password@host:port/database")
    return PostgresUrl(url, strip_credentials(url))


def find_database(settings: Settings) -> Path | PostgresUrl:
    """The host's database: PostgreSQL if it is configured, else the file of the history, also if that is off."""
    if settings.host_database is not None:
        return parse_postgres_url(settings.host_database, "OPENSKILL_HOST_DATABASE")
    return settings.host_history or settings.state_dir / "host.db"


def find_history(settings: Settings) -> DatabasePlace:
    """The database of the history; None if it is off."""
    return None if settings.host_history is None else find_database(settings)


class HostDatabaseConnection(SqliteHandle):
    """A connection that is opened on first use. If the file was moved away, the next use creates a new one."""

    def __init__(self, path: Path | None, timeout: float, profile: DatabaseProfile = HOST_DATABASE) -> None:
        super().__init__(path, profile, timeout)

    def use(self, work: Callable[[SqliteConnection], T]) -> T:
        """Call `work` with the connection. Errors of SQLite become `StoreUnavailable`."""
        with self._profile.translate_errors(self._path):
            return super().use(work)


BUSY_TIMEOUT = 5.0
BLOCKING_TIMEOUT = 5.0
_THREADS = 4


def open_connection(
    place: DatabasePlace, timeout: float = BUSY_TIMEOUT, profile: DatabaseProfile = HOST_DATABASE
) -> DatabaseHandle[SqlConnection]:
    """A connection for blocking code in one thread."""
    if isinstance(place, PostgresUrl):
        return PostgresHandle(place, profile)
    return HostDatabaseConnection(place, timeout, profile)


class Database:
    """Threads with connections: for SQLite one that writes and one that reads, for PostgreSQL a few that do both.

    A file is created on first use; `None` is a database in memory, for one process only. `write` and `read` call
    blocking functions with the connection. Create it in the process that uses it, not before a fork. `timeout` is how
    many seconds a writer waits for writers of other processes; `profile` has the tables.

    In PostgreSQL writers run at the same time: they `lock` what they read before they change it. A function may be
    called again after a deadlock or a lost connection.
    """

    def __init__(
        self, place: DatabasePlace, *, timeout: float = BUSY_TIMEOUT, profile: DatabaseProfile = HOST_DATABASE
    ) -> None:
        self.place = place
        self.path = None if isinstance(place, PostgresUrl) else place
        self.profile = profile
        self._writer = DatabaseThreads(
            lambda: open_connection(place, timeout, profile), _THREADS if self.is_shared else 1
        )
        # A database in memory exists in one connection only.
        self._reader = self._writer
        if self.path is not None:
            self._reader = DatabaseThreads(lambda: open_connection(place, timeout, profile))

    @property
    def is_shared(self) -> bool:
        """Whether hosts of other machines use it, too."""
        return isinstance(self.place, PostgresUrl)

    async def write(self, work: Callable[[SqlConnection], T]) -> T:
        """Call `work` in one transaction. Raises what it raises, and `StoreUnavailable`.

        With PostgreSQL that may mean that the connection was lost during the commit: look before you repeat it.
        """
        return await self._writer.use_transaction(work)

    async def read(self, work: Callable[[SqlConnection], T]) -> T:
        """Call `work` without waiting for writers. Raises what it raises, and `StoreUnavailable`."""
        return await self._reader.use(work)

    async def run_statement(self, sql: str, arguments: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Execute one statement that is committed at once, and return its rows: one round trip with PostgreSQL."""
        use = self.read if self.is_shared else self.write
        return await use(lambda at: select_rows(at, sql, arguments))

    def read_blocking(self, work: Callable[[SqlConnection], T]) -> T:
        """Call `work` while the caller waits: only for PostgreSQL, and what is cached. Raises `StoreUnavailable`."""
        try:
            return self._reader.submit(lambda handle: handle.use(work)).result(BLOCKING_TIMEOUT)
        except TimeoutError:
            raise StoreUnavailable(f"{self.profile.name} did not answer in time; try again", retry_after=1.0) from None

    async def close(self) -> None:
        """Close all connections after pending work."""
        await self._writer.close()
        if self._reader is not self._writer:
            await self._reader.close()


CHANGE_KEYS, CHANGE_SKILLS, CHANGE_UPLOADS = "keys", "skills", "uploads"
CHANGE_INTERVAL = 1.0
"""Seconds between two looks at what other hosts have changed."""
_RECORD_CHANGE = """
    INSERT INTO host_changes (name, number) VALUES (?, 1)
    ON CONFLICT (name) DO UPDATE SET number = host_changes.number + 1
"""


def record_change(at: SqlConnection, name: str) -> None:
    """Let all hosts know that something of this name has changed."""
    at.execute(_RECORD_CHANGE, (name,))


def read_changes(at: SqlConnection) -> dict[str, int]:
    """How often things were changed, by name."""
    return dict(select_rows(at, "SELECT name, number FROM host_changes"))
