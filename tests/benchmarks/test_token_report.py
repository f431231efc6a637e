import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest

from tests.benchmarks.programs import ROOT, measured, row_of

WAYS = ["progressive", "bodies", "bodies and docs"]


@pytest.mark.slow
def test_disclosure_is_compared_with_full_injection_by_layer_and_by_task() -> None:
    found = measured("token_report", "--only", "layers")
    for what in ("all bodies in the prompt", "all bodies and documents in it"):
        assert row_of(found, f"12 skills: tokens that disclosure saves compared with {what}")
    numbers = found["layers"]["numbers"]
    assert list(numbers["ways"]) == WAYS
    assert numbers["ways"]["bodies"]["layers"]["overview"] == 0
    assert numbers["ways"]["progressive"]["layers"]["overview"] > 0
    assert all(task["ways"][way]["each"] for task in numbers["tasks"] for way in WAYS)


@pytest.mark.slow
def test_a_request_is_measured_for_every_size_of_the_library() -> None:
    found = measured("token_report", "--only", "growth")
    assert row_of(found, "growth of a request with disclosure, from 1 to 10 skills")
    numbers = found["growth"]["numbers"]
    assert list(numbers) == ["1", "3", "10"]
    for way in ("bodies", "bodies and docs"):
        assert numbers["1"][way] < numbers["3"][way] < numbers["10"][way]


BUILD = "import sys, pathlib, token_report_library as made; made.build(pathlib.Path(sys.argv[1]), 134)"


def built(target: Path) -> dict[str, bytes]:
    subprocess.run([sys.executable, "-c", BUILD, str(target)], cwd=ROOT / "benchmarks", check=True)
    return {str(path.relative_to(target)): path.read_bytes() for path in target.rglob("*") if path.is_file()}


def test_the_library_is_the_same_every_time(tmp_path: Path) -> None:
    assert built(tmp_path / "one") == built(tmp_path / "two")


def test_documents_are_as_many_and_as_long_as_those_of_real_skills(tmp_path: Path) -> None:
    docs = {name: len(data) for name, data in built(tmp_path / "one").items() if name.endswith(".md")}
    sizes = [size for name, size in docs.items() if not name.endswith("SKILL.md")]
    folders = {name.split("/")[0] for name in docs if not name.endswith("SKILL.md")}
    assert 12 <= len(folders) <= 26
    assert 90 <= len(sizes) <= 180
    assert 3_500 <= median(sizes) <= 5_500
    assert max(sizes) > 20_000
