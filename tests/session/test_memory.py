"""Conversations in memory keep what every store promises; their logs, replayed, give the state."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.errors import SessionConflict
from openskills.session.events import Event, apply_delta, new_event
from openskills.session.keys import build_delta, loaded_prefix, state_from_keys, state_to_keys
from openskills.session.memory import MemorySessionStore
from openskills.session.state import Loaded, RecordedChange, SkillState, Unloaded, apply_changes, keep_most_recent
from openskills.session.store import Session, SessionKey
from openskills.sync import run
from openskills.testing.stores import check_session_store
from tests.session.strategies import changes, numbered, seen

KEY = SessionKey("app", "erika", "s1")
NOTHING: Mapping[str, str] = {}


def read(store: MemorySessionStore) -> Session:
    session = run(store.get(KEY))
    assert session is not None
    return session


def load(agent: str, skill: str, before: Mapping[str, str]) -> Event:
    """The event of a `skill_load`, by somebody who sees this state."""
    state = state_from_keys(before)
    loaded = apply_changes(state, [RecordedChange(state.clock + 1, agent, Loaded(skill))])
    return new_event(agent, "tool.response", {"text": f"loaded: {skill}"}, build_delta(state, loaded))


def keep_three(event: Event, state: Mapping[str, str]) -> Event:
    """The example of the documents: a policy of one's own, that lets the three latest skills of an agent stay."""
    if not any(key.startswith(loaded_prefix(event.author)) for key in event.delta):
        return event
    after = state_from_keys(apply_delta(state, event.delta))
    gone = keep_most_recent(3)(after.view_for(event.author))
    kept = apply_changes(
        after, [RecordedChange(after.clock + 1, event.author, Unloaded(skill, evicted=True)) for skill in gone]
    )
    return replace(event, delta={**event.delta, **build_delta(after, kept)})


async def test_it_keeps_every_promise_of_a_store() -> None:
    await check_session_store(MemorySessionStore)


async def test_one_store_that_everybody_shares_keeps_them_too() -> None:
    shared = MemorySessionStore()
    await check_session_store(lambda hook: MemorySessionStore(hook) if hook else shared)


def test_threads_with_loops_of_their_own_lose_no_event() -> None:
    store = MemorySessionStore()
    with ThreadPoolExecutor(8) as threads:
        made = [new_event("a", "message", {"n": n}, {f"n{n}": "1"}) for n in range(64)]
        done = [one.result() for one in [threads.submit(run, store.append(KEY, event)) for event in made]]
    assert sorted(one.revision for one in done) == list(range(1, 65))
    assert {event.id for event in read(store).events} == {event.id for event in made}
    assert len(read(store).state) == 64


async def test_a_policy_of_ones_own_keeps_the_three_latest_skills() -> None:
    store = MemorySessionStore(keep_three)
    for skill in ("a", "b", "c", "a", "d", "e"):
        session = await store.get(KEY)
        await store.append(KEY, load("main", skill, session.state if session else NOTHING))
    await store.append(KEY, load("helper", "z", read(store).state))
    state = state_from_keys(read(store).state)
    assert state.view_for("main").list_loaded() == ("a", "d", "e")
    assert state.view_for("helper").list_loaded() == ("z",)
    assert read(store).events[4].delta["temp:skill:loaded_by_agent:main/b"] is None


async def test_a_policy_of_ones_own_holds_also_for_callers_who_saw_an_old_state() -> None:
    store = MemorySessionStore(keep_three)
    for skill in ("a", "b", "c", "d", "e"):
        await store.append(KEY, load("main", skill, {}))
    state = state_from_keys(read(store).state)
    assert len(state.view_for("main").list_loaded()) == 3
    assert state.view_for("main").list_loaded()[-1] == "e"


def test_callers_who_decide_again_after_a_conflict_lose_no_skill() -> None:
    store = MemorySessionStore()

    def loading(skill: str) -> None:
        while True:
            session = run(store.get(KEY))
            state, revision = (session.state, session.revision) if session else (NOTHING, 0)
            try:
                run(store.append(KEY, load("main", skill, state), expected=revision))
            except SessionConflict:
                continue
            return

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(loading, "abcdefgh"))
    loaded = state_from_keys(read(store).state).view_for("main").list_loaded()
    assert sorted(loaded) == list("abcdefgh")
    assert [event.payload["text"] for event in read(store).events] == [f"loaded: {skill}" for skill in loaded]


@pytest.mark.parametrize("expected", [None, 0])
async def test_a_conversation_that_was_deleted_begins_again(expected: int | None) -> None:
    store = MemorySessionStore()
    await store.append(KEY, load("main", "a", {}))
    assert await store.delete(KEY)
    assert (await store.append(KEY, load("main", "b", {}), expected=expected)).revision == 1
    assert state_from_keys(read(store).state).view_for("main").list_loaded() == ("b",)


@given(numbered(changes), st.lists(st.integers(1, 4), max_size=16))
def test_the_log_replayed_gives_the_keys_of_the_state(made: list[RecordedChange], sizes: list[int]) -> None:
    store, state = MemorySessionStore(), SkillState()
    rest = list(made)
    for size in [*sizes, len(made)]:
        portion, rest = rest[:size], rest[size:]
        after = apply_changes(state, portion)
        run(store.append(KEY, new_event("main", "tool.response", delta=build_delta(state, after))))
        state = after
    session = read(store)
    assert session.state == state_to_keys(state)
    assert seen(state_from_keys(session.state)) == seen(state)
    replayed: dict[str, str] = {}
    for event in session.events:
        replayed = apply_delta(replayed, event.delta)
    assert replayed == session.state
