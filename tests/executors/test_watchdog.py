"""All processes below one are found, and their memory is added up.

A limit that a command has passed is named; one that keeps to them is left alone.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

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
TIMEOUT = 60


def nothing() -> WorkspaceUsage:
    return NOTHING


async def sentence(
    pid: int,
    limits: Limits,
    usages: list[WorkspaceUsage] | None = None,
    quota: Quota | None = None,
    disk: Path | None = None,
) -> str:
    """What the watchdog says; `usages` are what the workspace holds, one after the other."""
    waiting = list(usages or [])

    def measure() -> WorkspaceUsage:
        return waiting.pop(0) if waiting else NOTHING

    async with asyncio.timeout(TIMEOUT):
        return await watch(pid, limits, measure, quota or Quota(), disk)


async def test_memory_of_all_processes_together_is_limited() -> None:
    with running_proctree(PROCTREE_CHAIN, "1", PROCTREE_CHAIN) as process:
        said = await sentence(process.pid, Limits(total_memory_bytes=50 * MB))
    assert said.startswith("its 2 processes used ")
    assert said.endswith(f" bytes of memory; the limit is {50 * MB:,}")


async def test_the_number_of_processes_is_limited() -> None:
    with running_proctree(PROCTREE_FORKS) as process:
        assert await sentence(process.pid, Limits(processes=1)) == "it had 4 processes; the limit is 1"


async def test_what_the_workspace_holds_is_limited() -> None:
    usages = [NOTHING, WorkspaceUsage(2 * MB, 1)]
    said = await sentence(os.getpid(), Limits(total_memory_bytes=None, processes=None), usages, Quota(max_bytes=MB))
    assert said == f"the workspace has {2 * MB:,} bytes; the maximum is {MB:,}"


async def test_a_disk_that_is_nearly_full_ends_the_command(tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT):
        result = await watch(os.getpid(), Limits(), nothing, Quota(min_free_bytes=1 << 60), tmp_path)

    assert result.endswith(f" bytes of disk space are left; {1 << 60:,} must stay free")


# Pages that no process has mapped in, and that stay as long as the mapping.
UNMAPPED = """
import mmap, sys
memory = mmap.mmap(-1, 80 * 1024 * 1024)
for start in range(0, len(memory), 8 * 1024 * 1024):
    memory[start : start + 8 * 1024 * 1024] = b"x" * (8 * 1024 * 1024)
    memory.madvise(mmap.MADV_DONTNEED)
print("ready", flush=True); sys.stdin.read()
"""
SOCKETS = """
import socket, sys
kept = []
for _ in range(300):
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    kept += [ours, theirs]
    try:
        while True: ours.send(b"x" * 65536)
    except BlockingIOError:
        pass
print("ready", flush=True); sys.stdin.read()
"""
UNLINKED = """
import mmap, os, sys
for number in range(2):
    file = open(f"{sys.argv[1]}/{number}", "w+b")
    os.unlink(file.name)
    file.write(b"x" * 5 * 1024 * 1024)
    file.flush()
    if number: mapping = mmap.mmap(file.fileno(), 0); file.close()
    else: first = file
print("ready", flush=True); sys.stdin.read()
"""


@pytest.mark.parametrize("program", [UNMAPPED, SOCKETS], ids=["shared memory", "sockets"])
async def test_memory_outside_of_the_resident_size_counts(program: str) -> None:
    with running_proctree(program) as process:
        assert measure_footprint(process.pid).memory > 80 * MB
        assert measure_footprint(process.pid, exact_above=0).memory > 80 * MB
        assert "bytes of memory; the limit is" in await sentence(process.pid, Limits(total_memory_bytes=70 * MB))


async def test_unlinked_files_count_for_the_workspace(tmp_path: Path) -> None:
    with running_proctree(UNLINKED, str(tmp_path)) as process:
        assert 10 * MB <= measure_footprint(process.pid, disk=tmp_path.stat().st_dev).unlinked < 11 * MB
        said = await sentence(process.pid, Limits(), quota=Quota(max_bytes=9 * MB), disk=tmp_path)
        assert "bytes of unlinked files" in said
        both = [WorkspaceUsage(9 * MB, 1)] * 5
        assert (await sentence(process.pid, Limits(), both, Quota(max_bytes=12 * MB), tmp_path)).startswith(
            "the workspace has "
        )


@contextmanager
def sleeping() -> "Generator[subprocess.Popen[bytes]]":
    with subprocess.Popen([sys.executable, "-I", "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process


async def test_a_short_command_is_never_looked_at() -> None:
    looked: list[str] = []

    def measure() -> WorkspaceUsage:
        looked.append("measured")
        return NOTHING

    watching = asyncio.create_task(watch(os.getpid(), Limits(), measure, Quota()))
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
        async with asyncio.timeout(TIMEOUT):
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


async def test_a_command_that_is_gone_is_not_a_fault_of_the_watchdog() -> None:
    with subprocess.Popen([sys.executable, "-I", "-c", ""]) as process:
        process.wait()
    said = await sentence(process.pid, Limits(), [NOTHING, WorkspaceUsage(0, 10)], Quota(max_files=9))
    assert said == "the workspace has 10 files and directories; the maximum is 9"
