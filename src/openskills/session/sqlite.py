"""A session store in an SQLite file, shared by tasks, threads and processes, and the migrations of its tables.

The file is in WAL mode with `synchronous=FULL`: an acknowledged commit survives a killed process and a power failure,
and readers do not wait for writers.
"""

import os
import sqlite3
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from openskills.arguments import check_arguments
from openskills.errors import SessionsUnavailable, SkillError
from openskills.session import tables
from openskills.session.events import Event, check_id, event_from_json
from openskills.session.store import (
    AppendEventHook,
    AppendResult,
    Session,
    SessionHead,
    SessionInfo,
    SessionKey,
    SessionLease,
    advance_head,
    result_from_stored,
    sort_latest_first,
    take_lease,
    to_milliseconds,
)
from openskills.sql import BUSY_CODES, DatabaseProfile, DatabaseThreads, MigrationStep, SqliteConnection, SqliteHandle

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
class SqliteSessionStore:
    """A `SessionStore` in a file on a local disk, created or migrated on first use.

    `hook` is called with every event before it is stored, in another thread. An append waits up to `timeout` seconds
    for other processes before it raises `SessionsUnavailable`.
    """

    def __init__(self, path: Path | str, hook: AppendEventHook | None = None, *, timeout: float = LOCK_TIMEOUT) -> None:
        self._hook = hook
        # Two connections, so that readers in this process do not wait for writers.
        place = Path(path).absolute()
        self._writing = DatabaseThreads(lambda: SqliteHandle(place, SESSION_DATABASE, timeout))
        self._reading = DatabaseThreads(lambda: SqliteHandle(place, SESSION_DATABASE, timeout))

    async def get(self, key: SessionKey, *, after: int = 0) -> Session | None:
        """See `SessionStore.get`."""
        return await self._reading.use(lambda db: _read_session(db, key, after))

    async def append(
        self, key: SessionKey, event: Event, *, expected: int | None = None, epoch: int | None = None
    ) -> AppendResult:
        """See `SessionStore.append`. A hook blocks other writers of this file."""
        return await self._writing.use(lambda db: _append_event(db, key, event, expected, epoch, self._hook))

    async def acquire_lease(self, key: SessionKey, holder: str, *, ttl: float) -> tuple[SessionLease, Session | None]:
        """See `SessionStore.acquire_lease`."""
        return await self._writing.use(lambda db: _acquire_lease(db, key, holder, ttl))

    async def renew_lease(self, lease: SessionLease, *, ttl: float) -> None:
        """See `SessionStore.renew_lease`."""
        await self._writing.use(lambda db: _renew_lease(db, lease, to_milliseconds(ttl)))

    async def release_lease(self, lease: SessionLease) -> None:
        """See `SessionStore.release_lease`."""
        await self._writing.use(lambda db: _release_lease(db, lease))

    async def list(self, app: str, user: str) -> Sequence[SessionInfo]:
        """See `SessionStore.list`."""
        query = tables.build_list_query(check_id("app", app), check_id("user", user))
        rows = await self._reading.use(lambda db: db.fetch_rows(query))
        return sort_latest_first([tables.info_from_row(app, user, row) for row in rows])

    async def delete(self, key: SessionKey) -> bool:
        """See `SessionStore.delete`."""
        return await self._writing.use(lambda db: _delete_session(db, key))

    async def close(self) -> None:
        """Close the file; the next use opens it again."""
        await self._reading.close()
        await self._writing.close()


def _read_session(db: SqliteConnection, key: SessionKey, after: int) -> Session | None:
    with db.transaction("DEFERRED"):
        head = _read_head(db, key)
        if head is None:
            return None
        rows = db.fetch_rows(tables.build_events_query(key, after))
    return head.build_session([event_from_json(body) for (body,) in rows], after=after)


def _append_event(
    db: SqliteConnection,
    key: SessionKey,
    event: Event,
    expected: int | None,
    epoch: int | None,
    hook: AppendEventHook | None,
) -> AppendResult:
    with db.transaction():
        if epoch is not None:
            tables.lease_from_rows(db.fetch_rows(tables.build_lease_query(key))).check_epoch(key, epoch)
        head = _read_head(db, key)
        stored = db.fetch_rows(tables.build_event_query(key, event))
        if head and stored:
            return result_from_stored(head, stored[0][0])
        done, after = advance_head(key, head, event, expected=expected, hook=hook)
        for query in tables.build_write_queries(after, done.event):
            db.execute_update(query)
    return done


def _acquire_lease(
    db: SqliteConnection, key: SessionKey, holder: str, ttl: float
) -> tuple[SessionLease, Session | None]:
    with _commit_without_flush(db):
        last = tables.lease_from_rows(db.fetch_rows(tables.build_lease_query(key)))
        taken = take_lease(key, last, holder, ttl=ttl, now=_read_clock())
        db.execute_update(tables.build_set_lease_query(key, taken))
        head = _read_head(db, key)
    return SessionLease(key, holder, taken.epoch), head.without_events() if head else None


def _renew_lease(db: SqliteConnection, lease: SessionLease, milliseconds: int) -> None:
    with _commit_without_flush(db):
        last = tables.lease_from_rows(db.fetch_rows(tables.build_lease_query(lease.key)))
        last.check_epoch(lease.key, lease.epoch)
        renewed = replace(last, expires=_read_clock() + milliseconds)
        db.execute_update(tables.build_set_lease_query(lease.key, renewed))


def _release_lease(db: SqliteConnection, lease: SessionLease) -> None:
    with _commit_without_flush(db):
        last = tables.lease_from_rows(db.fetch_rows(tables.build_lease_query(lease.key)))
        if last.epoch == lease.epoch:
            db.execute_update(tables.build_set_lease_query(lease.key, replace(last, holder="")))


@contextmanager
def _commit_without_flush(db: SqliteConnection) -> Generator[None]:
    """A transaction that need not survive a power failure: that ends all holders, too, because the file is local."""
    db.execute_update(("PRAGMA synchronous = NORMAL", ()))
    try:
        with db.transaction():
            yield
    finally:
        db.execute_update(("PRAGMA synchronous = FULL", ()))


def _read_clock() -> int:
    return time.time_ns() // 1_000_000


def _delete_session(db: SqliteConnection, key: SessionKey) -> bool:
    events, session = tables.build_delete_queries(key)
    with db.transaction():
        db.execute_update(events)
        return db.execute_update(session) > 0


def _read_head(db: SqliteConnection, key: SessionKey) -> SessionHead | None:
    rows = db.fetch_rows(tables.build_head_query(key))
    return tables.head_from_row(key, rows[0]) if rows else None
