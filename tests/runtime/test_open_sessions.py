"""The table of open conversations."""

import asyncio

from openskills.artifacts.store import Scope
from openskills.errors import ExecutorUnavailable
from openskills.executors.workbench import Workbench
from openskills.runtime.open_sessions import REMEMBERED, OpenSessions
from openskills.runtime.opened import OpenedSession, Remembered
from openskills.session.memory import MemorySessionStore
from openskills.sync import run


async def no_bench() -> Workbench:
    raise ExecutorUnavailable("none")


def sessions() -> tuple[OpenSessions, list[Remembered]]:
    made: list[Remembered] = []

    def make(scope: Scope, remembered: Remembered) -> OpenedSession:
        made.append(remembered)
        return OpenedSession(scope, MemorySessionStore(), no_bench, remembered)

    return OpenSessions(make), made


def scope(number: int = 0) -> Scope:
    return Scope("app", "user", f"s{number}")


def test_users_at_the_same_time_share_one_and_it_is_closed_behind_the_last() -> None:
    async def go() -> None:
        table, made = sessions()
        first, second = await asyncio.gather(table.take(scope(), "a"), table.take(scope(), "b"))
        assert first is second
        await table.give_back(first)
        assert await table.take(scope(), "a") is first
        await table.give_back(first)
        await table.give_back(first)
        again = await table.take(scope(), "a")
        assert again is not first
        assert made[0] is made[1]

    run(go())


def test_only_so_many_are_remembered() -> None:
    async def go() -> None:
        table, made = sessions()
        for number in (*range(REMEMBERED + 1), 0):
            await table.give_back(await table.take(scope(number), "a"))
        assert made[-1] is not made[0]

    run(go())


class Held(OpenedSession):
    """Is written, and so closed, when it is told to; `talking` says whether a command of it is talked to."""

    def __init__(self, scope: Scope, remembered: Remembered) -> None:
        super().__init__(scope, MemorySessionStore(), no_bench, remembered)
        self.asked = asyncio.Event()
        self.go = asyncio.Event()
        self.talking = False
        self.closed = False

    async def flush(self) -> None:
        self.asked.set()
        await self.go.wait()
        await super().flush()

    async def close(self) -> None:
        await super().close()
        self.closed = True

    def is_talking(self) -> bool:
        return self.talking


async def held(users: int) -> tuple[OpenSessions, Held]:
    made: list[Held] = []

    def make(scope: Scope, remembered: Remembered) -> Held:
        made.append(Held(scope, remembered))
        return made[0]

    table = OpenSessions(make)
    for _ in range(users):
        await table.take(scope(), "a")
    return table, made[0]


def test_who_is_cancelled_while_it_is_closed_leaves_it_closed() -> None:
    async def go() -> None:
        table, opened = await held(1)
        leaving = asyncio.ensure_future(table.give_back(opened))
        await opened.asked.wait()
        leaving.cancel()
        await asyncio.sleep(0)
        still_closing = not leaving.done()
        opened.go.set()
        await asyncio.wait([leaving])
        assert leaving.cancelled()
        assert still_closing
        assert opened.closed

    run(go())


def test_who_is_cancelled_while_another_leaves_has_left() -> None:
    async def go() -> None:
        table, opened = await held(2)
        first = asyncio.ensure_future(table.give_back(opened))
        await opened.asked.wait()
        second = asyncio.ensure_future(table.give_back(opened))
        await asyncio.sleep(0)
        second.cancel()
        opened.go.set()
        await asyncio.wait([first, second])
        assert second.cancelled()
        assert opened.closed

    run(go())


def test_a_loop_that_does_not_run_is_no_place_for_work() -> None:
    loop = asyncio.new_event_loop()
    table, opened = loop.run_until_complete(held(1))
    opened.talking = True

    async def looked() -> asyncio.AbstractEventLoop | None:
        return table.loop_of(scope())

    assert table.loop_of(scope()) is None
    assert loop.run_until_complete(looked()) is loop
    loop.close()
