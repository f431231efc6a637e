"""The protocols `Source` and `Progress`, and `Root`, a local directory to search for skills."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from openskills.arguments import check_arguments
from openskills.catalog.skill import SKILL_FILE, RemoteFiles
from openskills.skillmd.problem import Problem

MAX_DEPTH = 6
"""How many levels of directories below a root are searched."""


class Progress(Protocol):
    """A progress callback: the current step, the amount done, and the total if known."""

    def __call__(self, what: str, done: int, total: int | None) -> None: ...


def no_progress(what: str, done: int, total: int | None) -> None:
    """Ignore progress."""


@dataclass(frozen=True, slots=True)
class ListedSkill:
    """A skill that a server lists: its front matter as text, and its files, which are downloaded when they are needed.

    `where` names it in messages. `name` replaces that of the front matter where two skills of one server have the same.
    """

    front_matter: str
    files: RemoteFiles = field(compare=False)
    where: str
    name: str = ""


@check_arguments
@dataclass(frozen=True, slots=True)
class Root:
    """A directory to search. `label` says where its skills come from.

    Links to directories are followed only within `confine`, or anywhere if it is None. `watch` is False for a
    directory that changes only when it is fetched again. `approved` has the stamps of the files that may be used, by
    real path, if the user had to trust them. With `listed`, the directory is not searched: these are its skills, by the
    directories where their files will be. `max_depth` is how many levels below it are searched. With `strict`,
    skills that do not follow the specification are not used, even if they could be.
    """

    path: Path
    label: str
    confine: Path | None = None
    watch: bool = True
    approved: Mapping[str, tuple[int, int, int, int]] | None = field(default=None, hash=False, repr=False)
    listed: Mapping[str, ListedSkill] | None = field(default=None, hash=False, repr=False)
    max_depth: int = MAX_DEPTH
    strict: bool = False

    @property
    def is_plugin(self) -> bool:
        """Whether the directory is an Agent Plugin: it has a `plugin.json` and is not a skill."""
        if self.listed is not None or self.approved is not None:
            return False
        return os.path.lexists(self.path / "plugin.json") and not os.path.lexists(self.path / SKILL_FILE)

    def find_plugin(self) -> "Root | None":
        """The plugin that this directory is or, for one that was unpacked, that its only folder is."""
        if self.is_plugin or self.watch or self.listed is not None:
            return self if self.is_plugin else None
        with os.scandir(self.path) as entries:
            names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False) or entry.name == SKILL_FILE]
        inner = replace(self, path=self.path / names[0]) if len(names) == 1 and names[0] != SKILL_FILE else self
        return inner if inner.is_plugin else None

    def can_follow(self, real: str) -> bool:
        """Whether a link to the real path `real` is followed."""
        return self.confine is None or Path(real).is_relative_to(self.confine)


@check_arguments
@dataclass(frozen=True, slots=True)
class FetchResult:
    """The directories of a source, and the problems of fetching it."""

    roots: tuple[Root, ...] = ()
    problems: tuple[Problem, ...] = ()


class Source(Protocol):
    """Where skills come from."""

    @property
    def label(self) -> str:
        """The name for messages; never contains credentials."""
        ...

    def fetch(self, progress: Progress) -> FetchResult:
        """Fetch the current content; called at the start and at every refresh. May block.

        Raises `SkillError` when the source cannot be used.
        """
        ...
