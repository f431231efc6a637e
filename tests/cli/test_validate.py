"""`validate`: exit codes, the three formats, and what --strict, --fix and --quiet change.

SARIF from verdicts: what viewers need, and offsets that mean the same to every reader.
"""

import json
import os
from pathlib import Path

import pytest

from openskills.catalog.validate import ValidationResult, validate
from openskills.cli.validate import build_sarif
from openskills.skillmd.problem import Edit, Fix, Problem, Severity
from tests.cli.command import Command
from tests.skill_writer import WriteSkill


def test_good_skills_are_counted_and_the_exit_code_is_0(openskills: Command, write_skill: WriteSkill) -> None:
    for name in ("alpha", "beta"):
        write_skill(name)
    ran = openskills("validate", "skills")
    assert (ran.code, ran.out, ran.err) == (0, "2 skills valid\n", "")
    assert openskills("validate", "skills/alpha", "skills/alpha/SKILL.md").out == "1 skill valid\n"


def test_a_point_inside_the_folder_is_that_skill(openskills: Command, write_skill: WriteSkill) -> None:
    folder = write_skill("alpha")
    for path in (".", "SKILL.md", "./SKILL.md", folder):
        assert openskills("validate", path, cwd=folder).out == "1 skill valid\n"


def test_every_problem_is_a_line_with_its_place(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("Alpha")
    write_skill("beta", folder="other", front="color: red\n")
    ran = openskills("validate", "skills")
    assert ran.code == 1
    assert ran.lines[0].startswith("skills/Alpha/SKILL.md:2:7: error: the name 'Alpha' has upper-case letters")
    assert ran.lines[0].endswith("[name-uppercase]")
    assert any(line.startswith("skills/other/SKILL.md:2:7: error: ") for line in ran.lines)
    assert any(line.startswith("skills/other/SKILL.md:4:1: note: ") for line in ran.lines)
    assert ran.lines[-1] == "2 of 2 skills invalid (2 errors, 1 note)"


def test_rules_can_be_selected_and_ignored(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("alpha", body="See [a](gone.md).\n", front="color: red\n")

    def rules(*arguments: str) -> list[str]:
        found = json.loads(openskills("validate", "skills", "--json", *arguments).out)["skills"][0]["problems"]
        return [problem["rule"] for problem in found]

    assert rules() == ["field-unknown", "link-dead"]
    assert rules("--select", "link-dead") == rules("--ignore", "field-unknown,body-lines") == ["link-dead"]
    assert rules("--select", "link-dead", "--ignore", "link-dead") == []
    ran = openskills("validate", "skills", "--ignore", "link-ded")
    assert ran.code == 2
    assert "--ignore: unknown rule 'link-ded'; did you mean link-dead?" in ran.err


def test_comments_suppress_warnings_of_their_line_and_the_next_one(
    openskills: Command, write_skill: WriteSkill
) -> None:
    comment = "<!-- openskills: ignore link-dead -->"
    write_skill("alpha", body=f"{comment}\n[a](a.md)\n[b](b.md) {comment}\n\n[c](c.md)\n")
    assert [line.split("'")[1] for line in openskills("validate", "skills").lines if "link-dead" in line] == ["c.md"]
    write_skill("alpha", body="<!-- openskills: ignore-file link-dead -->\n[a](a.md)\n\n[b](b.md)\n")
    assert openskills("validate", "skills").out == "1 skill valid\n"


def test_errors_cannot_be_suppressed_in_the_file(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("Alpha", body="<!-- openskills: ignore-file name-uppercase -->\ntext\n")
    assert openskills("validate", "skills").code == 1


def test_explain_says_what_a_rule_wants_and_how_to_suppress_it(openskills: Command) -> None:
    ran = openskills("explain", "link-dead")
    assert ran.lines[0] == "link-dead: warning"
    assert "<!-- openskills: ignore link-dead -->" in ran.out
    assert "cannot be suppressed" in openskills("explain", "name-uppercase").out
    assert len(openskills("explain").lines) == len(json.loads(openskills("explain", "--json").out)["rules"]) > 40
    ran = openskills("explain", "nothing")
    assert (ran.code, ran.err) == (2, "error: RULE: unknown rule 'nothing'; openskills explain lists the rules\n")


def test_json_has_exactly_the_documented_shape(openskills: Command, write_skill: WriteSkill) -> None:
    good, bad = write_skill("alpha"), write_skill("Beta", folder="beta")
    ran = openskills("validate", good, bad, "--format", "json")
    assert ran.code == 1
    assert list(ran.json) == ["skills"]
    first, second = ran.json["skills"]
    assert first == {"path": str(good / "SKILL.md"), "name": "alpha", "valid": True, "problems": []}
    assert (second["path"], second["name"], second["valid"]) == (str(bad / "SKILL.md"), "Beta", False)
    (problem,) = (each for each in second["problems"] if each["rule"] == "name-uppercase")
    assert list(problem) == ["rule", "severity", "line", "column", "message", "fix"]
    assert (problem["severity"], problem["line"], problem["column"]) == ("error", 2, 7)
    assert problem["fix"] == "name it beta, as its folder"


def test_a_skill_that_cannot_be_read_has_no_name(openskills: Command, tmp_path: Path) -> None:
    (tmp_path / "here" / "SKILL.md").write_bytes(b"\xff\xfe")
    (skill,) = openskills("validate", ".", "--format", "json").json["skills"]
    assert (skill["name"], skill["valid"], skill["problems"][0]["rule"]) == (None, False, "text-encoding")


def test_strict_makes_warnings_and_unknown_fields_count(openskills: Command, write_skill: WriteSkill) -> None:
    cases = {
        "unknown": write_skill("unknown", front="color: red\n"),
        "warning": write_skill("warning", body=""),
        "note": write_skill("note", "Short."),
    }
    for path in cases.values():
        assert openskills("validate", path).code == 0
    codes = {name: openskills("validate", path, "--strict").code for name, path in cases.items()}
    assert codes == {"unknown": 1, "warning": 1, "note": 0}
    (skill,) = openskills("validate", cases["unknown"], "--strict", "--format", "json").json["skills"]
    assert (skill["valid"], skill["problems"][0]["severity"]) == (False, "note")


def test_quiet_prints_only_what_makes_a_skill_invalid(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("alpha", "Short.")
    assert openskills("validate", "skills", "-q").out == ""
    write_skill("Beta")
    ran = openskills("validate", "skills", "--quiet")
    assert (ran.code, len(ran.lines)) == (1, 1)
    assert "[name-uppercase]" in ran.out


def test_fix_applies_safe_fixes_and_reports_them(openskills: Command, write_skill: WriteSkill) -> None:
    folder = write_skill("alpha", "Use when: always needed, and say so.")
    before = openskills("validate", folder)
    assert (before.code, "; 1 fixable with --fix" in before.lines[-1]) == (1, True)
    ran = openskills("validate", folder, "--fix")
    assert (ran.code, ran.out) == (0, "1 skill valid\n")
    assert ran.err.startswith("fixed: skills/alpha/SKILL.md:3:")
    assert 'description: "Use when: always needed, and say so."' in (folder / "SKILL.md").read_text()
    assert openskills("validate", folder, "--fix").err == ""


def test_fix_with_json_keeps_the_answer_clean(openskills: Command, write_skill: WriteSkill) -> None:
    folder = write_skill("alpha", "Use when: always needed, and say so.")
    ran = openskills("validate", folder, "--fix", "--format", "json")
    assert ran.json["skills"][0]["valid"]
    assert "fixed: " in ran.err


def test_a_misspelled_path_is_reported_before_anything_is_changed(openskills: Command, write_skill: WriteSkill) -> None:
    folder = write_skill("alpha", "Use when: always")
    before = (folder / "SKILL.md").read_text()
    ran = openskills("validate", folder, "missing", "--fix")
    assert (ran.code, ran.out) == (2, "")
    assert "missing does not exist" in ran.err
    assert (folder / "SKILL.md").read_text() == before


def test_sarif_has_rules_places_and_fixes(openskills: Command, write_skill: WriteSkill, tmp_path: Path) -> None:
    write_skill("alpha", "Use when: always needed, and say so.", under="here/my skills")
    outside = write_skill("Beta", under="elsewhere")
    ran = openskills("validate", ".", outside, "--format", "sarif")
    assert ran.code == 1
    (run,) = ran.json["runs"]
    driver = run["tool"]["driver"]
    assert (ran.json["version"], driver["name"]) == ("2.1.0", "openskills")
    results = {result["ruleId"]: result for result in run["results"]}
    unquoted = results["yaml-unquoted"]
    assert driver["rules"][unquoted["ruleIndex"]]["id"] == "yaml-unquoted"
    assert unquoted["level"] == "error"
    place = unquoted["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "my%20skills/alpha/SKILL.md", "uriBaseId": "%SRCROOT%"}
    assert place["region"]["startLine"] == 3
    (change,) = unquoted["fixes"][0]["artifactChanges"]
    (replacement,) = change["replacements"]
    text = (tmp_path / "here/my skills/alpha/SKILL.md").read_text()
    region = replacement["deletedRegion"]
    start, end = region["charOffset"], region["charOffset"] + region["charLength"]
    mended = text[:start] + replacement["insertedContent"]["text"] + text[end:]
    assert 'description: "Use when: always needed, and say so."' in mended
    other = results["name-uppercase"]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert other == {"uri": (outside / "SKILL.md").as_uri()}


@pytest.mark.parametrize("text", ["\x1b[31mred\x1b[0m", "[red]markup[/red]", "[/]"])
def test_hostile_text_is_shown_and_not_obeyed(openskills: Command, write_skill: WriteSkill, text: str) -> None:
    escaped = json.dumps(text)
    folder = write_skill("alpha", front=f"{escaped}: x\n")
    shown = text.replace("\x1b", "\\x1b")
    assert shown in openskills("validate", folder).out
    screen = openskills.on_terminal("validate", folder, NO_COLOR="1").out
    assert shown in screen
    assert "\x1b[31m" not in screen


def test_odd_inputs_are_verdicts_and_no_tracebacks(openskills: Command, tmp_path: Path) -> None:
    here = tmp_path / "here"
    (here / "directory" / "SKILL.md").mkdir(parents=True)
    (here / "empty").mkdir()
    (here / "fifo").mkdir()
    os.mkfifo(here / "fifo" / "SKILL.md")
    for name, rule in (("directory", "file-type"), ("fifo", "file-type"), ("empty", "file-missing")):
        (skill,) = openskills("validate", name, "--format", "json").json["skills"]
        assert [problem["rule"] for problem in skill["problems"]] == [rule]


def test_a_path_with_blanks_and_any_script_is_shown_as_it_is(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("Alpha", under="here/mes compétences 技能")
    assert openskills("validate", ".").lines[0].startswith("mes compétences 技能/Alpha/SKILL.md:2:7: error: ")


def test_a_file_name_that_is_not_text_is_escaped(openskills: Command, tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path / "here") + b"/caf\xe9"
    os.mkdir(folder)
    with open(folder + b"/SKILL.md", "w") as file:
        file.write("---\nname: cafe\ndescription: Makes coffee. Use when asked for some.\n---\nBody\n")
    assert openskills("validate", ".").lines[0].startswith("caf\\xe9/SKILL.md:2:7: error: ")
    for form in ("json", "sarif"):
        assert openskills("validate", ".", "--format", form).json


def test_a_fix_writes_nothing_outside_of_what_was_given(
    openskills: Command, write_skill: WriteSkill, tmp_path: Path
) -> None:
    mine = write_skill("mine", "Mine: all. Use when asked.", under="mine")
    before = (mine / "SKILL.md").read_bytes()
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / "a").symlink_to(mine)
    openskills("validate", "--fix", tmp_path / "repo")
    assert (mine / "SKILL.md").read_bytes() == before
    openskills("validate", "--fix", mine / "SKILL.md")
    assert (mine / "SKILL.md").read_bytes() != before


def test_the_title_of_a_fix_cannot_talk_to_the_terminal(openskills: Command, write_skill: WriteSkill) -> None:
    folder = write_skill("alpha", front='metadata:\n  "k\\e]0;PWN\\a": 1\n')
    ran = openskills("validate", "--fix", folder)
    assert "fixed" in ran.err
    assert "\x1b" not in ran.err + ran.out


def test_an_empty_path_is_wrong_usage_and_not_this_folder(openskills: Command) -> None:
    assert openskills("validate", "--fix", "").code == 2
    assert openskills("read-properties", "").code == 2


def verdict(*problems: Problem) -> ValidationResult:
    return ValidationResult(problems[0].path, "alpha", problems)


def test_levels_are_those_of_sarif() -> None:
    found = [Problem("name-length", "m", severity, 1, 2, path="/a/SKILL.md") for severity in Severity]
    (run,) = build_sarif([verdict(*found)])["runs"]
    assert [result["level"] for result in run["results"]] == ["error", "warning", "note"]


def test_a_rule_is_described_once_by_its_clause() -> None:
    found = [Problem("name-length", "m", line=line, path="/a/SKILL.md") for line in (1, 2)]
    (run,) = build_sarif([verdict(*found)])["runs"]
    (rule,) = run["tool"]["driver"]["rules"]
    assert rule["id"] == "name-length"
    assert "64" in rule["shortDescription"]["text"]
    assert rule["fullDescription"]["text"].startswith("specification, name field")
    assert rule["defaultConfiguration"] == {"level": "error"}


def test_a_rule_that_is_in_no_table_has_its_name_as_description() -> None:
    (run,) = build_sarif([verdict(Problem("of-a-plugin", "m", path="/a/SKILL.md"))])["runs"]
    assert run["tool"]["driver"]["rules"] == [{"id": "of-a-plugin", "shortDescription": {"text": "of a plugin"}}]


def test_a_fault_of_the_whole_file_is_shown_at_its_beginning() -> None:
    (run,) = build_sarif([verdict(Problem("file-missing", "m", path="/a/SKILL.md"))])["runs"]
    assert run["results"][0]["locations"][0]["physicalLocation"]["region"] == {"startLine": 1}


def test_offsets_do_not_count_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "alpha").mkdir()
    text = "---\nname: alpha\ndescription: Use when: always needed, and say so.\n---\nBody\n"
    (tmp_path / "alpha" / "SKILL.md").write_text(text, "utf-8-sig")
    (run,) = build_sarif([validate(tmp_path / "alpha")])["runs"]
    results = {result["ruleId"]: result for result in run["results"]}
    assert "fixes" not in results["text-bom"]
    (replacement,) = results["yaml-unquoted"]["fixes"][0]["artifactChanges"][0]["replacements"]
    region = replacement["deletedRegion"]
    deleted = text[region["charOffset"] :][: region["charLength"]]
    assert deleted.strip() == "Use when: always needed, and say so."


def test_a_pure_deletion_inserts_nothing() -> None:
    fix = Fix("remove it", (Edit(4, 6, ""),))
    (run,) = build_sarif([verdict(Problem("r", "m", fix=fix, path="/a/SKILL.md"))])["runs"]
    (replacement,) = run["results"][0]["fixes"][0]["artifactChanges"][0]["replacements"]
    assert replacement == {"deletedRegion": {"charOffset": 4, "charLength": 2}}


def test_no_skills_are_a_run_without_results() -> None:
    (run,) = build_sarif([])["runs"]
    assert (run["results"], run["tool"]["driver"]["rules"]) == ([], [])


def test_the_project_file_selects_and_ignores_rules_and_the_command_line_wins(
    openskills: Command, write_skill: WriteSkill
) -> None:
    for name in ("alpha", "beta"):
        write_skill(name, front="colour: red\n", body="[a](missing.md)\n")
    file = openskills.cwd / "openskills.toml"

    def rules(*options: str) -> dict[str, list[str]]:
        found = openskills("validate", "skills", "--json", *options).json["skills"]
        return {skill["name"]: [problem["rule"] for problem in skill["problems"]] for skill in found}

    everything = ["field-unknown", "link-dead"]
    assert rules() == {"alpha": everything, "beta": everything}
    file.write_text('[validate]\nignore = ["field-unknown"]\n')
    assert rules() == {"alpha": ["link-dead"], "beta": ["link-dead"]}
    assert rules("--project", "off") == {"alpha": everything, "beta": everything}
    assert rules("--ignore", "link-dead") == {"alpha": [], "beta": []}
    assert rules("--select", "field-unknown") == {"alpha": ["field-unknown"], "beta": ["field-unknown"]}
    file.write_text('[validate]\nselect = ["link-dead"]\n[validate.per-skill-ignores]\nbeta = ["link-dead"]\n')
    assert rules() == {"alpha": ["link-dead"], "beta": []}
    for pattern in ("skills/alpha/SKILL.md", "skills/alpha", "skills/alpha/", "*/alpha/*", "skills/al*"):
        file.write_text(f'[validate.per-file-ignores]\n"{pattern}" = ["link-dead", "field-unknown"]\n')
        assert rules() == {"alpha": [], "beta": everything}, pattern


def test_an_unknown_rule_in_the_project_file_is_reported_with_its_line_and_the_nearest_one(
    openskills: Command, write_skill: WriteSkill
) -> None:
    write_skill("alpha")
    file = openskills.cwd / "openskills.toml"
    for text, line in (
        ('[validate]\nignore = ["link-ded"]\n', 2),
        ('[validate]\n\nselect = ["link-ded"]\n', 3),
        ('[validate.per-file-ignores]\n"a/**" = ["link-ded"]\n', 2),
        ('[validate.per-skill-ignores]\nalpha = ["link-ded"]\n', 2),
    ):
        file.write_text(text)
        ran = openskills("validate", "skills")
        assert ran.code == 2
        assert f"{file}:{line}: unknown rule 'link-ded'; did you mean link-dead?" in ran.err
