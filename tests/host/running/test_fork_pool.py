"""The slots of a skill."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from openskills.errors import DeadlineExceeded, ExecutorUnavailable
from openskills.host.running.fork_mother import Mother
from openskills.host.running.fork_pool import ForkPool
from openskills.host.running.fork_protocol import Ended, encoded_call
from tests.host.mothers import with_mothers

Begin = Callable[[], Awaitable[Mother]]
PARENT = "import os; print(os.getppid(), end='')"
SLOW = "import time; time.sleep(600)"
CALL = encoded_call(b"", {}, live=False)


async def serve(pool: ForkPool, seconds: float = 20.0) -> Ended:
    return await pool.call(CALL, asyncio.get_running_loop().time() + seconds)


def test_slots_are_made_on_demand_and_not_more_than_allowed(tmp_path: Path) -> None:
    async def work(begin: Begin) -> tuple[int, int, int]:
        pool = ForkPool(begin, most=3)
        await pool.prepare()
        first = pool.lanes
        found = await asyncio.gather(*(serve(pool) for _ in range(20)))
        last = pool.lanes
        await pool.close()
        return first, last, len({ended.stdout for ended in found})

    assert with_mothers(tmp_path, PARENT, work) == (1, 3, 3)


@pytest.mark.parametrize("alone", [False, True])
def test_idle_slots_and_interpreters_are_ended_and_come_back(tmp_path: Path, alone: bool) -> None:
    async def work(begin: Begin) -> None:
        begun: list[Mother] = []

        async def counted() -> Mother:
            begun.append(await begin())
            return begun[-1]

        pool = ForkPool(counted, most=2, alone=alone, idle=0.05)
        await serve(pool)
        async with asyncio.timeout(20):
            while pool.lanes or begun[0].usable:
                await asyncio.sleep(0.01)
        assert (await serve(pool)).returncode == 0
        assert len(begun) == 2
        await pool.close()

    with_mothers(tmp_path, PARENT, work)


def test_after_a_renewal_calls_have_a_new_interpreter(tmp_path: Path) -> None:
    async def work(begin: Begin) -> tuple[bytes, bytes, bytes]:
        pool = ForkPool(begin, most=1)
        before = (await serve(pool)).stdout
        again = (await serve(pool)).stdout
        pool.renew()
        after = (await serve(pool)).stdout
        await pool.close()
        return before, again, after

    before, again, after = with_mothers(tmp_path, PARENT, work)
    assert before == again != after


@pytest.mark.parametrize("alone", [False, True])
def test_a_refreshed_pool_changes_over_when_the_new_interpreter_is_ready(tmp_path: Path, alone: bool) -> None:
    async def work(begin: Begin) -> None:
        gate = asyncio.Event()
        gate.set()

        async def gated() -> Mother:
            await gate.wait()
            return await begin()

        pool = ForkPool(gated, most=2, alone=alone)
        before = (await serve(pool)).stdout
        gate.clear()
        pool.refresh()
        assert (await serve(pool)).stdout == before
        gate.set()
        async with asyncio.timeout(20):
            while (await serve(pool)).stdout == before:
                await asyncio.sleep(0.01)
        await pool.close()

    with_mothers(tmp_path, PARENT, work)


@pytest.mark.parametrize("alone", [False, True])
def test_a_call_that_is_too_late_gives_its_place_to_the_next(tmp_path: Path, alone: bool) -> None:
    async def work(begin: Begin) -> None:
        pool = ForkPool(begin, most=1, alone=alone)
        await pool.prepare()
        for _ in range(2):
            with pytest.raises(TimeoutError):
                await serve(pool, 0.3)
        assert pool.lanes == 0
        await pool.close()

    with_mothers(tmp_path, SLOW, work)


def test_who_waits_too_long_for_a_place_is_told_and_who_is_cancelled_takes_none(tmp_path: Path) -> None:
    async def work(begin: Begin) -> None:
        pool = ForkPool(begin, most=1)
        await pool.prepare()
        first = asyncio.ensure_future(serve(pool))
        await asyncio.sleep(0)
        cancelled = asyncio.ensure_future(serve(pool))
        with pytest.raises(DeadlineExceeded, match="not begun"):
            await serve(pool, 0.1)
        cancelled.cancel()
        first.cancel()
        await asyncio.wait((first, cancelled))
        with pytest.raises(TimeoutError):
            await serve(pool, 0.3)
        await pool.close()

    with_mothers(tmp_path, SLOW, work)


def test_everybody_gets_a_turn_however_often_others_call(tmp_path: Path) -> None:
    async def work(begin: Begin) -> list[int]:
        pool = ForkPool(begin, most=1)
        turns = [0] * 4

        async def again_and_again(number: int) -> None:
            while sum(turns) < 80:
                await serve(pool)
                turns[number] += 1

        await asyncio.gather(*map(again_and_again, range(4)))
        await pool.close()
        return turns

    assert min(with_mothers(tmp_path, PARENT, work)) >= 15


def test_who_is_cancelled_when_it_has_just_got_a_slot_passes_it_on(tmp_path: Path) -> None:
    async def work(begin: Begin) -> None:
        pool = ForkPool(begin, most=1)
        await pool.prepare()
        for _ in range(20):
            calls = [asyncio.ensure_future(serve(pool)) for _ in range(4)]
            await calls[0]
            # The next one has the slot by now, or is about to learn that it has.
            calls[1].cancel()
            await asyncio.wait(calls)
            assert calls[3].result().returncode == 0
        assert pool.lanes <= 1
        await pool.close()

    with_mothers(tmp_path, PARENT, work)


def test_what_cannot_begin_is_told_to_everybody_who_waits(tmp_path: Path) -> None:
    async def work(begin: Begin) -> list[str]:
        del begin

        async def never() -> Mother:
            await asyncio.sleep(0)
            raise ExecutorUnavailable("no")

        pool = ForkPool(never, most=1)
        found = await asyncio.gather(*(serve(pool) for _ in range(3)), return_exceptions=True)
        await pool.close()
        return [str(one) for one in found]

    assert with_mothers(tmp_path, "", work) == ["no"] * 3


class Gated:
    """Begins interpreters when it may."""

    def __init__(self, begin: Begin) -> None:
        self._begin = begin
        self.asked = asyncio.Event()
        self.may = asyncio.Event()
        self.begun: list[Mother] = []

    async def __call__(self) -> Mother:
        self.asked.set()
        await self.may.wait()
        self.begun.append(await self._begin())
        return self.begun[-1]


def test_a_call_does_not_wait_beyond_its_deadline_for_an_interpreter_and_the_next_has_it(tmp_path: Path) -> None:
    async def work(begin: Begin) -> None:
        gated = Gated(begin)
        pool = ForkPool(gated, most=1)
        async with asyncio.timeout(20):
            with pytest.raises(DeadlineExceeded, match="not begun"):
                await serve(pool, 0.05)
        gated.may.set()
        assert (await serve(pool)).returncode == 0
        assert len(gated.begun) == 1
        await pool.close()

    with_mothers(tmp_path, PARENT, work)


def test_an_interpreter_that_begins_while_the_pool_closes_is_not_left(tmp_path: Path) -> None:
    async def work(begin: Begin) -> None:
        gated = Gated(begin)
        pool = ForkPool(gated, most=1)
        calling = asyncio.ensure_future(serve(pool))
        await gated.asked.wait()
        await pool.close()
        gated.may.set()
        with pytest.raises(ExecutorUnavailable):
            await calling
        assert not any(mother.usable for mother in gated.begun)

    with_mothers(tmp_path, PARENT, work)


def test_a_closed_pool_is_not_refreshed(tmp_path: Path) -> None:
    async def work(begin: Begin) -> None:
        gated = Gated(begin)
        gated.may.set()
        pool = ForkPool(gated, most=1)
        await serve(pool)
        pool.refresh()
        await pool.close()
        pool.refresh()
        await pool.close()
        assert [mother.usable for mother in gated.begun] == [False]

    with_mothers(tmp_path, PARENT, work)


def test_who_is_cancelled_while_the_pool_closes_is_cancelled(tmp_path: Path) -> None:
    async def work(begin: Begin) -> None:
        pool = ForkPool(begin, most=1)
        await pool.prepare()
        running = asyncio.ensure_future(serve(pool))
        waiting = asyncio.ensure_future(serve(pool))
        await asyncio.sleep(0)
        closing = asyncio.ensure_future(pool.close())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait((running, waiting, closing))
        assert waiting.cancelled()

    with_mothers(tmp_path, SLOW, work)


def test_a_pool_that_retires_serves_those_who_have_come_and_ends_behind_the_last(tmp_path: Path) -> None:
    async def work(begin: Begin) -> None:
        gated = Gated(begin)
        pool = ForkPool(gated, most=1)
        calls = [asyncio.ensure_future(serve(pool)) for _ in range(3)]
        await gated.asked.wait()
        retiring = asyncio.ensure_future(pool.retire())
        gated.may.set()
        assert [ended.returncode for ended in await asyncio.gather(*calls)] == [0, 0, 0]
        await retiring
        assert [mother.usable for mother in gated.begun] == [False]
        with pytest.raises(ExecutorUnavailable):
            await serve(pool)

    with_mothers(tmp_path, PARENT, work)


def test_a_pool_that_closes_ends_the_calls_that_run(tmp_path: Path) -> None:
    async def work(begin: Begin) -> None:
        pool = ForkPool(begin, most=1)
        await pool.prepare()
        running = asyncio.ensure_future(serve(pool))
        await asyncio.wait((running,), timeout=0.1)
        await pool.close()
        with pytest.raises(ExecutorUnavailable):
            await running
        with pytest.raises(ExecutorUnavailable):
            await serve(pool)

    with_mothers(tmp_path, SLOW, work)
