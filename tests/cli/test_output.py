"""Output for people and programs: problems as lines and objects, and no text of a skill that a terminal obeys."""

import io
import json
import logging
import subprocess
import sys
import zipfile
from contextlib import redirect_stdout
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import pytest
import typer

from openskills.cli.output import CliProgress, escape_line, log_warnings, pluralize, say, say_json, say_text, show_table
from openskills.cli.parameters import QuickCommand, QuickGroup, expand_options, option
from openskills.cli.skills import (
    count_by_severity,
    display_path,
    format_problem,
    problem_json_with_path,
    report_problems,
)
from openskills.settings import Settings
from openskills.skillmd.problem import Fix, Problem, Severity
from tests.catalog.sources.web_server import Page, Web
from tests.cli.command import Command
from tests.skill_writer import WriteSkill


def written(write: object, *arguments: object) -> str:
    stream = io.StringIO()
    with redirect_stdout(stream):
        assert callable(write)
        write(*arguments)
    return stream.getvalue()


def test_foreign_text_is_one_line_without_control_characters() -> None:
    assert escape_line(" a\n\tb  c ") == "a b c"
    assert escape_line("\x1b[31mred\x07 \u202edcba") == "\\x1b[31mred\\x07 \\u202edcba"
    assert escape_line("合并 naïve [red]") == "合并 naïve [red]"


def test_in_a_pipe_a_line_has_no_style() -> None:
    assert written(say, ("error", "bold red"), ": ", "[red]x[/red]") == "error: [red]x[/red]\n"


def test_json_is_ascii_whatever_is_in_it() -> None:
    value = {"a": "合并 \x1b \u202e \udcff"}
    text = written(say_json, value)
    assert text.isascii()
    assert json.loads(text) == value


def test_text_is_written_as_it_is() -> None:
    assert written(say_text, "<a>\n") == "<a>\n\n"


def test_a_table_in_a_pipe_has_numbers_and_times_for_programs_and_escaped_text() -> None:
    at = datetime(2026, 1, 31, 12, 30, 1, tzinfo=UTC)
    rows = [("a\x1b\n b", 1234, at, ("5 KiB", 5120), (None, "only here"), ("only there", None))]
    columns = ("text", "number", "time", "size", "there")
    expected = "a\\x1b b\t1234\t2026-01-31T12:30:01+00:00\t5120\tonly here\n"
    assert written(show_table, columns, rows) == expected
    assert json.loads(written(show_table, columns, rows, "", {"rows": []})) == {"rows": []}


def test_json_replaces_the_text_if_it_was_asked_for() -> None:
    with redirect_stdout(io.StringIO()) as stream:
        say("done", json=False)
        say("done", json={})
        say_text("done", json={"a": []})
    assert stream.getvalue() == 'done\n{}\n{\n  "a": []\n}\n'


def test_one_is_not_plural() -> None:
    assert [pluralize(number, "skill") for number in (0, 1, 2, 1234)] == [
        "0 skills",
        "1 skill",
        "2 skills",
        "1,234 skills",
    ]


SHOW_CURSOR = "\x1b[?25h"


def archive() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr(
            "alpha/SKILL.md", "---\nname: alpha\ndescription: Merges. Use when asked.\n---\nBody\n" + "x" * 2000
        )
    return buffer.getvalue()


def test_a_slow_download_shows_a_bar_and_an_interrupt_gives_the_cursor_back(openskills: Command, web: Web) -> None:
    web.pages["/skills.zip"] = Page(archive(), pause=0.01)
    with openskills.begun("list", f"{web.url}/skills.zip") as terminal:
        terminal.wait_for("downloading")
        terminal.interrupt()
        ran = terminal.finish()
    assert ran.code == 130
    assert SHOW_CURSOR in ran.out
    assert "Traceback" not in ran.out


def test_quick_work_shows_no_bar(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("alpha")
    ran = openskills.on_terminal("list", "skills")
    assert "\x1b[?25" not in ran.out


def test_in_a_pipe_nothing_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with CliProgress("working") as progress:
        progress("reading", 1, 2)
        progress("reading", 2, None)
    assert capsys.readouterr() == ("", "")


def test_a_download_in_a_pipe_is_silent(openskills: Command, web: Web) -> None:
    web.pages["/skills.zip"] = Page(archive())
    ran = openskills("list", f"{web.url}/skills.zip")
    assert (ran.code, ran.out.split("\t")[0], ran.err) == (0, "alpha", "")


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


def run(*arguments: str) -> object:
    app = typer.Typer(cls=QuickGroup)
    seen: list[object] = []

    @app.command(cls=QuickCommand)
    def paint(  # pyright: ignore[reportUnusedFunction]
        name: str,
        more: Annotated[list[str] | None, typer.Argument()] = None,
        size: Annotated[int, typer.Option(min=1)] = 3,
        colour: Colour = Colour.RED,
        note: str | None = None,
        loud: bool = False,
    ) -> None:
        seen.extend([name, more, size, colour, note, loud])

    typer.main.get_command(app)(list(arguments), standalone_mode=False)
    return seen


def test_every_kind_of_parameter_arrives_as_its_type() -> None:
    assert run("a") == ["a", None, 3, Colour.RED, None, False]
    everything = run("a", "b", "c", "--size", "5", "--colour", "blue", "--note", "7", "--loud")
    assert everything == ["a", ["b", "c"], 5, Colour.BLUE, "7", True]


@pytest.mark.parametrize(
    "arguments", [(), ("a", "--size", "0"), ("a", "--size", "x"), ("a", "--colour", "green"), ("a", "--what")]
)
def test_wrong_values_are_still_refused(arguments: tuple[str, ...]) -> None:
    with pytest.raises(typer.TyperException):
        run(*arguments)


@dataclass(frozen=True)
class PaintOptions:
    colour: Annotated[str, option("NAME", "The colour.")] = "red"
    many: Annotated[list[str] | None, option("WORD", "Words.", names="--word")] = None


def test_groups_of_options_and_the_settings_arrive_as_objects() -> None:
    app = typer.Typer(cls=QuickGroup)
    seen: list[object] = []

    def paint(settings: Settings, name: str, options: PaintOptions, loud: bool = False) -> None:
        seen.extend([settings, name, options, loud])

    app.command(cls=QuickCommand)(expand_options(paint))
    settings = Settings.from_env({})
    line = ["a", "--colour", "blue", "--word", "b", "--word", "c", "--loud"]
    typer.main.get_command(app)(line, standalone_mode=False, obj=settings)
    assert seen == [settings, "a", PaintOptions("blue", ["b", "c"]), True]


def test_text_does_not_load_pydantic() -> None:
    program = """
import sys, typer
from openskills.cli.parameters import QuickCommand, QuickGroup
app = typer.Typer(cls=QuickGroup)
@app.command(cls=QuickCommand)
def hello(name: str, size: int = 1, loud: bool = False) -> None: ...
typer.main.get_command(app)(["x"], standalone_mode=False)
assert "pydantic" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_warnings_are_lines_on_stderr_while_the_block_lasts(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("openskills.somewhere")
    with log_warnings():
        logger.warning("the disk\nis %s\x1b[2J", "full")
        logger.info("nothing")
        try:
            int("x")
        except ValueError:
            logger.exception("it broke")
    logger.warning("afterwards")
    assert capsys.readouterr().err == "warning: the disk is full\\x1b[2J\nerror: it broke\n"


def test_run_warns_when_the_audit_log_cannot_be_written(
    openskills: Command, write_skill: WriteSkill, tmp_path: Path
) -> None:
    write_skill("demo")
    state = tmp_path / "state"
    (state / "audit.jsonl").mkdir(parents=True)
    arguments = ("run", "demo", "--skills", "skills", "--executor", "local", "--", "echo hi")
    ran = openskills(*arguments, OPENSKILL_STATE_DIR=str(state))
    assert (ran.code, ran.out) == (0, "hi\n")
    told = [line for line in ran.err.splitlines() if "audit.jsonl: Is a directory" in line]
    assert len(told) == 1
    assert told[0].startswith("warning: ")


LONG = "Merges a great many files into one file that is larger. Use when there are too many files to look at."


def test_in_a_pipe_nothing_is_cut(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("alpha", LONG)
    assert openskills("list", "skills").out == f"alpha\t{LONG}\tskills\t\t\n"


def test_on_a_terminal_every_row_fits_the_width(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("alpha", LONG)
    write_skill("beta", "合并" * 60)
    lines = openskills.on_terminal("list", "skills", columns=70).lines
    assert lines[0].split() == ["name", "description", "source"]
    assert [line[:7] for line in lines[1:3]] == ["alpha  ", "beta   "]
    assert all("…  skills" in line for line in lines[1:3])
    # A Chinese character takes two columns.
    assert all(len(line) + sum(ord(letter) > 0x2E80 for letter in line) <= 70 for line in lines[1:3])


def test_a_narrow_terminal_still_shows_something_of_everything(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("a-rather-long-name-for-a-skill", LONG)
    out = "\n".join(openskills.on_terminal("list", "skills", columns=30).lines)
    assert "a-rather-long-name-for-a-skill" in out
    assert "Merges a great many" in out


def test_no_rows_have_no_heading(openskills: Command) -> None:
    out = openskills.on_terminal("list", ".").out
    assert "description" not in out
    assert "no skills found" in out


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
    assert PROBLEM.to_dict() == {**fields, "message": "what\n\x1b[31m is"}
    assert list(PROBLEM.to_dict()) == ["rule", "severity", "line", "column", "message", "fix"]
    assert Problem("r", "m").to_dict()["fix"] is None
    assert list(problem_json_with_path(PROBLEM)) == ["path", *PROBLEM.to_dict()]


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
