"""Costs by size of output files: brought from a workspace to the store of artifacts in pieces, with flat memory."""

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from report import Target
from running_part import Part, Surroundings
from sampling import Series
from scale_curve import FLAT, LINEAR, Curve, bytes_text, chart_of, curves_table, raw_curves, targets_of
from scale_sizes import MB, sizes_of

PROGRAM = Path(__file__).resolve().parent / "scale_collecting.py"
OURS, BY_HAND, MEMORY = "collect and keep", "copy by hand", "memory of the process"
GROWS_BY = 16

_ABOUT = """
A file of a workspace becomes an artifact in the file store: it is found with a pattern, opened without following
links, read in chunks, hashed, written and flushed to disk. The manual copy also reads in chunks, hashes and calls
`fsync`. Each size runs in its own process; its memory is the peak (`VmHWM`), including the interpreter and all
imports.
"""


async def measure(at: Surroundings) -> Part:
    """All sizes."""
    sizes = sizes_of(at.extent)
    found: dict[int, dict[str, Any]] = {}
    for size in sizes.output_bytes:
        at.say(f"output files: {bytes_text(size)}")
        scratch = at.scratch / str(size)
        scratch.mkdir()
        turns = min(sizes.max_turns, max(2, int(300 * MB * sizes.seconds / size)))
        found[size] = await _asked(scratch, size, turns)
    ours, by_hand = _series(found, "ours"), _series(found, "by_hand")
    memory = {size: Series((float(one["peak"]),)) for size, one in found.items()}
    curves = [Curve(OURS, ours, LINEAR), Curve(BY_HAND, by_hand, LINEAR), Curve(MEMORY, memory, FLAT, bytes=True)]
    largest = max(found)
    grown = (found[largest]["peak"] - found[largest]["before"]) / MB
    targets = [
        Target(f"{bytes_text(largest)} stored: memory growth", grown, GROWS_BY, at_least=False, unit="MB"),
        *targets_of([curves[0], curves[2]], "bytes"),
    ]
    return Part(
        "Output files",
        _ABOUT,
        targets,
        _table(curves),
        raw={**raw_curves(curves), "grown_mb": grown},
        charts=[chart_of("files", "Costs by size of output files", "bytes", "seconds", curves[:2])],
    )


def _table(curves: Sequence[Curve]) -> str:
    largest = max(curves[0].points)
    times = curves[0].points[largest].median / curves[1].points[largest].median
    return f"{curves_table(curves, 'bytes')}\n\nAt {bytes_text(largest)}, ours takes {times:.2f}x of the copy by hand."


def _series(found: dict[int, dict[str, Any]], whose: str) -> dict[int, Series]:
    return {size: Series(tuple(one[whose])) for size, one in found.items()}


async def _asked(scratch: Path, size: int, turns: int) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(PROGRAM), str(scratch), str(size), str(turns), stdout=asyncio.subprocess.PIPE
    )
    answer, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"{PROGRAM.name} failed for {size:,} bytes; what it said is above")
    return json.loads(answer)
