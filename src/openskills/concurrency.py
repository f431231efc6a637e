"""Locks, per-loop values, closing and cancellation across event loops and threads."""

import asyncio
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypeVar
from weakref import WeakKeyDictionary

from openskills.errors import InvalidArgument
from openskills.sync import run

_FIRST_PAUSE, _MAX_PAUSE = 0.001, 0.02
_PIECE_BYTES = 1024 * 1024


class AsyncCloseable(ABC):
    """What `async with` closes at its end."""

    @abstractmethod
    async def close(self) -> None: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class CrossLoopLock:
    """A lock for tasks of several event loops; `asyncio.Lock` works in one loop only.

    Tasks of one loop acquire it in order. While another loop holds it, it is polled every 20 ms at most. A closed loop
    does not hold it.
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
    """One value per event loop, such as a connection pool, created on first use. Safe to use from many threads.

    The value of a closed loop is dropped.
    """

    def __init__(self, make: Callable[[], Awaitable[T]]) -> None:
        self._make = make
        self._slots: dict[asyncio.AbstractEventLoop, _LoopSlot[T]] = {}
        self._lock = threading.Lock()

    async def get(self) -> T:
        """The value of the running loop. If creating it fails, the next call tries again."""
        slot = self._get_slot()
        async with slot.lock:
            if slot.value is None:
                slot.value = await self._make()
            return slot.value

    async def pop(self) -> T | None:
        """Remove and return the value of the running loop, or None; the caller closes it."""
        slot = self._get_slot()
        async with slot.lock:
            made, slot.value = slot.value, None
            return made

    def _get_slot(self) -> _LoopSlot[T]:
        running = asyncio.get_running_loop()
        with self._lock:
            for loop in [loop for loop in self._slots if loop.is_closed()]:
                del self._slots[loop]
            return self._slots.setdefault(running, _LoopSlot[T]())


class LoopEndCallback:
    """Run `act` when the current event loop is shut down, as `asyncio.run` does by cancelling all tasks.

    Nothing runs if the loop is closed without cancelling its tasks.
    """

    def __init__(self, act: Callable[[], Awaitable[None]]) -> None:
        self._act = act
        self._over = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._wait())

    def cancel(self) -> None:
        """Do not run the callback any more."""
        self._over.set()

    async def _wait(self) -> None:
        try:
            await self._over.wait()
        except asyncio.CancelledError:
            if not self._over.is_set():
                await self._act()
            raise


async def shield_until_done(work: Awaitable[T]) -> T:
    """Await work in its own task. A cancellation, even a repeated one, is raised only after the work is done."""
    working = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        while not working.done():
            try:
                await asyncio.wait([working])
            except asyncio.CancelledError:
                continue
        if not working.cancelled():
            working.exception()
        raise


async def run_in_thread(work: Callable[[], T], *, undo: Callable[[T], object] | None = None) -> T:
    """Run blocking work in a thread. A cancellation waits until it is done, so nothing that it uses is closed early.

    `undo` is called with the result if it is lost because of a cancellation; it must be quick.
    """
    working = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await shield_until_done(working)
    except asyncio.CancelledError:
        if undo is not None and not working.cancelled() and working.exception() is None:
            undo(working.result())
        raise


class HomeLoop:
    """The event loop that a session belongs to: `loop`, the running one, or the loop of `openskills.sync.run`."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop = loop or _find_running_loop()

    def run_blocking(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it on that loop and block. Raises `InvalidArgument` when called on that loop, and where `run` does."""
        if self._loop is None:
            return run(work)
        if _find_running_loop() is self._loop:
            work.close()
            raise InvalidArgument("invoke", "would block its own event loop; use `await tool.ainvoke(...)` here")
        return _submit(work, self._loop).result()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it on that loop and await it. Raises `InvalidArgument` when that loop is not running."""
        if self._loop is None:
            return await asyncio.to_thread(run, work)
        if _find_running_loop() is self._loop:
            return await work
        return await asyncio.wrap_future(_submit(work, self._loop))


def _submit(work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> Future[T]:
    if not loop.is_running():
        work.close()
        raise InvalidArgument("invoke", "the event loop of this tool has ended; create the tools in the current loop")
    return asyncio.run_coroutine_threadsafe(work, loop)


def _find_running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


async def read_chunks(descriptor: int, size: int) -> AsyncGenerator[bytes]:
    """Read a file in pieces of 1 MiB, up to its size at opening, even if it grows meanwhile."""
    left = size
    while left > 0:
        data = await run_in_thread(lambda: os.read(descriptor, min(left, _PIECE_BYTES)))  # noqa: B023 - awaited at once
        if not data:
            return
        left -= len(data)
        yield data
