"""Calls that want a place in a host, and what an admission tells of them."""

import asyncio
from collections import Counter

import pytest

from openskills.errors import TooManyRequests
from openskills.host.admission import Admission
from openskills.host.auth import Principal
from openskills.host.model import Registration

ECHO = Registration("echo", "inproc", "x:y", "1")
FAR = 60.0


class Watch:
    """What the admission tells."""

    def __init__(self) -> None:
        self.lengths: list[int] = []
        self.admissions = 0
        self.reasons: Counter[str] = Counter()

    def on_queue_change(self, length: int) -> None:
        self.lengths.append(length)

    def on_admit(self, waited: float) -> None:
        assert waited >= 0.0
        self.admissions += 1

    def on_reject(self, reason: str) -> None:
        self.reasons[reason] += 1


class Calls:
    """Calls that hold their place until they are told to go."""

    def __init__(self, admission: Admission) -> None:
        self.admission = admission
        self.inside: list[str] = []
        self.most = 0
        self._gates: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def begin(
        self,
        name: str,
        key: str = "k",
        skill: Registration = ECHO,
        *,
        wait: float = FAR,
        concurrency: int | None = None,
    ) -> None:
        deadline = asyncio.get_running_loop().time() + wait
        self._gates[name] = asyncio.Event()
        self._tasks[name] = asyncio.create_task(
            self._call(name, Principal(key, concurrency=concurrency), skill, deadline)
        )
        await self.settle()

    async def end(self, name: str) -> None:
        self._gates[name].set()
        await self._tasks[name]
        await self.settle()

    async def cancel(self, name: str) -> None:
        self._tasks[name].cancel()
        with pytest.raises(asyncio.CancelledError):
            await self._tasks[name]
        await self.settle()

    async def refusal(self, name: str) -> TooManyRequests:
        with pytest.raises(TooManyRequests) as caught:
            await self._tasks[name]
        return caught.value

    async def end_all(self) -> None:
        for gate in self._gates.values():
            gate.set()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    @staticmethod
    async def settle() -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    async def _call(self, name: str, principal: Principal, skill: Registration, deadline: float) -> None:
        async with self.admission.admit(principal, skill, deadline):
            self.inside.append(name)
            self.most = max(self.most, len(self.inside))
            try:
                await self._gates[name].wait()
            finally:
                self.inside.remove(name)
