"""Blocking work is awaited, and a cancellation never leaves a thread behind."""

import asyncio
import threading

import pytest

from openskills.artifacts.threads import to_the_end, unbroken
from openskills.sync import run


def test_the_result_and_the_error_come_back() -> None:
    def fail() -> None:
        raise LookupError("gone")

    assert run(to_the_end(lambda: threading.current_thread() is not threading.main_thread()))
    with pytest.raises(LookupError, match="gone"):
        run(to_the_end(fail))


@pytest.mark.parametrize("error", [None, OSError("too late")], ids=["ends well", "fails"])
def test_a_cancellation_waits_for_the_thread_however_often_it_is_asked(error: OSError | None) -> None:
    begun, may_end = threading.Event(), threading.Event()
    ended: list[bool] = []

    def work() -> None:
        begun.set()
        may_end.wait()
        ended.append(True)
        if error:
            raise error

    async def cancel() -> bool:
        task = asyncio.ensure_future(to_the_end(work))
        await asyncio.to_thread(begun.wait)
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        too_early = task.done()
        may_end.set()
        await asyncio.wait([task])
        assert task.cancelled()
        return too_early

    assert not run(cancel())
    assert ended == [True]


@pytest.mark.parametrize("error", [None, OSError("too late")], ids=["ends well", "fails"])
def test_a_result_that_nobody_gets_is_undone(error: OSError | None) -> None:
    begun, may_end = threading.Event(), threading.Event()
    undone: list[int] = []

    def work() -> int:
        begun.set()
        may_end.wait()
        if error:
            raise error
        return 7

    async def cancel() -> None:
        task = asyncio.ensure_future(to_the_end(work, undo=undone.append))
        await asyncio.to_thread(begun.wait)
        task.cancel()
        may_end.set()
        await asyncio.wait([task])
        assert task.cancelled()

    run(cancel())
    assert undone == ([] if error else [7])


def test_a_result_that_somebody_gets_is_not_undone() -> None:
    undone: list[int] = []
    assert run(to_the_end(lambda: 7, undo=undone.append)) == 7
    assert not undone


def test_work_that_must_not_be_broken_off_is_done_before_the_cancellation_is_raised() -> None:
    async def cancel() -> list[str]:
        asked, may_end, done = asyncio.Event(), asyncio.Event(), list[str]()

        async def work() -> None:
            asked.set()
            await may_end.wait()
            done.append("work")

        task = asyncio.ensure_future(unbroken(work()))
        await asked.wait()
        task.cancel()
        await asyncio.sleep(0)
        may_end.set()
        await asyncio.wait([task])
        assert task.cancelled()
        return done

    assert run(cancel()) == ["work"]
