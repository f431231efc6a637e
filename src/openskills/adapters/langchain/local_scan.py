"""The skills below a directory of this machine, read without the detours of a backend.

`FilesystemBackend` resolves every path several times. What it would answer is found here with one look at the directory
and one at each SKILL.md; whatever is unusual is left to the backend.
"""

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

from deepagents.backends import FilesystemBackend

LARGEST = 10 * 1024 * 1024
"""The most bytes of a SKILL.md that are read; upstream's limit."""

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_ANSWERING = ("ls", "als", "download_files", "adownload_files", "_resolve_path")
Stamp = tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A SKILL.md: its path for the backend, the directory's name, where it really is, and when it last changed."""

    path: str
    directory: str
    place: str
    stamp: Stamp

    def read(self) -> bytes | None:
        """The bytes of the file, one more than `LARGEST` at most; None when it is gone or no longer a file."""
        try:
            descriptor = os.open(self.place, _FLAGS)
        except OSError:
            return None
        try:
            is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
            return _read(descriptor, min(self.stamp[3], LARGEST) + 1) if is_file else None
        except OSError:
            return None
        finally:
            os.close(descriptor)


@dataclass(frozen=True, slots=True)
class LocalScan:
    """`files` can be read here; `others` are paths of SKILL.md files that the backend should be asked for."""

    files: tuple[LocalFile, ...]
    others: tuple[str, ...] = ()


def is_local(backend: object) -> TypeGuard[FilesystemBackend]:
    """Whether what a backend answers can be found without asking it: it lists and reads as `FilesystemBackend` does."""
    kind = type(backend)
    return isinstance(backend, FilesystemBackend) and all(
        getattr(kind, name) is getattr(FilesystemBackend, name) for name in _ANSWERING
    )


def scan(backend: object, source: str) -> LocalScan | None:
    """What is below `source`, sorted by path; None when only the backend itself can say."""
    if not is_local(backend):
        return None
    directory = _directory(backend, source)
    if directory is None:
        return None
    files: list[LocalFile] = []
    others: list[str] = []
    prefix = _prefix(backend, directory)
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.is_symlink():
                    return None
                if entry.is_dir(follow_symlinks=False):
                    _look(f"{prefix}{entry.name}/SKILL.md", entry, files, others)
    except OSError:
        return None
    return LocalScan(tuple(sorted(files, key=lambda file: file.path)), tuple(sorted(others)))


def _look(path: str, entry: os.DirEntry[str], files: list[LocalFile], others: list[str]) -> None:
    place = f"{entry.path}/SKILL.md"
    try:
        status = os.lstat(place)
    except FileNotFoundError:
        return
    except OSError:
        others.append(path)
        return
    if stat.S_ISREG(status.st_mode):
        stamp = (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size, status.st_ctime_ns)
        files.append(LocalFile(path, entry.name, place, stamp))
    else:
        others.append(path)


def _directory(backend: FilesystemBackend, source: str) -> str | None:
    """Where `source` is, by the rules of the backend; None for what it refuses or treats in a way of its own."""
    if "\0" in source:
        return None
    if not backend.virtual_mode:
        path = Path(source)
        return os.fspath(path) if path.is_absolute() else os.path.realpath(backend.cwd / path)
    if ".." in source or source.startswith("~"):
        return None
    root = os.fspath(backend.cwd)
    place = os.path.realpath(os.path.join(root, source.lstrip("/")))
    inside = place == root or place.startswith(root.rstrip("/") + "/")
    return place if inside else None


def _prefix(backend: FilesystemBackend, directory: str) -> str:
    """What the backend puts before the names below this directory."""
    if not backend.virtual_mode:
        return directory.rstrip("/") + "/"
    below = os.path.relpath(directory, backend.cwd)
    return "/" if below == "." else f"/{below}/"


def _read(descriptor: int, limit: int) -> bytes:
    """Up to `limit` bytes; a file that grows meanwhile is no reason to read on."""
    chunks: list[bytes] = []
    while limit > 0 and (chunk := os.read(descriptor, limit)):
        chunks.append(chunk)
        limit -= len(chunk)
    return b"".join(chunks)
