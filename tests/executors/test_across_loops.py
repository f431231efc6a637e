"""One lock for tasks of several event loops."""

import asyncio
import threading

import pytest

from openskills.executors.across_loops import AcrossLoops


class Counter:
    """Notices when two are in at once."""

    def __init__(self) -> None:
        self.lock = AcrossLoops()
        self.inside = self.entered = 0

    async def enter(self, times: int) -> None:
        for _ in range(times):
            async with self.lock:
                self.inside += 1
                assert self.inside == 1
                await asyncio.sleep(0.001)
                self.inside -= 1
                self.entered += 1


def test_one_at_a_time_gets_in_whatever_loop_it_is_in() -> None:
    counter = Counter()

    async def three() -> None:
        await asyncio.gather(*(counter.enter(10) for _ in range(3)))

    threads = [threading.Thread(target=lambda: asyncio.run(three())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (counter.entered, counter.inside) == (120, 0)


def test_tasks_of_one_loop_come_in_their_order() -> None:
    order: list[int] = []

    async def enter(lock: AcrossLoops, number: int) -> None:
        async with lock:
            await asyncio.sleep(0)
            order.append(number)

    async def all_at_once() -> None:
        lock = AcrossLoops()
        await asyncio.gather(*(enter(lock, number) for number in range(5)))

    asyncio.run(all_at_once())
    assert order == [0, 1, 2, 3, 4]


def test_who_is_cancelled_while_waiting_leaves_it_to_the_others() -> None:
    async def scenario() -> None:
        lock = AcrossLoops()
        async with lock:
            waiting = asyncio.create_task(lock.__aenter__())
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        async with asyncio.timeout(10), lock:
            pass

    asyncio.run(scenario())


def test_a_loop_that_is_closed_holds_nothing() -> None:
    lock = AcrossLoops()
    loop = asyncio.new_event_loop()
    loop.run_until_complete(lock.__aenter__())
    loop.close()

    async def take() -> None:
        async with asyncio.timeout(10), lock:
            pass

    asyncio.run(take())
