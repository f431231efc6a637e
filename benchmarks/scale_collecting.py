"""One output file brought to a store of artifacts, in a process of its own: `scale_collecting.py SCRATCH SIZE TURNS`.

Prints one JSON object: the seconds of each turn, of `ours` and of a copy that is made `by_hand`, and the `peak` of this
process's memory, and what that was `before`.
"""

import asyncio
import hashlib
import json
import os
import shutil
import sys
import time
from pathlib import Path

from probe import peak_memory
from running_bench import ground

from openskills.artifacts.files import FileArtifactStore
from openskills.artifacts.store import Scope
from openskills.executors.protocol import Workspace
from openskills.executors.staging.outputs import OutputSpec, collect_outputs, save_outputs

PIECE = 1024 * 1024
SPEC = OutputSpec(("out/**",), inline=False, save=True)


async def measured(scratch: Path, size: int, turns: int) -> dict[str, object]:
    """All turns; the first files are small, so that what is made at the first use is there before."""
    async with ground("local", scratch) as place:
        workspace = (await place.bench()).workspace
        file = Path(workspace.root) / "out" / "large.bin"
        _write(file, PIECE)
        await _kept(workspace, scratch / "first", PIECE)
        file.unlink()
        _write(file, size)
        # Whoever writes so much for the first time pays for the disk, so that time does not count.
        _copied(file, scratch / "copy.bin")
        before = peak_memory() * 1024
        ours: list[float] = []
        by_hand: list[float] = []
        for turn in range(turns):
            ours.append(await _kept(workspace, scratch / f"store-{turn}", size))
            by_hand.append(_copied(file, scratch / "copy.bin"))
    return {"ours": ours, "by_hand": by_hand, "peak": peak_memory() * 1024, "before": before}


async def _kept(workspace: Workspace, root: Path, size: int) -> float:
    """Collect, and keep what was collected."""
    store = FileArtifactStore(root)
    begin = time.perf_counter()
    collected = await collect_outputs(workspace, SPEC)
    saved = await save_outputs(workspace, collected.files, store, Scope("bench", "user", "session"))
    seconds = time.perf_counter() - begin
    if [artifact.size for artifact in saved.artifacts] != [size]:
        raise RuntimeError(f"not kept: {collected.warnings} {saved.warnings}")
    shutil.rmtree(root)
    return seconds


def _copied(source: Path, target: Path) -> float:
    """What a careful script of one's own would do: copy in pieces, with a digest, to the disk."""
    begin = time.perf_counter()
    digest = hashlib.sha256()
    with source.open("rb") as reading, target.open("wb") as writing:
        while piece := reading.read(PIECE):
            digest.update(piece)
            writing.write(piece)
        writing.flush()
        os.fsync(writing.fileno())
    seconds = time.perf_counter() - begin
    target.unlink()
    return seconds


def _write(path: Path, size: int) -> None:
    piece = os.urandom(PIECE)
    path.parent.mkdir(exist_ok=True)
    with path.open("wb") as file:
        for start in range(0, size, PIECE):
            file.write(piece[: min(PIECE, size - start)])
        # What is still to be written would be paid for by the next measurement.
        file.flush()
        os.fsync(file.fileno())


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measured(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))))
