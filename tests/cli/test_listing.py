"""`list`: every skill with its source and the reason why it is hidden, and everything that is wrong."""

import json
from pathlib import Path

import pytest

from tests.catalog.fetch.web_server import Web
from tests.cli.command import Command
from tests.skill_writer import WriteSkill


def test_json_has_exactly_the_documented_shape(openskills: Command, write_skill: WriteSkill) -> None:
    good = write_skill("alpha", "Merges. Use when asked.")
    write_skill("beta", front="disable-model-invocation: true\n")
    bad = write_skill("gamma", "''")
    ran = openskills("list", "skills", "--json")
    assert (ran.code, ran.err) == (0, "")
    assert list(ran.json) == ["skills", "problems"]
    first, second = ran.json["skills"]
    assert first == {
        "name": "alpha",
        "description": "Merges. Use when asked.",
        "location": str(good / "SKILL.md"),
        "source": "skills",
        "hidden": None,
    }
    assert (second["name"], "disable-model-invocation" in second["hidden"]) == ("beta", True)
    (problem,) = ran.json["problems"]
    assert list(problem) == ["path", "rule", "severity", "line", "column", "message", "fix"]
    assert (problem["path"], problem["rule"]) == (str(bad / "SKILL.md"), "description-required")


def test_without_paths_the_standard_places_and_skills_root_are_searched(
    openskills: Command, write_skill: WriteSkill, tmp_path: Path
) -> None:
    write_skill("alpha", under="home/.claude/skills")
    write_skill("beta", under="home/.agents/skills")
    write_skill("beta", "From the root. Use when asked.", under="root")
    ran = openskills("list", "--json", SKILLS_ROOT=str(tmp_path / "root"))
    assert [(skill["name"], skill["source"]) for skill in ran.json["skills"]] == [
        ("alpha", "~/.claude/skills"),
        ("beta", str(tmp_path / "root")),
    ]
    assert [problem["rule"] for problem in ran.json["problems"]] == ["name-shadowed"]


def test_the_skills_of_a_project_are_reported_and_not_used(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("alpha", under="here/.agents/skills")
    ran = openskills("list")
    assert (ran.code, ran.out) == (0, "")
    assert "nobody has agreed to them" in ran.err
    assert "openskills trust" in ran.err
    assert "[project-untrusted]" in ran.err
    assert openskills("list", "--trust").out.startswith("alpha\t")
    # That was for one time only.
    assert openskills("list").out == ""


def test_problems_stand_on_stderr_with_their_count(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("alpha")
    write_skill("Beta")
    write_skill("gamma", "''")
    ran = openskills("list", "skills")
    assert [line.split("\t")[0] for line in ran.lines] == ["Beta", "alpha"]
    assert ran.err.splitlines()[0].startswith("skills/gamma/SKILL.md:3:14: error: there is no description")
    assert ran.err.splitlines()[-1] == "2 problems (1 error, 1 warning)"


def test_on_a_terminal_the_reason_to_hide_is_a_whole_sentence(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("alpha", front="metadata:\n  requires:\n    bins: [no-such-program-here]\n")
    ran = openskills.on_terminal("list", "skills", columns=60)
    reason = "it needs the program no-such-program-here; install it so that it is on the PATH"
    assert f"hidden: alpha: {reason}" in ran.lines
    assert openskills("list", "skills").lines[0].split("\t")[3] == reason


@pytest.mark.parametrize("text", ["\x1b]0;title\x07", "[red]x[/red]", "[/nothing]", ":smile:"])
def test_hostile_text_is_shown_and_not_obeyed(openskills: Command, write_skill: WriteSkill, text: str) -> None:
    write_skill("alpha", json.dumps(f"Says {text} aloud. Use when asked."))
    shown = text.replace("\x1b", "\\x1b").replace("\x07", "\\x07")
    assert shown in openskills("list", "skills").out
    screen = openskills.on_terminal("list", "skills").out
    assert shown in screen
    assert "\x1b]" not in screen


def test_a_place_that_cannot_be_had_hides_no_other_and_the_exit_code_is_1(
    openskills: Command, write_skill: WriteSkill, web: Web
) -> None:
    write_skill("alpha")
    for missing in ("nowhere", f"{web.url}/skills.zip", "package:no_such_package_here"):
        ran = openskills("list", "skills", missing)
        assert (ran.code, ran.lines[0].split("\t")[0]) == (1, "alpha")
        assert missing in ran.err


def test_text_that_names_no_source_is_wrong_usage(openskills: Command) -> None:
    ran = openskills("list", "ftp://example.org/skills")
    assert (ran.code, ran.out) == (2, "")
    assert "ftp:// is not known" in ran.err


def test_thousands_of_skills_are_listed(openskills: Command, write_skill: WriteSkill) -> None:
    for number in range(1000):
        write_skill(f"skill-{number:04}")
    assert len(openskills("list", "skills").lines) == 1000
    assert openskills.on_terminal("list", "skills", columns=70).out.count("skill-") == 1000
