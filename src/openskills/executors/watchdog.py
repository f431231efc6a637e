"""Watchdog for running commands: memory, number of processes, and disk usage, which kernel limits do not cover.

It costs nothing for a command that ends within a quarter of a second, and little for one that runs quietly. Linux only.
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
    """The number of processes and their total memory in bytes."""

    processes: int
    memory: int


EMPTY_FOOTPRINT = Footprint(0, 0)


def measure_footprint(pid: int, *, exact_above: int | None = None, max_processes: int = 4096) -> Footprint:
    """The usage of a process and its descendants, up to `max_processes` of them. Blocking.

    Memory is the sum of resident sizes, which counts shared pages several times. If that exceeds `exact_above`, each
    page is counted once as far as permissions allow, which takes longer.
    """
    pids = list_descendants(pid, max_processes=max_processes)
    memory = sum(map(_read_resident, pids))
    if exact_above is not None and memory > exact_above:
        memory = sum(map(_read_proportional, pids))
    return Footprint(len(pids), memory)


def list_descendants(pid: int, *, max_processes: int = 4096) -> list[int]:
    """A process and all its descendants, including those in other namespaces. Blocking."""
    found = [pid] if os.path.exists(f"/proc/{pid}") else []
    for parent in found:
        if len(found) > max_processes:
            break
        with suppress(OSError):
            # Each thread has its own list.
            for task in os.listdir(f"/proc/{parent}/task"):
                found += map(int, _read_file(f"/proc/{parent}/task/{task}/children").split())
    return found


def _read_resident(pid: int) -> int:
    fields = _read_file(f"/proc/{pid}/statm").split()
    return int(fields[1]) * _PAGE if len(fields) > 1 else 0


def _read_proportional(pid: int) -> int:
    for line in _read_file(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) * 1024
    # Not permitted: fall back to the resident size.
    return _read_resident(pid)


def _read_file(path: str) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    found = b""
    try:
        # A long list arrives in pages.
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
"""Checks take at most 1/20 of the time."""


async def watch(
    pid: int | None,
    limits: Limits,
    measure: Callable[[], WorkspaceUsage],
    quota: Quota,
    free: Callable[[], int] | None = None,
) -> str:
    """Wait until the command under `pid` exceeds a limit, and return a sentence that names it.

    Monitors the memory and the number of its processes (up to twice the limit), the size of the workspace and, with
    `free`, the free disk space. Both functions are called in a thread, which may still run after this is cancelled, so
    they must not use anything that gets closed. Without a `pid`, only the workspace and the disk are monitored.
    """
    processes = _BackoffTimer(FIRST_CHECK, _MAX_INTERVAL)
    workspace = _BackoffTimer(_FIRST_MEASURE, _MAX_MEASURE_INTERVAL)
    last: WorkspaceUsage | None = None
    while True:
        await asyncio.sleep(max(min(processes.due, workspace.due) - time.monotonic(), 0.0))
        if processes.due <= time.monotonic():
            with processes:
                seen, memory = EMPTY_FOOTPRINT, limits.total_memory_bytes
                if pid is not None:
                    seen = await asyncio.to_thread(measure_footprint, pid, exact_above=memory)
                message = _describe_excess(seen, limits)
                if not message and free is not None and (left := await asyncio.to_thread(free)) < quota.min_free_bytes:
                    message = f"only {left:,} bytes of disk space are left; {quota.min_free_bytes:,} must stay free"
            processes.schedule(quiet=not _is_near_limit(seen, limits))
        else:
            with workspace:
                usage = await asyncio.to_thread(measure)
                message = quota.describe_excess(usage)
            workspace.schedule(quiet=usage == last)
            last = usage
        if message:
            return message


class _BackoffTimer:
    """When to check next: the interval doubles after each quiet check and is reset by any other."""

    def __init__(self, min_interval: float, max_interval: float) -> None:
        self._min_interval = min_interval
        self._max_interval = max_interval
        self._pause = min_interval / 2
        self._started_at = time.monotonic()
        self.due = self._started_at + min_interval

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
        return f"its {seen.processes} processes used {seen.memory:,} bytes of memory; the limit is {memory:,}"
    if number is not None and seen.processes > 2 * number:
        return f"it had {seen.processes:,} processes; the limit is {number:,}"
    return ""


def _is_near_limit(seen: Footprint, limits: Limits) -> bool:
    memory, number = limits.total_memory_bytes, limits.processes
    return (memory is not None and seen.memory > memory // 4) or (number is not None and seen.processes > number // 2)
