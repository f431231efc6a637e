"""Comments in a SKILL.md that suppress warnings and notes. Pure.

`<!-- openskills: ignore link-dead -->` applies to its own line and the next one, `ignore-file` to the whole file. In
the front matter the comment is `# openskills: ignore description-when`. Errors are always reported.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from openskills.skillmd.problem import Problem, Severity

_COMMENT = re.compile(r"(?:<!--|#)[ \t]*openskills:[ \t]*ignore(-file)?[ \t]+(\w+(?:[-, \t]+\w+)*)", re.ASCII)
_SEPARATOR = re.compile(r"[, \t]+")


@dataclass(frozen=True, slots=True)
class Suppression:
    """A comment and the rules that it names; without `everywhere`, it applies to its line and the next one."""

    rules: tuple[str, ...]
    line: int
    column: int
    everywhere: bool


def find_suppressions(text: str) -> Iterator[Suppression]:
    """All comments of a text that suppress problems."""
    for number, line in enumerate(text.split("\n"), 1) if "openskills:" in text else ():
        for match in _COMMENT.finditer(line):
            yield Suppression(tuple(_SEPARATOR.split(match[2])), number, match.start() + 1, match[1] is not None)


def drop_suppressed(problems: Iterable[Problem], text: str) -> tuple[Problem, ...]:
    """The problems of a text without the warnings and notes that its comments suppress."""
    everywhere: set[str] = set()
    by_line: dict[int, set[str]] = {}
    for one in find_suppressions(text):
        if one.everywhere:
            everywhere.update(one.rules)
        else:
            by_line.setdefault(one.line, set()).update(one.rules)
            by_line.setdefault(one.line + 1, set()).update(one.rules)
    return tuple(
        problem
        for problem in problems
        if problem.severity is Severity.ERROR
        or (problem.rule not in everywhere and problem.rule not in by_line.get(problem.line or 0, ()))
    )
