"""A session store in PostgreSQL, for many machines. Needs the extra `postgres`."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

from openskills.arguments import check_arguments
from openskills.concurrency import LoopLocal
from openskills.errors import InvalidArgument, SessionsUnavailable, SkillError
from openskills.postgres import (
    LOCK_TRANSACTION,
    MIGRATION_LOCK,
    URL_HINT,
    WRITE_MODE,
    build_begin,
    count_changed_rows,
    import_asyncpg,
    translate_postgres_errors,
)
from openskills.session import tables
from openskills.session.events import Event, check_id, event_from_json
from openskills.session.sqlite import SESSION_MIGRATIONS
from openskills.session.store import (
    AppendEventHook,
    AppendResult,
    LeaseRecord,
    Session,
    SessionHead,
    SessionInfo,
    SessionKey,
    SessionLease,
    advance_head,
    result_from_stored,
    sort_latest_first,
    strip_credentials,
    take_lease,
    to_milliseconds,
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

READ_MODE = "ISOLATION LEVEL REPEATABLE READ READ ONLY"

_IS_RECORDED = "SELECT to_regclass('openskills_schema') IS NOT NULL"
# Not the time of the transaction, which may have waited.
_CLOCK = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"
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
        """All rows of a query."""
        sql, arguments = query
        with translate_postgres_errors(self.place, SessionsUnavailable):
            return await self.connection.fetch(sql, *arguments)

    async def execute_update(self, query: SqlQuery) -> int:
        """Execute a statement; returns the number of changed rows."""
        sql, arguments = query
        with translate_postgres_errors(self.place, SessionsUnavailable):
            return count_changed_rows(await self.connection.execute(sql, *arguments))


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

    async def append(
        self, key: SessionKey, event: Event, *, expected: int | None = None, epoch: int | None = None
    ) -> AppendResult:
        """See `SessionStore.append`. A hook blocks other appends to this session."""
        async with self._pool.transaction() as tx:
            await tx.lock(_lock_number(key))
            if epoch is not None:
                (await _read_lease(tx, key)).check_epoch(key, epoch)
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

    async def acquire_lease(self, key: SessionKey, holder: str, *, ttl: float) -> tuple[SessionLease, Session | None]:
        """See `SessionStore.acquire_lease`."""
        async with self._pool.transaction() as tx:
            await tx.lock(_lock_number(key))
            taken = take_lease(key, await _read_lease(tx, key), holder, ttl=ttl, now=await _read_clock(tx))
            await tx.execute_update(tables.build_set_lease_query(key, taken))
            head = await _read_head(tx, key)
        return SessionLease(key, holder, taken.epoch), head.without_events() if head else None

    async def renew_lease(self, lease: SessionLease, *, ttl: float) -> None:
        """See `SessionStore.renew_lease`."""
        milliseconds = to_milliseconds(ttl)
        async with self._pool.transaction() as tx:
            await tx.lock(_lock_number(lease.key))
            last = await _read_lease(tx, lease.key)
            last.check_epoch(lease.key, lease.epoch)
            renewed = replace(last, expires=await _read_clock(tx) + milliseconds)
            await tx.execute_update(tables.build_set_lease_query(lease.key, renewed))

    async def release_lease(self, lease: SessionLease) -> None:
        """See `SessionStore.release_lease`."""
        async with self._pool.transaction() as tx:
            await tx.lock(_lock_number(lease.key))
            last = await _read_lease(tx, lease.key)
            if last.epoch == lease.epoch:
                await tx.execute_update(tables.build_set_lease_query(lease.key, replace(last, holder="")))

    async def close(self) -> None:
        """Close the connections of the running loop; the next use opens new ones."""
        await self._pool.close()


async def _read_head(tx: PostgresTransaction, key: SessionKey) -> SessionHead | None:
    rows = await tx.fetch_rows(tables.build_head_query(key))
    return tables.head_from_row(key, rows[0]) if rows else None


async def _read_lease(tx: PostgresTransaction, key: SessionKey) -> LeaseRecord:
    return tables.lease_from_rows(await tx.fetch_rows(tables.build_lease_query(key)))


async def _read_clock(tx: PostgresTransaction) -> int:
    ((now,),) = await tx.fetch_rows((_CLOCK, ()))
    return now


def _lock_number(key: SessionKey) -> int:
    # Two sessions with the same number would only wait for each other.
    return int.from_bytes(bytes.fromhex(tables.session_id(key))[:8], signed=True)
