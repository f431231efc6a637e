"""What a host holds after many calls, against what it held after a few."""

import os
from pathlib import Path

from host_load import CONNECTIONS, only_ours
from host_wrk import pressed
from report import Target
from running_part import Part, Surroundings, plain_table

CALLS = 100_000
SKILL = "local_reuse"
FORKED = "local_fork"
_WARM_SECONDS, _SHARE = 4, 0.1
_ABOUT = f"""
Memory (PSS) of the host and all its processes after {_WARM_SECONDS} seconds of calls, and after {CALLS:,} calls, a
tenth of them in new processes and the others in a reused one, with all features enabled. Measured once, with one
host.
"""


async def measure(at: Surroundings) -> Part:
    """The same host, early and late."""
    calls = CALLS if at.extent.many >= 100 else 400
    sizes: list[tuple[int, float]] = []
    async with only_ours(at.scratch) as (addresses, pid):
        done = 0
        for name, wanted in ((FORKED, calls * _SHARE), (SKILL, calls)):
            while done < wanted:
                load = await pressed(addresses[name], at.scratch, connections=CONNECTIONS, seconds=_WARM_SECONDS)
                done += load.requests
                at.say(f"{done:,} of {calls:,} calls")
                sizes.append((done, memory_of(pid) / 1e6))
    first, last = sizes[0][1], sizes[-1][1]
    # How many calls it were at the end is in the table: a promise has one name in every run.
    what = f"memory after {calls:,} calls, relative to {_WARM_SECONDS} seconds of calls"
    target = Target(what, last / first, 1.3, at_least=False, digits=2)
    rows = [[f"{done:,}", f"{size:.0f} MB"] for done, size in (sizes[0], sizes[len(sizes) // 2], sizes[-1])]
    return Part("Memory", _ABOUT, [target], plain_table(["calls", "memory"], rows), raw={"sizes": sizes})


def memory_of(pid: int) -> int:
    """Bytes that a process and all below it hold, shared pages divided."""
    found = [pid]
    for parent in found:
        for task in _names(f"/proc/{parent}/task"):
            found += map(int, _text(f"/proc/{parent}/task/{task}/children").split())
    return sum(_pss(one) for one in found)


def _pss(pid: int) -> int:
    for line in _text(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def _names(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []


def _text(path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except OSError:
        # It has ended meanwhile.
        return ""
