"""Conversations in Redis: `test_durable_stores.py` has what all durable stores do; here is what only this one does."""

import asyncio
import signal
from collections.abc import Generator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from openskills.errors import SessionsUnavailable, SkillError
from openskills.session.events import Event, new_event
from openskills.session.redis import RedisSessionStore
from openskills.session.redis_scripts import session_keys
from openskills.session.store import SessionKey
from openskills.sync import run
from tests.servers.redis import RedisServer

KEY = SessionKey("app", "erika", "s1")


@pytest.fixture
def store(redis_server: RedisServer) -> Generator[RedisSessionStore]:
    redis_server.ask("FLUSHALL")
    made = RedisSessionStore(redis_server.url())
    yield made
    run(made.close())


def test_making_one_touches_nothing() -> None:
    RedisSessionStore("redis://:secret@127.0.0.1:1/0")


def test_after_kill_9_of_the_server_every_acknowledged_event_is_there_and_the_store_goes_on(
    redis_server: RedisServer, store: RedisSessionStore
) -> None:
    event = new_event("a", "message")

    async def kill_in_the_middle() -> list[str]:
        acknowledged = [(await store.append(KEY, new_event("a", "message"))).event.id for _ in range(20)]
        await asyncio.to_thread(redis_server.started.end, signal.SIGKILL)
        with pytest.raises(SessionsUnavailable) as raised:
            await store.append(KEY, event)
        assert raised.value.retryable
        return acknowledged

    acknowledged = run(kill_in_the_middle())
    redis_server.started.start()
    assert run(store.append(KEY, event)).revision == 21
    found = run(store.get(KEY))
    assert found is not None
    assert [one.id for one in found.events] == [*acknowledged, event.id]


def test_a_hook_decides_anew_when_somebody_was_faster(redis_server: RedisServer, store: RedisSessionStore) -> None:
    seen: list[int] = []

    def slow(event: Event, state: Mapping[str, str]) -> Event:
        seen.append(len(state))
        if len(seen) == 1:
            # In the middle of the decision somebody else appends.
            with ThreadPoolExecutor(1) as thread:
                thread.submit(asyncio.run, faster()).result()
        return event

    async def faster() -> None:
        other = RedisSessionStore(redis_server.url())
        await other.append(KEY, new_event("a", "message", delta={"other": "1"}))
        await other.close()

    hooked = RedisSessionStore(redis_server.url(), slow)
    assert run(hooked.append(KEY, new_event("a", "message", delta={"mine": "1"}))).revision == 2
    run(hooked.close())
    assert seen == [0, 1]
    found = run(store.get(KEY))
    assert found is not None
    assert found.state == {"other": "1", "mine": "1"}


def test_a_conversation_of_which_the_server_has_lost_a_part_is_an_error(
    redis_server: RedisServer, store: RedisSessionStore
) -> None:
    for _ in range(3):
        run(store.append(KEY, new_event("a", "message")))
    # What a server does that may throw away what was not used for long.
    redis_server.ask("DEL", session_keys(KEY)[1])
    with pytest.raises(SkillError, match="the log of session 's1' is damaged: of 3 events 0 are there"):
        run(store.get(KEY))


def test_deleting_leaves_no_key_behind(redis_server: RedisServer, store: RedisSessionStore) -> None:
    run(store.append(KEY, new_event("a", "message")))
    assert len(redis_server.ask("KEYS", "*")) == 5
    assert run(store.delete(KEY))
    assert redis_server.ask("KEYS", "*") == ["openskills:schema"]


def test_a_server_without_room_says_so_and_stores_nothing(redis_server: RedisServer, store: RedisSessionStore) -> None:
    run(store.append(KEY, new_event("a", "message")))
    redis_server.ask("CONFIG", "SET", "maxmemory", "1")
    try:
        with pytest.raises(SkillError, match="maxmemory"):
            run(store.append(KEY, new_event("a", "message", {"text": "x"})))
    finally:
        redis_server.ask("CONFIG", "SET", "maxmemory", "0")
    assert run(store.append(KEY, new_event("a", "message"))).revision == 2


def test_an_append_reads_nothing_of_the_log(redis_server: RedisServer, store: RedisSessionStore) -> None:
    for _ in range(50):
        run(store.append(KEY, new_event("a", "message")))
    redis_server.ask("CONFIG", "RESETSTAT")
    run(store.append(KEY, new_event("a", "message")))
    used = set(redis_server.ask("INFO", "commandstats"))
    assert "cmdstat_rpush" in used
    assert not used & {"cmdstat_lrange", "cmdstat_lindex", "cmdstat_hgetall"}
