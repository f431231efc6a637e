"""Skills that a web server publishes in a `.well-known` index."""

import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from openskills.catalog.fetch.arriving import MONTH, arriving, forget, found
from openskills.catalog.fetch.download import Download, Downloads
from openskills.catalog.fetch.placing import sha256_of
from openskills.catalog.fetch.published import MAX_FILES, Artifact, Published, read_index, skill_digest
from openskills.catalog.fetch.unpack import UnpackLimits, unpack
from openskills.catalog.fetch.urls import join, key, plain, shown
from openskills.catalog.progress import Progress
from openskills.catalog.root import Fetched, Root
from openskills.catalog.skill import SKILL_FILE
from openskills.errors import DeadlineExceeded, InvalidSkill, LimitExceeded, SkillError, SourceUnavailable
from openskills.skillmd.problem import Problem

PLACES = ("/.well-known/agent-skills/index.json", "/.well-known/skills/index.json")
"""Where an index may lie below an address, the current place first."""


@dataclass(frozen=True, slots=True)
class IndexLimits:
    """Bytes of the index, bytes of one skill, and seconds for all skills together."""

    index: int = 5 << 20
    skill: int = 50 << 20
    seconds: float = 600.0


DEFAULT_LIMITS = IndexLimits()


def fetch_index(
    url: str,
    downloads: Downloads,
    cache: Path,
    progress: Progress,
    *,
    pin: str | None = None,
    limits: IndexLimits = DEFAULT_LIMITS,
) -> Fetched:
    """Download every skill of the index at `url` into a folder of its own and give these folders.

    Digests are verified; a skill that cannot be had or trusted is a problem of rule `index-skill` and does not hide
    the others. What is here already is not downloaded again. Raises a `SkillError` when there is no usable index.
    """
    answer = downloads.get(url, pin=pin, progress=progress)
    if answer.path.stat().st_size > limits.index:
        raise LimitExceeded(f"{shown(url)}: is larger than {limits.index:,} bytes, too much for an index")
    index = read_index(answer.path.read_bytes(), shown(url))
    fetching = _Fetching(answer, downloads, cache / "wellknown" / key(plain(url)), progress, limits)
    problems = [*answer.problems, *index.problems]
    roots: list[Root] = []
    deadline = time.monotonic() + limits.seconds
    for number, skill in enumerate(index.skills):
        progress(f"fetching the skills of {shown(url)}", number, len(index.skills))
        try:
            if time.monotonic() > deadline:
                raise DeadlineExceeded(f"there was no time left after {limits.seconds:g} seconds")
            folder = fetching.place(skill)
            roots.append(Root(folder, shown(url), confine=folder, watch=False))
        except SkillError as error:
            problems.append(Problem("index-skill", f"{shown(url)}: skill {skill.name!r}: {error}"))
    if roots:
        forget(roots[0].path.parent.parent, after=MONTH)
    return Fetched(tuple(roots), (*problems, *fetching.problems))


class _Fetching:
    """The skills of one index on their way into `place`."""

    def __init__(
        self, index: Download, downloads: Downloads, place: Path, progress: Progress, limits: IndexLimits
    ) -> None:
        self.problems: tuple[Problem, ...] = ()
        self._base = index.url
        self._offline = bool(index.problems)
        self._downloads = downloads
        self._place = place
        self._progress = progress
        self._limits = limits

    def place(self, skill: Published) -> Path:
        """The folder of the skill, complete and checked. It lies under its digest, so a new version has a new place."""
        if skill.artifact and not skill.files:
            return self._placed_artifact(skill, skill.artifact, skill.artifact.sha256)
        if skill.digest and (folder := found(self._folder(skill, skill.digest).parent)):
            return folder
        if skill.artifact and skill.digest:
            return self._placed_artifact(skill, skill.artifact, skill.digest)
        return self._placed_files(skill)

    def _folder(self, skill: Published, digest: str) -> Path:
        return self._place / f"{skill.name}-{digest}" / skill.name

    def _placed_artifact(self, skill: Published, artifact: Artifact, digest: str) -> Path:
        folder = self._folder(skill, digest)
        if found(folder.parent):
            return folder
        body = self._body(artifact.url, artifact.sha256)
        with arriving(folder.parent) as temporary:
            content = temporary / skill.name
            if artifact.is_archive:
                self._unpack(body, content, artifact)
                _verify(content, skill)
            else:
                self._check_size(body.path.stat().st_size)
                content.mkdir(mode=0o755)
                shutil.copyfile(body.path, content / SKILL_FILE)
        return folder

    def _unpack(self, body: Download, into: Path, artifact: Artifact) -> None:
        size = self._limits.skill
        unpack(body.path, into, limits=UnpackLimits(size, size, MAX_FILES), label=shown(artifact.url))
        if not (into / SKILL_FILE).is_file():
            raise InvalidSkill(f"{shown(artifact.url)}: has no {SKILL_FILE} at its root")

    def _placed_files(self, skill: Published) -> Path:
        bodies: dict[str, Download] = {}
        size = 0
        for path, digest in skill.files.items():
            bodies[path] = self._body(f"{quote(skill.name)}/{quote(path)}", digest)
            size += bodies[path].path.stat().st_size
            self._check_size(size)
        digest = skill_digest({path: body.sha256 for path, body in bodies.items()})
        _check_digest(skill, digest)
        folder = self._folder(skill, digest)
        if not found(folder.parent):
            with arriving(folder.parent) as temporary:
                for path, body in bodies.items():
                    target = temporary / skill.name / path
                    target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
                    shutil.copyfile(body.path, target)
        return folder

    def _body(self, reference: str, pin: str | None) -> Download:
        url = join(self._base, reference, field="url")
        if self._offline:
            # The server was asked once and is not there; asking for every file would take for ever.
            kept = self._downloads.kept(url)
            if kept and pin in (None, kept.sha256):
                return kept
            raise SourceUnavailable(f"{shown(url)}: was not downloaded before, and the server cannot be reached")
        body = self._downloads.get(url, pin=pin, progress=self._progress)
        if body.problems:
            self._offline = True
            self.problems = body.problems
        return body

    def _check_size(self, size: int) -> None:
        if size > self._limits.skill:
            raise LimitExceeded(f"is larger than {self._limits.skill:,} bytes")


def _verify(content: Path, skill: Published) -> None:
    """Compare an unpacked package with the files that the index lists for it."""
    if not skill.files:
        return
    found = {str(path.relative_to(content)): sha256_of(path) for path in content.rglob("*") if path.is_file()}
    for path in sorted(found.keys() | skill.files.keys()):
        if found.get(path) != skill.files.get(path):
            raise InvalidSkill(f"{path!r} in the package is not what the index lists")
    _check_digest(skill, skill_digest(found))


def _check_digest(skill: Published, digest: str) -> None:
    if skill.digest and digest != skill.digest:
        raise InvalidSkill(f"its files have the digest {digest}, but the index says {skill.digest}")
