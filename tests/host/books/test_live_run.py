"""One run in the process that does it: however it ends, the end is written."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from openskills.errors import InvalidArgument, RunCancelled, RunInterrupted
from openskills.host.books import run_rows
from openskills.host.books.database import Database
from openskills.host.books.live_run import LiveRun
from openskills.host.books.run_output import RunOutput
from openskills.host.books.run_states import Run, RunState
from openskills.host.result import InvokeResult
from openskills.host.runner import Emitted, Listener
from tests.host.results import refused, succeeded

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
        run, _, events = await self.store.read(lambda at: run_rows.events_after(at, RUN.id, 0, 1_000))
        return run, [event.kind for event in events]

    async def until(self, kind: str) -> None:
        async with asyncio.timeout(30):
            while kind not in (await self.written())[1]:
                await asyncio.sleep(0.005)


def doing(test: Callable[[Doing], Awaitable[None]], path: Path | None = None) -> None:
    async def body() -> None:
        store = Database(path, patience=1)
        await store.write(lambda at: run_rows.put(at, RUN, 1_000.0))
        try:
            await test(Doing(store))
        finally:
            await store.close()

    asyncio.run(body())


async def for_ever(listener: Listener) -> InvokeResult:
    listener(Emitted("start", {}))
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
def test_the_result_says_the_state(result: InvokeResult, state: RunState) -> None:
    async def make(listener: Listener) -> InvokeResult:
        listener(Emitted("stdout", {"text": "x"}))
        return result

    async def body(one: Doing) -> None:
        await one.live.go(make)
        run, kinds = await one.written()
        assert (run.state, run.status, kinds) == (state, result.status, ["stdout", "result"])
        assert one.told >= 1

    doing(body)


def test_what_is_shown_is_written_while_the_run_goes_on() -> None:
    async def body(one: Doing) -> None:
        task = asyncio.create_task(one.live.go(for_ever))
        await one.until("start")
        assert (await one.written())[0].state is RunState.RUNNING
        task.cancel()
        await task

    doing(body)


def test_a_run_that_is_cancelled_says_so_and_its_skill_has_ended() -> None:
    ended: list[str] = []

    async def make(listener: Listener) -> InvokeResult:
        try:
            return await for_ever(listener)
        finally:
            ended.append("skill")

    async def body(one: Doing) -> None:
        task = asyncio.create_task(one.live.go(make))
        await one.until("start")
        one.live.cancel()
        one.live.cancel()
        await task
        run, kinds = await one.written()
        assert (run.state, run.status, kinds, ended) == (RunState.CANCELLED, 499, ["start", "result"], ["skill"])

    doing(body)


def test_a_run_that_is_cancelled_before_it_begins_never_begins() -> None:
    async def body(one: Doing) -> None:
        one.live.cancel()
        await one.live.go(for_ever)
        run, kinds = await one.written()
        assert (run.state, kinds) == (RunState.CANCELLED, ["result"])

    doing(body)


def test_a_skill_that_is_done_in_spite_of_the_cancellation_has_its_result() -> None:
    async def make(listener: Listener) -> InvokeResult:
        try:
            await for_ever(listener)
        except asyncio.CancelledError:
            return succeeded()
        raise AssertionError

    async def body(one: Doing) -> None:
        task = asyncio.create_task(one.live.go(make))
        await one.until("start")
        one.live.cancel()
        await task
        assert (await one.written())[0].state is RunState.SUCCEEDED

    doing(body)


def test_when_the_host_stops_the_run_is_interrupted() -> None:
    async def body(one: Doing) -> None:
        task = asyncio.create_task(one.live.go(for_ever))
        await one.until("start")
        task.cancel()
        await task
        run, _ = await one.written()
        assert (run.state, run.status) == (RunState.INTERRUPTED, 503)

    doing(body)


@pytest.mark.parametrize("begun", [True, False])
def test_a_run_that_is_stopped_is_interrupted_whether_or_not_it_has_begun(begun: bool) -> None:
    async def body(one: Doing) -> None:
        task = asyncio.create_task(one.live.go(for_ever))
        if begun:
            await one.until("start")
        one.live.stop()
        one.live.stop()
        await task
        run, kinds = await one.written()
        assert (run.state, run.status, kinds[-1]) == (RunState.INTERRUPTED, 503, "result")

    doing(body)


def test_an_error_of_ours_is_the_result() -> None:
    async def make(listener: Listener) -> InvokeResult:
        raise InvalidArgument("text", "is missing")

    async def body(one: Doing) -> None:
        await one.live.go(make)
        run, _ = await one.written()
        assert (run.state, run.status) == (RunState.FAILED, 400)

    doing(body)


def test_a_fault_of_the_host_is_written_too_and_not_hidden() -> None:
    async def make(listener: Listener) -> InvokeResult:
        raise ZeroDivisionError

    async def body(one: Doing) -> None:
        with pytest.raises(ZeroDivisionError):
            await one.live.go(make)
        run, _ = await one.written()
        assert (run.state, run.status) == (RunState.FAILED, 500)

    doing(body)


def test_what_comes_after_the_end_is_not_shown() -> None:
    listeners: list[Listener] = []

    async def make(listener: Listener) -> InvokeResult:
        listeners.append(listener)
        return succeeded()

    async def body(one: Doing) -> None:
        await one.live.go(make)
        listeners[0](Emitted("stdout", {"text": "late"}))
        await asyncio.sleep(0)
        assert (await one.written())[1] == ["result"]
        assert one.output.take() == []

    doing(body)


def test_a_disk_that_is_away_for_a_while_delays_the_end_and_loses_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "host.db"

    async def make(listener: Listener) -> InvokeResult:
        listener(Emitted("stdout", {"text": "x"}))
        return succeeded()

    async def body(one: Doing) -> None:
        # A new database has no such run; a directory is none at all.
        for file in tmp_path.glob("host.db*"):
            file.rename(tmp_path / f"away-{file.name}")
        path.mkdir()
        with caplog.at_level(logging.WARNING, "openskills.host"):
            task = asyncio.create_task(one.live.go(make))
            async with asyncio.timeout(30):
                while not any("the end of the run" in record.getMessage() for record in caplog.records):
                    await asyncio.sleep(0.005)
        path.rmdir()
        for file in tmp_path.glob("away-*"):
            file.rename(tmp_path / file.name.removeprefix("away-"))
        await task
        run, kinds = await one.written()
        assert (run.state, kinds) == (RunState.SUCCEEDED, ["stdout", "result"])

    doing(body, path)
