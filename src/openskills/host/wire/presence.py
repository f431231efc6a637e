"""Whether the caller is still there: who hangs up ends the work that was done for nobody else.

Most calls are over before anybody could hang up. Looking costs a task, so it begins only after a moment.
"""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from openskills.host.wire.bodies import Gone
from openskills.host.wire.exchange import Receive

T = TypeVar("T")

MOMENT = 0.05
"""Seconds without a look."""


async def while_present(receive: Receive, work: Awaitable[T]) -> T:
    """The result of the work. When the caller hangs up before, the work is cancelled and `Gone` is raised."""
    return await _Presence(receive).during(work)


class _Presence:
    """One caller. The body of its request has been read, so the next message can only be that it is gone."""

    __slots__ = ("_gone", "_look", "_receive", "_worker")

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._gone = False
        self._look: asyncio.Task[None] | None = None
        self._worker: asyncio.Task[object] | None = None

    async def during(self, work: Awaitable[T]) -> T:
        self._worker = asyncio.current_task()
        timer = asyncio.get_running_loop().call_later(MOMENT, self._begin)
        try:
            return await work
        except asyncio.CancelledError:
            if self._gone and self._worker is not None and self._worker.uncancel() == 0:
                raise Gone from None
            raise
        finally:
            timer.cancel()
            if self._look is not None:
                self._look.cancel()

    def _begin(self) -> None:
        self._look = asyncio.get_running_loop().create_task(self._wait())

    async def _wait(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            # A server that says other things all the time must not get all the time for it.
            await asyncio.sleep(MOMENT)
        self._gone = True
        if self._worker is not None:
            self._worker.cancel()
