"""Skills as MCP resources: files with digests and sizes, directories, and the entries of the skills extension.

The extension is SEP-2640, `io.modelcontextprotocol/skills`. Everything here blocks; nothing imports the MCP SDK.
"""

import hashlib
import json
import os
import re
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, TypeVar, cast
from urllib.parse import quote, unquote

import yaml

from openskills.catalog.catalog import Catalog
from openskills.catalog.skill import SKILL_FILE, NoSkillFile, Skill, Stamp, find_resources, read_skill_file, stamp_of
from openskills.catalog.snapshot import CatalogSnapshot
from openskills.errors import InvalidArgument, InvalidSkill, SkillError
from openskills.executors.files.mime import SNIFF_BYTES, detect_mime_type
from openskills.paths import parse_relative
from openskills.skillmd.frontmatter import decode
from openskills.skillmd.parse import ParsedSkill, parse

SCHEME = "skill://"
DIRECTORY = "inode/directory"
"""The MIME type of a directory."""
MAX_FILES = 512
MAX_BYTES = 16 * 1024 * 1024
"""A skill with more files or bytes is served without a manifest of its files, as the specification asks."""
MAX_AGE = 2.0
"""Seconds after which files are looked at again, unless a watcher reports changes."""
_NAME = re.compile(r"(?!.*--)[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ServedFile:
    """A file of a skill. `digest` is empty for skills without a manifest of their files."""

    path: str
    uri: str
    size: int
    mime_type: str
    digest: str = ""

    def to_resource(self) -> dict[str, Any]:
        """The file for `resources/list` and directories."""
        return {"uri": self.uri, "name": self.path, "mimeType": self.mime_type, "size": self.size}


@dataclass(frozen=True, slots=True)
class ServedSkill:
    """A skill and its files by path, SKILL.md first. `front` has the front matter as JSON values.

    `entry` is the skill for `skills/list`; it is empty if the name does not follow the specification.
    """

    skill: Skill
    front: Mapping[str, Any]
    files: Mapping[str, ServedFile]
    entry: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def list_resources(self) -> Iterator[dict[str, Any]]:
        """All files; SKILL.md has the name and the description of the skill."""
        about = {"name": self.skill.name, "description": self.skill.description}
        for path, file in self.files.items():
            yield {**file.to_resource(), **(about if path == SKILL_FILE else {})}

    def list_directory(self, directory: str) -> list[dict[str, Any]]:
        """The children of a directory (empty: the skill's folder). Raises `InvalidArgument` if it is not one."""
        prefix = f"{directory}/" if directory else ""
        found: dict[str, dict[str, Any]] = {}
        for path, file in self.files.items():
            if path.startswith(prefix):
                name, slash, _ = path[len(prefix) :].partition("/")
                uri = build_uri(self.skill.name, prefix + name)
                child = {"uri": uri, "name": name, "mimeType": DIRECTORY}
                found.setdefault(name, child if slash else {**file.to_resource(), "name": name})
        if not found:
            raise InvalidArgument("uri", f"{build_uri(self.skill.name, directory)} is not a directory of the skill")
        return [found[name] for name in sorted(found)]


def build_uri(skill: str, path: str = "") -> str:
    """`skill://name/path`, percent-encoded; without a path, the skill's directory."""
    return f"{SCHEME}{quote(skill, safe='')}" + (f"/{quote(path)}" if path else "")


def parse_uri(uri: str) -> tuple[str, str]:
    """The skill and the path of a `skill://` address; the path is empty for the skill's directory.

    Raises `InvalidArgument` for other addresses and `ForbiddenPath` for paths with `..`.
    """
    if not uri.startswith(SCHEME):
        raise InvalidArgument("uri", f"unknown address {uri[:200]!r}; expected {SCHEME}name/path")
    skill, _, path = unquote(uri[len(SCHEME) :]).partition("/")
    if not skill or skill in (".", ".."):
        raise InvalidArgument("uri", f"the name of a skill is missing in {uri[:200]!r}; expected {SCHEME}name/path")
    path = path.strip("/")
    return skill, str(parse_relative(path, field="uri")) if path else ""


def take_page(
    items: Sequence[T], key_of: Callable[[T], str], cursor: str | None, size: int
) -> tuple[Sequence[T], str | None]:
    """The items after a cursor, and the cursor of the next page. The items are sorted by key.

    A cursor is the last key of a page, so that pages fit together even if items come and go between two requests.
    """
    start = 0 if cursor is None else bisect_right(items, cursor, key=key_of)
    page = items[start : start + size]
    return page, key_of(page[-1]) if start + size < len(items) else None


class SkillResources:
    """The skills of a catalog as resources. Thread-safe; files are only read if they changed.

    Changes are found after `MAX_AGE` seconds. With `watched`, they are found when `invalidate` was called instead.
    """

    def __init__(self, catalog: Catalog, *, watched: bool = False) -> None:
        self._catalog = catalog
        self._lock = threading.Lock()
        self._snapshot: CatalogSnapshot | None = None
        self._served: Mapping[str, ServedSkill] = {}
        self._known: dict[str, tuple[_FolderStamp, ServedSkill | None]] = {}
        self._checked = 0.0
        self._stale = True
        self.watched = watched

    def invalidate(self) -> None:
        """Look at all files again when they are needed next."""
        self._stale = True

    def get_known(self) -> Mapping[str, ServedSkill] | None:
        """What `get_all` would return, if no file has to be looked at for it; else None. Does not block."""
        expired = not self.watched and time.monotonic() - self._checked > MAX_AGE
        is_fresh = self._catalog.snapshot is self._snapshot and not self._stale and not expired
        return self._served if is_fresh else None

    def get_all(self) -> Mapping[str, ServedSkill]:
        """All skills by name, sorted. While nothing changes, the same object."""
        with self._lock:
            known = self.get_known()
            if known is not None:
                return known
            snapshot, now, self._stale = self._catalog.snapshot, time.monotonic(), False
            found = {skill.name: served for skill in snapshot.skills if (served := self._serve(skill)) is not None}
            same = found.keys() == self._served.keys() and all(found[name] is self._served[name] for name in found)
            if snapshot is not self._snapshot or not same:
                self._served = found
            self._snapshot, self._checked = snapshot, now
            self._known = {one.directory: self._known[one.directory] for one in snapshot.skills}
            return self._served

    def read(self, served: ServedSkill, path: str) -> tuple[ServedFile, bytes]:
        """A file and its bytes. Raises `InvalidArgument` for a file that the skill does not have."""
        file = served.files.get(path)
        if file is None:
            raise InvalidArgument("uri", f"the skill {served.skill.name!r} has no file {path[:200]!r}")
        data = served.skill.read(path)
        if file.digest and file.digest != _digest(data):
            # It has changed just now; the next listing has its new digest.
            self.invalidate()
        return file, data

    def _serve(self, skill: Skill) -> ServedSkill | None:
        """The skill as it is on disk, read only if a file has changed; None if it cannot be read."""
        before = self._known.get(skill.directory)
        try:
            # A skill of another MCP server.
            skill.download()
            stamp = _stamp_folder(skill)
            if before is not None and before[0] == stamp and before[1] is not None and before[1].skill is skill:
                return before[1]
            served = _build_served(skill, stamp)
        except (SkillError, NoSkillFile, OSError):
            # Removed or changed meanwhile, or not trusted any more; the catalog reports it.
            stamp, served = (), None
        self._known[skill.directory] = (stamp, served)
        return served


_FolderStamp = tuple[tuple[str, int, Stamp], ...]
"""Path, size and stamp of every file."""


def is_hidden(path: str) -> bool:
    """Whether a part of a path starts with a dot."""
    return path.startswith(".") or "/." in path


def _stamp_folder(skill: Skill) -> _FolderStamp:
    # Hidden files, such as `.env`, are not meant for others.
    paths = [SKILL_FILE, *(one.path for one in find_resources(skill.directory) if not is_hidden(one.path))]
    found: list[tuple[str, int, Stamp]] = []
    for path in paths:
        status = os.stat(f"{skill.directory}/{path}")
        found.append((path, status.st_size, stamp_of(status)))
    return tuple(found)


def _build_served(skill: Skill, stamp: _FolderStamp) -> ServedSkill:
    seen, data, problem = read_skill_file(skill.directory)
    if problem is not None:
        raise InvalidSkill(problem.message, (problem,))
    skill.check_stamp(SKILL_FILE, seen)
    front = read_front_matter(parse(decode(data)[0]))
    has_manifest = len(stamp) <= MAX_FILES and sum(size for _, size, _ in stamp) <= MAX_BYTES
    files: dict[str, ServedFile] = {}
    for path, size, _ in stamp:
        uri = build_uri(skill.name, path)
        if has_manifest or path == SKILL_FILE:
            content = data if path == SKILL_FILE else skill.read(path)
            kind = "text/markdown" if path == SKILL_FILE else detect_mime_type(path, content[:SNIFF_BYTES])
            files[path] = ServedFile(path, uri, len(content), kind, _digest(content) if has_manifest else "")
        else:
            files[path] = ServedFile(path, uri, size, detect_mime_type(path, b""))
    listed = _NAME.fullmatch(skill.name) is not None and front.get("name") == skill.name
    resources = [{"uri": one.uri, "digest": one.digest, "size": one.size} for one in files.values()]
    entry: dict[str, Any] = {
        "uri": files[SKILL_FILE].uri,
        "frontmatter": front,
        "resources": resources if has_manifest else "dynamic",
    }
    return ServedSkill(skill, front, files, entry if listed else {})


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _CoreLoader(_Loader):
    """Reads YAML with the types of YAML 1.2, as other clients do: `no` and dates are text."""

    yaml_implicit_resolvers: Any = {}  # noqa: RUF012 - the name and the type of the library


_TYPES: Mapping[str, tuple[str, list[str]]] = {
    "bool": (r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "int": (r"[-+]?[0-9]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    "float": (r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", list("-+.0123456789")),
}


def _read_int(loader: Any, node: Any) -> object:
    text = str(loader.construct_scalar(node))
    # Numbers of thousands of digits stay text.
    return (int(text, 16) if "x" in text else int(text)) if len(text) < 300 else text


def _read_float(loader: Any, node: Any) -> object:
    found = float(str(loader.construct_scalar(node)))
    # Infinity has no form in JSON.
    return found if isfinite(found) else str(node.value)


def _configure(loader: Any) -> None:
    for kind, (pattern, starts) in _TYPES.items():
        loader.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", re.compile(rf"(?:{pattern})\Z"), starts)
    loader.add_constructor("tag:yaml.org,2002:int", _read_int)
    loader.add_constructor("tag:yaml.org,2002:float", _read_float)


_configure(_CoreLoader)


def read_front_matter(parsed: ParsedSkill) -> Mapping[str, Any]:
    """The front matter as JSON values; for YAML that only we can read, all scalars are text."""
    try:
        found: Any = yaml.load(parsed.document.front or "", Loader=_CoreLoader)  # noqa: S506 - a safe loader
        if isinstance(found, dict):
            return json.loads(json.dumps(found, allow_nan=False))
    except (yaml.YAMLError, ValueError, TypeError, RecursionError):
        pass  # what follows is always possible
    return json.loads(json.dumps(parsed.front.fields, default=_to_plain))


def _to_plain(value: object) -> object:
    return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else list(cast("Sequence[Any]", value))
