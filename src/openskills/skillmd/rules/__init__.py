"""The rules of the format: all of them in a stable order, and functions that apply them.

A rule is a function with the decorator `define_rule` in one of the modules here.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches

from openskills.skillmd.parse import ParsedSkill
from openskills.skillmd.problem import Problem, Severity, summarize_problems
from openskills.skillmd.rules import portability, specification, style
from openskills.skillmd.rules.rule import READING_RULES, Rule, RuleStage, Subject
from openskills.skillmd.suppressions import find_suppressions

_DEFINED = tuple(
    value
    for module in (specification, portability, style)
    for value in vars(module).values()
    if isinstance(value, Rule)
)
MANIFEST_RULES = tuple(rule for rule in _DEFINED if rule.stage is RuleStage.MANIFEST)
BODY_RULES = tuple(rule for rule in _DEFINED if rule.stage is RuleStage.BODY)
FOLDER_RULES = tuple(rule for rule in _DEFINED if rule.stage is RuleStage.FOLDER)
ALL_RULES = (*READING_RULES, *MANIFEST_RULES, *BODY_RULES, *FOLDER_RULES)
"""All rules, including those that reading and discovery check."""


FATAL_RULES = frozenset(rule.id for rule in ALL_RULES if rule.fatal)
"""The ids of problems with which a skill is not loaded."""

_KNOWN = frozenset(rule.id for rule in ALL_RULES)


def describe_unknown_rule(name: str) -> str:
    """A message about a name that is not a rule, with the nearest one that is."""
    near = get_close_matches(name[:100], sorted(_KNOWN), 1)
    hint = f"did you mean {near[0]}?" if near else "openskills explain lists the rules"
    return f"unknown rule {name[:100]!r}; {hint}"


def find_unknown_suppressions(text: str) -> Iterator[Problem]:
    """A problem for every suppression comment with a name that is not a rule."""
    for suppression in find_suppressions(text):
        name = next((name for name in suppression.rules if name not in _KNOWN), None)
        if name is not None:
            message = f"the comment names an {describe_unknown_rule(name)}"
            yield Problem("suppression-unknown", message, Severity.WARNING, suppression.line, suppression.column)


def apply_rules(subject: Subject, rules: Iterable[Rule] = ALL_RULES) -> tuple[Problem, ...]:
    """The problems that these rules find, by position and then in the order of the rules; without those of reading."""
    problems: list[Problem] = []
    for rule in rules:
        found = [*rule.check(subject)] if rule.check is not None else []
        if found:
            problems += summarize_problems(
                [Problem(rule.id, one.message, rule.severity, one.line, one.column, one.fix) for one in found]
            )
    return tuple(sorted(problems, key=position_key))


def lint_skill(
    parsed: ParsedSkill,
    folder: str | None = None,
    files: Mapping[str, int] | None = None,
    linked_texts: Mapping[str, str] | None = None,
) -> tuple[Problem, ...]:
    """All problems of a file: those of reading and those of all rules, by position."""
    if parsed.manifest is None:
        found = parsed.problems
    else:
        found = (*parsed.problems, *apply_rules(Subject(parsed, parsed.manifest, folder, files, linked_texts)))
    return tuple(sorted(found, key=position_key))


def position_key(problem: Problem) -> tuple[int, int]:
    """The sort key for problems: line and column."""
    return problem.line or 0, problem.column or 0


def relax_problems(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """The problems for a lenient loader, as the client guide asks: only fatal ones stay errors."""
    return tuple(
        problem.as_warning() if problem.rule in _KNOWN and problem.rule not in FATAL_RULES else problem
        for problem in problems
    )


_PLAIN_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_JUDGED = frozenset({"license", "compatibility", "allowed-tools"})


def is_plainly_valid(subject: Subject) -> bool:
    """Fast path: whether certainly no rule of severity error finds anything. False means that they have to be applied.

    A property test compares it with the rules.
    """
    name, description, fields = subject.manifest.name, subject.manifest.description, subject.fields
    return (
        name == subject.folder == fields.get("name")
        and len(name) <= 64
        and _PLAIN_NAME.fullmatch(name) is not None
        and 0 < len(description) <= 1024
        and _JUDGED.isdisjoint(fields)
        and ("metadata" not in fields or isinstance(fields["metadata"], dict))
    )
