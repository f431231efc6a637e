"""Asking the rules, and the two attitudes towards their answers."""

from collections.abc import Iterable, Mapping
from itertools import groupby
from operator import itemgetter

from openskills.skillmd.parse import ParsedSkill
from openskills.skillmd.problem import Fix, Problem
from openskills.skillmd.rules.rule import Finding, Rule, Subject
from openskills.skillmd.rules.table import ALL

MAX_FINDINGS = 20
"""How often one rule is reported for one file before the rest is summed up."""

FATAL = frozenset(rule.id for rule in ALL if rule.fatal)
"""The ids of what keeps a skill from being loaded."""

_KNOWN = frozenset(rule.id for rule in ALL)


def check(subject: Subject, rules: Iterable[Rule] = ALL) -> tuple[Problem, ...]:
    """What these rules say, ordered by line and then as in the table. The problems of reading are not repeated."""
    found = [(rule, finding) for rule in rules if rule.check is not None for finding in rule.check(subject)]
    return _ordered(found) if found else ()


def judge(
    parsed: ParsedSkill,
    folder: str | None = None,
    files: Mapping[str, int] | None = None,
    linked_texts: Mapping[str, str] | None = None,
) -> tuple[Problem, ...]:
    """Everything that is wrong with a file that was read: the problems of reading and those of all rules, by line."""
    if parsed.manifest is None:
        found = parsed.problems
    else:
        found = (*parsed.problems, *check(Subject(parsed, parsed.manifest, folder, files, linked_texts)))
    return tuple(sorted(found, key=lambda problem: problem.line or 0))


def lenient(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """What a loader makes of them, as the client guide asks: only what is fatal stays an error."""
    return tuple(
        problem.softened() if problem.rule in _KNOWN and problem.rule not in FATAL else problem for problem in problems
    )


def _ordered(found: list[tuple[Rule, Finding]]) -> tuple[Problem, ...]:
    problems: list[Problem] = []
    for rule, group in groupby(found, key=itemgetter(0)):
        findings = [finding for _, finding in group]
        problems += [_problem(rule, finding) for finding in findings[:MAX_FINDINGS]]
        if len(findings) > MAX_FINDINGS:
            problems.append(_summary(rule, findings[MAX_FINDINGS:]))
    return tuple(sorted(problems, key=lambda problem: problem.line or 0))


def _problem(rule: Rule, finding: Finding) -> Problem:
    return Problem(rule.id, finding.message, rule.severity, finding.line, finding.column, finding.fix)


def _summary(rule: Rule, rest: list[Finding]) -> Problem:
    edits = tuple(edit for finding in rest if finding.fix for edit in finding.fix.edits)
    fix = Fix(f"mend all {len(rest)}", edits) if edits else None
    message = f"{len(rest)} more of this kind, first: {rest[0].message}"
    return Problem(rule.id, message, rule.severity, rest[0].line, rest[0].column, fix)
