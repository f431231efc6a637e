"""A lock for tasks of several event loops. `asyncio.Lock` is for one: who waits for it in another is never woken."""

import asyncio
import threading
from weakref import WeakKeyDictionary

_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.02


class AcrossLoops:
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
            while not self._take(loop):
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
        except BaseException:
            queue.release()
            raise

    async def __aexit__(self, *_: object) -> None:
        loop = asyncio.get_running_loop()
        self._holder = None
        self._here[loop].release()

    def _take(self, loop: asyncio.AbstractEventLoop) -> bool:
        with self._table:
            if self._holder is not None and not self._holder.is_closed():
                return False
            self._holder = loop
            return True
