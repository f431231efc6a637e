import json
import subprocess
import sys
from pathlib import Path

from tests.benchmarks.programs import ROOT

COMPARE = """
import json, sys
from pathlib import Path
from baseline import regressions, stored
from report import Target

targets = [
    Target("faster", 8.4, 5),
    Target("slower", 2.4, 5, at_least=False),
    Target("size", 30.0, 60, at_least=False, unit="MB"),
    Target("kept", 8.6, 5),
    Target("new", 1.0, 5),
    Target("gone", None, 5, why="missing"),
]
print(json.dumps(regressions(stored(Path(sys.argv[1]), "host"), targets)))
"""


def compared(docs: Path) -> list[str]:
    argv = [sys.executable, "-c", COMPARE, str(docs)]
    done = subprocess.run(argv, cwd=ROOT / "benchmarks", capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_a_ratio_that_is_worse_than_the_stored_one_by_more_than_the_tolerance_is_named(tmp_path: Path) -> None:
    before = {"faster": 10.0, "slower": 2.0, "size": 3.0, "kept": 10.0, "gone": 1.0, "never": None}
    (tmp_path / "benchmarks").mkdir()
    promises = [{"promise": name, "value": value} for name, value in before.items()]
    (tmp_path / "benchmarks" / "host.json").write_text(json.dumps({"promises": promises}), "utf-8")
    assert [one.partition(":")[0] for one in compared(tmp_path)] == ["faster", "slower"]


def test_where_nothing_was_stored_nothing_can_be_worse(tmp_path: Path) -> None:
    assert compared(tmp_path) == []
