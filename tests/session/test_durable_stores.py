"""Every durable store keeps what stores promise, between processes, after kill -9, and with large logs."""

import asyncio
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

from openskills.session.events import Event, apply_delta, new_event
from openskills.session.open import open_session_store
from openskills.session.store import Session, SessionKey, SessionStore
from openskills.settings import Settings
from openskills.testing.stores import check_session_store
from tests.architecture.project import ROOT
from tests.long_form import LONG
from tests.session.appender import KEY, counting, event_of
from tests.session.conftest import DurableStore, MakeStore

PROCESSES, EVENTS, KILLS = 4, 15, 12 if LONG else 8
OTHER = SessionKey("app", "erika", "other")


@contextmanager
def appender(url: str, name: str, times: int) -> Generator["subprocess.Popen[str]"]:
    """A process that appends, from the moment that it is told to."""
    command = [sys.executable, "-m", "tests.session.appender", url, name, str(times)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        yield process


def begin(process: "subprocess.Popen[str]") -> None:
    assert process.stdin
    process.stdin.write("go\n")
    process.stdin.flush()


async def session(store: SessionStore, key: SessionKey = KEY) -> Session:
    found = await store.get(key)
    assert found is not None
    return found


def check_log(found: Session, acknowledged: Mapping[tuple[str, int], int]) -> None:
    """The log has everything that was acknowledged, where it was said to be; and, replayed, it gives the state."""
    assert [event.seq for event in found.events] == list(range(1, found.revision + 1))
    places = {(event.payload["by"], event.payload["number"]): event.seq for event in found.events}
    assert {one: places.get(one) for one in acknowledged} == acknowledged
    assert len(places) == found.revision, "an event was stored twice"
    state: dict[str, str] = {}
    for event in found.events:
        state = apply_delta(state, event.delta)
        assert state["count"] == str(event.seq), "a hook saw an old state"
    assert state == found.state


async def test_it_keeps_every_promise_of_a_store(make_store: MakeStore) -> None:
    await check_session_store(make_store)


async def test_one_store_that_everybody_shares_keeps_them_too(make_store: MakeStore) -> None:
    shared = make_store(None)
    await check_session_store(lambda hook: make_store(hook) if hook else shared)


async def test_processes_that_append_at_once_lose_no_event(store_url: str, make_store: MakeStore) -> None:
    acknowledged: dict[tuple[str, int], int] = {}
    with ThreadPoolExecutor(PROCESSES) as threads:

        def follow(name: str) -> dict[tuple[str, int], int]:
            with appender(store_url, name, EVENTS) as process:
                begin(process)
                out, _ = process.communicate(timeout=120)
            assert process.returncode == 0
            lines = [line.split() for line in out.splitlines()]
            return {(name, int(number)): int(seq) for _, number, seq in lines}

        for one in threads.map(follow, [f"p{number}" for number in range(PROCESSES)]):
            acknowledged |= one
    assert sorted(acknowledged.values()) == list(range(1, PROCESSES * EVENTS + 1))
    check_log(await session(make_store(None)), acknowledged)


@pytest.mark.slow
async def test_nothing_acknowledged_is_lost_by_kill_9_at_random_moments(store_url: str, make_store: MakeStore) -> None:
    dice = random.Random(20260103)
    store = make_store(counting)
    acknowledged: dict[tuple[str, int], int] = {}
    for turn in range(KILLS):
        name = f"killed-{turn}"
        with appender(store_url, name, 0) as process:
            begin(process)
            assert process.stdout
            for _ in range(dice.randrange(8)):
                _, number, seq = process.stdout.readline().split()
                acknowledged[name, int(number)] = int(seq)
            # Any moment of the next append will do.
            time.sleep(dice.random() * 0.01)
            os.kill(process.pid, signal.SIGKILL)
            for line in process.stdout.read().splitlines():
                _, number, seq = line.split()
                acknowledged[name, int(number)] = int(seq)
        check_log(await session(store), acknowledged)
        # Whoever comes next is not kept waiting by what the dead one held.
        done = await store.append(KEY, event_of("after", turn))
        acknowledged["after", turn] = done.event.seq
    assert len(acknowledged) > 2 * KILLS
    check_log(await session(make_store(None)), acknowledged)


async def test_threads_with_loops_of_their_own_lose_no_event(make_store: MakeStore) -> None:
    store = make_store(counting)

    async def append(number: int) -> int:
        async def one(turn: int) -> int:
            return (await store.append(KEY, event_of(f"t{number}", turn))).revision

        revisions = await asyncio.gather(*(one(turn) for turn in range(5)))
        await store.close()
        return len(revisions)

    with ThreadPoolExecutor(6) as threads:
        done = [one.result() for one in [threads.submit(asyncio.run, append(number)) for number in range(6)]]
    assert sum(done) == 30
    check_log(await session(store), {})
    assert (await session(store)).state["count"] == "30"


async def test_what_one_store_has_written_another_reads(make_store: MakeStore) -> None:
    writer = make_store(None)
    event = new_event("a", "message", {"text": "\0 \ud800 图"}, {"a": "1"})
    await writer.append(KEY, event)
    await writer.close()
    assert (await session(make_store(None))).events[0].payload == event.payload
    assert (await session(writer)).state == {"a": "1"}, "a store that was closed cannot be used again"


@pytest.mark.parametrize("kind", [OSError, ConnectionError, TimeoutError, sqlite3.OperationalError, ValueError])
async def test_what_a_hook_raises_arrives_as_it_is_and_nothing_is_stored(
    make_store: MakeStore, kind: type[Exception]
) -> None:
    def refuse(event: Event, state: Mapping[str, str]) -> NoReturn:
        raise kind("of the hook")

    store = make_store(refuse)
    with pytest.raises(kind, match="of the hook"):
        await store.append(KEY, new_event("a", "message"))
    assert await store.get(KEY) is None
    assert (await make_store(None).append(KEY, new_event("a", "message"))).revision == 1


async def test_an_event_of_10_mb_comes_back_whole(make_store: MakeStore) -> None:
    store = make_store(None)
    text = "图" * 1_000_000 + "x" * 7_000_000
    await store.append(KEY, new_event("a", "message", {"text": text}))
    assert (await session(store)).events[0].payload["text"] == text


async def test_ids_and_keys_of_any_length_that_is_allowed_are_kept(make_store: MakeStore) -> None:
    # So that nothing can be compressed to what an index takes.
    dice = random.Random(7)
    store = make_store(None)
    ids = ["".join(chr(dice.randrange(0x20000, 0x2A6DF)) for _ in range(512)) for _ in range(5)]
    key = SessionKey(*ids[:3])
    state = {"".join(chr(dice.randrange(0x4E00, 0x9FFF)) for _ in range(5000)): ids[3]}
    event = Event(ids[3], ids[4], ids[0], new_event("a", "b").at, {}, state)
    await store.append(key, event)
    assert (await store.append(key, event)).revision == 1
    assert (await session(store, key)).state == state
    assert [info.key for info in await store.list(*ids[:2])] == [key]


async def test_deleting_takes_everything_and_nothing_of_others(make_store: MakeStore) -> None:
    store = make_store(counting)
    for number in range(3):
        await store.append(KEY, event_of("a", number))
        await store.append(OTHER, event_of("a", number))
    assert await store.delete(KEY)
    check_log(await session(store, OTHER), {("a", 0): 1, ("a", 1): 2, ("a", 2): 3})
    await store.append(KEY, event_of("b", 0))
    check_log(await session(store), {("b", 0): 1})


async def test_a_conversation_that_is_deleted_and_begun_by_others_is_never_half_of_each(make_store: MakeStore) -> None:
    store, writer = make_store(None), make_store(counting)
    seen: list[int] = []

    async def write() -> None:
        turn = 0
        while len(seen) < 20:
            turn += 1
            await asyncio.gather(*(writer.append(KEY, event_of(f"w{turn}", number)) for number in range(4)))
            await writer.delete(KEY)

    writing = asyncio.ensure_future(write())
    while not writing.done():
        found = await store.get(KEY)
        if found is not None:
            check_log(found, {})
            assert len({event.payload["by"] for event in found.events}) == 1
            seen.append(found.revision)
    await writing
    assert len(seen) >= 20


async def test_appending_does_not_make_others_wait_for_the_loop(make_store: MakeStore) -> None:
    store = make_store(None)

    appending = asyncio.ensure_future(asyncio.gather(*(store.append(KEY, event_of("a", n)) for n in range(300))))
    count = 0
    while not appending.done():
        await asyncio.sleep(0)
        count += 1
    await appending
    assert count > 5


@pytest.mark.slow
async def test_many_events_are_appended_and_read_in_order(make_store: MakeStore) -> None:
    store, many = make_store(None), 2_000 if LONG else 600

    for number in range(many):
        await store.append(KEY, new_event("a", "message", {"n": number}))
    assert [event.payload["n"] for event in (await session(store)).events] == list(range(many))
    late = await store.get(KEY, after=many - 3)
    assert late is not None
    assert [event.seq for event in late.events] == [many - 2, many - 1, many]


async def test_without_an_address_sessions_are_in_a_file_of_the_state_directory(tmp_path: Path) -> None:
    settings = Settings.from_env({"HOME": str(tmp_path)})
    store: DurableStore = open_session_store(None, settings)  # pyright: ignore[reportAssignmentType]
    await store.append(KEY, new_event("a", "message"))
    await store.close()
    assert (settings.state_dir / "sessions.db").is_file()
