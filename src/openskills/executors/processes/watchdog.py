"""Looks after a running command: what no limit of the kernel covers is measured from time to time.

Costs nothing for a command that ends within a quarter of a second, and less and less for one that goes on quietly.
"""

import asyncio
import time
from collections.abc import Callable

from openskills.executors.processes.proctree import NOTHING, Footprint, footprint
from openskills.executors.records.quota import Quota
from openskills.executors.spec import Limits, Usage

__all__ = ["Quota", "watch"]

FIRST_LOOK = 0.25
_SELDOM = 2.0
_FIRST_MEASURE, _SELDOM_MEASURE = 1.0, 30.0
_SHARE = 20
"""Looking takes at most one part in so many of the time."""


async def watch(
    pid: int | None,
    limits: Limits,
    measure: Callable[[], Usage],
    quota: Quota,
    free: Callable[[], int] | None = None,
) -> str:
    """Return a sentence that names a limit, once the command under `pid` has passed it; until then, wait.

    Watched are the memory of all its processes, their number (twice what each kind of limit allows), what the workspace
    holds and, with `free`, what is left of the disk. Both functions are called in a thread, and may still be running
    when this is cancelled, which the caller does when the command has ended: they use nothing that anybody closes.
    Without a `pid`, because it means nothing here, only the workspace and the disk are watched.
    """
    processes = _Rhythm(FIRST_LOOK, _SELDOM)
    workspace = _Rhythm(_FIRST_MEASURE, _SELDOM_MEASURE)
    last: Usage | None = None
    while True:
        await asyncio.sleep(max(min(processes.due, workspace.due) - time.monotonic(), 0.0))
        if processes.due <= time.monotonic():
            with processes:
                seen = await _seen(pid, limits)
                said = _passed(seen, limits) or (_too_full(await asyncio.to_thread(free), quota) if free else "")
            processes.plan(quiet=not _near(seen, limits))
        else:
            with workspace:
                usage = await asyncio.to_thread(measure)
                said = quota.passed(usage)
            workspace.plan(quiet=usage == last)
            last = usage
        if said:
            return said


async def _seen(pid: int | None, limits: Limits) -> Footprint:
    if pid is None:
        return NOTHING
    return await asyncio.to_thread(footprint, pid, exact_above=limits.total_memory_bytes)


class _Rhythm:
    """When to look next: twice as long after each time that was quiet, at once again after one that was not."""

    def __init__(self, soon: float, seldom: float) -> None:
        self._soon = soon
        self._seldom = seldom
        self._pause = soon / 2
        self._begun = time.monotonic()
        self.due = self._begun + soon

    def __enter__(self) -> None:
        self._begun = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self._took = time.monotonic() - self._begun

    def plan(self, *, quiet: bool) -> None:
        self._pause = min(self._pause * 2, self._seldom) if quiet else self._soon
        self.due = time.monotonic() + max(self._pause, self._took * _SHARE)


def _passed(seen: Footprint, limits: Limits) -> str:
    memory, number = limits.total_memory_bytes, limits.processes
    if memory is not None and seen.memory > memory:
        return f"its {seen.processes} processes used {seen.memory:,} bytes of memory; {memory:,} is the most for all"
    if number is not None and seen.processes > 2 * number:
        return f"it had {seen.processes:,} processes; {number:,} is the most"
    return ""


def _near(seen: Footprint, limits: Limits) -> bool:
    memory, number = limits.total_memory_bytes, limits.processes
    return (memory is not None and seen.memory > memory // 4) or (number is not None and seen.processes > number // 2)


def _too_full(free: int, quota: Quota) -> str:
    if free >= quota.min_free_bytes:
        return ""
    return f"the disk has only {free:,} bytes left; {quota.min_free_bytes:,} have to stay free"
