"""A session store in an SQLite file, shared by tasks, threads and processes, and the migrations of its tables.

The file is in WAL mode with `synchronous=FULL`: an acknowledged commit survives a killed process and a power failure,
and readers do not wait for writers.
"""

import os
import sqlite3
from pathlib import Path
from typing import TypeVar

from openskills.arguments import check_arguments
from openskills.errors import SessionsUnavailable, SkillError
from openskills.session.store import AppendEventHook, SessionKey
from openskills.session.tables import SqlSessionStore, SqlSteps
from openskills.sql import BUSY_CODES, DatabaseProfile, DatabaseThreads, MigrationStep, SqliteConnection, SqliteHandle

T = TypeVar("T")

SESSION_MIGRATIONS: tuple[MigrationStep, ...] = (
    (
        # Ids can be too long for an index, so rows are found by digests of them.
        """
        CREATE TABLE openskills_sessions (
            id TEXT NOT NULL PRIMARY KEY,
            owner TEXT NOT NULL,
            app TEXT NOT NULL,
            username TEXT NOT NULL,
            name TEXT NOT NULL,
            revision BIGINT NOT NULL,
            begun TEXT NOT NULL,
            updated TEXT NOT NULL,
            state TEXT NOT NULL
        )
        """,
        # Text, because JSON columns do not keep NUL, lone surrogates and long numbers.
        """
        CREATE TABLE openskills_events (
            session TEXT NOT NULL REFERENCES openskills_sessions (id),
            seq BIGINT NOT NULL,
            id TEXT NOT NULL,
            body TEXT NOT NULL,
            PRIMARY KEY (session, seq),
            UNIQUE (session, id)
        )
        """,
    ),
    ("CREATE INDEX openskills_sessions_of_owner ON openskills_sessions (owner)",),
    (
        # Not part of the sessions: epochs grow even if a session is deleted. `expires` is in milliseconds.
        """
        CREATE TABLE openskills_leases (
            session TEXT NOT NULL PRIMARY KEY,
            epoch BIGINT NOT NULL,
            holder TEXT NOT NULL,
            expires BIGINT NOT NULL
        )
        """,
    ),
)

_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_ADVICE = {
    sqlite3.SQLITE_FULL: "the disk is full; stored events are intact; free some space",
    sqlite3.SQLITE_READONLY: "no permission to write; check the owner and mode of the file and its directory",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; check that it is a file in a writable directory",
}


def _build_error(path: Path | None, error: sqlite3.Error | OSError) -> SkillError:
    store = f"the session store {path}"
    if isinstance(error, OSError):
        where = f" ({os.fsdecode(error.filename)})" if error.filename else ""
        message = f"{store} cannot be opened or created: {error.strerror or error}{where}"
        return SkillError(message, store=str(path))
    # The lowest byte is the primary error code.
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in BUSY_CODES:
        return SessionsUnavailable(f"{store} is busy: timed out waiting for other writers; try again", store=str(path))
    if code in _DAMAGED:
        what = f"is damaged or not an SQLite database ({error}); restore it from a backup, or use another file"
    else:
        what = f"cannot be used: {_ADVICE.get(code, str(error))}"
    return SkillError(f"{store} {what}", store=str(path), sqlite=getattr(error, "sqlite_errorname", "unknown"))


SESSION_DATABASE = DatabaseProfile(
    "the session store",
    SESSION_MIGRATIONS,
    ("foreign_keys = ON", "synchronous = FULL"),
    _build_error,
    is_essential=True,
    unavailable=SessionsUnavailable,
)
LOCK_TIMEOUT = 30.0


@check_arguments
class SqliteSessionStore(SqlSessionStore):
    """A `SessionStore` in a file on a local disk, created or migrated on first use.

    `hook` is called with every event before it is stored, in another thread. An append waits up to `timeout` seconds
    for other processes before it raises `SessionsUnavailable`.
    """

    _clock = ("SELECT CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)", ())

    def __init__(self, path: Path | str, hook: AppendEventHook | None = None, *, timeout: float = LOCK_TIMEOUT) -> None:
        super().__init__(hook)
        # Two connections, so that readers in this process do not wait for writers.
        place = Path(path).absolute()
        self._writing = DatabaseThreads(lambda: SqliteHandle(place, SESSION_DATABASE, timeout))
        self._reading = DatabaseThreads(lambda: SqliteHandle(place, SESSION_DATABASE, timeout))

    async def close(self) -> None:
        """Close the file; the next use opens it again."""
        await self._reading.close()
        await self._writing.close()

    async def _read(self, steps: SqlSteps[T]) -> T:
        return await self._reading.use(lambda db: _execute_steps(db, steps, "DEFERRED"))

    async def _write(self, key: SessionKey, steps: SqlSteps[T]) -> T:
        del key  # all writers of a file take turns
        return await self._writing.use(lambda db: _execute_steps(db, steps))

    async def _write_lease(self, key: SessionKey, steps: SqlSteps[T]) -> T:
        del key
        return await self._writing.use(lambda db: _execute_without_flush(db, steps))


def _execute_steps(db: SqliteConnection, steps: SqlSteps[T], kind: str = "IMMEDIATE") -> T:
    with db.transaction(kind):
        try:
            query = next(steps)
            while True:
                query = steps.send(db.fetch_rows(query))
        except StopIteration as done:
            return done.value


def _execute_without_flush(db: SqliteConnection, steps: SqlSteps[T]) -> T:
    """A transaction that need not survive a power failure: that ends all holders, too, because the file is local."""
    db.execute_update(("PRAGMA synchronous = NORMAL", ()))
    try:
        return _execute_steps(db, steps)
    finally:
        db.execute_update(("PRAGMA synchronous = FULL", ()))
