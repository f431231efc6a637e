"""Many interactive sandboxes held at once: `running_held.py COUNT` does it in a process of its own, printing JSON."""

import asyncio
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from memory import available, descendants, identity, taken_by
from reasons import one_line
from report import Target, time_text
from running_bench import Ground, ground
from running_part import Part, Surroundings, plain_table
from sampling import Series

from openskills.errors import ExecutorUnavailable
from openskills.executors.commands import CommandRunner
from openskills.executors.protocol import Process
from openskills.executors.requests import RunRequest
from openskills.executors.spec import Limits, TerminalSize

_TRIPS = 4
_TIMEOUT = 30.0
_SEED = 20261115

_ABOUT = """
Sessions in one process, each with a workspace, a sandbox and an interactive `bash` on a terminal, all open at the
same time. Memory is the proportional set size (PSS) of all their processes plus the growth of the parent process, per
session; the memory that the machine lost, which includes the kernel's, is listed separately. A round trip sends a sum
to one shell and waits for the result, while all others are open. After closing, no process may be left.
"""


@dataclass(frozen=True)
class Held:
    """What came out. Times are medians or shares of them, in seconds; memory in bytes for each."""

    count: int
    processes: int
    unreadable: int
    memory: float
    machine: float
    opened: float
    opened_p95: float
    trip: float
    trip_p95: float
    closed: float
    left: int


async def measure(at: Surroundings) -> Part:
    """As many as the extent says, in a fresh process."""
    count = at.extent.held
    at.say(f"holding {count} interactive sandboxes")
    command = [sys.executable, str(Path(__file__)), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 3:
        why = one_line(done.stderr)
        return Part("Many open sandboxes", _ABOUT, _targets(count, None, why), "", missing=[f"the sandbox: {why}"])
    if done.returncode:
        raise RuntimeError(f"holding {count} sandboxes failed:\n{done.stderr}")
    held = Held(**json.loads(done.stdout.splitlines()[-1]))
    return Part("Many open sandboxes", _ABOUT, _targets(count, held, ""), _table(held), raw=asdict(held))


def _targets(count: int, held: Held | None, why: str) -> list[Target]:
    memory = held.memory / 1e6 if held and not held.unreadable else None
    why = why or "the memory of other users' processes cannot be read"
    return [
        Target(f"{count} open sandboxes: memory of each", memory, 3, at_least=False, unit="MB", why=why),
        Target(f"{count} open sandboxes: p95 of a round trip", held and held.trip_p95 * 1000, 5, False, "ms", why=why),
        Target(f"{count} sandboxes closed: processes left", held and held.left, 0, False, "processes", 0, why=why),
    ]


def _table(held: Held) -> str:
    rows = [
        ("processes of all sandboxes", f"{held.processes:,}"),
        ("memory of each (PSS, with growth of the parent)", f"{held.memory / 1e6:.2f} MB"),
        ("memory lost by the machine, for each", f"{held.machine / 1e6:.2f} MB"),
        ("workspace opened and prompt shown: median", time_text(held.opened)),
        ("workspace opened and prompt shown: p95", time_text(held.opened_p95)),
        ("round trip: median", time_text(held.trip)),
        ("round trip: p95", time_text(held.trip_p95)),
        ("all closed in", time_text(held.closed)),
    ]
    return plain_table(("", f"{held.count:,} at once"), rows)


class _Shell:
    """One interactive shell, and how far its output was read."""

    def __init__(self, bench: CommandRunner, process: Process) -> None:
        self.bench = bench
        self._process = process
        self._offset = 0

    @classmethod
    async def opened(cls, place: Ground) -> "_Shell":
        bench = await place.bench()
        request = RunRequest(("bash", "--norc"), terminal=TerminalSize(), limits=Limits(timeout=3600))
        shell = cls(bench, (await bench.start(request)).process)
        await shell.until(b"$ ")
        return shell

    async def sum(self, first: int, second: int) -> None:
        """Let it add two numbers; what is typed does not contain the result."""
        await self._process.write(b"echo $((%d + %d))\r" % (first, second))
        await self.until(b"%d\r\n" % (first + second))

    async def until(self, wanted: bytes) -> None:
        seen = b""
        deadline = time.monotonic() + _TIMEOUT
        while wanted not in seen:
            if time.monotonic() > deadline:
                raise RuntimeError(f"the shell said {seen!r} and not {wanted!r}")
            output = await self._process.read(self._offset, wait=_TIMEOUT)
            seen += output.data
            self._offset = output.next_offset


async def hold(count: int, scratch: Path) -> Held:
    """Open, measure, talk to all, close."""
    async with ground("sandbox", scratch) as place:
        # What is made once, for the first of them, is not a cost of each.
        await (await _Shell.opened(place)).bench.close()
        before, machine_before = taken_by(os.getpid()), available()
        shells: list[_Shell] = []
        opened = [await _timed(_open_into(shells, place)) for _ in range(count)]
        after, machine_after = taken_by(os.getpid()), available()
        family = [identity(pid) for pid in descendants(os.getpid())]
        trips = Series(tuple(await _trips(shells)))
        closed = await _timed(asyncio.gather(*(shell.bench.close() for shell in shells)))
    left = await _left([one for one in family if one is not None])
    return Held(
        count,
        after.processes - before.processes,
        after.unreadable,
        (after.size - before.size) / count,
        (machine_before - machine_after) / count,
        Series(tuple(opened)).median,
        Series(tuple(opened)).at(0.95),
        trips.median,
        trips.at(0.95),
        closed,
        left,
    )


async def _open_into(shells: list[_Shell], place: Ground) -> None:
    shells.append(await _Shell.opened(place))


async def _timed(work: Any) -> float:
    begin = time.perf_counter()
    await work
    return time.perf_counter() - begin


async def _trips(shells: list[_Shell]) -> list[float]:
    dice = random.Random(_SEED)
    order = shells * _TRIPS
    dice.shuffle(order)
    return [await _timed(shell.sum(dice.randint(10_000, 49_999), dice.randint(10_000, 49_999))) for shell in order]


async def _left(family: list[tuple[int, str]]) -> int:
    """How many of these processes do not go away."""
    deadline = time.monotonic() + _TIMEOUT
    while (left := [one for one in family if identity(one[0]) == one]) and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    return len(left)


def main(count: int) -> int:
    """Hold so many and print what came out; exit 3 when there is no sandbox here."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with tempfile.TemporaryDirectory(prefix="openskills-bench-") as scratch:
        try:
            held = asyncio.run(hold(count, Path(scratch)))
        except ExecutorUnavailable as error:
            print(error.message, file=sys.stderr)
            return 3
    print(json.dumps(asdict(held)))
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
