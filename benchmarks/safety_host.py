"""A host process for the hostile cases, in whatever environment has what is to be tried.

`safety_host.py probes PEER DIRECTORY` runs the harmless probes of the battery through another library, and
`safety_host.py endings SUBJECT DIRECTORY` runs commands that do not want to end through anything. Each prints one JSON
object. Everything that is planted around, looked for and ended is of this program's own making.
"""

import asyncio
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

from safety_trials import endings
from safety_ways import WAYS

from tests.hostile import bare
from tests.hostile.host import REPOSITORY, harmless
from tests.hostile.planting import planted, results_in
from tests.hostile.skill import COMMAND, write_battery

TIMEOUT = 100.0
RESULTS = "work/results.txt"


async def probes(peer: str, directory: Path) -> dict[str, object]:
    """What each probe got hold of under a library, which sees a directory that looks like a workspace."""
    place = bare.make_place(directory, write_battery(directory))
    # Through a pipe: a library may show only the beginning, and a stream that is a file is something to get hold of.
    command = f"{' '.join(COMMAND)} | cat > {RESULTS}"
    with planted(place, directory, REPOSITORY) as things:
        world = replace(things.world, only=harmless(terminal=False))
        (place.tree / "work" / "world.json").write_text(world.dump(), "utf-8")
        await WAYS[peer](place.tree).run(command, TIMEOUT)
        results = results_in((place.tree / RESULTS).read_text("utf-8", "replace"))
        return {"results": results, "touched": things.touched()}


async def main(what: str, subject: str, directory: str) -> None:
    """Run and report."""
    report = await (probes if what == "probes" else endings)(subject, Path(directory))
    sys.stdout.write(json.dumps(report))
    sys.stdout.flush()
    # Whatever still waits for something is not waited for.
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
