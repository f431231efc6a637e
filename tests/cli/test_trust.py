"""`trust`: see what it is about, agree, take it back."""

import json
from pathlib import Path

from tests.cli.command import Command
from tests.cli.conftest import WriteSkill


def test_without_a_terminal_it_shows_and_does_not_agree(openskills: Command, write_skill: WriteSkill) -> None:
    folder = write_skill("alpha", under="here/.agents/skills")
    ran = openskills("trust")
    assert ran.code == 1
    assert f"project  {openskills.cwd}" in ran.lines
    assert f"place    {folder.parent}" in ran.lines
    assert any(line.startswith("digest   sha256:") for line in ran.lines)
    assert "  alpha  .agents/skills/alpha" in ran.lines
    assert "agree with `openskills trust --yes`" in ran.err
    assert openskills("list").out == ""


def test_yes_agrees_and_remove_takes_it_back(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("alpha", under="here/.agents/skills")
    assert "trusted: agents may use these skills" in openskills("trust", "--yes").lines
    assert openskills("list").lines[0].startswith("alpha\t")
    assert "already trusted: agents may use these skills" in openskills("trust").lines
    assert "no longer used" in openskills("trust", "--remove").out
    assert openskills("list").out == ""
    assert "Nobody had agreed" in openskills("trust", "--remove").out


def test_on_a_terminal_the_answer_decides(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("alpha", under="here/.agents/skills")
    assert openskills.on_terminal("trust", replies={"[y/N]": "\n"}).code == 1
    assert openskills.on_terminal("trust", replies={"[y/N]": "yes\n"}).code == 0
    assert openskills("list").lines[0].startswith("alpha\t")


def test_json_reports_and_decides_only_when_told(openskills: Command, write_skill: WriteSkill) -> None:
    folder = write_skill("alpha", "Merges. Use when asked.", under="here/.agents/skills")
    ran = openskills("trust", "--json")
    assert (ran.code, ran.json["trusted"]) == (0, False)
    assert list(ran.json) == ["project", "places", "digest", "trusted", "skills", "problems"]
    assert (ran.json["project"], ran.json["places"]) == (str(openskills.cwd), [str(folder.parent)])
    expected = {"name": "alpha", "description": "Merges. Use when asked.", "location": f"{folder}/SKILL.md"}
    assert ran.json["skills"] == [expected]
    assert openskills("trust", "--json", "--yes").json["trusted"] is True
    assert openskills("trust", "--json").json["trusted"] is True
    assert openskills("trust", "--json", "--remove").json == {"project": str(openskills.cwd), "removed": True}


def test_the_list_has_every_project(openskills: Command, write_skill: WriteSkill, tmp_path: Path) -> None:
    assert openskills("trust", "--list", "--json").json == {"projects": []}
    for project in ("here", "other"):
        write_skill("alpha", under=f"{project}/.claude/skills")
        assert openskills("trust", tmp_path / project, "--yes").code == 0
    (first, second) = openskills("trust", "--list", "--json").json["projects"]
    assert (first["path"], second["path"]) == (str(tmp_path / "here"), str(tmp_path / "other"))
    assert openskills("trust", "--list").lines[0].endswith(str(tmp_path / "here"))


def test_a_folder_of_the_project_stands_for_it(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("alpha", under="here/.agents/skills")
    (openskills.cwd / ".git").mkdir()
    deep = openskills.cwd / "a" / "b"
    deep.mkdir(parents=True)
    assert openskills("trust", deep, "--json").json["project"] == str(openskills.cwd)


def test_a_project_without_skills_has_nothing_to_decide(openskills: Command) -> None:
    ran = openskills("trust")
    assert (ran.code, "nothing to decide" in ran.out) == (0, True)
    assert openskills("trust", "--json").json["skills"] == []


def test_wrong_usage_is_said(openskills: Command) -> None:
    assert openskills("trust", "nowhere").code == 2
    assert openskills("trust", "--yes", "--remove").code == 2


def test_a_broken_list_of_decisions_is_named(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("alpha", under="here/.agents/skills")
    file = openskills.home / ".config" / "openskills" / "trust.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps([1]))
    ran = openskills("trust", "--list")
    assert ran.code == 2
    assert str(file) in ran.err
