"""`Problem`, a fault of a skill as a value: rule, severity, position, message and fix."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum


class Severity(StrEnum):
    """How bad a problem is. Errors make a skill invalid; warnings and notes do not."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace `text[start:end]` by `replacement`; offsets count characters of the decoded file."""

    start: int
    end: int
    replacement: str


@dataclass(frozen=True, slots=True)
class Fix:
    """A change that fixes a problem without changing the meaning of the skill."""

    title: str
    edits: tuple[Edit, ...] = ()


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault. `line` and `column` start at 1 and are None if it has no position in a text.

    `message` says what was found and what was expected. `path` is empty until it is known.
    """

    rule: str
    message: str
    severity: Severity = Severity.ERROR
    line: int | None = None
    column: int | None = None
    fix: Fix | None = None
    path: str = ""

    def with_path(self, path: str) -> "Problem":
        return replace(self, path=path)

    def as_warning(self) -> "Problem":
        """The same problem, as a warning if it is an error."""
        return replace(self, severity=Severity.WARNING) if self.severity is Severity.ERROR else self

    def to_dict(self) -> dict[str, object]:
        """The problem as JSON, without its path; `fix` describes the change."""
        return {
            "rule": self.rule,
            "severity": self.severity.value,
            "line": self.line,
            "column": self.column,
            "message": self.message,
            "fix": self.fix.title if self.fix else None,
        }

    def __str__(self) -> str:
        place = self.path
        if self.line is not None:
            place += f":{self.line}:{self.column or 1}"
        return f"{place + ': ' if place else ''}{self.severity}: {self.message} [{self.rule}]"


def select_errors(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """The problems that make a skill invalid."""
    return tuple(problem for problem in problems if problem.severity is Severity.ERROR)


MAX_PER_RULE = 20
"""How often one rule is reported per file before the rest is summarized."""


def summarize_problems(problems: Sequence[Problem]) -> list[Problem]:
    """The first of these problems of one rule, and one problem for the rest, with all their fixes."""
    found, rest = list(problems[:MAX_PER_RULE]), problems[MAX_PER_RULE:]
    if rest:
        edits = tuple(edit for problem in rest if problem.fix for edit in problem.fix.edits)
        fix = Fix(f"fix all {len(rest):,}", edits) if edits else None
        found.append(replace(rest[0], message=f"{len(rest):,} more of this kind, first: {rest[0].message}", fix=fix))
    return found
