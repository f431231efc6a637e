"""At a terminal a person is asked about a project's skills, sees what it is about, and is asked once."""

import pytest

from tests.cli.command import Command
from tests.skill_writer import WriteSkill

QUESTION = "[y/N]"


def test_a_yes_is_remembered_until_something_changes(openskills: Command, write_skill: WriteSkill) -> None:
    folder = write_skill("alpha", under="here/.agents/skills")
    ran = openskills.on_terminal("list", replies={QUESTION: "y\n"})
    assert ran.code == 0
    assert str(openskills.cwd) in ran.out
    assert any(line.split() == ["alpha", ".agents/skills/alpha"] for line in ran.lines)
    assert "project-untrusted" not in ran.out
    again = openskills.on_terminal("list")
    assert QUESTION not in again.out
    assert again.lines[1].startswith("alpha")
    (folder / "script.sh").write_text("echo changed\n")
    assert openskills.on_terminal("list", replies={QUESTION: "n\n"}).code == 0


@pytest.mark.parametrize("answer", ["n\n", "\n", "\x04"])
def test_anything_but_yes_is_no_and_the_rest_is_listed(
    openskills: Command, write_skill: WriteSkill, answer: str
) -> None:
    write_skill("alpha", under="here/.agents/skills")
    write_skill("beta", under="home/.agents/skills")
    ran = openskills.on_terminal("list", replies={QUESTION: answer})
    assert ran.code == 0
    assert "project-untrusted" in ran.out
    assert any(line.startswith("beta ") for line in ran.lines)
    assert not any(line.startswith("alpha ") for line in ran.lines)


def test_a_no_is_asked_for_once_until_the_skills_change(openskills: Command, write_skill: WriteSkill) -> None:
    folder = write_skill("alpha", under="here/.agents/skills")
    openskills.on_terminal("list", replies={QUESTION: "n\n"})
    assert QUESTION not in openskills.on_terminal("list").out
    (folder / "new.md").write_text("changed")
    assert any(line.startswith("alpha ") for line in openskills.on_terminal("list", replies={QUESTION: "y\n"}).lines)


def test_only_what_nobody_has_decided_about_is_asked_for(openskills: Command, write_skill: WriteSkill) -> None:
    (openskills.cwd / ".git").mkdir()
    sub = openskills.cwd / "sub"
    write_skill("top", under="here/.agents/skills")
    write_skill("near", under="here/sub/.agents/skills")
    openskills.on_terminal("list", replies={QUESTION: "n\n"})
    asked = openskills.on_terminal("list", cwd=sub, replies={QUESTION: "y\n"})
    question = asked.lines[: next(number for number, line in enumerate(asked.lines) if QUESTION in line)]
    assert [line.split()[0] for line in question if line.startswith("  ")] == ["near"]
    for folder in (sub, openskills.cwd):
        assert QUESTION not in openskills.on_terminal("list", cwd=folder).out
    assert [line.split("\t")[0] for line in openskills("list", cwd=sub).lines] == ["near"]


def test_an_end_of_input_is_no_answer_and_is_not_remembered(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("alpha", under="here/.agents/skills")
    openskills.on_terminal("list", replies={QUESTION: "\x04"})
    assert QUESTION in openskills.on_terminal("list", replies={QUESTION: "y\n"}).out


def test_a_name_cannot_fake_the_question(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("'safe\x7f [bold]'", under="here/.agents/skills", folder="alpha\x1b[2K")
    ran = openskills.on_terminal("list", replies={QUESTION: "n\n"})
    assert "\x1b[2K" not in ran.out


def test_commands_that_are_given_paths_do_not_ask(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("alpha", under="here/.agents/skills")
    write_skill("beta")
    assert QUESTION not in openskills.on_terminal("list", "skills").out
    assert QUESTION not in openskills.on_terminal("info", "./skills/beta").out
    assert QUESTION not in openskills.on_terminal("list", "--trust").out


def test_programs_are_never_asked(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("alpha", under="here/.agents/skills")
    write_skill("beta", under="home/.agents/skills")
    for arguments in (("list",), ("search", "things"), ("info", "beta"), ("trust",)):
        assert QUESTION not in openskills.on_terminal(*arguments, "--json").out
