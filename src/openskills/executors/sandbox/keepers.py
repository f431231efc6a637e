"""The processes that start sandboxes, one for each key, and a new one where somebody ended the last."""

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from openskills.executors.across_loops import AcrossLoops
from openskills.executors.processes.keeping import Keeper
from openskills.executors.processes.leftovers import end_leftovers, new_marker, of_the_dead


@dataclass(frozen=True, slots=True)
class Marked:
    """A keeper, and what marks the processes that it starts."""

    keeper: Keeper
    marker: str


class MarkedKeepers:
    """Each event loop has its own: what one loop starts, no other could hear of."""

    def __init__(self) -> None:
        self._found: dict[tuple[asyncio.AbstractEventLoop, Hashable], Marked] = {}
        self._beginning = AcrossLoops()

    async def get(self, key: Hashable, begin: Callable[[], Keeper]) -> Marked:
        """The keeper of this key. Before a new one begins, what the last one and dead hosts left behind is ended."""
        mine = (asyncio.get_running_loop(), key)
        found = self._found.get(mine)
        if found is not None and found.keeper.usable:
            return found
        async with self._beginning:
            found = self._found.get(mine)
            if found is None or not found.keeper.usable:
                await self._clean_up_after(self._gone(mine))
                found = self._found[mine] = Marked(begin(), new_marker())
            return found

    async def end(self, key: Hashable) -> None:
        """End the keeper of this key, if there is one."""
        found = self._found.pop((asyncio.get_running_loop(), key), None)
        if found is not None:
            await found.keeper.close()

    async def close(self) -> None:
        """End all of them."""
        everyone, self._found = self._found, {}
        for found in everyone.values():
            await found.keeper.close()

    def _gone(self, mine: tuple[asyncio.AbstractEventLoop, Hashable]) -> list[Marked]:
        """Those that have ended or whose loop is closed; they are not known any more."""
        keys = [key for key in self._found if key == mine or key[0].is_closed()]
        return [self._found.pop(key) for key in keys]

    async def _clean_up_after(self, gone: list[Marked]) -> None:
        for found in gone:
            await found.keeper.close()
        markers = {found.marker for found in gone}
        await asyncio.to_thread(end_leftovers, lambda marker: marker in markers or of_the_dead(marker))
