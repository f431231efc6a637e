"""Problems of skills, formatted as lines of text or as JSON objects."""

import os
from collections import Counter
from collections.abc import Iterable, Sequence

from openskills.cli.output import Part, escape_line, pluralize, warn
from openskills.paths import to_printable
from openskills.skillmd.problem import Problem, Severity

STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}
_MAX_LINES = 50


def display_path(path: str) -> str:
    """A path for display: relative when it is below the current directory, with unprintable characters escaped."""
    if os.path.isabs(path):
        inside = os.path.relpath(path)
        path = path if inside == os.pardir or inside.startswith(os.pardir + os.sep) else inside
    return to_printable(path)


def format_problem(problem: Problem) -> list[Part]:
    """The parts of a line such as `path:line:column: severity: message [rule]`."""
    place = display_path(problem.path) if problem.path else ""
    if problem.line is not None:
        place += f":{problem.line}:{problem.column or 1}"
    parts: list[Part] = [(place, "bold"), ": "] if place else []
    parts += [(problem.severity.value, STYLES[problem.severity]), f": {escape_line(problem.message)} "]
    return [*parts, (f"[{problem.rule}]", "dim")]


def problem_json(problem: Problem) -> dict[str, object]:
    """A problem as JSON; `fix` describes what `--fix` would do."""
    return {
        "rule": problem.rule,
        "severity": problem.severity.value,
        "line": problem.line,
        "column": problem.column,
        "message": problem.message,
        "fix": problem.fix.title if problem.fix else None,
    }


def problem_json_with_path(problem: Problem) -> dict[str, object]:
    """A problem as JSON, with its path, for lists of problems in several files."""
    return {"path": problem.path, **problem_json(problem)}


def count_by_severity(problems: Iterable[Problem]) -> str:
    """`1 error, 2 warnings`; empty when there are none."""
    counts = Counter(problem.severity for problem in problems)
    return ", ".join(pluralize(counts[severity], severity.value) for severity in Severity if counts[severity])


def report_problems(problems: Sequence[Problem]) -> None:
    """Print problems to stderr, one per line, errors first, and their number."""
    if not problems:
        return
    order = list(Severity)
    ranked = sorted(problems, key=lambda problem: order.index(problem.severity))
    for problem in ranked[:_MAX_LINES]:
        warn(*format_problem(problem))
    left = len(ranked) - _MAX_LINES
    more = f"; {left:,} more not shown, --json has all" if left > 0 else ""
    warn((f"{pluralize(len(problems), 'problem')} ({count_by_severity(problems)}){more}", "bold"))
