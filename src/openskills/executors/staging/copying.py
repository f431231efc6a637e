"""Copying a skill's folder, with a digest of exactly the bytes that were copied."""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from openskills.errors import ForbiddenPath, LimitExceeded
from openskills.executors.files.openat2 import opened
from openskills.executors.staging.survey import MAX_BYTES, Item, Kind, unreadable
from openskills.paths import open_inside

DIRECTORY, FILE, PROGRAM = 0o555, 0o444, 0o555
"""The modes of what is in a snapshot."""

_CHUNK = 1024 * 1024
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Copy:
    """What was copied: the digest is over sorted paths, kinds, executable bits and content."""

    digest: str
    files: int
    size: int


@dataclass(frozen=True, slots=True)
class _File:
    digest: str
    size: int
    executable: bool


def copy_items(folder: str, items: Sequence[Item], target: Path) -> Copy:
    """Copy what a survey of `folder` found into the new directory `target`, read-only and durable.

    Raises `InvalidSkill` for what cannot be read, `LimitExceeded` when it has become too large meanwhile.
    """
    target.mkdir(mode=0o700)
    lines: list[bytes] = []
    files: list[_File] = []
    left = MAX_BYTES
    for item in items:
        path = os.fsencode(item.path)
        if item.kind is Kind.DIRECTORY:
            (target / item.path).mkdir(mode=0o700)
            lines.append(b"d\0%s\0" % path)
        elif item.kind is Kind.LINK:
            (target / item.path).symlink_to(item.target)
            lines.append(b"l\0%s\0%s\0" % (path, os.fsencode(item.target)))
        elif item.kind is Kind.FILE:
            file = _copied(folder, item.path, target / item.path, left)
            files.append(file)
            left -= file.size
            # No part can hold a NUL, so no two folders give the same bytes.
            lines.append(b"%s\0%s\0%s\0" % (b"x" if file.executable else b"f", path, file.digest.encode()))
    _make_lasting(target, items)
    return Copy(hashlib.sha256(b"".join(lines)).hexdigest(), len(files), sum(file.size for file in files))


def _copied(folder: str, path: str, target: Path, limit: int) -> _File:
    digest, size = hashlib.sha256(), 0
    with opened(_open(folder, path)) as source, opened(os.open(target, _NEW, 0o600)) as copy:
        status = os.fstat(source)
        executable = bool(status.st_mode & 0o100)
        # Counted as well as asked for: it may grow while it is read.
        while status.st_size <= limit and (chunk := os.read(source, _CHUNK)) and size <= limit:
            size += len(chunk)
            digest.update(chunk)
            _write(copy, chunk)
        os.fchmod(copy, PROGRAM if executable else FILE)
    if max(size, status.st_size) > limit:
        raise LimitExceeded(f"{folder} has more than {MAX_BYTES // 1024**2} MiB; no skill needs that much")
    return _File(digest.hexdigest(), size, executable)


def _open(folder: str, path: str) -> int:
    try:
        return open_inside(folder, path)
    except OSError as error:
        raise unreadable(folder, path, error) from error
    except ForbiddenPath as error:
        # A link was put there after the survey.
        raise unreadable(folder, path, OSError(0, "it leads out of the skill")) from error


def _write(descriptor: int, chunk: bytes) -> None:
    view = memoryview(chunk)
    while view:
        view = view[os.write(descriptor, view) :]


def _make_lasting(target: Path, items: Sequence[Item]) -> None:
    """Let everything survive a power cut; after all has been written, so that the disk can do it in one go."""
    for item in reversed(items):
        if item.kind is Kind.FILE:
            with opened(os.open(target / item.path, os.O_RDONLY | os.O_CLOEXEC)) as descriptor:
                os.fsync(descriptor)
        elif item.kind is Kind.DIRECTORY:
            _seal(target / item.path)
    _seal(target)


def _seal(directory: Path) -> None:
    with opened(os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as descriptor:
        os.fchmod(descriptor, DIRECTORY)
        os.fsync(descriptor)
