"""The processes that start sandboxes, one for each key, and a new one where somebody ended the last."""

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from openskills.executors.processes.keeping import Keeper
from openskills.executors.processes.leftovers import end_leftovers, new_marker, of_the_dead


@dataclass(frozen=True, slots=True)
class Marked:
    """A keeper, and what marks the processes that it starts."""

    keeper: Keeper
    marker: str


class MarkedKeepers:
    """They belong to the event loop that uses them first."""

    def __init__(self) -> None:
        self._found: dict[Hashable, Marked] = {}
        self._beginning = asyncio.Lock()

    async def get(self, key: Hashable, begin: Callable[[], Keeper]) -> Marked:
        """The keeper of this key. Before a new one begins, what the last one and dead hosts left behind is ended."""
        async with self._beginning:
            found = self._found.get(key)
            if found is None or not found.keeper.usable:
                await self._clean_up_after(found)
                found = self._found[key] = Marked(begin(), new_marker())
            return found

    async def end(self, key: Hashable) -> None:
        """End the keeper of this key, if there is one."""
        found = self._found.pop(key, None)
        if found is not None:
            await found.keeper.close()

    async def close(self) -> None:
        """End all of them."""
        for key in list(self._found):
            await self.end(key)

    async def _clean_up_after(self, found: Marked | None) -> None:
        if found is not None:
            await found.keeper.close()
        gone = found.marker if found else None
        await asyncio.to_thread(end_leftovers, lambda marker: marker == gone or of_the_dead(marker))
