"""Threads of an event loop that wait: what is awaited in one can be cancelled before it has begun."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class HeldPool(ThreadPoolExecutor):
    """Says when it is asked for something, and does it when it may."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()
        self.may = threading.Event()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """See `Executor.submit`."""

        def held() -> T:
            self.may.wait()
            return fn(*args, **kwargs)

        self.asked.set()
        return super().submit(held)


def held_pool() -> HeldPool:
    """The pool of the loop that runs now."""
    pool = HeldPool()
    asyncio.get_running_loop().set_default_executor(pool)
    return pool


async def cancelled_in_its_thread(task: asyncio.Task[object], pool: HeldPool) -> None:
    """Cancel what waits for a thread, and let the thread do its work then."""
    await pool.asked.wait()
    task.cancel()
    # It has heard of it before the thread begins.
    await asyncio.sleep(0)
    pool.may.set()
    await asyncio.wait([task])
    assert task.cancelled()
