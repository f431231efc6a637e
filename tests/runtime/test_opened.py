"""What the agents of a conversation share."""

from collections.abc import Mapping
from typing import Any

import pytest

from openskills.artifacts.store import Scope
from openskills.errors import ExecutorUnavailable, SkillError
from openskills.executors.workbench import Rules, Workbench
from openskills.runtime.opened import OpenedSession
from openskills.session.changes import Loaded, Recorded
from openskills.session.events import STATE_UPDATE, Event, new_event
from openskills.session.memory import MemorySessionStore
from openskills.session.store import Session, SessionKey
from openskills.sync import run

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


async def no_bench() -> Workbench:
    raise ExecutorUnavailable("none here")


def test_numbers_grow() -> None:
    async def go() -> list[int]:
        opened = OpenedSession(SCOPE, MemorySessionStore(), no_bench)
        return [opened.tick() for _ in range(3)]

    assert run(go()) == [1, 2, 3]


def test_what_could_not_be_written_is_written_the_next_time() -> None:
    broken = [True]

    def hook(event: Event, state: Mapping[str, str]) -> Event:
        del state
        if broken[0]:
            raise SkillError("the disk is full")
        return event

    async def go() -> Mapping[str, Any]:
        store = MemorySessionStore(hook=hook)
        opened = OpenedSession(SCOPE, store, no_bench)
        opened.fold([Recorded(1, "a", Loaded("x"))], "a", {})
        with pytest.raises(SkillError, match="full"):
            await opened.flush()
        broken[0] = False
        await opened.flush()
        found = await store.get(KEY)
        assert found is not None
        assert found.revision == 1
        return found.state

    assert run(go())["temp:skill:loaded_by_agent:a/x"] == "1"


def test_a_conversation_is_opened_without_reading_its_log() -> None:
    async def go() -> None:
        store = Watched()
        before = OpenedSession(SCOPE, store, no_bench)
        before.fold([Recorded(1, "a", Loaded("x"))], "a", {})
        await before.flush()
        opened = OpenedSession(SCOPE, store, no_bench)
        await opened.open("a")
        assert opened.state.of("a").loaded() == ("x",)
        assert store.read == [0]

    run(go())


def test_keys_of_an_older_version_go_to_the_agent_that_the_log_says() -> None:
    async def go() -> None:
        store = Watched()
        called = {"tool": "skill_load", "skill": "x"}
        await store.append(KEY, new_event("b", STATE_UPDATE, called, {"temp:skill:loaded:x": "1"}))
        opened = OpenedSession(SCOPE, store, no_bench)
        await opened.open("a")
        assert opened.state.of("b").loaded() == ("x",)
        assert opened.state.of("a").loaded() == ()
        assert store.read == [0, 1]

    run(go())


def test_nothing_is_written_when_nothing_changes() -> None:
    async def go() -> None:
        store = MemorySessionStore()
        opened = OpenedSession(SCOPE, store, no_bench)
        opened.fold([], "a", {})
        await opened.close()
        assert await store.get(KEY) is None

    run(go())


def test_a_workspace_that_cannot_be_opened_is_tried_again() -> None:
    async def go() -> None:
        opened = OpenedSession(SCOPE, MemorySessionStore(), no_bench)
        for _ in range(2):
            with pytest.raises(ExecutorUnavailable):
                await opened.bench("a", Rules())
        await opened.close()

    run(go())
