"""A fault in somebody's skill, as a value: which rule, how bad, where, and what to do."""

from collections.abc import Iterable
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
    """A change that mends a problem without changing what the skill means."""

    title: str
    edits: tuple[Edit, ...] = ()


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault. `line` and `column` start at 1 and are None where the fault has no place in a text.

    `message` says what was found and what was expected. `path` is empty until somebody who knows the file adds it.
    """

    rule: str
    message: str
    severity: Severity = Severity.ERROR
    line: int | None = None
    column: int | None = None
    fix: Fix | None = None
    path: str = ""

    def at(self, path: str) -> "Problem":
        """The same problem, in a known file."""
        return replace(self, path=path)

    def softened(self) -> "Problem":
        """The same problem as a warning, for those who load what a validator would refuse."""
        return replace(self, severity=Severity.WARNING) if self.severity is Severity.ERROR else self

    def __str__(self) -> str:
        place = self.path
        if self.line is not None:
            place += f":{self.line}:{self.column or 1}"
        return f"{place + ': ' if place else ''}{self.severity}: {self.message} [{self.rule}]"


def errors_in(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Only those that make a skill invalid."""
    return tuple(problem for problem in problems if problem.severity is Severity.ERROR)
