"""Conversations in Redis: `test_durable_stores.py` has what all durable stores do; here is what only this one does.

Connections are made when they are needed, and what goes wrong is said without a password.

The keys of one user lie together; nobody else's are among them.
"""

import asyncio
import signal
import traceback
from collections.abc import AsyncGenerator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from openskills.errors import InvalidArgument, SessionsUnavailable, SkillError
from openskills.session.events import Event, new_event
from openskills.session.redis import (
    DELETE,
    LOOKUP,
    READ,
    WRITE,
    RedisClient,
    RedisSessionStore,
    session_id,
    session_keys,
    sessions_key,
)
from openskills.session.store import SessionKey, strip_credentials
from tests.servers.redis import PASSWORD, RedisServer
from tests.servers.started import free_port

KEY = SessionKey("app", "erika", "s1")


@pytest.fixture
async def store(redis_server: RedisServer) -> AsyncGenerator[RedisSessionStore]:
    redis_server.ask("FLUSHALL")
    made = RedisSessionStore(redis_server.url())
    yield made
    await made.close()


def test_making_one_touches_nothing() -> None:
    RedisSessionStore("redis://:secret@127.0.0.1:1/0")


async def test_after_kill_9_of_the_server_every_acknowledged_event_is_there_and_the_store_goes_on(
    redis_server: RedisServer, store: RedisSessionStore
) -> None:
    event = new_event("a", "message")

    acknowledged = [(await store.append(KEY, new_event("a", "message"))).event.id for _ in range(20)]
    await asyncio.to_thread(redis_server.started.end, signal.SIGKILL)
    with pytest.raises(SessionsUnavailable) as raised:
        await store.append(KEY, event)
    assert raised.value.retryable
    redis_server.started.start()
    assert (await store.append(KEY, event)).revision == 21
    found = await store.get(KEY)
    assert found is not None
    assert [one.id for one in found.events] == [*acknowledged, event.id]


async def test_a_hook_decides_again_when_somebody_was_faster(
    redis_server: RedisServer, store: RedisSessionStore
) -> None:
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
    assert (await hooked.append(KEY, new_event("a", "message", delta={"mine": "1"}))).revision == 2
    await hooked.close()
    assert seen == [0, 1]
    found = await store.get(KEY)
    assert found is not None
    assert found.state == {"other": "1", "mine": "1"}


async def test_a_conversation_of_which_the_server_has_lost_a_part_is_an_error(
    redis_server: RedisServer, store: RedisSessionStore
) -> None:
    for _ in range(3):
        await store.append(KEY, new_event("a", "message"))
    # What a server does that may throw away what was not used for long.
    redis_server.ask("DEL", session_keys(KEY)[1])
    with pytest.raises(SkillError, match="the log of session 's1' is damaged: 0 of 3 events found"):
        await store.get(KEY)


async def test_deleting_leaves_no_key_behind(redis_server: RedisServer, store: RedisSessionStore) -> None:
    await store.append(KEY, new_event("a", "message"))
    assert len(redis_server.ask("KEYS", "*")) == 5
    assert await store.delete(KEY)
    assert redis_server.ask("KEYS", "*") == ["openskills:schema"]


async def test_a_server_without_room_says_so_and_stores_nothing(
    redis_server: RedisServer, store: RedisSessionStore
) -> None:
    await store.append(KEY, new_event("a", "message"))
    redis_server.ask("CONFIG", "SET", "maxmemory", "1")
    try:
        with pytest.raises(SkillError, match="maxmemory"):
            await store.append(KEY, new_event("a", "message", {"text": "x"}))
    finally:
        redis_server.ask("CONFIG", "SET", "maxmemory", "0")
    assert (await store.append(KEY, new_event("a", "message"))).revision == 2


async def test_an_append_reads_nothing_of_the_log(redis_server: RedisServer, store: RedisSessionStore) -> None:
    for _ in range(50):
        await store.append(KEY, new_event("a", "message"))
    redis_server.ask("CONFIG", "RESETSTAT")
    await store.append(KEY, new_event("a", "message"))
    used = set(redis_server.ask("INFO", "commandstats"))
    assert "cmdstat_rpush" in used
    assert not used & {"cmdstat_lrange", "cmdstat_lindex", "cmdstat_hgetall"}


async def used(url: str) -> object:
    client = RedisClient(url, f"the session store {strip_credentials(url)}")
    try:
        return await client.run("return {KEYS[1], ARGV[1]}", ["key"], [5])
    finally:
        await client.close()


async def test_a_script_gets_its_keys_and_arguments(redis_server: RedisServer) -> None:
    assert await used(redis_server.url()) == [b"key", b"5"]


@pytest.mark.parametrize(
    ("address", "kind", "said"),
    [
        ("redis://erika:geheim@127.0.0.1:{free}/0", SessionsUnavailable, "cannot be reached"),
        ("redis://:geheim@127.0.0.1:{port}/0", SkillError, "check the user name and the password"),
        ("redis://127.0.0.1:{port}/0", SkillError, "check the user name and the password"),
        ("{url}99", SkillError, "DB index is out of range"),
        ("redis://:geheim@127.0.0.1:port/0", InvalidArgument, "in user names and passwords write"),
        ("redis://:ge/heim@127.0.0.1/0", InvalidArgument, "in user names and passwords write"),
        ("redis://:geheim@[::1", InvalidArgument, "in user names and passwords write"),
        ("redis://:geheim@127.0.0.1:{port}/0?geheim=geheim", InvalidArgument, "has an invalid URL"),
        ("redis://:geheim@127.0.0.1:{port}/0?socket_timeout=geheim", InvalidArgument, "has an invalid URL"),
    ],
)
async def test_what_goes_wrong_is_said_without_the_password(
    redis_server: RedisServer, address: str, kind: type[SkillError], said: str
) -> None:
    url = address.format(free=free_port(), port=redis_server.port, url=redis_server.url())
    with pytest.raises(kind, match=said) as raised:
        await used(url)
    assert raised.type is kind
    whole_story = "".join(traceback.format_exception(raised.value))
    assert not any(secret in whole_story for secret in ("geheim", "heim@", PASSWORD, "pass%2Fword"))


async def test_a_server_with_data_of_a_newer_version_is_refused_and_left_alone(redis_server: RedisServer) -> None:
    redis_server.ask("SET", "openskills:schema", "7")
    try:
        with pytest.raises(SkillError, match="was written by a newer OpenSkill: its schema version is 7"):
            await used(redis_server.url())
        assert redis_server.ask("GET", "openskills:schema") == "7"
    finally:
        redis_server.ask("DEL", "openskills:schema")


def slot(key: str) -> str:
    """What decides where a cluster keeps a key."""
    return key.partition("{")[2].partition("}")[0]


def test_everything_of_a_user_is_in_one_slot() -> None:
    keys = [*session_keys(SessionKey("a", "u", "1")), *session_keys(SessionKey("a", "u", "2")), sessions_key("a", "u")]
    assert len({slot(key) for key in keys}) == 1
    assert slot(sessions_key("a", "v")) != slot(keys[0])


def test_ids_are_never_part_of_a_key() -> None:
    hostile = SessionKey("app}{x", "*", "a\\b {y}:head")
    for key in session_keys(hostile):
        assert set(key) <= set("openskills:{}headlogplacessessions0123456789abcdef")


def test_conversations_have_keys_of_their_own() -> None:
    spellings = [
        SessionKey("a", "b", "c"),
        SessionKey("a", "b", "c "),
        SessionKey("a", "bc", "c"),
        SessionKey("ab", "b", "c"),
    ]
    assert len({key for one in spellings for key in session_keys(one)[:3]}) == 12
    assert len({session_id(one) for one in spellings}) == 4


def test_scripts_use_no_key_that_they_were_not_given() -> None:
    for script in (LOOKUP, READ, WRITE, DELETE):
        calls = [line for line in script.splitlines() if "redis.call" in line]
        assert calls
        assert all("KEYS[" in line for line in calls)
