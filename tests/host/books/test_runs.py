"""Asynchronous runs, looked at from the worker that does them and from others."""

import asyncio
import json
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from openskills.errors import TooManyRequests, UnknownRun
from openskills.host.books.database import Database
from openskills.host.books.run_states import Run, RunEvent, RunState
from openskills.host.books.runs import RunLimits, Runs
from openskills.host.result import InvokeResult
from openskills.host.runner import Emitted, Listener
from tests.host.results import succeeded

QUICK = RunLimits(look=0.02, beat=0.02, dead=60.0)


class Skill:
    """A skill that the test leads by the hand."""

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
        self.listener(Emitted("stdout", {"text": text}))


@asynccontextmanager
async def worker(path: Path | None, limits: RunLimits = QUICK) -> AsyncGenerator[Runs]:
    store = Database(path, patience=30)
    runs = Runs(store, limits)
    try:
        yield runs
    finally:
        await runs.close()
        await store.close()


def with_worker(test: Callable[[Runs], Awaitable[None]], path: Path | None = None, limits: RunLimits = QUICK) -> None:
    async def body() -> None:
        async with asyncio.timeout(60), worker(path, limits) as runs:
            await test(runs)

    asyncio.run(body())


async def started(runs: Runs, skill: Callable[[Listener], Awaitable[InvokeResult]], who: str = "ci") -> Run:
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


def test_a_run_goes_from_queued_to_running_to_its_result() -> None:
    async def body(runs: Runs) -> None:
        skill = Skill()
        run = await started(runs, skill)
        assert (await runs.get(run.id)).state is RunState.QUEUED
        await skill.show("hello")
        while (await runs.get(run.id)).state is not RunState.RUNNING:
            await asyncio.sleep(0.005)
        assert runs.live == 1
        skill.go_on.set()
        done = await until_ended(runs, run.id)
        assert (done.state, done.status) == (RunState.SUCCEEDED, 200)
        assert json.loads(done.result or b"")["data"] == {"echoed": "hi"}

    with_worker(body)


def test_who_follows_sees_everything_from_where_it_left_off() -> None:
    async def body(runs: Runs) -> None:
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

    with_worker(body)


def test_who_stops_following_leaves_nothing_behind() -> None:
    async def body(runs: Runs) -> None:
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

    with_worker(body)


def test_a_run_can_be_followed_and_cancelled_from_another_worker(tmp_path: Path) -> None:
    async def body(runs: Runs) -> None:
        async with worker(tmp_path / "host.db") as other:
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

    with_worker(body, tmp_path / "host.db")


def test_cancelling_in_the_same_worker_waits_for_no_look_at_the_database() -> None:
    async def body(runs: Runs) -> None:
        run = await started(runs, Skill())
        await runs.cancel(run.id)
        assert (await until_ended(runs, run.id)).state is RunState.CANCELLED

    with_worker(body, limits=RunLimits(look=3600.0))


def test_a_run_of_somebody_else_is_unknown() -> None:
    async def body(runs: Runs) -> None:
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

    with_worker(body)


def test_too_many_runs_at_a_time_are_refused() -> None:
    async def body(runs: Runs) -> None:
        skill = Skill()
        first = await started(runs, skill)
        await started(runs, skill)
        with pytest.raises(TooManyRequests) as caught:
            await started(runs, skill)
        assert caught.value.details == {"limit": "runs", "retry_after": 1.0}
        skill.go_on.set()
        await until_ended(runs, first.id)

    with_worker(body, limits=RunLimits(live=2, look=0.02))


def test_a_run_may_have_an_id_that_was_chosen_before() -> None:
    async def body(runs: Runs) -> None:
        skill = Skill()
        run = await runs.start(skill, skill_id="echo", trace_id="t", principal="ci", run_id="run_mine")
        assert (run.id, (await runs.get("run_mine")).id) == ("run_mine", "run_mine")

    with_worker(body)


def test_output_without_end_is_cut_and_said() -> None:
    async def shouting(listener: Listener) -> InvokeResult:
        for _ in range(100):
            listener(Emitted("stdout", {"text": "x" * 1_000}))
        return succeeded()

    async def body(runs: Runs) -> None:
        run = await started(runs, shouting)
        events = await all_events(runs, run.id)
        assert [event.kind for event in events] == [*["stdout"] * 9, "cut", "result"]
        assert (await runs.get(run.id)).cut > 90_000

    with_worker(body, limits=RunLimits(output_bytes=10_000))


def test_very_many_events_are_followed_to_the_last() -> None:
    async def shouting(listener: Listener) -> InvokeResult:
        for number in range(1_000):
            listener(Emitted("stdout", {"number": number}))
        return succeeded()

    async def body(runs: Runs) -> None:
        run = await started(runs, shouting)
        assert [event.id for event in await all_events(runs, run.id)] == list(range(1, 1_002))

    with_worker(body)


def test_at_the_end_of_the_host_runs_may_finish() -> None:
    async def body(runs: Runs) -> None:
        skill = Skill()
        run = await started(runs, skill)
        await skill.begun.wait()
        closing = asyncio.create_task(runs.close(grace=60.0))
        await asyncio.sleep(0)
        skill.go_on.set()
        await closing
        assert (runs.live, (await runs.get(run.id)).state) == (0, RunState.SUCCEEDED)

    with_worker(body)


def test_runs_that_do_not_finish_before_the_end_of_the_host_are_interrupted() -> None:
    async def body(runs: Runs) -> None:
        skill = Skill()
        run = await started(runs, skill)
        await skill.begun.wait()
        await runs.close(grace=0.01)
        assert (runs.live, (await runs.get(run.id)).state) == (0, RunState.INTERRUPTED)

    with_worker(body)


def test_a_run_that_is_done_when_the_host_ends_keeps_its_result_although_the_disk_is_slow(tmp_path: Path) -> None:
    async def body() -> None:
        store = Database(tmp_path / "host.db", patience=30)
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
        assert (runs.live, (await runs.get(run.id)).state) == (0, RunState.SUCCEEDED)
        await store.close()

    asyncio.run(body())


async def turns_of_the_loop() -> None:
    """Everything that waits for nothing but its turn has had it."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_a_run_that_has_only_been_written_down_when_the_host_ends_is_interrupted() -> None:
    async def body(runs: Runs) -> None:
        run = await started(runs, Skill())
        await runs.close()
        assert (runs.live, (await runs.get(run.id)).state) == (0, RunState.INTERRUPTED)

    with_worker(body)


def test_a_fault_of_the_host_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(listener: Listener) -> InvokeResult:
        raise ZeroDivisionError

    async def body(runs: Runs) -> None:
        run = await started(runs, broken)
        assert (await until_ended(runs, run.id)).state is RunState.FAILED
        while runs.live:
            await asyncio.sleep(0.005)

    with_worker(body)
    assert any("through a fault of the host" in record.getMessage() for record in caplog.records)


def test_what_ended_long_ago_is_forgotten(tmp_path: Path) -> None:
    async def body(runs: Runs) -> None:
        skill = Skill()
        skill.go_on.set()
        old = await started(runs, skill)
        await until_ended(runs, old.id)
        async with worker(tmp_path / "host.db", RunLimits(keep=0.0, look=0.01, beat=0.01)) as forgetful:
            await started(forgetful, Skill())
            with pytest.raises(UnknownRun):
                await ask_until_unknown(runs, old.id)

    with_worker(body, tmp_path / "host.db")


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


def test_a_run_of_another_process_is_followed_live_and_cancelled(tmp_path: Path) -> None:
    async def body(runs: Runs) -> None:
        async with other_process(tmp_path / "host.db") as (run_id, child):
            seen: list[RunEvent] = []
            async for event in runs.events(run_id):
                seen.append(event)
                if len(seen) == 5:
                    await runs.cancel(run_id)
            assert [json.loads(event.data)["number"] for event in seen[:-1]] == list(range(len(seen) - 1))
            assert seen[-1].kind == "result"
            assert (await runs.get(run_id)).state is RunState.CANCELLED
            assert await asyncio.to_thread(child.wait, 60) == 0

    with_worker(body, tmp_path / "host.db")


def test_runs_of_a_process_that_was_killed_become_interrupted(tmp_path: Path) -> None:
    async def body(runs: Runs) -> None:
        async with other_process(tmp_path / "host.db") as (run_id, child):
            following = runs.events(run_id)
            assert (await anext(following)).id == 1
            child.send_signal(signal.SIGKILL)
            await asyncio.to_thread(child.wait, 60)
            *_, last = [event async for event in following]
            assert json.loads(last.data)["error"]["details"]["reason"] == "INTERRUPTED"
            run = await runs.get(run_id)
            assert (run.state, run.status) == (RunState.INTERRUPTED, 503)

    with_worker(body, tmp_path / "host.db", RunLimits(dead=1.0))
