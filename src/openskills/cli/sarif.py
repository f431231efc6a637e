"""Verdicts as SARIF 2.1.0, the format of code scanners."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote

from openskills.skillmd.problem import Edit, Problem, Severity
from openskills.skillmd.rules import ALL, Rule
from openskills.version import __version__

if TYPE_CHECKING:
    from openskills.catalog.validate import Verdict

Json: TypeAlias = dict[str, Any]

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_TABLE: Mapping[str, Rule] = {rule.id: rule for rule in ALL}
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}


def sarif(verdicts: "Sequence[Verdict]") -> Json:
    """One run with every problem of these verdicts and the rules they are of."""
    problems = [problem for verdict in verdicts for problem in verdict.problems]
    with_mark = {problem.path for problem in problems if problem.rule == "text-bom"}
    rules = list(dict.fromkeys(problem.rule for problem in problems))
    driver = {"name": "openskills", "version": __version__, "rules": [_rule(rule) for rule in rules]}
    results = [_result(problem, rules.index(problem.rule), problem.path in with_mark) for problem in problems]
    run: Json = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(name: str) -> Json:
    rule = _TABLE.get(name)
    text = name.replace("-", " ")
    if rule is None:
        return {"id": name, "shortDescription": {"text": text}}
    return {
        "id": name,
        "shortDescription": {"text": _summary(rule) or text},
        "fullDescription": {"text": rule.clause},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
    }


def _summary(rule: Rule) -> str:
    return (rule.check.__doc__ or "").partition("\n")[0] if rule.check else ""


def _result(problem: Problem, index: int, marked: bool) -> Json:
    result: Json = {
        "ruleId": problem.rule,
        "ruleIndex": index,
        "level": _LEVELS[problem.severity],
        "message": {"text": problem.message},
        "locations": [{"physicalLocation": {"artifactLocation": _artifact(problem.path), "region": _region(problem)}}],
    }
    replacements = [_replacement(edit, marked) for edit in _edits(problem, marked)]
    if problem.fix and replacements:
        change = {"artifactLocation": _artifact(problem.path), "replacements": replacements}
        result["fixes"] = [{"description": {"text": problem.fix.title}, "artifactChanges": [change]}]
    return result


def _region(problem: Problem) -> Json:
    # A fault of the file as a whole is shown at its beginning: viewers want a line.
    region = {"startLine": problem.line or 1}
    return {**region, "startColumn": problem.column} if problem.column else region


def _edits(problem: Problem, marked: bool) -> Iterable[Edit]:
    edits = problem.fix.edits if problem.fix else ()
    # To SARIF a byte-order mark is no part of the text, so its removal cannot be described.
    return edits if not marked or all(edit.start > 0 for edit in edits) else ()


def _replacement(edit: Edit, marked: bool) -> Json:
    region = {"charOffset": edit.start - marked, "charLength": edit.end - edit.start}
    replacement: Json = {"deletedRegion": region}
    return {**replacement, "insertedContent": {"text": edit.replacement}} if edit.replacement else replacement


def _artifact(path: str) -> Json:
    """Relative to the root of the sources when the file lies below the current directory."""
    relative = os.path.relpath(path)
    if relative.startswith(os.pardir):
        return {"uri": Path(os.path.abspath(path)).as_uri()}
    return {"uri": quote(Path(relative).as_posix().encode("utf-8", "surrogateescape")), "uriBaseId": "%SRCROOT%"}
