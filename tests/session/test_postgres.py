"""Conversations in PostgreSQL: `test_durable_stores.py` has what all durable stores do; here is the rest."""

import asyncio
import json
import signal
from typing import Any

import pytest

from openskills.errors import SessionsUnavailable
from openskills.session import tables
from openskills.session.events import new_event
from openskills.session.postgres import PostgresSessionStore
from openskills.session.store import AppendEventHook, SessionKey
from openskills.sync import run
from openskills.testing import check_session_store
from tests.servers.postgres import PostgresServer

KEY = SessionKey("app", "erika", "s1")


def database_of(url: str) -> str:
    return url.rpartition("/")[2]


def test_making_one_touches_nothing() -> None:
    PostgresSessionStore("postgresql://erika:secret@127.0.0.1:1/nowhere")


@pytest.mark.parametrize("isolation", ["serializable", "repeatable read"])
def test_promises_are_kept_whatever_isolation_is_the_default_of_the_server(
    postgres_server: PostgresServer, isolation: str
) -> None:
    url = postgres_server.new_database()
    postgres_server.fetch(f"ALTER DATABASE {database_of(url)} SET default_transaction_isolation = '{isolation}'")
    made: list[PostgresSessionStore] = []

    def make(hook: AppendEventHook | None) -> PostgresSessionStore:
        made.append(PostgresSessionStore(url, hook))
        return made[-1]

    run(check_session_store(make))
    for store in made:
        run(store.close())


def test_after_a_crash_of_the_server_every_acknowledged_event_is_there_and_the_store_goes_on(
    postgres_server: PostgresServer,
) -> None:
    store = PostgresSessionStore(postgres_server.new_database())
    event = new_event("a", "message")

    async def crash_in_the_middle() -> list[str]:
        acknowledged = [(await store.append(KEY, new_event("a", "message"))).event.id for _ in range(20)]
        # Immediately, without a word to anybody; at the next start it recovers what its log has.
        await asyncio.to_thread(postgres_server.started.end, signal.SIGQUIT)
        with pytest.raises(SessionsUnavailable) as raised:
            await store.append(KEY, event)
        assert raised.value.retryable
        return acknowledged

    acknowledged = run(crash_in_the_middle())
    postgres_server.started.start()
    assert run(store.append(KEY, event)).revision == 21
    found = run(store.get(KEY))
    assert found is not None
    assert [one.id for one in found.events] == [*acknowledged, event.id]
    run(store.close())


def test_connections_that_the_server_has_ended_are_replaced(postgres_server: PostgresServer) -> None:
    url = postgres_server.new_database()
    store = PostgresSessionStore(url)
    run(store.append(KEY, new_event("a", "message")))
    ended = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = $1"
    assert postgres_server.fetch(ended, database_of(url)) == [(1,)]
    event = new_event("a", "message")

    async def until_it_works() -> int:
        while True:
            try:
                return (await store.append(KEY, event)).revision
            except SessionsUnavailable:
                continue

    assert run(until_it_works()) == 2
    run(store.close())


def test_closing_gives_every_connection_back(postgres_server: PostgresServer) -> None:
    url = postgres_server.new_database()
    store = PostgresSessionStore(url)

    async def many() -> None:
        await asyncio.gather(*(store.append(KEY, new_event("a", "message")) for _ in range(30)))

    run(many())
    count = "SELECT count(*) FROM pg_stat_activity WHERE datname = $1"
    assert 1 <= postgres_server.fetch(count, database_of(url))[0][0] <= 10
    run(store.close())
    assert postgres_server.fetch(count, database_of(url)) == [(0,)]


def test_every_question_of_an_append_finds_its_rows_by_an_index(postgres_server: PostgresServer) -> None:
    url = postgres_server.new_database()
    store = PostgresSessionStore(url)
    run(store.append(KEY, new_event("a", "message")))
    run(store.close())
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
        tables.head_question(KEY),
        tables.event_question(KEY, event),
        tables.events_question(KEY, 9_990),
        tables.list_question("a", "b"),
    ):
        ((plan,),) = postgres_server.fetch(f"EXPLAIN (FORMAT JSON) {sql}", *arguments, database=database)
        assert "Seq Scan" not in nodes_of(json.loads(plan)[0]["Plan"]), plan


def nodes_of(plan: dict[str, Any]) -> list[str]:
    inner = [node for part in plan.get("Plans", []) for node in nodes_of(part)]
    return [plan["Node Type"], *inner]
