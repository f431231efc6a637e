"""The strict attitude: everything that is wrong with a skill on disk, and mending what can be mended safely."""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from openskills.catalog.discover import discover
from openskills.catalog.progress import Progress, silent
from openskills.catalog.resources import find_resources
from openskills.catalog.root import Root
from openskills.catalog.scan import Folder, Found
from openskills.catalog.skillfile import SKILL_FILE, read_skill_text
from openskills.errors import ForbiddenPath, InvalidArgument
from openskills.files import rewrite_file
from openskills.paths import inside, open_inside
from openskills.skillmd.links import linked_files
from openskills.skillmd.mend import mend_until_settled
from openskills.skillmd.parse import parse
from openskills.skillmd.problem import Problem, errors_in
from openskills.skillmd.rules import judge

MAX_LINKED_BYTES = 256 * 1024
MAX_LINKED_FILES = 200


@dataclass(frozen=True, slots=True)
class Verdict:
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
    def valid(self) -> bool:
        """No errors; warnings and notes do not count."""
        return not errors_in(self.problems)


def validate(path: str | os.PathLike[str]) -> Verdict:
    """Judge the skill in a folder, or that of a SKILL.md. Faults are in the verdict; only a wrong path is raised."""
    directory = skill_folder(path)
    text, problem = read_skill_text(str(directory))
    return _unreadable(directory, problem) if problem else _verdict(directory, text)


def fix(path: str | os.PathLike[str]) -> Verdict:
    """Apply the safe fixes to a skill's file and judge what is left; `fixed` says what was mended."""
    directory = skill_folder(path)
    text, problem = read_skill_text(str(directory))
    if problem:
        return _unreadable(directory, problem)
    mended, fixed = mend_until_settled(text, lambda draft: _verdict(directory, draft).problems)
    if mended != text:
        # Where SKILL.md is a link, the file behind it is mended and the link stays.
        rewrite_file(inside(directory, SKILL_FILE), mended.encode("utf-8"))
    return replace(_verdict(directory, mended), fixed=fixed)


@dataclass(frozen=True, slots=True)
class Survey:
    """What lies below some paths: folders of skills to judge, and verdicts on places that are odd but no skill."""

    skills: tuple[Path, ...]
    oddities: tuple[Verdict, ...]


def survey(paths: Iterable[str | os.PathLike[str]], progress: Progress = silent) -> Survey:
    """Find the skills that people mean by a path: a skill, its file, or a directory with skills in it.

    A directory without any skill stands for itself, so that its verdict says what is missing. Raises
    `InvalidArgument` for a path that does not exist.
    """
    skills: dict[Path, None] = {}
    oddities: list[Verdict] = []
    for path in paths:
        folder = skill_folder(path)
        scan = discover(Root(folder, str(folder)), progress=progress)
        found = [Path(directory) for directory, entry in scan.visited.items() if isinstance(entry, Found)]
        skills.update(dict.fromkeys(found or [folder]))
        odd = [problem for entry in scan.visited.values() if isinstance(entry, Folder) for problem in entry.problems]
        oddities += [Verdict(problem.path, None, (problem,)) for problem in (*odd, *scan.problems)]
    return Survey(tuple(skills), tuple(dict.fromkeys(oddities)))


def skill_folder(given: str | os.PathLike[str]) -> Path:
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


def _unreadable(directory: Path, problem: Problem) -> Verdict:
    location = str(directory / SKILL_FILE)
    return Verdict(location, None, (problem.at(location),))


def _verdict(directory: Path, text: str) -> Verdict:
    location = str(directory / SKILL_FILE)
    parsed = parse(text)
    files = {resource.path: resource.size for resource in find_resources(str(directory))}
    problems = judge(parsed, directory.name, files, _linked_texts(directory, parsed.body, files))
    name = parsed.manifest.name if parsed.manifest else None
    return Verdict(location, name or None, tuple(problem.at(location) for problem in problems))


def _linked_texts(directory: Path, body: str, files: Mapping[str, int]) -> dict[str, str]:
    """The texts that SKILL.md points at, as far as they are of a size that somebody would read."""
    small = [path for path in linked_files(body) if 0 < files.get(path, 0) <= MAX_LINKED_BYTES]
    texts: dict[str, str] = {}
    for path in small[:MAX_LINKED_FILES]:
        if path.lower().endswith((".md", ".txt")):
            # A text that cannot be read points at nothing.
            with suppress(OSError, ForbiddenPath), os.fdopen(open_inside(str(directory), path), "rb") as file:
                texts[path] = file.read(MAX_LINKED_BYTES).decode("utf-8", "replace")
    return texts
