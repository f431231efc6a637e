"""Disk quota and usage of workspaces. Blocking."""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from openskills.arguments import check_arguments
from openskills.errors import LimitExceeded
from openskills.executors.files.descriptors import DirectoryCursor, auto_close, open_with_full_access
from openskills.executors.spec import GIB, MIB, SKILLS, WorkspaceUsage
from openskills.executors.staging.mount import StagedRecord, read_record
from openskills.filesystem import TEMPORARY_PREFIX

_BLOCK = 512
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@check_arguments
@dataclass(frozen=True, slots=True)
class Quota:
    """The limits of one workspace, the number of workspaces, and the disk space that must stay free."""

    max_bytes: int = GIB
    max_files: int = 50_000
    max_workspaces: int = 1000
    min_free_bytes: int = 256 * MIB

    def describe_excess(self, usage: WorkspaceUsage) -> str:
        """A message that names the exceeded limit; empty if there is none."""
        if usage.bytes > self.max_bytes:
            return f"the workspace has {usage.bytes:,} bytes; the maximum is {self.max_bytes:,}"
        if usage.files > self.max_files:
            return f"the workspace has {usage.files:,} files and directories; the maximum is {self.max_files:,}"
        return ""


def read_free_bytes(place: Path) -> int:
    """The free disk space at a directory."""
    disk = os.statvfs(place)
    return disk.f_bavail * disk.f_frsize


def check_free_space(place: Path, quota: Quota) -> None:
    """Raise `LimitExceeded` if the disk of this directory has too little free space."""
    free = read_free_bytes(place)
    if free < quota.min_free_bytes:
        raise LimitExceeded(
            f"the disk of {place} has {free:,} bytes left, and {quota.min_free_bytes:,} must stay free; free some "
            "space, for example with `openskills workspaces clean`"
        )


def measure_usage(tree: Path, *, max_files: int = 1_000_000) -> WorkspaceUsage:
    """The disk usage of a workspace, without the files that were staged as skills.

    Links are not followed, and hard links count once. Stops at `max_files`. Directories that cannot be read, or are
    moved at the same time, are left out.
    """
    count = _UsageCounter(max_files)
    try:
        top = os.open(tree, _OPEN)
    except FileNotFoundError:
        return WorkspaceUsage(0, 0)
    with auto_close(top):
        names, staged = count.count_entries(top, without=SKILLS), list[str]()
        with suppress(OSError), auto_close(os.open(SKILLS, _OPEN, dir_fd=top)) as skills:
            staged = [name for name in os.listdir(skills) if not name.startswith(TEMPORARY_PREFIX)]
        for name in names:
            count.count_tree(name, top)
        for name in staged:
            count.count_skill(f"{SKILLS}/{name}", top, read_record(tree, name))
    return WorkspaceUsage(count.bytes, count.files)


class _UsageCounter:
    """Adds up files and bytes at any depth."""

    def __init__(self, max_files: int) -> None:
        self.bytes = 0
        self.files = 0
        self._max_files = max_files
        self._seen: set[tuple[int, int]] = set()

    def count_tree(self, name: str, parent: int) -> None:
        """Count everything in a directory."""
        with DirectoryCursor(parent) as descent:
            waiting = [[name]]
            while waiting:
                if waiting[-1]:
                    if self._enter(descent, waiting[-1].pop()):
                        waiting.append(self.count_entries(descent.descriptor))
                    continue
                waiting.pop()
                try:
                    if waiting:
                        descent.leave()
                except OSError:
                    # It was moved: the rest of its nearest parents cannot be found from here.
                    del waiting[len(waiting) - descent.leave_moved() :]

    def count_skill(self, name: str, parent: int, staged: StagedRecord | None) -> None:
        """Count what commands added to a staged skill."""
        before = self.bytes, self.files
        self.count_tree(name, parent)
        if staged is not None:
            self.bytes = max(before[0], self.bytes - staged.bytes)
            self.files = max(before[1], self.files - staged.files)

    def _enter(self, descent: DirectoryCursor, name: str) -> bool:
        if self.files > self._max_files:
            return False
        try:
            descent.follow(_open_directory(name, descent.descriptor))
        except OSError:
            return False  # removed, or replaced by something else
        return True

    def count_entries(self, descriptor: int, *, without: str = "") -> list[str]:
        """Count the entries of a directory, and return the names of its subdirectories."""
        directories: list[str] = []
        with os.scandir(descriptor) as entries:
            for entry in entries:
                if entry.name == without:
                    continue
                self.files += 1
                if self.files > self._max_files:
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
        # Blocks instead of the size: sparse files take less.
        self.bytes += status.st_blocks * _BLOCK


def _open_directory(name: str, parent: int) -> int:
    try:
        return os.open(name, _OPEN, dir_fd=parent)
    except PermissionError:
        # A command could hide files in a directory without permissions.
        return open_with_full_access(name, parent)
