"""A skill that was found, and the files that come with it."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from openskills.catalog.resources import Resource, find_resources
from openskills.catalog.skillfile import SKILL_FILE, read_skill_text
from openskills.errors import InvalidArgument, InvalidSkill, LimitExceeded
from openskills.paths import open_inside
from openskills.skillmd.manifest import SkillManifest
from openskills.skillmd.parse import parse
from openskills.skillmd.problem import Problem

MAX_RESOURCE_BYTES = 16 * 1024 * 1024
"""What `Skill.read` hands out at most unless it is told otherwise."""


@dataclass(frozen=True, slots=True)
class Skill:
    """One usable skill: what it declares, where it lies, where it came from, and what is wrong with it.

    Holding one costs no open file and no text: the body and the resources are read when they are asked for.
    """

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

    def body(self) -> str:
        """The instructions as they are on disk now. Raises `InvalidSkill` when the file has gone or is broken."""
        text, problem = read_skill_text(self.directory)
        if problem is not None:
            raise InvalidSkill(f"{self.name}: {problem.message}", (problem,))
        return parse(text).body

    def resources(self) -> tuple[Resource, ...]:
        """Every file of the skill but SKILL.md, sorted by path, found on disk now. Links that leave it are left out.

        Raises `InvalidSkill` when the folder is no skill any more.
        """
        self._still_there()
        return find_resources(self.directory)

    def docs(self) -> tuple[Resource, ...]:
        """The resources that a model may select to read: any `.md` or `.txt`."""
        return tuple(resource for resource in self.resources() if resource.is_doc)

    def read(self, path: str, *, limit: int = MAX_RESOURCE_BYTES) -> bytes:
        """The bytes of one resource.

        Raises `ForbiddenPath` for a path that leaves the skill, `InvalidArgument` when there is no such file or it
        cannot be read, and `LimitExceeded` when it has more than `limit` bytes.
        """
        if limit < 0:
            raise InvalidArgument("limit", f"{limit} is negative")
        self._still_there()
        try:
            descriptor = open_inside(self.directory, path)
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                os.close(descriptor)
                raise InvalidArgument("path", f"{path!r} is not a file of the skill {self.name!r}")
            with os.fdopen(descriptor, "rb") as file:
                data = file.read(limit + 1)
        except OSError as error:
            reason = f"{path!r} of the skill {self.name!r} cannot be read: {error.strerror or error}"
            raise InvalidArgument("path", reason) from None
        if len(data) > limit:
            raise LimitExceeded(f"{path} of {self.name} has more than {limit:,} bytes", path=path, limit=limit)
        return data

    def _still_there(self) -> None:
        # Whoever put a link to another directory in the place of the folder has no SKILL.md there.
        if not os.path.lexists(self.location):
            problem = Problem("file-missing", f"{self.directory} is no skill any more: it has no {SKILL_FILE}")
            raise InvalidSkill(f"{self.name}: {problem.message}", (problem,))
