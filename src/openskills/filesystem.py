"""Atomic files, locks, private directories.

Files that appear whole or not at all, and blocks that only one process at a time is in.

Files that are there whole or not at all, also after a crash. Blocking; everything is for the owner's eyes only.

Directories and files that appear whole or not at all.
"""

import errno
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from openskills.errors import SkillError, SourceUnavailable

TEMPORARY_PREFIX = ".arriving-"
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
def lock_file(path: Path) -> Generator[None]:
    """Only one thread of one process at a time is in a block that is locked by the file `path`; the others wait.

    The file is made where it is missing, and stays. The system takes the lock from a process that dies.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _OWNER_ONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:
            raise _error_with_path(path, error) from error
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
        handle, temporary = tempfile.mkstemp(prefix=TEMPORARY_PREFIX, dir=path.parent)
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
            _sync_directory(path.parent)
    except OSError as error:
        raise _error_with_path(path, error) from error
    finally:
        if temporary:
            Path(temporary).unlink(missing_ok=True)


def _sync_directory(directory: Path) -> None:
    """Make the names in a directory survive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _error_with_path(path: Path, error: OSError) -> OSError:
    """The same error with the name that our caller knows."""
    return OSError(error.errno, error.strerror or str(error), str(path))


_FULL = (errno.ENOSPC, errno.EDQUOT)
_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)


def make_private_durable(directory: Path) -> Path:
    """The same directory, which now exists and will after a crash; what had to be made has mode 0700."""
    if not directory.is_dir():
        make_private_durable(directory.parent)
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
def lock_shared(path: Path, *, shared: bool = False) -> Generator[None]:
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
def create_unnamed(directory: Path) -> Generator[tuple[int, Path]]:
    """A new file, open for writing and known to nobody. At the end it is gone, unless it was renamed.

    It is locked as long as it is open, so that `remove_orphans` can tell it from what a killed process left.
    """
    handle, path = _create_locked(directory)
    try:
        yield handle, path
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)


def replace_file_via(target: Path, data: bytes, *, via: Path) -> None:
    """Put a small file in the place of another in one step, durably; `via` is a directory on the same disk."""
    with create_unnamed(via) as (handle, path):
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


def is_disk_full(error: OSError) -> bool:
    """Whether the disk, or this user's share of it, has no room left."""
    return error.errno in _FULL


def build_store_error(root: Path, error: OSError) -> SkillError:
    """What went wrong on the disk, as the caller should read it."""
    what = f"{error.strerror or error}"
    if error.filename:
        what += f" ({os.fsdecode(error.filename)})"
    if is_disk_full(error):
        message = f"the disk of the artifact store {root} is full; what was stored before is intact; free some space"
    elif error.errno in _DENIED:
        message = f"the artifact store {root} may not be used by this user: {what}; check its owner and mode"
    else:
        message = f"the artifact store {root} cannot be used: {what}"
    return SkillError(message, store=str(root), errno=errno.errorcode.get(error.errno or 0, "unknown"))


def _create_locked(directory: Path) -> tuple[int, Path]:
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


MONTH = 30 * 24 * 3600.0
_ABANDONED_AFTER = 3600.0
_LOCK = ".lock"


@contextmanager
def scratch_directory(parent: Path) -> Generator[Path]:
    """An empty 0700 directory below `parent` that is gone at the end.

    What killed processes left there more than an hour ago is removed first. An `OSError`, also of the block, becomes
    `SourceUnavailable`.
    """
    temporary: Path | None = None
    try:
        _remove_abandoned(make_private(parent))
        temporary = Path(tempfile.mkdtemp(prefix=TEMPORARY_PREFIX, dir=parent))
        yield temporary
    except OSError as error:
        raise SourceUnavailable(f"cannot write to {parent}: {error.strerror or error}") from error
    finally:
        if temporary:
            shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def replace_directory(into: Path) -> Generator[Path]:
    """A `scratch` directory beside `into` that becomes `into` when the block ends well.

    When somebody else has made `into` in the meantime, theirs stays.
    """
    with scratch_directory(into.parent) as temporary:
        yield temporary
        _move_directory(temporary, into)


def make_private(directory: Path) -> Path:
    """The same directory, which now exists; what had to be made can be read by its owner only."""
    if not directory.is_dir():
        make_private(directory.parent)
        directory.mkdir(mode=0o700, exist_ok=True)
    return directory


@contextmanager
def try_lock_directory(parent: Path) -> Generator[bool]:
    """Only one process at a time is in such a block for `parent`.

    False, and not alone, where no lock can be had, as in a cache that may only be read: then nothing is to be removed.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(lock_file(parent / _LOCK))
            has_lock = True
        except OSError:
            has_lock = False
        yield has_lock


def find_folder(place: Path) -> Path | None:
    """The one folder in `place`, which is noted as used now; None when there is none.

    A folder that was emptied, as cleaners of temporary files do, is none; what is left of it is removed.
    """
    if not place.is_dir():
        return None
    # Looked at and noted in one step, so that nobody who removes what is old comes in between.
    with try_lock_directory(place.parent) as has_lock:
        folder = _find_filled_folder(place)
        with suppress(PermissionError):
            if has_lock and folder:
                os.utime(place)
            elif has_lock:
                _remove_entry(place)
    return folder


def remove_unused(parent: Path, *, after: float, keep: frozenset[str] = frozenset()) -> None:
    """Remove what is below `parent`, except `keep`, and was not used for `after` seconds."""
    limit = time.time() - after
    with try_lock_directory(parent) as has_lock:
        if not has_lock:
            return
        _remove_abandoned(parent)
        for entry in parent.iterdir():
            with suppress(FileNotFoundError, PermissionError):
                if entry.name[0] != "." and entry.name not in keep and entry.lstat().st_mtime < limit:
                    _remove_entry(entry)


def _find_filled_folder(place: Path) -> Path | None:
    try:
        return next((folder for folder in place.iterdir() if any(folder.iterdir())), None)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SourceUnavailable(f"cannot read {place}: {error.strerror}") from error


def _move_directory(temporary: Path, into: Path) -> None:
    try:
        temporary.rename(into)
    except OSError as error:
        # Somebody else was faster; the system says ENOTEMPTY or EEXIST.
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise


def _remove_abandoned(parent: Path) -> None:
    limit = time.time() - _ABANDONED_AFTER
    for entry in parent.glob(f"{TEMPORARY_PREFIX}*"):
        with suppress(FileNotFoundError, PermissionError):
            if entry.lstat().st_mtime < limit:
                _remove_entry(entry)


def _remove_entry(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        # Under another name first: who is killed in the middle leaves nothing that looks complete.
        aside = tempfile.mkdtemp(prefix=TEMPORARY_PREFIX, dir=entry.parent)
        entry.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)
    else:
        entry.unlink(missing_ok=True)
