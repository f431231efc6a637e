"""The skills that ship with the project are without fault, and their scripts do what their text says."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import openskills
from openskills.catalog.catalog import Catalog
from openskills.catalog.validate import validate
from openskills.settings import Settings

SKILLS = Path(__file__).parents[2] / "skills"
OWN = Path(openskills.__file__).parent / ".agents" / "skills"
FOLDERS = sorted(path.parent for path in (*SKILLS.glob("*/SKILL.md"), *OWN.glob("*/SKILL.md")))
SCRIPTS = sorted(SKILLS.glob("*/scripts/*.py"))


def run(script: str, *arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", str(SKILLS / script), *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_strict_validator_has_nothing_to_say(folder: Path) -> None:
    assert validate(folder).problems == ()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_every_script_is_executable_and_explains_itself(script: Path, tmp_path: Path) -> None:
    assert script.stat().st_mode & 0o111
    done = run(str(script), "--help", cwd=tmp_path)
    assert (done.returncode, "usage:" in done.stdout) == (0, True)


def test_the_skill_of_the_package_is_found_in_the_installed_package(tmp_path: Path) -> None:
    settings = Settings.from_env({"HOME": str(tmp_path)})
    catalog = Catalog.from_paths("package:openskills", settings=settings)
    assert [skill.name for skill in catalog.skills] == ["openskills"]


def test_a_table_is_described_with_its_faults(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id;price;day;note\n1;2.5;2026-01-01;a|b\n2;;2026-01-02;\n3;7.5;2026-01-03;x;y\n")
    done = run("csv-report/scripts/report.py", "t.csv", "--output", "r.md", cwd=tmp_path)
    assert done.returncode == 0
    report = (tmp_path / "r.md").read_text()
    assert "3 rows, 4 columns." in report
    assert "**1 rows have another number of cells than the header.**" in report
    assert "| price | number | 1 | 2.5 | 5 | 7.5 |" in report
    assert "| day | date | 0 |  |  |  |" in report


@pytest.mark.parametrize(("name", "status"), [("missing.csv", 2), ("empty.csv", 3)])
def test_a_table_that_is_none_is_said_in_one_line(tmp_path: Path, name: str, status: int) -> None:
    (tmp_path / "empty.csv").touch()
    done = run("csv-report/scripts/report.py", name, cwd=tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) == (status, 1)


def test_dead_links_are_listed_with_their_place(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(
        "[ok](b.md) [no](c.md)\n```\n[code](x.md)\n```\n![i](<pic.png>) [w](https://e.org)\n"
    )
    (tmp_path / "b.md").touch()
    done = run("markdown-links/scripts/check_links.py", ".", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "a.md:1: c.md\na.md:5: pic.png\n")


def test_errors_of_a_log_are_grouped_by_what_they_say(tmp_path: Path) -> None:
    lines = [f"2026-11-15 10:00:0{number} ERROR db: timeout after {number}00 ms" for number in range(3)]
    (tmp_path / "app.log").write_text("\n".join([*lines, "2026-11-15 10:00:09 WARN slow", "INFO fine"]))
    done = run("log-triage/scripts/triage.py", "app.log", "--json", cwd=tmp_path)
    groups = json.loads(done.stdout)
    assert [(group["level"], group["count"], group["message"]) for group in groups] == [
        ("ERROR", 3, "db: timeout after * ms"),
        ("WARN", 1, "slow"),
    ]
    assert (groups[0]["first"], groups[0]["last"]) == ("2026-11-15 10:00:00", "2026-11-15 10:00:02")
