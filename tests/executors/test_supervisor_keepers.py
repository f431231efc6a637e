"""Each key has one keeper, and a new one when somebody ended the last."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable

import pytest

from openskills.executors.supervisor import PROGRAM, Supervisor, SupervisorRegistry
from openskills.subprocesses import start_helper

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="keepers need Linux")


class Started:
    """Starts keepers and remembers their processes."""

    def __init__(self) -> None:
        self.pids: list[int] = []

    def __call__(self) -> Supervisor:
        helper = start_helper([sys.executable, "-I", "-S", str(PROGRAM)], {})
        self.pids.append(helper.pid)
        return Supervisor(helper.connection, helper)


async def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


def alive(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")


async def test_all_who_ask_at_once_get_the_same_keeper_and_other_keys_get_others() -> None:
    begun, keepers = Started(), SupervisorRegistry()
    first, second, other = await asyncio.gather(
        keepers.get("a", begun), keepers.get("a", begun), keepers.get("b", begun)
    )
    assert first is second
    assert other is not first
    assert other.marker != first.marker
    assert len(begun.pids) == 2
    await keepers.close()
    assert not any(map(alive, begun.pids))


async def test_a_keeper_that_somebody_killed_is_followed_by_a_new_one_with_a_new_marker() -> None:
    begun, keepers = Started(), SupervisorRegistry()
    first = await keepers.get("a", begun)
    os.kill(begun.pids[0], signal.SIGKILL)
    await until(lambda: not first.is_usable)
    second = await keepers.get("a", begun)
    assert second.is_usable
    assert second.marker != first.marker
    await keepers.close()


async def test_ending_one_key_leaves_the_others_and_an_unknown_one_is_nothing() -> None:
    begun, keepers = Started(), SupervisorRegistry()
    await keepers.get("a", begun)
    kept = await keepers.get("b", begun)
    await keepers.close_supervisor("a")
    await keepers.close_supervisor("nobody")
    assert not alive(begun.pids[0])
    assert kept.is_usable
    await keepers.close()
