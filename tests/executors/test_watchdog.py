"""All processes below one are found, and their memory is added up.

A limit that a command has passed is named; one that keeps to them is left alone.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from openskills.executors.records.quota import Quota
from openskills.executors.spec import Limits, WorkspaceUsage
from openskills.executors.watchdog import Footprint, list_descendants, measure_footprint, watch

# Three processes below each other: the last one has 60 MB. It says when it is there, and goes when its input ends.
PROCTREE_CHAIN = """
import os, sys
if sys.argv[1] == "0":
    data = bytearray(60 * 1024 * 1024)
    for place in range(0, len(data), 4096): data[place] = 1
    print("ready", flush=True); sys.stdin.read()
else:
    import subprocess
    subprocess.run([sys.executable, "-I", "-c", sys.argv[2], str(int(sys.argv[1]) - 1), sys.argv[2]])
"""
PROCTREE_FORKS = """
import os, sys
data = bytearray(40 * 1024 * 1024)
for place in range(0, len(data), 4096): data[place] = 1
for _ in range(3):
    if not os.fork(): sys.stdin.read(); os._exit(0)
print("ready", flush=True); sys.stdin.read()
"""
THREADED = """
import subprocess, sys, threading
def start(): subprocess.run([sys.executable, "-I", "-c", "import sys; print('ready', flush=True); sys.stdin.read()"])
thread = threading.Thread(target=start); thread.start(); thread.join()
"""


@contextmanager
def running_proctree(program: str, *arguments: str) -> "Generator[subprocess.Popen[bytes]]":
    command = [sys.executable, "-I", "-c", program, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        try:
            yield process
        finally:
            assert process.stdin
            process.stdin.close()


def test_grandchildren_count() -> None:
    with running_proctree(PROCTREE_CHAIN, "2", PROCTREE_CHAIN) as process:
        assert len(list_descendants(process.pid)) == 3
        seen = measure_footprint(process.pid)
        assert seen.processes == 3
        assert seen.memory > 60 * MB


def test_children_of_threads_count() -> None:
    with running_proctree(THREADED) as process:
        assert len(list_descendants(process.pid)) == 2


def test_shared_memory_counts_once_where_it_matters() -> None:
    with running_proctree(PROCTREE_FORKS) as process:
        each = measure_footprint(process.pid)
        assert (each.processes, each.memory > 4 * 40 * MB) == (4, True)
        once = measure_footprint(process.pid, exact_above=100 * MB)
        assert 40 * MB < once.memory < 100 * MB


def test_who_is_gone_uses_nothing() -> None:
    with subprocess.Popen([sys.executable, "-I", "-c", ""]) as process:
        process.wait()
    assert measure_footprint(process.pid) == Footprint(0, 0)


def test_counting_stops_when_there_are_too_many() -> None:
    with running_proctree(PROCTREE_FORKS) as process:
        assert len(list_descendants(process.pid, max_processes=0)) == 1


def test_this_process_is_found() -> None:
    assert os.getpid() in list_descendants(os.getppid())


MB = 1024 * 1024
NOTHING = WorkspaceUsage(0, 0)
PATIENCE = 60


def nothing() -> WorkspaceUsage:
    return NOTHING


def sentence(pid: int, limits: Limits, usages: list[WorkspaceUsage] | None = None, quota: Quota | None = None) -> str:
    """What the watchdog says; `usages` are what the workspace holds, one after the other."""
    waiting = list(usages or [])

    def measure() -> WorkspaceUsage:
        return waiting.pop(0) if waiting else NOTHING

    async def said() -> str:
        async with asyncio.timeout(PATIENCE):
            return await watch(pid, limits, measure, quota or Quota())

    return asyncio.run(said())


def test_memory_of_all_processes_together_is_limited() -> None:
    with running_proctree(PROCTREE_CHAIN, "1", PROCTREE_CHAIN) as process:
        said = sentence(process.pid, Limits(total_memory_bytes=50 * MB))
    assert said.startswith("its 2 processes used ")
    assert said.endswith(f" bytes of memory; the limit is {50 * MB:,}")


def test_the_number_of_processes_is_limited() -> None:
    with running_proctree(PROCTREE_FORKS) as process:
        assert sentence(process.pid, Limits(processes=1)) == "it had 4 processes; the limit is 1"


def test_what_the_workspace_holds_is_limited() -> None:
    usages = [NOTHING, WorkspaceUsage(2 * MB, 1)]
    said = sentence(os.getpid(), Limits(total_memory_bytes=None, processes=None), usages, Quota(max_bytes=MB))
    assert said == f"the workspace has {2 * MB:,} bytes; the maximum is {MB:,}"


async def test_a_disk_that_is_nearly_full_ends_the_command() -> None:
    async with asyncio.timeout(PATIENCE):
        result = await watch(os.getpid(), Limits(), nothing, Quota(min_free_bytes=100), free=lambda: 99)

    assert result == "only 99 bytes of disk space are left; 100 must stay free"


@contextmanager
def sleeping() -> "Generator[subprocess.Popen[bytes]]":
    with subprocess.Popen([sys.executable, "-I", "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process


async def test_a_short_command_is_never_looked_at() -> None:
    looked: list[str] = []

    def measure() -> WorkspaceUsage:
        looked.append("measured")
        return NOTHING

    def free() -> int:
        looked.append("free")
        return 1 << 60

    watching = asyncio.create_task(watch(os.getpid(), Limits(), measure, Quota(), free))
    await asyncio.sleep(0)
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching

    assert looked == []


async def test_a_command_that_keeps_to_its_limits_is_left_alone_and_a_measurement_does_not_hold_up_its_end() -> None:
    async def watched(pid: int) -> int:
        measured = asyncio.Event()
        loop = asyncio.get_running_loop()
        count = 0

        def measure() -> WorkspaceUsage:
            nonlocal count
            count += 1
            loop.call_soon_threadsafe(measured.set)
            return WorkspaceUsage(count, 1)

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
        assert await watched(process.pid) >= 2


def test_a_command_that_is_gone_is_no_fault_of_the_watchdog() -> None:
    with subprocess.Popen([sys.executable, "-I", "-c", ""]) as process:
        process.wait()
    said = sentence(process.pid, Limits(), [NOTHING, WorkspaceUsage(0, 10)], Quota(max_files=9))
    assert said == "the workspace has 10 files and directories; the maximum is 9"
