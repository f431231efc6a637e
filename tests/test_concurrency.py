"""Work goes to the loop that it belongs to.

Blocking work is awaited, and a cancellation never leaves a thread behind.

One lock for tasks of several event loops.

What is done at the end of an event loop, and what is not.

Every loop gets its own, once.
"""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from openskills.concurrency import CrossLoopLock, HomeLoop, LoopEndCallback, LoopLocal, run_in_thread, shield_until_done
from openskills.errors import InvalidArgument
from openskills.sync import run


async def where() -> tuple[asyncio.AbstractEventLoop, str]:
    return asyncio.get_running_loop(), threading.current_thread().name


async def test_made_in_a_loop_work_comes_to_it_from_everywhere() -> None:
    home, here = HomeLoop(), asyncio.get_running_loop()
    assert (await home.run(where()))[0] is here
    assert (await asyncio.to_thread(home.run_blocking, where()))[0] is here
    assert (await asyncio.to_thread(asyncio.run, home.run(where())))[0] is here


def test_made_in_blocking_code_work_comes_to_the_loop_of_run() -> None:
    home = HomeLoop()
    ours = run(where())
    assert home.run_blocking(where()) == ours
    assert asyncio.run(home.run(where())) == ours


async def test_waiting_in_the_thread_of_the_loop_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="ainvoke"):
        HomeLoop().run_blocking(where())


async def test_what_the_work_raises_is_raised() -> None:
    async def fail() -> None:
        raise KeyError("mine")

    home = HomeLoop()
    with pytest.raises(KeyError, match="mine"):
        await asyncio.to_thread(home.run_blocking, fail())


def test_a_loop_that_does_not_run_any_more_is_said_instead_of_waited_for() -> None:
    loop = asyncio.new_event_loop()
    home = HomeLoop(loop)
    with pytest.raises(InvalidArgument, match="has ended; create the tools"):
        asyncio.run(home.run(where()))
    with pytest.raises(InvalidArgument, match="has ended"):
        home.run_blocking(where())
    loop.close()


async def test_the_result_and_the_error_come_back() -> None:
    def fail() -> None:
        raise LookupError("gone")

    assert await run_in_thread(lambda: threading.current_thread() is not threading.main_thread())
    with pytest.raises(LookupError, match="gone"):
        await run_in_thread(fail)


@pytest.mark.parametrize("error", [None, OSError("too late")], ids=["ends well", "fails"])
async def test_a_cancellation_waits_for_the_thread_however_often_it_is_asked(error: OSError | None) -> None:
    begun, may_end = threading.Event(), threading.Event()
    ended: list[bool] = []

    def work() -> None:
        begun.set()
        may_end.wait()
        ended.append(True)
        if error:
            raise error

    task = asyncio.ensure_future(run_in_thread(work))
    await asyncio.to_thread(begun.wait)
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    too_early = task.done()
    may_end.set()
    await asyncio.wait([task])
    assert task.cancelled()
    assert not too_early
    assert ended == [True]


@pytest.mark.parametrize("error", [None, OSError("too late")], ids=["ends well", "fails"])
async def test_a_result_that_nobody_gets_is_undone(error: OSError | None) -> None:
    begun, may_end = threading.Event(), threading.Event()
    undone: list[int] = []

    def work() -> int:
        begun.set()
        may_end.wait()
        if error:
            raise error
        return 7

    task = asyncio.ensure_future(run_in_thread(work, undo=undone.append))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    may_end.set()
    await asyncio.wait([task])
    assert task.cancelled()
    assert undone == ([] if error else [7])


async def test_a_result_that_somebody_gets_is_not_undone() -> None:
    undone: list[int] = []
    assert await run_in_thread(lambda: 7, undo=undone.append) == 7
    assert not undone


async def test_work_that_must_not_be_broken_off_is_done_before_the_cancellation_is_raised() -> None:
    asked, may_end, done = asyncio.Event(), asyncio.Event(), list[str]()

    async def work() -> None:
        asked.set()
        await may_end.wait()
        done.append("work")

    task = asyncio.ensure_future(shield_until_done(work()))
    await asked.wait()
    task.cancel()
    await asyncio.sleep(0)
    may_end.set()
    await asyncio.wait([task])
    assert task.cancelled()
    assert done == ["work"]


class Counter:
    """Notices when two are in at once."""

    def __init__(self) -> None:
        self.lock = CrossLoopLock()
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


async def test_tasks_of_one_loop_come_in_their_order() -> None:
    order: list[int] = []

    async def enter(lock: CrossLoopLock, number: int) -> None:
        async with lock:
            await asyncio.sleep(0)
            order.append(number)

    lock = CrossLoopLock()
    await asyncio.gather(*(enter(lock, number) for number in range(5)))
    assert order == [0, 1, 2, 3, 4]


async def test_who_is_cancelled_while_waiting_leaves_it_to_the_others() -> None:
    lock = CrossLoopLock()
    async with lock:
        waiting = asyncio.create_task(lock.__aenter__())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    async with asyncio.timeout(10), lock:
        pass


def test_a_loop_that_is_closed_holds_nothing() -> None:
    lock = CrossLoopLock()
    loop = asyncio.new_event_loop()
    loop.run_until_complete(lock.__aenter__())
    loop.close()

    async def take() -> None:
        async with asyncio.timeout(10), lock:
            pass

    asyncio.run(take())


def test_it_is_done_while_the_loop_still_runs() -> None:
    done: list[str] = []

    async def act() -> None:
        await asyncio.sleep(0)
        done.append("closed")

    async def go() -> None:
        LoopEndCallback(act)
        await asyncio.sleep(0)

    asyncio.run(go())
    assert done == ["closed"]


def test_what_was_forgotten_is_not_done() -> None:
    done: list[str] = []

    async def act() -> None:
        done.append("closed")

    async def go() -> None:
        at_end = LoopEndCallback(act)
        await asyncio.sleep(0)
        at_end.cancel()

    asyncio.run(go())
    assert done == []


def counted() -> tuple[LoopLocal[object], list[object]]:
    made: list[object] = []

    async def make() -> object:
        await asyncio.sleep(0)
        made.append(object())
        return made[-1]

    return LoopLocal(make), made


async def test_tasks_that_ask_at_once_get_the_same() -> None:
    own, made = counted()

    assert set(await asyncio.gather(*(own.get() for _ in range(10)))) == set(made)
    assert len(made) == 1


def test_loops_in_threads_get_one_each() -> None:
    own, made = counted()
    with ThreadPoolExecutor(4) as threads:
        got = [one.result() for one in [threads.submit(asyncio.run, own.get()) for _ in range(8)]]
    assert sorted(map(id, got)) == sorted(map(id, made))
    assert len(made) == 8


async def test_what_is_taken_is_made_again_for_the_next() -> None:
    own, made = counted()

    taken = [await own.pop(), await own.get(), await own.pop(), await own.pop(), await own.get()]
    assert taken == [None, made[0], made[0], None, made[1]]


async def test_after_a_failure_the_next_one_tries_again() -> None:
    tries: list[int] = []

    async def make() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError
        return "made"

    own = LoopLocal(make)
    with pytest.raises(ConnectionError):
        await own.get()
    assert await own.get() == "made"


def test_what_belonged_to_a_closed_loop_is_forgotten() -> None:
    own, _ = counted()
    for _ in range(5):
        asyncio.run(own.get())
    assert len(own._slots) == 1  # pyright: ignore[reportPrivateUsage]
