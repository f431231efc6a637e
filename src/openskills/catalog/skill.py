"""A skill that was found, and the files that come with it."""

import os
from dataclasses import dataclass
from pathlib import Path

from openskills.skillmd.manifest import SkillManifest
from openskills.skillmd.problem import Problem

SKILL_FILE = "SKILL.md"


@dataclass(frozen=True, slots=True)
class Skill:
    """One usable skill: what it declares, where it lies, where it came from, and what is wrong with it."""

    manifest: SkillManifest
    directory: str
    source: str
    problems: tuple[Problem, ...] = ()

    @property
    def name(self) -> str:
        """The name a model and a person use."""
        return self.manifest.name

    @property
    def description(self) -> str:
        """What it does and when to use it."""
        return self.manifest.description

    @property
    def path(self) -> Path:
        """The skill's folder."""
        return Path(self.directory)

    @property
    def location(self) -> str:
        """The absolute path of its SKILL.md."""
        return os.path.join(self.directory, SKILL_FILE)
