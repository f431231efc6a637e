"""`openskills validate`: what a strict reader says of skills, for people, programs and code scanners."""

import os
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from openskills.cli.output import counted, plain, say, say_json, warn
from openskills.cli.problems import STYLES, count_by_severity, problem_json, problem_line
from openskills.cli.progress import Waiting
from openskills.skillmd.problem import Problem, Severity

if TYPE_CHECKING:
    from openskills.catalog.validate import Verdict

_STRICT_RULES = frozenset({"field-unknown"})
"""Rules that count under --strict however mild they are: the specification does not know these fields."""


class Format(StrEnum):
    """How the verdicts are written."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"


def validate(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH", help="A skill's folder, its SKILL.md, or a directory of skills.")
    ],
    form: Annotated[
        Format, typer.Option("--format", help="For people, for programs, or for code scanning.")
    ] = Format.TEXT,
    strict: Annotated[
        bool, typer.Option("--strict", help="Warnings and unknown fields make a skill invalid, too.")
    ] = False,
    fix: Annotated[bool, typer.Option("--fix", help="Apply the fixes that cannot change what a skill means.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only print what makes a skill invalid.")] = False,
) -> None:
    """Check skills against the specification, strictly.

    Every problem has a rule, a place and what to do. Directories are searched for skills.

    Examples:
      openskills validate .
      openskills validate skills/ other/SKILL.md --strict
      openskills validate skills/ --fix
      openskills validate skills/ --format sarif > skills.sarif

    Exit codes: 0 all valid, 1 some invalid, 2 wrong usage or no such path.
    """
    verdicts = _judge(paths, fix)
    blamed = [_blamed(verdict, strict) for verdict in verdicts]
    if form is Format.JSON:
        say_json({"skills": [_json(verdict, not faults) for verdict, faults in zip(verdicts, blamed, strict=True)]})
    elif form is Format.SARIF:
        from openskills.cli.sarif import sarif

        say_json(sarif(verdicts))
    else:
        _print(verdicts, blamed, quiet)
    if fix and form is not Format.TEXT and not quiet:
        _tell_fixed(verdicts)
    if any(blamed):
        raise typer.Exit(1)


def _judge(paths: Sequence[str], mend: bool) -> "list[Verdict]":
    from openskills.catalog import validate as checking

    with Waiting("looking for skills") as progress:
        # All paths first: a misspelt one is said before anything is changed.
        survey = checking.survey(paths, progress)
        verdicts: list[Verdict] = []
        for number, folder in enumerate(survey.skills):
            progress("checking skills", number, len(survey.skills))
            # What lies elsewhere and is only linked from here was not given to us to change.
            judge = checking.fix if mend and _lies_in(folder, paths) else checking.validate
            verdicts.append(judge(folder))
    return [*verdicts, *survey.oddities]


def _lies_in(folder: Path, paths: Sequence[str]) -> bool:
    real = Path(os.path.realpath(folder))
    return any(real.is_relative_to(os.path.realpath(path)) or _is_file_of(path, real) for path in paths)


def _is_file_of(path: str, folder: Path) -> bool:
    return Path(os.path.realpath(os.path.dirname(path) or ".")) == folder and os.path.isfile(path)


def _blamed(verdict: "Verdict", strict: bool) -> list[Problem]:
    """The problems that make this skill invalid."""
    bad = {Severity.ERROR, Severity.WARNING} if strict else {Severity.ERROR}
    return [
        problem for problem in verdict.problems if problem.severity in bad or (strict and problem.rule in _STRICT_RULES)
    ]


def _json(verdict: "Verdict", valid: bool) -> dict[str, object]:
    problems = [problem_json(problem) for problem in verdict.problems]
    return {"path": verdict.path, "name": verdict.name, "valid": valid, "problems": problems}


def _print(verdicts: "Sequence[Verdict]", blamed: Sequence[Sequence[Problem]], quiet: bool) -> None:
    for verdict, faults in zip(verdicts, blamed, strict=True):
        for problem in faults if quiet else verdict.problems:
            say(*problem_line(problem))
    if not quiet:
        _tell_fixed(verdicts)
        _summarise(
            verdicts, sum(bool(faults) and verdict.is_skill for verdict, faults in zip(verdicts, blamed, strict=True))
        )


def _tell_fixed(verdicts: "Sequence[Verdict]") -> None:
    fixed = [problem for verdict in verdicts for problem in verdict.fixed]
    for problem in fixed:
        title = problem.fix.title if problem.fix else problem.message
        warn(("fixed", "green"), ": ", *problem_line(problem), f": {plain(title)}")


def _summarise(verdicts: "Sequence[Verdict]", invalid: int) -> None:
    problems = [problem for verdict in verdicts for problem in verdict.problems]
    found = f" ({count_by_severity(problems)})" if problems else ""
    mendable = sum(1 for problem in problems if problem.fix and problem.fix.edits)
    hint = f"; --fix mends {mendable:,}" if mendable else ""
    skills = sum(verdict.is_skill for verdict in verdicts)
    if invalid:
        say((f"{invalid:,} of {counted(skills, 'skill')} invalid", STYLES[Severity.ERROR]), found, hint)
    else:
        say((f"{counted(skills, 'skill')} valid", "bold green"), found, hint)
