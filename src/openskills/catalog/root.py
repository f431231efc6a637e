"""Source, Root, Progress.

How long work tells whoever waits for it that it goes on.

A local directory that may be searched for skills, and what gives such directories.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from openskills.skillmd.problem import Problem


class Progress(Protocol):
    """Called now and then with what is being done, how much is done, and the whole if it is known."""

    def __call__(self, what: str, done: int, total: int | None) -> None: ...


def no_progress(what: str, done: int, total: int | None) -> None:
    """Progress for those who do not watch."""


@dataclass(frozen=True, slots=True)
class Root:
    """A directory to search. `label` tells people where its skills come from.

    `confine` is a directory that linked directories must lie in to be followed; None follows them anywhere.
    `watch` is False for what only changes by fetching it again.
    """

    path: Path
    label: str
    confine: Path | None = None
    watch: bool = True

    def can_follow(self, real: str) -> bool:
        """Whether a link that leads to the real path `real` is followed."""
        return self.confine is None or Path(real).is_relative_to(self.confine)


@dataclass(frozen=True, slots=True)
class FetchResult:
    """What a source gave: directories to search, and what went wrong on the way."""

    roots: tuple[Root, ...] = ()
    problems: tuple[Problem, ...] = ()


class Source(Protocol):
    """Where skills come from."""

    @property
    def label(self) -> str:
        """How people call it; never with credentials."""
        ...

    def fetch(self, progress: Progress) -> FetchResult:
        """Bring what is there now to this machine; called at the start and at every refresh. May block.

        Raises `SkillError` when nothing can be had.
        """
        ...
