"""Which skills the sources of an agent hold."""

import logging
import operator
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TypeAlias

from deepagents.backends.protocol import FILE_NOT_FOUND, FileDownloadResponse

from openskills.adapters.langchain.local_scan import LocalFile, LocalScan, Stamp
from openskills.adapters.langchain.marks import digest_of
from openskills.adapters.langchain.metadata import SkillMetadata, metadata_of
from openskills.adapters.langchain.steps import Steps, downloaded, listed, scanned

logger = logging.getLogger(__name__)

_SETTLED = 100_000_000
"""A file that was written this many nanoseconds ago can change again without its time changing."""


_Known: TypeAlias = tuple[Stamp | str, SkillMetadata | None]
"""What tells the content of a file from others, and what was made of it."""


@dataclass(slots=True)
class Discovery:
    """Finds skills, and remembers what it made of files that did not change since.

    As long as nothing changes it gives the very same list, so that what was made of it can be used again.
    """

    sources: Sequence[str]
    extended: bool = False
    _known: dict[str, _Known] = field(default_factory=dict[str, _Known])
    _last: list[SkillMetadata] = field(default_factory=list[SkillMetadata])

    def skills(self, *, tolerant: bool = False) -> Steps[tuple[list[SkillMetadata], list[str]]]:
        """Every skill, a later source winning over an earlier one, and the sources that could not be read.

        If `tolerant`, a source whose backend raises is one of those.
        """
        found: dict[str, SkillMetadata] = {}
        errors: list[str] = []
        for source in self.sources:
            skills, error = yield from self._in_source(source, tolerant)
            found.update((skill["name"], skill) for skill in skills)
            if error is not None:
                errors.append(f"Cannot load skills from '{source}': {error}")
        if errors:
            logger.warning("Skills load errors: %s", errors)
        logger.info("Discovered %d skills from %d sources", len(found), len(self.sources))
        return self._same(list(found.values())), errors

    def _same(self, skills: list[SkillMetadata]) -> list[SkillMetadata]:
        """The last list if this one has the same entries."""
        # Threads of several runs come here at once: what is returned was compared, whatever is the last one by then.
        last = self._last
        if len(skills) == len(last) and all(map(operator.is_, skills, last)):
            return last
        self._last = skills
        return skills

    def _in_source(self, source: str, tolerant: bool) -> Steps[tuple[list[SkillMetadata], str | None]]:
        local = yield from scanned(source, self._read_local)
        if local is None:
            entries, error = yield from listed(source, tolerant=tolerant)
            directories = (str(entry["path"]) for entry in entries if entry.get("is_dir"))
            paths = [_posix(directory).rstrip("/") + "/SKILL.md" for directory in directories]
            return (yield from self._asked(paths, tolerant)), error
        here, others = local
        skills = [*here, *(yield from self._asked(others, tolerant))]
        return sorted(skills, key=lambda skill: skill["path"]), None

    def _asked(self, paths: Sequence[str], tolerant: bool) -> Steps[list[SkillMetadata]]:
        answers = yield from downloaded(paths, tolerant=tolerant)
        found = (self._of_answer(path, answer) for path, answer in zip(paths, answers, strict=True))
        return [skill for skill in found if skill is not None]

    def _of_answer(self, path: str, answer: FileDownloadResponse) -> SkillMetadata | None:
        if answer.error or answer.content is None:
            # A directory without a SKILL.md is no skill, and nothing to complain of.
            if answer.error != FILE_NOT_FOUND:
                logger.warning("Cannot load SKILL.md at %s: %s; skipping", path, answer.error or "no content")
            return None
        known, digest = self._known.get(path), digest_of(answer.content)
        if known is not None and known[0] == digest:
            return known[1]
        skill = metadata_of(answer.content, path, PurePosixPath(path).parent.name, extended=self.extended)
        self._known[path] = (digest, skill)
        return skill

    def _read_local(self, local: LocalScan) -> tuple[list[SkillMetadata], tuple[str, ...]]:
        """The skills of a directory, and the paths that the backend has to be asked for."""
        found = (self._of_file(file) for file in local.files)
        return [skill for skill in found if skill is not None], local.others

    def _of_file(self, file: LocalFile) -> SkillMetadata | None:
        known = self._known.get(file.path)
        if known is not None and known[0] == file.stamp:
            return known[1]
        content = file.read()
        if content is None:
            logger.warning("Cannot load SKILL.md at %s: it cannot be read; skipping", file.path)
            return None
        skill = metadata_of(content, file.path, file.directory, extended=self.extended)
        if time.time_ns() - file.stamp[2] > _SETTLED:
            self._known[file.path] = (file.stamp, skill)
        return skill


def _posix(path: str) -> str:
    return path.replace("\\", "/")
