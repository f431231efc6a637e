"""Each key has one keeper, and a new one when somebody ended the last."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable

import pytest

from openskills.child import begin
from openskills.executors.processes.keeping import PROGRAM, Keeper
from openskills.executors.sandbox.keepers import MarkedKeepers

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="keepers need Linux")


class Started:
    """Starts keepers and remembers their processes."""

    def __init__(self) -> None:
        self.pids: list[int] = []

    def __call__(self) -> Keeper:
        helper = begin([sys.executable, "-I", "-S", str(PROGRAM)], {})
        self.pids.append(helper.pid)
        return Keeper(helper.connection, helper)


async def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


def alive(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")


def test_all_who_ask_at_once_get_the_same_keeper_and_other_keys_get_others() -> None:
    async def asked() -> None:
        begun, keepers = Started(), MarkedKeepers()
        first, second, other = await asyncio.gather(
            keepers.get("a", begun), keepers.get("a", begun), keepers.get("b", begun)
        )
        assert first is second
        assert other.keeper is not first.keeper
        assert other.marker != first.marker
        assert len(begun.pids) == 2
        await keepers.close()
        assert not any(map(alive, begun.pids))

    asyncio.run(asked())


def test_a_keeper_that_somebody_killed_is_followed_by_a_new_one_with_a_new_marker() -> None:
    async def killed() -> None:
        begun, keepers = Started(), MarkedKeepers()
        first = await keepers.get("a", begun)
        os.kill(begun.pids[0], signal.SIGKILL)
        await until(lambda: not first.keeper.usable)
        second = await keepers.get("a", begun)
        assert second.keeper.usable
        assert second.marker != first.marker
        await keepers.close()

    asyncio.run(killed())


def test_ending_one_key_leaves_the_others_and_an_unknown_one_is_nothing() -> None:
    async def ended() -> None:
        begun, keepers = Started(), MarkedKeepers()
        await keepers.get("a", begun)
        kept = await keepers.get("b", begun)
        await keepers.end("a")
        await keepers.end("nobody")
        assert not alive(begun.pids[0])
        assert kept.keeper.usable
        await keepers.close()

    asyncio.run(ended())
