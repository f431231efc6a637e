"""Asynchronous runs, looked at from the worker that does them and from others.

One run in the process that does it: however it ends, the end is written.

What a run shows, bounded.

Runs and their events as rows.

What is known of a run.
"""

import asyncio
import json
import logging
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from openskills.errors import InvalidArgument, RunCancelled, RunInterrupted, TooManyRequests, UnknownRun
from openskills.host import runs
from openskills.host.database import HOST_DATABASE, Database
from openskills.host.model import InvokeResult, Listener, SkillOutputEvent
from openskills.host.runs import (
    AsyncRunLimits,
    LiveRun,
    PendingEvent,
    Run,
    RunEvent,
    RunFunction,
    RunOutput,
    Runs,
    RunState,
    build_error_result,
    complete_run,
    encode_data,
)
from openskills.host.workers import WorkerLock
from openskills.sql import SqlConnection, open_sqlite, select_rows
from tests.host.results import refused, succeeded

QUICK = AsyncRunLimits(poll_seconds=0.02)


class Skill:
    """A skill that the test controls."""

    def __init__(self) -> None:
        self.listener: Listener | None = None
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()

    async def __call__(self, listener: Listener) -> InvokeResult:
        self.listener = listener
        self.begun.set()
        await self.go_on.wait()
        return succeeded()

    async def show(self, text: str) -> None:
        await self.begun.wait()
        assert self.listener is not None
        self.listener(SkillOutputEvent("stdout", {"text": text}))


@asynccontextmanager
async def worker(path: Path | None = None, limits: AsyncRunLimits = QUICK) -> AsyncGenerator[Runs]:
    store = Database(path, timeout=30)
    runs = Runs(store, limits)
    try:
        async with asyncio.timeout(60):
            yield runs
    finally:
        await runs.close()
        await store.close()


async def started(runs: Runs, skill: RunFunction, who: str = "ci") -> Run:
    return await runs.start(skill, skill_id="echo", trace_id="t-1", principal=who)


async def until_ended(runs: Runs, run_id: str) -> Run:
    while True:
        run = await runs.get(run_id)
        if run.ended is not None:
            return run
        await asyncio.sleep(0.005)


async def ask_until_unknown(runs: Runs, run_id: str) -> None:
    while await runs.get(run_id):
        await asyncio.sleep(0.005)


async def all_events(runs: Runs, run_id: str, after: int = 0) -> list[RunEvent]:
    return [event async for event in runs.events(run_id, after)]


async def test_a_run_goes_from_queued_to_running_to_its_result() -> None:
    async with worker() as runs:
        skill = Skill()
        run = await started(runs, skill)
        assert (await runs.get(run.id)).state is RunState.QUEUED
        await skill.show("hello")
        while (await runs.get(run.id)).state is not RunState.RUNNING:
            await asyncio.sleep(0.005)
        assert runs.live_count == 1
        skill.go_on.set()
        done = await until_ended(runs, run.id)
        assert (done.state, done.status) == (RunState.SUCCEEDED, 200)
        assert json.loads(done.result or b"")["data"] == {"echoed": "hi"}


async def test_who_follows_sees_everything_from_where_it_left_off() -> None:
    async with worker() as runs:
        skill = Skill()
        run = await started(runs, skill)
        follower = asyncio.create_task(all_events(runs, run.id))
        for number in range(5):
            await skill.show(str(number))
            await asyncio.sleep(0.01)
        skill.go_on.set()
        events = await follower
        assert [event.id for event in events] == [1, 2, 3, 4, 5, 6]
        assert [json.loads(event.data)["text"] for event in events[:-1]] == ["0", "1", "2", "3", "4"]
        assert events[-1].kind == "result"
        assert await all_events(runs, run.id) == events
        assert await all_events(runs, run.id, after=4) == events[4:]
        assert await all_events(runs, run.id, after=99) == []


async def test_who_stops_following_leaves_nothing_behind() -> None:
    async with worker() as runs:
        skill = Skill()
        run = await started(runs, skill)
        follower = asyncio.create_task(all_events(runs, run.id))
        followers = runs._followers  # pyright: ignore[reportPrivateUsage]
        while not followers:
            await asyncio.sleep(0)
        follower.cancel()
        await asyncio.wait([follower])
        assert followers == {}
        skill.go_on.set()
        assert (await until_ended(runs, run.id)).state is RunState.SUCCEEDED


async def test_a_run_can_be_followed_and_cancelled_from_another_worker(tmp_path: Path) -> None:
    async with worker(tmp_path / "host.db") as runs, worker(tmp_path / "host.db") as other:
        skill = Skill()
        run = await started(runs, skill)
        follower = asyncio.create_task(all_events(other, run.id))
        await skill.show("hello")
        cancelled = await other.cancel(run.id)
        assert cancelled.cancel
        events = await follower
        assert [event.kind for event in events] == ["stdout", "result"]
        assert (await other.get(run.id)).state is RunState.CANCELLED
        assert json.loads(events[-1].data)["error"]["details"]["reason"] == "CANCELLED"
        assert (await other.cancel(run.id)).state is RunState.CANCELLED


async def test_cancelling_in_the_same_worker_waits_for_no_look_at_the_database() -> None:
    async with worker(limits=AsyncRunLimits(poll_seconds=3600.0)) as runs:
        run = await started(runs, Skill())
        await runs.cancel(run.id)
        assert (await until_ended(runs, run.id)).state is RunState.CANCELLED


async def test_a_run_of_somebody_else_is_unknown() -> None:
    async with worker() as runs:
        run = await started(runs, Skill(), who="ci")
        assert await runs.get(run.id, principal="ci") == run
        for attempt in (
            runs.get(run.id, principal="eve"),
            runs.cancel(run.id, principal="eve"),
            anext(runs.events(run.id, principal="eve")),
            runs.get("run_0"),
            runs.get("\ud800'--".encode("utf-8", "replace").decode()),
        ):
            with pytest.raises(UnknownRun):
                await attempt
        assert not (await runs.get(run.id)).cancel


async def test_too_many_runs_at_a_time_are_refused() -> None:
    async with worker(limits=AsyncRunLimits(max_live=2, poll_seconds=0.02)) as runs:
        skill = Skill()
        first = await started(runs, skill)
        await started(runs, skill)
        with pytest.raises(TooManyRequests) as caught:
            await started(runs, skill)
        assert caught.value.details == {"limit": "runs", "retry_after": 1.0}
        skill.go_on.set()
        await until_ended(runs, first.id)


async def test_a_run_may_have_an_id_that_was_chosen_before() -> None:
    async with worker() as runs:
        skill = Skill()
        run = await runs.start(skill, skill_id="echo", trace_id="t", principal="ci", run_id="run_mine")
        assert (run.id, (await runs.get("run_mine")).id) == ("run_mine", "run_mine")


async def test_output_without_end_is_cut_and_said() -> None:
    async def shouting(listener: Listener) -> InvokeResult:
        for _ in range(100):
            listener(SkillOutputEvent("stdout", {"text": "x" * 1_000}))
        return succeeded()

    async with worker(limits=AsyncRunLimits(output_bytes=10_000)) as runs:
        run = await started(runs, shouting)
        events = await all_events(runs, run.id)
        assert [event.kind for event in events] == [*["stdout"] * 9, "cut", "result"]
        assert (await runs.get(run.id)).cut > 90_000


async def test_very_many_events_are_followed_to_the_last() -> None:
    async def shouting(listener: Listener) -> InvokeResult:
        for number in range(1_000):
            listener(SkillOutputEvent("stdout", {"number": number}))
        return succeeded()

    async with worker() as runs:
        run = await started(runs, shouting)
        assert [event.id for event in await all_events(runs, run.id)] == list(range(1, 1_002))


async def test_at_the_end_of_the_host_runs_may_finish() -> None:
    async with worker() as runs:
        skill = Skill()
        run = await started(runs, skill)
        await skill.begun.wait()
        closing = asyncio.create_task(runs.close(grace=60.0))
        await asyncio.sleep(0)
        skill.go_on.set()
        await closing
        assert (runs.live_count, (await runs.get(run.id)).state) == (0, RunState.SUCCEEDED)


async def test_runs_that_do_not_finish_before_the_end_of_the_host_are_interrupted() -> None:
    async with worker() as runs:
        skill = Skill()
        run = await started(runs, skill)
        await skill.begun.wait()
        await runs.close(grace=0.01)
        assert (runs.live_count, (await runs.get(run.id)).state) == (0, RunState.INTERRUPTED)


async def test_a_run_that_is_done_when_the_host_ends_keeps_its_result_although_the_disk_is_slow(tmp_path: Path) -> None:
    store = Database(tmp_path / "host.db", timeout=30)
    runs, skill, busy, free = Runs(store, QUICK), Skill(), threading.Event(), threading.Event()
    run = await started(runs, skill)
    await skill.begun.wait()

    def slow(at: object) -> None:
        busy.set()
        free.wait(60)

    other = asyncio.create_task(store.write(slow))
    await asyncio.to_thread(busy.wait, 60)
    skill.go_on.set()
    await turns_of_the_loop()
    closing = asyncio.create_task(runs.close())
    await turns_of_the_loop()
    free.set()
    await asyncio.gather(closing, other)
    assert (runs.live_count, (await runs.get(run.id)).state) == (0, RunState.SUCCEEDED)
    await store.close()


async def turns_of_the_loop() -> None:
    """Everything that waits for nothing but its turn has had it."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_run_that_has_only_been_written_down_when_the_host_ends_is_interrupted() -> None:
    async with worker() as runs:
        run = await started(runs, Skill())
        await runs.close()
        assert (runs.live_count, (await runs.get(run.id)).state) == (0, RunState.INTERRUPTED)


async def test_a_fault_of_the_host_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(listener: Listener) -> InvokeResult:
        raise ZeroDivisionError

    async with worker() as runs:
        run = await started(runs, broken)
        assert (await until_ended(runs, run.id)).state is RunState.FAILED
        while runs.live_count:
            await asyncio.sleep(0.005)
    assert any("because of a bug in the host" in record.getMessage() for record in caplog.records)


async def test_what_ended_long_ago_is_forgotten(tmp_path: Path) -> None:
    async with worker(tmp_path / "host.db") as runs:
        skill = Skill()
        skill.go_on.set()
        old = await started(runs, skill)
        await until_ended(runs, old.id)
        async with worker(tmp_path / "host.db", AsyncRunLimits(keep_seconds=0.0, poll_seconds=0.01)) as forgetful:
            await started(forgetful, Skill())
            with pytest.raises(UnknownRun):
                await ask_until_unknown(runs, old.id)


@asynccontextmanager
async def other_process(path: Path) -> AsyncGenerator[tuple[str, subprocess.Popen[bytes]]]:
    command = [sys.executable, "-m", "tests.host.runs_process", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            line = await asyncio.to_thread(child.stdout.readline)
            yield line.decode().strip(), child
        finally:
            child.kill()


async def test_a_run_of_another_process_is_followed_live_and_cancelled(tmp_path: Path) -> None:
    async with worker(tmp_path / "host.db") as runs, other_process(tmp_path / "host.db") as (run_id, child):
        seen: list[RunEvent] = []
        async for event in runs.events(run_id):
            seen.append(event)
            if len(seen) == 5:
                await runs.cancel(run_id)
        assert [json.loads(event.data)["number"] for event in seen[:-1]] == list(range(len(seen) - 1))
        assert seen[-1].kind == "result"
        assert (await runs.get(run_id)).state is RunState.CANCELLED
        assert await asyncio.to_thread(child.wait, 60) == 0


async def test_runs_of_a_process_that_was_killed_become_interrupted(tmp_path: Path) -> None:
    async with worker(tmp_path / "host.db") as runs, other_process(tmp_path / "host.db") as (run_id, child):
        following = runs.events(run_id)
        assert (await anext(following)).id == 1
        child.send_signal(signal.SIGKILL)
        await asyncio.to_thread(child.wait, 60)
        *_, last = [event async for event in following]
        assert json.loads(last.data)["error"]["details"]["reason"] == "INTERRUPTED"
        run = await runs.get(run_id)
        assert (run.state, run.status) == (RunState.INTERRUPTED, 503)


RUN = Run("run_1", "ci", "echo", "t-1", "0.1.0", RunState.QUEUED, "me", 1_000.0)


class Doing:
    """A run, and where it is written."""

    def __init__(self, store: Database) -> None:
        self.store = store
        self.told = 0
        self.output = RunOutput()
        self.live = LiveRun(RUN, store, self.output, self._tell)

    def _tell(self) -> None:
        self.told += 1

    async def written(self) -> tuple[Run, list[str]]:
        run, events = await self.store.read(lambda at: runs._select_events(at, RUN.id, 0, 1_000))
        return run, [event.kind for event in events]

    async def until(self, kind: str) -> None:
        async with asyncio.timeout(30):
            while kind not in (await self.written())[1]:
                await asyncio.sleep(0.005)


@asynccontextmanager
async def live_run(path: Path | None = None) -> AsyncGenerator[Doing]:
    store = Database(path, timeout=1)
    await store.write(lambda at: runs._insert_run(at, RUN))
    try:
        yield Doing(store)
    finally:
        await store.close()


async def for_ever(listener: Listener) -> InvokeResult:
    listener(SkillOutputEvent("start", {}))
    await asyncio.Event().wait()
    raise AssertionError


@pytest.mark.parametrize(
    ("result", "state"),
    [
        (succeeded(), RunState.SUCCEEDED),
        (refused(), RunState.FAILED),
        (refused(error=RunInterrupted("the host stops")), RunState.INTERRUPTED),
        (refused(error=RunCancelled("enough")), RunState.CANCELLED),
    ],
)
async def test_the_result_says_the_state(result: InvokeResult, state: RunState) -> None:
    async def make(listener: Listener) -> InvokeResult:
        listener(SkillOutputEvent("stdout", {"text": "x"}))
        return result

    async with live_run() as one:
        await one.live.run(make)
        run, kinds = await one.written()
        assert (run.state, run.status, kinds) == (state, result.status, ["stdout", "result"])
        assert one.told >= 1


async def test_what_is_shown_is_written_while_the_run_goes_on() -> None:
    async with live_run() as one:
        task = asyncio.create_task(one.live.run(for_ever))
        await one.until("start")
        assert (await one.written())[0].state is RunState.RUNNING
        task.cancel()
        await task


async def test_a_run_that_is_cancelled_says_so_and_its_skill_has_ended() -> None:
    ended: list[str] = []

    async def make(listener: Listener) -> InvokeResult:
        try:
            return await for_ever(listener)
        finally:
            ended.append("skill")

    async with live_run() as one:
        task = asyncio.create_task(one.live.run(make))
        await one.until("start")
        one.live.cancel()
        one.live.cancel()
        await task
        run, kinds = await one.written()
        assert (run.state, run.status, kinds, ended) == (RunState.CANCELLED, 499, ["start", "result"], ["skill"])


async def test_a_run_that_is_cancelled_before_it_begins_never_begins() -> None:
    async with live_run() as one:
        one.live.cancel()
        await one.live.run(for_ever)
        run, kinds = await one.written()
        assert (run.state, kinds) == (RunState.CANCELLED, ["result"])


async def test_a_skill_that_is_done_in_spite_of_the_cancellation_has_its_result() -> None:
    async def make(listener: Listener) -> InvokeResult:
        try:
            await for_ever(listener)
        except asyncio.CancelledError:
            return succeeded()
        raise AssertionError

    async with live_run() as one:
        task = asyncio.create_task(one.live.run(make))
        await one.until("start")
        one.live.cancel()
        await task
        assert (await one.written())[0].state is RunState.SUCCEEDED


async def test_when_the_host_stops_the_run_is_interrupted() -> None:
    async with live_run() as one:
        task = asyncio.create_task(one.live.run(for_ever))
        await one.until("start")
        task.cancel()
        await task
        run, _ = await one.written()
        assert (run.state, run.status) == (RunState.INTERRUPTED, 503)


@pytest.mark.parametrize("begun", [True, False])
async def test_a_run_that_is_stopped_is_interrupted_whether_or_not_it_has_begun(begun: bool) -> None:
    async with live_run() as one:
        task = asyncio.create_task(one.live.run(for_ever))
        if begun:
            await one.until("start")
        one.live.stop()
        one.live.stop()
        await task
        run, kinds = await one.written()
        assert (run.state, run.status, kinds[-1]) == (RunState.INTERRUPTED, 503, "result")


async def test_an_error_of_ours_is_the_result() -> None:
    async def make(listener: Listener) -> InvokeResult:
        raise InvalidArgument("text", "is missing")

    async with live_run() as one:
        await one.live.run(make)
        run, _ = await one.written()
        assert (run.state, run.status) == (RunState.FAILED, 400)


async def test_a_fault_of_the_host_is_written_too_and_not_hidden() -> None:
    async def make(listener: Listener) -> InvokeResult:
        raise ZeroDivisionError

    async with live_run() as one:
        with pytest.raises(ZeroDivisionError):
            await one.live.run(make)
        run, _ = await one.written()
        assert (run.state, run.status) == (RunState.FAILED, 500)


async def test_what_comes_after_the_end_is_not_shown() -> None:
    listeners: list[Listener] = []

    async def make(listener: Listener) -> InvokeResult:
        listeners.append(listener)
        return succeeded()

    async with live_run() as one:
        await one.live.run(make)
        listeners[0](SkillOutputEvent("stdout", {"text": "late"}))
        await asyncio.sleep(0)
        assert (await one.written())[1] == ["result"]
        assert one.output.take() == []


async def test_a_disk_that_is_away_for_a_while_delays_the_end_and_loses_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "host.db"

    async def make(listener: Listener) -> InvokeResult:
        listener(SkillOutputEvent("stdout", {"text": "x"}))
        return succeeded()

    async with live_run(path) as one:
        # A new database has no such run; a directory is none at all.
        for file in tmp_path.glob("host.db*"):
            file.rename(tmp_path / f"away-{file.name}")
        path.mkdir()
        with caplog.at_level(logging.WARNING, "openskills.host"):
            task = asyncio.create_task(one.live.run(make))
            async with asyncio.timeout(30):
                while not any("cannot write the end of run" in record.getMessage() for record in caplog.records):
                    await asyncio.sleep(0.005)
        path.rmdir()
        for file in tmp_path.glob("away-*"):
            file.rename(tmp_path / file.name.removeprefix("away-"))
        await task
        run, kinds = await one.written()
        assert (run.state, kinds) == (RunState.SUCCEEDED, ["stdout", "result"])


def shown(text: str) -> SkillOutputEvent:
    return SkillOutputEvent("stdout", {"text": text})


def test_what_is_shown_waits_in_its_order_until_it_is_taken() -> None:
    output = RunOutput()
    output.add(shown("one"))
    output.add(SkillOutputEvent("progress", {"done": 1}))
    assert [(one.kind, json.loads(one.data)) for one in output.take()] == [
        ("stdout", {"text": "one"}),
        ("progress", {"done": 1}),
    ]
    assert output.take() == []
    assert output.cut == 0


def test_what_could_not_be_written_comes_before_what_came_later() -> None:
    output = RunOutput()
    output.add(shown("one"))
    first = output.take()
    output.add(shown("two"))
    output.put_back(first)
    assert [json.loads(one.data)["text"] for one in output.take()] == ["one", "two"]


def test_too_many_bytes_are_cut_and_that_is_said_once() -> None:
    output = RunOutput(max_bytes=100)
    for _ in range(10):
        output.add(shown("x" * 30))
    kinds = [one.kind for one in output.take()]
    assert kinds == ["stdout", "stdout", "cut"]
    assert output.cut == 8 * len(encode_data({"text": "x" * 30}))


def test_too_many_events_are_cut_too() -> None:
    output = RunOutput(max_events=3)
    for number in range(5):
        output.add(shown(str(number)))
    *kept, cut = output.take()
    assert [json.loads(one.data)["text"] for one in kept] == ["0", "1", "2"]
    assert cut.kind == "cut"
    assert json.loads(cut.data)["kept_events"] == 3


def test_whatever_a_skill_shows_becomes_json() -> None:
    for strange in ({"text": "half \ud800"}, {"number": 10**40}, {"what": object}, {"nan": float("nan")}):
        json.loads(encode_data(strange))


RUN_ROWS_RUN = Run("run_1", "ci", "echo", "t-1", "0.1.0", RunState.QUEUED, "worker-a", 1_000.0)


@pytest.fixture
def at() -> Iterator[SqlConnection]:
    """A database with one run."""
    with closing(open_sqlite(None, HOST_DATABASE, timeout=1)) as connection:
        runs._insert_run(connection, RUN_ROWS_RUN)
        yield connection


def found(at: SqlConnection, run_id: str = "run_1") -> Run:
    one = runs._select_run(at, run_id)
    assert one is not None
    return one


def test_a_run_comes_back_as_it_was(at: SqlConnection) -> None:
    assert runs._select_run(at, "run_1") == RUN_ROWS_RUN
    assert runs._select_run(at, "run_2") is None


def test_the_result_is_there_when_a_run_ends_between_two_reads(tmp_path: Path) -> None:
    path = tmp_path / "host.db"
    with (
        closing(open_sqlite(path, HOST_DATABASE, timeout=1)) as at,
        closing(open_sqlite(path, HOST_DATABASE, timeout=1)) as other,
    ):
        runs._insert_run(at, RUN_ROWS_RUN)
        ended = replace(RUN_ROWS_RUN, state=RunState.SUCCEEDED, ended=2_000.0, status=200, result=b"{}")

        def end(statement: str) -> None:
            if "FROM run_events" in statement:
                at.set_trace_callback(None)
                with other.transaction():
                    runs._record_end(other, ended, ())

        at.set_trace_callback(end)
        run, (event,) = runs._select_events(at, "run_1", 0, 10)
    assert (run.ended, event.kind, event.data) == (2_000.0, "result", b"{}")


def test_events_are_numbered_from_one_and_make_the_run_running(at: SqlConnection) -> None:
    runs._insert_events(at, "run_1", [PendingEvent("stdout", 1.0, b"1"), PendingEvent("stdout", 2.0, b"2")], 1_001.0)
    runs._insert_events(at, "run_1", [PendingEvent("stderr", 3.0, b"3")], 1_002.0)
    run, events = runs._select_events(at, "run_1", 0, 100)
    assert (run.state, run.started) == (RunState.RUNNING, 1_001.0)
    assert [(one.id, one.kind, one.data) for one in events] == [
        (1, "stdout", b"1"),
        (2, "stdout", b"2"),
        (3, "stderr", b"3"),
    ]
    assert [one.id for one in runs._select_events(at, "run_1", 1, 100)[1]] == [2, 3]
    assert [one.id for one in runs._select_events(at, "run_1", 0, 1)[1]] == [1]
    with pytest.raises(LookupError):
        runs._select_events(at, "run_2", 0, 1)


def test_the_last_event_is_the_result_which_is_stored_once(at: SqlConnection) -> None:
    done = complete_run(RUN_ROWS_RUN, RunState.SUCCEEDED, succeeded(), 1_003.0, cut=5)
    runs._record_end(at, done, [PendingEvent("stdout", 1.0, b"1")])
    assert found(at) == done
    *_, last = runs._select_events(at, "run_1", 0, 100)[1]
    assert (last.id, last.kind) == (2, "result")
    assert json.loads(last.data)["data"] == {"echoed": "hi"}
    assert select_rows(at, "SELECT sum(length(data)) FROM run_events WHERE kind = 'result'") == [(0,)]


def test_who_wants_to_cancel_is_heard_by_the_worker_of_the_run(at: SqlConnection) -> None:
    assert runs._select_own(at, "worker-a") == {"run_1": False}
    runs._record_cancel_request(at, "run_1")
    assert found(at).cancel
    assert runs._select_own(at, "worker-a") == {"run_1": True}
    assert runs._select_own(at, "worker-b") == {}
    runs._record_end(at, complete_run(RUN_ROWS_RUN, RunState.CANCELLED, succeeded(), 1_003.0), ())
    assert runs._select_own(at, "worker-a") == {}


def test_runs_of_a_worker_that_is_dead_become_interrupted(at: SqlConnection, tmp_path: Path) -> None:
    mine, other = WorkerLock(tmp_path / "host.db"), WorkerLock(tmp_path / "host.db")
    other.hold()
    for name, worker in (("run_2", mine), ("run_3", other)):
        runs._insert_run(at, replace(RUN_ROWS_RUN, id=name, worker=worker.id))
    assert runs._mark_interrupted(at, mine, 1_101.0) == 1
    assert {found(at, name).state for name in ("run_2", "run_3")} == {RunState.QUEUED}
    run, events = runs._select_events(at, "run_1", 0, 10)
    assert (run.state, run.status, run.ended) == (RunState.INTERRUPTED, 503, 1_101.0)
    assert json.loads(events[-1].data)["error"]["details"]["reason"] == "INTERRUPTED"
    assert runs._mark_interrupted(at, mine, 1_102.0) == 0
    other.close()
    assert runs._mark_interrupted(at, mine, 1_103.0) == 1


def test_should_the_worker_live_after_all_what_it_writes_changes_nothing(at: SqlConnection) -> None:
    runs._mark_interrupted(at, WorkerLock(None), 1_500.0)
    runs._insert_events(at, "run_1", [PendingEvent("stdout", 1.0, b"1")], 1_501.0)
    runs._record_end(at, complete_run(RUN_ROWS_RUN, RunState.SUCCEEDED, succeeded(), 1_502.0), ())
    assert (found(at).state, found(at).ended) == (RunState.INTERRUPTED, 1_500.0)
    assert [one.kind for one in runs._select_events(at, "run_1", 0, 10)[1]] == ["result"]


def test_what_ended_long_ago_is_removed_with_its_events(at: SqlConnection) -> None:
    runs._insert_run(at, replace(RUN_ROWS_RUN, id="run_2"))
    runs._record_end(at, complete_run(RUN_ROWS_RUN, RunState.SUCCEEDED, succeeded(), 1_003.0), ())
    assert runs._delete_old(at, before=1_003.0, max_kept=10)
    assert found(at)
    assert runs._delete_old(at, before=1_004.0, max_kept=10)
    assert runs._select_run(at, "run_1") is None
    assert select_rows(at, "SELECT count(*) FROM run_events") == [(0,)]
    assert found(at, "run_2").state is RunState.QUEUED


def test_of_very_many_runs_only_the_latest_are_kept(at: SqlConnection) -> None:
    for number in range(500):
        run = replace(RUN_ROWS_RUN, id=f"run_{number:03}-x")
        runs._insert_run(at, run)
        runs._record_end(at, complete_run(run, RunState.SUCCEEDED, succeeded(), 2_000.0 + number), ())
    # Some at a time, so that nobody waits long.
    assert [runs._delete_old(at, before=0.0, max_kept=100) for _ in range(4)] == [False, False, True, True]
    assert select_rows(at, "SELECT count(*), min(ended) FROM runs WHERE ended IS NOT NULL") == [(100, 2_400.0)]
    assert found(at).state is RunState.QUEUED


RUN_STATES_RUN = Run("run_1", "ci", "echo", "t-1", "0.1.0", RunState.QUEUED, "worker", 1_700_000_000.0)


def test_a_run_on_the_wire_has_its_state_and_times() -> None:
    assert json.loads(orjson.dumps(RUN_STATES_RUN.to_dict())) == {
        "id": "run_1",
        "state": "queued",
        "kind": "",
        "skill_id": "echo",
        "trace_id": "t-1",
        "version": "0.1.0",
        "created": "2023-11-14T22:13:20.000+00:00",
        "started": None,
        "ended": None,
        "cancel_requested": False,
        "cut_bytes": 0,
        "request": None,
        "result": None,
    }


def test_at_its_end_it_has_the_result() -> None:
    done = complete_run(RUN_STATES_RUN, RunState.SUCCEEDED, succeeded(), 1_700_000_005.0, cut=7)
    plain = json.loads(orjson.dumps(done.to_dict()))
    assert (plain["state"], plain["ended"], plain["cut_bytes"]) == ("succeeded", "2023-11-14T22:13:25.000+00:00", 7)
    assert plain["result"] == succeeded().to_dict()
    assert done.status == 200


def test_a_run_without_a_result_of_its_own_gets_one_that_says_why() -> None:
    result = build_error_result(RUN_STATES_RUN, RunCancelled("somebody wanted that"), 1_700_000_002.5)
    assert (result.status, result.skill_id, result.trace_id) == (499, "echo", "t-1")
    assert result.latency_ms == 2_500.0
    assert result.to_dict()["error"]["details"]["reason"] == "CANCELLED"
