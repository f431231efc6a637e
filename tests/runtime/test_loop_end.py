"""What is done at the end of an event loop, and what is not."""

import asyncio

from openskills.runtime.loop_end import AtLoopEnd


def test_it_is_done_while_the_loop_still_runs() -> None:
    done: list[str] = []

    async def act() -> None:
        await asyncio.sleep(0)
        done.append("closed")

    async def go() -> None:
        AtLoopEnd(act)
        await asyncio.sleep(0)

    asyncio.run(go())
    assert done == ["closed"]


def test_what_was_forgotten_is_not_done() -> None:
    done: list[str] = []

    async def act() -> None:
        done.append("closed")

    async def go() -> None:
        at_end = AtLoopEnd(act)
        await asyncio.sleep(0)
        at_end.forget()

    asyncio.run(go())
    assert done == []
