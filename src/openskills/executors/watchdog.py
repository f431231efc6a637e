"""Memory, disk, process trees.

The processes below one process, and the memory they use, as /proc shows them. Blocking, Linux only.

Looks after a running command: what no limit of the kernel covers is measured from time to time.

Costs nothing for a command that ends within a quarter of a second, and less and less for one that goes on quietly.
"""

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from openskills.executors.records.quota import Quota
from openskills.executors.spec import Limits, WorkspaceUsage

_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Footprint:
    """How many processes there are, and how many bytes of memory they have together."""

    processes: int
    memory: int


EMPTY_FOOTPRINT = Footprint(0, 0)


def measure_footprint(pid: int, *, exact_above: int | None = None, most: int = 4096) -> Footprint:
    """What a process and all below it use; those that end meanwhile may be missing. Stops counting at `most`.

    Memory is first the sum of what each has resident, which counts shared pages many times. Where that is more than
    `exact_above`, each page is counted once, as far as we may look: that takes longer.
    """
    pids = list_descendants(pid, most=most)
    memory = sum(map(_read_resident, pids))
    if exact_above is not None and memory > exact_above:
        memory = sum(map(_read_proportional, pids))
    return Footprint(len(pids), memory)


def list_descendants(pid: int, *, most: int = 4096) -> list[int]:
    """A process and all below it, also those inside of a namespace of their own."""
    found = [pid] if os.path.exists(f"/proc/{pid}") else []
    for parent in found:
        if len(found) > most:
            break
        found.extend(_list_children(parent))
    return found


def _list_children(pid: int) -> list[int]:
    # Each thread has its own. Who is gone has none.
    children: list[int] = []
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            children += map(int, _read_file(f"/proc/{pid}/task/{task}/children").split())
    return children


def _read_resident(pid: int) -> int:
    fields = _read_file(f"/proc/{pid}/statm").split()
    return int(fields[1]) * _PAGE if len(fields) > 1 else 0


def _read_proportional(pid: int) -> int:
    for line in _read_file(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) * 1024
    # Not ours to look at in such detail: then with what it shares.
    return _read_resident(pid)


def _read_file(path: str) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    found = b""
    try:
        # A long list comes in pieces of a page.
        while piece := os.read(descriptor, 1 << 16):
            found += piece
    except OSError:
        return b""
    finally:
        os.close(descriptor)
    return found


__all__ = ["Quota", "watch"]

FIRST_CHECK = 0.25
_MAX_INTERVAL = 2.0
_FIRST_MEASURE, _MAX_MEASURE_INTERVAL = 1.0, 30.0
_SHARE = 20
"""Looking takes at most one part in so many of the time."""


async def watch(
    pid: int | None,
    limits: Limits,
    measure: Callable[[], WorkspaceUsage],
    quota: Quota,
    free: Callable[[], int] | None = None,
) -> str:
    """Return a sentence that names a limit, once the command under `pid` has passed it; until then, wait.

    Watched are the memory of all its processes, their number (twice what each kind of limit allows), what the workspace
    holds and, with `free`, what is left of the disk. Both functions are called in a thread, and may still be running
    when this is cancelled, which the caller does when the command has ended: they use nothing that anybody closes.
    Without a `pid`, because it means nothing here, only the workspace and the disk are watched.
    """
    processes = _BackoffTimer(FIRST_CHECK, _MAX_INTERVAL)
    workspace = _BackoffTimer(_FIRST_MEASURE, _MAX_MEASURE_INTERVAL)
    last: WorkspaceUsage | None = None
    while True:
        await asyncio.sleep(max(min(processes.due, workspace.due) - time.monotonic(), 0.0))
        if processes.due <= time.monotonic():
            with processes:
                seen = await _measure_processes(pid, limits)
                said = _describe_excess(seen, limits) or (
                    _describe_full_disk(await asyncio.to_thread(free), quota) if free else ""
                )
            processes.schedule(quiet=not _is_near_limit(seen, limits))
        else:
            with workspace:
                usage = await asyncio.to_thread(measure)
                said = quota.describe_excess(usage)
            workspace.schedule(quiet=usage == last)
            last = usage
        if said:
            return said


async def _measure_processes(pid: int | None, limits: Limits) -> Footprint:
    if pid is None:
        return EMPTY_FOOTPRINT
    return await asyncio.to_thread(measure_footprint, pid, exact_above=limits.total_memory_bytes)


class _BackoffTimer:
    """When to look next: twice as long after each time that was quiet, at once again after one that was not."""

    def __init__(self, soon: float, seldom: float) -> None:
        self._min_interval = soon
        self._max_interval = seldom
        self._pause = soon / 2
        self._started_at = time.monotonic()
        self.due = self._started_at + soon

    def __enter__(self) -> None:
        self._started_at = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self._took = time.monotonic() - self._started_at

    def schedule(self, *, quiet: bool) -> None:
        self._pause = min(self._pause * 2, self._max_interval) if quiet else self._min_interval
        self.due = time.monotonic() + max(self._pause, self._took * _SHARE)


def _describe_excess(seen: Footprint, limits: Limits) -> str:
    memory, number = limits.total_memory_bytes, limits.processes
    if memory is not None and seen.memory > memory:
        return f"its {seen.processes} processes used {seen.memory:,} bytes of memory; {memory:,} is the most for all"
    if number is not None and seen.processes > 2 * number:
        return f"it had {seen.processes:,} processes; {number:,} is the most"
    return ""


def _is_near_limit(seen: Footprint, limits: Limits) -> bool:
    memory, number = limits.total_memory_bytes, limits.processes
    return (memory is not None and seen.memory > memory // 4) or (number is not None and seen.processes > number // 2)


def _describe_full_disk(free: int, quota: Quota) -> str:
    if free >= quota.min_free_bytes:
        return ""
    return f"the disk has only {free:,} bytes left; {quota.min_free_bytes:,} have to stay free"
