from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.programs import evaluated, measured, row_of

LIBRARIES = {"deepagents", "skills-ref", "google-adk", "pydantic-ai-skills", "trpc-agent-py", "FastMCP"}
BOUNDS = {
    "first discovery, faster than deepagents": "≥ 5x",
    "first discovery, faster than skills-ref validates": "≥ 20x",
    "unchanged refresh, faster than the first discovery": "≥ 10x",
    "new process with the index, faster than deepagents": "≥ 20x",
    "first discovery, relative to only reading the files": "≤ 8x",
    "peak memory over a bare interpreter": "≤ 60 MB",
    "24 skills: first discovery, faster than the fastest other library": "≥ 3x",
    "JSON-style metadata in two of five: faster than deepagents": "≥ 5x",
    "400 keys, relative to 80": "≤ 50x",
}
ALONE = """
import json
from discovery_finding import BARE, FILES, FIRST, INDEXED, targets, times
from readings import Turns

reading = {"seconds": 2.0, "refresh": 0.1, "peak_kb": 4096.0}
gone = {"deepagents": "deepagents: gone", "skills-ref validate": "skills-ref: gone"}
turns = Turns({name: [reading] for name in (FILES, BARE, FIRST, INDEXED)}, gone)
print(json.dumps({"rows": [one.row() for one in targets(turns)], "shown": list(times(turns))}))
"""
FAILING = """
import asyncio, json, sys
from contextlib import AsyncExitStack
from pathlib import Path
from discovery_peers import OURS, in_new_process
from discovery_staying import Staying
from readings import take_turns
from peer_process import Installed

async def main(scratch):
    absent = Installed("absent", "no-such-environment", "absent")
    async with AsyncExitStack() as stack:
        staying, nowhere = Staying(scratch, stack), scratch / "nowhere"
        turns = await take_turns({
            "not installed": in_new_process("files_read", scratch, absent),
            "exits with 1": in_new_process("files_read", nowhere),
            "not installed, staying": staying.take(absent, do="files_read", skills=str(scratch)),
            "dies": staying.take(OURS, do="files_read", skills=str(nowhere)),
            "is dead": staying.take(OURS, do="files_read", skills=str(scratch)),
        }, 1)
    print(json.dumps({"readings": turns.readings, "missing": turns.missing}))

asyncio.run(main(Path(sys.argv[1])))
"""


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """Measured once: it starts every peer."""
    return measured("discovery")


def answered(found: dict[str, Any], part: str) -> set[str]:
    """The libraries that were measured, or are named with the reason why not."""
    named = {reason.split(":")[0] for reason in found[part]["missing"]}
    return named | {way.split(",")[0].removesuffix(" validate") for way in found[part]["numbers"]}


@pytest.mark.slow
def test_every_library_is_measured_or_named_with_its_reason(found: dict[str, Any]) -> None:
    assert answered(found, "finding") >= {"OpenSkill", "deepagents", "skills-ref"}
    assert answered(found, "others") >= {"OpenSkill", *LIBRARIES}
    assert answered(found, "keys") >= {"OpenSkill", "skills-ref"}


@pytest.mark.slow
def test_every_promise_has_its_bound(found: dict[str, Any]) -> None:
    assert len(found["promises"]) == len(BOUNDS)
    for promise, bound in BOUNDS.items():
        assert row_of(found, promise).split(" | ")[1] == bound


@pytest.mark.slow
def test_times_come_with_their_spread_and_the_number_of_repeats(found: dict[str, Any]) -> None:
    ours = found["finding"]["numbers"]["OpenSkill, first discovery"]
    low, high = ours["quartiles"]
    assert 0 < low <= ours["median"] <= high
    assert ours["repeats"] == len(ours["seconds"]) == 1
    assert found["finding"]["numbers"]["peak_kb"]["OpenSkill, first discovery"] > 0


def test_promises_about_libraries_that_are_missing_say_why_and_the_others_are_answered() -> None:
    alone = evaluated(ALONE)
    unmeasured = [row for row in alone["rows"] if "not measured" in row]
    assert [row.split("not measured: ")[1] for row in unmeasured] == [
        "deepagents: gone | |",
        "skills-ref: gone | |",
        "deepagents: gone | |",
    ]
    assert any(row.startswith("| unchanged refresh") and "**20.0x** | yes" in row for row in alone["rows"])
    assert "deepagents" not in alone["shown"]


def test_a_library_that_is_missing_or_ends_with_an_error_gives_its_reason(tmp_path: Path) -> None:
    failing = evaluated(FAILING, tmp_path)
    assert failing["readings"] == {}
    missing = failing["missing"]
    assert missing["not installed"] == missing["not installed, staying"]
    assert missing["not installed"].startswith("absent: it is not installed")
    for way in ("exits with 1", "dies", "is dead"):
        assert missing[way].startswith("OpenSkill: it failed with FileNotFoundError")
