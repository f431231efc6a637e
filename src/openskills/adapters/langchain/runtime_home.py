"""The event loop that a session belongs to: its calls run there, wherever they come from."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from openskills.errors import InvalidArgument
from openskills.sync import run

T = TypeVar("T")


class Home:
    """This loop, or the one that runs where this is made; where none runs, the one of `openskills.sync.run`."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop = loop or _running()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it there while the calling thread waits.

        Raises `InvalidArgument` in the thread of that very loop, and where `come_to` does.
        """
        if self._loop is None:
            return run(work)
        if _running() is self._loop:
            work.close()
            raise InvalidArgument(
                "invoke", "would wait for the loop that it blocks; use `await tool.ainvoke(...)` here"
            )
        return _sent(work, self._loop).result()

    async def come_to(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it there while the caller does something else. Raises `InvalidArgument` when that loop does not run."""
        if self._loop is None:
            return await asyncio.to_thread(run, work)
        if _running() is self._loop:
            return await work
        return await asyncio.wrap_future(_sent(work, self._loop))


def _sent(work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> Future[T]:
    if not loop.is_running():
        # It would wait for ever.
        work.close()
        raise InvalidArgument(
            "invoke", "belongs to an event loop that does not run any more; make the tools in the loop that uses them"
        )
    return asyncio.run_coroutine_threadsafe(work, loop)


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
