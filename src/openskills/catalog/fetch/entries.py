"""The names of files that arrive from outside: each is judged alone, and against those that came before."""

import re
import unicodedata
from pathlib import PurePosixPath

from openskills.errors import ForbiddenPath, InvalidArgument, InvalidSkill, LimitExceeded
from openskills.paths import relative

MAX_NAME = 1024
MAX_DEPTH = 32
MAX_ENTRIES = 10_000
_DRIVE = re.compile(r"[A-Za-z]:")


def is_plain(name: str) -> bool:
    """Whether a name from outside can be the name of a folder as it is."""
    return 0 < len(name) <= 64 and name[0] not in ".-" and all(char.isalnum() or char in "-_." for char in name)


class Entries:
    """The names taken so far in one tree, at most `most` with those of the folders. `where` names the tree in messages.

    Two names that differ only in case or in Unicode normalisation clash, because on some file systems they are one
    file, and which of them survives would depend on the machine.
    """

    def __init__(self, where: str, most: int = MAX_ENTRIES) -> None:
        self._where = where
        self._most = most
        self._taken: dict[str, tuple[str, bool]] = {}

    def file(self, name: str) -> PurePosixPath:
        """The path of a new file; raises a `SkillError` that names the entry and the reason."""
        path = self._checked(name)
        if self._claim(path, is_directory=False):
            raise InvalidSkill(f"{self._where}: {name!r} appears twice; keep one of them")
        return path

    def directory(self, name: str) -> PurePosixPath:
        """The path of a directory, which may be named more than once."""
        path = self._checked(name)
        self._claim(path, is_directory=True)
        return path

    def _checked(self, name: str) -> PurePosixPath:
        if "\\" in name:
            raise ForbiddenPath(f"{self._where}: {name!r} has a backslash; separate folders with '/'")
        if _DRIVE.match(name):
            raise ForbiddenPath(f"{self._where}: {name!r} begins with a drive; use a relative name")
        path = relative(name, field=self._where)
        if len(name) > MAX_NAME or len(path.parts) > MAX_DEPTH:
            shown = f"{name[:60]!r}..."
            limit = f"{MAX_NAME} characters and {MAX_DEPTH} levels"
            raise InvalidArgument(self._where, f"{shown} is too long or too deep; at most {limit}")
        return path

    def _claim(self, path: PurePosixPath, *, is_directory: bool) -> bool:
        """Take `path` and its parents; says whether `path` was taken before."""
        for parent in list(path.parents)[-2::-1]:
            self._take(str(parent), is_directory=True)
        known = self._take(str(path), is_directory=is_directory)
        if len(self._taken) > self._most:
            reason = f"is one too many; at most {self._most:,} files and folders are unpacked"
            raise LimitExceeded(f"{self._where}: {str(path)!r} {reason}")
        return known

    def _take(self, name: str, *, is_directory: bool) -> bool:
        key = _key(name)
        if key not in self._taken:
            self._taken[key] = (name, is_directory)
            return False
        other, other_is_directory = self._taken[key]
        if other != name:
            reason = "differ only in case or in their Unicode form; rename one of them"
            raise InvalidSkill(f"{self._where}: {other!r} and {name!r} {reason}")
        if other_is_directory != is_directory:
            raise InvalidSkill(f"{self._where}: {name!r} is both a file and a folder; rename one of them")
        return True


def _key(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
