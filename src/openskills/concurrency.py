"""Locks, pools and cancellation across event loops.

A lock for tasks of several event loops. `asyncio.Lock` is for one: who waits for it in another is never woken.

What belongs to an event loop, such as a pool of connections: one for each loop that asks.

Something that is done when an event loop is about to end, as `asyncio.run` ends one: it cancels all that is left.

Work that a cancellation does not break off, and blocking work, awaited.

The event loop that a session belongs to: its calls run there, wherever they come from.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from openskills.errors import InvalidArgument
from openskills.sync import run

_FIRST_PAUSE, _MAX_PAUSE = 0.001, 0.02


class CrossLoopLock:
    """Taken with `async with`, in any loop of any thread.

    Tasks of one loop get it in the order in which they came. Who finds it taken by another loop looks again every few
    hundredths of a second. A loop that is closed holds nothing.
    """

    def __init__(self) -> None:
        self._here: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
        self._table = threading.Lock()
        self._holder: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> None:
        loop = asyncio.get_running_loop()
        with self._table:
            queue = self._here.setdefault(loop, asyncio.Lock())
        await queue.acquire()
        try:
            pause = _FIRST_PAUSE
            while not self._try_acquire(loop):
                await asyncio.sleep(pause)
                pause = min(2 * pause, _MAX_PAUSE)
        except BaseException:
            queue.release()
            raise

    async def __aexit__(self, *_: object) -> None:
        loop = asyncio.get_running_loop()
        self._holder = None
        self._here[loop].release()

    def _try_acquire(self, loop: asyncio.AbstractEventLoop) -> bool:
        with self._table:
            if self._holder is not None and not self._holder.is_closed():
                return False
            self._holder = loop
            return True


T = TypeVar("T")


@dataclass(slots=True)
class _LoopSlot(Generic[T]):
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    value: T | None = None


class LoopLocal(Generic[T]):
    """Makes something when a loop first asks for it, and gives that loop the same thing from then on.

    Loops in any number of threads may ask. What was made for a loop that is closed is forgotten.
    """

    def __init__(self, make: Callable[[], Awaitable[T]]) -> None:
        self._make = make
        self._places: dict[asyncio.AbstractEventLoop, _LoopSlot[T]] = {}
        self._lock = threading.Lock()

    async def get(self) -> T:
        """The one of the running loop. What making it raises is raised here, and the next call tries again."""
        place = self._get_slot()
        async with place.lock:
            if place.value is None:
                place.value = await self._make()
            return place.value

    async def pop(self) -> T | None:
        """Give up the one of the running loop, for whoever closes it; None when it has none."""
        place = self._get_slot()
        async with place.lock:
            made, place.value = place.value, None
            return made

    def _get_slot(self) -> _LoopSlot[T]:
        running = asyncio.get_running_loop()
        with self._lock:
            for loop in [loop for loop in self._places if loop.is_closed()]:
                del self._places[loop]
            return self._places.setdefault(running, _LoopSlot[T]())


class LoopEndCallback:
    """Does it in the loop that runs where this is made. A loop that is closed without a word does nothing."""

    def __init__(self, act: Callable[[], Awaitable[None]]) -> None:
        self._act = act
        self._over = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._wait())

    def cancel(self) -> None:
        """There is nothing to be done any more."""
        self._over.set()

    async def _wait(self) -> None:
        try:
            await self._over.wait()
        except asyncio.CancelledError:
            if not self._over.is_set():
                await self._act()
            raise


async def shield_until_done(work: Awaitable[T]) -> T:
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


async def run_in_thread(work: Callable[[], T], *, undo: Callable[[T], object] | None = None) -> T:
    """Do blocking work in a thread. A cancellation waits for its end: nobody may close what a thread still uses.

    `undo` is called with a result that nobody gets, because of a cancellation; it is quick.
    """
    working = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await shield_until_done(working)
    except asyncio.CancelledError:
        if undo is not None and not working.cancelled() and working.exception() is None:
            undo(working.result())
        raise


class HomeLoop:
    """This loop, or the one that runs where this is made; where none runs, the one of `openskills.sync.run`."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop = loop or _find_running_loop()

    def run_blocking(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it there while the calling thread waits.

        Raises `InvalidArgument` in the thread of that very loop, and where `run` does.
        """
        if self._loop is None:
            return run(work)
        if _find_running_loop() is self._loop:
            work.close()
            raise InvalidArgument(
                "invoke", "would wait for the loop that it blocks; use `await tool.ainvoke(...)` here"
            )
        return _submit(work, self._loop).result()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it there while the caller does something else. Raises `InvalidArgument` when that loop does not run."""
        if self._loop is None:
            return await asyncio.to_thread(run, work)
        if _find_running_loop() is self._loop:
            return await work
        return await asyncio.wrap_future(_submit(work, self._loop))


def _submit(work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> Future[T]:
    if not loop.is_running():
        # It would wait for ever.
        work.close()
        raise InvalidArgument(
            "invoke", "belongs to an event loop that does not run any more; make the tools in the loop that uses them"
        )
    return asyncio.run_coroutine_threadsafe(work, loop)


def _find_running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
