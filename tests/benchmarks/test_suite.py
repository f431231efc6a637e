import json
import subprocess
import sys
from pathlib import Path

from tests.benchmarks.programs import ROOT

WRITE = """
import sys
from pathlib import Path
from charts import Chart, Line
from report import Bar, Target
from running_part import Part
from suite import COUNTED, Suite, write

chart = Chart("size", "By size", "files", "seconds", [Line("OpenSkill", [(1, 1), (2, 2)])])
part = Part("A part", "About it.", [Target("quick", 3.0, 2)], "a table", [Bar("one", 1.0)], ["a peer: gone"], {"n": 1},
            charts=[chart])
write(Path(sys.argv[1]), Suite("tools", "Calling tools", None, "Times", {}, COUNTED), {"calls": part})
"""


def written(docs: Path) -> str:
    subprocess.run([sys.executable, "-c", WRITE, str(docs)], cwd=ROOT / "benchmarks", check=True)
    return (docs / "benchmarks.md").read_text("utf-8")


def test_a_section_shows_its_pictures_and_links_its_raw_numbers(tmp_path: Path) -> None:
    page = written(tmp_path)
    for name in ("benchmarks/tools.svg", "benchmarks/tools-size.svg", "benchmarks/tools.json"):
        assert f"]({name})" in page
        assert (tmp_path / name).is_file()
    assert "Nothing here depends on time" in page
    assert "Not measured: a peer: gone." in page


def test_raw_numbers_have_promises_versions_and_what_is_missing(tmp_path: Path) -> None:
    written(tmp_path)
    raw = json.loads((tmp_path / "benchmarks" / "tools.json").read_text("utf-8"))
    (promise,) = raw["promises"]
    assert (promise["promise"], promise["value"], promise["bound"], promise["at_least"]) == ("quick", 3.0, 2, True)
    assert {"openskills", "deepagents", "trpc-agent-py"} <= set(raw["versions"])
    assert raw["parts"]["calls"] == {"numbers": {"n": 1}, "missing": ["a peer: gone"]}


def test_writing_the_same_numbers_twice_changes_nothing(tmp_path: Path) -> None:
    assert written(tmp_path) == written(tmp_path)
