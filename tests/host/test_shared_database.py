"""The parts of a host on PostgreSQL: the same results as with SQLite, and what several hosts agree on."""

import asyncio
import json
import os
import platform
import signal
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from openskills.errors import InvalidArgument, RequestInFlight, RunInterrupted, SkillError, StoreUnavailable
from openskills.host import runs
from openskills.host.admission import LimitedKey, SharedBuckets
from openskills.host.auth import Principal, StoredKey, create_key
from openskills.host.database import (
    CHANGE_SKILLS,
    HOST_DATABASE,
    Database,
    DatabasePlace,
    open_connection,
    parse_postgres_url,
    record_change,
)
from openskills.host.history import History, RunFilter, insert_records, select_records
from openskills.host.idempotency import IdempotencyClaim, IdempotencyStore, IdempotentResponse
from openskills.host.keys import KeyTable
from openskills.host.model import InvokeResult, Listener, SkillOutputEvent
from openskills.host.registry.reload import follow_changes
from openskills.host.runs import AsyncRunLimits, Runs, RunState
from openskills.host.service import InvokeRequest
from openskills.host.skills import ListPage, SkillStore, UploadAccess, UploadQuota
from openskills.host.workers import list_workers, open_worker
from openskills.postgres import PostgresHandle, PostgresUrl
from openskills.sql import SqlConnection, select_rows
from tests.host.hosting import FunctionTable, echo, manifest
from tests.host.registry.test_reload import opened, shown
from tests.host.results import record, refused, succeeded
from tests.host.test_skills import stage
from tests.servers.postgres import PostgresServer
from tests.servers.relay import relay_to

QUICK = AsyncRunLimits(poll_seconds=0.02)


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> DatabasePlace:
    """Each kind of database, empty."""
    if request.param == "sqlite":
        return tmp_path / "host.db"
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return parse_postgres_url(server.new_database(), "url")


@pytest.fixture
def address(postgres_server: PostgresServer) -> PostgresUrl:
    """An empty database of PostgreSQL."""
    return parse_postgres_url(postgres_server.new_database(), "url")


@asynccontextmanager
async def databases(place: DatabasePlace, count: int = 2) -> AsyncGenerator[list[Database]]:
    """The same database as several hosts have it."""
    found = [Database(place, timeout=30) for _ in range(count)]
    try:
        async with asyncio.timeout(60):
            yield found
    finally:
        for one in found:
            await one.close()


async def begin(store: IdempotencyStore, key: str = "k") -> IdempotentResponse | IdempotencyClaim:
    asked = InvokeRequest("echo", {}, "trace-1", Principal("ci"), 0.0, b"body")
    return await store.begin(key, asked, skill_id="echo")


def insert(at: SqlConnection, name: str = "w") -> None:
    at.execute("INSERT INTO history_content (id) VALUES (?)", (name,))


def names(at: SqlConnection) -> list[str]:
    return [name for (name,) in select_rows(at, "SELECT id FROM history_content ORDER BY id")]


async def test_events_whose_commit_was_not_confirmed_are_stored_once(postgres_server: PostgresServer) -> None:
    url = postgres_server.new_database()
    said: asyncio.Queue[str | None] = asyncio.Queue()

    async def work(listener: Listener) -> InvokeResult:
        while (text := await said.get()) is not None:
            listener(SkillOutputEvent("stdout", {"text": text}))
        return succeeded()

    with relay_to(postgres_server.port) as relay:
        place = parse_postgres_url(url.replace(f":{postgres_server.port}/", f":{relay.port}/"), "url")
        async with databases(place, 1) as (store,), databases(parse_postgres_url(url, "url"), 1) as (direct,):
            own, other = Runs(store, QUICK), Runs(direct, QUICK)
            run = await own.start(work, skill_id="echo", trace_id="t", principal="ada")

            stored_unconfirmed = 0
            for number, text in enumerate(("one", "two", "three"), 1):
                # The answer that is cut may belong to another commit of this run; then the event is stored afterwards.
                relay.cut_at(b"COMMIT\0")
                await said.put(text)
                while not relay.is_cut:
                    await asyncio.sleep(0.01)
                stored_unconfirmed += len(await other.read_events(run.id)) == number
                relay.restore()
                while len(await other.read_events(run.id)) < number:
                    await asyncio.sleep(0.01)
            await said.put(None)
            events = [event async for event in other.events(run.id)]
            texts = [json.loads(event.data)["text"] for event in events if event.kind == "stdout"]
            assert texts == ["one", "two", "three"]
            assert [event.id for event in events] == [1, 2, 3, 4]
            assert stored_unconfirmed
            await own.close()
            await other.close()


async def test_what_is_written_can_be_read_and_what_fails_leaves_nothing(place: DatabasePlace) -> None:
    def fail(at: SqlConnection) -> None:
        insert(at, "half")
        raise ZeroDivisionError

    async with databases(place) as (store, other):
        await store.write(insert)
        with pytest.raises(ZeroDivisionError):
            await store.write(fail)
        assert await other.read(names) == ["w"]


async def test_many_who_open_it_at_once_all_get_it_and_lose_no_write(place: DatabasePlace) -> None:
    async with databases(place, 4) as stores:
        await asyncio.gather(
            *(
                store.write(lambda at, name=f"{number}-{turn}": insert(at, name))
                for turn in range(10)
                for number, store in enumerate(stores)
            )
        )
        assert len(await stores[0].read(names)) == 40


async def test_of_many_requests_with_one_key_exactly_one_is_done(place: DatabasePlace) -> None:
    async with databases(place, 3) as stores:
        kept = [IdempotencyStore(store) for store in stores]
        found = await asyncio.gather(*(begin(one) for one in kept for _ in range(8)), return_exceptions=True)
        assert sum(isinstance(one, IdempotencyClaim) for one in found) == 1
        assert sum(isinstance(one, RequestInFlight) for one in found) == 23
        for one in kept:
            await one.close()


async def test_a_late_answer_does_not_replace_interrupted(place: DatabasePlace) -> None:
    async with databases(place) as stores:
        first, second = map(IdempotencyStore, stores)
        claim = await begin(first)
        assert isinstance(claim, IdempotencyClaim)
        with pytest.raises(RequestInFlight):
            await begin(second)
        await first.close()
        answer = await begin(second)
        assert isinstance(answer, IdempotentResponse)
        assert json.loads(answer.body)["error"]["details"]["reason"] == "INTERRUPTED"
        with pytest.raises(RunInterrupted) if stores[0].is_shared else nullcontext():
            await first.finish(claim, 200, b"{}")
        assert await begin(second) == answer
        await second.close()


async def counting(listener: Listener) -> InvokeResult:
    for number in range(100_000):
        listener(SkillOutputEvent("stdout", {"number": number}))
        await asyncio.sleep(0.005)
    return succeeded()


async def test_a_run_of_one_host_is_followed_and_cancelled_by_another(place: DatabasePlace) -> None:
    async with databases(place) as stores:
        mine, other = (Runs(store, QUICK) for store in stores)
        run = await mine.start(counting, skill_id="echo", trace_id="t-1", principal="ci")
        seen: list[int] = []
        async for event in other.events(run.id):
            seen.append(event.id)
            if len(seen) == 3:
                await other.cancel(run.id)
        assert seen == list(range(1, len(seen) + 1))
        assert (await other.get(run.id)).state is RunState.CANCELLED
        assert [one.state for one in await other.list(RunFilter())] == ["cancelled"]
        await mine.close()
        await other.close()


async def test_a_host_that_was_taken_for_dead_stops_its_run_and_changes_nothing(place: DatabasePlace) -> None:
    async with databases(place) as stores:
        mine, other = (Runs(store, QUICK) for store in stores)
        run = await mine.start(counting, skill_id="echo", trace_id="t-1", principal="ci")
        async for _ in other.events(run.id):
            break
        # What the others do when they see no sign of life.
        lost = replace(run, state=RunState.INTERRUPTED, ended=time.time(), status=503, result=b"{}")
        await stores[1].write(lambda at: runs._record_end(at, lost, ()))
        while mine.live_count:
            await asyncio.sleep(0.01)
        assert (await other.get(run.id)) == replace(lost, started=(await other.get(run.id)).started)
        events = await other.read_events(run.id, limit=100_000)
        assert [one.kind for one in events].count("result") == 1
        assert events[-1].kind == "result"
        await mine.close()
        await other.close()


async def test_the_history_is_the_same(place: DatabasePlace, tmp_path: Path) -> None:
    history = History(place, journal=tmp_path / "host.db")
    odd = "it is \ud800 100% of_it \0"
    records = [record(succeeded()), record(refused())._replace(message=odd, memory_bytes=2**70)]
    for one in records:
        history.record(one)
    await history.close()
    assert {one.id for one in await history.list()} == {one.id for one in records}
    assert [one.id for one in await history.list(RunFilter(text="100% OF_it"))] == [records[1].id]
    assert await history.list(RunFilter(text="100%OF")) == []
    assert [one.id for one in await history.list(RunFilter(failed=True))] == [records[1].id]
    assert await history.get(records[0].id[:-2]) == records[0]
    now = records[0].began
    series = await history.series(since=now - 12, until=now + 8, buckets=4)
    assert [one.calls for one in series] == [0, 0, 2, 0]
    assert [one.errors for one in series] == [0, 0, 1, 0]
    await history.close()


@pytest.mark.parametrize("times", [1, 2])
def test_a_large_batch_is_written_whole_with_odd_values_and_repeated_ids(place: DatabasePlace, times: int) -> None:
    records = [record(began=float(number)) for number in range(200)]
    records[100] = records[100]._replace(message="half \ud800", memory_bytes=2**70)
    interrupted = records[70]._replace(state="interrupted")
    connection = open_connection(place, timeout=30)
    try:
        connection.use(lambda at: insert_records(at, [interrupted]))
        connection.use(lambda at: insert_records(at, [one for one in records for _ in range(times)]))
        found = connection.use(lambda at: select_records(at, RunFilter(), 1_000))[::-1]
    finally:
        connection.close()
    kept = records[100]._replace(message="half ?", memory_bytes=2**63 - 1)
    assert found == [*records[:100], kept, *records[101:]]


async def test_calls_of_a_host_that_was_killed_are_shown_by_others(address: PostgresUrl, tmp_path: Path) -> None:
    async with databases(address) as (store, other):
        heartbeat = open_worker(store)
        killed = History(address, journal=tmp_path / "a" / "host.db", worker=heartbeat)  # type: ignore[arg-type]
        killed.record_start("run_0190", "trace", "ci", "echo", "1", "python", 5)
        sql = "SELECT count(*) FROM history_starts"
        while await other.run_statement(sql) == [(0,)]:
            await asyncio.sleep(0.01)
        watching = History(address, journal=tmp_path / "b" / "host.db")
        assert await watching.list() == []
        await other.run_statement("UPDATE workers SET beat = beat - 60")
        await asyncio.to_thread(heartbeat.close)
        (found,) = await watching.list()
        assert (found.id, found.state, found.bytes_in) == ("run_0190", "interrupted", 5)
        assert await other.run_statement(sql) == [(0,)]
        await watching.close()
        await killed.close()


async def test_a_call_that_ends_after_its_host_was_taken_for_dead_is_shown_as_it_ended(
    address: PostgresUrl, tmp_path: Path
) -> None:
    async with databases(address) as (store, other):
        heartbeat = open_worker(store)
        paused = History(address, journal=tmp_path / "a" / "host.db", worker=heartbeat)  # type: ignore[arg-type]
        watching = History(address, journal=tmp_path / "b" / "host.db")
        both = Runs(other)
        run = await both.start(lambda _: asyncio.sleep(0, succeeded()), skill_id="s", trace_id="t", principal="ci")
        for name in ("run_0190", run.id):
            paused.record_start(name, "trace", "ci", "echo", "1", "python", 5)
        while await other.run_statement("SELECT count(*) FROM history_starts") != [(2,)]:
            await asyncio.sleep(0.01)
        await other.run_statement("UPDATE history_starts SET worker = 'dead'")
        assert {one.state for one in await watching.list()} == {"interrupted"}
        for name in ("run_0190", run.id):
            paused.record(record(succeeded())._replace(id=name))
        await paused.close()
        # A run has ended as all hosts said, whatever the paused one writes later.
        assert {one.id: one.state for one in await watching.list()} == {"run_0190": "succeeded", run.id: "interrupted"}
        await watching.close()
        await both.close()


async def test_who_sends_no_heartbeat_is_dead_and_who_comes_back_is_alive(address: PostgresUrl) -> None:
    async with databases(address) as (store, other):
        mine, theirs = open_worker(store), open_worker(other)
        assert not await other.read(lambda at: theirs.is_alive(mine.id, at))
        await store.write(mine.hold)
        assert await other.read(lambda at: theirs.is_alive(mine.id, at))
        (found,) = await other.read(list_workers)
        assert (found["id"], found["machine"], found["pid"]) == (mine.id, platform.node(), os.getpid())
        await asyncio.to_thread(mine.close)
        assert not await other.read(lambda at: theirs.is_alive(mine.id, at))
        # The server has been running for longer than a worker may be silent, unless the test is very early.
        old = "INSERT INTO workers (id, beat) VALUES (?, 0)"
        await other.run_statement(old, (mine.id,))
        up = "SELECT extract(epoch FROM clock_timestamp() - pg_postmaster_start_time()) > 5"
        while await other.run_statement(up) != [(True,)]:
            await asyncio.sleep(0.05)
        assert not await other.read(lambda at: theirs.is_alive(mine.id, at))


def new_key(name: str, **changes: object) -> tuple[str, StoredKey]:
    key, stored = create_key(name, now=datetime.now(UTC), lifetime=3600)
    return key, replace(stored, **changes)  # type: ignore[arg-type]


async def test_keys_of_a_table_are_those_of_all_hosts(address: PostgresUrl) -> None:
    async with databases(address) as (store, other):
        mine, theirs = KeyTable(store, "here"), KeyTable(other, "here")
        _, stored = new_key("ada", scopes=("file_*", "skills:write"), role="admin", rate_per_second=2.5, burst=3)
        await mine.add(stored)
        assert await theirs.list() == [stored]
        with pytest.raises(InvalidArgument, match="a key named 'ada' exists"):
            await theirs.add(new_key("ada")[1])
        with pytest.raises(InvalidArgument, match="reserved"):
            await theirs.add(new_key("console")[1])
        key, fresh = await theirs.rotate("ada", now=datetime.now(UTC))
        assert key.startswith("osk_")
        assert (fresh.scopes, fresh.limits) == (stored.scopes, stored.limits)
        assert await mine.list() == [fresh]
        assert await mine.change_scopes("ada", ["echo"]) == replace(fresh, scopes=("echo",))
        assert [one.scopes for one in await theirs.list()] == [("echo",)]
        with pytest.raises(InvalidArgument, match="unknown key 'bob'"):
            await mine.change_scopes("bob", ["echo"])
        await mine.revoke("ada")
        with pytest.raises(InvalidArgument, match="unknown key 'ada'"):
            await theirs.revoke("ada")
        assert await theirs.list() == []


async def test_a_rate_limit_is_that_of_all_hosts_together(address: PostgresUrl) -> None:
    async with databases(address) as stores:
        buckets, key = [SharedBuckets(store) for store in stores], LimitedKey("ada", rate_per_second=0.001, burst=5)
        waits = await asyncio.gather(*(buckets[number % 2].take(key) for number in range(12)))
        assert waits.count(0.0) == 5
        assert all(900 < wait <= 1000 for wait in waits if wait)
        state = buckets[0].state(key)
        assert state is not None
        assert (state.limit, state.remaining) == (5, 0)
        assert await buckets[0].take(LimitedKey("bob")) == 0.0


async def test_an_upload_of_one_host_is_served_by_another(address: PostgresUrl, tmp_path: Path) -> None:
    quota, ada = UploadQuota(1 << 22, 100), UploadAccess("ada", "ada")
    first, second = (SkillStore(tmp_path / name, quota, address) for name in ("a", "b"))
    await first.open()
    await second.open()
    made = await first.create(ada, stage(tmp_path), "")
    assert await second.refresh()
    assert not await second.refresh()
    link = second.get_live("ada") / "greeter"
    assert "Hello" in "".join(path.read_text() for path in link.rglob("*") if path.is_file())
    assert (await second.list_skills(ada, ListPage()))[0] == [made]
    (tmp_path / "large.bin").write_bytes(bytes(range(256)) * 9_000)
    file = await second.add_file(ada, tmp_path / "large.bin", "large.bin", "x/y", "user_data", None)
    assert (await first.fetch_blob(file.digest)).stat().st_size == 256 * 9_000
    await second.remove_skill(ada, made.id, with_versions=True)
    await first.refresh()
    assert not (first.get_live("ada") / "greeter").exists()
    await first.close()
    await second.close()


async def test_a_damaged_content_is_refused(address: PostgresUrl, tmp_path: Path) -> None:
    quota, ada = UploadQuota(1 << 22, 100), UploadAccess("ada", "ada")
    first, second = (SkillStore(tmp_path / name, quota, address) for name in ("a", "b"))
    await first.open()
    await second.open()
    made = await first.create(ada, stage(tmp_path), "")
    async with databases(address, 1) as (store,):
        await store.run_statement("UPDATE openskills_uploads.blob_parts SET data = 'other'")
    with pytest.raises(StoreUnavailable, match=f"{made.digest} of an upload is damaged"):
        await second.refresh()
    await first.close()
    await second.close()


async def test_while_the_server_is_down_everybody_is_told_and_afterwards_it_works(
    postgres_server: PostgresServer, address: PostgresUrl
) -> None:
    async with databases(address, 1) as (store,):
        await store.write(insert)
        await asyncio.to_thread(postgres_server.started.end, signal.SIGQUIT)
        try:
            with pytest.raises(StoreUnavailable, match="cannot be reached") as caught:
                await store.write(lambda at: insert(at, "lost"))
            assert caught.value.details["retry_after"] == 1.0
            assert "keeper" not in caught.value.message
        finally:
            # Not in another thread: the server would end with it.
            postgres_server.started.start()
        await store.write(lambda at: insert(at, "again"))
        assert await store.read(names) == ["again", "w"]


def test_a_newer_database_is_left_alone(address: PostgresUrl) -> None:
    profile = HOST_DATABASE
    newer = PostgresHandle(address, replace(profile, steps=(*profile.steps, ("CREATE TABLE later (x TEXT)",))))
    assert newer.use(lambda at: at.execute("SELECT count(*) FROM later").rows) == [(0,)]
    newer.close()
    handle = PostgresHandle(address, profile)
    with pytest.raises(SkillError, match="newer OpenSkill"):
        handle.use(lambda at: at.execute("SELECT 1"))
    handle.close()


def test_a_wrong_password_is_not_repeated(postgres_server: PostgresServer) -> None:
    address = parse_postgres_url(postgres_server.url(password="not-this-one"), "url")
    handle = PostgresHandle(address, HOST_DATABASE)
    with pytest.raises(SkillError, match="check the user name and the password") as caught:
        handle.use(lambda at: at.execute("SELECT 1"))
    assert "not-this-one" not in str(caught.value)
    handle.close()
    with pytest.raises(InvalidArgument, match="expected postgresql://"):
        parse_postgres_url("mysql://secret@host/x", "url")


@pytest.mark.parametrize("option", ["sslmode=not-this-one", "target_session_attrs=not-this-one"])
def test_an_invalid_option_of_the_url_is_refused_and_not_repeated(option: str) -> None:
    address = parse_postgres_url(f"postgresql://user:secret@127.0.0.1:1/x?{option}", "url")
    handle = PostgresHandle(address, HOST_DATABASE)
    with pytest.raises(InvalidArgument, match="has an invalid URL") as caught:
        handle.use(lambda at: at.execute("SELECT 1"))
    assert "not-this-one" not in str(caught.value)
    handle.close()


class Defective(FunctionTable):
    """Fails once, with what no runner may raise, and only when the test wants."""

    def __init__(self) -> None:
        super().__init__({"late": echo})
        self.began = asyncio.Event()
        self.go_on = asyncio.Event()

    async def forget(self, skill_id: str) -> None:
        await super().forget(skill_id)
        if not self.began.is_set():
            self.began.set()
            await self.go_on.wait()
            raise ZeroDivisionError


async def test_a_reload_that_is_requested_while_another_fails_is_done_afterwards(
    address: PostgresUrl, tmp_path: Path
) -> None:
    table = Defective()
    async with opened(tmp_path, table, host_database=address.url) as parts:
        following = asyncio.create_task(follow_changes(parts))
        manifest(tmp_path, "late", "description: second\n")
        while not table.began.is_set():
            await parts.database.write(lambda at: record_change(at, CHANGE_SKILLS))
            await asyncio.sleep(0.02)
        manifest(tmp_path, "late", "description: third\n")
        await parts.database.write(lambda at: record_change(at, CHANGE_SKILLS))
        table.go_on.set()
        with pytest.raises(ZeroDivisionError):
            await following

        # As the host does after an unexpected error.
        following = asyncio.create_task(follow_changes(parts))
        try:
            await shown(parts, "third")
        finally:
            following.cancel()
            await asyncio.wait((following,))
