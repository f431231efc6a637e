"""Problems as lines and as objects."""

from pathlib import Path

import pytest

from openskills.cli.skills import (
    count_by_severity,
    display_path,
    format_problem,
    problem_json,
    problem_json_with_path,
    report_problems,
)
from openskills.skillmd.problem import Fix, Problem, Severity

PROBLEM = Problem("rule-id", "what\n\x1b[31m is", Severity.WARNING, 3, None, Fix("do it"), "/elsewhere/SKILL.md")


def line_of(problem: Problem) -> str:
    return "".join(part if isinstance(part, str) else part[0] for part in format_problem(problem))


def test_a_line_has_place_severity_message_and_rule() -> None:
    assert line_of(PROBLEM) == "/elsewhere/SKILL.md:3:1: warning: what \\x1b[31m is [rule-id]"
    assert line_of(Problem("r", "m")) == "error: m [r]"
    assert line_of(Problem("r", "m", path="https://example.org/x")) == "https://example.org/x: error: m [r]"


def test_a_path_below_the_current_directory_is_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert display_path(str(tmp_path / "here" / "a" / "SKILL.md")) == "a/SKILL.md"
    assert display_path(str(tmp_path / "there" / "SKILL.md")) == str(tmp_path / "there" / "SKILL.md")
    assert display_path(str(tmp_path / "here" / "..a")) == "..a"
    assert display_path("~/.agents/\x1b") == "~/.agents/\\x1b"


def test_an_object_has_exactly_the_documented_fields() -> None:
    fields = {"rule": "rule-id", "severity": "warning", "line": 3, "column": None, "fix": "do it"}
    assert problem_json(PROBLEM) == {**fields, "message": "what\n\x1b[31m is"}
    assert list(problem_json(PROBLEM)) == ["rule", "severity", "line", "column", "message", "fix"]
    assert problem_json(Problem("r", "m"))["fix"] is None
    assert list(problem_json_with_path(PROBLEM)) == ["path", *problem_json(PROBLEM)]


def test_a_count_names_only_what_is_there() -> None:
    note = Problem("r", "m", Severity.NOTE)
    assert count_by_severity([note, PROBLEM, note]) == "1 warning, 2 notes"
    assert count_by_severity([]) == ""


def test_a_report_shows_the_worst_first_and_not_thousands(capsys: pytest.CaptureFixture[str]) -> None:
    report_problems([*(Problem("w", "m", Severity.WARNING) for _ in range(60)), Problem("e", "m")])
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "error: m [e]"
    assert lines[-1] == "61 problems (1 error, 60 warnings); 11 more not shown, --json has all"
    report_problems([])
    assert capsys.readouterr().err == ""
