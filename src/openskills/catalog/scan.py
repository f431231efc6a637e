"""What a directory was found to hold, in a form that can be compared with the disk and kept between processes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from openskills.catalog.skillfile import Stamp
from openskills.skillmd.manifest import SkillManifest
from openskills.skillmd.problem import Problem
from openskills.skillmd.value import Value


@dataclass(frozen=True, slots=True)
class Folder:
    """A directory that is no skill: the directories in it that are worth a look, and what is odd about it.

    `children` are pairs of a path to show and the real path behind it; they differ below a link.
    """

    stamp: Stamp | None
    children: tuple[tuple[str, str], ...]
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """A directory with a SKILL.md: the fields of its front matter, None when it cannot be used, and its problems.

    `manifest` is what the fields declare, where somebody has worked that out already. `seen` is the stamp even where
    it is too young to be relied on.
    """

    stamp: Stamp | None
    fields: Mapping[str, Value] | None
    problems: tuple[Problem, ...] = ()
    manifest: SkillManifest | None = field(default=None, compare=False)
    seen: Stamp | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Scan:
    """Everything below one root by directory, in the order in which it was met. A `stamp` of None is never current."""

    visited: Mapping[str, Folder | Found] = field(default_factory=dict[str, Folder | Found])
    problems: tuple[Problem, ...] = ()
    read: int = 0

    @property
    def changed(self) -> bool:
        """Whether anything had to be read again."""
        return self.read > 0
