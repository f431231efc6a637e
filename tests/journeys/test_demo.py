"""`make demo`: the first minute, run as a newcomer runs it."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from openskills.catalog.catalog import Catalog
from openskills.settings import Settings
from tests.conftest import RequireProgram, find_program

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(sys.executable).parent

pytestmark = pytest.mark.slow


class Newcomer:
    """Somebody with an empty home and an empty directory for temporary files."""

    def __init__(self, directory: Path) -> None:
        self.home = directory / "home"
        self.scratch = directory / "tmp"
        self.home.mkdir()
        self.scratch.mkdir()
        self.search_path = os.pathsep.join((str(PROGRAMS), os.defpath))

    def run(self, command: Sequence[str | Path], **variables: str) -> subprocess.CompletedProcess[str]:
        given = {"HOME": str(self.home), "TMPDIR": str(self.scratch), "PATH": self.search_path, "LANG": "C.UTF-8"}
        return subprocess.run(
            command, cwd=self.home, env={**given, **variables}, capture_output=True, text=True, timeout=300
        )

    def demo(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return self.run([sys.executable, ROOT / "scripts" / "demo.py", *arguments], **variables)


@pytest.fixture
def newcomer(tmp_path: Path) -> Newcomer:
    return Newcomer(tmp_path)


@pytest.fixture
def sandboxed(newcomer: Newcomer, require_program: RequireProgram) -> Newcomer:
    """Somebody on a machine where commands can be isolated."""
    require_program("bwrap")
    return newcomer


@pytest.fixture(scope="module")
def english(tmp_path_factory: pytest.TempPathFactory) -> tuple[Newcomer, subprocess.CompletedProcess[str]]:
    """Somebody with settings and a key of their own, and what the demo printed for them, asked for in English."""
    find_program("bwrap", search_path=os.environ.get("PATH", os.defpath), ci=os.environ.get("CI") == "true")
    person = Newcomer(tmp_path_factory.mktemp("demo"))
    (person.home / "mine").write_text("mine")
    theirs = {"OPENAI_API_KEY": "mine", "OPENSKILL_EXECUTOR": "local", "XDG_STATE_HOME": str(person.home / "mine")}
    return person, person.demo("--en", LANG="zh_CN.UTF-8", **theirs)


def number_before(words: str, printed: str) -> int:
    """The number in front of some words."""
    found = re.search(rf"([\d,]+)%?\s*{words}", printed)
    assert found is not None, f"no {words!r} in {printed}"
    return int(found[1].replace(",", ""))


def shows_the_main_job(printed: str) -> None:
    """A skill is loaded, two commands are run in the sandbox, both files are kept; in any language."""
    for line in (
        r"\d\.\d\d s  \S+ +skill_load csv-report",
        r"\d\.\d\d s  \S+ +loaded: csv-report",
        r"\d\.\d\d s  \S+ +skill_run python3 scripts/report\.py inputs/sales\.csv --output out/report\.md",
        r"\d\.\d\d s  \S+ +exit code 0, \d+ ms, bubblewrap.*out/report\.md \(\d+ bytes\)",
        r"\d\.\d\d s  \S+ +artifact://out/report\.md@0",
        r"\| amount \| integer \| 1 \|",
        r"\d\.\d\d s  \S+ +artifact://out/chart\.svg@0",
        r"cat: /etc/shadow: No such file or directory",
        r"skills/bomb/SKILL\.md:2: ",
    ):
        assert re.search(line, printed), f"{line} is not in {printed}"
    assert "\x1b" not in printed


def test_the_main_job_is_shown_to_its_end_without_a_key(
    english: tuple[Newcomer, subprocess.CompletedProcess[str]],
) -> None:
    person, done = english
    assert (done.returncode, done.stderr) == (0, "")
    shows_the_main_job(done.stdout)
    skills = Catalog.from_paths(ROOT / "skills", settings=Settings.from_env({"HOME": str(person.home / "none")})).skills
    assert f"1. Discovery: {len(skills)} skills in skills/" in done.stdout
    assert done.stdout.count("A rule chose csv-report, not a language model") == 1
    assert number_before("in 6 requests", done.stdout) < number_before("if all", done.stdout)
    assert 0 < number_before("saved", done.stdout) < 100
    assert "the session, with 10 events, is read from SQLite" in done.stdout


def test_nothing_is_left_and_nothing_of_the_person_is_touched(
    english: tuple[Newcomer, subprocess.CompletedProcess[str]],
) -> None:
    person, _ = english
    assert (person.home / "mine").read_text() == "mine"
    assert list(person.scratch.iterdir()) == []


def test_what_it_says_to_type_next_works_with_the_model_that_needs_no_key(
    english: tuple[Newcomer, subprocess.CompletedProcess[str]], sandboxed: Newcomer
) -> None:
    (line,) = re.findall(r"\$ (openskills chat .*)", english[1].stdout.partition("Next, with a real model:")[2])
    words = [word if word != "skills" else str(ROOT / "skills") for word in shlex.split(line)]
    assert words.pop() == "openai/gpt-5"
    (sandboxed.home / "your.csv").write_text("name,age\nada,36\n")
    done = sandboxed.run([PROGRAMS / words[0], *words[1:], "rule"])
    assert done.returncode == 0, done.stderr
    assert "| age | integer | 0 | 36 | 36 | 36 |" in done.stdout


def test_it_works_the_same_in_chinese_where_the_terminal_is_chinese(sandboxed: Newcomer) -> None:
    done = sandboxed.demo(LANG="zh_CN.UTF-8")
    assert (done.returncode, done.stderr) == (0, "")
    shows_the_main_job(done.stdout)
    assert done.stdout.startswith("一分钟了解 OpenSkill")
    assert "csv-report 由规则选定，不是语言模型" in done.stdout
    assert "下一步，使用真正的模型：" in done.stdout
    assert list(sandboxed.home.iterdir()) == []


def test_the_tour_shows_every_command_at_work(sandboxed: Newcomer) -> None:
    done = sandboxed.demo("--tour")
    assert (done.returncode, done.stderr) == (0, "")
    for command in ("new", "validate", "list", "info", "search", "to-prompt", "run"):
        assert f"\n$ openskills {command} " in done.stdout


def test_where_commands_cannot_be_isolated_it_fails_and_says_what_to_do(newcomer: Newcomer, tmp_path: Path) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho this kernel forbids it >&2\nexit 1\n")
    broken.chmod(0o755)
    newcomer.search_path = os.pathsep.join((str(tmp_path), newcomer.search_path))
    done = newcomer.demo("--en")
    assert done.returncode == 1
    assert "The demo failed: " in done.stderr
    assert "bubblewrap does not work on this machine" in done.stderr
    assert "\n$ openskills doctor" in done.stdout
    assert "skill_run" not in done.stdout
