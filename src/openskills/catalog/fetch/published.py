"""What a well-known index publishes, in the three shapes that are in use. Pure: bytes in, values and problems out."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from openskills.catalog.fetch.entries import Entries, is_plain
from openskills.catalog.skill import SKILL_FILE
from openskills.errors import InvalidSkill, LimitExceeded, SkillError, UnsupportedMedia
from openskills.skillmd.problem import Problem, Severity

MAX_SKILLS = 1000
MAX_FILES = 1000
_DIGEST = re.compile(r"(?:sha256:)?([0-9a-fA-F]{64})")
_VERSION = re.compile(r"0\.[0-9]+\.[0-9]+")

Fields = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Artifact:
    """One file to download: an archive of the skill, or its SKILL.md."""

    url: str
    sha256: str
    is_archive: bool


@dataclass(frozen=True, slots=True)
class Published:
    """One skill of an index. `files` maps paths to digests, which are None in indexes of version 0.1.0."""

    name: str
    files: Mapping[str, str | None]
    digest: str | None = None
    artifact: Artifact | None = None


@dataclass(frozen=True, slots=True)
class Index:
    """The skills that can be fetched, and what is wrong with the others."""

    skills: tuple[Published, ...]
    problems: tuple[Problem, ...]


def skill_digest(files: Mapping[str, str]) -> str:
    """The digest of a skill over the digests of its files, as the 0.2.0 draft defines it."""
    lines = (f"{path}\0{files[path]}\n".encode() for path in sorted(files, key=str.encode))
    return hashlib.sha256(b"".join(lines)).hexdigest()


def read_index(data: bytes, where: str) -> Index:
    """Read an index. `where` names it in messages.

    Raises `UnsupportedMedia` for what is no index and `LimitExceeded` for one with too many skills. A skill that
    cannot be used is a problem and does not hide the others.
    """
    skills: dict[str, Published] = {}
    problems: list[Problem] = []
    for number, entry in enumerate(_entries(data, where), start=1):
        try:
            skill = _skill(entry, f"{where}: skill {number}")
            if skill.name in skills:
                raise InvalidSkill(f"{where}: the name {skill.name!r} appears twice; the first one counts")
            skills[skill.name] = skill
        except SkillError as error:
            problems.append(Problem("index-skill", str(error)))
    if any(None in skill.files.values() for skill in skills.values()):
        message = f"{where}: gives no digests, so what was downloaded from it could not be checked"
        problems.append(Problem("index-unverified", message, Severity.NOTE))
    return Index(tuple(skills.values()), tuple(problems))


def _entries(data: bytes, where: str) -> list[object]:
    try:
        document: object = json.loads(data)
    except (ValueError, RecursionError):
        raise UnsupportedMedia(f"{where}: is not an index of skills: it is not JSON") from None
    top = _fields(document)
    entries = top.get("skills") if top else None
    if top is None or not isinstance(entries, list):
        raise UnsupportedMedia(f'{where}: is not an index of skills: it has no list "skills"')
    version = str(top.get("version", "0.1.0"))
    if not _VERSION.fullmatch(version):
        raise UnsupportedMedia(f"{where}: has version {version[:40]!r}; 0.1.0 and 0.2.0 are understood")
    listed = cast("list[object]", entries)
    if len(listed) > MAX_SKILLS:
        raise LimitExceeded(f"{where}: lists {len(listed):,} skills; at most {MAX_SKILLS:,} are read")
    return listed


def _skill(entry: object, where: str) -> Published:
    fields = _fields(entry)
    name = fields.get("name") if fields else None
    if fields is None or not isinstance(name, str):
        raise InvalidSkill(f'{where}: has no "name"')
    if not is_plain(name):
        raise InvalidSkill(f"{where}: {name[:80]!r} is not the name of a skill; use letters, digits and hyphens")
    where = f"{where} ({name})"
    if "files" in fields:
        return _skill_of_files(name, fields, where)
    kind = fields.get("type")
    if kind not in ("skill-md", "archive"):
        raise InvalidSkill(f'{where}: has neither "files" nor a "type" of "skill-md" or "archive"')
    return Published(name, {}, None, _artifact(fields, where, is_archive=kind == "archive"))


def _skill_of_files(name: str, fields: Fields, where: str) -> Published:
    listed = fields["files"]
    if not isinstance(listed, list) or len(cast("list[object]", listed)) > MAX_FILES:
        raise InvalidSkill(f'{where}: "files" must be a list of at most {MAX_FILES:,} files')
    files = dict(_files(cast("list[object]", listed), where))
    if SKILL_FILE not in files:
        raise InvalidSkill(f'{where}: "files" has no {SKILL_FILE}')
    if None in files.values():
        return Published(name, files)
    digest = _digest(fields, where)
    package = _fields(fields.get("package"))
    artifact = _artifact(package, f"{where}: package", is_archive=True) if package else None
    return Published(name, files, digest, artifact)


def _files(listed: list[object], where: str) -> Iterator[tuple[str, str | None]]:
    entries = Entries(where)
    for item in listed:
        fields = _fields(item)
        path = fields.get("path") if fields else item
        if not isinstance(path, str):
            raise InvalidSkill(f'{where}: an item of "files" has no path')
        if any("\ud800" <= char <= "\udfff" for char in path):
            raise InvalidSkill(f"{where}: {path[:80]!r} contains half a character (a lone surrogate)")
        yield str(entries.file(path)), _digest(fields, f"{where}: {path!r}") if fields else None


def _artifact(fields: Fields, where: str, *, is_archive: bool) -> Artifact:
    url = fields.get("url")
    if not isinstance(url, str) or not url:
        raise InvalidSkill(f'{where}: has no "url"')
    return Artifact(url, _digest(fields, where), is_archive)


def _digest(fields: Fields, where: str) -> str:
    found = _DIGEST.fullmatch(str(fields.get("digest", "")))
    if not found:
        raise InvalidSkill(f'{where}: has no "digest" of the form sha256:<64 hex digits>')
    return found[1].lower()


def _fields(value: object) -> Fields | None:
    return cast("Fields", value) if isinstance(value, dict) else None
