"""A host process that runs a command which leaves processes behind, and looks for them after its end.

`python -m tests.hostile.survivors EXECUTOR DIRECTORY ENDING` prints one JSON object. ENDING is how the command
ends: `exit`, `timeout`, `kill`, `close` (of the executor).
"""

import asyncio
import json
import secrets
import subprocess
import sys
from pathlib import Path

from openskills.executors.spec import Limits
from tests.hostile.opening import end_marked, gone, marked, opened, python, said, started, with_battery
from tests.hostile.skill import write_battery

MODULE = "tests.hostile.probes.staying"
WITHIN = 2.0


async def left_by(name: str, directory: Path, ending: str) -> dict[str, object]:
    """What runs after the end of the command, and what ran before it."""
    marker = f"stay-{secrets.token_hex(8)}"
    more = () if ending == "exit" else ("stay",)
    limits = Limits(timeout=3.0 if ending == "timeout" else 60.0)
    async with opened(name, directory) as chosen:
        workspace = await with_battery(chosen, "one", directory)
        process = await started(workspace, *python(MODULE, marker, *more), limits=limits)
        await said(process, b" stay\n")
        before = len(marked(marker)) if more else -1
        if ending == "kill":
            await process.kill()
        if ending == "close":
            await chosen.close()
        ended = await process.wait()
        left = await asyncio.to_thread(gone, marker, WITHIN)
    return {"before": before, "left": left, "ending": ended.ending.value}


def left_bare(directory: Path) -> dict[str, object]:
    """The same with nothing that looks after it; they are ended here."""
    skill = write_battery(directory)
    marker = f"stay-{secrets.token_hex(8)}"
    try:
        command = [sys.executable, "-m", MODULE, marker]
        subprocess.run(command, cwd=skill, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, timeout=60)
        return {"left": sorted({line.split(f"{marker}-")[1].split()[0] for line in marked(marker).values()})}
    finally:
        end_marked(marker)


def main(name: str, directory: str, ending: str) -> None:
    """Run and report."""
    place = Path(directory)
    report = left_bare(place) if name == "bare" else asyncio.run(left_by(name, place, ending))
    sys.stdout.write(json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
