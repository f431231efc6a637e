"""A host process that reads files of a workspace while a command in it swaps them for links to a secret outside.

`python -m tests.hostile.racing EXECUTOR DIRECTORY READS` prints one JSON object.
"""

import asyncio
import json
import os
import sys
import time
from collections import Counter
from pathlib import Path

from openskills.errors import ForbiddenPath, InvalidArgument
from openskills.executors.protocol import Workspace
from openskills.executors.spec import Limits
from tests.hostile.opening import opened, python, said, started, with_battery
from tests.hostile.planting import token
from tests.hostile.probes.swapping import INSIDE

MODULE = "tests.hostile.probes.swapping"
PATHS = ("out/race/place/secret.txt", "out/race/file")
_LISTS_ONE_IN = 50
_NAIVE_READS = 200_000


async def race(name: str, directory: Path, reads: int) -> dict[str, object]:
    """How often each kind of answer came, and how often naive reads of the same files leak."""
    outside = directory / "outside"
    outside.mkdir()
    secret = token()
    (outside / "secret.txt").write_text(secret, "ascii")
    async with opened(name, directory) as chosen:
        workspace = await with_battery(chosen, "one", directory)
        process = await started(workspace, *python(MODULE, str(outside)), limits=Limits(timeout=7200))
        await said(process, b"swapping")
        tree = directory / "state" / "workspaces" / workspace.id / "tree"
        naive = await asyncio.to_thread(_naive, tree, secret.encode())
        counts: Counter[str] = Counter()
        began = time.monotonic()
        for number in range(reads):
            counts[_kind(await _read(workspace, PATHS[number % 2]), secret)] += 1
            if number % _LISTS_ONE_IN == 0:
                counts[_kind(await _listed(workspace), secret)] += 1
        took = time.monotonic() - began
        await process.kill()
    return {"counts": counts, "naive": {_kind(data, secret): count for data, count in naive.items()}, "seconds": took}


async def _read(workspace: Workspace, path: str) -> bytes:
    try:
        async with workspace.open(path) as reading:
            return b"".join([chunk async for chunk in reading.chunks])
    except (ForbiddenPath, InvalidArgument):
        return b""


async def _listed(workspace: Workspace) -> bytes:
    """Everything that collecting would hand out."""
    listing = await workspace.list(["out/**"])
    return b"".join([await _read(workspace, file.path) for file in listing.files])


def _naive(tree: Path, secret: bytes) -> Counter[bytes]:
    """What one gets who resolves a path, finds it inside, and opens it, until it leaks for the first time."""
    found: Counter[bytes] = Counter()
    for number in range(_NAIVE_READS):
        if found[secret]:
            break
        path = tree / PATHS[number % 2]
        try:
            if os.path.realpath(path).startswith(str(tree)):
                found[path.read_bytes()] += 1
        except OSError:
            found[b""] += 1
    return found


def _kind(data: bytes, secret: str) -> str:
    if secret.encode() in data:
        return "leaked"
    if not data:
        return "refused"
    return "inside" if set(data.decode("ascii").split(INSIDE)) == {""} else "something else"


def main(name: str, directory: str, reads: str) -> None:
    """Run and report."""
    sys.stdout.write(json.dumps(asyncio.run(race(name, Path(directory), int(reads)))))


if __name__ == "__main__":
    main(*sys.argv[1:])
