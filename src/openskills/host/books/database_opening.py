"""How the host's SQLite file is made, opened and brought up to date. Blocking.

It is in WAL mode with `synchronous=NORMAL`: a killed process loses nothing that was committed, a power cut at most the
last moments, and neither damages the file. That is right for what can be asked for again, and costs no flush of the
disk with every commit.
"""

import os
import sqlite3
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from openskills.errors import StoreUnavailable
from openskills.host.books.database_tables import STEPS
from openskills.session.schema import RECORD, TAKEN, VERSION, Step, missing_steps

_IS_RECORDED = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'openskills_schema'"
_PAUSE = 0.01
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_ADVICE = {
    sqlite3.SQLITE_FULL: "the disk is full; free some space",
    sqlite3.SQLITE_READONLY: "this user may not write to it; check the owner and mode of the file and its directory",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; check that it is a file, and that its directory can be written to",
    sqlite3.SQLITE_CORRUPT: "it is damaged; move it away, and the host makes a new one",
    sqlite3.SQLITE_NOTADB: "it is no SQLite database; move it away, or choose another file with OPENSKILL_HOST_HISTORY",
    sqlite3.SQLITE_BUSY: "others write to it for too long; try again",
    sqlite3.SQLITE_LOCKED: "others write to it for too long; try again",
}


def opened(path: Path | None, *, patience: float, steps: tuple[Step, ...] = STEPS) -> sqlite3.Connection:
    """A connection to a database that has all tables; `None` is one in memory, that nobody else sees.

    What is missing is made, for the owner's eyes only. Raises `StoreUnavailable` for what cannot be opened, and
    `SkillError` for a file of a newer version. `patience` is how many seconds each step waits for others who write.
    """
    with translated(path):
        if path is not None:
            _create(path)
        connection = sqlite3.connect(
            path or ":memory:", timeout=patience, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA synchronous = NORMAL")
            _log_ahead(connection, time.monotonic() + patience)
            _migrate(connection, path, steps)
        except BaseException:
            connection.close()
            raise
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Generator[None]:
    """All or nothing, after everybody else who writes."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # After some errors SQLite has rolled back by itself.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def translated(path: Path | None) -> Generator[None]:
    """A block in which what SQLite and the file system raise is `StoreUnavailable`."""
    try:
        yield
    except sqlite3.Error as error:
        # The lowest byte is the kind; the rest says more about it.
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        raise _unavailable(path, _ADVICE.get(code, str(error))) from error
    except OSError as error:
        where = f" ({os.fsdecode(error.filename)})" if error.filename else ""
        raise _unavailable(path, f"{error.strerror or error}{where}") from error


def rows(connection: sqlite3.Connection, sql: str, arguments: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Every row of the answer."""
    return connection.execute(sql, arguments).fetchall()


def _unavailable(path: Path | None, what: str) -> StoreUnavailable:
    place = "in memory" if path is None else str(path)
    return StoreUnavailable(f"the host's database {place} cannot be used: {what}", store=place)


def _create(path: Path) -> None:
    """An empty file, if there is none; SQLite gives the files beside it the same mode."""
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))


def _log_ahead(connection: sqlite3.Connection, deadline: float) -> None:
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            # While another process makes the same change SQLite does not wait by itself.
            if error.sqlite_errorcode not in _BUSY or time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE)
            continue
        return


def _migrate(connection: sqlite3.Connection, path: Path | None, steps: tuple[Step, ...]) -> None:
    if rows(connection, _IS_RECORDED) and not _missing(connection, path, steps):
        return
    with transaction(connection):
        connection.execute(RECORD)
        # Asked again: another process may have been faster.
        for version, step in _missing(connection, path, steps):
            for sql in step:
                connection.execute(sql)
            connection.execute(TAKEN.replace("$1", "?"), (version,))


def _missing(connection: sqlite3.Connection, path: Path | None, steps: tuple[Step, ...]) -> list[tuple[int, Step]]:
    ((version,),) = rows(connection, VERSION)
    return missing_steps(version, place=f"the host's database {path}", steps=steps)
