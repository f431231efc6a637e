"""Rules and their findings."""

import pytest
from hypothesis import given

from openskills.skillmd.parse import parse
from openskills.skillmd.problem import Problem, Severity, select_errors
from openskills.skillmd.rules import (
    ALL_RULES,
    BODY_RULES,
    FATAL_RULES,
    FOLDER_RULES,
    MANIFEST_RULES,
    apply_rules,
    lint_skill,
    relax_problems,
)
from openskills.skillmd.rules.rule import Subject, describe_type, finding_at_key, finding_at_value
from openskills.skillmd.yaml import Value
from tests.skillmd.strategies import any_text, relaxed
from tests.skillmd.work import calls, is_linear

TABLE = {rule.id: number for number, rule in enumerate(ALL_RULES)}
CLEAN = "---\nname: pdf-tools\ndescription: Merge PDF files. Use when the user asks.\nlicense: MIT\n---\nDo it.\n"


def subject_of(text: str, folder: str | None = "pdf-tools") -> Subject:
    parsed = parse(text)
    assert parsed.manifest
    return Subject(parsed, parsed.manifest, folder)


@relaxed
@given(any_text)
def test_whatever_can_be_read_can_be_judged_in_a_stable_order(text: str) -> None:
    problems = lint_skill(parse(text), "pdf-tools", {"a.md": 1}, {"a.md": "[b](c.md)"})
    lines = [problem.line or 0 for problem in problems]
    assert lines == sorted(lines)
    assert problems == lint_skill(parse(text), "pdf-tools", {"a.md": 1}, {"a.md": "[b](c.md)"})


@relaxed
@given(any_text)
def test_what_a_loader_makes_of_problems_has_errors_only_where_they_are_fatal(text: str) -> None:
    problems = lint_skill(parse(text), "pdf-tools")
    softened = relax_problems(problems)
    assert [problem.rule for problem in softened] == [problem.rule for problem in problems]
    assert {error.rule for error in select_errors(softened)} <= FATAL_RULES


def test_problems_on_one_line_stand_in_the_order_of_the_table() -> None:
    found = apply_rules(subject_of(CLEAN.replace("pdf-tools", "Pdf__Tools-")))
    assert [problem.line for problem in found] == [2] * len(found)
    numbers = [TABLE[problem.rule] for problem in found]
    assert numbers == sorted(numbers)
    assert len(numbers) == 4


def test_only_the_rules_asked_for_are_asked() -> None:
    subject = subject_of(CLEAN.replace("Do it.", "").replace("pdf-tools", "pdf"))
    assert [problem.rule for problem in apply_rules(subject, MANIFEST_RULES)] == ["name-folder"]
    assert [problem.rule for problem in apply_rules(subject, BODY_RULES)] == ["body-empty"]
    assert apply_rules(subject, FOLDER_RULES) == ()


def test_problems_of_reading_are_told_by_judge_and_not_repeated_by_check() -> None:
    text = "\ufeff" + CLEAN
    assert apply_rules(subject_of(text)) == ()
    assert [problem.rule for problem in lint_skill(parse(text), "pdf-tools")] == ["text-bom"]
    assert [problem.rule for problem in lint_skill(parse("text"))] == ["frontmatter-missing"]


def test_an_unknown_folder_is_not_compared() -> None:
    assert apply_rules(subject_of(CLEAN, folder=None)) == ()


def test_many_findings_of_one_rule_are_summed_up() -> None:
    found = apply_rules(subject_of(CLEAN.replace("license: MIT", "\n".join(f"k{number}: v" for number in range(100)))))
    assert [problem.rule for problem in found] == ["field-unknown"] * 21
    assert "80 more" in found[-1].message


def test_a_problem_of_somebody_else_keeps_its_severity() -> None:
    foreign = Problem("source-unavailable", "gone")
    assert relax_problems([foreign]) == (foreign,)
    assert relax_problems([Problem("name-length", "long")])[0].severity is Severity.WARNING
    assert relax_problems([Problem("name-unsafe", "bad")])[0].severity is Severity.ERROR


def test_a_clean_skill_is_found_clean_without_looking_for_places() -> None:
    subject = subject_of(CLEAN.replace("license: MIT", 'license: MIT\nmetadata:\n  version: "1.0"\n  author: me'))
    assert calls(lambda: apply_rules(subject, MANIFEST_RULES)) < 150


def test_judging_costs_work_in_proportion_to_the_number_of_fields() -> None:
    def judged(size: int) -> None:
        pairs = "".join(f"  k{number}: {number}\n" for number in range(size))
        lint_skill(
            parse(f"---\nname: pdf-tools\ndescription: Merge.\nmetadata:\n{pairs}---\nBody.\n"), "pdf-tools", {}, {}
        )

    assert is_linear(judged, 1_000)


def subject_in_no_folder(text: str) -> Subject:
    parsed = parse(text)
    assert parsed.manifest
    return Subject(parsed, parsed.manifest)


def test_a_finding_stands_at_the_value_or_the_key_it_is_about() -> None:
    subject = subject_in_no_folder("---\nname: x\nmetadata: {a: b}\n---\n")
    assert (finding_at_value(subject, "name", "?").line, finding_at_value(subject, "name", "?").column) == (2, 7)
    found = finding_at_key(subject, "?", "metadata", "a")
    assert (found.line, found.column) == (3, 12)


def test_a_finding_about_what_is_missing_stands_where_it_would_belong() -> None:
    subject = subject_in_no_folder("---\n\nmetadata: {a: b}\n---\n")
    assert (finding_at_value(subject, "name", "?").line, finding_at_value(subject, "name", "?").column) == (2, 1)
    found = finding_at_key(subject, "?", "metadata", "gone")
    assert (found.line, found.column) == (3, 1)


@pytest.mark.parametrize(("value", "words"), [(None, "empty"), ("", "text"), ([], "a list"), ({}, "a map")])
def test_a_value_is_called_by_what_it_is(value: Value, words: str) -> None:
    assert describe_type(value) == words
