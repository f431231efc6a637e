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
