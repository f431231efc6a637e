"""All shipped skills together: small for a model, found by what users say, the same manners in every script."""

import ast
import re
from pathlib import Path

import pytest

from openskills.catalog.catalog import Catalog
from openskills.prompt.overview import overview
from openskills.settings import Settings
from openskills.tokens import estimate_tokens
from tests.skills.shipped import NAMES, SKILLS, documented, fault, run_script, with_inputs

PROGRAMS = sorted(SKILLS.glob("*/scripts/*.py"))
MODULES = sorted(SKILLS.glob("*/scripts/**/*.py"))


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    home = tmp_path_factory.mktemp("home")
    return Catalog.from_paths(SKILLS, settings=Settings.from_env({"HOME": str(home)}))


def test_the_hosted_skills_of_this_repository_are_there() -> None:
    wanted = {"csv-report", "log-triage", "math", "pdf-text", "skill-writer", "text-tools"}
    assert wanted | {"markdown-links", "meeting-notes"} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_skill_is_short(name: str) -> None:
    text = (SKILLS / name / "SKILL.md").read_text("utf-8")
    assert len(text.splitlines()) < 150
    assert max(map(len, text.splitlines()[4:])) <= 260


def test_a_description_has_at_most_three_sentences_and_all_together_are_small(catalog: Catalog) -> None:
    for skill in catalog.skills:
        assert len(re.findall(r"[.。](?=\s|[A-Z]|$)", skill.description)) <= 3, skill.name
        assert len(skill.description) <= 360, skill.name
        assert "Use when the user" in skill.description
    assert estimate_tokens(overview(catalog.skills).text) < 1100


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("Plot sales.csv", "csv-report"),
        ("draw a line chart", "csv-report"),
        ("which columns have missing values", "csv-report"),
        ("画一个柱状图", "csv-report"),
        ("分析这个表格", "csv-report"),
        ("what went wrong in this log", "log-triage"),
        ("日志里有哪些错误", "log-triage"),
        ("are there broken links in the docs", "markdown-links"),
        ("检查死链", "markdown-links"),
        ("solve this equation", "math"),
        ("how many km are 5 miles", "math"),
        ("standard deviation of a column", "math"),
        ("解方程", "math"),
        ("单位换算", "math"),
        ("write minutes of the meeting", "meeting-notes"),
        ("会议纪要", "meeting-notes"),
        ("what does this pdf say", "pdf-text"),
        ("提取PDF文字", "pdf-text"),
        ("create a new skill", "skill-writer"),
        ("新建技能", "skill-writer"),
        ("count the words in essay.txt", "text-tools"),
        ("convert gbk to utf-8", "text-tools"),
        ("去重", "text-tools"),
        ("合并文件", "text-tools"),
    ],
)
def test_what_a_user_says_leads_to_the_skill(catalog: Catalog, query: str, name: str) -> None:
    assert catalog.search(query)[0].skill.name == name


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(SKILLS).as_posix())
def test_a_script_is_small_and_made_for_older_interpreters(path: Path) -> None:
    text = path.read_text("utf-8")
    assert len(text.splitlines()) <= 400
    tree = ast.parse(text, feature_version=(3, 9))
    annotated = any(isinstance(node, ast.FunctionDef) for node in ast.walk(tree))
    assert not annotated or "from __future__ import annotations" in text
    assert "eval(" not in text
    assert "exec(" not in text


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.relative_to(SKILLS).as_posix())
def test_help_teaches_with_examples_and_exit_codes(path: Path, tmp_path: Path) -> None:
    done = run_script(str(path), "--help", cwd=tmp_path, new=True)
    assert done.returncode == 0
    assert path.read_text("utf-8").startswith("#!/usr/bin/env python3\n")
    assert "examples:" in done.stdout
    assert "Exit status: 0 " in done.stdout
    assert not list(SKILLS.glob("*/scripts/**/__pycache__"))


def test_no_skill_asks_for_a_program_called_python() -> None:
    for path in SKILLS.rglob("*.md"):
        assert not re.search(r"(?<![\w`/-])python (?!3)[\w./-]*\.py|Bash\(python:", path.read_text("utf-8")), path


def test_documented_commands_are_found_and_meet_their_files() -> None:
    assert documented("log-triage") == ["python3 scripts/triage.py app.log --top 20"]
    assert with_inputs("python3 x.py app.log my-app.log", "app.log") == "python3 x.py inputs/app.log my-app.log"


@pytest.mark.parametrize(
    ("script", "arguments", "named"),
    [
        ("csv-report/scripts/report.py", "there.csv --output no/folder/x", "--output: cannot write no/folder/x"),
        ("csv-report/scripts/chart.py", "there.csv --output no/folder/x", "--output: cannot write no/folder/x"),
        ("log-triage/scripts/triage.py", "there.csv --output no/folder/x", "--output: cannot write no/folder/x"),
        ("text-tools/scripts/text.py", "sort there.csv --output no/folder/x", "--output: cannot write no/folder/x"),
        ("csv-report/scripts/report.py", ".", "cannot read .: Is a directory"),
        ("csv-report/scripts/chart.py", "missing", "cannot read missing: No such file"),
        ("log-triage/scripts/triage.py", ".", "cannot read .: Is a directory"),
        ("text-tools/scripts/text.py", "sort .", "cannot read .: Is a directory"),
        ("text-tools/scripts/text.py", "convert missing --to utf-8", "cannot read missing: No such file"),
        ("text-tools/scripts/parts.py", "split missing --lines 1", "missing: No such file"),
        ("text-tools/scripts/parts.py", "join missing --output x", "missing: No such file"),
        ("math/scripts/describe.py", "--file missing", "--file: cannot read missing: No such file"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_in_one_line(
    tmp_path: Path, script: str, arguments: str, named: str
) -> None:
    (tmp_path / "there.csv").write_text("a,b\nx,1\n")
    assert fault(run_script(script, *arguments.split(), cwd=tmp_path), 2).startswith(named)
    assert [path.name for path in tmp_path.iterdir()] == ["there.csv"]


@pytest.mark.parametrize("script", ["csv-report/scripts/report.py", "csv-report/scripts/chart.py"])
def test_a_bare_name_of_an_output_is_a_file_in_the_output_directory(tmp_path: Path, script: str) -> None:
    (tmp_path / "t.csv").write_text("a,b\nx,1\n")
    (tmp_path / "out").mkdir()
    (tmp_path / "sub").mkdir()
    env = {"OUTPUT_DIR": str(tmp_path / "out")}
    assert run_script(script, "t.csv", "--output", "made", cwd=tmp_path, env=env).returncode == 0
    assert run_script(script, "t.csv", "--output", "sub/made", cwd=tmp_path, env=env).returncode == 0
    assert sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("made")) == ["out/made", "sub/made"]
