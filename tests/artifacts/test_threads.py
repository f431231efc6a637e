"""Blocking work is awaited, and a cancellation never leaves a thread behind."""

import asyncio
import threading

import pytest

from openskills.artifacts.threads import to_the_end
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
