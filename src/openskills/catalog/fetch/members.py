"""What an archive holds, one member after the other, whatever the format."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from openskills.errors import InvalidSkill, LimitExceeded

CHUNK = 65536


class Kind(StrEnum):
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
    kind: Kind
    executable: bool
    chunks: Iterator[bytes]


class Readable(Protocol):
    """Bytes in order; fewer than asked for only at the end."""

    def read(self, size: int, /) -> bytes: ...


class Meter:
    """Counts the bytes that come out of an archive, as they come, and stops a bomb early."""

    def __init__(self, where: str, packed: int, *, total: int, ratio: int, ratio_from: int) -> None:
        self._where = where
        self._packed = packed
        self._total = total
        self._ratio = ratio
        self._ratio_from = ratio_from
        self._entry = ""
        self._count = 0

    def entry(self, name: str) -> None:
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


def corrupt(where: str, what: object) -> InvalidSkill:
    """The error for bytes that are not what their format says."""
    return InvalidSkill(f"{where}: the archive is damaged or incomplete ({what}); make or download it again")
