"""Work that a cancellation does not break off, and blocking work, awaited."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def unbroken(work: Awaitable[T]) -> T:
    """Await work in a task of its own. A cancellation waits for its end, however often it is asked, and is raised then.

    Only the end of the event loop breaks it off.
    """
    working = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        while not working.done():
            try:
                await asyncio.wait([working])
            except asyncio.CancelledError:
                # Asked again; the answer is the same.
                continue
        if not working.cancelled():
            working.exception()
        raise


async def to_the_end(work: Callable[[], T], *, undo: Callable[[T], object] | None = None) -> T:
    """Do blocking work in a thread. A cancellation waits for its end: nobody may close what a thread still uses.

    `undo` is called with a result that nobody gets, because of a cancellation; it is quick.
    """
    working = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await unbroken(working)
    except asyncio.CancelledError:
        if undo is not None and not working.cancelled() and working.exception() is None:
            undo(working.result())
        raise
