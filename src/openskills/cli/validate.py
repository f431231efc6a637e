"""Validate, SARIF.

`openskills validate`: what a strict reader says of skills, for people, programs and code scanners.

Verdicts as SARIF 2.1.0, the format of code scanners.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias
from urllib.parse import quote

import typer

from openskills.cli.output import CliProgress, escape_line, pluralize, say, say_json, warn
from openskills.cli.problems import STYLES, count_by_severity, format_problem, problem_json
from openskills.skillmd.problem import Edit, Problem, Severity
from openskills.skillmd.rules import ALL_RULES
from openskills.skillmd.rules.rule import Rule
from openskills.version import __version__

if TYPE_CHECKING:
    from openskills.catalog.validate import ValidationResult


_STRICT_RULES = frozenset({"field-unknown"})
"""Rules that count under --strict however mild they are: the specification does not know these fields."""


class ValidationFormat(StrEnum):
    """How the verdicts are written."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"


def validate(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH", help="A skill's folder, its SKILL.md, or a directory of skills.")
    ],
    form: Annotated[
        ValidationFormat, typer.Option("--format", help="For people, for programs, or for code scanning.")
    ] = ValidationFormat.TEXT,
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
    verdicts = _validate_paths(paths, fix)
    blamed = [_select_faults(verdict, strict) for verdict in verdicts]
    if form is ValidationFormat.JSON:
        say_json(
            {"skills": [_result_json(verdict, not faults) for verdict, faults in zip(verdicts, blamed, strict=True)]}
        )
    elif form is ValidationFormat.SARIF:
        say_json(build_sarif(verdicts))
    else:
        _print_results(verdicts, blamed, quiet)
    if fix and form is not ValidationFormat.TEXT and not quiet:
        _report_fixed(verdicts)
    if any(blamed):
        raise typer.Exit(1)


def _validate_paths(paths: Sequence[str], mend: bool) -> "list[ValidationResult]":
    from openskills.catalog import validate as checking

    with CliProgress("looking for skills") as progress:
        # All paths first: a misspelt one is said before anything is changed.
        survey = checking.find_skill_folders(paths, progress)
        verdicts: list[ValidationResult] = []
        for number, folder in enumerate(survey.skills):
            progress("checking skills", number, len(survey.skills))
            # What lies elsewhere and is only linked from here was not given to us to change.
            judge = checking.fix if mend and _is_in(folder, paths) else checking.validate
            verdicts.append(judge(folder))
    return [*verdicts, *survey.oddities]


def _is_in(folder: Path, paths: Sequence[str]) -> bool:
    real = Path(os.path.realpath(folder))
    return any(real.is_relative_to(os.path.realpath(path)) or _is_file_of(path, real) for path in paths)


def _is_file_of(path: str, folder: Path) -> bool:
    return Path(os.path.realpath(os.path.dirname(path) or ".")) == folder and os.path.isfile(path)


def _select_faults(verdict: "ValidationResult", strict: bool) -> list[Problem]:
    """The problems that make this skill invalid."""
    bad = {Severity.ERROR, Severity.WARNING} if strict else {Severity.ERROR}
    return [
        problem for problem in verdict.problems if problem.severity in bad or (strict and problem.rule in _STRICT_RULES)
    ]


def _result_json(verdict: "ValidationResult", valid: bool) -> dict[str, object]:
    problems = [problem_json(problem) for problem in verdict.problems]
    return {"path": verdict.path, "name": verdict.name, "valid": valid, "problems": problems}


def _print_results(verdicts: "Sequence[ValidationResult]", blamed: Sequence[Sequence[Problem]], quiet: bool) -> None:
    for verdict, faults in zip(verdicts, blamed, strict=True):
        for problem in faults if quiet else verdict.problems:
            say(*format_problem(problem))
    if not quiet:
        _report_fixed(verdicts)
        _summarise(
            verdicts, sum(bool(faults) and verdict.is_skill for verdict, faults in zip(verdicts, blamed, strict=True))
        )


def _report_fixed(verdicts: "Sequence[ValidationResult]") -> None:
    fixed = [problem for verdict in verdicts for problem in verdict.fixed]
    for problem in fixed:
        title = problem.fix.title if problem.fix else problem.message
        warn(("fixed", "green"), ": ", *format_problem(problem), f": {escape_line(title)}")


def _summarise(verdicts: "Sequence[ValidationResult]", invalid: int) -> None:
    problems = [problem for verdict in verdicts for problem in verdict.problems]
    found = f" ({count_by_severity(problems)})" if problems else ""
    mendable = sum(1 for problem in problems if problem.fix and problem.fix.edits)
    hint = f"; --fix mends {mendable:,}" if mendable else ""
    skills = sum(verdict.is_skill for verdict in verdicts)
    if invalid:
        say((f"{invalid:,} of {pluralize(skills, 'skill')} invalid", STYLES[Severity.ERROR]), found, hint)
    else:
        say((f"{pluralize(skills, 'skill')} valid", "bold green"), found, hint)


Json: TypeAlias = dict[str, Any]

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_TABLE: Mapping[str, Rule] = {rule.id: rule for rule in ALL_RULES}
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}


def build_sarif(verdicts: "Sequence[ValidationResult]") -> Json:
    """One run with every problem of these verdicts and the rules they are of."""
    problems = [problem for verdict in verdicts for problem in verdict.problems]
    with_mark = {problem.path for problem in problems if problem.rule == "text-bom"}
    rules = list(dict.fromkeys(problem.rule for problem in problems))
    driver = {"name": "openskills", "version": __version__, "rules": [_sarif_rule(rule) for rule in rules]}
    results = [_sarif_result(problem, rules.index(problem.rule), problem.path in with_mark) for problem in problems]
    run: Json = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _sarif_rule(name: str) -> Json:
    rule = _TABLE.get(name)
    text = name.replace("-", " ")
    if rule is None:
        return {"id": name, "shortDescription": {"text": text}}
    return {
        "id": name,
        "shortDescription": {"text": _rule_summary(rule) or text},
        "fullDescription": {"text": rule.clause},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
    }


def _rule_summary(rule: Rule) -> str:
    return (rule.check.__doc__ or "").partition("\n")[0] if rule.check else ""


def _sarif_result(problem: Problem, index: int, marked: bool) -> Json:
    result: Json = {
        "ruleId": problem.rule,
        "ruleIndex": index,
        "level": _LEVELS[problem.severity],
        "message": {"text": problem.message},
        "locations": [
            {"physicalLocation": {"artifactLocation": _sarif_artifact(problem.path), "region": _sarif_region(problem)}}
        ],
    }
    replacements = [_sarif_replacement(edit, marked) for edit in _select_edits(problem, marked)]
    if problem.fix and replacements:
        change = {"artifactLocation": _sarif_artifact(problem.path), "replacements": replacements}
        result["fixes"] = [{"description": {"text": problem.fix.title}, "artifactChanges": [change]}]
    return result


def _sarif_region(problem: Problem) -> Json:
    # A fault of the file as a whole is shown at its beginning: viewers want a line.
    region = {"startLine": problem.line or 1}
    return {**region, "startColumn": problem.column} if problem.column else region


def _select_edits(problem: Problem, marked: bool) -> Iterable[Edit]:
    edits = problem.fix.edits if problem.fix else ()
    # To SARIF a byte-order mark is no part of the text, so its removal cannot be described.
    return edits if not marked or all(edit.start > 0 for edit in edits) else ()


def _sarif_replacement(edit: Edit, marked: bool) -> Json:
    region = {"charOffset": edit.start - marked, "charLength": edit.end - edit.start}
    replacement: Json = {"deletedRegion": region}
    return {**replacement, "insertedContent": {"text": edit.replacement}} if edit.replacement else replacement


def _sarif_artifact(path: str) -> Json:
    """Relative to the root of the sources when the file lies below the current directory."""
    relative = os.path.relpath(path)
    if relative.startswith(os.pardir):
        return {"uri": Path(os.path.abspath(path)).as_uri()}
    return {"uri": quote(Path(relative).as_posix().encode("utf-8", "surrogateescape")), "uriBaseId": "%SRCROOT%"}
