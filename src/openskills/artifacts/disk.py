"""Files that are there whole or not at all, also after a crash. Blocking; everything is for the owner's eyes only."""

import errno
import fcntl
import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from openskills.errors import SkillError

_FULL = (errno.ENOSPC, errno.EDQUOT)
_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)


def private(directory: Path) -> Path:
    """The same directory, which now exists and will after a crash; what had to be made has mode 0700."""
    if not directory.is_dir():
        private(directory.parent)
        directory.mkdir(mode=0o700, exist_ok=True)
        flush_directory(directory.parent)
    return directory


def flush_directory(directory: Path) -> None:
    """Make the names in a directory survive a loss of power."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_all(handle: int, data: bytes) -> None:
    """Write everything at the current place, however many calls that takes."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]


@contextmanager
def locked(path: Path, *, shared: bool = False) -> Generator[None]:
    """Hold the lock of this file against other threads and processes; the system frees it when the holder dies."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        try:
            yield
        finally:
            # Said aloud: closing would not free it as long as a forked child has a copy of the handle.
            fcntl.flock(handle, fcntl.LOCK_UN)
    finally:
        os.close(handle)


@contextmanager
def arriving(directory: Path) -> Generator[tuple[int, Path]]:
    """A new file, open for writing and known to nobody. At the end it is gone, unless it was renamed.

    It is locked as long as it is open, so that `remove_orphans` can tell it from what a killed process left.
    """
    handle, path = _claimed(directory)
    try:
        yield handle, path
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)


def replace(target: Path, data: bytes, *, via: Path) -> None:
    """Put a small file in the place of another in one step, durably; `via` is a directory on the same disk."""
    with arriving(via) as (handle, path):
        write_all(handle, data)
        os.fsync(handle)
        path.rename(target)
    flush_directory(target.parent)


def remove_orphans(directory: Path) -> None:
    """Remove the files that `arriving` made in processes that are no more."""
    for path in directory.iterdir():
        # Gone in the meantime: it has been renamed, or somebody else removes orphans, too.
        with suppress(FileNotFoundError):
            _remove_orphan(path)


def is_full(error: OSError) -> bool:
    """Whether the disk, or this user's share of it, has no room left."""
    return error.errno in _FULL


def failure(root: Path, error: OSError) -> SkillError:
    """What went wrong on the disk, as the caller should read it."""
    what = f"{error.strerror or error}"
    if error.filename:
        what += f" ({os.fsdecode(error.filename)})"
    if is_full(error):
        message = f"the disk of the artifact store {root} is full; what was stored before is intact; free some space"
    elif error.errno in _DENIED:
        message = f"the artifact store {root} may not be used by this user: {what}; check its owner and mode"
    else:
        message = f"the artifact store {root} cannot be used: {what}"
    return SkillError(message, store=str(root), errno=errno.errorcode.get(error.errno or 0, "unknown"))


def _claimed(directory: Path) -> tuple[int, Path]:
    while True:
        handle, name = tempfile.mkstemp(dir=directory)
        fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:
            return handle, Path(name)
        # Somebody took it for an orphan between the two calls.
        os.close(handle)


def _remove_orphan(path: Path) -> None:
    handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
    except BlockingIOError:
        return  # its writer lives
    finally:
        os.close(handle)
