"""The files that can be manifests: where they lie, and reading one that may be anything."""

import os
import stat
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from openskills.errors import ForbiddenPath, InvalidArgument
from openskills.host.registry.yaml_text import MAX_MANIFEST_BYTES, too_large
from openskills.paths import open_inside, printable
from openskills.skillmd.problem import Problem

SUFFIXES = (".yaml", ".yml", ".json")
MOST_FILES = 10_000
"""Manifests and scripts of one directory that are looked at."""

_TICK = 100_000_000
"""Nanoseconds; the kernels we know count file times in steps of at most a tenth of that."""

Stamp = tuple[int, int, int, int]
"""Modified, changed (nanoseconds), size, inode: as long as these are the same, so is the content."""


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """A file below one of the host's directories. `skill` is the id that its name gives."""

    root: Path
    name: str
    skill: str

    @property
    def path(self) -> Path:
        """Where it is."""
        return self.root / self.name

    @property
    def is_json(self) -> bool:
        """Whether it is JSON by its name."""
        return self.name.endswith(".json")


@dataclass(frozen=True, slots=True)
class Directory:
    """What a directory holds, sorted by name: manifests, Python scripts, and what is wrong with the directory."""

    manifests: tuple[ManifestFile, ...] = ()
    scripts: tuple[ManifestFile, ...] = ()
    problems: tuple[Problem, ...] = ()


def look(directory: Path) -> Directory:
    """The manifests of a directory (`*.yaml`, `*.yml`, `*.json`, `<id>/manifest.yaml`) and the scripts in it.

    Names that begin with a dot or an underscore are somebody's own business. A directory that is not there is empty.
    """
    try:
        with os.scandir(directory) as entries:
            names = sorted((entry.name, _is_directory(entry)) for entry in entries if entry.name[0] not in "._")
    except FileNotFoundError:
        return Directory()
    except OSError as error:
        message = f"the directory cannot be read: {error.strerror or error}"
        return Directory(problems=(Problem("directory-unreadable", message, path=str(directory)),))
    problems = ()
    if len(names) > MOST_FILES:
        message = f"the directory has {len(names):,} files; the first {MOST_FILES:,} by name are looked at"
        problems = (Problem("directory-size", message, path=str(directory)),)
    return _sorted(directory, names[:MOST_FILES], problems)


def _sorted(directory: Path, names: Iterable[tuple[str, bool]], problems: tuple[Problem, ...]) -> Directory:
    manifests: list[ManifestFile] = []
    scripts: list[ManifestFile] = []
    for name, is_directory in names:
        stem, suffix = os.path.splitext(name)
        skill = printable(stem)
        if is_directory:
            manifests += manifests_in(directory, name)
        elif suffix in SUFFIXES:
            manifests.append(ManifestFile(directory, name, skill))
        elif suffix == ".py":
            scripts.append(ManifestFile(directory, name, skill))
    return Directory(tuple(manifests), tuple(scripts), problems)


def manifests_in(directory: Path, folder: str) -> list[ManifestFile]:
    """The manifest of one skill's folder; more than one where somebody has written more than one."""
    names = (f"{folder}/manifest{suffix}" for suffix in SUFFIXES)
    return [ManifestFile(directory, name, printable(folder)) for name in names if os.path.lexists(directory / name)]


def stamp_of(path: str | Path) -> Stamp | None:
    """The stamp of a file; None where there is none."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return _stamp(status)


def read(file: ManifestFile) -> tuple[Stamp | None, bytes, Problem | None]:
    """The stamp and bytes of a file, or the problem with it. There is no stamp while the file may still be changing.

    A link is followed as long as it stays below the directory; a FIFO is not waited for.
    """
    try:
        descriptor = open_inside(str(file.root), file.name)
    except (ForbiddenPath, InvalidArgument):
        message = "the file is a link that leads out of its directory; put the file itself there"
        return None, b"", Problem("link-leaves", message)
    except OSError as error:
        return None, b"", _unreadable(error)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return None, b"", Problem("file-type", "this is no file that can be read")
        if status.st_size > MAX_MANIFEST_BYTES:
            return _settled(status), b"", too_large(status.st_size)
        # One byte more, so that a file that grows in this moment is not taken for a whole one.
        return _settled(status), os.read(descriptor, MAX_MANIFEST_BYTES + 1), None
    except OSError as error:
        return None, b"", _unreadable(error)
    finally:
        os.close(descriptor)


def _stamp(status: os.stat_result) -> Stamp:
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)


def _settled(status: os.stat_result) -> Stamp | None:
    """The stamp, unless the next change could leave it as it is: clocks of file systems tick slowly."""
    return _stamp(status) if time.time_ns() - status.st_ctime_ns > _TICK else None


def _unreadable(error: OSError) -> Problem:
    return Problem("file-unreadable", f"the file cannot be read: {error.strerror or error}")


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
