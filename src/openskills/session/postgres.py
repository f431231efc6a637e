"""A session store in PostgreSQL, for many machines. Needs the extra `postgres`."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from openskills.arguments import check_arguments
from openskills.concurrency import LoopLocal
from openskills.errors import InvalidArgument, SessionsUnavailable, SkillError
from openskills.postgres import (
    LOCK_TRANSACTION,
    URL_HINT,
    WRITE_MODE,
    build_begin,
    import_asyncpg,
    migrate,
    translate_postgres_errors,
)
from openskills.session.sqlite import SESSION_DATABASE
from openskills.session.store import AppendEventHook, SessionKey, session_id, strip_credentials
from openskills.session.tables import SqlSessionStore, SqlSteps
from openskills.sql import DatabaseProfile, SqlQuery, SqlRow

T = TypeVar("T")

READ_MODE = "ISOLATION LEVEL REPEATABLE READ READ ONLY"

_CONNECTIONS = 10
_CONNECT_TIMEOUT = 30.0
_ANSWER_TIMEOUT = 60.0


@dataclass(frozen=True, slots=True)
class PostgresTransaction:
    """A connection in a transaction."""

    place: str
    connection: Any

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

    def __init__(self, url: str, place: str, profile: DatabaseProfile = SESSION_DATABASE) -> None:
        self.place = place
        self._url = url
        self._profile = profile
        self._pools = LoopLocal[Any](self._create_pool)

    @asynccontextmanager
    async def transaction(self, kind: str = WRITE_MODE) -> AsyncGenerator[PostgresTransaction]:
        """A transaction, rolled back if the block raises. Server errors are raised as `SkillError`."""
        with translate_postgres_errors(self.place, SessionsUnavailable):
            pool = await self._pools.get()
            connection = await pool.acquire(timeout=_CONNECT_TIMEOUT + _ANSWER_TIMEOUT)
        tx = PostgresTransaction(self.place, connection)
        try:
            await tx.execute_update((build_begin(kind), ()))
            yield tx
            await tx.execute_update(("COMMIT", ()))
        except BaseException:
            # A lost connection has nothing to roll back.
            with suppress(SkillError):
                await tx.execute_update(("ROLLBACK", ()))
            raise
        finally:
            with translate_postgres_errors(self.place, SessionsUnavailable):
                await pool.release(connection)

    async def close(self) -> None:
        """Close the connections of the running loop; the next use opens new ones."""
        pool = await self._pools.pop()
        if pool is not None:
            with translate_postgres_errors(self.place, SessionsUnavailable):
                await pool.close()

    async def _create_pool(self) -> Any:
        pool = await cast("Any", import_asyncpg("a session store in PostgreSQL")).create_pool(
            self._url, min_size=0, max_size=_CONNECTIONS, timeout=_CONNECT_TIMEOUT, command_timeout=_ANSWER_TIMEOUT
        )
        try:
            async with pool.acquire(timeout=_CONNECT_TIMEOUT) as connection:
                await migrate(connection, self._profile, self.place)
        except ValueError:
            await pool.close()
            # The original message would repeat parts of the URL, possibly of the password.
            raise InvalidArgument("url", f"{self.place} has an invalid URL; {URL_HINT}") from None
        except BaseException:
            await pool.close()
            raise
        return pool


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
