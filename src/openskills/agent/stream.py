"""The events of a run on their way to its reader. A reader that is slow makes the run wait, and not the memory grow."""

import asyncio
from collections import deque

from openskills.errors import DeadlineExceeded
from openskills.session.events import Event

MOST = 256
"""So many events may wait to be read before the run does."""
PATIENCE = 600.0
"""So many seconds a run waits for a reader that does not read."""


class Stream:
    """Events in their order, from one run to one reader.

    What was stored is put in at once, whoever stored it: nobody who writes a log waits for a reader. The run itself
    waits in `room`, between two things that it does. So there are never many more events here than `most`.
    """

    def __init__(self, most: int = MOST, patience: float = PATIENCE) -> None:
        self._most = most
        self._patience = patience
        self._events: deque[Event] = deque()
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._read = 0
        self._ended = False
        self._given_up = False

    def put(self, event: Event) -> None:
        """Add an event; it never waits."""
        self._events.append(event)
        self._changed.set()
        if len(self._events) >= self._most:
            self._room.clear()

    async def emit(self, event: Event) -> None:
        """Add an event, and wait for room for the next."""
        self.put(event)
        await self.room()

    async def room(self) -> None:
        """Wait until there is room. Raises `DeadlineExceeded` when nobody has read for too long, and ever after."""
        while not self._room.is_set():
            before = self._read
            try:
                async with asyncio.timeout(0 if self._given_up else self._patience):
                    await self._room.wait()
            except TimeoutError:
                if self._read == before:
                    self._given_up = True
                    raise DeadlineExceeded(
                        f"nobody has read the events of this run for {self._patience:g} seconds; it was ended"
                    ) from None

    def end(self) -> None:
        """Nothing more comes."""
        self._ended = True
        self._changed.set()

    async def get(self) -> Event | None:
        """The next event, None behind the last. For one reader."""
        while not self._events:
            if self._ended:
                return None
            self._changed.clear()
            await self._changed.wait()
        event = self._events.popleft()
        self._read += 1
        if len(self._events) < self._most:
            self._room.set()
        return event
