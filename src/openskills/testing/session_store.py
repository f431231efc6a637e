"""What every store of conversations promises, and a check of it: `run(check_session_store(MyStore))`."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from openskills.errors import InvalidArgument, SessionConflict
from openskills.session.events import Event, applied, new_event
from openskills.session.store import AppendEventHook, Session, SessionKey, SessionStore
from openskills.testing.promises import expect, expect_refusal, kept

_PAYLOAD: Mapping[str, Any] = {
    "text": "line\r\nline\0 é 图 😀 \ud800 ' \" \\ \x1b[31m \u2028",
    "": None,
    "$set": {"a.b": [True, False, 0, -1, 2**70, 1.5, -0.0, 1e300, "", [], {}, [[]]]},
    "deep": [[[[[[[[{"x": "y"}]]]]]]]],
}
_STATE_KEYS = ("a", "A", "a/b", "a%2Fb", "a:b", "a.b", "$a", "'; --", " a ", "图", "x" * 2000, "e\u0301", "é")
_HOSTILE_IDS = ("..", "../x", "/etc/passwd", "a/b", "a:b", "a%2Fb", "*", "'; DROP TABLE x; --", "a\\b", "{a}", "$a")
_LOOK_ALIKES = ("S", "s ", " s", "s/", "s%", "s_", "é", "e\u0301", "图", "x" * 512, "x" * 511)
_BAD_IDS = ("", "a\0b", "a\nb", "half \ud800", "x" * 513)


async def check_session_store(make_store: Callable[[AppendEventHook | None], SessionStore]) -> None:
    """Raise `AssertionError`, with the promise that was broken, when a store does not do what `SessionStore` says.

    `make_store` is called once per promise, with the hook that the store has to call. The stores need not be empty:
    only conversations that nobody else has are used. That things outlive the process is for the store's own tests.
    """
    for promise in _PROMISES:
        await kept(promise, promise(make_store(None), _own_key()))
    for hooked in _HOOK_PROMISES:
        await kept(hooked, hooked(make_store, _own_key()))


async def _nothing_there(store: SessionStore, key: SessionKey) -> None:
    """A conversation that has not begun is None, is in no list, and cannot be deleted."""
    expect(await store.get(key) is None, "get() gives a conversation that nobody began")
    expect(not await store.list(key.app, key.user), "list() has a conversation that nobody began")
    expect(not await store.delete(key), "delete() says that there was one")


async def _events_come_back(store: SessionStore, key: SessionKey) -> None:
    """An event comes back as it was, whatever text and numbers it has, with the next number as its place."""
    at = datetime(2026, 1, 31, 23, 59, 59, 123456, UTC)
    made = Event(f"evt/{uuid4()}", "agent/图 %", "tool.response", at, _PAYLOAD, {"a": "1", "b": None})
    done = await store.append(key, made)
    expect(done.event == replace(made, seq=1), f"append() gave {done.event}, not {made} with seq 1")
    events = (await _session(store, key)).events
    expect(events == (done.event,), f"get() gave {events}, append() {done.event}")
    expect(events[0].at.utcoffset() == timedelta(0), f"the time {events[0].at} is not in UTC")
    bare = await store.append(key, replace(new_event("user", "message"), seq=99))
    expect(bare.event.seq == 2, f"the second event has the number {bare.event.seq}, not 2")


async def _order(store: SessionStore, key: SessionKey) -> None:
    """Events are in the order in which they were appended, whatever their times; `after` gives the newer ones."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for number in range(5):
        await store.append(key, replace(_event(number), at=start - timedelta(days=number)))
    session = await _session(store, key)
    expect(_numbers(session) == [0, 1, 2, 3, 4], f"appended 0 to 4, read {_numbers(session)}")
    seqs = [event.seq for event in session.events]
    expect(seqs == [1, 2, 3, 4, 5], f"the places of five events are {seqs}")
    expect(session.revision == 5, f"after five events the revision is {session.revision}")
    for after, expected in ((3, [3, 4]), (5, []), (9, []), (-1, [0, 1, 2, 3, 4])):
        newer = await _session(store, key, after)
        expect(_numbers(newer) == expected, f"the events after {after} of five are {_numbers(newer)}")
        expect((newer.revision, newer.state) == (5, session.state), f"with after={after} revision or state differ")


async def _deltas(store: SessionStore, key: SessionKey) -> None:
    """A delta sets what it names, removes what it names with None, and leaves the rest."""
    first = {name: f"value of {name}" for name in _STATE_KEYS}
    done = await store.append(key, new_event("a", "state.update", delta=first))
    expect(done.state == first, f"append() gave the state {done.state}, not {first}")
    for delta in ({"a": "2", "new": ""}, {"a": None, "never": None}, {}, {"a": "3", "图": None}):
        first = applied(first, delta)
        done = await store.append(key, new_event("a", "state.update", delta=delta))
        expect(done.state == first, f"after the delta {delta} the state is {done.state}, not {first}")
    session = await _session(store, key)
    expect(session.state == first, f"get() gave the state {session.state}, not {first}")
    deltas = [event.delta for event in session.events]
    expect(deltas[2] == {"a": None, "never": None}, f"the log has {deltas[2]}; what a delta removes is lost there")


async def _concurrent_appends(store: SessionStore, key: SessionKey) -> None:
    """Appends at the same time are stored one after the other, none is lost, and the last one's value stays."""
    done = await asyncio.gather(*(store.append(key, _event(number)) for number in range(24)))
    session = await _session(store, key)
    expect(sorted(_numbers(session)) == list(range(24)), f"appended 0 to 23, the log has {sorted(_numbers(session))}")
    places = {event.id: event.seq for event in session.events}
    expect(sorted(places.values()) == list(range(1, 25)), f"the places are {sorted(places.values())}")
    told = {one.event.id: one.event.seq for one in done}
    expect(told == places, "append() told other places than the log has")
    state: dict[str, str] = {}
    for event in session.events:
        state = applied(state, event.delta)
    expect(session.state == state, f"the log, replayed, gives {state}; the state is {session.state}")


async def _expected_revision(store: SessionStore, key: SessionKey) -> None:
    """With `expected`, an event is stored only at that revision; SessionConflict leaves nothing behind."""
    await _expect_conflict(store, key, 1, "a conversation that has not begun is at revision 1")
    expect(await store.get(key) is None, "a conflict began a conversation")
    await store.append(key, _event(0), expected=0)
    await store.append(key, _event(1), expected=1)
    for wrong in (0, 1, 3):
        await _expect_conflict(store, key, wrong, f"an event is stored at revision 2 although {wrong} was expected")
    raced = [store.append(key, _event(number), expected=2) for number in range(2, 10)]
    results = await asyncio.gather(*raced, return_exceptions=True)
    lost = [result for result in results if isinstance(result, SessionConflict)]
    expect(len(lost) == 7, f"of eight appends that expected revision 2, {len(lost)} were refused")
    session = await _session(store, key)
    expect(session.revision == 3, f"after three events that were stored the revision is {session.revision}")
    expect(session.state["last"] == str(_numbers(session)[-1]), "the delta of a refused event was applied")


async def _same_event_again(store: SessionStore, key: SessionKey) -> None:
    """An event that is in the log is not stored again, also when it comes twice at once, or after a cancellation."""
    event = _event(0)
    first = await store.append(key, event, expected=0)
    await store.append(key, _event(1))
    again = await store.append(key, event, expected=0)
    expect(again.event == first.event, f"the second append() gave {again.event}, the first {first.event}")
    expect(again.revision == 2 and again.state["last"] == "1", "the second append() does not give what is now")
    twice = _event(2)
    await asyncio.gather(*(store.append(key, twice) for _ in range(8)))
    cancelled = asyncio.ensure_future(store.append(key, retried := _event(3)))
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.wait([cancelled])
    await store.append(key, retried)
    session = await _session(store, key)
    expect(_numbers(session) == [0, 1, 2, 3], f"each was to be stored once; the log has {_numbers(session)}")
    elsewhere = await store.append(_other(key, "elsewhere"), event)
    expect(elsewhere.revision == 1, "an event is refused because another conversation has it")


async def _keys_are_apart(store: SessionStore, key: SessionKey) -> None:
    """Nobody sees the conversation of another session, user or application, however their ids are spelt."""
    await store.append(key, _event(0))
    others = (
        _other(key, "two"),
        SessionKey(key.app, f"{key.user}-other", key.session),
        SessionKey(f"{key.app}-other", key.user, key.session),
        SessionKey(key.app, f"{key.user}/{key.session}", key.session),
        SessionKey(f"{key.app}/{key.user}", key.session, key.session),
    )
    for other in others:
        expect(await store.get(other) is None, f"{other} reads what {key} has")
        expect(not await store.delete(other), f"{other} deletes what {key} has")
    for other in others:
        done = await store.append(other, _event(1))
        expect(done.revision == 1, f"{other} goes on where {key} is")
    expect(_numbers(await _session(store, key)) == [0], "the conversation has events of others")


async def _hostile_ids(store: SessionStore, key: SessionKey) -> None:
    """Any printable text is an id: it comes back as it was, and means no other; what is none is refused."""
    names = (*_HOSTILE_IDS, *_LOOK_ALIKES, "s")
    for number, name in enumerate(names):
        await store.append(_other(key, name), _event(number))
    for number, name in enumerate(names):
        found = _numbers(await _session(store, _other(key, name)))
        expect(found == [number], f"the session {name[:40]!r} has the events {found}, not {[number]}")
    listed = {info.key.session for info in await store.list(key.app, key.user)}
    expect(listed == set(names), f"listed are {sorted(listed ^ set(names))} too many or too few")
    for name in _HOSTILE_IDS:
        for one in (SessionKey(key.app, name, key.user), SessionKey(name, key.user, key.user)):
            done = await store.append(one, _event(7))
            session = await _session(store, one)
            expect(session.events[-1] == done.event, f"{one} does not have what was appended to it")
            await store.delete(one)
    for name in _BAD_IDS:
        await expect_refusal(store.list(name, key.user), f"the app {name[:40]!r} is accepted")
        await expect_refusal(store.list(key.app, name), f"the user {name[:40]!r} is accepted")


async def _delete(store: SessionStore, key: SessionKey) -> None:
    """delete() forgets a conversation and nothing else; the next append begins it anew."""
    other = _other(key, "kept")
    for one in (key, key, other):
        await store.append(one, _event(0))
    expect(await store.delete(key), "delete() of a conversation says that there was none")
    expect(not await store.delete(key), "a second delete() says that there was one")
    expect(await store.get(key) is None, "it can be read after delete()")
    listed = [info.key for info in await store.list(key.app, key.user)]
    expect(listed == [other], f"after delete() the list has {listed}")
    begun = await store.append(key, new_event("a", "message"), expected=0)
    expect((begun.revision, dict(begun.state)) == (1, {}), f"it begins anew with {begun}")
    expect(_numbers(await _session(store, other)) == [0], "delete() took events of another conversation")


async def _list(store: SessionStore, key: SessionKey) -> None:
    """list() has every conversation of the user once, the latest first, with its revision and times."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    days = {"b": (1, 5), "a": (2, 9), "d": (3, 3), "c": (3, 3), "e": (8, 7)}
    for name, times in days.items():
        for day in times:
            await store.append(_other(key, name), replace(_event(day), at=start + timedelta(days=day)))
    await store.append(SessionKey(key.app, f"{key.user}-other", "x"), _event(0))
    seen = [(info.key, info.revision, info.begun, info.updated) for info in await store.list(key.app, key.user)]
    expected = [
        (_other(key, name), 2, *(start + timedelta(days=day) for day in days[name]))
        for name in ("a", "e", "b", "c", "d")
    ]
    expect(seen == expected, f"listed {seen}, not {expected}")


async def _nothing_leaks(store: SessionStore, key: SessionKey) -> None:
    """What a caller does to its own values, or to those that it was given, does not change what is stored."""
    inner: list[object] = ["x"]
    payload: dict[str, Any] = {"inner": inner}
    delta: dict[str, str | None] = {"a": "1"}
    event = new_event("a", "message", payload, delta)
    done = await store.append(key, event)
    before = await _session(store, key)
    inner.append("y")
    payload["more"], delta["b"] = 1, "2"
    for given in (event, done.event, (await _session(store, key)).events[0]):
        given.payload["inner"].append("z")
        _spoil(given.payload)
        _spoil(given.delta)
    _spoil(done.state)
    _spoil((await _session(store, key)).state)
    after = await _session(store, key)
    expect(after.state == {"a": "1"}, f"the state is {after.state}")
    expect(after.events[0].payload == {"inner": ["x"]}, f"the payload is {after.events[0].payload}")
    expect(after == before, f"it was {before}, and is {after}")


async def _hook_decides(make_store: Callable[[AppendEventHook | None], SessionStore], key: SessionKey) -> None:
    """The event that the hook gives is stored; it sees the state as it is, also when many append at once."""
    store = make_store(_three_at_most)
    await asyncio.gather(*(store.append(key, _load(number)) for number in range(16)))
    session = await _session(store, key)
    expect(len(session.events) == 16, f"of sixteen events {len(session.events)} were stored")
    state: dict[str, str] = {}
    for event in session.events:
        state = applied(state, event.delta)
        expect(len(state) <= 3, f"a hook that lets three keys be sees an old state: there are {sorted(state)}")
    expect(session.state == state, f"the log, replayed, gives {state}; the state is {session.state}")
    expect(all(event.payload == {"hooked": True} for event in session.events), "the payload is not the hook's")


async def _hook_refuses(make_store: Callable[[AppendEventHook | None], SessionStore], key: SessionKey) -> None:
    """What a hook raises, or an id that it changes, keeps the event from being stored; it sees no event twice."""
    seen: list[str] = []

    def hook(event: Event, state: Mapping[str, str]) -> Event:
        seen.append(event.kind)
        _spoil(state)
        _spoil(event.payload)
        if event.kind == "refused":
            raise InvalidArgument("event", "is refused")
        return replace(event, id="another") if event.kind == "renamed" else event

    store = make_store(hook)
    for kind in ("refused", "renamed"):
        await expect_refusal(store.append(key, new_event("a", kind, delta={"a": "1"})), f"a {kind} event is stored")
    expect(await store.get(key) is None, "an event that was not to be stored began the conversation")
    event = new_event("a", "message", delta={"b": "2"})
    await store.append(key, event)
    done = await store.append(key, event)
    expect(seen == ["refused", "renamed", "message"], f"the hook saw {seen}")
    expect(done.state == {"b": "2"}, f"a hook that writes into the state it sees leaves {done.state}")


_PROMISES: tuple[Callable[[SessionStore, SessionKey], Awaitable[None]], ...] = (
    _nothing_there,
    _events_come_back,
    _order,
    _deltas,
    _concurrent_appends,
    _expected_revision,
    _same_event_again,
    _keys_are_apart,
    _hostile_ids,
    _delete,
    _list,
    _nothing_leaks,
)
_HOOK_PROMISES = (_hook_decides, _hook_refuses)


def _three_at_most(event: Event, state: Mapping[str, str]) -> Event:
    there = sorted(applied(state, event.delta), key=int)
    gone = [name for name in there if name not in event.delta][: max(len(there) - 3, 0)]
    return replace(event, payload={"hooked": True}, delta={**event.delta, **dict.fromkeys(gone)})


def _own_key() -> SessionKey:
    return SessionKey("check", f"user-{uuid4()}", "one")


def _other(key: SessionKey, session: str) -> SessionKey:
    return SessionKey(key.app, key.user, session)


def _event(number: int) -> Event:
    return new_event("agent", "message", {"number": number}, {"last": str(number), f"n{number}": "1"})


def _load(number: int) -> Event:
    return new_event("agent", "tool.response", {"number": number}, {str(number): "1"})


def _numbers(session: Session) -> list[int]:
    return [event.payload["number"] for event in session.events]


def _spoil(given: Mapping[str, Any]) -> None:
    """Write into a mapping that was given away, if it lets itself be written into."""
    if isinstance(given, dict):
        given["spoilt"] = "1"


async def _session(store: SessionStore, key: SessionKey, after: int = 0) -> Session:
    found = await store.get(key, after=after)
    if found is None:
        raise AssertionError(f"get() gives None for {key}, which has begun")
    return found


async def _expect_conflict(store: SessionStore, key: SessionKey, expected: int, otherwise: str) -> None:
    await expect_refusal(store.append(key, _event(77), expected=expected), otherwise, SessionConflict)
