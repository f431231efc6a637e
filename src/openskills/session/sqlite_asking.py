"""Questions to an SQLite file, in transactions. Blocking."""

import sqlite3
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from openskills.errors import SessionsUnavailable, SkillError
from openskills.session.tables import Question, Row

_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_ADVICE = {
    sqlite3.SQLITE_FULL: "the disk is full; what was stored before is intact; free some space",
    sqlite3.SQLITE_READONLY: "this user may not write to it; check the owner and mode of the file and its directory",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; check that it is a file, and that its directory can be written to",
}


@dataclass(frozen=True, slots=True)
class Asking:
    """A connection, and the file that it is to. What SQLite raises becomes `SkillError` that names the file."""

    path: Path
    connection: sqlite3.Connection

    def rows(self, question: Question) -> Sequence[Row]:
        """Every row of the answer."""
        with self.translated(self.path):
            return self._execute(question).fetchall()

    def change(self, question: Question) -> int:
        """Change something; how many rows that were."""
        with self.translated(self.path):
            return self._execute(question).rowcount

    @contextmanager
    def transaction(self, kind: str) -> Generator[None]:
        """All or nothing. `IMMEDIATE` waits until nobody else writes; `DEFERRED` reads what was there at one moment."""
        self.change((f"BEGIN {kind}", ()))
        try:
            yield
            self.change(("COMMIT", ()))
        except BaseException:
            # After some errors SQLite has rolled back by itself.
            if self.connection.in_transaction:
                self.change(("ROLLBACK", ()))
            raise

    @staticmethod
    @contextmanager
    def translated(path: Path) -> Generator[None]:
        """A block that raises `SkillError` for what SQLite raises."""
        try:
            yield
        except sqlite3.Error as error:
            raise _failure(path, error) from error

    def _execute(self, question: Question) -> sqlite3.Cursor:
        sql, arguments = question
        # `$1` is a parameter with the name "1" to SQLite.
        return self.connection.execute(sql, {str(number): value for number, value in enumerate(arguments, 1)})


def _failure(path: Path, error: sqlite3.Error) -> SkillError:
    # The lowest byte is the kind; the rest says more about it.
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    store = f"the session store {path}"
    if code in _BUSY:
        return SessionsUnavailable(f"{store} is busy: others write to it for too long; try again", store=str(path))
    if code in _DAMAGED:
        what = f"is damaged, or is no SQLite database ({error}); restore it from a backup, or choose another file"
    else:
        what = f"cannot be used: {_ADVICE.get(code, str(error))}"
    return SkillError(f"{store} {what}", store=str(path), sqlite=getattr(error, "sqlite_errorname", "unknown"))
