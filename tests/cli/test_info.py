"""`info`: one skill, by name or by path, with all there is to know."""

from pathlib import Path

from tests.cli.command import Command
from tests.skill_writer import WriteSkill


def test_people_see_fields_files_and_problems(openskills: Command, write_skill: WriteSkill) -> None:
    front = (
        "license: MIT\nallowed-tools: Read Bash(git:*)\nmetadata:\n  requires: {bins: [sh], env: [HOME]}\ncolor: x\n"
    )
    folder = write_skill("alpha", front=front)
    (folder / "scripts").mkdir()
    (folder / "scripts" / "run.sh").write_text("echo\n" * 8)
    ran = openskills("info", "alpha", "skills")
    assert ran.code == 0
    assert ran.lines[0] == "alpha"
    rows = dict(line.split(None, 1) for line in ran.lines[3:] if line and not line.startswith(" "))
    assert rows["location"] == "skills/alpha/SKILL.md"
    assert (rows["source"], rows["hidden"], rows["license"]) == ("skills", "no", "MIT")
    assert rows["allowed-tools"] == '["Read", "Bash(git:*)"]'
    assert rows["requires"] == "programs sh; variables HOME"
    assert rows["body"] == "1 line, 2 tokens (estimated)"
    assert "  script            40 bytes       10 tokens  scripts/run.sh" in ran.lines
    assert any(line.startswith("  skills/alpha/SKILL.md:8:1: note: ") for line in ran.lines)


def test_a_path_is_a_skill_as_well(openskills: Command, write_skill: WriteSkill) -> None:
    folder = write_skill("alpha")
    for name in (folder, "./skills/alpha", "skills/alpha/SKILL.md"):
        assert openskills("info", name, "--json").json["location"] == str(folder / "SKILL.md")
    assert openskills("info", ".", "--json", cwd=folder).json["name"] == "alpha"
    assert openskills("info", "alpha", "--json", cwd=folder.parent).json["name"] == "alpha"


def test_hidden_and_shadowed_skills_say_why(openskills: Command, write_skill: WriteSkill) -> None:
    lost = write_skill("alpha", under="home/.claude/skills")
    won = write_skill("alpha", under="home/.agents/skills", front="disable-model-invocation: true\n")
    winner = openskills("info", "alpha", "--json").json
    assert (winner["location"], winner["shadows"]) == (f"{won}/SKILL.md", [f"{lost}/SKILL.md"])
    assert "disable-model-invocation" in winner["hidden"]
    loser = openskills("info", lost, "--json").json
    assert (loser["shadowed_by"], loser["hidden"]) == (f"{won}/SKILL.md", None)
    assert f"shadows       {lost}/SKILL.md (~/.claude/skills)" in openskills("info", "alpha").lines
    assert f"shadowed by   {won}/SKILL.md (~/.agents/skills)" in openskills("info", lost).lines


def test_an_unknown_name_comes_with_the_nearest(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("pdf-tools")
    ran = openskills("info", "pdf-tolls", "skills")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "error: there is no skill named 'pdf-tolls'; did you mean 'pdf-tools'?\n"


def test_a_folder_that_is_no_usable_skill_is_explained(
    openskills: Command, write_skill: WriteSkill, tmp_path: Path
) -> None:
    write_skill("alpha", "''")
    ran = openskills("info", "./skills/alpha")
    assert (ran.code, "[description-required]" in ran.err, "holds no skill" in ran.err) == (1, True, True)
    write_skill("beta")
    write_skill("gamma")
    ran = openskills("info", "./skills")
    assert (ran.code, "holds 2 skills" in ran.err) == (2, True)
    assert openskills("info", "./nowhere").code == 2


def test_hostile_text_is_shown_and_not_obeyed(openskills: Command, write_skill: WriteSkill) -> None:
    folder = write_skill("alpha", '"[red]x[/red] \\e[31m"', front='license: "\\e[32m"\n')
    (folder / "a\x1b[33m.txt").write_text("x")
    screen = openskills.on_terminal("info", folder).out
    assert "[red]x[/red] \\x1b[31m" in screen
    assert not any(f"\x1b[{number}m" in screen for number in (31, 33))
