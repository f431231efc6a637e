"""Archive members independent of the format, and checks of their names and sizes."""

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
    """The kind of a member; only the first two can be unpacked."""

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
    """One entry. `chunks` yields its bytes; exhaust it before the next member."""

    name: str
    kind: MemberKind
    executable: bool
    chunks: Iterator[bytes]


class ByteStream(Protocol):
    """Bytes in order; fewer than asked for only at the end."""

    def read(self, size: int, /) -> bytes: ...


class UnpackMeter:
    """Counts the unpacked bytes of an archive, and stops an archive bomb early."""

    def __init__(self, where: str, packed: int, *, total: int, ratio: int, ratio_from: int) -> None:
        self._where = where
        self._packed = packed
        self._total = total
        self._ratio = ratio
        self._ratio_from = ratio_from
        self._entry = ""
        self._count = 0

    def start_entry(self, name: str) -> None:
        """Name the entry of the following bytes."""
        self._entry = f" with the entry {name!r}"

    def add(self, count: int) -> None:
        """Count bytes; raises `LimitExceeded` for too many, in total or relative to the size of the archive."""
        self._count += count
        what = f"{self._where}: unpacks to more than"
        if self._count > self._total:
            raise LimitExceeded(f"{what} {self._total:,} bytes{self._entry}; make it smaller")
        if self._count > max(self._ratio_from, self._ratio * self._packed):
            ratio = f"{self._ratio} times its own size"
            raise LimitExceeded(f"{what} {ratio}{self._entry}; this looks like an archive bomb")


def corrupt_archive(where: str, what: object) -> InvalidSkill:
    """The error for a damaged archive."""
    return InvalidSkill(f"{where}: the archive is damaged or incomplete ({what}); create or download it again")


MAX_NAME = 1024
MAX_DEPTH = 32
MAX_ENTRIES = 10_000
_DRIVE = re.compile(r"[A-Za-z]:")


def is_plain_name(name: str) -> bool:
    """Whether an untrusted name can be used as a folder name unchanged."""
    return 0 < len(name) <= 64 and name[0] not in ".-" and all(char.isalnum() or char in "-_." for char in name)


class EntryNames:
    """The names used so far in one tree, at most `max_entries` with folders. `where` names the tree in messages.

    Names that differ only in case or Unicode normalization are refused: on some file systems they are the same file.
    """

    def __init__(self, where: str, max_entries: int = MAX_ENTRIES) -> None:
        self._where = where
        self._max_entries = max_entries
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
            raise ForbiddenPath(f"{self._where}: {name!r} contains a backslash; separate folders with '/'")
        if _DRIVE.match(name):
            raise ForbiddenPath(f"{self._where}: {name!r} starts with a drive letter; use a relative name")
        path = parse_relative(name, field=self._where)
        if len(name) > MAX_NAME or len(path.parts) > MAX_DEPTH:
            limit = f"the limit is {MAX_NAME} characters and {MAX_DEPTH} levels"
            raise InvalidArgument(self._where, f"{name[:60]!r}... is too long or too deep; {limit}")
        return path

    def _claim(self, path: PurePosixPath, *, is_directory: bool) -> bool:
        """Register `path` and its parents; returns whether `path` was known before."""
        for parent in list(path.parents)[-2::-1]:
            self._take(str(parent), is_directory=True)
        known = self._take(str(path), is_directory=is_directory)
        if len(self._taken) > self._max_entries:
            limit = f"more than {self._max_entries:,} files and folders"
            raise LimitExceeded(f"{self._where}: {limit} with {str(path)!r}")
        return known

    def _take(self, name: str, *, is_directory: bool) -> bool:
        key = unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
        if key not in self._taken:
            self._taken[key] = (name, is_directory)
            return False
        other, other_is_directory = self._taken[key]
        if other != name:
            reason = "differ only in case or Unicode form; rename one of them"
            raise InvalidSkill(f"{self._where}: {other!r} and {name!r} {reason}")
        if other_is_directory != is_directory:
            raise InvalidSkill(f"{self._where}: {name!r} is both a file and a folder; rename one of them")
        return True
