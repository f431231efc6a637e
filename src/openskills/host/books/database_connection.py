"""One connection to the host's database that survives the file being moved away. Blocking; for one thread."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from openskills.host.books.database_opening import opened, translated

T = TypeVar("T")

_abandoned: list[sqlite3.Connection] = []
"""Connections that must not be closed, not even by the garbage collector."""


class Connected:
    """A connection that begins with the first use. Where somebody moved the file away, the next use makes a new one."""

    def __init__(self, path: Path | None, patience: float) -> None:
        self._path = path
        self._patience = patience
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None

    def use(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do this with the connection. Raises what it raises; what SQLite raises is `StoreUnavailable`."""
        with translated(self._path):
            return work(self._current())

    def close(self) -> None:
        """Close it; the next use opens another."""
        if self._connection is not None and self._identity == self._now():
            self._connection.close()
        elif self._connection is not None:
            _abandoned.append(self._connection)
        self._connection = None

    def _current(self) -> sqlite3.Connection:
        if self._connection is not None and self._identity != self._now():
            # To close it would remove the write-ahead log of the database that is there now.
            _abandoned.append(self._connection)
            self._connection = None
        if self._connection is None:
            self._connection = opened(self._path, patience=self._patience)
            self._identity = self._now()
        return self._connection

    def _now(self) -> tuple[int, int] | None:
        if self._path is None:
            return None
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return None
        return status.st_dev, status.st_ino
