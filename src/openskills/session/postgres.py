"""A session store in PostgreSQL, for many machines. Needs the extra `postgres`."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast

from openskills.arguments import check_arguments
from openskills.concurrency import LoopLocal
from openskills.errors import InvalidArgument, SessionsUnavailable, SkillError
from openskills.postgres import (
    LOCK_TRANSACTION,
    MIGRATION_LOCK,
    URL_HINT,
    WRITE_MODE,
    build_begin,
    import_asyncpg,
    translate_postgres_errors,
)
from openskills.session.sqlite import SESSION_MIGRATIONS
from openskills.session.store import AppendEventHook, SessionKey, session_id, strip_credentials
from openskills.session.tables import SqlSessionStore, SqlSteps
from openskills.sql import (
    CREATE_SCHEMA_TABLE,
    INSERT_SCHEMA_VERSION,
    SELECT_SCHEMA_VERSION,
    MigrationStep,
    SqlQuery,
    SqlRow,
    find_missing_steps,
)

T = TypeVar("T")

READ_MODE = "ISOLATION LEVEL REPEATABLE READ READ ONLY"

_IS_RECORDED = "SELECT to_regclass('openskills_schema') IS NOT NULL"
_CONNECTIONS = 10
_CONNECT_TIMEOUT = 30.0
_ANSWER_TIMEOUT = 60.0


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
        await self.fetch_rows((LOCK_TRANSACTION, (name,)))

    async def fetch_rows(self, query: SqlQuery) -> Sequence[SqlRow]:
        sql, arguments = query
        with translate_postgres_errors(self.place, SessionsUnavailable):
            return await self.connection.fetch(sql, *arguments)

    async def execute_update(self, query: SqlQuery) -> None:
        """Execute a statement without rows."""
        sql, arguments = query
        with translate_postgres_errors(self.place, SessionsUnavailable):
            await self.connection.execute(sql, *arguments)


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
        with translate_postgres_errors(self.place, SessionsUnavailable):
            pool = await self._pools.get()
            connection = await pool.acquire(timeout=_CONNECT_TIMEOUT + _ANSWER_TIMEOUT)
        try:
            async with _run_transaction(PostgresTransaction(self.place, connection), kind) as tx:
                yield tx
        finally:
            with translate_postgres_errors(self.place, SessionsUnavailable):
                await pool.release(connection)

    async def close(self) -> None:
        """Close the connections of the running loop; the next use opens new ones."""
        pool = await self._pools.pop()
        if pool is not None:
            with translate_postgres_errors(self.place, SessionsUnavailable):
                await pool.close()

    async def _create_pool(self) -> _AsyncpgPool:
        making = cast("Any", import_asyncpg("a session store in PostgreSQL")).create_pool(
            self._url, min_size=0, max_size=_CONNECTIONS, timeout=_CONNECT_TIMEOUT, command_timeout=_ANSWER_TIMEOUT
        )
        pool = cast("_AsyncpgPool", await making)
        try:
            await self._migrate(pool)
        except ValueError:
            await pool.close()
            # The original message would repeat parts of the URL, possibly of the password.
            raise InvalidArgument("url", f"{self.place} has an invalid URL; {URL_HINT}") from None
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
                await tx.lock(MIGRATION_LOCK)
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
        await tx.execute_update((build_begin(kind), ()))
        yield tx
        await tx.execute_update(("COMMIT", ()))
    except BaseException:
        # A lost connection has nothing to roll back.
        with suppress(SkillError):
            await tx.execute_update(("ROLLBACK", ()))
        raise


@check_arguments
class PostgresSessionStore(SqlSessionStore):
    """A `SessionStore` in a database, `postgresql://user:password@host:port/database`.

    The first use in an event loop connects, and creates or migrates the tables. Each loop has its own connections:
    `close` them before the loop ends. Raises `SessionsUnavailable` when the server cannot be reached. Events are as
    durable as the server's `synchronous_commit`; by default, fully.
    """

    # Not the time of the transaction, which may have waited.
    _clock = ("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint", ())

    def __init__(self, url: str, hook: AppendEventHook | None = None) -> None:
        super().__init__(hook)
        self._pool = PostgresPool(url, f"the session store {strip_credentials(url)}")

    async def close(self) -> None:
        """Close the connections of the running loop; the next use opens new ones."""
        await self._pool.close()

    async def _read(self, steps: SqlSteps[T]) -> T:
        async with self._pool.transaction(READ_MODE) as tx:
            return await _execute_steps(tx, steps)

    async def _write(self, key: SessionKey, steps: SqlSteps[T]) -> T:
        async with self._pool.transaction() as tx:
            # Two sessions with the same number would only wait for each other.
            await tx.lock(int.from_bytes(bytes.fromhex(session_id(key))[:8], signed=True))
            return await _execute_steps(tx, steps)


async def _execute_steps(tx: PostgresTransaction, steps: SqlSteps[T]) -> T:
    try:
        query = next(steps)
        while True:
            query = steps.send(await tx.fetch_rows(query))
    except StopIteration as done:
        return done.value
