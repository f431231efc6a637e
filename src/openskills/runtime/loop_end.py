"""Something that is done when an event loop is about to end, as `asyncio.run` ends one: it cancels all that is left."""

import asyncio
from collections.abc import Awaitable, Callable


class AtLoopEnd:
    """Does it in the loop that runs where this is made. A loop that is closed without a word does nothing."""

    def __init__(self, act: Callable[[], Awaitable[None]]) -> None:
        self._act = act
        self._over = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._wait())

    def forget(self) -> None:
        """There is nothing to be done any more."""
        self._over.set()

    async def _wait(self) -> None:
        try:
            await self._over.wait()
        except asyncio.CancelledError:
            if not self._over.is_set():
                await self._act()
            raise
