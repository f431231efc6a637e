"""A limit that a command has passed is named; one that keeps to them is left alone."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from openskills.executors.processes.watchdog import watch
from openskills.executors.records.quota import Quota
from openskills.executors.spec import Limits, Usage
from tests.executors.processes.test_proctree import CHAIN, FORKS, running

MB = 1024 * 1024
NOTHING = Usage(0, 0)
PATIENCE = 60


def nothing() -> Usage:
    return NOTHING


def sentence(pid: int, limits: Limits, usages: list[Usage] | None = None, quota: Quota | None = None) -> str:
    """What the watchdog says; `usages` are what the workspace holds, one after the other."""
    waiting = list(usages or [])

    def measure() -> Usage:
        return waiting.pop(0) if waiting else NOTHING

    async def said() -> str:
        async with asyncio.timeout(PATIENCE):
            return await watch(pid, limits, measure, quota or Quota())

    return asyncio.run(said())


def test_memory_of_all_processes_together_is_limited() -> None:
    with running(CHAIN, "1", CHAIN) as process:
        said = sentence(process.pid, Limits(total_memory_bytes=50 * MB))
    assert said.startswith("its 2 processes used ")
    assert said.endswith(f" bytes of memory; {50 * MB:,} is the most for all")


def test_the_number_of_processes_is_limited() -> None:
    with running(FORKS) as process:
        assert sentence(process.pid, Limits(processes=1)) == "it had 4 processes; 1 is the most"


def test_what_the_workspace_holds_is_limited() -> None:
    usages = [NOTHING, Usage(2 * MB, 1)]
    said = sentence(os.getpid(), Limits(total_memory_bytes=None, processes=None), usages, Quota(max_bytes=MB))
    assert said == f"the workspace holds {2 * MB:,} bytes; {MB:,} is the most"


def test_a_disk_that_is_nearly_full_ends_the_command() -> None:
    async def said() -> str:
        async with asyncio.timeout(PATIENCE):
            return await watch(os.getpid(), Limits(), nothing, Quota(min_free_bytes=100), free=lambda: 99)

    assert asyncio.run(said()) == "the disk has only 99 bytes left; 100 have to stay free"


@contextmanager
def sleeping() -> "Generator[subprocess.Popen[bytes]]":
    with subprocess.Popen([sys.executable, "-I", "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process


def test_a_short_command_is_never_looked_at() -> None:
    looked: list[str] = []

    def measure() -> Usage:
        looked.append("measured")
        return NOTHING

    def free() -> int:
        looked.append("free")
        return 1 << 60

    async def cancelled_at_once() -> None:
        watching = asyncio.create_task(watch(os.getpid(), Limits(), measure, Quota(), free))
        await asyncio.sleep(0)
        watching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await watching

    asyncio.run(cancelled_at_once())
    assert looked == []


def test_a_command_that_keeps_to_its_limits_is_left_alone_and_a_measurement_does_not_hold_up_its_end() -> None:
    async def watched(pid: int) -> int:
        measured = asyncio.Event()
        loop = asyncio.get_running_loop()
        count = 0

        def measure() -> Usage:
            nonlocal count
            count += 1
            loop.call_soon_threadsafe(measured.set)
            return Usage(count, 1)

        watching = asyncio.create_task(watch(pid, Limits(), measure, Quota()))
        async with asyncio.timeout(PATIENCE):
            while count < 2:
                await measured.wait()
                measured.clear()
        assert not watching.done()
        watching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await watching
        return count

    with sleeping() as process:
        assert asyncio.run(watched(process.pid)) >= 2


def test_a_command_that_is_gone_is_no_fault_of_the_watchdog() -> None:
    with subprocess.Popen([sys.executable, "-I", "-c", ""]) as process:
        process.wait()
    said = sentence(process.pid, Limits(), [NOTHING, Usage(0, 10)], Quota(max_files=9))
    assert said == "the workspace holds 10 files and directories; 9 is the most"
