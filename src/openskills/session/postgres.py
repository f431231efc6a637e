"""A session store in PostgreSQL, for many machines. Needs the extra `postgres`."""

from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from openskills.arguments import check_arguments
from openskills.concurrency import LoopLocal
from openskills.errors import InvalidArgument, MissingExtra, SessionsUnavailable, SkillError
from openskills.session import tables
from openskills.session.events import Event, check_id, event_from_json
from openskills.session.sqlite import SESSION_MIGRATIONS
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
    strip_credentials,
)
from openskills.sql import (
    CREATE_SCHEMA_TABLE,
    INSERT_SCHEMA_VERSION,
    SELECT_SCHEMA_VERSION,
    MigrationStep,
    SqlQuery,
    SqlRow,
    find_missing_steps,
)

if TYPE_CHECKING:
    from types import ModuleType


# Explicit, because with another default a transaction would not see the changes that it waited for.
WRITE_MODE = "ISOLATION LEVEL READ COMMITTED READ WRITE"
READ_MODE = "ISOLATION LEVEL REPEATABLE READ READ ONLY"

_IS_RECORDED = "SELECT to_regclass('openskills_schema') IS NOT NULL"
_LOCK = "SELECT pg_advisory_xact_lock($1)"
_MIGRATION_LOCK = 0x6F70656E736B696C
_CONNECTIONS = 10
_CONNECT_TIMEOUT = 30.0
_ANSWER_TIMEOUT = 60.0

# SQLSTATE prefixes of transient errors, and advice for others.
_TRANSIENT_STATES = ("08", "40", "53", "55P03", "57")
_ADVICE = {
    "25006": "it is read-only; use the address of the primary server",
    "28": "check the user name and the password",
    "3D": "create the database first, with createdb",
    "42501": "this user may not use or create our tables; grant it CREATE on the schema",
}


class _AsyncpgConnection(Protocol):
    async def fetch(self, query: str, *args: object) -> Sequence[SqlRow]: ...
    async def execute(self, query: str, *args: object) -> str: ...


class _AsyncpgPool(Protocol):
    async def acquire(self, *, timeout: float) -> _AsyncpgConnection: ...
    async def release(self, connection: _AsyncpgConnection) -> None: ...
    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class PostgresTransaction:
    """A connection in a transaction."""

    place: str
    connection: _AsyncpgConnection

    async def lock(self, name: int) -> None:
        """Acquire an advisory lock until the end of the transaction."""
        await self.fetch_rows((_LOCK, (name,)))

    async def fetch_rows(self, query: SqlQuery) -> Sequence[SqlRow]:
        """All rows of a query."""
        sql, arguments = query
        with translate_postgres_errors(self.place):
            return await self.connection.fetch(sql, *arguments)

    async def execute_update(self, query: SqlQuery) -> int:
        """Execute a statement; returns the number of changed rows."""
        sql, arguments = query
        with translate_postgres_errors(self.place):
            status = await self.connection.execute(sql, *arguments)
        # Such as `DELETE 1`; statements that create tables have no number.
        word = status.rpartition(" ")[2]
        return int(word) if word.isdigit() else 0


class PostgresPool:
    """A connection pool per event loop. `place` names the database in errors, without user and password."""

    def __init__(self, url: str, place: str, *, steps: tuple[MigrationStep, ...] = SESSION_MIGRATIONS) -> None:
        self.place = place
        self._url = url
        self._steps = steps
        self._pools = LoopLocal[_AsyncpgPool](self._create_pool)

    @asynccontextmanager
    async def transaction(self, kind: str = WRITE_MODE) -> AsyncGenerator[PostgresTransaction]:
        """A transaction, rolled back if the block raises. Server errors are raised as `SkillError`."""
        with translate_postgres_errors(self.place):
            pool = await self._pools.get()
            connection = await pool.acquire(timeout=_CONNECT_TIMEOUT + _ANSWER_TIMEOUT)
        try:
            async with _run_transaction(PostgresTransaction(self.place, connection), kind) as tx:
                yield tx
        finally:
            with translate_postgres_errors(self.place):
                await pool.release(connection)

    async def close(self) -> None:
        """Close the connections of the running loop; the next use opens new ones."""
        pool = await self._pools.pop()
        if pool is not None:
            with translate_postgres_errors(self.place):
                await pool.close()

    async def _create_pool(self) -> _AsyncpgPool:
        making = cast("Any", _import_asyncpg()).create_pool(
            self._url, min_size=0, max_size=_CONNECTIONS, timeout=_CONNECT_TIMEOUT, command_timeout=_ANSWER_TIMEOUT
        )
        pool = cast("_AsyncpgPool", await making)
        try:
            await self._migrate(pool)
        except ValueError:
            await pool.close()
            # The original message would repeat parts of the URL, possibly of the password.
            hint = "in user names and passwords write / ? # @ % as %2F %3F %23 %40 %25"
            raise InvalidArgument("url", f"{self.place} has an invalid URL; {hint}") from None
        except BaseException:
            await pool.close()
            raise
        return pool

    async def _migrate(self, pool: _AsyncpgPool) -> None:
        connection = await pool.acquire(timeout=_CONNECT_TIMEOUT)
        try:
            plain = PostgresTransaction(self.place, connection)
            ((recorded,),) = await plain.fetch_rows((_IS_RECORDED, ()))
            if recorded and not await self._read_missing_steps(plain):
                return
            async with _run_transaction(plain, WRITE_MODE) as tx:
                await tx.lock(_MIGRATION_LOCK)
                await tx.execute_update((CREATE_SCHEMA_TABLE, ()))
                # Read again: another process may have migrated in the meantime.
                for version, step in await self._read_missing_steps(tx):
                    for sql in step:
                        await tx.execute_update((sql, ()))
                    await tx.execute_update((INSERT_SCHEMA_VERSION, (version,)))
        finally:
            await pool.release(connection)

    async def _read_missing_steps(self, tx: PostgresTransaction) -> Sequence[tuple[int, MigrationStep]]:
        ((version,),) = await tx.fetch_rows((SELECT_SCHEMA_VERSION, ()))
        return find_missing_steps(version, place=self.place, steps=self._steps)


@asynccontextmanager
async def _run_transaction(tx: PostgresTransaction, kind: str) -> AsyncGenerator[PostgresTransaction]:
    try:
        await tx.execute_update((f"BEGIN {kind}", ()))
        yield tx
        await tx.execute_update(("COMMIT", ()))
    except BaseException:
        # A lost connection has nothing to roll back.
        with suppress(SkillError):
            await tx.execute_update(("ROLLBACK", ()))
        raise


def _import_asyncpg() -> "ModuleType":
    try:
        import asyncpg  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        raise MissingExtra("postgres", "a session store in PostgreSQL") from None
    return asyncpg


@contextmanager
def translate_postgres_errors(place: str) -> Generator[None]:
    """Raise errors of the server and of the connection as `SkillError`."""
    asyncpg = cast("Any", _import_asyncpg())
    try:
        yield
    except asyncpg.PostgresError as error:
        raise _build_error(place, str(error), error.sqlstate or "") from error
    except (asyncpg.InterfaceError, asyncpg.InternalClientError, OSError) as error:
        reason = str(error) or type(error).__name__
        message = f"{place} cannot be reached, or the connection was lost: {reason}; check that it is running"
        raise SessionsUnavailable(message, store=place) from error


def _build_error(place: str, reason: str, state: str) -> SkillError:
    if state.startswith(_TRANSIENT_STATES):
        message = f"{place} is temporarily unavailable: {reason}; try again"
        return SessionsUnavailable(message, store=place, sqlstate=state)
    hint = next((f"; {advice}" for kind, advice in _ADVICE.items() if state.startswith(kind)), "")
    return SkillError(f"{place} refused the request: {reason}{hint}", store=place, sqlstate=state)


@check_arguments
class PostgresSessionStore:
    """A `SessionStore` in a database, `postgresql://user:password@host:port/database`.

    The first use in an event loop connects, and creates or migrates the tables. Each loop has its own connections:
    `close` them before the loop ends. Raises `SessionsUnavailable` when the server cannot be reached. Events are as
    durable as the server's `synchronous_commit`; by default, fully.
    """

    def __init__(self, url: str, hook: AppendEventHook | None = None) -> None:
        self._hook = hook
        self._pool = PostgresPool(url, f"the session store {strip_credentials(url)}")

    async def get(self, key: SessionKey, *, after: int = 0) -> Session | None:
        """See `SessionStore.get`."""
        async with self._pool.transaction(READ_MODE) as tx:
            head = await _read_head(tx, key)
            if head is None:
                return None
            rows = await tx.fetch_rows(tables.build_events_query(key, after))
        return head.build_session([event_from_json(body) for (body,) in rows], after=after)

    async def append(self, key: SessionKey, event: Event, *, expected: int | None = None) -> AppendResult:
        """See `SessionStore.append`. A hook blocks other appends to this session."""
        async with self._pool.transaction() as tx:
            await tx.lock(_lock_number(key))
            head = await _read_head(tx, key)
            stored = await tx.fetch_rows(tables.build_event_query(key, event))
            if head and stored:
                return result_from_stored(head, stored[0][0])
            done, after = advance_head(key, head, event, expected=expected, hook=self._hook)
            for query in tables.build_write_queries(after, done.event):
                await tx.execute_update(query)
        return done

    async def list(self, app: str, user: str) -> Sequence[SessionInfo]:
        """See `SessionStore.list`."""
        query = tables.build_list_query(check_id("app", app), check_id("user", user))
        async with self._pool.transaction(READ_MODE) as tx:
            rows = await tx.fetch_rows(query)
        return sort_latest_first([tables.info_from_row(app, user, row) for row in rows])

    async def delete(self, key: SessionKey) -> bool:
        """See `SessionStore.delete`."""
        events, session = tables.build_delete_queries(key)
        async with self._pool.transaction() as tx:
            await tx.lock(_lock_number(key))
            await tx.execute_update(events)
            return await tx.execute_update(session) > 0

    async def close(self) -> None:
        """Close the connections of the running loop; the next use opens new ones."""
        await self._pool.close()


async def _read_head(tx: PostgresTransaction, key: SessionKey) -> SessionHead | None:
    rows = await tx.fetch_rows(tables.build_head_query(key))
    return tables.head_from_row(key, rows[0]) if rows else None


def _lock_number(key: SessionKey) -> int:
    # Two sessions with the same number would only wait for each other.
    return int.from_bytes(bytes.fromhex(tables.session_id(key))[:8], signed=True)
