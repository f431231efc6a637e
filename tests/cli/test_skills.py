"""Which skills a command is about when nobody says: those an agent would find here, the nearest first.

At a terminal a person is asked about a project's skills, sees what it is about, and is asked once.

What is said about a skill: estimates are for text only, relations are by folder.

`info`: one skill, by name or by path, with all there is to know.

`list`: every skill with its source and the reason why it is hidden, and everything that is wrong.

`search`: the best first, for people and for programs.
"""

import json
from pathlib import Path

import pytest

from openskills.catalog.catalog import Catalog
from openskills.runtime.details import collect_details, details_json, manifest_fields
from openskills.settings import Settings
from openskills.skillmd.manifest import SkillManifest
from tests.catalog.sources.web_server import Web
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


def test_in_the_home_directory_there_is_no_question(openskills: Command, write_skill: WriteSkill) -> None:
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
def test_any_answer_except_yes_declines_and_the_rest_is_listed(
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


def test_only_undecided_directories_are_asked_about(openskills: Command, write_skill: WriteSkill) -> None:
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


def test_the_end_of_input_is_not_stored_as_an_answer(openskills: Command, write_skill: WriteSkill) -> None:
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


def catalog_of(tmp_path: Path, *places: Path) -> Catalog:
    settings = Settings.from_env({"HOME": str(tmp_path / "home"), "PATH": ""})
    return Catalog.from_paths(*places, settings=settings)


def test_tokens_are_estimated_for_text_and_unknown_for_the_rest(tmp_path: Path, write_skill: WriteSkill) -> None:
    folder = write_skill("alpha", body="four")
    (folder / "notes.md").write_text("x" * 400)
    (folder / "image.png").write_bytes(b"\x89PNG\xff")
    (folder / "nul.txt").write_bytes(b"a\0b")
    (folder / "huge.txt").write_bytes(b"x" * (1024 * 1024 + 1))
    catalog = catalog_of(tmp_path, folder)
    facts = collect_details(catalog.get("alpha"), None, catalog.snapshot, Settings.from_env({}))
    assert (facts.body_lines, facts.body_tokens) == (1, 1)
    tokens = {resource.path: count for resource, count in facts.resources}
    assert tokens == {"notes.md": 100, "image.png": None, "nul.txt": None, "huge.txt": None}


def test_the_winner_shadows_and_the_loser_is_shadowed(tmp_path: Path, write_skill: WriteSkill) -> None:
    first, second = write_skill("alpha", under="one"), write_skill("alpha", under="two")
    around = catalog_of(tmp_path, first, second).snapshot
    winner = collect_details(around.get("alpha"), None, around, Settings.from_env({}))
    assert ([skill.directory for skill in winner.shadows], winner.shadowed_by) == ([str(first)], None)
    loser = collect_details(catalog_of(tmp_path, first).get("alpha"), None, around, Settings.from_env({}))
    assert loser.shadowed_by is not None
    assert (loser.shadows, loser.shadowed_by.directory) == ((), str(second))


def test_only_fields_that_were_given_are_named() -> None:
    manifest = SkillManifest("a", "b", license="MIT", allowed_tools=("Read",), user_invocable=False)
    assert manifest_fields(manifest) == {"license": "MIT", "allowed_tools": ("Read",), "user_invocable": False}
    assert manifest_fields(SkillManifest("a", "b")) == {}


def test_the_facts_for_a_program_name_everything(tmp_path: Path, write_skill: WriteSkill) -> None:
    catalog = catalog_of(tmp_path, write_skill("alpha", front="metadata: {requires: {bins: [ls]}}\n"))
    hidden = catalog.snapshot.hidden["alpha"]
    facts = details_json(
        collect_details(hidden.skill, hidden.reason, catalog.snapshot, Settings.from_env({"PATH": "/none"}))
    )
    assert list(facts) == [
        "name",
        "description",
        "location",
        "source",
        "hidden",
        "fields",
        "requirements",
        "missing",
        "body",
        "resources",
        "shadows",
        "shadowed_by",
        "problems",
        "needs",
    ]
    nothing = {"any_bins": (), "env": (), "platforms": ()}
    assert facts["requirements"] == {"bins": ("ls",), **nothing, "optional_env": (), "always": False}
    assert facts["missing"] == {"bins": ("ls",), **nothing}


def test_what_a_skill_requires_and_what_is_missing_is_shown(openskills: Command, write_skill: WriteSkill) -> None:
    folder = write_skill(
        "alpha", front='metadata: {"openclaw": {"requires": {"bins": ["sh", "no-such"], "env": ["HOME", "A_KEY"]}}}\n'
    )
    ran = openskills("info", folder)
    assert "requires      programs sh, no-such; variables HOME, A_KEY" in ran.lines
    assert "missing       programs no-such; variables A_KEY" in ran.lines
    assert "missing       programs no-such" in openskills("info", folder, A_KEY="x").lines


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
    assert ran.err == "error: unknown skill 'pdf-tolls'; did you mean 'pdf-tools'?\n"


def test_a_folder_without_a_usable_skill_is_explained(
    openskills: Command, write_skill: WriteSkill, tmp_path: Path
) -> None:
    write_skill("alpha", "''")
    ran = openskills("info", "./skills/alpha")
    assert (ran.code, "[description-required]" in ran.err, "no valid skill in" in ran.err) == (1, True, True)
    write_skill("beta")
    write_skill("gamma")
    ran = openskills("info", "./skills")
    assert (ran.code, "contains 2 skills" in ran.err) == (2, True)
    assert openskills("info", "./nowhere").code == 2


def test_hostile_text_is_shown_and_not_obeyed(openskills: Command, write_skill: WriteSkill) -> None:
    folder = write_skill("alpha", '"[red]x[/red] \\e[31m"', front='license: "\\e[32m"\n')
    (folder / "a\x1b[33m.txt").write_text("x")
    screen = openskills.on_terminal("info", folder).out
    assert "[red]x[/red] \\x1b[31m" in screen
    assert not any(f"\x1b[{number}m" in screen for number in (31, 33))


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
        "resources": {"script": 0, "reference": 0, "asset": 0, "other": 0},
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
    assert "not trusted yet" in ran.err
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
    assert ran.err.splitlines()[0].startswith("skills/gamma/SKILL.md:3:14: error: the description is missing")
    assert ran.err.splitlines()[-1] == "2 problems (1 error, 1 warning)"


def test_on_a_terminal_the_reason_to_hide_is_a_whole_sentence(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("alpha", front="metadata:\n  requires:\n    bins: [no-such-program-here]\n")
    ran = openskills.on_terminal("list", "skills", columns=60)
    reason = "it needs the program no-such-program-here; install it on the PATH"
    assert f"hidden: alpha: {reason}" in ran.lines
    assert openskills("list", "skills").lines[0].split("\t")[3] == reason


@pytest.mark.parametrize("text", ["\x1b]0;title\x07", "[red]x[/red]", "[/nothing]", ":smile:"])
def test_hostile_text_is_shown_and_not_obeyed_in_listing(
    openskills: Command, write_skill: WriteSkill, text: str
) -> None:
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
    assert "unknown scheme ftp://" in ran.err


def test_the_number_of_files_of_each_kind_is_listed(openskills: Command, write_skill: WriteSkill) -> None:
    folder = write_skill("alpha")
    for path in ("scripts/a.py", "scripts/b.sh", "references/c.md", "assets/d.png", "data.bin"):
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text("x")
    (skill,) = openskills("list", "skills", "--json").json["skills"]
    assert skill["resources"] == {"script": 2, "reference": 1, "asset": 1, "other": 1}
    assert openskills("list", "skills").lines[0].endswith("\t2 scripts, 1 reference, 1 asset, 1 other")
    assert "2 scripts, 1 reference" in openskills.on_terminal("list", "skills", columns=120).out


def test_thousands_of_skills_are_listed(openskills: Command, write_skill: WriteSkill) -> None:
    for number in range(1000):
        write_skill(f"skill-{number:04}")
    assert len(openskills("list", "skills").lines) == 1000
    assert openskills.on_terminal("list", "skills", columns=70).out.count("skill-") == 1000


def test_the_best_hit_comes_first(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("pdf-tools", "Merges PDF files. Use when the user has several PDFs.")
    write_skill("brand-voice", "Writes in the tone of the company. Use for public texts.")
    ran = openskills("search", "merge two pdfs", "skills")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == "pdf-tools\tMerges PDF files. Use when the user has several PDFs.\tskills\n"


def test_json_has_a_score_and_the_limit_counts(openskills: Command, write_skill: WriteSkill) -> None:
    for number in range(5):
        write_skill(f"merge-{number}")
    skills = openskills("search", "merge", "skills", "--limit", "2", "--json").json["skills"]
    assert len(skills) == 2
    assert list(skills[0]) == ["name", "description", "location", "source", "score"]
    assert skills[0]["score"] > 0


def test_a_search_without_matches_is_reported_and_succeeds(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("alpha")
    ran = openskills("search", "\x1bzzzz", "skills")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.startswith("none of 1 visible skill")
    assert "\x1b" not in ran.err


def test_a_place_that_is_missing_explains_a_missing_result(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("alpha", under="here/.agents/skills")
    assert "[project-untrusted]" in openskills("search", "things").err
    assert openskills("search", "things", "nowhere").code == 1


def test_problems_of_single_skills_are_not_repeated_here(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("Alpha")
    assert openskills("search", "things", "skills").err == ""
