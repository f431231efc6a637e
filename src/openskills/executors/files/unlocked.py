"""Directories that their owner made unreadable, opened all the same."""

import os
import stat

from openskills.executors.files.openat2 import PATH_ONLY

_FLAGS = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ALL = 0o700


def open_unlocked(name: str, directory: int) -> int:
    """A descriptor for the directory `name` in the directory of this descriptor, which we may read and change.

    When its modes say otherwise and it is ours, they are changed, for good. A link is an `OSError`.
    """
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | _FLAGS, dir_fd=directory)
    except PermissionError:
        return _unlocked(name, directory)
    if not _has_all(descriptor):
        os.fchmod(descriptor, _ALL)
    return descriptor


def _unlocked(name: str, directory: int) -> int:
    # By the descriptor of the very directory: a name could be another thing by now, and chmod follows links.
    path = os.open(name, PATH_ONLY | _FLAGS, dir_fd=directory)
    try:
        os.chmod(f"/proc/self/fd/{path}", _ALL)
        return os.open(f"/proc/self/fd/{path}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    finally:
        os.close(path)


def _has_all(descriptor: int) -> bool:
    return stat.S_IMODE(os.fstat(descriptor).st_mode) & _ALL == _ALL
