"""Removing a whole directory that hostile programs have filled. Blocking.

However deep it is, a handful of descriptors is open: each directory is first moved up to the top, and emptied there. No
link is followed, no path is built, and what forbids its owner to look into it is allowed again.
"""

import os
import secrets
from contextlib import suppress
from itertools import count
from pathlib import Path

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def delete_tree(path: Path) -> bool:
    """Remove a directory with all that it holds; false when there is none. May be called again after a crash.

    Two processes may do it at once. Raises `NotADirectoryError` for a file or link, and the `OSError` of what the
    system will not let go of.
    """
    try:
        top = open_allowed(str(path), None)
    except FileNotFoundError:
        return False
    try:
        _empty(top)
    finally:
        os.close(top)
    with suppress(FileNotFoundError):
        os.rmdir(path)
    return True


def _empty(top: int) -> None:
    # A second process at the same work must not choose the same names.
    mark, numbers = secrets.token_hex(8), count()
    while waiting := _remove_files(top):
        while waiting:
            name = waiting.pop()
            with suppress(FileNotFoundError):
                descriptor = open_allowed(name, top)
                try:
                    for inner in _remove_files(descriptor):
                        moved = f".{mark}-{next(numbers)}"
                        if _moved_up(inner, descriptor, moved, top):
                            waiting.append(moved)
                finally:
                    os.close(descriptor)
                os.rmdir(name, dir_fd=top)


def _remove_files(descriptor: int) -> list[str]:
    """Remove everything that is no directory; returns the names of the directories."""
    with os.scandir(descriptor) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_directory in found:
        if not is_directory:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=descriptor)
    return [name for name, is_directory in found if is_directory]


def _moved_up(name: str, parent: int, moved: str, top: int) -> bool:
    try:
        try:
            os.rename(name, moved, src_dir_fd=parent, dst_dir_fd=top)
        except PermissionError:
            # Who may not write into a directory may not move it either.
            os.close(open_allowed(name, parent))
            os.rename(name, moved, src_dir_fd=parent, dst_dir_fd=top)
    except FileNotFoundError:
        return False
    return True


def open_allowed(name: str, parent: int | None) -> int:
    """A descriptor of a directory whose owner may do everything in it, from now on at least.

    Raises `NotADirectoryError` for a link, too.
    """
    try:
        descriptor = os.open(name, _DIRECTORY, dir_fd=parent)
    except PermissionError:
        return _open_closed(name, parent)
    if os.fstat(descriptor).st_mode & 0o700 != 0o700:
        os.fchmod(descriptor, 0o700)
    return descriptor


def _open_closed(name: str, parent: int | None) -> int:
    # The name could be exchanged for a link between two calls; what a descriptor stands for cannot.
    place = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        os.chmod(f"/proc/self/fd/{place}", 0o700)
        return os.open(".", _DIRECTORY, dir_fd=place)
    finally:
        os.close(place)
