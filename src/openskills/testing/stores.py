"""Conformance checks for stores: `run(check_session_store(MyStore))`, `run(check_artifact_store(MyStore))`."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import uuid4

from openskills.arguments import check_arguments
from openskills.artifacts.store import Artifact, ArtifactStore, Scope, parse_ref, read_artifact
from openskills.errors import ForbiddenPath, InvalidArgument, LeaseLost, LimitExceeded, SessionConflict, SessionInUse
from openskills.session.events import Event, apply_delta, new_event
from openskills.session.store import AppendEventHook, Session, SessionKey, SessionLease, SessionStore
from openskills.testing.checks import (
    EVERY_BYTE,
    PNG,
    ContentError,
    EndlessContent,
    broken_content,
    check_promise,
    expect,
    expect_refusal,
    stream_content,
)

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


@check_arguments
async def check_session_store(make_store: Callable[[AppendEventHook | None], SessionStore]) -> None:
    """Raise `AssertionError`, with the promise that was broken, when a store does not do what `SessionStore` says.

    `make_store` is called once per promise, with the hook that the store has to call. The stores need not be empty:
    only new conversations are used. Whether data survives the end of the process is not checked.
    """
    for promise in _PROMISES:
        await check_promise(promise, promise(make_store(None), _new_key()))
    for hooked in _HOOK_PROMISES:
        await check_promise(hooked, hooked(make_store, _new_key()))


async def _check_empty(store: SessionStore, key: SessionKey) -> None:
    """A conversation that has not begun is None, is in no list, and cannot be deleted."""
    expect(await store.get(key) is None, "get() returns a conversation that was never started")
    expect(not await store.list(key.app, key.user), "list() contains a conversation that was never started")
    expect(not await store.delete(key), "delete() says that there was one")


async def _check_events(store: SessionStore, key: SessionKey) -> None:
    """An event comes back as it was, whatever text and numbers it has, with the next number as its place."""
    at = datetime(2026, 1, 31, 23, 59, 59, 123456, UTC)
    made = Event(f"evt/{uuid4()}", "agent/图 %", "tool.response", at, _PAYLOAD, {"a": "1", "b": None})
    done = await store.append(key, made)
    expect(done.event == replace(made, seq=1), f"append() gave {done.event}, not {made} with seq 1")
    events = (await _read_session(store, key)).events
    expect(events == (done.event,), f"get() gave {events}, append() {done.event}")
    expect(events[0].at.utcoffset() == timedelta(0), f"the time {events[0].at} is not in UTC")
    bare = await store.append(key, replace(new_event("user", "message"), seq=99))
    expect(bare.event.seq == 2, f"the second event has the number {bare.event.seq}, not 2")


async def _check_order(store: SessionStore, key: SessionKey) -> None:
    """Events are in the order in which they were appended, whatever their times; `after` gives the newer ones."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for number in range(5):
        await store.append(key, replace(_build_event(number), at=start - timedelta(days=number)))
    session = await _read_session(store, key)
    expect(_event_numbers(session) == [0, 1, 2, 3, 4], f"appended 0 to 4, read {_event_numbers(session)}")
    seqs = [event.seq for event in session.events]
    expect(seqs == [1, 2, 3, 4, 5], f"the places of five events are {seqs}")
    expect(session.revision == 5, f"after five events the revision is {session.revision}")
    for after, expected in ((3, [3, 4]), (5, []), (9, []), (-1, [0, 1, 2, 3, 4])):
        newer = await _read_session(store, key, after)
        expect(_event_numbers(newer) == expected, f"the events after {after} of five are {_event_numbers(newer)}")
        expect((newer.revision, newer.state) == (5, session.state), f"with after={after} revision or state differ")


async def _check_deltas(store: SessionStore, key: SessionKey) -> None:
    """A delta sets what it names, removes what it names with None, and leaves the rest."""
    first = {name: f"value of {name}" for name in _STATE_KEYS}
    done = await store.append(key, new_event("a", "state.update", delta=first))
    expect(done.state == first, f"append() gave the state {done.state}, not {first}")
    for delta in ({"a": "2", "new": ""}, {"a": None, "never": None}, {}, {"a": "3", "图": None}):
        first = apply_delta(first, delta)
        done = await store.append(key, new_event("a", "state.update", delta=delta))
        expect(done.state == first, f"after the delta {delta} the state is {done.state}, not {first}")
    session = await _read_session(store, key)
    expect(session.state == first, f"get() gave the state {session.state}, not {first}")
    deltas = [event.delta for event in session.events]
    expect(deltas[2] == {"a": None, "never": None}, f"the log has {deltas[2]}; what a delta removes is lost there")


async def _check_concurrent_appends(store: SessionStore, key: SessionKey) -> None:
    """Appends at the same time are stored one after the other, none is lost, and the last one's value stays."""
    done = await asyncio.gather(*(store.append(key, _build_event(number)) for number in range(24)))
    session = await _read_session(store, key)
    expect(
        sorted(_event_numbers(session)) == list(range(24)),
        f"appended 0 to 23, the log has {sorted(_event_numbers(session))}",
    )
    places = {event.id: event.seq for event in session.events}
    expect(sorted(places.values()) == list(range(1, 25)), f"the places are {sorted(places.values())}")
    told = {one.event.id: one.event.seq for one in done}
    expect(told == places, "append() returned other positions than the log has")
    state: dict[str, str] = {}
    for event in session.events:
        state = apply_delta(state, event.delta)
    expect(session.state == state, f"the log, replayed, gives {state}; the state is {session.state}")


async def _check_revision(store: SessionStore, key: SessionKey) -> None:
    """With `expected`, an event is stored only at that revision; SessionConflict leaves nothing behind."""
    await _expect_conflict(store, key, 1, "a conversation that has not begun is at revision 1")
    expect(await store.get(key) is None, "a conflict began a conversation")
    await store.append(key, _build_event(0), expected=0)
    await store.append(key, _build_event(1), expected=1)
    for wrong in (0, 1, 3):
        await _expect_conflict(store, key, wrong, f"an event is stored at revision 2 although {wrong} was expected")
    raced = [store.append(key, _build_event(number), expected=2) for number in range(2, 10)]
    results = await asyncio.gather(*raced, return_exceptions=True)
    lost = [result for result in results if isinstance(result, SessionConflict)]
    expect(len(lost) == 7, f"of eight appends that expected revision 2, {len(lost)} were refused")
    session = await _read_session(store, key)
    expect(session.revision == 3, f"after three events that were stored the revision is {session.revision}")
    expect(session.state["last"] == str(_event_numbers(session)[-1]), "the delta of a refused event was applied")


async def _check_repeat(store: SessionStore, key: SessionKey) -> None:
    """An event in the log is not stored again, even if it is appended twice at once or after a cancellation."""
    event = _build_event(0)
    first = await store.append(key, event, expected=0)
    await store.append(key, _build_event(1))
    again = await store.append(key, event, expected=0)
    expect(again.event == first.event, f"the second append() gave {again.event}, the first {first.event}")
    expect(again.revision == 2 and again.state["last"] == "1", "the second append() does not give what is now")
    twice = _build_event(2)
    await asyncio.gather(*(store.append(key, twice) for _ in range(8)))
    cancelled = asyncio.ensure_future(store.append(key, retried := _build_event(3)))
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.wait([cancelled])
    await store.append(key, retried)
    session = await _read_session(store, key)
    expect(
        _event_numbers(session) == [0, 1, 2, 3], f"each was to be stored once; the log has {_event_numbers(session)}"
    )
    elsewhere = await store.append(_other_key(key, "elsewhere"), event)
    expect(elsewhere.revision == 1, "an event is refused because another conversation has it")


async def _check_separate_keys(store: SessionStore, key: SessionKey) -> None:
    """Conversations of other sessions, users and applications are invisible, however similar the ids are."""
    await store.append(key, _build_event(0))
    others = (
        _other_key(key, "two"),
        SessionKey(key.app, f"{key.user}-other", key.session),
        SessionKey(f"{key.app}-other", key.user, key.session),
        SessionKey(key.app, f"{key.user}/{key.session}", key.session),
        SessionKey(f"{key.app}/{key.user}", key.session, key.session),
    )
    for other in others:
        expect(await store.get(other) is None, f"{other} reads what {key} has")
        expect(not await store.delete(other), f"{other} deletes what {key} has")
    for other in others:
        done = await store.append(other, _build_event(1))
        expect(done.revision == 1, f"{other} continues the conversation of {key}")
    expect(_event_numbers(await _read_session(store, key)) == [0], "the conversation has events of others")


async def _check_hostile_ids(store: SessionStore, key: SessionKey) -> None:
    """Any printable text is a distinct id and is returned unchanged; other text is refused."""
    names = (*_HOSTILE_IDS, *_LOOK_ALIKES, "s")
    for number, name in enumerate(names):
        await store.append(_other_key(key, name), _build_event(number))
    for number, name in enumerate(names):
        found = _event_numbers(await _read_session(store, _other_key(key, name)))
        expect(found == [number], f"the session {name[:40]!r} has the events {found}, not {[number]}")
    listed = {info.key.session for info in await store.list(key.app, key.user)}
    expect(listed == set(names), f"listed are {sorted(listed ^ set(names))} too many or too few")
    for name in _HOSTILE_IDS:
        for one in (SessionKey(key.app, name, key.user), SessionKey(name, key.user, key.user)):
            done = await store.append(one, _build_event(7))
            session = await _read_session(store, one)
            expect(session.events[-1] == done.event, f"{one} does not have what was appended to it")
            await store.delete(one)
    for name in _BAD_IDS:
        await expect_refusal(store.list(name, key.user), f"the app {name[:40]!r} is accepted")
        await expect_refusal(store.list(key.app, name), f"the user {name[:40]!r} is accepted")


async def _check_delete_session(store: SessionStore, key: SessionKey) -> None:
    """delete() removes a conversation and nothing else; the next append starts a new one."""
    other = _other_key(key, "kept")
    for one in (key, key, other):
        await store.append(one, _build_event(0))
    expect(await store.delete(key), "delete() of a conversation says that there was none")
    expect(not await store.delete(key), "a second delete() says that there was one")
    expect(await store.get(key) is None, "it can be read after delete()")
    listed = [info.key for info in await store.list(key.app, key.user)]
    expect(listed == [other], f"after delete() the list has {listed}")
    begun = await store.append(key, new_event("a", "message"), expected=0)
    expect((begun.revision, dict(begun.state)) == (1, {}), f"it begins anew with {begun}")
    expect(_event_numbers(await _read_session(store, other)) == [0], "delete() took events of another conversation")


async def _check_list(store: SessionStore, key: SessionKey) -> None:
    """list() has every conversation of the user once, the latest first, with its revision and times."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    days = {"b": (1, 5), "a": (2, 9), "d": (3, 3), "c": (3, 3), "e": (8, 7)}
    for name, times in days.items():
        for day in times:
            await store.append(_other_key(key, name), replace(_build_event(day), at=start + timedelta(days=day)))
    await store.append(SessionKey(key.app, f"{key.user}-other", "x"), _build_event(0))
    seen = [(info.key, info.revision, info.begun, info.updated) for info in await store.list(key.app, key.user)]
    expected = [
        (_other_key(key, name), 2, *(start + timedelta(days=day) for day in days[name]))
        for name in ("a", "e", "b", "c", "d")
    ]
    expect(seen == expected, f"listed {seen}, not {expected}")


async def _check_copies(store: SessionStore, key: SessionKey) -> None:
    """What a caller does to its own values, or to those that it was given, does not change what is stored."""
    inner: list[object] = ["x"]
    payload: dict[str, Any] = {"inner": inner}
    delta: dict[str, str | None] = {"a": "1"}
    event = new_event("a", "message", payload, delta)
    done = await store.append(key, event)
    before = await _read_session(store, key)
    inner.append("y")
    payload["more"], delta["b"] = 1, "2"
    for given in (event, done.event, (await _read_session(store, key)).events[0]):
        given.payload["inner"].append("z")
        _spoil(given.payload)
        _spoil(given.delta)
    _spoil(done.state)
    _spoil((await _read_session(store, key)).state)
    after = await _read_session(store, key)
    expect(after.state == {"a": "1"}, f"the state is {after.state}")
    expect(after.events[0].payload == {"inner": ["x"]}, f"the payload is {after.events[0].payload}")
    expect(after == before, f"it was {before}, and became {after}")


async def _check_lease(store: SessionStore, key: SessionKey) -> None:
    """A lease excludes other holders until it is released; epochs grow, also after a release and a deletion."""
    first, found = await store.acquire_lease(key, "a", ttl=60)
    expect(found is None, f"the lease of a conversation that has not begun comes with {found}")
    expect((first.key, first.holder) == (key, "a"), f"a lease of a on {key} is {first}")
    expect(await store.get(key) is None, "a lease began a conversation")
    await store.append(key, new_event("a", "message", {"number": 0}, {"x": "1"}), epoch=first.epoch)
    try:
        await store.acquire_lease(key, "b/图", ttl=60)
    except SessionInUse as error:
        expect("a" in error.message and 0 < error.seconds <= 60, f"the refusal says {error.message!r}, {error.seconds}")
    else:
        raise AssertionError("two holders have the lease")
    await store.acquire_lease(_other_key(key, "two"), "b/图", ttl=60)
    again, found = await store.acquire_lease(key, "a", ttl=60)
    expect(again.epoch > first.epoch, f"the same holder got the epoch {again.epoch} after {first.epoch}")
    expect(found == Session(key, {"x": "1"}, (), 1), f"the lease came with {found}, not the state without events")
    await store.release_lease(first)
    await expect_refusal(
        store.acquire_lease(key, "b", ttl=60), "releasing an old lease ended a newer one", SessionInUse
    )
    await store.release_lease(again)
    await store.release_lease(again)
    other, _ = await store.acquire_lease(key, "b", ttl=60)
    await store.release_lease(other)
    await store.delete(key)
    last, _ = await store.acquire_lease(key, "a", ttl=60)
    epochs = [one.epoch for one in (first, again, other, last)]
    expect(epochs == sorted(set(epochs)) and epochs[0] > 0, f"the epochs of four leases are {epochs}")
    raced = [store.acquire_lease(_other_key(key, "raced"), f"h{number}", ttl=60) for number in range(8)]
    results = await asyncio.gather(*raced, return_exceptions=True)
    lost = [result for result in results if isinstance(result, SessionInUse)]
    expect(len(lost) == 7, f"of eight that asked for a lease at once, {len(lost)} were refused")
    for bad in ("", "a\nb"):
        await expect_refusal(store.acquire_lease(key, bad, ttl=60), f"the holder {bad!r} is accepted")
    await expect_refusal(store.acquire_lease(key, "a", ttl=0), "a lease of no time is accepted")


async def _check_fencing(store: SessionStore, key: SessionKey) -> None:
    """After another holder got the lease, or after a release, appends and renewals of the old lease are refused."""
    old, _ = await store.acquire_lease(key, "a", ttl=0.002)
    stored = new_event("a", "message", {"number": 0})
    await store.append(key, stored, epoch=old.epoch)
    await store.renew_lease(old, ttl=0.002)
    new = await _acquire_when_expired(store, key, "b")
    expect(new.epoch > old.epoch, f"the epoch after {old.epoch} is {new.epoch}")
    for stale in (old.epoch, new.epoch + 1, 0):
        what = f"an event is stored with the epoch {stale} although {new.epoch} is the last one"
        await expect_refusal(store.append(key, _build_event(1), epoch=stale), what, LeaseLost)
    await expect_refusal(store.append(key, stored, epoch=old.epoch), "a stale repetition is answered", LeaseLost)
    await expect_refusal(store.renew_lease(old, ttl=60), "a stale lease is renewed", LeaseLost)
    await store.release_lease(old)
    await store.append(key, _build_event(2), epoch=new.epoch, expected=1)
    await store.append(key, _build_event(3))
    await store.release_lease(new)
    await expect_refusal(
        store.append(key, _build_event(4), epoch=new.epoch), "a released lease still counts", LeaseLost
    )
    await expect_refusal(store.renew_lease(new, ttl=60), "a released lease is renewed", LeaseLost)
    numbers = _event_numbers(await _read_session(store, key))
    expect(numbers == [0, 2, 3], f"the log has the events {numbers}, not those with a valid lease or none")


async def _check_expired(store: SessionStore, key: SessionKey) -> None:
    """A lease that has expired still counts, and can be renewed, as long as no other holder has taken it."""
    lease, _ = await store.acquire_lease(key, "a", ttl=0.001)
    await asyncio.sleep(0.002)
    try:
        await store.append(key, _build_event(0), epoch=lease.epoch)
        await store.renew_lease(lease, ttl=60)
    except LeaseLost as error:
        raise AssertionError(f"a lease that no other holder has taken is lost: {error.message}") from error
    await expect_refusal(store.acquire_lease(key, "b", ttl=60), "a renewed lease is given away", SessionInUse)


async def _acquire_when_expired(store: SessionStore, key: SessionKey, holder: str) -> SessionLease:
    while True:
        try:
            return (await store.acquire_lease(key, holder, ttl=60))[0]
        except SessionInUse as error:
            await asyncio.sleep(max(error.seconds, 0.001))


async def _check_hook_decides(make_store: Callable[[AppendEventHook | None], SessionStore], key: SessionKey) -> None:
    """The event that the hook gives is stored; it sees the state as it is, also when many append at once."""
    store = make_store(_keep_three)
    loads = [new_event("agent", "tool.response", {"number": number}, {str(number): "1"}) for number in range(16)]
    await asyncio.gather(*(store.append(key, load) for load in loads))
    session = await _read_session(store, key)
    expect(len(session.events) == 16, f"of sixteen events {len(session.events)} were stored")
    state: dict[str, str] = {}
    for event in session.events:
        state = apply_delta(state, event.delta)
        expect(len(state) <= 3, f"a hook that keeps three keys got an old state: there are {sorted(state)}")
    expect(session.state == state, f"the log, replayed, gives {state}; the state is {session.state}")
    expect(all(event.payload == {"hooked": True} for event in session.events), "the payload is not the hook's")


async def _check_hook_refuses(make_store: Callable[[AppendEventHook | None], SessionStore], key: SessionKey) -> None:
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
    _check_empty,
    _check_events,
    _check_order,
    _check_deltas,
    _check_concurrent_appends,
    _check_revision,
    _check_repeat,
    _check_separate_keys,
    _check_hostile_ids,
    _check_delete_session,
    _check_list,
    _check_copies,
    _check_lease,
    _check_expired,
    _check_fencing,
)
_HOOK_PROMISES = (_check_hook_decides, _check_hook_refuses)


def _keep_three(event: Event, state: Mapping[str, str]) -> Event:
    there = sorted(apply_delta(state, event.delta), key=int)
    gone = [name for name in there if name not in event.delta][: max(len(there) - 3, 0)]
    return replace(event, payload={"hooked": True}, delta={**event.delta, **dict.fromkeys(gone)})


def _new_key() -> SessionKey:
    return SessionKey("check", f"user-{uuid4()}", "one")


def _other_key(key: SessionKey, session: str) -> SessionKey:
    return SessionKey(key.app, key.user, session)


def _build_event(number: int) -> Event:
    return new_event("agent", "message", {"number": number}, {"last": str(number), f"n{number}": "1"})


def _event_numbers(session: Session) -> list[int]:
    return [event.payload["number"] for event in session.events]


def _spoil(given: Mapping[str, Any]) -> None:
    """Write into a mapping if it is mutable."""
    if isinstance(given, dict):
        given["spoilt"] = "1"


async def _read_session(store: SessionStore, key: SessionKey, after: int = 0) -> Session:
    found = await store.get(key, after=after)
    if found is None:
        raise AssertionError(f"get() gives None for {key}, which has begun")
    return found


async def _expect_conflict(store: SessionStore, key: SessionKey, expected: int, otherwise: str) -> None:
    await expect_refusal(store.append(key, _build_event(77), expected=expected), otherwise, SessionConflict)


_BAD_NAMES = ("", ".", "user:", "a\0b", "a\nb", "a\x1b[31mb", "half \ud800", "x" * 2000, "\u202egnp.exe")
_ESCAPING_NAMES = ("/etc/passwd", "..", "../../x", "a/../../b", "user:../x", "user:/etc/passwd")


@check_arguments
async def check_artifact_store(make_store: Callable[[], ArtifactStore]) -> None:
    """Raise `AssertionError`, with the promise that was broken, when a store does not do what `ArtifactStore` says.

    `make_store` is called once per promise. The stores need not be empty: only new scopes are used.
    Limits of a store, and that it keeps things when a process dies, are for its own tests.
    """
    for promise in _ARTIFACT_PROMISES:
        await check_promise(promise, promise(make_store(), Scope("check", f"user-{uuid4()}", "one")))


async def _check_bytes(store: ArtifactStore, scope: Scope) -> None:
    """Bytes come back unchanged: text, every byte, an image, nothing at all."""
    for data in (b"text\r\n", EVERY_BYTE, PNG, b""):
        artifact = await store.put(scope, "out/data", data)
        back = await read_artifact(store, scope, "out/data", artifact.version)
        expect(back == data, f"put {data[:20]!r} ({len(data)} bytes), read {back[:20]!r} ({len(back)} bytes)")


async def _check_pieces(store: ArtifactStore, scope: Scope) -> None:
    """What comes in pieces of any size is kept whole, and is given in pieces of at most 1 MiB."""
    data = PNG * 4000
    cuts = (0, 1, 1, 70_000, 70_001, len(data) - 3, len(data))
    await store.put(scope, "large", stream_content([data[start:end] for start, end in pairwise(cuts)]))
    async with store.open(scope, "large") as reading:
        chunks = [chunk async for chunk in reading.chunks]
    expect(b"".join(chunks) == data, f"put {len(data)} bytes in pieces, read {sum(map(len, chunks))} or other ones")
    expect(max(map(len, chunks)) <= 1024 * 1024, f"a chunk has {max(map(len, chunks))} bytes")


async def _check_facts(store: ArtifactStore, scope: Scope) -> None:
    """An artifact says its name, version, size, MIME type, SHA-256 and time, the same from every method."""
    made = await store.put(scope, "图/plot@2x.png", PNG, mime_type="image/png")
    facts = (made.name, made.version, made.size, made.mime_type, made.sha256)
    expected = ("图/plot@2x.png", 0, len(PNG), "image/png", hashlib.sha256(PNG).hexdigest())
    expect(facts == expected, f"put gave {facts}, not {expected}")
    expect(made.created_at.utcoffset() == UTC.utcoffset(None), f"the time {made.created_at} is not in UTC")
    async with store.open(scope, made.name) as reading:
        opened = reading.artifact
    listed, versions = await store.list(scope), await store.versions(scope, made.name)
    same = [opened, *listed, *versions]
    expect(same == [made] * 3, f"put gave {made}, the other methods {same}")
    expect(parse_ref(made.ref) == (made.name, 0), f"{made.ref} does not lead back to {made.name!r} version 0")


async def _check_versions(store: ArtifactStore, scope: Scope) -> None:
    """Versions are 0, 1, 2; without a version the latest is read, and every older one stays as it was."""
    made = [await store.put(scope, "a", b"%d" % number) for number in range(3)]
    expect(_version_numbers(made) == [0, 1, 2], f"three puts gave the versions {_version_numbers(made)}")
    expect(list(await store.versions(scope, "a")) == made, "versions() does not give what put gave, oldest first")
    expect(await read_artifact(store, scope, "a") == b"2", "without a version it is not the latest that is read")
    old = [await read_artifact(store, scope, "a", number) for number in range(3)]
    expect(old == [b"0", b"1", b"2"], f"the versions read {old}")


async def _check_concurrent_puts(store: ArtifactStore, scope: Scope) -> None:
    """Puts of one name at the same time get consecutive versions, each with its own bytes."""
    contents = [b"content %d" % number for number in range(12)]
    made = await asyncio.gather(*(store.put(scope, "raced", content) for content in contents))
    expect(
        sorted(_version_numbers(made)) == list(range(12)),
        f"twelve puts gave the versions {sorted(_version_numbers(made))}",
    )
    for artifact, content in zip(made, contents, strict=True):
        back = await read_artifact(store, scope, "raced", artifact.version)
        expect(back == content, f"version {artifact.version} is {back!r}; its put had {content!r}")


async def _check_separate_scopes(store: ArtifactStore, scope: Scope) -> None:
    """Artifacts of other sessions, users and applications are invisible, however similar the ids are."""
    await store.put(scope, "secret", b"x")
    others = (
        Scope(scope.app, scope.user, "two"),
        Scope(scope.app, f"{scope.user}-other", scope.session),
        Scope("check-other", scope.user, scope.session),
        Scope(scope.app, f"{scope.user}/{scope.session}", scope.session),
        Scope(f"{scope.app}/{scope.user}", scope.session, scope.session),
    )
    for other in others:
        expect(not await store.list(other), f"{other} lists what {scope} put")
        expect(not await store.versions(other, "secret"), f"{other} sees versions of what {scope} put")
        await expect_refusal(_open_and_close(store, other, "secret"), f"{other} reads what {scope} put")
        expect(not await store.delete(other, "secret"), f"{other} deletes what {scope} put")
    expect(await read_artifact(store, scope, "secret") == b"x", "it is gone after others tried to delete it")


async def _check_user_names(store: ArtifactStore, scope: Scope) -> None:
    """Names that begin with `user:` belong to all sessions of a user, and to no other user."""
    made = await store.put(scope, "user:profile", b"1")
    second, stranger = Scope(scope.app, scope.user, "two"), Scope(scope.app, f"{scope.user}-other", "one")
    expect(list(await store.list(second)) == [made], "another session of the user does not list it")
    expect((await store.put(second, "user:profile", b"2")).version == 1, "another session does not add a version")
    expect(await read_artifact(store, scope, "user:profile") == b"2", "what another session put is not the latest")
    expect(not await store.list(stranger), "another user lists it")
    session_named_user = Scope(scope.app, scope.user, "user")
    await store.put(session_named_user, "profile", b"3")
    expect(await read_artifact(store, scope, "user:profile") == b"2", "a session that is called 'user' writes over it")


async def _check_sorted_list(store: ArtifactStore, scope: Scope) -> None:
    """list() has the latest version of every name once, sorted by name; folders and case make other names."""
    names = ("b", "a/b", "a", "A", "user:b", "a/b/c")
    for name in (*names, "b"):
        await store.put(scope, name, name.encode())
    listed = [(artifact.name, artifact.version) for artifact in await store.list(scope)]
    expected = [(name, int(name == "b")) for name in sorted(names)]
    expect(listed == expected, f"listed {listed}, not {expected}")


async def _check_spelling(store: ArtifactStore, scope: Scope) -> None:
    """`a//b` and `./a/b` are `a/b`."""
    made = [await store.put(scope, name, b"") for name in ("a/b", "a//b", "./a/b")]
    seen = [(artifact.name, artifact.version) for artifact in made]
    expect(seen == [("a/b", 0), ("a/b", 1), ("a/b", 2)], f"put gave {seen}")


async def _check_delete_artifact(store: ArtifactStore, scope: Scope) -> None:
    """delete() removes all versions and nothing else; version numbers are not reused."""
    for name in ("gone", "gone", "kept", "user:gone"):
        await store.put(scope, name, name.encode())
    expect(await store.delete(scope, "gone"), "delete() of two versions says that there was nothing")
    expect(not await store.delete(scope, "gone"), "a second delete() says that there was something")
    expect(not await store.delete(scope, "never"), "delete() of nothing says that there was something")
    expect(not await store.versions(scope, "gone"), "there are versions after delete()")
    await expect_refusal(_open_and_close(store, scope, "gone", 0), "version 0 can be read after delete()")
    names = [artifact.name for artifact in await store.list(scope)]
    expect(names == ["kept", "user:gone"], f"after delete() of 'gone' there are {names}")
    again = await store.put(scope, "gone", b"new")
    expect(again.version == 2, f"after two versions were deleted the next one is {again.version}, not 2")
    await expect_refusal(_open_and_close(store, scope, "gone", 0), "a deleted version is back after the next put")


async def _check_open_survives_delete(store: ArtifactStore, scope: Scope) -> None:
    """An open artifact can be read to its end even if it is deleted meanwhile."""
    data = PNG * 4000
    await store.put(scope, "open", data)
    async with store.open(scope, "open") as reading:
        first = await anext(reading.chunks)
        await store.delete(scope, "open")
        rest = [chunk async for chunk in reading.chunks]
    expect(b"".join([first, *rest]) == data, "the bytes after the delete() are missing or other ones")


async def _check_missing(store: ArtifactStore, scope: Scope) -> None:
    """What is not there raises InvalidArgument that names it; its versions are an empty sequence."""
    await store.put(scope, "there", b"")
    for name, version in (("missing", None), ("missing", 0), ("there", 1), ("there", -1), ("there/", 5)):
        await expect_refusal(_open_and_close(store, scope, name, version), f"{name!r} version {version} can be opened")
    expect(not await store.versions(scope, "missing"), "there are versions of what was never put")
    expect(not await store.list(Scope(scope.app, scope.user, "two")), "an empty session lists something")


async def _check_bad_names(store: ArtifactStore, scope: Scope) -> None:
    """Invalid names and names with `..` are refused by every method, and leave nothing behind."""
    for name in (*_BAD_NAMES, *_ESCAPING_NAMES):
        kind = ForbiddenPath if name in _ESCAPING_NAMES else InvalidArgument
        for call in _iter_calls(store, scope, name):
            await expect_refusal(call, f"the name {name[:40]!r} is accepted", kind)
    expect(not await store.list(scope), "an artifact was stored under a refused name")


async def _check_bad_content(store: ArtifactStore, scope: Scope) -> None:
    """Content that is not bytes and invalid MIME types are refused, and leave nothing behind."""
    wrong: tuple[object, ...] = ("text", None, [b"x"], stream_content([b"x", "y"]))
    for data in wrong:
        # On purpose what a type checker would not let pass.
        await expect_refusal(store.put(scope, "a", data), f"data of {type(data).__name__} is accepted")  # pyright: ignore[reportArgumentType]
    for mime_type in ("", "png", "image/png\r\nX-Evil: 1", "x" * 300 + "/y"):
        refused = store.put(scope, "a", b"", mime_type=mime_type)
        await expect_refusal(refused, f"the MIME type {mime_type[:40]!r} is accepted")
    expect(not await store.list(scope), "an artifact was stored although it was refused")


async def _check_failed_content(store: ArtifactStore, scope: Scope) -> None:
    """Content that fails halfway, or whose put is cancelled, leaves nothing behind and takes no number."""
    await expect_refusal(store.put(scope, "a", broken_content()), "an error of the content is hidden", ContentError)
    waiting = EndlessContent()
    cancelled = asyncio.ensure_future(store.put(scope, "a", waiting))
    await waiting.begun.wait()
    cancelled.cancel()
    await asyncio.wait([cancelled])
    expect(cancelled.cancelled(), "a put that is cancelled while its content arrives is not cancelled")
    expect(not await store.list(scope), "an incomplete artifact was stored")
    made = await store.put(scope, "a", b"whole")
    expect(made.version == 0, f"after puts that failed the first version is {made.version}")


async def _check_read_limit(store: ArtifactStore, scope: Scope) -> None:
    """read() takes what is exactly as large as its limit, and refuses more."""
    await store.put(scope, "a", b"12345")
    expect(
        await read_artifact(store, scope, "a", limit=5) == b"12345", "five bytes cannot be read with a limit of five"
    )
    await expect_refusal(
        read_artifact(store, scope, "a", limit=4), "five bytes are read with a limit of four", LimitExceeded
    )


_Promise = Callable[[ArtifactStore, Scope], Awaitable[None]]
_ARTIFACT_PROMISES: tuple[_Promise, ...] = (
    _check_bytes,
    _check_pieces,
    _check_facts,
    _check_versions,
    _check_concurrent_puts,
    _check_separate_scopes,
    _check_user_names,
    _check_sorted_list,
    _check_spelling,
    _check_delete_artifact,
    _check_open_survives_delete,
    _check_missing,
    _check_bad_names,
    _check_failed_content,
    _check_bad_content,
    _check_read_limit,
)


def _iter_calls(store: ArtifactStore, scope: Scope, name: str) -> Iterator[Awaitable[object]]:
    yield store.put(scope, name, b"x")
    yield _open_and_close(store, scope, name)
    yield store.versions(scope, name)
    yield store.delete(scope, name)


async def _open_and_close(store: ArtifactStore, scope: Scope, name: str, version: int | None = None) -> None:
    async with store.open(scope, name, version):
        pass


def _version_numbers(artifacts: Sequence[Artifact]) -> list[int]:
    return [artifact.version for artifact in artifacts]
