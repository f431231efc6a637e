"""SQLite files: opening with WAL mode and migrations, transactions; and a thread for each connection to a database.

A released migration step is never changed; a database records the steps that were applied, and the missing ones are
applied when it is opened. The steps are shared with PostgreSQL.
"""

import asyncio
import contextvars
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from openskills.errors import SkillError, StoreUnavailable
from openskills.filesystem import flush_directory

T = TypeVar("T")
SqlQuery: TypeAlias = tuple[str, tuple[str | int, ...]]
"""A statement with `$1`, `$2`, … and its arguments."""
SqlRow: TypeAlias = Sequence[Any]
MigrationStep: TypeAlias = tuple[str, ...]

CREATE_SCHEMA_TABLE = "CREATE TABLE IF NOT EXISTS openskills_schema (version BIGINT NOT NULL PRIMARY KEY)"
SELECT_SCHEMA_VERSION = "SELECT coalesce(max(version), 0) FROM openskills_schema"
INSERT_SCHEMA_VERSION = "INSERT INTO openskills_schema (version) VALUES ($1)"
BUSY_CODES = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)

_IS_RECORDED = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'openskills_schema'"
_PAUSE = 0.01
_MAGIC = b"SQLite format 3\0"
_MIN_SIZE = 512


class SqlResult(Protocol):
    """The result of a statement: a cursor of SQLite, or the like."""

    @property
    def rowcount(self) -> int:
        """The number of changed rows."""
        ...

    def fetchall(self) -> list[Any]:
        """All rows of a query."""
        ...


class SqlConnection(Protocol):
    """A connection to SQLite or PostgreSQL for blocking code. `?` stands for an argument.

    The SQL is what both understand: `ON CONFLICT` instead of `OR REPLACE`, `CAST(sum(…) AS BIGINT)`, names for
    subqueries, integers for truth values.
    """

    def execute(self, sql: str, parameters: Sequence[Any] = ..., /) -> SqlResult:
        """Execute one statement."""
        ...

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> SqlResult:
        """Execute a statement for each of these arguments."""
        ...

    def lock(self, name: str, /) -> None:
        """Wait for other transactions that use the same name, until the end of this one."""
        ...

    def transaction(self) -> AbstractContextManager[None]:
        """A transaction, rolled back if the block raises."""
        ...


@dataclass(frozen=True, slots=True)
class DatabaseProfile:
    """What databases of one kind have in common: the name in messages, tables, settings and errors.

    `build_error` gets the path and the error of SQLite or of the file system. `is_essential`: the rows exist nowhere
    else, so WAL mode is required, and a file that was removed or replaced is an error. Otherwise the next use creates
    a new one. In PostgreSQL the same tables are in the `schema`, with its own record of applied steps, so that one
    database can hold several kinds, and the tables of others; an empty one is the default of the server. Errors of
    PostgreSQL that may pass are `unavailable`.
    """

    name: str
    steps: tuple[MigrationStep, ...]
    pragmas: tuple[str, ...]
    build_error: Callable[[Path | None, sqlite3.Error | OSError], SkillError]
    is_essential: bool
    schema: str = ""
    unavailable: type[SkillError] = StoreUnavailable

    @contextmanager
    def translate_errors(self, path: Path | None) -> Generator[None]:
        """Raise errors of SQLite and of the file system as `SkillError`."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise self.build_error(path, error) from error


class SqliteConnection(sqlite3.Connection):
    """A connection to a file. Errors of its own methods are raised as `SkillError` with the name of the file."""

    path: Path | None
    profile: DatabaseProfile

    def fetch_rows(self, query: SqlQuery) -> Sequence[SqlRow]:
        """All rows of a query."""
        with self.profile.translate_errors(self.path):
            return self._run(query).fetchall()

    def execute_update(self, query: SqlQuery) -> int:
        """Execute a statement; returns the number of changed rows."""
        with self.profile.translate_errors(self.path):
            return self._run(query).rowcount

    def lock(self, name: str, /) -> None:
        """Nothing to wait for: transactions that write take turns."""

    @contextmanager
    def transaction(self, kind: str = "IMMEDIATE") -> Generator[None]:
        """A transaction. `IMMEDIATE` waits for other writers; `DEFERRED` reads one consistent state."""
        self.execute_update((f"BEGIN {kind}", ()))
        try:
            yield
            self.execute_update(("COMMIT", ()))
        except BaseException:
            # After some errors SQLite has already rolled back.
            if self.in_transaction:
                self.execute_update(("ROLLBACK", ()))
            raise

    def _run(self, query: SqlQuery) -> sqlite3.Cursor:
        sql, arguments = query
        # For SQLite, `$1` is a parameter named "1".
        return self.execute(sql, {str(number): value for number, value in enumerate(arguments, 1)})


def select_rows(connection: SqlConnection, sql: str, arguments: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """All rows of a query with `?` for its arguments."""
    return connection.execute(sql, arguments).fetchall()


def find_missing_steps(
    version: int, *, place: str, steps: tuple[MigrationStep, ...]
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


def open_sqlite(path: Path | None, profile: DatabaseProfile, *, timeout: float) -> SqliteConnection:
    """Open a database and create or migrate its tables; a new file has mode 0600. `None` is a database in memory.

    `timeout` is how many seconds each step waits for other writers. Raises `SkillError` for a file that cannot be
    opened or is of a newer version.
    """
    with profile.translate_errors(path):
        if path is not None:
            _create_file(path)
        # One thread at a time uses it, but another one may close it.
        connection = sqlite3.connect(
            path or ":memory:", timeout=timeout, isolation_level=None, check_same_thread=False, factory=SqliteConnection
        )
        connection.path, connection.profile = path, profile
        try:
            for pragma in profile.pragmas:
                connection.execute(f"PRAGMA {pragma}")
            _enable_wal(connection, time.monotonic() + timeout)
            _migrate(connection)
        except BaseException:
            connection.close()
            raise
    return connection


def open_sqlite_readonly(path: Path, profile: DatabaseProfile) -> SqliteConnection:
    """Open an existing database to read it as it is, without migrating it. Raises `SkillError`."""
    with profile.translate_errors(path):
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None, factory=SqliteConnection
        )
    connection.path, connection.profile = path, profile
    return connection


def _create_file(path: Path) -> None:
    """Create an empty file if it is missing; SQLite creates its other files with the same mode."""
    if path.exists():
        # SQLite refuses other files, unless they are very small: those it would overwrite.
        if path.is_file() and 0 < path.stat().st_size < _MIN_SIZE and not path.read_bytes().startswith(_MAGIC):
            error = sqlite3.DatabaseError("file is not a database")
            error.sqlite_errorcode, error.sqlite_errorname = sqlite3.SQLITE_NOTADB, "SQLITE_NOTADB"
            raise error
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    for directory in (path.parent, path.parent.parent):
        # An unreadable directory existed before.
        with suppress(PermissionError):
            flush_directory(directory)


def _enable_wal(connection: SqliteConnection, deadline: float) -> None:
    while True:
        try:
            ((mode,),) = select_rows(connection, "PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            # SQLite does not wait while another process makes the same change.
            if error.sqlite_errorcode not in BUSY_CODES or time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE)
            continue
        if mode != "wal" and connection.profile.is_essential:
            place = f"{connection.profile.name} {connection.path}"
            raise SkillError(f"{place} does not support WAL mode ({mode!r}); use a local disk")
        return


def _migrate(connection: SqliteConnection) -> None:
    if select_rows(connection, _IS_RECORDED) and not _read_missing_steps(connection):
        return
    with connection.transaction():
        connection.execute(CREATE_SCHEMA_TABLE)
        # Read again: another process may have migrated in the meantime.
        for version, step in _read_missing_steps(connection):
            for sql in step:
                connection.execute(sql)
            connection.execute_update((INSERT_SCHEMA_VERSION, (version,)))


def _read_missing_steps(connection: SqliteConnection) -> Sequence[tuple[int, MigrationStep]]:
    ((version,),) = select_rows(connection, SELECT_SCHEMA_VERSION)
    profile = connection.profile
    return find_missing_steps(version, place=f"{profile.name} {connection.path}", steps=profile.steps)


_abandoned: list[sqlite3.Connection] = []
"""Connections that must not be closed, not even by the garbage collector."""


C_co = TypeVar("C_co", bound=SqlConnection, covariant=True)


class DatabaseHandle(Protocol[C_co]):
    """A connection that is opened on first use, and again after `close`. For one thread at a time."""

    def use(self, work: Callable[[C_co], T]) -> T:
        """Call `work` with the connection. Raises what it raises, and `SkillError` if the database cannot be used."""
        ...

    def use_transaction(self, work: Callable[[C_co], T]) -> T:
        """Call `work` in one transaction. See `use`."""

        def work_in_transaction(connection: C_co) -> T:
            with connection.transaction():
                return work(connection)

        return self.use(work_in_transaction)

    def close(self) -> None:
        """Close it; the next use opens another."""
        ...

    def abandon(self) -> None:
        """Never use the connection again, and never close it."""
        ...


class SqliteHandle(DatabaseHandle[SqliteConnection]):
    """A connection to a file or, without a path, to a database in memory."""

    def __init__(self, path: Path | None, profile: DatabaseProfile, timeout: float) -> None:
        self._path = path
        self._profile = profile
        self._timeout = timeout
        self._connection: SqliteConnection | None = None
        self._identity: tuple[int, int] | None = None
        self._closing: weakref.finalize[..., SqliteHandle] | None = None

    def use(self, work: Callable[[SqliteConnection], T]) -> T:
        if self._connection is not None and self._identity != _read_identity(self._path):
            # Closing it would remove the write-ahead log of the database that is there now.
            self.abandon()
            if self._profile.is_essential:
                raise SkillError(
                    f"{self._profile.name} {self._path} was removed or replaced while it was in use; acknowledged"
                    " writes are in the original file; restore it, then try again",
                    store=str(self._path),
                )
        if self._connection is None:
            self._connection = open_sqlite(self._path, self._profile, timeout=self._timeout)
            self._identity = _read_identity(self._path)
            # Closed on garbage collection, too; at the end of the process the system does that.
            self._closing = weakref.finalize(self, self._connection.close)
            self._closing.atexit = False
        return work(self._connection)

    def close(self) -> None:
        if self._connection is not None and self._identity != _read_identity(self._path):
            self.abandon()
        if self._closing is not None:
            self._closing()
        self._connection = self._closing = None

    def abandon(self) -> None:
        if self._connection is not None and self._closing is not None:
            self._closing.detach()
            _abandoned.append(self._connection)
        self._connection = self._closing = None


class DatabaseThreads(Generic[C_co]):
    """`count` threads, each with its own connection; both are created on first use. A forked child gets its own."""

    def __init__(self, create_handle: Callable[[], DatabaseHandle[C_co]], count: int = 1) -> None:
        self._create_handle = create_handle
        self._count = count
        self._lock = threading.Lock()
        self._pool: _DatabasePool[C_co] | None = None

    async def use(self, work: Callable[[C_co], T]) -> T:
        """Run work with a connection in a thread. A cancellation does not wait for running work."""
        return await asyncio.wrap_future(self.submit(lambda handle: handle.use(work)))

    async def use_transaction(self, work: Callable[[C_co], T]) -> T:
        """The same in one transaction."""
        return await asyncio.wrap_future(self.submit(lambda handle: handle.use_transaction(work)))

    def submit(self, work: Callable[[DatabaseHandle[C_co]], T]) -> Future[T]:
        """Start work in a thread."""
        context = contextvars.copy_context()
        with self._lock:
            pool = self._pool
            if pool is not None and pool.process != os.getpid():
                # After a fork the threads are missing, and a connection must not be used or closed by two processes.
                for handle in pool.handles:
                    handle.abandon()
                pool = None
            if pool is None:
                threads = ThreadPoolExecutor(self._count, thread_name_prefix="openskills-database")
                pool = self._pool = _DatabasePool(os.getpid(), threads)
            return pool.threads.submit(context.run, self._use_handle, pool, work)

    async def close(self) -> None:
        """Close the connections after running work; the next use opens others."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is None or pool.process != os.getpid():
            return

        def end() -> None:
            pool.threads.shutdown(wait=True)
            for handle in pool.handles:
                handle.close()

        await asyncio.to_thread(end)

    def _use_handle(self, pool: "_DatabasePool[C_co]", work: Callable[[DatabaseHandle[C_co]], T]) -> T:
        handle: DatabaseHandle[C_co] | None = getattr(pool.local, "handle", None)
        if handle is None:
            handle = pool.local.handle = self._create_handle()
            pool.handles.append(handle)
        return work(handle)


@dataclass(frozen=True, slots=True)
class _DatabasePool(Generic[C_co]):
    process: int
    threads: ThreadPoolExecutor
    handles: list[DatabaseHandle[C_co]] = field(default_factory=list[DatabaseHandle[C_co]])
    local: threading.local = field(default_factory=threading.local)


def _read_identity(path: Path | None) -> tuple[int, int] | None:
    try:
        status = None if path is None else path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return None if status is None else (status.st_dev, status.st_ino)
