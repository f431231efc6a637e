"""A temporary directory that lives as long as the host that made it. What a killed host has left, the next removes.

A lock says whether the owner lives: the system takes it from a process that dies. It lies beside what the directory is
for, where no skill that clears its home gets at it. Blocking.
"""

import os
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from openskills.executors.records import locks
from openskills.executors.records.delete import delete_tree

PREFIX = "openskills-host-"
_CONTENT = "content"


class OwnDirectory:
    """A new one, below `parent` or where temporary files are; nobody but this user can look into it."""

    def __init__(self, parent: Path | None = None) -> None:
        self._whole = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        self._lock = locks.take(self._whole)
        if self._lock is not None:
            locks.sign(self._lock)
        self.path = self._whole / _CONTENT
        self.path.mkdir(mode=0o700)

    def remove(self) -> None:
        """Remove it with all that it holds; what cannot be removed now is left to the next host."""
        with suppress(OSError):
            _remove(self._whole)
        if self._lock is not None:
            locks.give_back(self._lock)
            self._lock = None


def remove_those_of_the_dead(parent: Path | None = None) -> int:
    """Remove the directories of this user whose owner lives no more; returns how many.

    One without a signed lock is not touched: it is somebody else's, or is being made.
    """
    place, removed = parent or Path(tempfile.gettempdir()), 0
    for name in os.listdir(place):
        if name.startswith(PREFIX):
            # Gone meanwhile, or not to be looked into: neither is ours to remove.
            with suppress(OSError):
                removed += _removed_if_dead(place / name)
    return removed


def _removed_if_dead(whole: Path) -> bool:
    if not _is_ours(whole.lstat(), stat.S_ISDIR) or not _is_signed(whole / locks.NAME):
        return False
    lock = locks.take(whole)
    if lock is None:
        return False
    try:
        _remove(whole)
    finally:
        locks.give_back(lock)
    return True


def _is_signed(lease: Path) -> bool:
    status = lease.lstat()
    return _is_ours(status, stat.S_ISREG) and status.st_size > 0


def _is_ours(status: os.stat_result, is_kind: Callable[[int], bool]) -> bool:
    return is_kind(status.st_mode) and status.st_uid == os.geteuid()


def _remove(whole: Path) -> None:
    # The lock goes last: as long as it is there, whoever comes next can see that this was to be removed.
    delete_tree(whole / _CONTENT)
    delete_tree(whole)
