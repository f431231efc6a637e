"""The conversations that somebody uses now, and what is remembered of those that were used lately."""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from openskills.artifacts.store import Scope
from openskills.artifacts.threads import unbroken
from openskills.errors import ExecutorUnavailable, InvalidArgument
from openskills.runtime.opened import OpenedSession, Remembered

REMEMBERED = 256
"""Of so many conversations the answers of people and the files of users are kept between two uses."""

_ELSEWHERE = 10.0
"""So many seconds another event loop has to close what belongs to it."""


@dataclass(slots=True)
class _Gate:
    """Lets one at a time open or close a conversation, all of them in the event loop that it belongs to."""

    loop: asyncio.AbstractEventLoop
    alone: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0


class OpenSessions:
    """A table of conversations. One is opened for its first user and closed behind its last; none waits for another.

    As long as one is open it belongs to one event loop, and can be used in no other.
    """

    def __init__(self, make: Callable[[Scope, Remembered], OpenedSession]) -> None:
        self._make = make
        self._open: dict[Scope, OpenedSession] = {}
        self._gates: dict[Scope, _Gate] = {}
        self._finding = threading.Lock()
        self._remembered: OrderedDict[Scope, Remembered] = OrderedDict()

    async def take(self, scope: Scope, agent: str) -> OpenedSession:
        """The conversation of this scope, for an agent; whoever takes one gives it back.

        Raises `ExecutorUnavailable` while it is open in another event loop.
        """
        async with self._alone(scope):
            opened = self._open.get(scope)
            if opened is not None and opened.loop.is_closed():
                del self._open[scope]
                await opened.end_with_its_loop()
                opened = None
            if opened is None:
                opened = self._make(scope, self._memory_of(scope))
                await opened.open(agent)
                self._open[scope] = opened
            opened.users += 1
            return opened

    async def give_back(self, opened: OpenedSession) -> None:
        """Be done with a conversation. A command that is still talked to outlives its users, and keeps it open.

        A cancellation waits until it is given back.
        """
        await unbroken(self._given_back(opened))

    async def _given_back(self, opened: OpenedSession) -> None:
        async with self._alone(opened.scope):
            opened.users -= 1
            if opened.users:
                await opened.flush()
            elif opened.is_talking():
                opened.outlive(lambda: self._end_with_its_loop(opened))
                await opened.flush()
            else:
                self._open.pop(opened.scope, None)
                await opened.close()

    async def close(self) -> list[BaseException]:
        """Close all of them, whatever happens to some; gives what was raised."""
        opened, self._open = list(self._open.values()), {}
        self._gates.clear()
        results = await asyncio.gather(*map(_closed, opened), return_exceptions=True)
        return [result for result in results if isinstance(result, BaseException)]

    def loop_of(self, scope: Scope) -> asyncio.AbstractEventLoop | None:
        """The event loop in which commands of a conversation run that somebody talks to; None when there are none.

        Also None for one that does not run: nothing can be done there.
        """
        opened = self._open.get(scope)
        return opened.loop if opened is not None and opened.loop.is_running() and opened.is_talking() else None

    async def _end_with_its_loop(self, opened: OpenedSession) -> None:
        async with self._alone(opened.scope):
            if self._open.get(opened.scope) is opened:
                del self._open[opened.scope]
                await opened.end_with_its_loop()

    def _memory_of(self, scope: Scope) -> Remembered:
        found = self._remembered.setdefault(scope, Remembered())
        self._remembered.move_to_end(scope)
        while len(self._remembered) > REMEMBERED:
            self._remembered.popitem(last=False)
        return found

    @asynccontextmanager
    async def _alone(self, scope: Scope) -> AsyncGenerator[None]:
        """One at a time opens or closes a conversation."""
        gate = self._gate(scope)
        gate.waiting += 1
        try:
            async with gate.alone:
                yield
        finally:
            gate.waiting -= 1
            if not gate.waiting and scope not in self._open and self._gates.get(scope) is gate:
                del self._gates[scope]

    def _gate(self, scope: Scope) -> _Gate:
        here = asyncio.get_running_loop()
        with self._finding:
            gate = self._gates.get(scope)
            if gate is None or gate.loop.is_closed():
                gate = self._gates[scope] = _Gate(here)
        if gate.loop is not here:
            raise ExecutorUnavailable(
                f"the conversation {scope.session!r} is in use in another event loop, or a command that it started "
                "there is running; use one loop for all its turns: either await all of them there, or let all block"
            )
        return gate


async def _closed(opened: OpenedSession) -> None:
    """Close a conversation in the event loop that it belongs to."""
    if opened.loop is asyncio.get_running_loop():
        await opened.close()
    elif not opened.loop.is_running():
        await opened.end_with_its_loop()
    else:
        there = asyncio.run_coroutine_threadsafe(opened.close(), opened.loop)
        try:
            async with asyncio.timeout(_ELSEWHERE):
                await asyncio.wrap_future(there)
        except TimeoutError:
            raise InvalidArgument(
                "close",
                f"a command of {opened.scope.session!r} runs in another event loop, which does not answer; "
                "await close() in that loop",
            ) from None
