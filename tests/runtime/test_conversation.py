"""The table of open conversations.

What the agents of a conversation share.
"""

import asyncio
from collections.abc import Mapping

import pytest

from openskills.artifacts.store import Scope
from openskills.errors import ExecutorUnavailable, SkillError
from openskills.executors.commands import CommandRules, CommandRunner
from openskills.runtime.conversation import MAX_CACHED_CONVERSATIONS, Conversation, ConversationCache, ConversationPool
from openskills.session.events import STATE_UPDATE, Event, new_event
from openskills.session.memory import MemorySessionStore
from openskills.session.state import Loaded, RecordedChange
from openskills.session.store import Session, SessionKey


async def no_bench(_: Conversation) -> CommandRunner:
    raise ExecutorUnavailable("none")


def sessions() -> tuple[ConversationPool, list[ConversationCache]]:
    made: list[ConversationCache] = []

    def make(scope: Scope, remembered: ConversationCache) -> Conversation:
        made.append(remembered)
        return Conversation(scope, MemorySessionStore(), no_bench, remembered)

    return ConversationPool(make), made


def scope(number: int = 0) -> Scope:
    return Scope("app", "user", f"s{number}")


async def test_users_at_the_same_time_share_one_and_it_is_closed_behind_the_last() -> None:
    table, made = sessions()
    first, second = await asyncio.gather(table.acquire(scope(), "a"), table.acquire(scope(), "b"))
    assert first is second
    await table.release(first)
    assert await table.acquire(scope(), "a") is first
    await table.release(first)
    await table.release(first)
    again = await table.acquire(scope(), "a")
    assert again is not first
    assert made[0] is made[1]


async def test_only_so_many_are_remembered() -> None:
    table, made = sessions()
    for number in (*range(MAX_CACHED_CONVERSATIONS + 1), 0):
        await table.release(await table.acquire(scope(number), "a"))
    assert made[-1] is not made[0]


class Held(Conversation):
    """Is written, and so closed, when it is told to; `talking` says whether a command of it is talked to."""

    def __init__(self, scope: Scope, remembered: ConversationCache) -> None:
        super().__init__(scope, MemorySessionStore(), no_bench, remembered)
        self.asked = asyncio.Event()
        self.go = asyncio.Event()
        self.talking = False
        self.closed = False

    async def flush(self) -> None:
        self.asked.set()
        await self.go.wait()
        await super().flush()

    async def close(self) -> None:
        await super().close()
        self.closed = True

    def has_running_commands(self) -> bool:
        return self.talking


async def held(users: int) -> tuple[ConversationPool, Held]:
    made: list[Held] = []

    def make(scope: Scope, remembered: ConversationCache) -> Held:
        made.append(Held(scope, remembered))
        return made[0]

    table = ConversationPool(make)
    for _ in range(users):
        await table.acquire(scope(), "a")
    return table, made[0]


async def test_who_is_cancelled_while_it_is_closed_leaves_it_closed() -> None:
    table, opened = await held(1)
    leaving = asyncio.ensure_future(table.release(opened))
    await opened.asked.wait()
    leaving.cancel()
    await asyncio.sleep(0)
    still_closing = not leaving.done()
    opened.go.set()
    await asyncio.wait([leaving])
    assert leaving.cancelled()
    assert still_closing
    assert opened.closed


async def test_who_is_cancelled_while_another_leaves_has_left() -> None:
    table, opened = await held(2)
    first = asyncio.ensure_future(table.release(opened))
    await opened.asked.wait()
    second = asyncio.ensure_future(table.release(opened))
    await asyncio.sleep(0)
    second.cancel()
    opened.go.set()
    await asyncio.wait([first, second])
    assert second.cancelled()
    assert opened.closed


def test_work_is_not_given_to_a_loop_that_does_not_run() -> None:
    loop = asyncio.new_event_loop()
    table, opened = loop.run_until_complete(held(1))
    opened.talking = True

    async def looked() -> asyncio.AbstractEventLoop | None:
        return table.find_loop(scope())

    assert table.find_loop(scope()) is None
    assert loop.run_until_complete(looked()) is loop
    loop.close()


SCOPE = Scope("app", "user", "s")
KEY = SessionKey("app", "user", "s")


class Watched(MemorySessionStore):
    """Notes how many events each reading gave."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[int] = []

    async def get(self, key: SessionKey, *, after: int = 0) -> Session | None:
        found = await super().get(key, after=after)
        self.read.append(len(found.events) if found else 0)
        return found


async def no_bench_opened(_: Conversation) -> CommandRunner:
    raise ExecutorUnavailable("none here")


async def test_numbers_grow() -> None:
    opened = Conversation(SCOPE, MemorySessionStore(), no_bench_opened)

    assert [opened.tick() for _ in range(3)] == [1, 2, 3]


async def test_what_could_not_be_written_is_written_the_next_time() -> None:
    broken = [True]

    def hook(event: Event, state: Mapping[str, str]) -> Event:
        del state
        if broken[0]:
            raise SkillError("the disk is full")
        return event

    store = MemorySessionStore(hook=hook)
    opened = Conversation(SCOPE, store, no_bench_opened)
    opened.fold([RecordedChange(1, "a", Loaded("x"))], "a", {})
    with pytest.raises(SkillError, match="full"):
        await opened.flush()
    broken[0] = False
    await opened.flush()
    found = await store.get(KEY)
    assert found is not None
    assert found.revision == 1

    assert found.state["temp:skill:loaded_by_agent:a/x"] == "1"


async def test_a_conversation_is_opened_without_reading_its_log() -> None:
    store = Watched()
    before = Conversation(SCOPE, store, no_bench_opened)
    before.fold([RecordedChange(1, "a", Loaded("x"))], "a", {})
    await before.flush()
    opened = Conversation(SCOPE, store, no_bench_opened)
    await opened.open("a")
    assert opened.state.view_for("a").list_loaded() == ("x",)
    assert store.read == [0]


async def test_keys_of_an_older_version_go_to_the_agent_that_the_log_says() -> None:
    store = Watched()
    called = {"tool": "skill_load", "skill": "x"}
    await store.append(KEY, new_event("b", STATE_UPDATE, called, {"temp:skill:loaded:x": "1"}))
    opened = Conversation(SCOPE, store, no_bench_opened)
    await opened.open("a")
    assert opened.state.view_for("b").list_loaded() == ("x",)
    assert opened.state.view_for("a").list_loaded() == ()
    assert store.read == [0, 1]


async def test_nothing_is_written_when_nothing_changes() -> None:
    store = MemorySessionStore()
    opened = Conversation(SCOPE, store, no_bench_opened)
    opened.fold([], "a", {})
    await opened.close()
    assert await store.get(KEY) is None


async def test_a_workspace_that_cannot_be_opened_is_tried_again() -> None:
    opened = Conversation(SCOPE, MemorySessionStore(), no_bench_opened)
    for _ in range(2):
        with pytest.raises(ExecutorUnavailable):
            await opened.open_runner("a", CommandRules())
    await opened.close()
