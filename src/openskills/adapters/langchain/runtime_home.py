"""The event loop that a session belongs to: its calls run there, wherever they come from."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from openskills.errors import InvalidArgument
from openskills.sync import run

T = TypeVar("T")


class Home:
    """This loop, or the one that runs where this is made; where none runs, the one of `openskills.sync.run`."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop = loop or _running()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it there while the calling thread waits. Raises `InvalidArgument` in the thread of that very loop."""
        if self._loop is None:
            return run(work)
        if _running() is self._loop:
            work.close()
            raise InvalidArgument(
                "invoke", "would wait for the loop that it blocks; use `await tool.ainvoke(...)` here"
            )
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def come_to(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it there while the caller does something else."""
        if self._loop is None:
            return await asyncio.to_thread(run, work)
        if _running() is self._loop:
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
