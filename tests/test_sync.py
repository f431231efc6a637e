"""Blocking code waits for async code, wherever it is called from."""

import asyncio
import contextvars
import signal
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest

from openskills.errors import InvalidArgument
from openskills.sync import run

T = TypeVar("T")
Runner = Callable[[Awaitable[object]], object]

colour: contextvars.ContextVar[str] = contextvars.ContextVar("colour", default="none")


def below_a_loop(awaitable: Awaitable[T]) -> T:
    """Call run() as a notebook does: in a thread whose loop is running."""

    async def cell() -> T:
        return run(awaitable)

    return asyncio.run(cell())


async def double(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


class Later:
    """Something that can be awaited and is not a coroutine."""

    def __await__(self) -> Generator[None, None, int]:
        return (yield from double(21).__await__())


def python(program: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


everywhere = pytest.mark.parametrize("runner", [run, below_a_loop], ids=["without a loop", "below a loop"])


@everywhere
def test_the_result_comes_back(runner: Runner) -> None:
    assert runner(double(21)) == 42
    assert runner(Later()) == 42


@everywhere
def test_an_exception_comes_back_as_it_is(runner: Runner) -> None:
    error = LookupError("gone")

    async def fail() -> None:
        raise error

    with pytest.raises(LookupError) as raised:
        runner(fail())
    assert raised.value is error


@everywhere
def test_a_cancellation_comes_back_as_that_of_asyncio(runner: Runner) -> None:
    async def cancel() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        runner(cancel())


@everywhere
@pytest.mark.parametrize("stop", [SystemExit, KeyboardInterrupt])
def test_a_wish_to_end_the_process_reaches_the_caller_and_later_calls_work(
    runner: Runner, stop: type[BaseException]
) -> None:
    async def leave() -> None:
        raise stop(3)

    with pytest.raises(stop):
        runner(leave())
    assert runner(double(1)) == 2


@everywhere
def test_context_variables_are_those_of_the_caller_and_stay_so(runner: Runner) -> None:
    async def look() -> str:
        seen = colour.get()
        colour.set("changed")
        return seen

    colour.set("blue")
    assert runner(look()) == "blue"
    assert colour.get() == "blue"


@everywhere
def test_many_threads_may_call_at_once(runner: Runner) -> None:
    with ThreadPoolExecutor(8) as threads:
        results = [threads.submit(runner, double(number)) for number in range(40)]
        assert [result.result() for result in results] == list(range(0, 80, 2))


@everywhere
def test_what_belongs_to_the_loop_can_be_carried_from_one_call_to_the_next(runner: Runner) -> None:
    kept: list[asyncio.Future[str]] = []

    async def leave_one() -> None:
        future = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.01, future.set_result, "done")
        kept.append(future)

    async def fetch_it() -> str:
        return await kept[0]

    runner(leave_one())
    assert runner(fetch_it()) == "done"


def test_every_call_runs_on_the_same_daemon_thread() -> None:
    async def where() -> threading.Thread:
        return threading.current_thread()

    first, second = below_a_loop(where()), run(where())
    assert first is second
    assert first.daemon
    assert first is not threading.current_thread()


def test_the_loop_that_waits_for_itself_is_refused_with_the_way_out() -> None:
    async def nested() -> int:
        return run(double(1))

    for runner in (run, below_a_loop):
        with pytest.raises(InvalidArgument, match=r"awaitable: .*use `await` here instead of run"):
            runner(nested())
    assert below_a_loop(double(1)) == 2


def test_a_thread_started_by_the_loop_may_call_again() -> None:
    async def hop() -> int:
        return await asyncio.to_thread(lambda: run(double(1)))

    assert below_a_loop(hop()) == 2


@everywhere
@pytest.mark.parametrize("value", [double, 42, None], ids=["function", "number", "nothing"])
def test_what_cannot_be_awaited_is_refused_with_the_fix(runner: Runner, value: object) -> None:
    with pytest.raises(InvalidArgument, match=r"cannot be awaited; call the async function: run\(load\(name\)\)"):
        runner(value)  # pyright: ignore[reportArgumentType]


async def test_a_task_is_refused_because_it_belongs_to_its_loop() -> None:
    task = asyncio.ensure_future(double(1))
    with pytest.raises(InvalidArgument, match="a future or task already belongs to an event loop"):
        run(task)
    assert await task == 2


INTERRUPTED = """
import asyncio
from openskills.sync import run

async def work():
    try:
        print("ready", flush=True)
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0)
        print("cleaned up", flush=True)

async def cell():
    try:
        run(work())
    except KeyboardInterrupt:
        print("interrupted", flush=True)

{call}
"""


@pytest.mark.parametrize(
    "call",
    [
        "try: run(work())\nexcept KeyboardInterrupt: print('interrupted')",
        "loop = asyncio.new_event_loop(); loop.run_until_complete(cell()); loop.close()",
    ],
    ids=["without a loop", "below a loop"],
)
def test_an_interrupt_cancels_the_awaitable_before_it_is_raised(call: str) -> None:
    with python(INTERRUPTED.format(call=call)) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=60)
    assert (out, errors, process.returncode) == ("cleaned up\ninterrupted\n", "", 0)


def test_a_forked_child_has_a_loop_of_its_own() -> None:
    program = """
import asyncio, os, warnings
from openskills.sync import run

async def one(): return 1
async def cell(): return run(one())

print("parent", asyncio.run(cell()), flush=True)
warnings.simplefilter("ignore", DeprecationWarning)  # forking beside threads is what this is about
child = os.fork()
if child: os.waitpid(child, 0)
print("parent" if child else "child", asyncio.run(cell()), flush=True)
"""
    with python(program) as process:
        out, errors = process.communicate(timeout=60)
    assert (out, errors, process.returncode) == ("parent 1\nchild 1\nparent 1\n", "", 0)


def test_importing_it_does_not_load_asyncio() -> None:
    with python("import sys, openskills.sync; print('asyncio' in sys.modules)") as process:
        assert process.communicate(timeout=60) == ("False\n", "")
