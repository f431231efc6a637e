"""Which skills a command is about when nobody says: those an agent would find here, the nearest first."""

from pathlib import Path

from tests.cli.command import Command
from tests.skill_writer import WriteSkill


def test_project_wins_over_home_and_skills_root_over_both(
    openskills: Command, write_skill: WriteSkill, tmp_path: Path
) -> None:
    for under in ("home/.agents/skills", "here/.agents/skills", "root"):
        write_skill("alpha", under=under)
    assert openskills("list").lines[0].split("\t")[2] == "~/.agents/skills"
    assert openskills("list", "--trust").lines[0].split("\t")[2] == ".agents/skills"
    root = str(tmp_path / "root")
    assert openskills("list", "--trust", SKILLS_ROOT=root).lines[0].split("\t")[2] == root


def test_in_the_home_directory_nobody_is_asked(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("alpha", under="home/.agents/skills")
    ran = openskills.on_terminal("list", cwd=openskills.home)
    assert "[y/N]" not in ran.out
    assert ran.lines[1].startswith("alpha")


def test_a_bad_skills_root_is_named(openskills: Command) -> None:
    ran = openskills("list", SKILLS_ROOT="ftp://example.org/skills")
    assert (ran.code, ran.err.startswith("error: SKILLS_ROOT: ")) == (2, True)


def test_paths_that_are_named_are_trusted(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("alpha", under="here/.agents/skills")
    assert openskills("list", ".agents/skills").lines[0].startswith("alpha\t")


def test_of_two_paths_the_later_wins(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("alpha", under="here/one")
    write_skill("alpha", under="here/two")
    assert openskills("list", "one", "two").lines[0].split("\t")[2] == "two"
    assert openskills("list", "two", "one").lines[0].split("\t")[2] == "one"
