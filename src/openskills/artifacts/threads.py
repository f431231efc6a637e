"""Blocking work, awaited."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def to_the_end(work: Callable[[], T]) -> T:
    """Do blocking work in a thread. A cancellation waits for its end: nobody may close what a thread still uses."""
    working = asyncio.ensure_future(asyncio.to_thread(work))
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
