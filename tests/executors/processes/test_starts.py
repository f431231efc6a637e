"""Whoever waits for starts waits for all of them, and for none that is over."""

import asyncio

import pytest

from openskills.executors.processes.starts import Starts
from openskills.sync import run


def test_without_a_start_nobody_waits() -> None:
    async def wait() -> None:
        await Starts().over()

    run(wait())


def test_waiting_ends_with_the_last_start_also_when_that_fails() -> None:
    async def wait() -> None:
        starts = Starts()
        with starts:
            with pytest.raises(RuntimeError), starts:
                raise RuntimeError
            waiting = asyncio.ensure_future(starts.over())
            await asyncio.sleep(0)
            assert not waiting.done()
        await waiting

    run(wait())
