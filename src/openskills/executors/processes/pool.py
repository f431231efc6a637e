"""Keepers that run one command at a time, so that what a command leaves behind can be told from another's."""

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field

from openskills.executors.processes.keeping import Exit, Keeper, Kept, Launch
from openskills.executors.processes.rlimits import Rlimits

_IDLE = 4


@dataclass(slots=True)
class _OfOneLoop:
    """The keepers of one event loop, which nobody else may use or end while it lives."""

    first: Keeper | None = None
    idle: dict[Rlimits, list[Keeper]] = field(default_factory=lambda: defaultdict[Rlimits, list[Keeper]](list))
    busy: set[Keeper] = field(default_factory=set[Keeper])
    beginning: asyncio.Lock = field(default_factory=asyncio.Lock)

    def all(self) -> list[Keeper]:
        """Each of them, the first one last: it has forked the others."""
        idle = [keeper for keepers in self.idle.values() for keeper in keepers]
        return [*self.busy, *idle, *([self.first] if self.first else [])]


class KeeperPool:
    """Hands each command a keeper of its own, with its limits, and keeps a few for the next ones of its event loop."""

    def __init__(self) -> None:
        self._loops: dict[asyncio.AbstractEventLoop, _OfOneLoop] = {}

    async def start(self, launch: Launch, limits: Rlimits = ()) -> Kept:
        """Start a command, held to `limits` with all its descendants, which end with it."""
        await self._end_orphans()
        here = self._loops.setdefault(asyncio.get_running_loop(), _OfOneLoop())
        keeper = _from_idle(here, limits) or await _new(here, limits)
        try:
            kept = await keeper.start(launch)
        except BaseException:
            await keeper.close()
            raise
        here.busy.add(keeper)
        kept.then(lambda end: _take_back(here, keeper, limits, end))
        return kept

    async def close(self) -> None:
        """End all of them, with all their commands."""
        loops, self._loops = self._loops, {}
        for keeper in [keeper for keepers in loops.values() for keeper in keepers.all()]:
            await keeper.close()

    async def _end_orphans(self) -> None:
        """End what runs for an event loop that is closed: nobody else would."""
        orphans = [self._loops.pop(loop) for loop in list(self._loops) if loop.is_closed()]
        for keeper in [keeper for keepers in orphans for keeper in keepers.all()]:
            await keeper.close()


def _from_idle(here: _OfOneLoop, limits: Rlimits) -> Keeper | None:
    idle = here.idle.get(limits)
    while idle:
        keeper = idle.pop()
        if keeper.usable:
            return keeper
    return None


async def _new(here: _OfOneLoop, limits: Rlimits) -> Keeper:
    # One program, started once, forks the others: that takes a millisecond and not ten.
    async with here.beginning:
        if here.first is None or not here.first.usable:
            if here.first is not None:
                await here.first.close()
            here.first = await Keeper.begin()
    keeper = await here.first.fork()
    keeper.limit(limits)
    return keeper


def _take_back(here: _OfOneLoop, keeper: Keeper, limits: Rlimits, end: Exit) -> None:
    here.busy.discard(keeper)
    if end.clean and keeper.usable and len(here.idle[limits]) < _IDLE:
        here.idle[limits].append(keeper)
    else:
        keeper.let_go()
