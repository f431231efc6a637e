"""Validate skills on disk strictly, and apply safe fixes."""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from openskills.catalog.discovery import Folder, SkillFileEntry, discover
from openskills.catalog.root import FetchResult, Progress, Root, no_progress
from openskills.catalog.skill import SKILL_FILE, find_resources, read_skill_text
from openskills.catalog.sources.plugin import open_plugin
from openskills.errors import ForbiddenPath, InvalidArgument
from openskills.filesystem import rewrite_file
from openskills.paths import inside, open_inside
from openskills.skillmd.fixes import apply_all_fixes
from openskills.skillmd.markdown import find_linked_files
from openskills.skillmd.parse import parse
from openskills.skillmd.problem import Problem, select_errors
from openskills.skillmd.rules import find_unknown_suppressions, lint_skill, position_key
from openskills.skillmd.suppressions import drop_suppressed

MAX_LINKED_BYTES = 256 * 1024
MAX_LINKED_FILES = 200


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """The problems of one skill. `path` is its SKILL.md; `name` is None when it could not be read."""

    path: str
    name: str | None
    problems: tuple[Problem, ...]
    fixed: tuple[Problem, ...] = ()

    @property
    def is_skill(self) -> bool:
        """Whether this is about a skill, and not about another path."""
        return os.path.basename(self.path) == SKILL_FILE

    @property
    def is_valid(self) -> bool:
        """Whether it has no errors; warnings and notes do not count."""
        return not select_errors(self.problems)


def validate(path: str | os.PathLike[str]) -> ValidationResult:
    """Validate the skill in a folder or of a SKILL.md. Raises `InvalidArgument` for a wrong path only."""
    directory = resolve_skill_folder(path)
    text, problem = read_skill_text(str(directory))
    return _unreadable_result(directory, problem) if problem else _validate_text(directory, text)


def fix(path: str | os.PathLike[str]) -> ValidationResult:
    """Apply the safe fixes to a skill's file and validate the result; `fixed` has the problems that were fixed."""
    directory = resolve_skill_folder(path)
    text, problem = read_skill_text(str(directory))
    if problem:
        return _unreadable_result(directory, problem)
    new_text, fixed = apply_all_fixes(text, lambda draft: _validate_text(directory, draft).problems)
    if new_text != text:
        # If SKILL.md is a link, its target is changed and the link stays.
        rewrite_file(inside(directory, SKILL_FILE), new_text.encode("utf-8"))
    return replace(_validate_text(directory, new_text), fixed=fixed)


@dataclass(frozen=True, slots=True)
class SkillFolderList:
    """The skill folders below some paths, and the problems of paths that are not skills."""

    skills: tuple[Path, ...]
    oddities: tuple[ValidationResult, ...]


def find_skill_folders(paths: Iterable[str | os.PathLike[str]], progress: Progress = no_progress) -> SkillFolderList:
    """Find the skills of some paths: a skill, its SKILL.md, or a directory with skills in it.

    Of an Agent Plugin, the manifest and the servers are checked too. Another directory without any skill is listed
    itself, so that its result says what is missing. Raises `InvalidArgument` for a path that does not exist.
    """
    skills: dict[Path, None] = {}
    oddities: list[ValidationResult] = []
    for path in paths:
        folder = resolve_skill_folder(path)
        root = Root(folder, str(folder))
        opened = open_plugin(root) if root.is_plugin else FetchResult((root,))
        odd = [*opened.problems]
        for place in opened.roots:
            scan = discover(place, progress=progress)
            found = [Path(directory) for directory, entry in scan.visited.items() if isinstance(entry, SkillFileEntry)]
            skills.update(dict.fromkeys(found or ([] if root.is_plugin else [folder])))
            odd += (problem for one in scan.visited.values() if isinstance(one, Folder) for problem in one.problems)
            odd += scan.problems
        oddities += (ValidationResult(problem.path, None, (problem,)) for problem in odd)
    return SkillFolderList(tuple(skills), tuple(dict.fromkeys(oddities)))


def resolve_skill_folder(given: str | os.PathLike[str]) -> Path:
    """The absolute path of a skill folder, given itself or its SKILL.md. Raises `InvalidArgument`."""
    path = Path(given)
    if not os.fspath(given):
        raise InvalidArgument("path", "is empty; use a folder, or . for this one")
    if not os.path.lexists(path):
        raise InvalidArgument("path", f"{path} does not exist")
    if path.name == SKILL_FILE or (path.name.lower() == SKILL_FILE.lower() and not path.is_dir()):
        path = path.parent
    if not path.is_dir():
        raise InvalidArgument("path", f"{path} is neither a skill folder nor a {SKILL_FILE}")
    return Path(os.path.abspath(path))


def _unreadable_result(directory: Path, problem: Problem) -> ValidationResult:
    location = str(directory / SKILL_FILE)
    return ValidationResult(location, None, (problem.with_path(location),))


def _validate_text(directory: Path, text: str) -> ValidationResult:
    location = str(directory / SKILL_FILE)
    parsed = parse(text)
    files = {resource.path: resource.size for resource in find_resources(str(directory))}
    found = lint_skill(parsed, directory.name, files, _read_linked_texts(directory, parsed.body, files))
    unknown = find_unknown_suppressions(text)
    problems = sorted(drop_suppressed([*found, *unknown], text), key=position_key)
    name = parsed.manifest.name if parsed.manifest else None
    return ValidationResult(location, name or None, tuple(problem.with_path(location) for problem in problems))


def _read_linked_texts(directory: Path, body: str, files: Mapping[str, int]) -> dict[str, str]:
    """The text files that SKILL.md links to, up to the size limit."""
    small = [path for path in find_linked_files(body) if 0 < files.get(path, 0) <= MAX_LINKED_BYTES]
    texts: dict[str, str] = {}
    for path in small[:MAX_LINKED_FILES]:
        if path.lower().endswith((".md", ".txt")):
            with suppress(OSError, ForbiddenPath), os.fdopen(open_inside(str(directory), path), "rb") as file:
                texts[path] = file.read(MAX_LINKED_BYTES).decode("utf-8", "replace")
    return texts
