"""The strict attitude: everything that is wrong with a skill on disk, and mending what can be mended safely."""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from openskills.catalog.discovery import Folder, SkillFileEntry, discover
from openskills.catalog.root import Progress, Root, no_progress
from openskills.catalog.skill import SKILL_FILE, find_resources, read_skill_text
from openskills.errors import ForbiddenPath, InvalidArgument
from openskills.filesystem import rewrite_file
from openskills.paths import inside, open_inside
from openskills.skillmd.fixes import apply_all_fixes
from openskills.skillmd.links import find_linked_files
from openskills.skillmd.parse import parse
from openskills.skillmd.problem import Problem, select_errors
from openskills.skillmd.rules import lint_skill

MAX_LINKED_BYTES = 256 * 1024
MAX_LINKED_FILES = 200


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """What a strict reader says of one skill. `path` is its SKILL.md; `name` is None when none could be read."""

    path: str
    name: str | None
    problems: tuple[Problem, ...]
    fixed: tuple[Problem, ...] = ()

    @property
    def is_skill(self) -> bool:
        """Whether this is about a skill, and not about a place that is odd."""
        return os.path.basename(self.path) == SKILL_FILE

    @property
    def is_valid(self) -> bool:
        """No errors; warnings and notes do not count."""
        return not select_errors(self.problems)


def validate(path: str | os.PathLike[str]) -> ValidationResult:
    """Judge the skill in a folder, or that of a SKILL.md. Faults are in the verdict; only a wrong path is raised."""
    directory = resolve_skill_folder(path)
    text, problem = read_skill_text(str(directory))
    return _unreadable_result(directory, problem) if problem else _validate_text(directory, text)


def fix(path: str | os.PathLike[str]) -> ValidationResult:
    """Apply the safe fixes to a skill's file and judge what is left; `fixed` says what was mended."""
    directory = resolve_skill_folder(path)
    text, problem = read_skill_text(str(directory))
    if problem:
        return _unreadable_result(directory, problem)
    mended, fixed = apply_all_fixes(text, lambda draft: _validate_text(directory, draft).problems)
    if mended != text:
        # Where SKILL.md is a link, the file behind it is mended and the link stays.
        rewrite_file(inside(directory, SKILL_FILE), mended.encode("utf-8"))
    return replace(_validate_text(directory, mended), fixed=fixed)


@dataclass(frozen=True, slots=True)
class SkillFolderList:
    """What lies below some paths: folders of skills to judge, and verdicts on places that are odd but no skill."""

    skills: tuple[Path, ...]
    oddities: tuple[ValidationResult, ...]


def find_skill_folders(paths: Iterable[str | os.PathLike[str]], progress: Progress = no_progress) -> SkillFolderList:
    """Find the skills that people mean by a path: a skill, its file, or a directory with skills in it.

    A directory without any skill stands for itself, so that its verdict says what is missing. Raises
    `InvalidArgument` for a path that does not exist.
    """
    skills: dict[Path, None] = {}
    oddities: list[ValidationResult] = []
    for path in paths:
        folder = resolve_skill_folder(path)
        scan = discover(Root(folder, str(folder)), progress=progress)
        found = [Path(directory) for directory, entry in scan.visited.items() if isinstance(entry, SkillFileEntry)]
        skills.update(dict.fromkeys(found or [folder]))
        odd = [problem for entry in scan.visited.values() if isinstance(entry, Folder) for problem in entry.problems]
        oddities += [ValidationResult(problem.path, None, (problem,)) for problem in (*odd, *scan.problems)]
    return SkillFolderList(tuple(skills), tuple(dict.fromkeys(oddities)))


def resolve_skill_folder(given: str | os.PathLike[str]) -> Path:
    """The absolute folder that a person means by naming it or the SKILL.md in it. Raises `InvalidArgument`."""
    path = Path(given)
    if not os.fspath(given):
        raise InvalidArgument("path", "is empty; name a folder, or . for this one")
    if not os.path.lexists(path):
        raise InvalidArgument("path", f"{path} does not exist")
    if path.name == SKILL_FILE or (path.name.lower() == SKILL_FILE.lower() and not path.is_dir()):
        path = path.parent
    if not path.is_dir():
        raise InvalidArgument("path", f"{path} is neither a skill's folder nor a {SKILL_FILE}")
    return Path(os.path.abspath(path))


def _unreadable_result(directory: Path, problem: Problem) -> ValidationResult:
    location = str(directory / SKILL_FILE)
    return ValidationResult(location, None, (problem.with_path(location),))


def _validate_text(directory: Path, text: str) -> ValidationResult:
    location = str(directory / SKILL_FILE)
    parsed = parse(text)
    files = {resource.path: resource.size for resource in find_resources(str(directory))}
    problems = lint_skill(parsed, directory.name, files, _read_linked_texts(directory, parsed.body, files))
    name = parsed.manifest.name if parsed.manifest else None
    return ValidationResult(location, name or None, tuple(problem.with_path(location) for problem in problems))


def _read_linked_texts(directory: Path, body: str, files: Mapping[str, int]) -> dict[str, str]:
    """The texts that SKILL.md points at, as far as they are of a size that somebody would read."""
    small = [path for path in find_linked_files(body) if 0 < files.get(path, 0) <= MAX_LINKED_BYTES]
    texts: dict[str, str] = {}
    for path in small[:MAX_LINKED_FILES]:
        if path.lower().endswith((".md", ".txt")):
            # A text that cannot be read points at nothing.
            with suppress(OSError, ForbiddenPath), os.fdopen(open_inside(str(directory), path), "rb") as file:
                texts[path] = file.read(MAX_LINKED_BYTES).decode("utf-8", "replace")
    return texts
