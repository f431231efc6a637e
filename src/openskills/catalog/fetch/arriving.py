"""Directories and files that appear whole or not at all."""

import errno
import os
import shutil
import tempfile
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from openskills.errors import SourceUnavailable
from openskills.files import ARRIVING, locked

MONTH = 30 * 24 * 3600.0
_ABANDONED_AFTER = 3600.0
_LOCK = ".lock"


@contextmanager
def scratch(parent: Path) -> Generator[Path]:
    """An empty 0700 directory below `parent` that is gone at the end.

    What killed processes left there more than an hour ago is removed first. An `OSError`, also of the block, becomes
    `SourceUnavailable`.
    """
    temporary: Path | None = None
    try:
        _sweep(private(parent))
        temporary = Path(tempfile.mkdtemp(prefix=ARRIVING, dir=parent))
        yield temporary
    except OSError as error:
        raise SourceUnavailable(f"cannot write to {parent}: {error.strerror or error}") from error
    finally:
        if temporary:
            shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def arriving(into: Path) -> Generator[Path]:
    """A `scratch` directory beside `into` that becomes `into` when the block ends well.

    When somebody else has made `into` in the meantime, theirs stays.
    """
    with scratch(into.parent) as temporary:
        yield temporary
        _move(temporary, into)


def private(directory: Path) -> Path:
    """The same directory, which now exists; what had to be made can be read by its owner only."""
    if not directory.is_dir():
        private(directory.parent)
        directory.mkdir(mode=0o700, exist_ok=True)
    return directory


@contextmanager
def alone(parent: Path) -> Generator[bool]:
    """Only one process at a time is in such a block for `parent`.

    False, and not alone, where no lock can be had, as in a cache that may only be read: then nothing is to be removed.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(parent / _LOCK))
            has_lock = True
        except OSError:
            has_lock = False
        yield has_lock


def found(place: Path) -> Path | None:
    """The one folder in `place`, which is noted as used now; None when there is none.

    A folder that was emptied, as cleaners of temporary files do, is none; what is left of it is removed.
    """
    if not place.is_dir():
        return None
    # Looked at and noted in one step, so that nobody who removes what is old comes in between.
    with alone(place.parent) as has_lock:
        folder = _filled(place)
        with suppress(PermissionError):
            if has_lock and folder:
                os.utime(place)
            elif has_lock:
                _remove(place)
    return folder


def forget(parent: Path, *, after: float, keep: frozenset[str] = frozenset()) -> None:
    """Remove what is below `parent`, except `keep`, and was not used for `after` seconds."""
    limit = time.time() - after
    with alone(parent) as has_lock:
        if not has_lock:
            return
        _sweep(parent)
        for entry in parent.iterdir():
            with suppress(FileNotFoundError, PermissionError):
                if entry.name[0] != "." and entry.name not in keep and entry.lstat().st_mtime < limit:
                    _remove(entry)


def _filled(place: Path) -> Path | None:
    try:
        return next((folder for folder in place.iterdir() if any(folder.iterdir())), None)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SourceUnavailable(f"cannot read {place}: {error.strerror}") from error


def _move(temporary: Path, into: Path) -> None:
    try:
        temporary.rename(into)
    except OSError as error:
        # Somebody else was faster; the system says ENOTEMPTY or EEXIST.
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise


def _sweep(parent: Path) -> None:
    limit = time.time() - _ABANDONED_AFTER
    for entry in parent.glob(f"{ARRIVING}*"):
        with suppress(FileNotFoundError, PermissionError):
            if entry.lstat().st_mtime < limit:
                _remove(entry)


def _remove(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        # Under another name first: who is killed in the middle leaves nothing that looks complete.
        aside = tempfile.mkdtemp(prefix=ARRIVING, dir=entry.parent)
        entry.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)
    else:
        entry.unlink(missing_ok=True)
