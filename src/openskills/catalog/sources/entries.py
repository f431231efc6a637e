"""Names and sizes of members.

What an archive holds, one member after the other, whatever the format.

The names of files that arrive from outside: each is judged alone, and against those that came before.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Protocol

from openskills.errors import ForbiddenPath, InvalidArgument, InvalidSkill, LimitExceeded
from openskills.paths import parse_relative

CHUNK = 65536


class MemberKind(StrEnum):
    """What a member is; only the first two can be unpacked."""

    FILE = "file"
    DIRECTORY = "directory"
    SYMBOLIC_LINK = "symbolic link"
    HARD_LINK = "hard link"
    DEVICE = "device"
    FIFO = "named pipe"
    SPARSE = "sparse file"
    UNKNOWN = "entry of an unknown kind"


@dataclass(frozen=True, slots=True)
class Member:
    """One entry. `chunks` yields its bytes; use it up before asking for the next member."""

    name: str
    kind: MemberKind
    executable: bool
    chunks: Iterator[bytes]


class ByteStream(Protocol):
    """Bytes in order; fewer than asked for only at the end."""

    def read(self, size: int, /) -> bytes: ...


class UnpackMeter:
    """Counts the bytes that come out of an archive, as they come, and stops a bomb early."""

    def __init__(self, where: str, packed: int, *, total: int, ratio: int, ratio_from: int) -> None:
        self._where = where
        self._packed = packed
        self._total = total
        self._ratio = ratio
        self._ratio_from = ratio_from
        self._entry = ""
        self._count = 0

    def start_entry(self, name: str) -> None:
        """From now on it is this entry whose bytes come."""
        self._entry = f" with the entry {name!r}"

    def add(self, count: int) -> None:
        """Raises `LimitExceeded` when it becomes too much, in bytes or compared with the size of the archive."""
        self._count += count
        if self._count > self._total:
            what = f"{self._where}: unpacks to more than {self._total:,} bytes{self._entry}"
            raise LimitExceeded(f"{what}; make it smaller")
        if self._count > max(self._ratio_from, self._ratio * self._packed):
            what = f"{self._where}: unpacks to more than {self._ratio} times its own size{self._entry}"
            raise LimitExceeded(f"{what}; this looks like an archive bomb")


def corrupt_archive(where: str, what: object) -> InvalidSkill:
    """The error for bytes that are not what their format says."""
    return InvalidSkill(f"{where}: the archive is damaged or incomplete ({what}); make or download it again")


MAX_NAME = 1024
MAX_DEPTH = 32
MAX_ENTRIES = 10_000
_DRIVE = re.compile(r"[A-Za-z]:")


def is_plain_name(name: str) -> bool:
    """Whether a name from outside can be the name of a folder as it is."""
    return 0 < len(name) <= 64 and name[0] not in ".-" and all(char.isalnum() or char in "-_." for char in name)


class EntryNames:
    """The names taken so far in one tree, at most `most` with those of the folders. `where` names the tree in messages.

    Two names that differ only in case or in Unicode normalisation clash, because on some file systems they are one
    file, and which of them survives would depend on the machine.
    """

    def __init__(self, where: str, most: int = MAX_ENTRIES) -> None:
        self._where = where
        self._most = most
        self._taken: dict[str, tuple[str, bool]] = {}

    def add_file(self, name: str) -> PurePosixPath:
        """The path of a new file; raises a `SkillError` that names the entry and the reason."""
        path = self._parse_path(name)
        if self._claim(path, is_directory=False):
            raise InvalidSkill(f"{self._where}: {name!r} appears twice; keep one of them")
        return path

    def add_directory(self, name: str) -> PurePosixPath:
        """The path of a directory, which may be named more than once."""
        path = self._parse_path(name)
        self._claim(path, is_directory=True)
        return path

    def _parse_path(self, name: str) -> PurePosixPath:
        if "\\" in name:
            raise ForbiddenPath(f"{self._where}: {name!r} has a backslash; separate folders with '/'")
        if _DRIVE.match(name):
            raise ForbiddenPath(f"{self._where}: {name!r} begins with a drive; use a relative name")
        path = parse_relative(name, field=self._where)
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
        key = _fold_name(name)
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


def _fold_name(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
