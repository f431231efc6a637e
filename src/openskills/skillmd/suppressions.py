"""Comments in a SKILL.md that suppress warnings and notes. Pure.

`<!-- openskills: ignore link-dead -->` applies to its own line and the next one, `ignore-file` to the whole file. In
the front matter the comment is `# openskills: ignore description-when`. Errors are always reported.
"""

import re
from collections.abc import Iterable

from openskills.skillmd.problem import Problem, Severity

_COMMENT = re.compile(r"(?:<!--|#)[ \t]*openskills:[ \t]*ignore(-file)?[ \t]+([a-z0-9]+(?:[-, \t]+[a-z0-9]+)*)")
_SEPARATOR = re.compile(r"[, \t]+")


def drop_suppressed(problems: Iterable[Problem], text: str) -> tuple[Problem, ...]:
    """The problems of a text without the warnings and notes that its comments suppress."""
    everywhere: set[str] = set()
    by_line: dict[int, set[str]] = {}
    for number, line in enumerate(text.split("\n"), 1) if "openskills:" in text else ():
        for match in _COMMENT.finditer(line):
            rules = set(_SEPARATOR.split(match[2]))
            if match[1]:
                everywhere |= rules
            else:
                by_line.setdefault(number, set()).update(rules)
                by_line.setdefault(number + 1, set()).update(rules)
    return tuple(
        problem
        for problem in problems
        if problem.severity is Severity.ERROR
        or (problem.rule not in everywhere and problem.rule not in by_line.get(problem.line or 0, ()))
    )
