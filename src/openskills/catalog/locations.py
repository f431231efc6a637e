"""The standard skill directories of a project and of the home directory."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from openskills.catalog.root import FetchResult, Progress, Root, Source
from openskills.catalog.skill import Stamp
from openskills.catalog.sources.parse import parse_source
from openskills.catalog.trust import TrustAnswer, TrustDecision, TrustStore, hash_folder
from openskills.errors import InvalidArgument, LimitExceeded
from openskills.settings import Settings
from openskills.skillmd.problem import Problem, Severity

SKILL_DIRECTORIES = (".claude/skills", ".agents/skills", ".openskills/skills")
"""Skill directories, relative to a project or the home directory; later ones win."""


@dataclass(frozen=True, slots=True)
class HomeSource:
    """The skills in the user's home directory, which are always trusted."""

    home: Path
    label: str = "user"

    def fetch(self, progress: Progress) -> FetchResult:
        """The standard directories that exist in the home directory."""
        del progress
        found = find_skill_directories(self.home)
        return FetchResult(tuple(Root(place, f"~/{place.relative_to(self.home)}") for place in found))


@dataclass(frozen=True, slots=True)
class SkillLocation:
    """A skill directory of a project, and the trust decision about its current content.

    `real` is the real path of `path`. `digest` is None when it cannot be trusted, and `fault` says why. `stamps` are
    those of the files that the digest covers.
    """

    path: Path
    real: str
    label: str
    digest: str | None
    answer: TrustAnswer | None = None
    fault: str | None = None
    stamps: Mapping[str, Stamp] = field(default_factory=dict[str, Stamp], repr=False)

    @property
    def is_trusted(self) -> bool:
        return self.answer is TrustAnswer.YES


@dataclass(frozen=True, slots=True)
class ProjectSource:
    """The skills of a project whose current content is trusted.

    Searched are the standard directories of every folder from `project` down to `start`. Both are real paths.
    """

    project: Path
    start: Path
    home: Path
    store: TrustStore
    trusted: bool = False
    label: str = "project"

    def fetch(self, progress: Progress) -> FetchResult:
        """The trusted directories, and a problem that names the others and says how to trust them."""
        del progress
        inside, outside = self._find_directories()
        message = "a link to a directory outside of the project is not followed; copy the folder instead"
        problems = [Problem("link-not-followed", message, Severity.WARNING, path=str(path)) for path in outside]
        places = [] if self.trusted else self._build_locations(inside)
        refused = [place for place in places if not place.is_trusted]
        if refused:
            problems.append(self._untrusted_problem(refused))
        # Links may lead anywhere in the project and nowhere else, because the digest covers nothing else.
        roots = [Root(path, self._label(path), self.project) for path in inside.values()] if self.trusted else []
        roots += [
            Root(place.path, place.label, self.project, approved=place.stamps) for place in places if place.is_trusted
        ]
        return FetchResult(tuple(roots), tuple(problems))

    def find_locations(self) -> list[SkillLocation]:
        """The skill directories that apply to `start`; the nearest is last and wins."""
        inside, _ = self._find_directories()
        return self._build_locations(inside)

    def remember(self, places: Iterable[SkillLocation], answer: TrustAnswer) -> None:
        """Store the user's answer about these directories; it is valid until their content changes."""
        digests = {place.real: place.digest for place in places if place.digest is not None}
        self.store.remember(self.project, digests, answer)

    def forget(self) -> dict[str, TrustDecision]:
        """Remove and return every decision about the project."""
        # A directory that was trusted on its own may have become part of a repository since.
        ours = {
            place: decision
            for place, decision in self.store.read_decisions().items()
            if decision.project == str(self.project)
            or (os.path.isabs(place) and find_project_root(Path(place)) == self.project)
        }
        self.store.forget(ours.keys())
        return ours

    def _find_directories(self) -> tuple[dict[str, Path], list[Path]]:
        """The directories by real path, and those that are links out of the project."""
        below = self.start.relative_to(self.project).parts
        levels = [self.project.joinpath(*below[:depth]) for depth in range(len(below) + 1)]
        # The user's own directories may be inside the project, such as when the home directory is a repository.
        users = {os.path.realpath(place) for place in find_skill_directories(self.home)}
        inside: dict[str, Path] = {}
        outside: list[Path] = []
        for path in (path for level in levels for path in find_skill_directories(level)):
            real = os.path.realpath(path)
            if real in users:
                continue
            if not Path(real).is_relative_to(self.project):
                outside.append(path)
                continue
            # A folder that is reached twice counts at the last position.
            inside.pop(real, None)
            inside[real] = path
        return inside, outside

    def _build_locations(self, seen: Mapping[str, Path]) -> list[SkillLocation]:
        known = self.store.read_decisions() if seen else {}
        return [self._build_location(real, path, known.get(real)) for real, path in seen.items()]

    def _build_location(self, real: str, path: Path, decision: TrustDecision | None) -> SkillLocation:
        try:
            digest, stamps = hash_folder(Path(real), self.project)
        except LimitExceeded as error:
            return SkillLocation(path, real, self._label(path), None, fault=error.message)
        except OSError as error:
            fault = f"{error.filename or path} cannot be read ({error.strerror or error})"
            return SkillLocation(path, real, self._label(path), None, fault=fault)
        answer = decision.answer_for(digest) if decision else None
        return SkillLocation(path, real, self._label(path), digest, answer, stamps=stamps)

    def _label(self, path: Path) -> str:
        return str(path.relative_to(self.project))

    def _untrusted_problem(self, places: Iterable[SkillLocation]) -> Problem:
        undecided = ", ".join(place.label for place in places if place.fault is None)
        why = [f"not trusted yet, or changed since: {undecided}"] if undecided else []
        why += [place.fault for place in places if place.fault is not None]
        message = f"skills of {self.project} are ignored: {'; '.join(why)}; review them, then run `openskills trust`"
        return Problem("project-untrusted", message, Severity.WARNING, path=str(self.project))


def find_skill_directories(folder: Path) -> tuple[Path, ...]:
    """The standard skill directories that exist in `folder`."""
    return tuple(folder / place for place in SKILL_DIRECTORIES if os.path.isdir(folder / place))


def find_project_root(start: Path) -> Path:
    """The root of the project of `start`: the nearest parent with a `.git`, or `start` itself. A real path."""
    real = Path(os.path.realpath(start))
    return next((folder for folder in (real, *real.parents) if os.path.exists(folder / ".git")), real)


def project_source(start: Path, settings: Settings, *, trusted: bool = False) -> ProjectSource:
    """The source for the project of `start`. `trusted` uses its skills without asking, for automation."""
    real = Path(os.path.realpath(start))
    return ProjectSource(find_project_root(real), real, settings.home, TrustStore(settings.config_dir), trusted)


def standard_sources(start: Path, settings: Settings, *, trusted: bool = False) -> tuple[Source, ...]:
    """The user's skills, the trusted skills of the project of `start`, and `SKILLS_ROOT`; later ones win.

    Raises `InvalidArgument` when `SKILLS_ROOT` is not a valid source.
    """
    sources: list[Source] = [HomeSource(settings.home), project_source(start, settings, trusted=trusted)]
    if settings.skills_root:
        try:
            sources.append(parse_source(settings.skills_root, settings, trusted=trusted))
        except InvalidArgument as error:
            raise InvalidArgument("SKILLS_ROOT", error.message) from None
    return tuple(sources)
