import subprocess
import sys

import pytest

from tests.benchmarks.programs import ROOT, evaluated, measured, row_of
from tests.long_form import cases

PROGRAM = ROOT / "benchmarks" / "running.py"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "promise"),
    cases(
        [
            ("staging", "new workspace, 20 files staged, local: faster than trpc-agent-py"),
            ("growth", "growth of the cost of a run, local, from 3 to 6 files in the skill"),
            ("held", "3 sandboxes closed: processes left"),
        ],
        [
            ("first", "first command of a session, sandbox"),
            ("collecting", "collecting 100 files of 1 MB: relative to reading them"),
        ],
    ),
)
def test_a_part_runs_to_its_end_and_answers_for_its_promise(part: str, promise: str) -> None:
    found = measured("running", "--only", part)
    assert set(found) == {"promises", part}
    assert row_of(found, promise)


@pytest.mark.slow
def test_a_round_trip_is_compared_with_bare_pipes_and_terminals_and_with_the_other_library() -> None:
    everything = measured("running", "--only", "interactive")
    for executor in ("local", "sandbox"):
        promise = f"a line answered with a prompt, `skill_write_stdin`, {executor}: relative to trpc-agent-py"
        assert row_of(everything, promise)
    found = everything["interactive"]
    numbers, missing = found["numbers"], "; ".join(found["missing"])
    assert {"asyncio, bare pipe", "OpenSkill, local"} <= set(numbers["pipes"])
    assert {"asyncio, bare terminal", "OpenSkill, local"} <= set(numbers["terminals"])
    assert {"asyncio, bare pipe", "OpenSkill, local", "OpenSkill, local, no prompt"} <= set(numbers["tools"])
    for way, reason in (("trpc-agent-py, local", "trpc-agent-py"), ("OpenSkill, sandbox", "the sandbox")):
        assert way in numbers["tools"] or reason in missing
    assert "OpenSkill, container" in numbers["pipes"] or "container" in missing


@pytest.mark.slow
def test_a_warm_start_is_compared_with_a_bare_fork_and_a_cold_one_with_a_bare_interpreter() -> None:
    everything = measured("running", "--only", "warm")
    assert row_of(everything, "a script that imports pandas: warm, faster than cold")
    found = everything["warm"]
    floors, ours = {"os.fork(), pandas loaded", "python -c"}, {"warm", "cold", "skill_run, warm", "skill_run, cold"}
    assert set(found["numbers"]) == floors | ours or found["missing"]


@pytest.mark.slow
def test_what_a_part_measures_comes_with_its_spread() -> None:
    found = measured("running", "--only", "collecting")["collecting"]["numbers"]
    low, high = found["reading the files"]["quartiles"]
    assert 0 < low <= found["reading the files"]["median"] <= high


def test_a_part_that_does_not_exist_is_named() -> None:
    done = subprocess.run([sys.executable, str(PROGRAM), "--only", "flying"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "'flying'" in done.stderr


def test_the_page_stays_as_it_is_when_only_a_part_was_measured() -> None:
    page = ROOT / "docs" / "benchmarks.md"
    before = page.read_bytes()
    measured("running", "--only", "collecting", "--write")
    assert page.read_bytes() == before


SHOWN = """
import json, sys
from report import Target
from running_part import Part, raw_series, series_table, shown, without_numbers
from sampling import Series

series = {name: Series(tuple(times)) for name, times in json.loads(sys.argv[1]).items()}
old = Target("faster", 3.0, 2)
print(json.dumps({
    "table": series_table(series),
    "raw": raw_series(series),
    "missing": shown(without_numbers("load", "a peer:\\n  it | died", [old])),
}))
"""


@pytest.mark.parametrize(
    ("series", "said"),
    [
        ('{"a": [1, 2, 3], "b": [1, 2, 3]}', "3 runs each."),
        ('{"a": [1, 2, 3], "b": [1]}', "1 to 3 runs each."),
        ('{"a": [1]}', "One run each."),
    ],
)
def test_a_table_says_how_often_things_were_measured(series: str, said: str) -> None:
    found = evaluated(SHOWN, series)
    assert found["table"].splitlines()[-1] == said
    assert found["raw"]["a"]["repeats"] in (1, 3)


def test_a_part_that_could_not_be_measured_answers_for_its_promises_with_the_reason() -> None:
    text = evaluated(SHOWN, '{"a": [1]}')["missing"]
    assert "| faster | ≥ 2x | not measured: a peer: it / died | |" in text
    assert "Not measured: a peer: it / died." in text
