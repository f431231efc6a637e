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
        ("collecting", "collecting 100 files of 1 MB: times of reading them"),
        ("growth", "cost of a run, local, from 3 to 6 files in the skill: grows by"),
        ("warm", "a script that imports pandas: warm, faster than cold"),
        ("held", "3 sandboxes closed: processes left"),
    ],
)
def test_a_part_runs_to_its_end_and_answers_for_its_promise(part: str, promise: str) -> None:
    found = measured("running", "--only", part)
    assert set(found) == {"promises", part}
    assert row_of(found, promise)


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
