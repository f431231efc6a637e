"""A session store in an SQLite file, shared by tasks, threads and processes, and the migrations of its tables.

The file is in WAL mode with `synchronous=FULL`: an acknowledged commit survives a killed process and a power failure,
and readers do not wait for writers. The migrations are shared with PostgreSQL. A released step is never changed; a
database records the steps that were applied, and the missing ones are applied when it is opened.
"""

import asyncio
import contextvars
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from openskills.arguments import check_arguments
from openskills.errors import SessionsUnavailable, SkillError
from openskills.filesystem import flush_directory
from openskills.session import tables
from openskills.session.events import Event, check_id, event_from_json
from openskills.session.store import (
    AppendEventHook,
    AppendResult,
    Session,
    SessionHead,
    SessionInfo,
    SessionKey,
    advance_head,
    result_from_stored,
    sort_latest_first,
)
from openskills.session.tables import SqlQuery, SqlRow

MigrationStep = tuple[str, ...]

CREATE_SCHEMA_TABLE = "CREATE TABLE IF NOT EXISTS openskills_schema (version BIGINT NOT NULL PRIMARY KEY)"
SELECT_SCHEMA_VERSION = "SELECT coalesce(max(version), 0) FROM openskills_schema"
INSERT_SCHEMA_VERSION = "INSERT INTO openskills_schema (version) VALUES ($1)"

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
)


def find_missing_steps(
    version: int, *, place: str, steps: tuple[MigrationStep, ...] = SESSION_MIGRATIONS
) -> list[tuple[int, MigrationStep]]:
    """The missing steps with their versions. Raises `SkillError` if the database is of a newer OpenSkill."""
    if version > len(steps):
        raise SkillError(
            f"{place} was written by a newer OpenSkill: its schema version is {version}, this one supports"
            f" {len(steps)}; upgrade OpenSkill or use another store",
            version=version,
            known=len(steps),
        )
    return [(number, step) for number, step in enumerate(steps, 1) if number > version]


_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_ADVICE = {
    sqlite3.SQLITE_FULL: "the disk is full; stored events are intact; free some space",
    sqlite3.SQLITE_READONLY: "no permission to write; check the owner and mode of the file and its directory",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; check that it is a file in a writable directory",
}


@dataclass(frozen=True, slots=True)
class SqliteConnection:
    """A connection to a file. SQLite errors are raised as `SkillError` with the name of the file."""

    path: Path
    connection: sqlite3.Connection

    def fetch_rows(self, query: SqlQuery) -> Sequence[SqlRow]:
        """All rows of a query."""
        with self.translate_errors(self.path):
            return self._execute(query).fetchall()

    def execute_update(self, query: SqlQuery) -> int:
        """Execute a statement; returns the number of changed rows."""
        with self.translate_errors(self.path):
            return self._execute(query).rowcount

    @contextmanager
    def transaction(self, kind: str) -> Generator[None]:
        """A transaction. `IMMEDIATE` waits for other writers; `DEFERRED` reads one consistent state."""
        self.execute_update((f"BEGIN {kind}", ()))
        try:
            yield
            self.execute_update(("COMMIT", ()))
        except BaseException:
            # After some errors SQLite has already rolled back.
            if self.connection.in_transaction:
                self.execute_update(("ROLLBACK", ()))
            raise

    @staticmethod
    @contextmanager
    def translate_errors(path: Path) -> Generator[None]:
        """Raise SQLite errors as `SkillError`."""
        try:
            yield
        except sqlite3.Error as error:
            raise _build_error(path, error) from error

    def _execute(self, query: SqlQuery) -> sqlite3.Cursor:
        sql, arguments = query
        # For SQLite, `$1` is a parameter named "1".
        return self.connection.execute(sql, {str(number): value for number, value in enumerate(arguments, 1)})


def _build_error(path: Path, error: sqlite3.Error) -> SkillError:
    # The lowest byte is the primary error code.
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    store = f"the session store {path}"
    if code in _BUSY:
        return SessionsUnavailable(f"{store} is busy: timed out waiting for other writers; try again", store=str(path))
    if code in _DAMAGED:
        what = f"is damaged or not an SQLite database ({error}); restore it from a backup, or use another file"
    else:
        what = f"cannot be used: {_ADVICE.get(code, str(error))}"
    return SkillError(f"{store} {what}", store=str(path), sqlite=getattr(error, "sqlite_errorname", "unknown"))


_IS_RECORDED = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'openskills_schema'"
_PAUSE = 0.01
_MAGIC = b"SQLite format 3\0"
_MIN_SIZE = 512


def open_database(
    path: Path, *, timeout: float, steps: tuple[MigrationStep, ...] = SESSION_MIGRATIONS
) -> SqliteConnection:
    """Open a database and create or migrate its tables; a new file has mode 0600.

    Raises `SkillError` for a file that cannot be opened or is of a newer version.
    """
    db = SqliteConnection(path, _connect(path, timeout))
    try:
        db.fetch_rows(("PRAGMA foreign_keys = ON", ()))
        db.fetch_rows(("PRAGMA synchronous = FULL", ()))
        _enable_wal(db, time.monotonic() + timeout)
        _migrate(db, steps)
    except BaseException:
        db.connection.close()
        raise
    return db


def _connect(path: Path, timeout: float) -> sqlite3.Connection:
    try:
        _create_file(path)
    except OSError as error:
        where = f" ({os.fsdecode(error.filename)})" if error.filename else ""
        message = f"the session store {path} cannot be opened or created: {error.strerror or error}{where}"
        raise SkillError(message, store=str(path)) from error
    # One thread at a time uses it, but another one may close it.
    with SqliteConnection.translate_errors(path):
        return sqlite3.connect(path, timeout=timeout, isolation_level=None, check_same_thread=False)


def _create_file(path: Path) -> None:
    """Create an empty file if it is missing; SQLite creates its other files with the same mode."""
    if path.exists():
        # SQLite refuses other files, unless they are very small: those it would overwrite.
        if path.is_file() and 0 < path.stat().st_size < _MIN_SIZE and not path.read_bytes().startswith(_MAGIC):
            raise SkillError(f"the session store {path} is not an SQLite database; use another file", store=str(path))
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    for directory in (path.parent, path.parent.parent):
        # An unreadable directory existed before.
        with suppress(PermissionError):
            flush_directory(directory)


def _enable_wal(db: SqliteConnection, deadline: float) -> None:
    while True:
        try:
            ((mode,),) = db.fetch_rows(("PRAGMA journal_mode = WAL", ()))
        except SessionsUnavailable:
            # SQLite does not wait while another process makes the same change.
            if time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE)
            continue
        if mode != "wal":
            raise SkillError(f"the session store {db.path} does not support WAL mode ({mode!r}); use a local disk")
        return


def _migrate(db: SqliteConnection, steps: tuple[MigrationStep, ...]) -> None:
    if db.fetch_rows((_IS_RECORDED, ())) and not _read_missing_steps(db, steps):
        return
    with db.transaction("IMMEDIATE"):
        db.execute_update((CREATE_SCHEMA_TABLE, ()))
        # Read again: another process may have migrated in the meantime.
        for version, step in _read_missing_steps(db, steps):
            for sql in step:
                db.execute_update((sql, ()))
            db.execute_update((INSERT_SCHEMA_VERSION, (version,)))


def _read_missing_steps(db: SqliteConnection, steps: tuple[MigrationStep, ...]) -> Sequence[tuple[int, MigrationStep]]:
    ((version,),) = db.fetch_rows((SELECT_SCHEMA_VERSION, ()))
    return find_missing_steps(version, place=f"the session store {db.path}", steps=steps)


T = TypeVar("T")


class SqliteFile:
    """A database file with one connection in its own thread; both are created on first use.

    `timeout` is how many seconds a writer waits for others. A forked child gets its own connection.
    """

    def __init__(self, path: Path, *, timeout: float, steps: tuple[MigrationStep, ...] = SESSION_MIGRATIONS) -> None:
        self._path = path
        self._timeout = timeout
        self._steps = steps
        self._lock = threading.Lock()
        self._worker: _SqliteWorker | None = None

    async def use(self, work: Callable[[SqliteConnection], T]) -> T:
        """Run work with the connection in its thread, one at a time.

        Raises what the work raises, and `SkillError` when the file cannot be used. A cancellation does not wait for
        running work.
        """
        context = contextvars.copy_context()
        with self._lock:
            worker = self._get_worker()
            doing = worker.thread.submit(context.run, worker.run, work)
        return await asyncio.wrap_future(doing)

    async def close(self) -> None:
        """Close the connection after running work; the next use opens another."""
        with self._lock:
            worker, self._worker = self._worker, None
        if worker is not None and worker.process == os.getpid():
            closing = worker.thread.submit(worker.close)
            worker.thread.shutdown(wait=False)
            await asyncio.wrap_future(closing)

    def _get_worker(self) -> "_SqliteWorker":
        if self._worker is not None and self._worker.process != os.getpid():
            # After a fork the thread is missing, and a connection must not be used or closed by two processes.
            self._worker.abandon()
            self._worker = None
        if self._worker is None:
            self._worker = _SqliteWorker(self._path, self._timeout, self._steps)
        return self._worker


class _SqliteWorker:
    def __init__(self, path: Path, timeout: float, steps: tuple[MigrationStep, ...]) -> None:
        self.process = os.getpid()
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="openskills-sqlite")
        self._path = path
        self._timeout = timeout
        self._steps = steps
        self._db: SqliteConnection | None = None
        self._closing: weakref.finalize[..., _SqliteWorker] | None = None
        self._identity: tuple[int, int] | None = None

    def run(self, work: Callable[[SqliteConnection], T]) -> T:
        return work(self._open())

    def close(self) -> None:
        self._db = None
        if self._closing is not None:
            self._closing()

    def abandon(self) -> None:
        """Never use the connection again, and never close it."""
        if self._closing is not None:
            self._closing.detach()
        _abandoned.append(self._db)
        self._db = None

    def _open(self) -> SqliteConnection:
        if self._db is None:
            self._db = open_database(self._path, timeout=self._timeout, steps=self._steps)
            self._identity = _read_identity(self._path)
            # Closed on garbage collection, too; at the end of the process the system does that.
            self._closing = weakref.finalize(self, self._db.connection.close)
            self._closing.atexit = False
        elif _read_identity(self._path) != self._identity:
            # Closing it would remove the write-ahead log of the new database.
            self.abandon()
            raise SkillError(
                f"the session store {self._path} was removed or replaced while it was in use; acknowledged events are"
                " in the original file; restore it, then try again",
                store=str(self._path),
            )
        return self._db


_abandoned: list[SqliteConnection | None] = []
"""Connections that must not be closed, not even by the garbage collector."""


def _read_identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


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
        self._writing = SqliteFile(Path(path).absolute(), timeout=timeout)
        self._reading = SqliteFile(Path(path).absolute(), timeout=timeout)

    async def get(self, key: SessionKey, *, after: int = 0) -> Session | None:
        """See `SessionStore.get`."""
        return await self._reading.use(lambda db: _read_session(db, key, after))

    async def append(self, key: SessionKey, event: Event, *, expected: int | None = None) -> AppendResult:
        """See `SessionStore.append`. A hook blocks other writers of this file."""
        return await self._writing.use(lambda db: _append_event(db, key, event, expected, self._hook))

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
    db: SqliteConnection, key: SessionKey, event: Event, expected: int | None, hook: AppendEventHook | None
) -> AppendResult:
    with db.transaction("IMMEDIATE"):
        head = _read_head(db, key)
        stored = db.fetch_rows(tables.build_event_query(key, event))
        if head and stored:
            return result_from_stored(head, stored[0][0])
        done, after = advance_head(key, head, event, expected=expected, hook=hook)
        for query in tables.build_write_queries(after, done.event):
            db.execute_update(query)
    return done


def _delete_session(db: SqliteConnection, key: SessionKey) -> bool:
    events, session = tables.build_delete_queries(key)
    with db.transaction("IMMEDIATE"):
        db.execute_update(events)
        return db.execute_update(session) > 0


def _read_head(db: SqliteConnection, key: SessionKey) -> SessionHead | None:
    rows = db.fetch_rows(tables.build_head_query(key))
    return tables.head_from_row(key, rows[0]) if rows else None
