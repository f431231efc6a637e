"""What workspaces may hold, and what they do hold. Blocking."""

import os
from dataclasses import dataclass
from pathlib import Path

from openskills.errors import LimitExceeded
from openskills.executors.files.beneath import open_writable_directory
from openskills.executors.spec import GIB, MIB, SKILLS, VENV, WorkspaceUsage

_MAX_OPEN = 64
_BLOCK = 512
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Quota:
    """What one workspace may hold, how many there may be, and what has to stay free on the disk."""

    max_bytes: int = GIB
    max_files: int = 50_000
    max_workspaces: int = 1000
    min_free_bytes: int = 256 * MIB

    def describe_excess(self, usage: WorkspaceUsage) -> str:
        """A sentence that names the limit which a workspace has passed; empty when there is none."""
        if usage.bytes > self.max_bytes:
            return f"the workspace holds {usage.bytes:,} bytes; {self.max_bytes:,} is the most"
        if usage.files > self.max_files:
            return f"the workspace holds {usage.files:,} files and directories; {self.max_files:,} is the most"
        return ""


def read_free_bytes(place: Path) -> int:
    """What is left of the disk that a directory lies on, for us."""
    disk = os.statvfs(place)
    return disk.f_bavail * disk.f_frsize


def check_free_space(place: Path, quota: Quota) -> None:
    """Raises `LimitExceeded` when less is left on the disk of this directory than has to stay free."""
    free = read_free_bytes(place)
    if free < quota.min_free_bytes:
        raise LimitExceeded(
            f"the disk of {place} has {free:,} bytes left, and {quota.min_free_bytes:,} have to stay free; make room, "
            "for example with `openskills workspaces clean`"
        )


def measure_usage(tree: Path, *, most_files: int = 1_000_000) -> WorkspaceUsage:
    """What a workspace takes of the disk, without its staged skills: those are shared, and not its own doing.

    Links are not followed, and a file with many names counts once. Stops at `most_files`. What cannot be looked into,
    or is moved elsewhere meanwhile, is left out.
    """
    count = _UsageCounter(most_files)
    try:
        top = os.open(tree, _OPEN)
    except FileNotFoundError:
        return WorkspaceUsage(0, 0)
    try:
        for name in count.count_entries(top, without=SKILLS):
            count.count_tree(name, top)
        for place in _list_environments(top):
            count.count_tree(place, top)
    finally:
        os.close(top)
    return WorkspaceUsage(count.bytes, count.files)


def _list_environments(top: int) -> list[str]:
    try:
        skills = os.open(SKILLS, _OPEN, dir_fd=top)
    except OSError:
        return []
    try:
        return [f"{SKILLS}/{name}/{VENV}" for name in os.listdir(skills)]
    finally:
        os.close(skills)


def _open_directory(name: str, parent: int) -> int:
    try:
        return os.open(name, _OPEN, dir_fd=parent)
    except PermissionError:
        # A directory that its owner closed would hide from us what it holds.
        return open_writable_directory(name, parent)


class _QuotaLevel:
    """A directory on the way down, and what is still to be looked at in it."""

    def __init__(self, descriptor: int, names: list[str]) -> None:
        self.descriptor = descriptor
        self.names = names
        status = os.fstat(descriptor)
        self.identity = (status.st_dev, status.st_ino)

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def reopen_from(self, child: int) -> None:
        """Come back to a directory that was closed on the way down; what is left of it is given up if it moved."""
        try:
            self.descriptor = os.open("..", _OPEN, dir_fd=child)
            status = os.fstat(self.descriptor)
            moved = (status.st_dev, status.st_ino) != self.identity
        except OSError:
            moved = True
        if moved:
            self.names = []


class _UsageCounter:
    """Adds up, however deep it goes, with at most so many descriptors open."""

    def __init__(self, most_files: int) -> None:
        self.bytes = 0
        self.files = 0
        self._most = most_files
        self._seen: set[tuple[int, int]] = set()

    def count_tree(self, name: str, parent: int) -> None:
        """Everything in a directory."""
        levels = [_QuotaLevel(os.dup(parent), [name])]
        try:
            while levels:
                if levels[-1].names:
                    self._descend(levels)
                else:
                    done = levels.pop()
                    if levels and levels[-1].descriptor < 0:
                        levels[-1].reopen_from(done.descriptor)
                    done.close()
        finally:
            for level in levels:
                level.close()

    def _descend(self, levels: list[_QuotaLevel]) -> None:
        name = levels[-1].names.pop()
        if self.files > self._most:
            return
        try:
            inner = _open_directory(name, levels[-1].descriptor)
        except OSError:
            return  # gone, or exchanged for something else
        level = _QuotaLevel(inner, [])
        levels.append(level)
        level.names = self.count_entries(inner)
        if len(levels) > _MAX_OPEN:
            levels[-_MAX_OPEN].close()

    def count_entries(self, descriptor: int, *, without: str = "") -> list[str]:
        """Count what is in a directory; returns the names of the directories in it."""
        directories: list[str] = []
        with os.scandir(descriptor) as entries:
            for entry in entries:
                if entry.name == without:
                    continue
                self.files += 1
                if self.files > self._most:
                    break
                self._add(entry)
                if entry.is_dir(follow_symlinks=False):
                    directories.append(entry.name)
        return directories

    def _add(self, entry: os.DirEntry[str]) -> None:
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            return
        if status.st_nlink > 1 and not entry.is_dir(follow_symlinks=False):
            key = (status.st_dev, status.st_ino)
            if key in self._seen:
                return
            self._seen.add(key)
        # Blocks and not the size: a file with holes takes what is in it.
        self.bytes += status.st_blocks * _BLOCK
