"""Web sources: an archive, a SKILL.md, or a `.well-known` index of skills at an http(s) URL.

An index has one of the three shapes in use: versions 0.1.0 and 0.2.0, and entries with a `type`.
"""

import hashlib
import json
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast
from urllib.parse import quote, unquote, urlunsplit

from openskills.catalog.root import FetchResult, Progress, Root
from openskills.catalog.skill import SKILL_FILE
from openskills.catalog.sources.archive import (
    EntryNames,
    UnpackLimits,
    detect_format,
    hash_content,
    is_plain_name,
    unpack,
)
from openskills.catalog.sources.cache import (
    cache_key,
    has_archive_suffix,
    join_url,
    normalize_url,
    place_archive,
    place_skill_file,
    redact,
    split_url,
)
from openskills.catalog.sources.http import Downloader, SourceDownload
from openskills.errors import (
    DeadlineExceeded,
    InvalidSkill,
    LimitExceeded,
    SkillError,
    SourceUnavailable,
    UnsupportedMedia,
)
from openskills.filesystem import MONTH, find_folder, remove_unused, replace_directory
from openskills.skillmd.problem import Problem, Severity

MAX_SKILLS = 1000
MAX_FILES = 1000
_DIGEST = re.compile(r"(?:sha256:)?([0-9a-fA-F]{64})")
_VERSION = re.compile(r"0\.[0-9]+\.[0-9]+")

Fields = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class IndexArtifact:
    """One file to download: an archive of the skill, or its SKILL.md."""

    url: str
    sha256: str
    is_archive: bool


@dataclass(frozen=True, slots=True)
class SkillIndexEntry:
    """One skill of an index. `files` maps paths to digests, which are None in version 0.1.0."""

    name: str
    files: Mapping[str, str | None]
    digest: str | None = None
    artifact: IndexArtifact | None = None


@dataclass(frozen=True, slots=True)
class SkillIndex:
    """The skills that can be fetched, and the problems of the others."""

    skills: tuple[SkillIndexEntry, ...]
    problems: tuple[Problem, ...]


def skill_digest(files: Mapping[str, str]) -> str:
    """The digest over the digests of a skill's files, as the 0.2.0 draft defines it."""
    lines = (f"{path}\0{files[path]}\n".encode() for path in sorted(files, key=str.encode))
    return hashlib.sha256(b"".join(lines)).hexdigest()


def read_index(data: bytes, where: str) -> SkillIndex:
    """Read an index. `where` names it in messages.

    Raises `UnsupportedMedia` for anything else and `LimitExceeded` for too many skills. A skill that cannot be used
    becomes a problem and does not affect the others.
    """
    skills: dict[str, SkillIndexEntry] = {}
    problems: list[Problem] = []
    for number, entry in enumerate(_parse_entries(data, where), start=1):
        try:
            skill = _parse_skill(entry, f"{where}: skill {number}")
            if skill.name in skills:
                raise InvalidSkill(f"{where}: the name {skill.name!r} appears twice; the first one is used")
            skills[skill.name] = skill
        except SkillError as error:
            problems.append(Problem("index-skill", str(error)))
    if any(None in skill.files.values() for skill in skills.values()):
        message = f"{where}: has no digests, so the downloaded files could not be verified"
        problems.append(Problem("index-unverified", message, Severity.NOTE))
    return SkillIndex(tuple(skills.values()), tuple(problems))


def _parse_entries(data: bytes, where: str) -> list[object]:
    try:
        document: object = json.loads(data)
    except (ValueError, RecursionError):
        raise UnsupportedMedia(f"{where}: not an index of skills: not valid JSON") from None
    top = _as_fields(document)
    entries = top.get("skills")
    if not isinstance(entries, list):
        raise UnsupportedMedia(f'{where}: not an index of skills: no list "skills"')
    version = str(top.get("version", "0.1.0"))
    if not _VERSION.fullmatch(version):
        raise UnsupportedMedia(f"{where}: unsupported version {version[:40]!r}; use 0.1.0 or 0.2.0")
    listed = cast("list[object]", entries)
    if len(listed) > MAX_SKILLS:
        raise LimitExceeded(f"{where}: lists {len(listed):,} skills; the limit is {MAX_SKILLS:,}")
    return listed


def _parse_skill(entry: object, where: str) -> SkillIndexEntry:
    fields = _as_fields(entry)
    name = fields.get("name")
    if not isinstance(name, str):
        raise InvalidSkill(f'{where}: has no "name"')
    if not is_plain_name(name):
        raise InvalidSkill(f"{where}: invalid skill name {name[:80]!r}; use letters, digits and hyphens")
    where = f"{where} ({name})"
    if "files" in fields:
        return _parse_skill_files(name, fields, where)
    kind = fields.get("type")
    if kind not in ("skill-md", "archive"):
        raise InvalidSkill(f'{where}: has neither "files" nor a "type" of "skill-md" or "archive"')
    return SkillIndexEntry(name, {}, None, _parse_artifact(fields, where, is_archive=kind == "archive"))


def _parse_skill_files(name: str, fields: Fields, where: str) -> SkillIndexEntry:
    listed = fields["files"]
    if not isinstance(listed, list) or len(cast("list[object]", listed)) > MAX_FILES:
        raise InvalidSkill(f'{where}: "files" must be a list of at most {MAX_FILES:,} files')
    files = dict(_parse_files(cast("list[object]", listed), where))
    if SKILL_FILE not in files:
        raise InvalidSkill(f'{where}: "files" has no {SKILL_FILE}')
    if None in files.values():
        return SkillIndexEntry(name, files)
    digest = _parse_digest(fields, where)
    package = _as_fields(fields.get("package"))
    artifact = _parse_artifact(package, f"{where}: package", is_archive=True) if package else None
    return SkillIndexEntry(name, files, digest, artifact)


def _parse_files(listed: list[object], where: str) -> Iterator[tuple[str, str | None]]:
    entries = EntryNames(where)
    for item in listed:
        fields = _as_fields(item)
        path = fields.get("path") if fields else item
        if not isinstance(path, str):
            raise InvalidSkill(f'{where}: an item of "files" has no path')
        if any("\ud800" <= char <= "\udfff" for char in path):
            raise InvalidSkill(f"{where}: {path[:80]!r} contains a lone surrogate")
        yield str(entries.add_file(path)), _parse_digest(fields, f"{where}: {path!r}") if fields else None


def _parse_artifact(fields: Fields, where: str, *, is_archive: bool) -> IndexArtifact:
    url = fields.get("url")
    if not isinstance(url, str) or not url:
        raise InvalidSkill(f'{where}: has no "url"')
    return IndexArtifact(url, _parse_digest(fields, where), is_archive)


def _parse_digest(fields: Fields, where: str) -> str:
    found = _DIGEST.fullmatch(str(fields.get("digest", "")))
    if not found:
        raise InvalidSkill(f'{where}: has no "digest" of the form sha256:<64 hex digits>')
    return found[1].lower()


def _as_fields(value: object) -> Fields:
    return cast("Fields", value) if isinstance(value, dict) else {}


INDEX_PATHS = ("/.well-known/agent-skills/index.json", "/.well-known/skills/index.json")
"""The standard paths of an index, the current one first."""


@dataclass(frozen=True, slots=True)
class IndexLimits:
    """Bytes of the index, bytes of one skill, and a timeout in seconds for all skills together."""

    index: int = 5 << 20
    skill: int = 50 << 20
    seconds: float = 600.0


DEFAULT_LIMITS = IndexLimits()


def fetch_index(
    url: str,
    downloads: Downloader,
    cache: Path,
    progress: Progress,
    *,
    pin: str | None = None,
    limits: IndexLimits = DEFAULT_LIMITS,
) -> FetchResult:
    """Download every skill of the index at `url` into its own folder and return these folders.

    Digests are verified; a skill that fails is a problem of rule `index-skill` and does not affect the others. Cached
    skills are not downloaded again. Raises a `SkillError` when the index cannot be used.
    """
    answer = downloads.get(url, pin=pin, progress=progress)
    if answer.path.stat().st_size > limits.index:
        raise LimitExceeded(f"{redact(url)}: larger than {limits.index:,} bytes, the limit for an index")
    index = read_index(answer.path.read_bytes(), redact(url))
    place = cache / "wellknown" / cache_key(normalize_url(url))
    fetching = _IndexFetcher(answer.url, bool(answer.problems), downloads, place, progress, limits)
    problems = [*answer.problems, *index.problems]
    roots: list[Root] = []
    deadline = time.monotonic() + limits.seconds
    for number, skill in enumerate(index.skills):
        progress(f"fetching the skills of {redact(url)}", number, len(index.skills))
        try:
            if time.monotonic() > deadline:
                raise DeadlineExceeded(f"timed out after {limits.seconds:g} s")
            folder = fetching.fetch_skill(skill)
            roots.append(Root(folder, redact(url), confine=folder, watch=False))
        except SkillError as error:
            problems.append(Problem("index-skill", f"{redact(url)}: skill {skill.name!r}: {error}"))
    if roots:
        remove_unused(roots[0].path.parent.parent, after=MONTH)
    return FetchResult(tuple(roots), (*problems, *fetching.problems))


@dataclass(slots=True)
class _IndexFetcher:
    """Downloads the skills of the index at the URL `base` into `place`."""

    base: str
    is_offline: bool
    downloads: Downloader
    place: Path
    progress: Progress
    limits: IndexLimits
    problems: tuple[Problem, ...] = ()

    def fetch_skill(self, skill: SkillIndexEntry) -> Path:
        """The folder of the skill, complete and verified. Its path has the digest, so a new version is separate."""
        if skill.artifact and not skill.files:
            return self._fetch_artifact(skill, skill.artifact, skill.artifact.sha256)
        if skill.digest and (folder := find_folder(self._folder(skill, skill.digest).parent)):
            return folder
        if skill.artifact and skill.digest:
            return self._fetch_artifact(skill, skill.artifact, skill.digest)
        return self._fetch_files(skill)

    def _folder(self, skill: SkillIndexEntry, digest: str) -> Path:
        return self.place / f"{skill.name}-{digest}" / skill.name

    def _fetch_artifact(self, skill: SkillIndexEntry, artifact: IndexArtifact, digest: str) -> Path:
        folder = self._folder(skill, digest)
        if find_folder(folder.parent):
            return folder
        body = self._download(artifact.url, artifact.sha256)
        with replace_directory(folder.parent) as temporary:
            content = temporary / skill.name
            if artifact.is_archive:
                size = self.limits.skill
                unpack(body.path, content, limits=UnpackLimits(size, size, MAX_FILES), label=redact(artifact.url))
                if not (content / SKILL_FILE).is_file():
                    raise InvalidSkill(f"{redact(artifact.url)}: no {SKILL_FILE} at its root")
                _check_files(content, skill)
            else:
                self._check_size(body.path.stat().st_size)
                content.mkdir(mode=0o755)
                shutil.copyfile(body.path, content / SKILL_FILE)
        return folder

    def _fetch_files(self, skill: SkillIndexEntry) -> Path:
        bodies: dict[str, SourceDownload] = {}
        size = 0
        for path, digest in skill.files.items():
            bodies[path] = self._download(f"{quote(skill.name)}/{quote(path)}", digest)
            size += bodies[path].path.stat().st_size
            self._check_size(size)
        digest = skill_digest({path: body.sha256 for path, body in bodies.items()})
        _check_digest(skill, digest)
        folder = self._folder(skill, digest)
        if not find_folder(folder.parent):
            with replace_directory(folder.parent) as temporary:
                for path, body in bodies.items():
                    target = temporary / skill.name / path
                    target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
                    shutil.copyfile(body.path, target)
        return folder

    def _download(self, reference: str, pin: str | None) -> SourceDownload:
        url = join_url(self.base, reference, field="url")
        if self.is_offline:
            # The server could not be reached before; trying again for every file would take too long.
            cached = self.downloads.find_cached(url)
            if cached and pin in (None, cached.sha256):
                return cached
            raise SourceUnavailable(f"{redact(url)}: not in the cache, and the server cannot be reached")
        body = self.downloads.get(url, pin=pin, progress=self.progress)
        if body.problems:
            self.is_offline = True
            self.problems = body.problems
        return body

    def _check_size(self, size: int) -> None:
        if size > self.limits.skill:
            raise LimitExceeded(f"larger than {self.limits.skill:,} bytes")


def _check_files(content: Path, skill: SkillIndexEntry) -> None:
    """Compare an unpacked package with the files that the index lists for it."""
    if not skill.files:
        return
    found = {str(path.relative_to(content)): hash_content(path)[0] for path in content.rglob("*") if path.is_file()}
    for path in sorted(found.keys() | skill.files.keys()):
        if found.get(path) != skill.files.get(path):
            raise InvalidSkill(f"{path!r} in the package does not match the index")
    _check_digest(skill, skill_digest(found))


def _check_digest(skill: SkillIndexEntry, digest: str) -> None:
    if skill.digest and digest != skill.digest:
        raise InvalidSkill(f"the digest of its files is {digest}, but the index says {skill.digest}")


_HEAD = 512


class WebSource:
    """An http or https URL. The content type is detected from the response, not only from the name."""

    def __init__(self, url: str, cache: Path, pin: str | None = None) -> None:
        self.label = redact(url)
        self._url = url
        self._cache = cache
        self._pin = pin

    def fetch(self, progress: Progress) -> FetchResult:
        """Download what is new and return the folders with the skills."""
        with Downloader(self._cache / "downloads") as downloads:
            if self._name == "index.json":
                return self._fetch_index(self._url, downloads, progress)
            try:
                answer = downloads.get(self._url, pin=self._pin, progress=progress)
            except SourceUnavailable as error:
                if self._is_file or not self._can_have_index(error, downloads):
                    raise
                return self._probe(downloads, progress, str(error))
            return self._read(answer, downloads, progress)

    @property
    def _name(self) -> str:
        return unquote(split_url(self._url).path).rpartition("/")[2]

    @property
    def _is_file(self) -> bool:
        """Whether the URL names a file, so that an index is not tried."""
        return bool(self._pin) or has_archive_suffix(self._name) or self._name == SKILL_FILE

    def _read(self, answer: SourceDownload, downloads: Downloader, progress: Progress) -> FetchResult:
        with answer.path.open("rb") as file:
            head = file.read(_HEAD)
        if detect_format(head):
            folder = place_archive(answer.path, answer.sha256, self._cache, name=self._name or self.label)
        elif self._name == SKILL_FILE or head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"---"):
            folder = place_skill_file(answer.path, answer.sha256, self._cache, name=self._folder)
        elif head.lstrip().startswith(b"{"):
            return self._fetch_index(self._url, downloads, progress)
        elif self._is_file:
            raise UnsupportedMedia(f"{self.label}: not a zip or tar archive")
        else:
            return self._probe(downloads, progress, f"{self.label}: neither an archive nor a {SKILL_FILE}")
        return FetchResult((Root(folder, self.label, confine=folder, watch=False),), answer.problems)

    @property
    def _folder(self) -> str:
        """The name of the folder of a SKILL.md on the server."""
        return unquote(split_url(self._url).path).strip("/").rpartition("/")[0].rpartition("/")[2]

    def _fetch_index(self, url: str, downloads: Downloader, progress: Progress) -> FetchResult:
        return fetch_index(url, downloads, self._cache, progress, pin=self._pin)

    def _index_urls(self) -> tuple[str, ...]:
        parts = split_url(self._url)
        base = urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))
        return tuple(base + place for place in INDEX_PATHS)

    def _can_have_index(self, error: SourceUnavailable, downloads: Downloader) -> bool:
        """Whether the server said that there is nothing here, or an index is in the cache."""
        return bool(error.details.get("final")) or any(map(downloads.find_cached, self._index_urls()))

    def _probe(self, downloads: Downloader, progress: Progress, found: str) -> FetchResult:
        for url in self._index_urls():
            try:
                return self._fetch_index(url, downloads, progress)
            except UnsupportedMedia:
                # Web applications return the same page for every path.
                continue
            except SourceUnavailable as error:
                if not error.details.get("final"):
                    raise
        hint = "use an archive, a SKILL.md or an index.json; for a git repository write git+https://..."
        raise SourceUnavailable(f"{found}, and no {' or '.join(INDEX_PATHS)} was found; {hint}")
