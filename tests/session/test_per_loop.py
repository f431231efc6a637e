"""Every loop gets its own, once."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from openskills.session.per_loop import PerLoop


def counted() -> tuple[PerLoop[object], list[object]]:
    made: list[object] = []

    async def make() -> object:
        await asyncio.sleep(0)
        made.append(object())
        return made[-1]

    return PerLoop(make), made


def test_tasks_that_ask_at_once_get_the_same() -> None:
    own, made = counted()

    async def ask() -> set[object]:
        return set(await asyncio.gather(*(own.get() for _ in range(10))))

    assert asyncio.run(ask()) == set(made)
    assert len(made) == 1


def test_loops_in_threads_get_one_each() -> None:
    own, made = counted()
    with ThreadPoolExecutor(4) as threads:
        got = [one.result() for one in [threads.submit(asyncio.run, own.get()) for _ in range(8)]]
    assert sorted(map(id, got)) == sorted(map(id, made))
    assert len(made) == 8


def test_what_is_taken_is_made_anew_for_the_next() -> None:
    own, made = counted()

    async def take() -> list[object]:
        return [await own.take(), await own.get(), await own.take(), await own.take(), await own.get()]

    assert asyncio.run(take()) == [None, made[0], made[0], None, made[1]]


def test_after_a_failure_the_next_one_tries_again() -> None:
    tries: list[int] = []

    async def make() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError
        return "made"

    async def ask() -> str:
        with pytest.raises(ConnectionError):
            await own.get()
        return await own.get()

    own = PerLoop(make)
    assert asyncio.run(ask()) == "made"


def test_what_belonged_to_a_closed_loop_is_forgotten() -> None:
    own, _ = counted()
    for _ in range(5):
        asyncio.run(own.get())
    assert len(own._places) == 1  # pyright: ignore[reportPrivateUsage]
