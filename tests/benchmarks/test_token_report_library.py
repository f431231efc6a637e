import subprocess
import sys
from pathlib import Path
from statistics import median

from tests.benchmarks.programs import ROOT

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
