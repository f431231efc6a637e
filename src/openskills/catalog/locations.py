"""The places where skills are by convention, in a project and in the home directory."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from openskills.catalog.root import FetchResult, Progress, Root, Source
from openskills.catalog.sources.parse import parse_source
from openskills.catalog.trust import TrustAnswer, TrustDecision, TrustStore, compute_digest
from openskills.errors import InvalidArgument, LimitExceeded
from openskills.settings import Settings
from openskills.skillmd.problem import Problem, Severity

SKILL_DIRECTORIES = (".claude/skills", ".agents/skills", ".openskills/skills")
"""Where skills lie below a project and below the home directory; later ones win."""


@dataclass(frozen=True, slots=True)
class HomeSource:
    """The user's own skills. They are trusted: whoever can write there can do anything as this user."""

    home: Path
    label: str = "user"

    def fetch(self, progress: Progress) -> FetchResult:
        """The standard places that exist in the home directory."""
        del progress
        return FetchResult(
            tuple(Root(place, f"~/{place.relative_to(self.home)}") for place in find_skill_directories(self.home))
        )


@dataclass(frozen=True, slots=True)
class SkillLocation:
    """A standard place of a project as it is now, and what was said about it as it is now.

    `real` is the folder that `path` leads to. `digest` is None when nobody can agree to it, and `fault` says why.
    """

    path: Path
    real: str
    label: str
    digest: str | None
    answer: TrustAnswer | None = None
    fault: str | None = None

    @property
    def is_trusted(self) -> bool:
        """Whether somebody has agreed to what is in it now."""
        return self.answer is TrustAnswer.YES


@dataclass(frozen=True, slots=True)
class ProjectSource:
    """The skills of a project, as far as a person has agreed to them as they are now.

    Seen from `start`: the places of every folder from the project's top down to there. Both are real paths.
    """

    project: Path
    start: Path
    home: Path
    store: TrustStore
    trusted: bool = False
    label: str = "project"

    def fetch(self, progress: Progress) -> FetchResult:
        """The places that are trusted, and a problem that names the others and says how to agree to them."""
        del progress
        inside, outside = self._find_directories()
        problems = [_link_problem(path) for path in outside]
        places = [] if self.trusted else self._build_locations(inside)
        refused = [place for place in places if not place.is_trusted]
        if refused:
            problems.append(self._untrusted_problem(refused))
        used = inside.values() if self.trusted else [place.path for place in places if place.is_trusted]
        # Links may lead anywhere in the project, and nowhere else: the digest covers no other place.
        roots = (Root(path, self._label(path), self.project) for path in used)
        return FetchResult(tuple(roots), tuple(problems))

    def find_locations(self) -> list[SkillLocation]:
        """Each place that can be seen from here, the nearest last, which wins."""
        inside, _ = self._find_directories()
        return self._build_locations(inside)

    def remember(self, places: Iterable[SkillLocation], answer: TrustAnswer) -> None:
        """Keep a person's answer about these places, for as long as they stay as they are."""
        digests = {place.real: place.digest for place in places if place.digest is not None}
        self.store.remember(self.project, digests, answer)

    def forget(self) -> dict[str, TrustDecision]:
        """Take back every decision about the project, wherever in it one stands; what was taken back is returned."""
        known = self.store.read_decisions()
        ours = {place: known[place] for place in known if self._is_own_decision(place, known[place])}
        self.store.forget(ours.keys())
        return ours

    def _find_directories(self) -> tuple[dict[str, Path], list[Path]]:
        """The places by their real path, and those that are links out of the project."""
        below = self.start.relative_to(self.project).parts
        levels = [self.project.joinpath(*below[:depth]) for depth in range(len(below) + 1)]
        # The user's own places may lie in the project: in the home directory itself, or when it is in a repository.
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
            # One folder that two places lead to counts where it wins.
            inside.pop(real, None)
            inside[real] = path
        return inside, outside

    def _build_locations(self, seen: Mapping[str, Path]) -> list[SkillLocation]:
        known = self.store.read_decisions() if seen else {}
        return [self._build_location(real, path, known.get(real)) for real, path in seen.items()]

    def _build_location(self, real: str, path: Path, decision: TrustDecision | None) -> SkillLocation:
        try:
            digest = compute_digest(Path(real), self.project)
        except LimitExceeded as error:
            return SkillLocation(path, real, self._label(path), None, fault=error.message)
        except OSError as error:
            fault = f"{error.filename or path} cannot be read ({error.strerror or error})"
            return SkillLocation(path, real, self._label(path), None, fault=fault)
        return SkillLocation(path, real, self._label(path), digest, decision.answer_for(digest) if decision else None)

    def _label(self, path: Path) -> str:
        return str(path.relative_to(self.project))

    def _is_own_decision(self, place: str, decision: TrustDecision) -> bool:
        # What was no repository when somebody agreed may have become a part of one since.
        return decision.project == str(self.project) or find_project_root(Path(place)) == self.project

    def _untrusted_problem(self, places: Iterable[SkillLocation]) -> Problem:
        undecided = ", ".join(place.label for place in places if place.fault is None)
        why = [f"nobody has agreed to them as they are now in {undecided}"] if undecided else []
        why += [place.fault for place in places if place.fault is not None]
        message = f"skills of {self.project} are not used: {'; '.join(why)}; look at them, then run `openskills trust`"
        return Problem("project-untrusted", message, Severity.WARNING, path=str(self.project))


def find_skill_directories(folder: Path) -> tuple[Path, ...]:
    """The standard places that exist in `folder`."""
    return tuple(folder / place for place in SKILL_DIRECTORIES if os.path.isdir(folder / place))


def find_project_root(start: Path) -> Path:
    """The top of the project that `start` lies in: the nearest directory with a `.git`, or `start` itself.

    A real path: where a link stands says nothing about the folder behind it.
    """
    real = Path(os.path.realpath(start))
    return next((folder for folder in (real, *real.parents) if os.path.exists(folder / ".git")), real)


def project_source(start: Path, settings: Settings, *, trusted: bool = False) -> ProjectSource:
    """The project that `start` lies in. `trusted` uses its skills without asking, for automation."""
    real = Path(os.path.realpath(start))
    return ProjectSource(find_project_root(real), real, settings.home, TrustStore(settings.config_dir), trusted)


def standard_sources(start: Path, settings: Settings, *, trusted: bool = False) -> tuple[Source, ...]:
    """The user's skills, those of the project that `start` lies in where trusted, and `SKILLS_ROOT`; later ones win.

    Raises `InvalidArgument` when `SKILLS_ROOT` names no source.
    """
    sources: list[Source] = [HomeSource(settings.home), project_source(start, settings, trusted=trusted)]
    if settings.skills_root:
        try:
            sources.append(parse_source(settings.skills_root, settings))
        except InvalidArgument as error:
            raise InvalidArgument("SKILLS_ROOT", error.message) from None
    return tuple(sources)


def _link_problem(path: Path) -> Problem:
    message = "a link to a directory outside of the project is not followed; put the folder itself there"
    return Problem("link-not-followed", message, Severity.WARNING, path=str(path))
