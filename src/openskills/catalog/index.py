"""What a scan found, kept on disk so that the next process need not read the same files again.

A file that cannot be read or was written by another version is as good as none: it is a copy of what the disk says,
and the disk is asked again for everything whose stamp has changed.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from openskills.catalog.root import Root
from openskills.catalog.scan import Folder, Found, Scan
from openskills.errors import SourceUnavailable
from openskills.files import replace_file
from openskills.skillmd.problem import Fix, Problem, Severity
from openskills.version import __version__

_FORMAT = f"{__version__}/1"


def load_index(directory: Path, root: Root) -> Scan | None:
    """The scan of `root` that was saved last, or None."""
    try:
        with _file(directory, root).open("rb") as file:
            # What somebody else could have written is not ours to believe.
            if os.fstat(file.fileno()).st_uid != os.geteuid():
                return None
            content: Any = json.loads(file.read())
        if content["format"] != _FORMAT:
            return None
        visited = {path: _entry(*row) for path, row in content["visited"].items()}
        return Scan(visited, tuple(_problem(*row) for row in content["problems"]))
    except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return None


def save_index(directory: Path, root: Root, scan: Scan) -> None:
    """Keep `scan` for the next process. Raises `SourceUnavailable` when the directory cannot be written."""
    content = {
        "format": _FORMAT,
        "visited": {path: _row(entry) for path, entry in scan.visited.items()},
        "problems": [_problem_row(problem) for problem in scan.problems],
    }
    data = json.dumps(content, separators=(",", ":")).encode("ascii")
    path = _file(directory, root)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(path, data)
    except OSError as error:
        raise SourceUnavailable(f"the index in {directory} cannot be written: {error.strerror or error}") from None


def _file(directory: Path, root: Root) -> Path:
    key = f"{os.path.realpath(root.path)}\0{os.path.abspath(root.path)}\0{root.confine}"
    return directory / "index" / f"{hashlib.sha256(os.fsencode(key)).hexdigest()[:32]}.json"


def _row(entry: Folder | Found) -> list[Any]:
    problems = [_problem_row(problem) for problem in entry.problems]
    if isinstance(entry, Found):
        return ["s", entry.stamp, entry.fields, problems]
    return ["d", entry.stamp, entry.children, problems]


def _entry(kind: str, stamp: list[int] | None, content: Any, problems: list[list[Any]]) -> Folder | Found:
    # Most skills have no problem; a tuple built from nothing costs nothing.
    known = tuple(_problem(*row) for row in problems) if problems else ()
    settled = (stamp[0], stamp[1], stamp[2], stamp[3]) if stamp is not None else None
    if kind == "s":
        if content is not None and content.__class__ is not dict:
            raise TypeError("fields are a map or nothing")
        return Found(settled, content, known)
    return Folder(settled, tuple((path, real) for path, real in content), known)


def _problem_row(problem: Problem) -> list[Any]:
    title = problem.fix.title if problem.fix else None
    return [problem.rule, problem.message, problem.severity, problem.line, problem.column, title, problem.path]


def _problem(
    rule: str, message: str, severity: str, line: int | None, column: int | None, title: str | None, path: str
) -> Problem:
    fix = Fix(title) if title is not None else None
    return Problem(rule, message, Severity(severity), line, column, fix, path)
