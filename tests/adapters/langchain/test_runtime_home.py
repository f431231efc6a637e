"""Work goes to the loop that it belongs to."""

import asyncio
import threading

import pytest

from openskills.adapters.langchain.runtime_home import Home
from openskills.errors import InvalidArgument
from openskills.sync import run


async def where() -> tuple[asyncio.AbstractEventLoop, str]:
    return asyncio.get_running_loop(), threading.current_thread().name


def test_made_in_a_loop_work_comes_to_it_from_everywhere() -> None:
    async def go() -> None:
        home, here = Home(), asyncio.get_running_loop()
        assert (await home.come_to(where()))[0] is here
        assert (await asyncio.to_thread(home.wait, where()))[0] is here
        assert (await asyncio.to_thread(asyncio.run, home.come_to(where())))[0] is here

    asyncio.run(go())


def test_made_in_blocking_code_work_comes_to_the_loop_of_run() -> None:
    home = Home()
    ours = run(where())
    assert home.wait(where()) == ours
    assert asyncio.run(home.come_to(where())) == ours


def test_waiting_in_the_thread_of_the_loop_is_refused() -> None:
    async def go() -> None:
        with pytest.raises(InvalidArgument, match="ainvoke"):
            Home().wait(where())

    asyncio.run(go())


def test_what_the_work_raises_is_raised() -> None:
    async def fail() -> None:
        raise KeyError("mine")

    async def go() -> None:
        home = Home()
        with pytest.raises(KeyError, match="mine"):
            await asyncio.to_thread(home.wait, fail())

    asyncio.run(go())


def test_a_loop_that_does_not_run_any_more_is_said_instead_of_waited_for() -> None:
    loop = asyncio.new_event_loop()
    home = Home(loop)
    with pytest.raises(InvalidArgument, match="does not run any more; make the tools"):
        asyncio.run(home.come_to(where()))
    with pytest.raises(InvalidArgument, match="does not run any more"):
        home.wait(where())
    loop.close()
