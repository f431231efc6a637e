"""Conversations in PostgreSQL: `test_durable_stores.py` has what all durable stores do; here is the rest.

Connections are made when they are needed, and what goes wrong is said without a password.
"""

import asyncio
import json
import signal
import traceback
from dataclasses import replace
from typing import Any

import pytest

from openskills.errors import InvalidArgument, SessionsUnavailable, SkillError
from openskills.session import tables
from openskills.session.events import new_event
from openskills.session.postgres import READ_MODE, PostgresPool, PostgresSessionStore
from openskills.session.sqlite import SESSION_DATABASE, SESSION_MIGRATIONS
from openskills.session.store import AppendEventHook, SessionKey, strip_credentials
from openskills.sql import DatabaseProfile, MigrationStep
from openskills.sync import run
from openskills.testing.stores import check_session_store
from tests.servers.postgres import PASSWORD, PostgresServer
from tests.servers.started import free_port

KEY = SessionKey("app", "erika", "s1")


def database_of(url: str) -> str:
    return url.rpartition("/")[2]


def test_making_one_touches_nothing() -> None:
    PostgresSessionStore("postgresql://erika:secret@127.0.0.1:1/nowhere")


@pytest.mark.parametrize("isolation", ["serializable", "repeatable read"])
async def test_promises_are_kept_whatever_isolation_is_the_default_of_the_server(
    postgres_server: PostgresServer, isolation: str
) -> None:
    url = postgres_server.new_database()
    postgres_server.fetch(f"ALTER DATABASE {database_of(url)} SET default_transaction_isolation = '{isolation}'")
    made: list[PostgresSessionStore] = []

    def make(hook: AppendEventHook | None) -> PostgresSessionStore:
        made.append(PostgresSessionStore(url, hook))
        return made[-1]

    await check_session_store(make)
    for store in made:
        await store.close()


async def test_after_a_crash_of_the_server_every_acknowledged_event_is_there_and_the_store_goes_on(
    postgres_server: PostgresServer,
) -> None:
    store = PostgresSessionStore(postgres_server.new_database())
    event = new_event("a", "message")

    acknowledged = [(await store.append(KEY, new_event("a", "message"))).event.id for _ in range(20)]
    # Immediately, without a word to anybody; at the next start it recovers what its log has.
    await asyncio.to_thread(postgres_server.started.end, signal.SIGQUIT)
    with pytest.raises(SessionsUnavailable) as raised:
        await store.append(KEY, event)
    assert raised.value.retryable
    postgres_server.started.start()
    assert (await store.append(KEY, event)).revision == 21
    found = await store.get(KEY)
    assert found is not None
    assert [one.id for one in found.events] == [*acknowledged, event.id]
    await store.close()


async def test_a_process_that_is_paused_in_a_transaction_does_not_block_others(postgres_server: PostgresServer) -> None:
    url = postgres_server.new_database()
    paused, other = PostgresPool(url, "the paused one"), PostgresSessionStore(url)

    async def pause_in_transaction() -> None:
        async with paused.transaction() as tx:
            await tx.lock(int.from_bytes(bytes.fromhex(tables.session_id(KEY))[:8], signed=True))
            await other.acquire_lease(KEY, "other", ttl=60)
            await tx.fetch_rows(("SELECT 1", ()))

    with pytest.raises(SessionsUnavailable):
        await pause_in_transaction()
    async with paused.transaction() as tx:
        assert [tuple(row) for row in await tx.fetch_rows(("SELECT 1", ()))] == [(1,)]
    await paused.close()
    await other.close()


async def test_connections_that_the_server_has_ended_are_replaced(postgres_server: PostgresServer) -> None:
    url = postgres_server.new_database()
    store = PostgresSessionStore(url)
    await store.append(KEY, new_event("a", "message"))
    ended = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = $1"
    assert postgres_server.fetch(ended, database_of(url)) == [(1,)]
    event = new_event("a", "message")

    async def until_it_works() -> int:
        while True:
            try:
                return (await store.append(KEY, event)).revision
            except SessionsUnavailable:
                continue

    assert await until_it_works() == 2
    await store.close()


async def test_closing_gives_every_connection_back(postgres_server: PostgresServer) -> None:
    url = postgres_server.new_database()
    store = PostgresSessionStore(url)

    await asyncio.gather(*(store.append(KEY, new_event("a", "message")) for _ in range(30)))
    count = "SELECT count(*) FROM pg_stat_activity WHERE datname = $1"
    assert 1 <= postgres_server.fetch(count, database_of(url))[0][0] <= 10
    await store.close()
    assert postgres_server.fetch(count, database_of(url)) == [(0,)]


async def test_every_question_of_an_append_finds_its_rows_by_an_index(postgres_server: PostgresServer) -> None:
    url = postgres_server.new_database()
    store = PostgresSessionStore(url)
    await store.append(KEY, new_event("a", "message"))
    await store.close()
    fill = """
        INSERT INTO openskills_sessions SELECT 's' || n, 'o' || n, 'a', 'u', 'n', 1, '', '', '{}'
        FROM generate_series(1, 3000) AS n
    """
    events = "INSERT INTO openskills_events SELECT $1, n, 'e' || n, '{}' FROM generate_series(2, 10000) AS n"
    database = database_of(url)
    for sql, arguments in ((fill, ()), (events, (tables.session_id(KEY),)), ("ANALYZE", ())):
        postgres_server.fetch(sql, *arguments, database=database)
    event = new_event("a", "message")
    for sql, arguments in (
        tables.build_head_query(KEY),
        tables.build_event_query(KEY, event),
        tables.build_events_query(KEY, 9_990),
        tables.build_list_query("a", "b"),
    ):
        ((plan,),) = postgres_server.fetch(f"EXPLAIN (FORMAT JSON) {sql}", *arguments, database=database)
        assert "Seq Scan" not in nodes_of(json.loads(plan)[0]["Plan"]), plan


def nodes_of(plan: dict[str, Any]) -> list[str]:
    inner = [node for part in plan.get("Plans", []) for node in nodes_of(part)]
    return [plan["Node Type"], *inner]


VERSIONS_NOW = [(1,), (2,), (3,)]
VERSIONS = "SELECT version FROM openskills_schema ORDER BY version"


def pool(url: str) -> PostgresPool:
    return PostgresPool(url, f"the session store {strip_credentials(url)}")


def with_steps(*steps: MigrationStep) -> DatabaseProfile:
    return replace(SESSION_DATABASE, steps=steps)


async def used(pool: PostgresPool) -> object:
    try:
        async with pool.transaction(READ_MODE) as asking:
            return [tuple(row) for row in await asking.fetch_rows((VERSIONS, ()))]
    finally:
        await pool.close()


async def test_tables_are_made_once_however_many_begin_at_the_same_time(postgres_server: PostgresServer) -> None:
    url = postgres_server.new_database()

    assert await asyncio.gather(*(used(pool(url)) for _ in range(8))) == [VERSIONS_NOW] * 8


async def test_an_older_database_is_brought_up_to_date(postgres_server: PostgresServer) -> None:
    url = postgres_server.new_database()
    assert await used(PostgresPool(url, "old", with_steps(*SESSION_MIGRATIONS[:1]))) == [(1,)]
    assert await used(pool(url)) == VERSIONS_NOW


async def test_a_newer_database_is_refused(postgres_server: PostgresServer) -> None:
    url = postgres_server.new_database()
    await used(PostgresPool(url, "new", with_steps(*SESSION_MIGRATIONS, ("CREATE TABLE of_tomorrow (x TEXT)",))))
    with pytest.raises(SkillError, match="by a newer OpenSkill: its schema version is 4, this one supports 3"):
        await used(pool(url))


async def test_a_step_that_fails_leaves_nothing(postgres_server: PostgresServer) -> None:
    url = postgres_server.new_database()
    with pytest.raises(SkillError, match='relation "nowhere" does not exist'):
        await used(
            PostgresPool(url, "new", with_steps(("CREATE TABLE half (x TEXT)", "INSERT INTO nowhere VALUES (1)")))
        )
    assert await used(pool(url)) == VERSIONS_NOW


async def test_an_error_in_the_block_takes_everything_back_and_the_connection_can_be_used_on(
    postgres_server: PostgresServer,
) -> None:
    async def write_and_fail() -> None:
        async with own.transaction() as asking:
            await asking.execute_update(("INSERT INTO openskills_schema VALUES ($1)", (99,)))
            raise OSError("of the block")

    own = pool(postgres_server.new_database())
    with pytest.raises(OSError, match="of the block"):
        await write_and_fail()
    assert await used(own) == VERSIONS_NOW


def test_a_call_that_is_cancelled_at_any_moment_leaves_the_pool_usable(postgres_server: PostgresServer) -> None:
    async def cancel_at(moment: int) -> None:
        async def write() -> None:
            async with own.transaction() as asking:
                await asking.lock(7)
                await asking.execute_update(("INSERT INTO openskills_schema VALUES ($1)", (1000 + moment,)))

        writing = asyncio.ensure_future(write())
        for _ in range(moment):
            await asyncio.sleep(0.0002)
        writing.cancel()
        await asyncio.wait([writing])

    async def all_moments() -> object:
        for moment in range(40):
            await cancel_at(moment)
        async with own.transaction() as asking:
            await asking.lock(7)
            await asking.execute_update(("DELETE FROM openskills_schema WHERE version > $1", (999,)))
        return await used(own)

    own = pool(postgres_server.new_database())
    # Not in the loop of the test: asyncpg leaves a future with an exception when connecting is cancelled.
    assert run(all_moments()) == VERSIONS_NOW


@pytest.mark.parametrize(
    ("address", "kind", "said"),
    [
        ("postgresql://erika:geheim@127.0.0.1:{free}/x", SessionsUnavailable, "cannot be reached"),
        ("postgresql://keeper:geheim@127.0.0.1:{port}/postgres", SkillError, "check the user name and the password"),
        ("postgresql://erika:geheim@127.0.0.1:{port}/postgres", SkillError, "check the user name and the password"),
        ("{url}nowhere", SkillError, "create the database first, with createdb"),
        ("postgresql://erika:geheim@127.0.0.1:port/x", InvalidArgument, "in user names and passwords write"),
        ("postgresql://erika:ge/heim@127.0.0.1/x", InvalidArgument, "in user names and passwords write"),
        ("postgresql://erika:geheim@127.0.0.1:{port}/x?sslmode=geheim", InvalidArgument, "has an invalid URL"),
    ],
)
async def test_what_goes_wrong_is_said_without_the_password(
    postgres_server: PostgresServer, address: str, kind: type[SkillError], said: str
) -> None:
    port, whole = postgres_server.port, postgres_server.url("")
    url = address.format(free=free_port(), port=port, url=whole)
    with pytest.raises(kind, match=said) as raised:
        await used(pool(url))
    assert raised.type is kind
    whole_story = "".join(traceback.format_exception(raised.value))
    assert not any(secret in whole_story for secret in ("geheim", "heim@", PASSWORD, "pass%2Fword"))


async def test_a_user_who_may_not_make_tables_is_told_what_to_grant(postgres_server: PostgresServer) -> None:
    postgres_server.fetch("DROP ROLE IF EXISTS guest")
    postgres_server.fetch("CREATE ROLE guest LOGIN PASSWORD 'guest'")
    database = postgres_server.new_database().rpartition("/")[2]
    with pytest.raises(SkillError, match=r"permission denied.*grant it CREATE on the schema"):
        await used(pool(postgres_server.url(database, user="guest", password="guest")))
