"""Find the skills below a directory, and cache the result on disk.

Unchanged directories and files are recognized by their stamps and not read again. A cache file that is damaged or
was written by another version is ignored.
"""

import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from openskills.catalog.root import MAX_DEPTH, ListedSkill, Progress, Root, no_progress
from openskills.catalog.skill import SKILL_FILE, SKIPPED, TICK_NS, NoSkillFile, Stamp, read_skill_file, stamp_of
from openskills.errors import SourceUnavailable
from openskills.filesystem import replace_file
from openskills.skillmd.frontmatter import decode
from openskills.skillmd.manifest import SkillManifest
from openskills.skillmd.parse import normalize_name, parse
from openskills.skillmd.problem import Fix, Problem, Severity, select_errors
from openskills.skillmd.rules import MANIFEST_RULES, apply_rules, is_plainly_valid, position_key, relax_problems
from openskills.skillmd.rules.rule import Subject
from openskills.skillmd.yaml import Value
from openskills.version import __version__


@dataclass(frozen=True, slots=True)
class Folder:
    """A directory without a SKILL.md: its subdirectories to search, and its problems.

    `children` are pairs of the path to show and the real path; they differ below a link.
    """

    stamp: Stamp | None
    children: tuple[tuple[str, str], ...]
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class SkillFileEntry:
    """A directory with a SKILL.md: the front matter fields (None when unusable) and the problems.

    `manifest` is the parsed manifest, if it is known already. `seen` is the stamp even when it is too young to be
    reliable.
    """

    stamp: Stamp | None
    fields: Mapping[str, Value] | None
    problems: tuple[Problem, ...] = ()
    manifest: SkillManifest | None = field(default=None, compare=False)
    seen: Stamp | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class RootScan:
    """Everything below one root by directory, in the order it was found. A `stamp` of None is never current."""

    visited: Mapping[str, Folder | SkillFileEntry] = field(default_factory=dict[str, Folder | SkillFileEntry])
    problems: tuple[Problem, ...] = ()
    read: int = 0

    @property
    def has_changes(self) -> bool:
        """Whether anything had to be read again."""
        return self.read > 0


MAX_DIRECTORIES = 50_000
"""How many directories below a root are searched."""

_PROGRESS_EVERY = 256
# Portability and style are for authors and reported by `validate`. Two in five real skills nest their metadata, and
# the users who load them cannot change that.
_LOADING_RULES = tuple(rule for rule in MANIFEST_RULES if rule.severity is Severity.ERROR)


class _ScanDirectory(NamedTuple):
    path: str
    real: str
    depth: int


def discover(root: Root, known: RootScan | None = None, progress: Progress = no_progress) -> RootScan:
    """Search `root` for skills, reusing from `known` whatever is unchanged on disk.

    Descends until a directory has a SKILL.md, skips version control, packages and virtual environments, and follows
    each link to a directory once. Faults become problems of their directory; nothing is raised.
    """
    if known is not None and _is_unchanged(known):
        return replace(known, read=0)
    return _RootScanner(root, known or RootScan(), progress).run()


class _RootScanner:
    def __init__(self, root: Root, known: RootScan, progress: Progress) -> None:
        self._root = root
        self._known = known.visited
        self._progress = progress
        self._visited: dict[str, Folder | SkillFileEntry] = {}
        self._problems: list[Problem] = []
        self._read = 0
        self._fresh_after = time.time_ns() - TICK_NS

    def run(self) -> RootScan:
        top = os.path.abspath(self._root.path)
        waiting = [_ScanDirectory(top, os.path.realpath(top), 0)]
        seen = {waiting[0].real}
        while waiting:
            place = waiting.pop()
            if len(self._visited) >= MAX_DIRECTORIES:
                message = f"more than {MAX_DIRECTORIES:,} directories; the rest was not searched; use a smaller folder"
                self._problems.append(Problem("scan-limit", message, Severity.WARNING, path=top))
                break
            result = self._visit(place)
            self._visited[place.path] = result
            if isinstance(result, Folder):
                waiting.extend(reversed([*self._iter_children(place, result, seen)]))
            if len(self._visited) % _PROGRESS_EVERY == 0:
                self._progress("reading skills", len(self._visited), None)
        gone = self._known.keys() - self._visited.keys()
        return RootScan(self._visited, tuple(self._problems), self._read + len(gone))

    def _iter_children(self, place: _ScanDirectory, folder: Folder, seen: set[str]) -> Iterator[_ScanDirectory]:
        if place.depth >= self._root.max_depth:
            # A root with another limit has its own rules about where skills are.
            if folder.children and self._root.max_depth == MAX_DEPTH:
                message = f"directories more than {MAX_DEPTH} levels deep were not searched; move the skills up"
                self._problems.append(Problem("scan-limit", message, Severity.WARNING, path=place.path))
            return
        for path, real in folder.children:
            if real not in seen:
                seen.add(real)
                yield _ScanDirectory(path, real, place.depth + 1)

    def _visit(self, place: _ScanDirectory) -> Folder | SkillFileEntry:
        before = self._known.get(place.path)
        if before is not None and before.stamp is not None and before.stamp == _read_stamp(place.path, before):
            return before
        self._read += 1
        try:
            return self._read_skill(place)
        except NoSkillFile:
            return self._read_folder(place)

    def _read_skill(self, place: _ScanDirectory) -> SkillFileEntry:
        stamp, data, problem = read_skill_file(place.path)
        if problem is None:
            text, problem = decode(data)
            if problem is None:
                return replace(
                    parse_skill_file(text, place.path, self._stable_stamp(stamp), strict=self._root.strict), seen=stamp
                )
        return SkillFileEntry(self._stable_stamp(stamp), None, (problem.with_path(f"{place.path}/{SKILL_FILE}"),))

    def _read_folder(self, place: _ScanDirectory) -> Folder:
        problems: list[Problem] = []
        try:
            stamp = stamp_of(os.stat(place.path))
            with os.scandir(place.path) as entries:
                listing = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            problem = Problem("file-unreadable", f"the directory cannot be read: {error.strerror or error}")
            return Folder(None, (), (problem.with_path(place.path),))
        if any(entry.name == "pyvenv.cfg" for entry in listing):
            return Folder(self._stable_stamp(stamp), ())
        children: list[tuple[str, str]] = []
        for entry in listing:
            if entry.name.lower() == "skill.md":
                message = f"{entry.name} is not recognized as a skill; rename it to {SKILL_FILE}"
                problems.append(Problem("file-name", message, Severity.WARNING, path=entry.path))
            elif entry.name not in SKIPPED:
                children.extend(self._read_child(place, entry, problems))
        # The target of a broken link can appear without a change of this folder, so it is read again each time.
        dangling = any(problem.rule == "link-dangling" for problem in problems)
        return Folder(None if dangling else self._stable_stamp(stamp), tuple(children), tuple(problems))

    def _read_child(
        self, place: _ScanDirectory, entry: os.DirEntry[str], problems: list[Problem]
    ) -> Iterator[tuple[str, str]]:
        if entry.is_dir(follow_symlinks=False):
            yield entry.path, f"{place.real}/{entry.name}"
        elif not entry.is_symlink():
            return
        elif not os.path.exists(entry.path):
            message = "broken link; it may have been a skill folder"
            problems.append(Problem("link-dangling", message, Severity.WARNING, path=entry.path))
        elif entry.is_dir():
            real = os.path.realpath(entry.path)
            if self._root.can_follow(real):
                yield entry.path, real
            else:
                message = "a link to a directory outside is not followed; copy the folder instead"
                problems.append(Problem("link-not-followed", message, Severity.WARNING, path=entry.path))

    def _stable_stamp(self, stamp: Stamp | None) -> Stamp | None:
        return stamp if stamp is not None and max(stamp[0], stamp[1]) < self._fresh_after else None


def parse_skill_file(text: str, directory: str, stamp: Stamp | None, *, strict: bool = False) -> SkillFileEntry:
    """Read a SKILL.md: its fields, or None if unusable, and its problems. Lenient unless `strict`."""
    parsed = parse(text)
    manifest, fields = parsed.manifest, parsed.front.fields
    problems = list(parsed.problems)
    if manifest is None:
        return SkillFileEntry(stamp, None, _locate_problems(directory, problems))
    folder = os.path.basename(directory)
    subject = Subject(parsed, manifest, folder)
    if not is_plainly_valid(subject):
        problems += apply_rules(subject, _LOADING_RULES)
    if not manifest.name:
        # The client guide accepts a skill without a name; the folder's name is used.
        manifest, fields = replace(manifest, name=normalize_name(folder)), {**fields, "name": folder}
        if not folder.isprintable():
            message = f"no name, and the folder name {folder!r} cannot be used instead"
            problems.append(Problem("name-unsafe", message))
    if not problems:
        return SkillFileEntry(stamp, fields, (), manifest)
    known = _locate_problems(directory, sorted(problems if strict else relax_problems(problems), key=position_key))
    if select_errors(known):
        return SkillFileEntry(stamp, None, known)
    return SkillFileEntry(stamp, fields, known, manifest)


def scan_listed(listed: Mapping[str, ListedSkill], known: RootScan | None = None) -> RootScan:
    """The scan of skills that a server lists. `known` is the scan of the same ones, if there was one."""
    if known is not None:
        return replace(known, read=0)
    visited: dict[str, Folder | SkillFileEntry] = {}
    for directory, skill in listed.items():
        entry = parse_skill_file(skill.front_matter, directory, None)
        if entry.manifest is not None:
            # A server must not grant its own skills permissions.
            manifest = replace(entry.manifest, name=skill.name or entry.manifest.name, allowed_tools=())
            entry = replace(entry, manifest=manifest)
        visited[directory] = replace(entry, problems=tuple(one.with_path(skill.where) for one in entry.problems))
    return RootScan(visited, read=len(visited))


def _locate_problems(directory: str, problems: Iterable[Problem]) -> tuple[Problem, ...]:
    return tuple(problem.with_path(f"{directory}/{SKILL_FILE}") for problem in problems)


def _is_unchanged(known: RootScan) -> bool:
    visited = known.visited
    return bool(visited) and all(
        entry.stamp is not None and entry.stamp == _read_stamp(path, entry) for path, entry in visited.items()
    )


def _read_stamp(path: str, before: Folder | SkillFileEntry) -> Stamp | None:
    try:
        return stamp_of(os.stat(f"{path}/{SKILL_FILE}" if isinstance(before, SkillFileEntry) else path))
    except OSError:
        return None


_FORMAT = f"{__version__}/1"


def load_index(directory: Path, root: Root) -> RootScan | None:
    """The scan of `root` that was saved last, or None."""
    try:
        with _index_path(directory, root).open("rb") as file:
            # A file of another user is not trusted.
            if os.fstat(file.fileno()).st_uid != os.geteuid():
                return None
            content: Any = json.loads(file.read())
        if content["format"] != _FORMAT:
            return None
        visited = {path: _entry_from_row(*row) for path, row in content["visited"].items()}
        return RootScan(visited, tuple(_problem_from_row(*row) for row in content["problems"]))
    except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return None


def save_index(directory: Path, root: Root, scan: RootScan) -> None:
    """Save `scan` for the next process. Raises `SourceUnavailable` when the directory cannot be written."""
    content = {
        "format": _FORMAT,
        "visited": {path: _to_row(entry) for path, entry in scan.visited.items()},
        "problems": [_problem_to_row(problem) for problem in scan.problems],
    }
    data = json.dumps(content, separators=(",", ":")).encode("ascii")
    path = _index_path(directory, root)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(path, data)
    except OSError as error:
        raise SourceUnavailable(f"the index in {directory} cannot be written: {error.strerror or error}") from None


def _index_path(directory: Path, root: Root) -> Path:
    key = f"{os.path.realpath(root.path)}\0{os.path.abspath(root.path)}\0{root.confine}"
    key += f"\0{root.max_depth}\0{root.strict}" if root.strict or root.max_depth != MAX_DEPTH else ""
    return directory / "index" / f"{hashlib.sha256(os.fsencode(key)).hexdigest()[:32]}.json"


def _to_row(entry: Folder | SkillFileEntry) -> list[Any]:
    problems = [_problem_to_row(problem) for problem in entry.problems]
    if isinstance(entry, SkillFileEntry):
        return ["s", entry.stamp, entry.fields, problems]
    return ["d", entry.stamp, entry.children, problems]


def _entry_from_row(
    kind: str, stamp: list[int] | None, content: Any, problems: list[list[Any]]
) -> Folder | SkillFileEntry:
    known = tuple(_problem_from_row(*row) for row in problems) if problems else ()
    settled = (stamp[0], stamp[1], stamp[2], stamp[3]) if stamp is not None else None
    if kind == "s":
        if content is not None and content.__class__ is not dict:
            raise TypeError("fields must be a map or empty")
        return SkillFileEntry(settled, content, known)
    return Folder(settled, tuple((path, real) for path, real in content), known)


def _problem_to_row(problem: Problem) -> list[Any]:
    title = problem.fix.title if problem.fix else None
    return [problem.rule, problem.message, problem.severity, problem.line, problem.column, title, problem.path]


def _problem_from_row(
    rule: str, message: str, severity: str, line: int | None, column: int | None, title: str | None, path: str
) -> Problem:
    fix = Fix(title) if title is not None else None
    return Problem(rule, message, Severity(severity), line, column, fix, path)
