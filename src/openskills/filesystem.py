"""Atomic files and directories, file locks, private directories. Blocking; everything is readable by its owner only."""

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
"""The name prefix of files and directories that are still being written, next to their final place."""

_OWNER_ONLY = 0o600


def replace_file(path: Path, data: bytes, *, mode: int = _OWNER_ONLY, durable: bool = False) -> None:
    """Write a file atomically: readers see the old content or the new. By default it is for its owner only.

    A link at `path` is replaced, not followed. If `durable`, the new content survives a power failure once this
    returns. Raises an `OSError` that names `path`; then nothing has changed.
    """
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
            flush_directory(path.parent)
    except OSError as error:
        raise _error_with_path(path, error) from error
    finally:
        if temporary:
            Path(temporary).unlink(missing_ok=True)


def rewrite_file(path: Path, data: bytes) -> None:
    """Like `replace_file` for a file that must exist; it keeps its permissions."""
    replace_file(path, data, mode=os.lstat(path).st_mode & 0o777)


@contextmanager
def lock_file(path: Path, *, shared: bool = False) -> Generator[None]:
    """Hold the lock of a file against other threads and processes; the system frees it when the process dies.

    A missing file is created, and stays.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _OWNER_ONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        except OSError as error:
            raise _error_with_path(path, error) from error
        try:
            yield
        finally:
            # Closing alone would not free it while a forked process has a copy of the descriptor.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)


def _error_with_path(path: Path, error: OSError) -> OSError:
    return OSError(error.errno, error.strerror or str(error), str(path))


def flush_directory(directory: Path) -> None:
    """Make the names in a directory survive a power failure."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_all(handle: int, data: bytes) -> None:
    """Write everything at the current position, with as many calls as it takes."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]


@contextmanager
def create_unnamed(directory: Path) -> Generator[tuple[int, Path]]:
    """A new temporary file, open for writing; it is removed at the end unless it was renamed.

    It is locked while it is open, so that `remove_orphans` can tell it from a file of a killed process.
    """
    while True:
        handle, name = tempfile.mkstemp(dir=directory)
        fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:
            break
        # `remove_orphans` removed it between the two calls.
        os.close(handle)
    path = Path(name)
    try:
        yield handle, path
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)


def replace_file_via(target: Path, data: bytes, *, via: Path) -> None:
    """Replace a file atomically and durably; `via` is a directory for temporary files on the same disk."""
    with create_unnamed(via) as (handle, path):
        write_all(handle, data)
        os.fsync(handle)
        path.rename(target)
    flush_directory(target.parent)


def remove_orphans(directory: Path) -> None:
    """Remove the files that `create_unnamed` made in processes that have died."""
    for path in directory.iterdir():
        # It may have been renamed or removed in the meantime. A locked file still has its writer.
        with suppress(FileNotFoundError):
            handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
            except BlockingIOError:
                continue
            finally:
                os.close(handle)


def is_disk_full(error: OSError) -> bool:
    """Whether the disk is full or the user's quota is used up."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def build_store_error(root: Path, error: OSError, *, what: str = "artifact store") -> SkillError:
    """The `SkillError` for a disk error of the artifact store, or whatever it is, in `root`."""
    why = f"{error.strerror or error}"
    if error.filename:
        why += f" ({os.fsdecode(error.filename)})"
    kept = "stored artifacts are" if what == "artifact store" else "what is stored is"
    if is_disk_full(error):
        message = f"the disk of the {what} {root} is full; {kept} intact; free some space"
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        message = f"no permission to use the {what} {root}: {why}; check its owner and mode"
    else:
        message = f"the {what} {root} cannot be used: {why}"
    return SkillError(message, store=str(root), errno=errno.errorcode.get(error.errno or 0, "unknown"))


MONTH = 30 * 24 * 3600.0
_ABANDONED_AFTER = 3600.0


@contextmanager
def scratch_directory(parent: Path) -> Generator[Path]:
    """An empty temporary directory below `parent`, mode 0700, removed at the end.

    Leftovers of killed processes are removed first once they are an hour old. An `OSError`, also of the block, becomes
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
    """A temporary directory that becomes `into` when the block succeeds.

    If another process has created `into` in the meantime, that one stays.
    """
    with scratch_directory(into.parent) as temporary:
        yield temporary
        try:
            temporary.rename(into)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise


def make_private(directory: Path, *, durable: bool = False) -> Path:
    """Create a directory with its parents, mode 0700, and return it; if `durable`, it survives a power failure."""
    if not directory.is_dir():
        make_private(directory.parent, durable=durable)
        directory.mkdir(mode=0o700, exist_ok=True)
        if durable:
            flush_directory(directory.parent)
    return directory


@contextmanager
def try_lock_directory(parent: Path) -> Generator[bool]:
    """Lock a directory against other processes if possible.

    Yields False, without a lock, if it cannot be locked, as in a read-only cache: then remove nothing.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(lock_file(parent / ".lock"))
            has_lock = True
        except OSError:
            has_lock = False
        yield has_lock


def find_folder(place: Path) -> Path | None:
    """The only folder in `place`, marked as used now, or None.

    An empty folder does not count (cleaners of temporary files leave such); it is removed.
    """
    if not place.is_dir():
        return None
    # Checked and marked under one lock, so that `remove_unused` cannot come in between.
    with try_lock_directory(place.parent) as has_lock:
        folder = _find_filled_folder(place)
        with suppress(PermissionError):
            if has_lock and folder:
                os.utime(place)
            elif has_lock:
                _remove_entry(place)
    return folder


def remove_unused(parent: Path, *, after: float, keep: frozenset[str] = frozenset()) -> None:
    """Remove the entries of `parent`, except `keep`, that were not used for `after` seconds."""
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


def _remove_abandoned(parent: Path) -> None:
    limit = time.time() - _ABANDONED_AFTER
    for entry in parent.glob(f"{TEMPORARY_PREFIX}*"):
        with suppress(FileNotFoundError, PermissionError):
            if entry.lstat().st_mtime < limit:
                _remove_entry(entry)


def _remove_entry(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        # Renamed first, so that nothing that looks complete is left if we are killed in the middle.
        aside = tempfile.mkdtemp(prefix=TEMPORARY_PREFIX, dir=entry.parent)
        entry.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)
    else:
        entry.unlink(missing_ok=True)
