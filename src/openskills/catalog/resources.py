"""The files of a skill beside its SKILL.md, listed without reading any."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath

from openskills.catalog.skillfile import SKILL_FILE

MAX_RESOURCES = 10_000
MAX_DEPTH = 16
SKIPPED = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".nox"})
"""Directories that hold no text of an author."""

_CODE = frozenset(
    {
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
    }
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
    found: list[Resource] = []
    for path, size in _files(base):
        if path != SKILL_FILE:
            found.append(Resource(path, kind_of(path), size))
        if len(found) >= MAX_RESOURCES:
            break
    return tuple(sorted(found, key=lambda resource: resource.path))


def kind_of(path: str) -> ResourceKind:
    """By the convention of the specification's folders first, by the file's ending otherwise."""
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


def _files(base: str) -> Iterator[tuple[str, int]]:
    waiting = [("", 0)]
    while waiting:
        relative, depth = waiting.pop()
        try:
            entries = sorted(os.scandir(f"{base}/{relative}"), key=lambda entry: entry.name)
        except OSError:
            # A directory that cannot be listed has no files that anybody could use.
            continue
        for entry in entries:
            path = f"{relative}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in SKIPPED and depth < MAX_DEPTH:
                    waiting.append((f"{path}/", depth + 1))
            elif size := _size(base, entry):
                yield path, size[0]


def _size(base: str, entry: os.DirEntry[str]) -> tuple[int] | None:
    """The size of a regular file inside the skill, in a tuple because nothing is a size too."""
    try:
        if entry.is_symlink() and not os.path.realpath(entry.path).startswith(base + os.sep):
            return None
        status = entry.stat()
    except OSError:
        return None
    return (status.st_size,) if stat.S_ISREG(status.st_mode) else None
