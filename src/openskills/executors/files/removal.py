"""Removing whatever a script left behind: any depth, any modes, no link followed."""

import errno
import os
import stat
from dataclasses import dataclass

from openskills.executors.files.descent import Descent
from openskills.executors.files.unlocked import open_unlocked

_PASSES = 5
_NOT_YET = frozenset({errno.ENOTEMPTY, errno.EEXIST, errno.ESTALE})


@dataclass(frozen=True, slots=True)
class _Inside:
    """A directory that is being emptied: its name, and the directories in it that are left."""

    name: str
    left: list[str]


def remove_entry(directory: int, name: str) -> bool:
    """Remove a file, link or directory with all it holds from the directory of this descriptor.

    False when there is none. Somebody may add to it meanwhile; an `OSError` says that he was faster, or that we may
    not remove it.
    """
    if not _is_directory(directory, name):
        return _unlink(directory, name)
    for attempt in range(_PASSES):
        try:
            return _remove_directory(directory, name)
        except OSError as error:
            if error.errno not in _NOT_YET or attempt == _PASSES - 1:
                raise
    return False


def _remove_directory(directory: int, name: str) -> bool:
    with Descent(directory) as descent:
        inside: list[_Inside] = []
        left = [name]
        found = False
        while True:
            if left:
                below = left.pop()
                if _enter(descent, below):
                    inside.append(_Inside(below, left))
                    left = _emptied(descent.descriptor)
                    found = True
            elif inside:
                done = inside.pop()
                descent.leave()
                os.rmdir(done.name, dir_fd=descent.descriptor)
                left = done.left
            else:
                return found


def _enter(descent: Descent, name: str) -> bool:
    try:
        descent.follow(open_unlocked(name, descent.descriptor))
    except FileNotFoundError:
        return False
    except NotADirectoryError:
        # It was one a moment ago.
        _unlink(descent.descriptor, name)
        return False
    return True


def _emptied(descriptor: int) -> list[str]:
    """Remove everything that is no directory; what is left are the names of those."""
    left: list[str] = []
    with os.scandir(descriptor) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                left.append(entry.name)
            else:
                _unlink(descriptor, entry.name)
    return left


def _unlink(directory: int, name: str) -> bool:
    try:
        os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        return False
    return True


def _is_directory(directory: int, name: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False
