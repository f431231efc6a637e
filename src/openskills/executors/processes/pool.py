"""Keepers that run one command at a time, so that what a command leaves behind can be told from another's."""

import asyncio
from collections import defaultdict

from openskills.executors.processes.keeping import Exit, Keeper, Kept, Launch
from openskills.executors.processes.rlimits import Rlimits

_IDLE = 4


class KeeperPool:
    """Hands each command a keeper of its own, with its limits, and keeps a few for the next ones."""

    def __init__(self) -> None:
        self._first: Keeper | None = None
        self._idle: dict[Rlimits, list[Keeper]] = defaultdict(list)
        self._busy: set[Keeper] = set()
        self._beginning = asyncio.Lock()

    async def start(self, launch: Launch, limits: Rlimits = ()) -> Kept:
        """Start a command, held to `limits` with all its descendants, which end with it."""
        self._end_orphans()
        keeper = self._from_idle(limits) or await self._new(limits)
        try:
            kept = await keeper.start(launch)
        except BaseException:
            await keeper.close()
            raise
        self._busy.add(keeper)
        kept.then(lambda end: self._take_back(keeper, limits, end))
        return kept

    async def close(self) -> None:
        """End all of them, with all their commands."""
        keepers = [*self._busy, *(keeper for idle in self._idle.values() for keeper in idle)]
        self._busy.clear()
        self._idle.clear()
        if self._first is not None:
            keepers.append(self._first)
            self._first = None
        for keeper in keepers:
            await keeper.close()

    def _end_orphans(self) -> None:
        """End what runs for an event loop that is closed: nobody else would."""
        for keeper in [one for one in self._busy if one.orphaned]:
            self._busy.discard(keeper)
            keeper.let_go()

    def _from_idle(self, limits: Rlimits) -> Keeper | None:
        idle = self._idle.get(limits)
        while idle:
            keeper = idle.pop()
            if keeper.usable:
                return keeper
            keeper.let_go()
        return None

    async def _new(self, limits: Rlimits) -> Keeper:
        # One program, started once, forks the others: that takes a millisecond and not ten.
        async with self._beginning:
            if self._first is None or not self._first.usable:
                if self._first is not None:
                    await self._first.close()
                self._first = await Keeper.begin()
        keeper = await self._first.fork()
        keeper.limit(limits)
        return keeper

    def _take_back(self, keeper: Keeper, limits: Rlimits, end: Exit) -> None:
        self._busy.discard(keeper)
        if end.clean and keeper.usable and len(self._idle[limits]) < _IDLE:
            self._idle[limits].append(keeper)
        else:
            keeper.let_go()
