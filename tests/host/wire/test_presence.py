"""Who hangs up ends the work that was done for nobody else."""

import asyncio

import pytest

from openskills.host.wire.bodies import Gone
from openskills.host.wire.exchange import Message
from openskills.host.wire.presence import while_present
from tests.host.exchanges import GONE, Sent, part


async def quick() -> str:
    return "done"


async def endless(ended: list[str]) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        ended.append("cancelled")


def test_work_that_is_quick_is_never_looked_after() -> None:
    async def never() -> Message:
        raise AssertionError("somebody looked")

    assert asyncio.run(while_present(never, quick())) == "done"


def test_work_that_takes_longer_has_its_result_as_well() -> None:
    assert asyncio.run(while_present(Sent().receive, asyncio.sleep(0.1, "slept"))) == "slept"


@pytest.mark.parametrize("incoming", [[GONE], [part(b""), GONE]])
def test_when_the_caller_is_gone_the_work_is_cancelled(incoming: list[Message]) -> None:
    ended: list[str] = []
    with pytest.raises(Gone):
        asyncio.run(while_present(Sent(incoming).receive, endless(ended)))
    assert ended == ["cancelled"]


def test_a_cancellation_from_elsewhere_is_passed_on() -> None:
    async def cancelled() -> list[str]:
        ended: list[str] = []
        task = asyncio.create_task(while_present(Sent().receive, endless(ended)))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return ended

    assert asyncio.run(cancelled()) == ["cancelled"]


def test_after_the_caller_has_gone_the_task_can_go_on() -> None:
    async def go_on() -> str:
        try:
            await while_present(Sent([GONE]).receive, endless([]))
        except Gone:
            await asyncio.sleep(0)
            return "went on"
        return "stayed"

    assert asyncio.run(go_on()) == "went on"
