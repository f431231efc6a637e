"""Directories and files that appear whole or not at all."""

import errno
import os
import shutil
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from openskills.errors import SourceUnavailable
from openskills.files import ARRIVING, replace_file

_ABANDONED_AFTER = 3600.0
_FORGOTTEN_AFTER = 30 * 24 * 3600.0


@contextmanager
def arriving(into: Path) -> Generator[Path]:
    """An empty 0700 directory beside `into` that becomes `into` when the block ends well and vanishes otherwise.

    When somebody else has made `into` in the meantime, theirs stays. What killed processes left beside it more than
    an hour ago is removed first. An `OSError`, also of the block, becomes `SourceUnavailable`.
    """
    temporary: Path | None = None
    try:
        _sweep(private(into.parent))
        temporary = Path(tempfile.mkdtemp(prefix=ARRIVING, dir=into.parent))
        yield temporary
        _move(temporary, into)
    except OSError as error:
        raise SourceUnavailable(f"cannot write to {into.parent}: {error.strerror or error}") from error
    finally:
        if temporary:
            shutil.rmtree(temporary, ignore_errors=True)


def private(directory: Path) -> Path:
    """The same directory, which now exists; what had to be made can be read by its owner only."""
    if not directory.is_dir():
        private(directory.parent)
        directory.mkdir(mode=0o700, exist_ok=True)
    return directory


def put(path: Path, data: bytes) -> None:
    """Write a small file of a cache so that readers see the old content or the new."""
    replace_file(path, data)


def keep_only(parent: Path, names: set[str]) -> None:
    """Remove what is below `parent` except `names` and what is still arriving."""
    for entry in parent.iterdir():
        if entry.name not in names and not entry.name.startswith(ARRIVING):
            _remove(entry)


def in_use(place: Path) -> None:
    """Note that `place` is used now, and remove its neighbours that nobody has used for a month."""
    # A cache that only its owner may read can still be of use; then nothing is noted, and nothing is old.
    with suppress(PermissionError):
        os.utime(place)
        limit = time.time() - _FORGOTTEN_AFTER
        for entry in place.parent.iterdir():
            with suppress(FileNotFoundError):
                if entry.lstat().st_mtime < limit:
                    _remove(entry)


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
        with suppress(FileNotFoundError):
            if entry.lstat().st_mtime < limit:
                _remove(entry)


def _remove(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry, ignore_errors=True)
    else:
        entry.unlink(missing_ok=True)
