import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.programs import ROOT, evaluated

WRITE = """
import asyncio, json, sys
from pathlib import Path
from charts import Chart, Line
from report import Bar, Target
from running_part import Extent, Part
from suite import COUNTED, Suite, judged, measure_repeatedly, write

docs, value, accept = Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3] == "accept"
chart = Chart("size", "By size", "files", "seconds", [Line("OpenSkill", [(1, 1), (2, 2)])])
part = Part("A part", "About it.", [Target("quick", value, 2, why="gone")], "a table", [Bar("one", 1.0)],
            ["a peer: gone"], {"n": 1}, charts=[chart])

async def calls(at):
    return part

suite = Suite("tools", "Calling tools", None, "Times", {"calls": calls}, COUNTED)
measured = asyncio.run(measure_repeatedly(suite, ["calls"], Extent(), docs, 0))
passed = judged(docs, "tools", measured, accept=accept)
if passed:
    write(docs, suite, measured.parts, seconds=75.0, accept=accept, values=measured.values)
print(json.dumps(passed))
"""
REPEAT = """
import asyncio, json, sys
from pathlib import Path
from report import Target
from running_part import TINY, Extent, Part
from suite import MAX_REPEATS, Suite, judged, measure_repeatedly, write

docs, scripts = Path(sys.argv[1]), json.loads(sys.argv[2])
counts = dict.fromkeys(scripts, 0)

def part_of(name):
    async def part(at):
        targets = [Target(promise, values[counts[name]], 2) for promise, values in scripts[name].items()]
        counts[name] += 1
        return Part(name, "", targets, "")
    return part

suite = Suite("tools", "Tools", None, "", {name: part_of(name) for name in scripts})
measured = asyncio.run(measure_repeatedly(suite, list(scripts), TINY, docs, MAX_REPEATS))
passed = judged(docs, "tools", measured, accept=False)
if passed:
    write(docs, suite, measured.parts, values=measured.values)
kept = {one.promise: one.value for part in measured.parts.values() for one in part.targets}
print(json.dumps([counts, list(measured.broken), list(measured.worse), kept]))
"""
MEASURE = """
import asyncio, json, sys
from report import Target
from running_part import TINY, NotMeasured, Part
from suite import Suite, measure

async def fails(at):
    raise {"peer": NotMeasured("a peer: it died"), "ours": RuntimeError("a fault of ours")}[sys.argv[1]]

async def works(at):
    return Part("Works", "", [], "")

suite = Suite("tools", "Tools", None, "", {"calls": fails, "others": works})
found = asyncio.run(measure(suite, ["calls", "others"], TINY, {"calls": [Target("quick", 3.0, 2)]}))
print(json.dumps({name: [list(part.missing), [(one.promise, one.value, one.why) for one in part.targets]]
                  for name, part in found.items()}))
"""


def written(docs: Path, value: float | None = 3.0, accept: str = "") -> bool:
    """Whether a run with this value took the place of the one before."""
    return evaluated(WRITE, docs, json.dumps(value), accept)


def page(docs: Path) -> str:
    return (docs / "benchmarks.md").read_text("utf-8")


def raw(docs: Path) -> dict[str, Any]:
    return json.loads((docs / "benchmarks" / "tools.json").read_text("utf-8"))


def values(docs: Path) -> tuple[float | None, float | None]:
    """What the last run that was written has measured, and what the next one is compared with."""
    (promise,) = raw(docs)["promises"]
    return promise["value"], promise["baseline"]


def test_a_section_shows_its_pictures_and_links_its_raw_numbers(tmp_path: Path) -> None:
    assert written(tmp_path)
    for name in ("benchmarks/tools.svg", "benchmarks/tools-size.svg", "benchmarks/tools.json"):
        assert f"]({name})" in page(tmp_path)
        assert (tmp_path / name).is_file()
    assert "The numbers are counts, not times" in page(tmp_path)
    assert "Not measured: a peer: gone." in page(tmp_path)


def test_raw_numbers_have_promises_versions_seconds_and_what_is_missing(tmp_path: Path) -> None:
    written(tmp_path)
    found = raw(tmp_path)
    (promise,) = found["promises"]
    assert (promise["promise"], promise["value"], promise["bound"], promise["at_least"]) == ("quick", 3.0, 2, True)
    assert {"openskills", "deepagents", "trpc-agent-py"} <= set(found["versions"])
    assert found["seconds"] == 75.0
    assert found["parts"]["calls"] == {"promises": ["quick"], "numbers": {"n": 1}, "missing": ["a peer: gone"]}


def test_writing_the_same_numbers_twice_changes_nothing(tmp_path: Path) -> None:
    written(tmp_path)
    first = page(tmp_path), raw(tmp_path)
    written(tmp_path)
    assert (page(tmp_path), raw(tmp_path)) == first


def test_the_page_shows_the_new_run_and_the_baseline_cannot_be_walked_down(tmp_path: Path) -> None:
    assert written(tmp_path, 10.0)
    assert written(tmp_path, 8.6)
    assert "**8.6x**" in page(tmp_path)
    assert values(tmp_path) == (8.6, 10.0)
    assert not written(tmp_path, 7.4)
    assert values(tmp_path) == (8.6, 10.0)
    assert written(tmp_path, 7.4, "accept")
    assert values(tmp_path) == (7.4, 7.4)


def test_a_run_without_the_peer_keeps_the_baseline_for_the_next_one(tmp_path: Path) -> None:
    written(tmp_path, 10.0)
    assert written(tmp_path, None)
    assert values(tmp_path) == (None, 10.0)
    assert not written(tmp_path, 7.4)


def test_a_part_that_cannot_be_measured_is_missing_with_its_promises_and_the_others_are_measured() -> None:
    found = evaluated(MEASURE, "peer")
    assert found["calls"] == [["a peer: it died"], [["quick", None, "a peer: it died"]]]
    assert found["others"] == [[], []]


def repeated(docs: Path, **parts: dict[str, list[float]]) -> list[Any]:
    """How often each part was measured, what broke its bound, what got worse, and the values that were kept."""
    return evaluated(REPEAT, docs, json.dumps(parts))


def test_a_promise_fails_only_if_it_fails_in_each_repetition_of_its_part(tmp_path: Path) -> None:
    found = repeated(tmp_path, noisy={"a": [1, 3, 3], "b": [3, 1, 3]}, slow={"c": [1, 1.5, 1]}, fast={"d": [5]})
    # Bounds are 2. Of `noisy`, `b` failed the second time only, so that no run of it failed `a` and `b` again.
    assert found == [{"noisy": 2, "slow": 3, "fast": 1}, ["c"], [], {"a": 1, "b": 3, "c": 1, "d": 5}]


def test_worse_than_the_baseline_is_repeated_and_all_values_are_kept_as_its_spread(tmp_path: Path) -> None:
    assert repeated(tmp_path, calls={"quick": [10]})[2] == []
    assert repeated(tmp_path, calls={"quick": [6, 9]})[::2] == [{"calls": 2}, []]
    (promise,) = raw(tmp_path)["promises"]
    assert (promise["value"], promise["baseline"], promise["runs"]) == (9, 10, [10, 6, 9])
    # The spread is 4 now.
    assert repeated(tmp_path, calls={"quick": [6.1]})[0] == {"calls": 1}
    counts, _, worse, _ = repeated(tmp_path, calls={"quick": [5, 5, 5]})
    assert (counts, worse) == ({"calls": 3}, ["quick"])


def test_a_fault_of_ours_is_not_hidden() -> None:
    argv = [sys.executable, "-c", MEASURE, "ours"]
    done = subprocess.run(argv, cwd=ROOT / "benchmarks", capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.endswith("RuntimeError: a fault of ours\n")


@pytest.mark.parametrize("name", ["safety", "selection"])
def test_what_is_counted_is_not_said_to_be_timed(name: str) -> None:
    code = f"import json; from {name} import SUITE; from suite import TIMED; print(json.dumps(SUITE.how == TIMED))"
    assert evaluated(code) is False


PLACES = """
import asyncio, json, sys
from pathlib import Path
from running_part import TINY, Part
from suite import Suite, find_memory, measure

places = {}

async def part(around):
    places[len(places)] = str(around.scratch.parent)
    return Part("a", "", (), "")

for on_disk in (True, False):
    asyncio.run(measure(Suite("a", "A", None, "", {"a": part}, on_disk=on_disk), ["a"], TINY))
found = find_memory()
print(json.dumps([find_memory(Path(sys.argv[1])) is None, found and str(found), *places.values()]))
"""


def test_scratch_is_in_memory_where_there_is_space_except_for_what_must_be_durable() -> None:
    # Nothing can be written to the first directory.
    is_refused, memory, on_disk, elsewhere = evaluated(PLACES, "/proc")
    assert is_refused
    assert on_disk == tempfile.gettempdir()
    assert elsewhere == (memory or on_disk)
