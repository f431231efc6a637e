"""What is remembered and told about a workspace; it lies beside it, out of the reach of its commands."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from openskills.files import replace_file

_FILE = "record.json"


@dataclass(frozen=True, slots=True)
class Record:
    """Whose workspace it is. Times are seconds since 1970; `uid` is the user of its files, None when that is us."""

    key: str
    executor: str
    created: float
    ttl: float
    uid: int | None = None


@dataclass(frozen=True, slots=True)
class WorkspaceInfo:
    """One workspace, for people: `size` and `files` without staged skills, times in seconds, `holder` is a pid."""

    id: str
    key: str
    executor: str
    size: int
    files: int
    age: float
    idle: float
    ttl: float
    in_use: bool
    holder: int | None = None

    @property
    def expired(self) -> bool:
        """Whether nobody has used it for longer than its time to live."""
        return not self.in_use and self.idle > self.ttl


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What was removed, what is in use and stays, and why something could not be removed."""

    removed: tuple[WorkspaceInfo, ...] = ()
    in_use: tuple[WorkspaceInfo, ...] = ()
    failures: tuple[str, ...] = ()


def write_record(directory: Path, record: Record) -> None:
    """Put the record of a workspace, in one step."""
    replace_file(directory / _FILE, json.dumps(asdict(record)).encode())


def read_record(directory: Path) -> Record | None:
    """The record of a workspace; None when there is none that can be understood."""
    try:
        descriptor = os.open(directory / _FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            fields = json.loads(file.read())
        uid = fields["uid"]
        return Record(
            key=str(fields["key"]),
            executor=str(fields["executor"]),
            created=float(fields["created"]),
            ttl=float(fields["ttl"]),
            uid=None if uid is None else int(uid),
        )
    except (OSError, ValueError, TypeError, KeyError):
        return None
