"""A file that has no name until it is whole, so that nobody sees half of it and a killed process leaves nothing."""

import errno
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from openskills.errors import SkillError

_ARRIVING = ".arriving-"
_MODE = 0o600
_PRIVATE = 0o700
_FILE, _DIRECTORY = 0o644, 0o755
_NO_TEMPORARY = (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL)


@contextmanager
def arriving(directory: int, name: str) -> Generator[BinaryIO]:
    """A file to be written, which takes the place of `name` in an open directory when the block ends well.

    What was there before is replaced; a link is replaced and not followed. Raises `SkillError` when nothing can be
    written there.
    """
    temporary = f"{_ARRIVING}{os.urandom(8).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        nameless = _nameless(directory)
        descriptor = os.open(temporary, flags, _MODE, dir_fd=directory) if nameless is None else nameless
    except OSError as error:
        raise not_writable(name, error) from error
    named = nameless is None
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            open_like(directory, descriptor)
            if not named:
                # Nothing can be linked over an existing file, so it needs a name of its own for a moment.
                os.link(f"/proc/self/fd/{descriptor}", temporary, dst_dir_fd=directory)
                named = True
        os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        if named:
            os.unlink(temporary, dir_fd=directory)
        raise


def make_directory(parent: int, name: str) -> None:
    """Make a directory in an open one, unless it is there; raises `SkillError` when that is not allowed."""
    try:
        os.mkdir(name, _PRIVATE, dir_fd=parent)
        made = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    except FileExistsError:
        return
    except OSError as error:
        raise not_writable(name, error) from error
    try:
        open_like(parent, made)
    finally:
        os.close(made)


def open_like(directory: int, made: int) -> None:
    """Let those see something who see the directory that it is in, whatever the umask of the skill: others read it."""
    mask = _DIRECTORY if stat.S_ISDIR(os.fstat(made).st_mode) else _FILE
    # Not every file system knows permissions.
    with suppress(OSError):
        os.fchmod(made, os.fstat(directory).st_mode & mask)


def not_writable(name: str, error: OSError) -> SkillError:
    """What to tell whoever asked for a file that the system does not let us make."""
    denied = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
    hint = "; its manifest has to say `writable: true`, and its user has to own the directory" if denied else ""
    return SkillError(f"{name!r} cannot be written: {error.strerror}{hint}")


def _nameless(directory: int) -> int | None:
    """A descriptor of a file without a name; None where the system has none, or could not name it later."""
    kind = getattr(os, "O_TMPFILE", None)
    if kind is None or not os.path.isdir("/proc/self/fd"):
        return None
    try:
        return os.open(".", kind | os.O_WRONLY | os.O_CLOEXEC, _MODE, dir_fd=directory)
    except OSError as error:
        if error.errno in _NO_TEMPORARY:
            return None
        raise
