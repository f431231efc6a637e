import subprocess
import sys

import pytest

from tests.benchmarks.programs import ROOT, measured, row_of

PROGRAM = ROOT / "benchmarks" / "running.py"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "promise"),
    [
        ("staging", "new workspace, 20 files staged, local: faster than trpc-agent-py"),
        ("first", "first command of a session, sandbox"),
        ("collecting", "collecting 100 files of 1 MB: times of reading them"),
        ("growth", "cost of a run, local, from 3 to 6 files in the skill: grows by"),
        ("held", "3 sandboxes closed: processes left"),
    ],
)
def test_a_part_runs_to_its_end_and_answers_for_its_promise(part: str, promise: str) -> None:
    found = measured("running", "--only", part)
    assert set(found) == {"promises", part}
    assert row_of(found, promise)


@pytest.mark.slow
def test_a_round_trip_is_compared_with_bare_pipes_and_terminals_and_with_the_other_library() -> None:
    everything = measured("running", "--only", "interactive")
    for executor in ("local", "sandbox"):
        promise = f"a line answered with a prompt, `skill_write_stdin`, {executor}: times of trpc-agent-py"
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
