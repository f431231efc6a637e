"""The slots of one skill: made on demand, lent to one call at a time, ended when a call goes wrong or nobody calls."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from openskills.errors import DeadlineExceeded, ExecutorUnavailable, SkillError
from openskills.host.running.fork_mother import Mother, Refused
from openskills.host.running.fork_protocol import Ended
from openskills.host.running.fork_slot import Heard, Slot

_CHANGES_AT_MOST = 3
_CLOSING = "the skill is being closed; try again"


@dataclass(slots=True)
class _Lane:
    """A slot with the interpreter that serves it."""

    mother: Mother
    slot: Slot
    generation: int
    idle_since: float = 0.0


class ForkPool:
    """Serves the calls of one skill, `most` at a time. It belongs to the event loop that uses it first.

    `begin` starts an interpreter. `alone`: each slot gets one of its own, and is ended with it. After `idle` seconds
    without a call a slot is ended, and with the last one the interpreter.
    """

    def __init__(
        self, begin: Callable[[], Awaitable[Mother]], *, most: int, alone: bool = False, idle: float = 60.0
    ) -> None:
        self._begin = begin
        self._most = most
        self._alone = alone
        self._patience = idle
        self._mother: Mother | None = None
        self._mothers: set[Mother] = set()
        self._starting = asyncio.Lock()
        self._idle: deque[_Lane] = deque()
        self._lanes = 0
        self._waiting: deque[asyncio.Future[_Lane]] = deque()
        self._making: set[asyncio.Task[_Lane]] = set()
        self._refreshing: set[asyncio.Task[None]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._generation = 0
        self._calls = 0
        self._quiet = asyncio.Event()
        self._quiet.set()

    @property
    def lanes(self) -> int:
        """How many calls can be served now without making another slot."""
        return self._lanes

    async def prepare(self) -> None:
        """Have a slot ready; raises what starting an interpreter raises."""
        if not self._lanes:
            self._give_back(await self._lend(None))

    async def call(self, message: bytes, deadline: float, heard: Heard | None = None) -> Ended:
        """Have one call served, by an interpreter that has loaded what is on the disk now.

        Raises `Late` at the deadline, `ExecutorUnavailable` when what serves it ends. After either, and after
        a cancellation, nothing of the call is left when this returns.
        """
        self._calls += 1
        self._quiet.clear()
        try:
            return await self._call(message, deadline, heard)
        finally:
            self._calls -= 1
            if not self._calls:
                self._quiet.set()

    async def _call(self, message: bytes, deadline: float, heard: Heard | None) -> Ended:
        for _ in range(_CHANGES_AT_MOST):
            lane = await self._lend(deadline)
            try:
                ended = await lane.slot.call(message, deadline, heard)
            except BaseException:
                await self._to_the_end(self._end(lane))
                raise
            if ended.stale:
                if lane.generation == self._generation:
                    self.renew()
                self._drop(lane)
                continue
            if ended.clean:
                self._give_back(lane)
            else:
                # What cannot be undone ends with where it was done.
                self._follow(self._end(lane))
            return ended
        raise ExecutorUnavailable("the script changes again and again; try again")

    def renew(self) -> None:
        """Begin new interpreters for all calls that begin from now on."""
        self._generation += 1
        old, self._mother = self._mother, None
        if old is not None and old.slots == 0:
            self._follow(self._ended(old))

    def refresh(self) -> None:
        """Begin a new interpreter behind the back of everybody, and use it as soon as it is ready, if it ever is."""
        if not self._closed:
            task = asyncio.get_running_loop().create_task(self._refreshed())
            self._refreshing.add(task)
            task.add_done_callback(self._refreshing.discard)

    async def _refreshed(self) -> None:
        generation = self._generation
        with suppress(Refused, SkillError):
            mother = await self._begun()
            if generation != self._generation:
                await self._ended(mother)
                return
            self.renew()
            if self._alone:
                self._lanes += 1
                self._give_back(_Lane(mother, mother.open(), self._generation))
            else:
                self._mother = mother

    async def retire(self) -> None:
        """End everything behind the last of the calls that have begun."""
        await self._quiet.wait()
        await self.close()

    async def close(self) -> None:
        """End everything. Safe to call twice."""
        self._closed = True
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_exception(ExecutorUnavailable(_CLOSING))
        starting = (*self._making, *self._refreshing)
        for task in starting:
            task.cancel()
        if self._timer is not None:
            self._timer.cancel()
        self._idle.clear()
        self._mother = None
        await asyncio.gather(*(self._ended(mother) for mother in list(self._mothers)), *self._tasks)
        if starting:
            await asyncio.wait(starting)

    async def _lend(self, deadline: float | None) -> _Lane:
        if self._closed:
            raise ExecutorUnavailable(_CLOSING)
        while self._idle:
            # The one that has waited for the longest time: its next process is ready for certain.
            lane = self._idle.popleft()
            if lane.slot.usable and not self._is_old(lane):
                return lane
            self._drop(lane)
        if self._lanes < self._most:
            self._make()
        return await self._turn(deadline)

    async def _turn(self, deadline: float | None) -> _Lane:
        """Wait for a slot."""
        # Handed over, and not left for whoever comes first: somebody who calls again and again would always be first.
        waiter: asyncio.Future[_Lane] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            async with asyncio.timeout_at(deadline):
                try:
                    return await waiter
                except asyncio.CancelledError:
                    if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                        self._give_back(waiter.result())
                    raise
        except TimeoutError:
            message = "the skill was busy or not ready until the deadline of the call; it was not begun"
            raise DeadlineExceeded(message) from None

    def _next(self) -> "asyncio.Future[_Lane] | None":
        """Who has waited for the longest time, if anybody has."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                return waiter
        return None

    def _hand(self, lane: _Lane) -> bool:
        waiter = self._next()
        if waiter is not None:
            waiter.set_result(lane)
        return waiter is not None

    def _free(self) -> None:
        """There may be one slot more."""
        self._lanes -= 1
        if not self._closed and sum(not waiter.done() for waiter in self._waiting) > len(self._making):
            self._make()

    def _make(self) -> None:
        """Make a slot for who has waited for the longest time. If that was too long, the next call has it."""
        self._lanes += 1
        making = asyncio.get_running_loop().create_task(self._new())
        self._making.add(making)
        making.add_done_callback(self._made)

    def _made(self, making: asyncio.Task[_Lane]) -> None:
        self._making.discard(making)
        error = ExecutorUnavailable(_CLOSING) if making.cancelled() else making.exception()
        if error is not None:
            waiter = self._next()
            if waiter is not None:
                waiter.set_exception(error)
            self._free()
        elif self._closed or not self._hand(making.result()):
            self._give_back(making.result())

    async def _new(self) -> _Lane:
        """A slot that is counted already."""
        generation = self._generation
        mother = await self._a_mother()
        return _Lane(mother, mother.open(), generation)

    async def _a_mother(self) -> Mother:
        if self._alone:
            return await self._begun()
        async with self._starting:
            while self._mother is None or not self._mother.usable:
                generation = self._generation
                mother = await self._begun()
                if generation == self._generation:
                    self._mother = mother
                else:
                    # What it has loaded has changed meanwhile.
                    self._follow(self._ended(mother))
            return self._mother

    async def _begun(self) -> Mother:
        mother = await self._begin()
        self._mothers.add(mother)
        return mother

    async def _ended(self, mother: Mother) -> None:
        self._mothers.discard(mother)
        await mother.close()

    def _is_old(self, lane: _Lane) -> bool:
        return not lane.mother.usable or lane.generation != self._generation

    def _give_back(self, lane: _Lane) -> None:
        if self._closed or self._is_old(lane):
            self._drop(lane)
            return
        if self._hand(lane):
            return
        loop = asyncio.get_running_loop()
        lane.idle_since = loop.time()
        self._idle.append(lane)
        if self._timer is None:
            self._timer = loop.call_later(self._patience, self._tidy)

    def _tidy(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        while self._idle and self._idle[0].idle_since <= loop.time() - self._patience:
            self._drop(self._idle.popleft())
        if self._lanes:
            self._timer = loop.call_later(self._patience / 2, self._tidy)
        elif self._mother is not None:
            mother, self._mother = self._mother, None
            self._follow(self._ended(mother))

    def _drop(self, lane: _Lane) -> None:
        """Let go of a slot that serves no call, and of its interpreter when that was its last and is not needed."""
        lane.mother.let_go(lane.slot)
        if lane.mother.slots == 0 and lane.mother is not self._mother:
            self._follow(self._ended(lane.mother))
        self._free()

    async def _end(self, lane: _Lane) -> None:
        try:
            if self._alone:
                lane.slot.close()
                await self._ended(lane.mother)
            else:
                await lane.mother.end(lane.slot)
        finally:
            self._free()

    async def _to_the_end(self, work: Coroutine[Any, Any, None]) -> None:
        """Do this even if whoever waits for it is cancelled meanwhile, and not before it is done."""
        task = self._follow(work)
        while not task.done():
            try:
                await asyncio.shield(task)
            except asyncio.CancelledError:
                if task.cancelled():
                    return

    def _follow(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        # A task that nobody refers to may be collected while it runs.
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
