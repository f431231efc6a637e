"""Asking the rules, and the two attitudes towards their answers."""

from collections.abc import Iterable, Mapping
from itertools import groupby
from operator import itemgetter

from openskills.skillmd.parse import ParsedSkill
from openskills.skillmd.problem import Problem
from openskills.skillmd.rules.rule import Finding, Rule, Subject
from openskills.skillmd.rules.table import ALL
from openskills.skillmd.summary import summed_up

FATAL = frozenset(rule.id for rule in ALL if rule.fatal)
"""The ids of what keeps a skill from being loaded."""

_KNOWN = frozenset(rule.id for rule in ALL)


def check(subject: Subject, rules: Iterable[Rule] = ALL) -> tuple[Problem, ...]:
    """What these rules say, ordered by place and then as in the table. The problems of reading are not repeated."""
    found = [(rule, finding) for rule in rules if rule.check is not None for finding in rule.check(subject)]
    return _ordered(found) if found else ()


def judge(
    parsed: ParsedSkill,
    folder: str | None = None,
    files: Mapping[str, int] | None = None,
    linked_texts: Mapping[str, str] | None = None,
) -> tuple[Problem, ...]:
    """Everything that is wrong with a file that was read: the problems of reading and those of all rules, by place."""
    if parsed.manifest is None:
        found = parsed.problems
    else:
        found = (*parsed.problems, *check(Subject(parsed, parsed.manifest, folder, files, linked_texts)))
    return tuple(sorted(found, key=by_place))


def by_place(problem: Problem) -> tuple[int, int]:
    """The order in which a person meets problems in a file."""
    return problem.line or 0, problem.column or 0


def lenient(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """What a loader makes of them, as the client guide asks: only what is fatal stays an error."""
    return tuple(
        problem.softened() if problem.rule in _KNOWN and problem.rule not in FATAL else problem for problem in problems
    )


def _ordered(found: list[tuple[Rule, Finding]]) -> tuple[Problem, ...]:
    problems: list[Problem] = []
    for rule, group in groupby(found, key=itemgetter(0)):
        problems += summed_up([_problem(rule, finding) for _, finding in group])
    return tuple(sorted(problems, key=by_place))


def _problem(rule: Rule, finding: Finding) -> Problem:
    return Problem(rule.id, finding.message, rule.severity, finding.line, finding.column, finding.fix)
