"""`Skill` and `Resource`, and safe reading of SKILL.md: no blocking, no links out of the folder, bounded size."""

import errno
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Protocol

from openskills.errors import ForbiddenPath, InvalidArgument, InvalidSkill, LimitExceeded
from openskills.paths import open_inside
from openskills.skillmd.frontmatter import decode, size_problem
from openskills.skillmd.manifest import SkillManifest
from openskills.skillmd.parse import parse
from openskills.skillmd.problem import Problem
from openskills.skillmd.yaml import MAX_FILE_BYTES

SKILL_FILE = "SKILL.md"

Stamp = tuple[int, int, int, int]
"""Modified and changed (nanoseconds), size, inode: while these are the same, so is the content."""

TICK_NS = 20_000_000
"""A file that changed less than this ago has no reliable stamp: another change could have the same time."""

# O_NONBLOCK: opening a FIFO without a writer must not wait.
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


class NoSkillFile(Exception):
    """The folder has no SKILL.md."""


def read_skill_text(directory: str) -> tuple[str, Problem | None]:
    """The text of the folder's SKILL.md, or an empty text and the problem."""
    try:
        _, data, problem = read_skill_file(directory)
    except NoSkillFile:
        return "", Problem("file-missing", f"no {SKILL_FILE} in {directory}")
    return ("", problem) if problem is not None else decode(data)


def read_skill_file(directory: str) -> tuple[Stamp | None, bytes, Problem | None]:
    """The stamp and bytes of the folder's SKILL.md, or the problem with it. Raises `NoSkillFile` when it has none."""
    path = f"{directory}/{SKILL_FILE}"
    try:
        descriptor = os.open(path, _FLAGS | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            raise NoSkillFile from None
        if error.errno != errno.ELOOP:
            return None, b"", _unreadable_problem(error)
        try:
            descriptor = open_inside(directory, SKILL_FILE)
        except ForbiddenPath:
            message = f"{SKILL_FILE} is a link that leads out of its folder; copy the file instead"
            return None, b"", Problem("link-leaves-skill", message)
        except OSError as broken:
            return None, b"", _unreadable_problem(broken)
    return _read(descriptor)


def stamp_of(status: os.stat_result) -> Stamp:
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)


def _read(descriptor: int) -> tuple[Stamp | None, bytes, Problem | None]:
    try:
        status = os.fstat(descriptor)
        stamp = stamp_of(status)
        if not stat.S_ISREG(status.st_mode):
            kinds = {stat.S_IFDIR: "a directory", stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket"}
            kind = kinds.get(stat.S_IFMT(status.st_mode), "a device")
            return stamp, b"", Problem("file-type", f"{SKILL_FILE} is {kind}, not a file")
        if status.st_size > MAX_FILE_BYTES:
            return stamp, b"", size_problem(status.st_size)
        # A file that grows while it is read has a new stamp the next time.
        data = os.read(descriptor, status.st_size) if status.st_size else b""
    except OSError as error:
        return None, b"", _unreadable_problem(error)
    finally:
        os.close(descriptor)
    return stamp, data, None


def _unreadable_problem(error: OSError) -> Problem:
    return Problem("file-unreadable", f"{SKILL_FILE} cannot be read: {error.strerror or error}")


MAX_RESOURCES = 10_000
MAX_DEPTH = 16
SKIPPED = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".nox"})
"""Directories that are never searched."""

_CODE = (
    ".py",
    ".sh",
    ".bash",
    ".js",
    ".mjs",
    ".cjs",
    ".ts",
    ".rb",
    ".pl",
    ".php",
    ".go",
    ".rs",
    ".java",
    ".r",
    ".lua",
    ".ps1",
)


class ResourceKind(StrEnum):
    """What a file of a skill is for."""

    SCRIPT = "script"
    REFERENCE = "reference"
    ASSET = "asset"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Resource:
    """One file of a skill: its path relative to the skill's folder, what it is for, and its size in bytes."""

    path: str
    kind: ResourceKind
    size: int

    @property
    def is_doc(self) -> bool:
        """Whether a model may select it to read: any `.md` or `.txt`."""
        return self.path.lower().endswith((".md", ".txt"))


def find_resources(directory: str) -> tuple[Resource, ...]:
    """Every regular file under `directory` but its SKILL.md, sorted by path, at most `MAX_RESOURCES` of them.

    A link counts when it leads to a file inside the folder. Linked directories are not entered.
    """
    base = os.path.realpath(directory)
    files = (file for file in _iter_files(base) if file[0] != SKILL_FILE)
    found = [Resource(path, classify_resource(path), size) for path, size in islice(files, MAX_RESOURCES)]
    return tuple(sorted(found, key=lambda resource: resource.path))


def classify_resource(path: str) -> ResourceKind:
    """The kind of a file by the folder names of the specification first, by its suffix otherwise."""
    parts = PurePosixPath(path)
    top = parts.parts[0] if len(parts.parts) > 1 else ""
    suffix = parts.suffix.lower()
    if top == "assets":
        return ResourceKind.ASSET
    if top == "scripts" or suffix in _CODE:
        return ResourceKind.SCRIPT
    if top in ("references", "reference", "docs") or suffix in (".md", ".txt"):
        return ResourceKind.REFERENCE
    return ResourceKind.OTHER


def _iter_files(base: str) -> Iterator[tuple[str, int]]:
    waiting = [("", 0)]
    while waiting:
        relative, depth = waiting.pop()
        try:
            entries = sorted(os.scandir(f"{base}/{relative}"), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            path = f"{relative}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in SKIPPED and depth < MAX_DEPTH:
                    waiting.append((f"{path}/", depth + 1))
            elif (size := _file_size(base, entry)) is not None:
                yield path, size


def _file_size(base: str, entry: os.DirEntry[str]) -> int | None:
    """The size of a regular file, or of a link to one inside the skill."""
    try:
        if entry.is_symlink() and not os.path.realpath(entry.path).startswith(base + os.sep):
            return None
        status = entry.stat()
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


COMMAND_TOOLS = ("bash", "shell", "skill_run", "skill_exec")
"""Tools that run commands (lower case); one of them in `allowed-tools` means all of them."""
_MAX_DOCS = 32
_MAX_DOC_BYTES = 256 * 1024
MAX_RESOURCE_BYTES = 16 * 1024 * 1024
"""The default limit of `Skill.read`."""


class RemoteFiles(Protocol):
    """The files of a skill that a server lists. They are downloaded and verified when they are needed. Blocking."""

    @property
    def server(self) -> str:
        """The name of the server for messages and for the model; never contains credentials."""
        ...

    @property
    def resources(self) -> tuple[Resource, ...]:
        """The listed files except SKILL.md, sorted by path."""
        ...

    def read(self, path: str) -> bytes:
        """The content of one file. Raises `InvalidArgument` for a file that is not listed."""
        ...

    def download(self) -> None:
        """Make the skill's folder complete."""
        ...


@dataclass(frozen=True, slots=True)
class Skill:
    """A usable skill: its manifest, folder, source and problems. Body and resources are read on demand.

    `approved` has the stamps of the files that the user trusted, by real path; other files are refused. A skill with
    `remote` files is only listed: its folder exists after `download`.
    """

    manifest: SkillManifest
    directory: str
    source: str
    problems: tuple[Problem, ...] = ()
    approved: Mapping[str, Stamp] | None = field(default=None, compare=False, repr=False)
    remote: RemoteFiles | None = field(default=None, compare=False, repr=False)

    @property
    def name(self) -> str:
        return self.manifest.name

    @property
    def description(self) -> str:
        """What it does and when to use it; for a skill of a server, also which one."""
        if self.remote is not None:
            return f"{self.manifest.description} (from {self.remote.server})"
        return self.manifest.description

    @property
    def path(self) -> Path:
        return Path(self.directory)

    @property
    def location(self) -> str:
        """The absolute path of its SKILL.md."""
        return os.path.join(self.directory, SKILL_FILE)

    def body(self) -> str:
        """The instructions, read now. Raises `InvalidSkill` when the file is missing or broken.

        Those of a server begin with a line that names it: their text is not to be trusted like that of a local file.
        """
        if self.remote is not None:
            data, problem = self.remote.read(SKILL_FILE), None
        else:
            try:
                stamp, data, problem = read_skill_file(self.directory)
            except NoSkillFile:
                raise self._missing_error() from None
            self.check_stamp(SKILL_FILE, stamp)
        text, problem = ("", problem) if problem is not None else decode(data)
        if problem is not None:
            raise self._build_error(problem)
        body = parse(text).body
        return body if self.remote is None else f"> This skill comes from the server {self.remote.server}.\n\n{body}"

    def resources(self) -> tuple[Resource, ...]:
        """Every file of the skill except SKILL.md, sorted by path, without links that leave it.

        Raises `InvalidSkill` when the folder is not a skill any more.
        """
        if self.remote is not None:
            return self.remote.resources
        self._check_exists()
        return find_resources(self.directory)

    def docs(self) -> tuple[Resource, ...]:
        """The resources that a model may read: any `.md` or `.txt`."""
        return tuple(resource for resource in self.resources() if resource.is_doc)

    def has_commands(self) -> bool:
        """Whether there is anything to run: a script, or code or a command in the text or a document. In doubt, yes."""
        from openskills.skillmd.markdown import has_commands

        needs = self.manifest.requirements
        tools = (tool.lower().startswith(COMMAND_TOOLS) for tool in self.manifest.allowed_tools)
        # The files of a server's skill are not downloaded before they are needed.
        if needs.bins or needs.any_bins or any(tools) or self.remote is not None:
            return True
        try:
            resources = self.resources()
            if any(one.kind is ResourceKind.SCRIPT for one in resources):
                return True
            plain = (one.path for one in resources if "." not in one.path.rpartition("/")[2])
            if any(os.access(os.path.join(self.directory, path), os.X_OK) for path in plain):
                return True
            docs = [one.path for one in resources if one.is_doc and one.size <= _MAX_DOC_BYTES][:_MAX_DOCS]
            texts = (self.body(), *(self.read(path).decode("utf-8", "replace") for path in docs))
            return any(map(has_commands, texts))
        except (InvalidSkill, InvalidArgument, LimitExceeded, ForbiddenPath):
            # Changed meanwhile, or not trusted: loading it says what is wrong.
            return True

    def read(self, path: str, *, limit: int = MAX_RESOURCE_BYTES) -> bytes:
        """The bytes of one resource.

        Raises `ForbiddenPath` for a path that leaves the skill, `InvalidArgument` for a missing or unreadable file,
        and `LimitExceeded` when it has more than `limit` bytes.
        """
        if limit < 0:
            raise InvalidArgument("limit", f"{limit} is negative")
        data = self._read_file(path, limit) if self.remote is None else self.remote.read(path)
        if len(data) > limit:
            raise LimitExceeded(f"{path} of {self.name} has more than {limit:,} bytes", path=path, limit=limit)
        return data

    def download(self) -> None:
        """Download and verify all files of a skill that is only listed, so that its folder can be used. Blocking.

        Nothing is done for other skills. Raises `InvalidSkill` when a file is not what the server lists.
        """
        if self.remote is not None:
            self.remote.download()

    def _read_file(self, path: str, limit: int) -> bytes:
        """At most `limit + 1` bytes of a file in the skill's folder."""
        self._check_exists()
        try:
            descriptor = open_inside(self.directory, path)
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                os.close(descriptor)
                raise InvalidArgument("path", f"{path!r} is not a file of the skill {self.name!r}")
            with os.fdopen(descriptor, "rb") as file:
                data = file.read(limit + 1)
            self.check_stamp(path, stamp_of(status))
        except OSError as error:
            reason = f"{path!r} of the skill {self.name!r} cannot be read: {error.strerror or error}"
            raise InvalidArgument("path", reason) from None
        return data

    def is_approved(self, path: str, stamp: Stamp | None) -> bool:
        """Whether the file with this stamp is the one that the user trusted; always, if trust was not needed."""
        return self.approved is None or self.approved.get(os.path.realpath(f"{self.directory}/{path}")) == stamp

    def check_stamp(self, path: str, stamp: Stamp | None) -> None:
        """Raise `InvalidSkill` if the user trusted this skill, but not with the file that has this stamp."""
        if not self.is_approved(path, stamp):
            raise self._build_error(self.changed_problem)

    def check_unchanged(self) -> None:
        """Raise `InvalidSkill` if the user trusted this skill, and a file was changed, added or removed since."""
        if self.approved is None:
            return
        base = os.path.realpath(self.directory)
        found: dict[str, Stamp] = {}
        for folder, directories, files in os.walk(base):
            for path in (os.path.join(folder, name) for name in (*files, *directories)):
                # A file that is gone by now differs from every stamp.
                with suppress(FileNotFoundError):
                    status = os.lstat(path)
                    if not stat.S_ISDIR(status.st_mode):
                        found[path] = stamp_of(status)
        if found != {path: stamp for path, stamp in self.approved.items() if path.startswith(f"{base}{os.sep}")}:
            raise self._build_error(self.changed_problem)

    @property
    def changed_problem(self) -> Problem:
        """The problem of a skill that changed after the user trusted it."""
        message = f"{self.directory} has changed since it was trusted; review it, then run `openskills trust`"
        return Problem("project-untrusted", message, path=self.location)

    def _missing_error(self) -> InvalidSkill:
        problem = Problem("file-missing", f"{self.directory} is not a skill any more: {SKILL_FILE} is missing")
        return self._build_error(problem)

    def _build_error(self, problem: Problem) -> InvalidSkill:
        return InvalidSkill(f"{self.name}: {problem.message}", (problem,))

    def _check_exists(self) -> None:
        if not os.path.lexists(self.location):
            raise self._missing_error()
