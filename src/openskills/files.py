"""Files that appear whole or not at all, and blocks that only one process at a time is in."""

import fcntl
import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

ARRIVING = ".arriving-"
"""How the names of things begin that are still being written. They lie beside what they will become."""

_OWNER_ONLY = 0o600


def replace_file(path: Path, data: bytes) -> None:
    """Write a file that only its owner may read, so that readers see the old content or the new.

    A link at `path` is replaced, not followed. Raises an `OSError` that names `path`; then nothing has changed and
    nothing is left behind.
    """
    _replace(path, data, _OWNER_ONLY, durable=False)


def replace_file_durably(path: Path, data: bytes) -> None:
    """Like `replace_file`; once it has returned, the new content survives a power cut too."""
    _replace(path, data, _OWNER_ONLY, durable=True)


def rewrite_file(path: Path, data: bytes) -> None:
    """Like `replace_file`, for somebody else's file: it must exist, and keeps its permissions."""
    _replace(path, data, os.lstat(path).st_mode & 0o777, durable=False)


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Only one thread of one process at a time is in a block that is locked by the file `path`; the others wait.

    The file is made where it is missing, and stays. The system takes the lock from a process that dies.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _OWNER_ONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:
            raise _about(path, error) from error
        try:
            yield
        finally:
            # Closing alone would not free it while a process that was forked meanwhile has a copy of the descriptor.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)


def _replace(path: Path, data: bytes, mode: int, *, durable: bool) -> None:
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(prefix=ARRIVING, dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            # Not every file system can change a mode, and most files have theirs from the start.
            if mode != _OWNER_ONLY:
                os.fchmod(handle, mode)
            file.write(data)
            if durable:
                file.flush()
                os.fsync(handle)
        os.replace(temporary, path)
        temporary = None
        if durable:
            _settle(path.parent)
    except OSError as error:
        raise _about(path, error) from error
    finally:
        if temporary:
            Path(temporary).unlink(missing_ok=True)


def _settle(directory: Path) -> None:
    """Make the names in a directory survive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _about(path: Path, error: OSError) -> OSError:
    """The same error with the name that our caller knows."""
    return OSError(error.errno, error.strerror or str(error), str(path))
