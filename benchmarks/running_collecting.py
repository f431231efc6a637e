"""Bringing 100 files of 1 MB back from a workspace, against plainly reading them."""

import time
from pathlib import Path

from report import Target
from running_bench import ground
from running_part import Part, Surroundings, raw_series, series_table
from sampling import Way, in_turns, timed

from openskills.executors.protocol import Workspace
from openskills.executors.spec import MIB
from openskills.executors.staging.outputs import OutputSpec, collect_outputs

FILES, SIZE = 100, 1_000_000
READ, COLLECTED = "reading the files", "OpenSkill, collect"

_ABOUT = f"""
{FILES} files of 1 MB in `out/`. The baseline is `open` and `read` of known paths. Collecting finds files with a
pattern, opens each without following links, detects its type, and returns its content within limits.
"""


async def measure(at: Surroundings) -> Part:
    """Both, from the cache of the system."""
    async with ground("local", at.scratch) as place:
        bench = await place.bench()
        for number in range(FILES):
            await bench.workspace.write(f"out/part{number:03d}.bin", number.to_bytes(2, "big") * (SIZE // 2))
        at.say(f"collecting {FILES} files")
        found = await in_turns(
            {READ: _reading(Path(bench.workspace.root)), COLLECTED: _collecting(bench.workspace)}, at.extent.few
        )
    ratio = found[COLLECTED].median / found[READ].median
    return Part(
        "Collecting files",
        _ABOUT,
        [Target(f"collecting {FILES} files of 1 MB: relative to reading them", ratio, 2, at_least=False, digits=2)],
        series_table(found, base=READ),
        raw=raw_series(found),
    )


def _reading(root: Path) -> Way:
    paths = sorted((root / "out").iterdir())

    async def once() -> float:
        begin = time.perf_counter()
        files: list[bytes] = []
        for path in paths:
            with open(path, "rb") as file:
                files.append(file.read())
        seconds = time.perf_counter() - begin
        _check(len(files), sum(map(len, files)))
        return seconds

    return once


def _collecting(workspace: Workspace) -> Way:
    spec = OutputSpec(("out/**",), max_total_bytes=256 * MIB)

    async def act() -> None:
        collected = await collect_outputs(workspace, spec)
        _check(len(collected.files), sum(len(file.data) for file in collected.files))

    return timed(act)


def _check(files: int, size: int) -> None:
    if (files, size) != (FILES, FILES * SIZE):
        raise RuntimeError(f"{files} files with {size} bytes came back")
