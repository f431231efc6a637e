"""Rows: aligned and cut to the terminal for people, whole and with tabs in a pipe."""

from tests.cli.command import Command
from tests.skill_writer import WriteSkill

LONG = "Merges a great many files into one file that is larger. Use when there are too many files to look at."


def test_in_a_pipe_nothing_is_cut(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("alpha", LONG)
    assert openskills("list", "skills").out == f"alpha\t{LONG}\tskills\t\n"


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
    assert "no skills were found" in out
