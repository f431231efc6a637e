"""SQLite connection in a thread; migrations.

The tables of conversations, as steps from nothing to what they are now. Pure; SQLite and PostgreSQL share them.

A database remembers the steps that were taken in it, and takes the rest when it is opened. A step that was released is
never changed: what is to be different is a new step.

Questions to an SQLite file, in transactions. Blocking.

How an SQLite file is made, opened, and brought up to date. Blocking.

One SQLite file that many processes write to, one at a time.

The file is in WAL mode with `synchronous=FULL`: a commit is on the disk before it is acknowledged, so it outlives a
killed process and a power cut; readers do not wait for writers.

Conversations in an SQLite file: durable once acknowledged, shared by tasks, threads and processes.
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
        # Ids are of any length and spelling, indexes are not: rows are found by digests of them.
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
        # Text, not the JSON of a database: none of them keeps NUL, half characters and long numbers.
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
    """The steps that a database at this version has before it, with the version that each leads to.

    Raises `SkillError` for a version that only a newer OpenSkill can have left there.
    """
    if version > len(steps):
        raise SkillError(
            f"{place} was written by a newer OpenSkill: its tables have version {version}, this one knows"
            f" {len(steps)}; install the newer one, or choose another place",
            version=version,
            known=len(steps),
        )
    return [(number, step) for number, step in enumerate(steps, 1) if number > version]


_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_ADVICE = {
    sqlite3.SQLITE_FULL: "the disk is full; what was stored before is intact; free some space",
    sqlite3.SQLITE_READONLY: "this user may not write to it; check the owner and mode of the file and its directory",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; check that it is a file, and that its directory can be written to",
}


@dataclass(frozen=True, slots=True)
class SqliteConnection:
    """A connection, and the file that it is to. What SQLite raises becomes `SkillError` that names the file."""

    path: Path
    connection: sqlite3.Connection

    def fetch_rows(self, question: SqlQuery) -> Sequence[SqlRow]:
        """Every row of the answer."""
        with self.translate_errors(self.path):
            return self._execute(question).fetchall()

    def execute_update(self, question: SqlQuery) -> int:
        """Change something; how many rows that were."""
        with self.translate_errors(self.path):
            return self._execute(question).rowcount

    @contextmanager
    def transaction(self, kind: str) -> Generator[None]:
        """All or nothing. `IMMEDIATE` waits until nobody else writes; `DEFERRED` reads what was there at one moment."""
        self.execute_update((f"BEGIN {kind}", ()))
        try:
            yield
            self.execute_update(("COMMIT", ()))
        except BaseException:
            # After some errors SQLite has rolled back by itself.
            if self.connection.in_transaction:
                self.execute_update(("ROLLBACK", ()))
            raise

    @staticmethod
    @contextmanager
    def translate_errors(path: Path) -> Generator[None]:
        """A block that raises `SkillError` for what SQLite raises."""
        try:
            yield
        except sqlite3.Error as error:
            raise _build_error(path, error) from error

    def _execute(self, question: SqlQuery) -> sqlite3.Cursor:
        sql, arguments = question
        # `$1` is a parameter with the name "1" to SQLite.
        return self.connection.execute(sql, {str(number): value for number, value in enumerate(arguments, 1)})


def _build_error(path: Path, error: sqlite3.Error) -> SkillError:
    # The lowest byte is the kind; the rest says more about it.
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    store = f"the session store {path}"
    if code in _BUSY:
        return SessionsUnavailable(f"{store} is busy: others write to it for too long; try again", store=str(path))
    if code in _DAMAGED:
        what = f"is damaged, or is no SQLite database ({error}); restore it from a backup, or choose another file"
    else:
        what = f"cannot be used: {_ADVICE.get(code, str(error))}"
    return SkillError(f"{store} {what}", store=str(path), sqlite=getattr(error, "sqlite_errorname", "unknown"))


_IS_RECORDED = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'openskills_schema'"
_PAUSE = 0.01
_MAGIC = b"SQLite format 3\0"
_MIN_SIZE = 512


def open_database(
    path: Path, *, patience: float, steps: tuple[MigrationStep, ...] = SESSION_MIGRATIONS
) -> SqliteConnection:
    """A database that has all tables. What is missing is made, for the owner's eyes only.

    Raises `SkillError` for what cannot be opened, and for a file of a newer version.
    """
    asking = SqliteConnection(path, _connect(path, patience))
    try:
        asking.fetch_rows(("PRAGMA foreign_keys = ON", ()))
        asking.fetch_rows(("PRAGMA synchronous = FULL", ()))
        _enable_wal(asking, time.monotonic() + patience)
        _migrate(asking, steps)
    except BaseException:
        asking.connection.close()
        raise
    return asking


def _connect(path: Path, patience: float) -> sqlite3.Connection:
    try:
        _create_file(path)
    except OSError as error:
        where = f" ({os.fsdecode(error.filename)})" if error.filename else ""
        message = f"the session store {path} cannot be opened or made: {error.strerror or error}{where}"
        raise SkillError(message, store=str(path)) from error
    # One thread at a time uses it, but it may be another one that closes it.
    with SqliteConnection.translate_errors(path):
        return sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)


def _create_file(path: Path) -> None:
    """An empty file, if there is none; SQLite gives the files beside it the same mode."""
    if path.exists():
        _check_is_database(path)
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    for directory in (path.parent, path.parent.parent):
        # One that may not be read was there before.
        with suppress(PermissionError):
            _flush_directory(directory)


def _check_is_database(path: Path) -> None:
    # SQLite itself refuses what is no database, unless it is very small: that it writes over.
    if path.is_file() and 0 < path.stat().st_size < _MIN_SIZE and not path.read_bytes().startswith(_MAGIC):
        raise SkillError(f"the session store {path} is no SQLite database; choose another file", store=str(path))


def _flush_directory(directory: Path) -> None:
    """Make the names in a directory survive a power cut."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _enable_wal(asking: SqliteConnection, deadline: float) -> None:
    while True:
        try:
            ((mode,),) = asking.fetch_rows(("PRAGMA journal_mode = WAL", ()))
        except SessionsUnavailable:
            # While another process makes the same change SQLite does not wait by itself.
            if time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE)
            continue
        if mode != "wal":
            raise SkillError(
                f"the session store {asking.path} cannot have a write-ahead log (SQLite says {mode!r});"
                " put it on a local disk"
            )
        return


def _migrate(asking: SqliteConnection, steps: tuple[MigrationStep, ...]) -> None:
    if asking.fetch_rows((_IS_RECORDED, ())) and not _read_missing_steps(asking, steps):
        return
    with asking.transaction("IMMEDIATE"):
        asking.execute_update((CREATE_SCHEMA_TABLE, ()))
        # Asked again: another process may have been faster.
        for version, step in _read_missing_steps(asking, steps):
            for sql in step:
                asking.execute_update((sql, ()))
            asking.execute_update((INSERT_SCHEMA_VERSION, (version,)))


def _read_missing_steps(
    asking: SqliteConnection, steps: tuple[MigrationStep, ...]
) -> Sequence[tuple[int, MigrationStep]]:
    ((version,),) = asking.fetch_rows((SELECT_SCHEMA_VERSION, ()))
    return find_missing_steps(version, place=f"the session store {asking.path}", steps=steps)


T = TypeVar("T")


class SqliteFile:
    """A database file with one connection, in one thread of its own; both begin with the first use.

    `patience` is how many seconds a writer waits for others. A forked child gets a connection of its own.
    """

    def __init__(self, path: Path, *, patience: float, steps: tuple[MigrationStep, ...] = SESSION_MIGRATIONS) -> None:
        self._path = path
        self._patience = patience
        self._steps = steps
        self._lock = threading.Lock()
        self._worker: _SqliteWorker | None = None

    async def use(self, work: Callable[[SqliteConnection], T]) -> T:
        """Do some work with the connection, one after the other, while the loop goes on.

        Raises what the work raises, and `SkillError` when the file cannot be used. A cancellation does not wait for
        the end of what has begun.
        """
        context = contextvars.copy_context()
        with self._lock:
            worker = self._get_worker()
            doing = worker.thread.submit(context.run, worker.run, work)
        return await asyncio.wrap_future(doing)

    async def close(self) -> None:
        """Close the connection after what is under way; the next use opens another."""
        with self._lock:
            worker, self._worker = self._worker, None
        if worker is not None and worker.process == os.getpid():
            closing = worker.thread.submit(worker.close)
            worker.thread.shutdown(wait=False)
            await asyncio.wrap_future(closing)

    def _get_worker(self) -> "_SqliteWorker":
        if self._worker is not None and self._worker.process != os.getpid():
            # After a fork the thread is not here, and a connection must not be used, nor closed, by two processes.
            self._worker.abandon()
            self._worker = None
        if self._worker is None:
            self._worker = _SqliteWorker(self._path, self._patience, self._steps)
        return self._worker


class _SqliteWorker:
    """The thread, and the connection that only it uses."""

    def __init__(self, path: Path, patience: float, steps: tuple[MigrationStep, ...]) -> None:
        self.process = os.getpid()
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="openskills-sqlite")
        self._path = path
        self._patience = patience
        self._steps = steps
        self._asking: SqliteConnection | None = None
        self._closing: weakref.finalize[..., _SqliteWorker] | None = None
        self._identity: tuple[int, int] | None = None

    def run(self, work: Callable[[SqliteConnection], T]) -> T:
        return work(self._open())

    def close(self) -> None:
        self._asking = None
        if self._closing is not None:
            self._closing()

    def abandon(self) -> None:
        """Never use the connection again, and never close it."""
        if self._closing is not None:
            self._closing.detach()
        _abandoned.append(self._asking)
        self._asking = None

    def _open(self) -> SqliteConnection:
        if self._asking is None:
            self._asking = open_database(self._path, patience=self._patience, steps=self._steps)
            self._identity = _read_identity(self._path)
            # Also closed when everybody has forgotten it; at the end of the process the system does that.
            self._closing = weakref.finalize(self, self._asking.connection.close)
            self._closing.atexit = False
        elif _read_identity(self._path) != self._identity:
            # To close it would remove the write-ahead log of the database that is there now.
            self.abandon()
            raise SkillError(
                f"the session store {self._path} was removed or replaced while it was in use; events that were"
                " acknowledged before are in the file that was there; see to it, then try again",
                store=str(self._path),
            )
        return self._asking


_abandoned: list[SqliteConnection | None] = []
"""Connections that must not be closed, not even by the garbage collector."""


def _read_identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


LOCK_TIMEOUT = 30.0


class SqliteSessionStore:
    """A `SessionStore` in a file of a local disk. `hook` sees every event before it is stored, in a thread of ours.

    Making one touches nothing; the first use makes the file, or brings an older one up to date. `patience` is how many
    seconds an append waits for other processes, before it raises `SessionsUnavailable`.
    """

    def __init__(
        self, path: Path | str, hook: AppendEventHook | None = None, *, patience: float = LOCK_TIMEOUT
    ) -> None:
        self._hook = hook
        # Two, so that nobody who reads waits for those who write, in this process either.
        self._writing = SqliteFile(Path(path).absolute(), patience=patience)
        self._reading = SqliteFile(Path(path).absolute(), patience=patience)

    async def get(self, key: SessionKey, *, after: int = 0) -> Session | None:
        """See `SessionStore.get`."""
        return await self._reading.use(lambda asking: _read_session(asking, key, after))

    async def append(self, key: SessionKey, event: Event, *, expected: int | None = None) -> AppendResult:
        """See `SessionStore.append`. A hook keeps everybody else who writes to this file waiting."""
        return await self._writing.use(lambda asking: _append_event(asking, key, event, expected, self._hook))

    async def list(self, app: str, user: str) -> Sequence[SessionInfo]:
        """See `SessionStore.list`."""
        question = tables.build_list_query(check_id("app", app), check_id("user", user))
        rows = await self._reading.use(lambda asking: asking.fetch_rows(question))
        return sort_latest_first([tables.info_from_row(app, user, row) for row in rows])

    async def delete(self, key: SessionKey) -> bool:
        """See `SessionStore.delete`."""
        return await self._writing.use(lambda asking: _delete_session(asking, key))

    async def close(self) -> None:
        """Close the file; the next use opens it again."""
        await self._reading.close()
        await self._writing.close()


def _read_session(asking: SqliteConnection, key: SessionKey, after: int) -> Session | None:
    with asking.transaction("DEFERRED"):
        head = _read_head(asking, key)
        if head is None:
            return None
        rows = asking.fetch_rows(tables.build_events_query(key, after))
    return head.build_session([event_from_json(body) for (body,) in rows], after=after)


def _append_event(
    asking: SqliteConnection, key: SessionKey, event: Event, expected: int | None, hook: AppendEventHook | None
) -> AppendResult:
    with asking.transaction("IMMEDIATE"):
        head = _read_head(asking, key)
        stored = asking.fetch_rows(tables.build_event_query(key, event))
        if head and stored:
            return result_from_stored(head, stored[0][0])
        done, after = advance_head(key, head, event, expected=expected, hook=hook)
        for question in tables.build_write_queries(after, done.event):
            asking.execute_update(question)
    return done


def _delete_session(asking: SqliteConnection, key: SessionKey) -> bool:
    events, session = tables.build_delete_queries(key)
    with asking.transaction("IMMEDIATE"):
        asking.execute_update(events)
        return asking.execute_update(session) > 0


def _read_head(asking: SqliteConnection, key: SessionKey) -> SessionHead | None:
    rows = asking.fetch_rows(tables.build_head_query(key))
    return tables.head_from_row(key, rows[0]) if rows else None
