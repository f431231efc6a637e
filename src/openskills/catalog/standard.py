"""The places where skills are by convention, in a project and in the home directory."""

import os
from dataclasses import dataclass
from pathlib import Path

from openskills.catalog.fetch.sources import parse_source
from openskills.catalog.progress import Progress
from openskills.catalog.root import Fetched, Root, Source
from openskills.catalog.trust import TrustStore, digest_of
from openskills.errors import InvalidArgument, LimitExceeded
from openskills.settings import Settings
from openskills.skillmd.problem import Problem, Severity

PLACES = (".claude/skills", ".agents/skills", ".openskills/skills")
"""Where skills lie below a project and below the home directory; later ones win."""


@dataclass(frozen=True, slots=True)
class HomeSource:
    """The user's own skills. They are trusted: whoever can write there can do anything as this user."""

    home: Path
    label: str = "user"

    def fetch(self, progress: Progress) -> Fetched:
        """The standard places that exist in the home directory."""
        del progress
        return Fetched(tuple(Root(place, f"~/{place.relative_to(self.home)}") for place in places_in(self.home)))


@dataclass(frozen=True, slots=True)
class ProjectSource:
    """The skills of a project, used only when a person has agreed to them as they are now."""

    project: Path
    start: Path
    store: TrustStore
    trusted: bool = False
    label: str = "project"

    def fetch(self, progress: Progress) -> Fetched:
        """The standard places of the project, or a problem that says how to agree to them."""
        del progress
        places = self.places()
        if not places:
            return Fetched()
        try:
            agreed = self.trusted or self.store.trusts(self.project, self.digest())
        except LimitExceeded as error:
            return Fetched(problems=(self._refused(error.message),))
        except OSError as error:
            return Fetched(problems=(self._refused(f"{error.filename} cannot be read ({error.strerror})"),))
        if not agreed:
            return Fetched(problems=(self._refused("nobody has agreed to them, or they changed since"),))
        # Links may lead anywhere in the project, and nowhere else: the digest covers no other place.
        confine = Path(os.path.realpath(self.project))
        return Fetched(tuple(Root(place, _shown(place, self.project), confine) for place in places))

    def places(self) -> tuple[Path, ...]:
        """The directories from the project's top down to where the user is, so that the nearest wins."""
        below = self.start.relative_to(self.project).parts
        levels = [self.project.joinpath(*below[:depth]) for depth in range(len(below) + 1)]
        return tuple(place for level in levels for place in places_in(level))

    def digest(self) -> str:
        """What an agreement to these skills covers. Raises `LimitExceeded` when it is too much to agree to."""
        return digest_of(self.places(), self.project)

    def _refused(self, why: str) -> Problem:
        message = f"the skills of {self.project} are not used: {why}; look at them, then run `openskills trust`"
        return Problem("project-untrusted", message, Severity.WARNING, path=str(self.project))


def places_in(folder: Path) -> tuple[Path, ...]:
    """The standard places that exist in `folder`."""
    return tuple(folder / place for place in PLACES if (folder / place).is_dir())


def project_of(start: Path) -> Path:
    """The top of the project that `start` lies in: the nearest directory with a `.git`, or `start` itself."""
    absolute = Path(os.path.abspath(start))
    for folder in (absolute, *absolute.parents):
        if (folder / ".git").exists():
            return folder
    return absolute


def project_source(start: Path, settings: Settings, *, trusted: bool = False) -> ProjectSource:
    """The project that `start` lies in. `trusted` uses its skills without asking, for automation."""
    store = TrustStore(settings.config_dir)
    return ProjectSource(project_of(start), Path(os.path.abspath(start)), store, trusted)


def standard_sources(start: Path, settings: Settings, *, trusted: bool = False) -> tuple[Source, ...]:
    """The user's skills, those of the project that `start` lies in where trusted, and `SKILLS_ROOT`; later ones win.

    Raises `InvalidArgument` when `SKILLS_ROOT` names no source.
    """
    sources: list[Source] = [HomeSource(settings.home)]
    project = project_source(start, settings, trusted=trusted)
    # In the home directory itself the two are the same places.
    if project.project != settings.home:
        sources.append(project)
    if settings.skills_root:
        try:
            sources.append(parse_source(settings.skills_root, settings))
        except InvalidArgument as error:
            raise InvalidArgument("SKILLS_ROOT", error.message) from None
    return tuple(sources)


def _shown(place: Path, project: Path) -> str:
    return str(place.relative_to(project))
