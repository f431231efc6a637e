"""`openskills validate`: check skills against the specification, with text, JSON or SARIF 2.1.0 output."""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias
from urllib.parse import quote

import typer

from openskills.cli.output import CliProgress, escape_line, pluralize, say, say_json, warn
from openskills.cli.parameters import Folders, FoldersOption, Json, Many, Project, argument, join_folders, option
from openskills.cli.skills import STYLES, count_by_severity, format_problem
from openskills.errors import InvalidArgument
from openskills.settings import Settings
from openskills.skillmd.problem import Problem, Severity
from openskills.skillmd.rules import ALL_RULES, describe_unknown_rule
from openskills.skillmd.rules.rule import Rule
from openskills.version import __version__

if TYPE_CHECKING:
    from openskills.catalog.validate import ValidationResult
    from openskills.project import ProjectFile


_STRICT_RULES = frozenset({"field-unknown"})
"""Rules that make a skill invalid with --strict, whatever their severity."""


class ValidationFormat(StrEnum):
    """The output format."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"


def validate(
    settings: Settings,
    paths: Folders = None,
    skills: FoldersOption = None,
    form: Annotated[
        ValidationFormat,
        option("FORMAT", "text, json, or sarif for code scanning.", show_default="text", names="--format"),
    ] = ValidationFormat.TEXT,
    strict: Annotated[bool, typer.Option("--strict", help="Also fail on warnings and unknown fields.")] = False,
    fix: Annotated[bool, typer.Option("--fix", help="Apply fixes that do not change the meaning of a skill.")] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print only problems that make a skill invalid.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON; the same as --format json.")] = False,
    select: Annotated[Many, option("RULE", "Check only this rule.")] = None,
    ignore: Annotated[Many, option("RULE", "Do not check this rule.")] = None,
    project: Project = None,
) -> None:
    """Check skills against the specification, strictly.

    Every problem has a rule, a position and a suggestion; `openskills explain RULE` explains a rule. Directories are
    searched for skills. A comment in a SKILL.md (<!-- openskills: ignore RULE -->) suppresses warnings and notes of its
    own line and the next one. [validate] in openskills.toml selects and ignores rules for everybody; --select replaces
    its selection, and --ignore is added to it.

    Examples:
      openskills validate .
      openskills validate skills/ other/SKILL.md --strict
      openskills validate skills/ --fix
      openskills validate skills/ --ignore description-when
      openskills validate skills/ --format sarif > skills.sarif

    Exit codes: 0 all valid, 1 some invalid, 2 wrong usage or no such path.
    """
    if as_json and form is ValidationFormat.SARIF:
        raise InvalidArgument("--json", "cannot be combined with --format sarif; choose one")
    form = ValidationFormat.JSON if as_json else form
    rules = RuleSelection.of(select or (), ignore or (), project, settings)
    verdicts = [rules.filter_problems(verdict) for verdict in _validate_paths(join_folders(paths, skills), fix)]
    blamed = [_select_faults(verdict, strict) for verdict in verdicts]
    if form is ValidationFormat.JSON:
        results = [
            {
                "path": one.path,
                "name": one.name,
                "valid": not faults,
                "problems": [each.to_dict() for each in one.problems],
            }
            for one, faults in zip(verdicts, blamed, strict=True)
        ]
        say_json({"skills": results})
    elif form is ValidationFormat.SARIF:
        say_json(build_sarif(verdicts))
    else:
        _print_results(verdicts, blamed, quiet)
    if fix and form is not ValidationFormat.TEXT and not quiet:
        _report_fixed(verdicts)
    if any(blamed):
        raise typer.Exit(1)


def explain(
    rule: Annotated[str | None, argument("RULE", "A rule, such as link-dead; all rules without it.")] = None,
    as_json: Json = False,
) -> None:
    """Explain a rule of validate: what it requires, where it comes from, and how to suppress it.

    Examples:
      openskills explain link-dead
      openskills explain --json
    """
    found = [_TABLE[name] for name in (_check_rules("RULE", [rule]) if rule else _TABLE)]
    if as_json:
        rules = [
            {"id": one.id, "severity": one.severity, "summary": one.summary, "source": one.clause} for one in found
        ]
        say_json({"rules": rules})
    elif rule is None:
        for one in found:
            say((f"{one.id:<24}", STYLES[one.severity]), f"{one.severity:<9}{one.summary or one.clause}")
    else:
        say((rule, "bold"), f": {found[0].severity}")
        say(found[0].summary or f"Found while the file is read: {rule.replace('-', ' ')}.")
        say(f"Source: {found[0].clause}")
        if found[0].severity is Severity.ERROR:
            say("An error makes a skill invalid and cannot be suppressed in the file; `validate --ignore` skips it.")
        else:
            say(f"Suppress it with <!-- openskills: ignore {rule} --> above or on the line, or with --ignore {rule}.")


def _check_rules(field: str, names: Sequence[str]) -> list[str]:
    found = [name.strip() for text in names for name in text.split(",") if name.strip()]
    for name in found:
        if name not in _TABLE:
            raise InvalidArgument(field, describe_unknown_rule(name))
    return found


@dataclass(frozen=True, slots=True)
class RuleSelection:
    """The rules to report: all, or `selected` ones, without `ignored` ones; `project` may ignore more by skill."""

    selected: Collection[str]
    ignored: Collection[str]
    project: "ProjectFile | None" = None

    @classmethod
    def of(
        cls, select: Sequence[str], ignore: Sequence[str], choice: str | None, settings: Settings
    ) -> "RuleSelection":
        """Combine the command line with the project file. Raises `InvalidArgument` for unknown rules."""
        from openskills.project import open_project

        selected, ignored = _check_rules("--select", select), _check_rules("--ignore", ignore)
        project = open_project(choice, settings)
        if project is None:
            return cls(selected, ignored)
        options = project.validate
        also_selected = _check_rules(project.locate("validate", "select"), options.select)
        also_ignored = _check_rules(project.locate("validate", "ignore"), options.ignore)
        tables = {"per-file-ignores": options.per_file_ignores, "per-skill-ignores": options.per_skill_ignores}
        for table, entries in tables.items():
            for key, names in entries.items():
                _check_rules(project.locate("validate", table, key), names)
        # What the command line selects is reported even if the file ignores it.
        return cls(selected, ignored) if selected else cls(also_selected, [*ignored, *also_ignored], project)

    def filter_problems(self, verdict: "ValidationResult") -> "ValidationResult":
        """The result without the problems that are not to be reported."""
        ignored = {*self.ignored}
        if self.project is not None:
            options = self.project.validate
            ignored.update(options.per_skill_ignores.get(verdict.name or "", ()))
            path = os.path.relpath(os.path.realpath(verdict.path), os.path.realpath(self.project.path.parent))
            for pattern, names in options.per_file_ignores.items():
                if fnmatchcase(path, pattern) or fnmatchcase(path, f"{pattern.rstrip('/')}/*"):
                    ignored.update(names)
        problems = (problem for problem in verdict.problems if problem.rule not in ignored)
        kept = tuple(problem for problem in problems if not self.selected or problem.rule in self.selected)
        return replace(verdict, problems=kept)


def _validate_paths(paths: Sequence[str], fix: bool) -> "list[ValidationResult]":
    from openskills.catalog import validate as validation

    with CliProgress("looking for skills") as progress:
        # Resolve all paths first, so that a misspelled one is reported before anything is changed.
        survey = validation.find_skill_folders(paths, progress)
        verdicts: list[ValidationResult] = []
        for number, folder in enumerate(survey.skills):
            progress("checking skills", number, len(survey.skills))
            # Do not change folders that are outside `paths` and only linked from there.
            check = validation.fix if fix and _is_in(folder, paths) else validation.validate
            verdicts.append(check(folder))
    return [*verdicts, *survey.oddities]


def _is_in(folder: Path, paths: Sequence[str]) -> bool:
    real = Path(os.path.realpath(folder))
    parents = [os.path.dirname(path) or "." for path in paths if os.path.isfile(path)]
    is_given_file = any(Path(os.path.realpath(parent)) == real for parent in parents)
    return is_given_file or any(real.is_relative_to(os.path.realpath(path)) for path in paths)


def _select_faults(verdict: "ValidationResult", strict: bool) -> list[Problem]:
    """The problems that make this skill invalid."""
    bad, rules = ({Severity.ERROR, Severity.WARNING}, _STRICT_RULES) if strict else ({Severity.ERROR}, ())
    return [problem for problem in verdict.problems if problem.severity in bad or problem.rule in rules]


def _print_results(verdicts: "Sequence[ValidationResult]", blamed: Sequence[Sequence[Problem]], quiet: bool) -> None:
    for verdict, faults in zip(verdicts, blamed, strict=True):
        for problem in faults if quiet else verdict.problems:
            say(*format_problem(problem))
    if quiet:
        return
    _report_fixed(verdicts)
    invalid = sum(bool(faults) and verdict.is_skill for verdict, faults in zip(verdicts, blamed, strict=True))
    problems = [problem for verdict in verdicts for problem in verdict.problems]
    found = f" ({count_by_severity(problems)})" if problems else ""
    fixable = sum(1 for problem in problems if problem.fix and problem.fix.edits)
    hint = f"; {fixable:,} fixable with --fix" if fixable else ""
    skills = pluralize(sum(verdict.is_skill for verdict in verdicts), "skill")
    if invalid:
        say((f"{invalid:,} of {skills} invalid", STYLES[Severity.ERROR]), found, hint)
    else:
        say((f"{skills} valid", "bold green"), found, hint)


def _report_fixed(verdicts: "Sequence[ValidationResult]") -> None:
    for problem in (problem for verdict in verdicts for problem in verdict.fixed):
        title = problem.fix.title if problem.fix else problem.message
        warn(("fixed", "green"), ": ", *format_problem(problem), f": {escape_line(title)}")


SarifObject: TypeAlias = dict[str, Any]

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_TABLE: Mapping[str, Rule] = {rule.id: rule for rule in ALL_RULES}
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}


def build_sarif(verdicts: "Sequence[ValidationResult]") -> SarifObject:
    """A SARIF log with all problems of these results and their rules."""
    problems = [problem for verdict in verdicts for problem in verdict.problems]
    with_mark = {problem.path for problem in problems if problem.rule == "text-bom"}
    rules = list(dict.fromkeys(problem.rule for problem in problems))
    driver = {"name": "openskills", "version": __version__, "rules": [_sarif_rule(rule) for rule in rules]}
    results = [_sarif_result(problem, rules.index(problem.rule), problem.path in with_mark) for problem in problems]
    run: SarifObject = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _sarif_rule(name: str) -> SarifObject:
    rule = _TABLE.get(name)
    text = name.replace("-", " ")
    if rule is None:
        return {"id": name, "shortDescription": {"text": text}}
    return {
        "id": name,
        "shortDescription": {"text": rule.summary or text},
        "fullDescription": {"text": rule.clause},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
    }


def _sarif_result(problem: Problem, index: int, marked: bool) -> SarifObject:
    # Viewers need a line, so problems of a whole file are at its beginning.
    region: SarifObject = {
        "startLine": problem.line or 1,
        **({"startColumn": problem.column} if problem.column else {}),
    }
    location = {"artifactLocation": _sarif_artifact(problem.path), "region": region}
    result: SarifObject = {
        "ruleId": problem.rule,
        "ruleIndex": index,
        "level": _LEVELS[problem.severity],
        "message": {"text": problem.message},
        "locations": [{"physicalLocation": location}],
    }
    edits = problem.fix.edits if problem.fix else ()
    # SARIF does not count a byte-order mark as text, so its removal cannot be described.
    is_describable = not marked or all(edit.start > 0 for edit in edits)
    replacements: list[SarifObject] = []
    for edit in edits if is_describable else ():
        replacement = {"deletedRegion": {"charOffset": edit.start - marked, "charLength": edit.end - edit.start}}
        inserted = {"insertedContent": {"text": edit.replacement}} if edit.replacement else {}
        replacements.append({**replacement, **inserted})
    if problem.fix and replacements:
        change = {"artifactLocation": _sarif_artifact(problem.path), "replacements": replacements}
        result["fixes"] = [{"description": {"text": problem.fix.title}, "artifactChanges": [change]}]
    return result


def _sarif_artifact(path: str) -> SarifObject:
    """The location of a file, relative to the source root when it is below the current directory."""
    relative = os.path.relpath(path)
    if relative.startswith(os.pardir):
        return {"uri": Path(os.path.abspath(path)).as_uri()}
    return {"uri": quote(Path(relative).as_posix().encode("utf-8", "surrogateescape")), "uriBaseId": "%SRCROOT%"}
