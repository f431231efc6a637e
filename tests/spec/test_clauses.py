"""Every clause of the table in the code has a test here, every test a clause, and each test makes its clause fire."""

import ast
from pathlib import Path

import pytest

from openskills.skillmd.problem import Severity
from openskills.skillmd.rules import ALL_RULES, BODY_RULES, FATAL_RULES, FOLDER_RULES, MANIFEST_RULES
from tests.spec.cases import CASES, SOUND, Case
from tests.spec.clauses import CLAUSES

ROOT = Path(__file__).parents[2]
RULES = {rule.id: rule for rule in ALL_RULES}


def numbered(cases: tuple[Case, ...]) -> list[str]:
    """The rule's id for its first case, and with a number for the others."""
    counts: dict[str, int] = {}
    names: list[str] = []
    for case in cases:
        counts[case.rule] = counts.get(case.rule, 0) + 1
        names.append(case.rule if counts[case.rule] == 1 else f"{case.rule}-{counts[case.rule]}")
    return names


IDS = numbered(CASES)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_text_that_breaks_a_clause_is_reported_where_it_breaks_it(case: Case) -> None:
    found = [problem for problem in case.problems(case.broken) if problem.rule == case.rule]
    assert found, f"{case.rule} says nothing; others say {case.problems(case.broken)}"
    assert (found[0].line, found[0].column) == (case.line, case.column)
    assert found[0].severity is case.severity


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_text_that_keeps_a_clause_is_not_reported(case: Case) -> None:
    assert [problem for problem in case.problems(case.sound) if problem.rule == case.rule] == []


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_message_says_more_than_the_id_and_never_ends_in_a_full_stop(case: Case) -> None:
    for problem in case.problems(case.broken):
        assert len(problem.message) > len(problem.rule) + 10
        assert not problem.message.endswith(".")


def test_the_sound_text_has_no_problem_at_all() -> None:
    assert CASES[0].problems(SOUND) == ()


def test_every_rule_in_the_code_has_a_test_and_every_test_a_rule() -> None:
    assert CLAUSES.keys() == RULES.keys()


@pytest.mark.parametrize("rule", sorted(CLAUSES))
def test_every_test_that_the_table_names_exists(rule: str) -> None:
    for name in CLAUSES[rule]:
        file, _, test = name.partition("::")
        function, _, parameter = test.partition("[")
        tree = ast.parse((ROOT / file).read_text("utf-8"))
        assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert not parameter or parameter.removesuffix("]") in IDS


def test_ids_are_unique_and_the_scopes_make_up_the_whole() -> None:
    assert len(RULES) == len(ALL_RULES)
    checked = [rule for rule in ALL_RULES if rule.check is not None]
    assert checked == [*MANIFEST_RULES, *BODY_RULES, *FOLDER_RULES]


def test_every_rule_says_what_it_rests_on() -> None:
    assert [rule.id for rule in ALL_RULES if len(rule.clause) < 20] == []


def test_exactly_what_cannot_be_read_or_used_is_fatal() -> None:
    assert {
        *("file-missing", "file-type", "file-unreadable", "file-size", "link-leaves-skill"),
        *("text-encoding", "text-nul", "text-control"),
        *("frontmatter-missing", "frontmatter-unclosed", "frontmatter-size", "frontmatter-mapping"),
        *("yaml-syntax", "yaml-alias", "yaml-tag", "yaml-depth", "yaml-keys"),
        *("description-required", "description-type", "name-unsafe"),
    } == FATAL_RULES
    assert all(RULES[rule].severity is Severity.ERROR for rule in FATAL_RULES)
