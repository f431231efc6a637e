"""What belongs to an event loop, such as a pool of connections: one for each loop that asks."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class _Place(Generic[T]):
    making: asyncio.Lock = field(default_factory=asyncio.Lock)
    made: T | None = None


class PerLoop(Generic[T]):
    """Makes something when a loop first asks for it, and gives that loop the same thing from then on.

    Loops in any number of threads may ask. What was made for a loop that is closed is forgotten.
    """

    def __init__(self, make: Callable[[], Awaitable[T]]) -> None:
        self._make = make
        self._places: dict[asyncio.AbstractEventLoop, _Place[T]] = {}
        self._lock = threading.Lock()

    async def get(self) -> T:
        """The one of the running loop. What making it raises is raised here, and the next call tries again."""
        place = self._place()
        async with place.making:
            if place.made is None:
                place.made = await self._make()
            return place.made

    async def take(self) -> T | None:
        """Give up the one of the running loop, for whoever closes it; None when it has none."""
        place = self._place()
        async with place.making:
            made, place.made = place.made, None
            return made

    def _place(self) -> _Place[T]:
        running = asyncio.get_running_loop()
        with self._lock:
            for loop in [loop for loop in self._places if loop.is_closed()]:
                del self._places[loop]
            return self._places.setdefault(running, _Place[T]())
