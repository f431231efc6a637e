"""Publish skills: which ones qualify, and their index, archives, plugins and marketplace. Blocking; writes nothing.

Archives are deterministic: the same files give the same bytes on every machine, so they are built again when they are
asked for and not stored.
"""

import hashlib
import io
import json
import os
import re
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from openskills.catalog.catalog import Catalog
from openskills.catalog.root import Progress, Root, no_progress
from openskills.catalog.skill import MAX_DEPTH, SKILL_FILE, SKIPPED, Skill, Stamp, stamp_of
from openskills.catalog.sources.archive import EntryNames, FileContent, is_program, write_zip
from openskills.catalog.sources.plugin import MCP_SCHEMA, PLUGIN_NAME, PLUGIN_SCHEMA, describe_fault
from openskills.catalog.validate import validate
from openskills.errors import InvalidSkill, LimitExceeded, SkillError, SourceUnavailable
from openskills.skillmd.problem import Severity, select_errors

INDEX_SCHEMA = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
MAX_FILES = 1000
MAX_BYTES = 50 << 20
"""Limits of one skill: those of `npx skills`."""

_SKILL_NAME = re.compile(r"(?!.*--)[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
_VERSION = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+(?:-[0-9A-Za-z.-]+)?")
_UNPUBLISHED_FILES = frozenset({".DS_Store", "Thumbs.db"})
_SECRET_FILES = frozenset({".env", ".netrc", "id_rsa", "id_ed25519"})


@dataclass(frozen=True, slots=True)
class PublishedSkill:
    """A skill that may be published, as it was on disk. `team` is empty for a skill that belongs to none.

    `files` has the digest of each file by path. `digest` is that of what the index offers: the archive, or SKILL.md if
    there is no other file. `size` is the sum of the sizes of the files.
    """

    skill: Skill
    team: str
    files: Mapping[str, str]
    digest: str
    size: int

    @property
    def name(self) -> str:
        return self.skill.name

    @property
    def is_single_file(self) -> bool:
        """Whether the skill is a SKILL.md and nothing else."""
        return len(self.files) == 1

    @property
    def version(self) -> str:
        """The version for plugins: that of the author, if there is one, with a part that changes with the content."""
        manifest = self.skill.manifest
        own = str(manifest.metadata.get("version") or manifest.version or "")
        return f"{own if _VERSION.fullmatch(own) else '0.0.0'}+{self.digest[:12]}"


@dataclass(frozen=True, slots=True)
class UnpublishedSkill:
    """A skill that is left out, and the reason."""

    name: str
    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Publication:
    """The skills that can be published, sorted by name, and those that are left out."""

    skills: Mapping[str, PublishedSkill]
    left_out: tuple[UnpublishedSkill, ...] = ()

    @property
    def teams(self) -> tuple[str, ...]:
        return tuple(sorted({one.team for one in self.skills.values()} - {""}))

    def select(self, chosen: Callable[[PublishedSkill], bool]) -> "Publication":
        return Publication({name: one for name, one in self.skills.items() if chosen(one)})


_FolderStamp = tuple[tuple[str, Stamp], ...]


class SkillPublisher:
    """Finds what can be published of a catalog, and reads only what has changed. Thread-safe."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._lock = threading.Lock()
        self._known: dict[str, tuple[Skill, _FolderStamp, PublishedSkill | UnpublishedSkill]] = {}

    def collect(self, progress: Progress = no_progress) -> Publication:
        """Look at every skill of the current snapshot.

        Skills that are hidden from models here, because a program is missing or only users may invoke them, are
        published: that is for other machines and clients to decide.
        """
        with self._lock:
            snapshot = self._catalog.snapshot
            skills = [*snapshot.skills, *(one.skill for one in snapshot.hidden.values())]
            found: list[PublishedSkill | UnpublishedSkill] = []
            for number, skill in enumerate(sorted(skills, key=lambda one: one.name)):
                progress("reading skills", number, len(skills))
                found.append(self._examine(skill))
            self._known = {skill.directory: self._known[skill.directory] for skill in skills}
        faults = [
            UnpublishedSkill(_name_folder(one.path), one.path, f"{one.message} [{one.rule}]")
            for one in snapshot.problems
            if one.severity is Severity.ERROR or one.rule in ("name-shadowed", "project-untrusted")
        ]
        left_out = (*(one for one in found if isinstance(one, UnpublishedSkill)), *faults)
        return Publication({one.name: one for one in found if isinstance(one, PublishedSkill)}, left_out)

    def _examine(self, skill: Skill) -> PublishedSkill | UnpublishedSkill:
        before = self._known.get(skill.directory)
        stamps: _FolderStamp = ()
        try:
            if skill.remote is not None:
                raise InvalidSkill(f"belongs to the server {skill.remote.server}; publish it there")
            skill.check_unchanged()
            folder = skill.directory
            stamps = tuple((path, stamp_of(os.stat(f"{folder}/{path}"))) for path in _list_files(folder))
            if before is not None and before[:2] == (skill, stamps):
                return before[2]
            _check_manifest(skill)
            files = read_files(skill)
            result = _describe(skill, find_team(skill, self._catalog.roots), files)
        except (SkillError, OSError) as error:
            result = UnpublishedSkill(skill.name, skill.location, describe_fault(error))
        self._known[skill.directory] = (skill, stamps, result)
        return result


def _name_folder(path: str) -> str:
    """The folder of a SKILL.md, or the name of another file or folder that has a problem."""
    folder, name = os.path.split(path)
    return os.path.basename(folder) if name == SKILL_FILE else name or "source"


def _describe(skill: Skill, team: str, files: Sequence[FileContent]) -> PublishedSkill:
    digests = {one.path: hashlib.sha256(one.data).hexdigest() for one in files}
    is_single = len(files) == 1
    digest = digests[SKILL_FILE] if is_single else hashlib.sha256(build_archive(files)).hexdigest()
    return PublishedSkill(skill, team, digests, digest, sum(len(one.data) for one in files))


def find_team(skill: Skill, roots: Iterable[Root]) -> str:
    """The team of a skill: the first folder below its source, if the skill is deeper than that.

    `skills/payments/refunds/SKILL.md` belongs to the team `payments` of the source `skills`. A name that cannot be part
    of a URL is not a team.
    """
    for root in roots:
        base = os.path.abspath(root.path) + os.sep
        if root.label == skill.source and skill.directory.startswith(base):
            first, _, rest = skill.directory[len(base) :].partition(os.sep)
            return first if rest and PLUGIN_NAME.fullmatch(first) else ""
    return ""


def _check_manifest(skill: Skill) -> None:
    manifest = skill.manifest
    if _SKILL_NAME.fullmatch(skill.name) is None:
        raise InvalidSkill(f"invalid name {skill.name[:80]!r}: use lowercase letters, digits and single hyphens")
    if str(manifest.metadata.get("internal", "")).lower() == "true":
        raise InvalidSkill("metadata.internal is true")
    errors = select_errors(validate(skill.directory).problems)
    if errors:
        raise InvalidSkill(f"{errors[0].message} [{errors[0].rule}]")


def _list_files(directory: str) -> list[str]:
    """The files of a skill, sorted. Raises `SkillError` for anything that others could not unpack."""
    names = EntryNames("this skill", MAX_FILES * MAX_DEPTH)
    found: list[str] = []
    for path in _walk(os.path.realpath(directory)):
        if ".." in path or not path.isprintable():
            raise InvalidSkill(f"{path[:200]!r} has a name that clients refuse; rename it")
        found.append(str(names.add_file(path)))
        if len(found) > MAX_FILES:
            raise LimitExceeded(f"has more than {MAX_FILES:,} files")
    return sorted(found)


def _walk(base: str) -> Iterator[str]:
    waiting = [("", 0)]
    while waiting:
        relative, depth = waiting.pop()
        with os.scandir(f"{base}/{relative}") as entries:
            for entry in entries:
                path = relative + entry.name
                if entry.is_dir(follow_symlinks=False):
                    if depth >= MAX_DEPTH:
                        raise LimitExceeded(f"{path!r} is more than {MAX_DEPTH} folders deep")
                    if entry.name not in SKIPPED:
                        waiting.append((f"{path}/", depth + 1))
                elif entry.name not in _UNPUBLISHED_FILES:
                    _check_entry(base, path, entry)
                    yield path


def _check_entry(base: str, path: str, entry: os.DirEntry[str]) -> None:
    if entry.name in _SECRET_FILES:
        raise InvalidSkill(f"{path!r} may contain secrets; remove it")
    if entry.is_symlink() and not os.path.realpath(entry.path).startswith(base + os.sep):
        raise InvalidSkill(f"{path!r} is a link that leads out of the skill; copy the file instead")
    if not stat.S_ISREG(entry.stat().st_mode):
        kind = "a link to a folder" if entry.is_dir() else "not a regular file"
        raise InvalidSkill(f"{path!r} is {kind}; remove it")


def read_files(skill: Skill) -> list[FileContent]:
    """All files of a skill, sorted by path. Raises `SkillError` if it cannot be published."""
    found: list[FileContent] = []
    left = MAX_BYTES
    for path in _list_files(skill.directory):
        mode = os.stat(f"{skill.directory}/{path}").st_mode
        try:
            data = skill.read(path, limit=left)
        except LimitExceeded:
            raise LimitExceeded(f"larger than {MAX_BYTES:,} bytes") from None
        left -= len(data)
        found.append(FileContent(path, data, is_program(data, mode)))
    return found


def read_published(one: PublishedSkill) -> list[FileContent]:
    """The files of a skill as they were when it was examined. Raises `SkillError` if they have changed since."""
    files = read_files(one.skill)
    if {file.path: hashlib.sha256(file.data).hexdigest() for file in files} != one.files:
        raise SourceUnavailable(f"{one.name} has changed just now; try again")
    return files


def build_archive(files: Iterable[FileContent]) -> bytes:
    """A deterministic zip archive of these files, sorted by path."""
    target = io.BytesIO()
    write_zip(target, sorted(files, key=lambda one: one.path.encode()))
    return target.getvalue()


def build_index(skills: Iterable[PublishedSkill]) -> dict[str, Any]:
    """The index of version 0.2.0. Its URLs are relative to it: `NAME.zip`, or `NAME/SKILL.md` if that is all."""
    entries = [
        {
            "name": one.name,
            "type": "skill-md" if one.is_single_file else "archive",
            "description": one.skill.manifest.description,
            "url": f"{one.name}/{SKILL_FILE}" if one.is_single_file else f"{one.name}.zip",
            "digest": f"sha256:{one.digest}",
        }
        for one in skills
    ]
    return {"$schema": INDEX_SCHEMA, "skills": entries}


def build_old_index(skills: Iterable[PublishedSkill]) -> dict[str, Any]:
    """The index of version 0.1.0: all files by name, relative to the skill's folder next to the index."""
    entries = [
        {"name": one.name, "description": one.skill.manifest.description, "files": list(one.files)} for one in skills
    ]
    return {"skills": entries}


def build_plugin(name: str, skills: Sequence[PublishedSkill], mcp_url: str = "") -> list[FileContent]:
    """The files of an Agent Plugin 1.0.0 with these skills and, if given, an MCP server.

    Raises `SkillError` for a skill that has changed and cannot be published any more.
    """
    manifest: dict[str, Any] = {"$schema": PLUGIN_SCHEMA, **describe_plugin(name, skills)}
    files = [FileContent("plugin.json", to_json(manifest))]
    if mcp_url:
        servers = {name: {"type": "streamable-http", "url": mcp_url}}
        files.append(FileContent("mcp.json", to_json({"$schema": MCP_SCHEMA, "mcpServers": servers})))
    for one in skills:
        files += (file.under(f"skills/{one.name}") for file in read_published(one))
    return files


def describe_plugin(name: str, skills: Sequence[PublishedSkill]) -> dict[str, Any]:
    """Name, version, description and license of a plugin with these skills."""
    if len(skills) == 1 and name == skills[0].name:
        manifest = skills[0].skill.manifest
        more = {"license": manifest.license} if manifest.license else {}
        return {"name": name, "version": skills[0].version, "description": manifest.description, **more}
    contents = "".join(f"{one.name}\0{one.digest}\n" for one in skills)
    names = ", ".join(one.name for one in skills[:8]) + (", ..." if len(skills) > 8 else "")
    version = f"0.0.0+{hashlib.sha256(contents.encode()).hexdigest()[:12]}"
    return {"name": name, "version": version, "description": f"All {len(skills):,} skills: {names}"}


def list_plugins(name: str, skills: Sequence[PublishedSkill]) -> dict[str, Sequence[PublishedSkill]]:
    """The plugins of a marketplace and their skills: one with all skills, named like it, and one for each skill.

    A skill that is named like the marketplace has no plugin of its own. The first one is missing if it would be larger
    than a skill may be.
    """
    alone = {one.name: [one] for one in skills if one.name != name}
    is_small = sum(one.size for one in skills) <= MAX_BYTES
    return {name: skills, **alone} if skills and is_small else {**alone}


def build_marketplace(
    name: str, plugins: Mapping[str, Sequence[PublishedSkill]], sources: Mapping[str, object]
) -> dict[str, Any]:
    """A marketplace for Claude Code and Codex with these plugins and the `source` of each."""
    entries = [
        {**describe_plugin(plugin, skills), "source": sources[plugin], "strict": False}
        for plugin, skills in plugins.items()
    ]
    return {"name": name, "owner": {"name": name}, "description": "Published with OpenSkill", "plugins": entries}


def to_json(value: object) -> bytes:
    """JSON as it is published: the same bytes for the same value."""
    return json.dumps(value, ensure_ascii=False, indent=2).encode() + b"\n"
