"""A host process that runs `yes` in eight workspaces at once, and says by how much its own memory grew.

`python -m tests.hostile.flood EXECUTOR DIRECTORY SECONDS` prints one JSON object.
"""

import asyncio
import json
import resource
import sys
from pathlib import Path

from openskills.executors.protocol import Workspace
from openskills.executors.spec import CommandResult, Limits
from tests.hostile.opening import opened, run, with_battery

AT_ONCE = 8


def resident() -> int:
    """Bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * resource.getpagesize()


async def _highest(stop: asyncio.Event) -> int:
    highest = resident()
    while not stop.is_set():
        await asyncio.sleep(0.02)
        highest = max(highest, resident())
    return highest


async def _flooded(workspace: Workspace, seconds: float) -> CommandResult:
    return await run(workspace, "yes", limits=Limits(timeout=seconds))


async def measure(name: str, directory: Path, seconds: float) -> dict[str, object]:
    """The growth, and how much was written."""
    async with opened(name, directory) as chosen:
        workspaces = [await with_battery(chosen, f"key {number}", directory) for number in range(AT_ONCE)]
        # Modules that are loaded at the first use do not count as growth.
        await asyncio.gather(*(run(workspace, "true") for workspace in workspaces))
        before = resident()
        stop = asyncio.Event()
        watching = asyncio.create_task(_highest(stop))
        ended = await asyncio.gather(*(_flooded(workspace, seconds) for workspace in workspaces))
        stop.set()
        return {
            "growth": await watching - before,
            "written": [one.stdout.total for one in ended],
            "kept": [len(one.stdout.head) + len(one.stdout.tail) for one in ended],
            "endings": [one.ending.value for one in ended],
        }


def main(name: str, directory: str, seconds: str) -> None:
    """Run and report."""
    sys.stdout.write(json.dumps(asyncio.run(measure(name, Path(directory), float(seconds)))))


if __name__ == "__main__":
    main(*sys.argv[1:])
