"""A directory to the skills in it. What has not changed since the last look is not looked at again."""

import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from openskills.catalog.progress import Progress, silent
from openskills.catalog.resources import SKIPPED
from openskills.catalog.root import Root
from openskills.catalog.scan import Folder, Found, Scan
from openskills.catalog.skillfile import SKILL_FILE, NoSkillFile, Stamp, read_skill_file, stamp_of
from openskills.skillmd.decode import decode
from openskills.skillmd.parse import normal_name, parse
from openskills.skillmd.problem import Problem, Severity, errors_in
from openskills.skillmd.rules import MANIFEST_RULES, Subject, check, lenient
from openskills.skillmd.rules.glance import plainly_valid
from openskills.skillmd.rules.judge import by_place

MAX_DEPTH = 6
"""How many levels of directories below a root are searched."""

MAX_DIRECTORIES = 50_000
"""How many directories below a root are searched."""

_PROGRESS_EVERY = 256
# What is not portable or not pretty is for authors, and `validate` tells them. Two in five real skills nest their
# metadata: those who load them can do nothing about it.
_LOADING_RULES = tuple(rule for rule in MANIFEST_RULES if rule.severity is Severity.ERROR)
TICK_NS = 20_000_000
"""A file changed this shortly before we read it may change again unseen, within one tick of the clock: no stamp."""


@dataclass(slots=True)
class _Place:
    """A directory to visit: the path to show, the real path, and how deep it lies."""

    path: str
    real: str
    depth: int


def discover(root: Root, known: Scan | None = None, progress: Progress = silent) -> Scan:
    """Search `root` for skills, taking over from `known` whatever is unchanged on disk.

    Descends until a directory has a SKILL.md, skips version control, packages and virtual environments, follows links
    to directories once each. Faults become problems of the directory they are in; nothing is raised.
    """
    if known is not None and _unchanged(known):
        return replace(known, read=0)
    return _Search(root, known or Scan(), progress).run()


class _Search:
    def __init__(self, root: Root, known: Scan, progress: Progress) -> None:
        self._root = root
        self._known = known.visited
        self._progress = progress
        self._visited: dict[str, Folder | Found] = {}
        self._problems: list[Problem] = []
        self._read = 0
        self._fresh_after = time.time_ns() - TICK_NS

    def run(self) -> Scan:
        top = os.path.abspath(self._root.path)
        waiting = [_Place(top, os.path.realpath(top), 0)]
        seen = {waiting[0].real}
        while waiting:
            place = waiting.pop()
            if len(self._visited) >= MAX_DIRECTORIES:
                self._problems.append(_too_many(top))
                break
            result = self._visit(place)
            self._visited[place.path] = result
            if isinstance(result, Folder):
                waiting.extend(reversed([*self._below(place, result, seen)]))
            if len(self._visited) % _PROGRESS_EVERY == 0:
                self._progress("reading skills", len(self._visited), None)
        gone = self._known.keys() - self._visited.keys()
        return Scan(self._visited, tuple(self._problems), self._read + len(gone))

    def _below(self, place: _Place, folder: Folder, seen: set[str]) -> Iterator[_Place]:
        if place.depth >= MAX_DEPTH:
            if folder.children:
                self._problems.append(_too_deep(place.path))
            return
        for path, real in folder.children:
            if real not in seen:
                seen.add(real)
                yield _Place(path, real, place.depth + 1)

    def _visit(self, place: _Place) -> Folder | Found:
        before = self._known.get(place.path)
        if before is not None and before.stamp is not None and before.stamp == _stamp(place.path, before):
            return before
        self._read += 1
        try:
            return self._skill(place)
        except NoSkillFile:
            return self._folder(place)

    def _skill(self, place: _Place) -> Found:
        stamp, data, problem = read_skill_file(place.path)
        if problem is None:
            text, problem = decode(data)
            if problem is None:
                return replace(read_found(text, place.path, self._settled(stamp)), seen=stamp)
        return Found(self._settled(stamp), None, (problem.at(f"{place.path}/{SKILL_FILE}"),))

    def _folder(self, place: _Place) -> Folder:
        problems: list[Problem] = []
        try:
            stamp = stamp_of(os.stat(place.path))
            with os.scandir(place.path) as entries:
                listing = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            problem = Problem("file-unreadable", f"the directory cannot be read: {error.strerror or error}")
            return Folder(None, (), (problem.at(place.path),))
        if any(entry.name == "pyvenv.cfg" for entry in listing):
            return Folder(self._settled(stamp), ())
        children: list[tuple[str, str]] = []
        for entry in listing:
            if entry.name.lower() == "skill.md":
                problems.append(_wrong_case(entry))
            elif entry.name not in SKIPPED:
                children.extend(self._child(place, entry, problems))
        # What a link leads to changes without the folder: as long as one leads nowhere, look again.
        dangling = any(problem.rule == "link-dangling" for problem in problems)
        return Folder(None if dangling else self._settled(stamp), tuple(children), tuple(problems))

    def _child(self, place: _Place, entry: os.DirEntry[str], problems: list[Problem]) -> Iterator[tuple[str, str]]:
        if entry.is_dir(follow_symlinks=False):
            yield entry.path, f"{place.real}/{entry.name}"
        elif not entry.is_symlink():
            return
        elif not os.path.exists(entry.path):
            message = "a link that leads nowhere; it may be the folder of a skill"
            problems.append(Problem("link-dangling", message, Severity.WARNING, path=entry.path))
        elif entry.is_dir():
            real = os.path.realpath(entry.path)
            if self._root.follows(real):
                yield entry.path, real
            else:
                message = "a link to a directory outside is not followed; put the folder itself there"
                problems.append(Problem("link-not-followed", message, Severity.WARNING, path=entry.path))

    def _settled(self, stamp: Stamp | None) -> Stamp | None:
        return stamp if stamp is not None and max(stamp[0], stamp[1]) < self._fresh_after else None


def read_found(text: str, directory: str, stamp: Stamp | None) -> Found:
    """A SKILL.md as a lenient reader takes it: what it declares, or None, and what is wrong with it."""
    parsed = parse(text)
    manifest, fields = parsed.manifest, parsed.front.fields
    problems = list(parsed.problems)
    if manifest is None:
        return Found(stamp, None, _at(directory, problems))
    folder = os.path.basename(directory)
    subject = Subject(parsed, manifest, folder)
    if not plainly_valid(subject):
        problems += check(subject, _LOADING_RULES)
    if not manifest.name:
        # The client guide keeps a skill without a name; its folder has one.
        manifest, fields = replace(manifest, name=normal_name(folder)), {**fields, "name": folder}
        if not folder.isprintable():
            message = f"there is no name, and the folder's name {folder!r} cannot stand in for it"
            problems.append(Problem("name-unsafe", message))
    if not problems:
        return Found(stamp, fields, (), manifest)
    known = _at(directory, sorted(lenient(problems), key=by_place))
    return Found(stamp, None, known) if errors_in(known) else Found(stamp, fields, known, manifest)


def _at(directory: str, problems: Iterable[Problem]) -> tuple[Problem, ...]:
    return tuple(problem.at(f"{directory}/{SKILL_FILE}") for problem in problems)


def _unchanged(known: Scan) -> bool:
    """Whether every folder and every file is as it was: then so is what they hold, and nothing need be searched."""
    visited = known.visited
    return bool(visited) and all(
        entry.stamp is not None and entry.stamp == _stamp(path, entry) for path, entry in visited.items()
    )


def _stamp(path: str, before: Folder | Found) -> Stamp | None:
    try:
        return stamp_of(os.stat(f"{path}/{SKILL_FILE}" if isinstance(before, Found) else path))
    except OSError:
        return None


def _wrong_case(entry: os.DirEntry[str]) -> Problem:
    message = f"{entry.name} is not a skill; if it is meant to be one, rename it to {SKILL_FILE}"
    return Problem("file-name", message, Severity.WARNING, path=entry.path)


def _too_many(top: str) -> Problem:
    message = f"more than {MAX_DIRECTORIES:,} directories; the rest was not searched, name a smaller folder"
    return Problem("scan-limit", message, Severity.WARNING, path=top)


def _too_deep(path: str) -> Problem:
    message = f"directories more than {MAX_DEPTH} levels down were not searched; move skills up or name the folder"
    return Problem("scan-limit", message, Severity.WARNING, path=path)
