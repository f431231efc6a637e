"""SARIF from verdicts: what viewers need, and offsets that mean the same to every reader."""

from pathlib import Path

from openskills.catalog.validate import Verdict, validate
from openskills.cli.sarif import sarif
from openskills.skillmd.problem import Edit, Fix, Problem, Severity


def verdict(*problems: Problem) -> Verdict:
    return Verdict(problems[0].path, "alpha", problems)


def test_levels_are_those_of_sarif() -> None:
    found = [Problem("name-length", "m", severity, 1, 2, path="/a/SKILL.md") for severity in Severity]
    (run,) = sarif([verdict(*found)])["runs"]
    assert [result["level"] for result in run["results"]] == ["error", "warning", "note"]


def test_a_rule_is_described_once_by_its_clause() -> None:
    found = [Problem("name-length", "m", line=line, path="/a/SKILL.md") for line in (1, 2)]
    (run,) = sarif([verdict(*found)])["runs"]
    (rule,) = run["tool"]["driver"]["rules"]
    assert rule["id"] == "name-length"
    assert "64" in rule["shortDescription"]["text"]
    assert rule["fullDescription"]["text"].startswith("specification, name field")
    assert rule["defaultConfiguration"] == {"level": "error"}


def test_a_rule_that_is_in_no_table_has_its_name_as_description() -> None:
    (run,) = sarif([verdict(Problem("of-a-plugin", "m", path="/a/SKILL.md"))])["runs"]
    assert run["tool"]["driver"]["rules"] == [{"id": "of-a-plugin", "shortDescription": {"text": "of a plugin"}}]


def test_a_fault_of_the_whole_file_is_shown_at_its_beginning() -> None:
    (run,) = sarif([verdict(Problem("file-missing", "m", path="/a/SKILL.md"))])["runs"]
    assert run["results"][0]["locations"][0]["physicalLocation"]["region"] == {"startLine": 1}


def test_offsets_do_not_count_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "alpha").mkdir()
    text = "---\nname: alpha\ndescription: Use when: always needed, and say so.\n---\nBody\n"
    (tmp_path / "alpha" / "SKILL.md").write_text(text, "utf-8-sig")
    (run,) = sarif([validate(tmp_path / "alpha")])["runs"]
    results = {result["ruleId"]: result for result in run["results"]}
    assert "fixes" not in results["text-bom"]
    (replacement,) = results["yaml-unquoted"]["fixes"][0]["artifactChanges"][0]["replacements"]
    region = replacement["deletedRegion"]
    deleted = text[region["charOffset"] :][: region["charLength"]]
    assert deleted.strip() == "Use when: always needed, and say so."


def test_a_pure_deletion_inserts_nothing() -> None:
    fix = Fix("remove it", (Edit(4, 6, ""),))
    (run,) = sarif([verdict(Problem("r", "m", fix=fix, path="/a/SKILL.md"))])["runs"]
    (replacement,) = run["results"][0]["fixes"][0]["artifactChanges"][0]["replacements"]
    assert replacement == {"deletedRegion": {"charOffset": 4, "charLength": 2}}


def test_no_skills_are_a_run_without_results() -> None:
    (run,) = sarif([])["runs"]
    assert (run["results"], run["tool"]["driver"]["rules"]) == ([], [])
