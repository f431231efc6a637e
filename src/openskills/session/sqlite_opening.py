"""How an SQLite file is made, opened, and brought up to date. Blocking."""

import os
import sqlite3
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from openskills.errors import SessionsUnavailable, SkillError
from openskills.session.schema import RECORD, STEPS, TAKEN, VERSION, Step, missing_steps
from openskills.session.sqlite_asking import Asking

_IS_RECORDED = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'openskills_schema'"
_PAUSE = 0.01
_MAGIC = b"SQLite format 3\0"
_SMALLEST = 512


def opened(path: Path, *, patience: float, steps: tuple[Step, ...] = STEPS) -> Asking:
    """A database that has all tables. What is missing is made, for the owner's eyes only.

    Raises `SkillError` for what cannot be opened, and for a file of a newer version.
    """
    asking = Asking(path, _connected(path, patience))
    try:
        asking.rows(("PRAGMA foreign_keys = ON", ()))
        asking.rows(("PRAGMA synchronous = FULL", ()))
        _log_ahead(asking, time.monotonic() + patience)
        _migrate(asking, steps)
    except BaseException:
        asking.connection.close()
        raise
    return asking


def _connected(path: Path, patience: float) -> sqlite3.Connection:
    try:
        _create(path)
    except OSError as error:
        where = f" ({os.fsdecode(error.filename)})" if error.filename else ""
        message = f"the session store {path} cannot be opened or made: {error.strerror or error}{where}"
        raise SkillError(message, store=str(path)) from error
    # One thread at a time uses it, but it may be another one that closes it.
    with Asking.translated(path):
        return sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)


def _create(path: Path) -> None:
    """An empty file, if there is none; SQLite gives the files beside it the same mode."""
    if path.exists():
        _expect_database(path)
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    for directory in (path.parent, path.parent.parent):
        # One that may not be read was there before.
        with suppress(PermissionError):
            _flush(directory)


def _expect_database(path: Path) -> None:
    # SQLite itself refuses what is no database, unless it is very small: that it writes over.
    if path.is_file() and 0 < path.stat().st_size < _SMALLEST and not path.read_bytes().startswith(_MAGIC):
        raise SkillError(f"the session store {path} is no SQLite database; choose another file", store=str(path))


def _flush(directory: Path) -> None:
    """Make the names in a directory survive a power cut."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _log_ahead(asking: Asking, deadline: float) -> None:
    while True:
        try:
            ((mode,),) = asking.rows(("PRAGMA journal_mode = WAL", ()))
        except SessionsUnavailable:
            # While another process makes the same change SQLite does not wait by itself.
            if time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE)
            continue
        if mode != "wal":
            raise SkillError(
                f"the session store {asking.path} cannot have a write-ahead log (SQLite says {mode!r});"
                " put it on a local disk"
            )
        return


def _migrate(asking: Asking, steps: tuple[Step, ...]) -> None:
    if asking.rows((_IS_RECORDED, ())) and not _missing_steps(asking, steps):
        return
    with asking.transaction("IMMEDIATE"):
        asking.change((RECORD, ()))
        # Asked again: another process may have been faster.
        for version, step in _missing_steps(asking, steps):
            for sql in step:
                asking.change((sql, ()))
            asking.change((TAKEN, (version,)))


def _missing_steps(asking: Asking, steps: tuple[Step, ...]) -> Sequence[tuple[int, Step]]:
    ((version,),) = asking.rows((VERSION, ()))
    return missing_steps(version, place=f"the session store {asking.path}", steps=steps)
