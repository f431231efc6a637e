"""What a store on disk remembers about one name: lines of text, each with its checksum. Pure.

One record per version; a mark says that everything before it was deleted. A line that a crash cut short is at the end
and was promised to nobody; it counts as not there.
"""

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from openskills.artifacts.store import Artifact

LONGEST = 16 * 1024
"""No line is longer than this, whatever names and ids are in it."""


class DamagedLog(ValueError):
    """A log with a fault that no crash of ours can leave behind."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line: the number of the next version, and the version before it unless the line is a mark."""

    next_version: int = 0
    artifact: Artifact | None = None


@dataclass(frozen=True, slots=True)
class Ending:
    """The last whole line of a log, and where it ends."""

    entry: Entry
    position: int


def record_of(artifact: Artifact, owner: tuple[str, ...]) -> bytes:
    """The line that remembers one version. The owner is there for people who look at the disk."""
    return _line(
        {
            "version": artifact.version,
            "name": artifact.name,
            "owner": owner,
            "size": artifact.size,
            "mime_type": artifact.mime_type,
            "sha256": artifact.sha256,
            "created_at": artifact.created_at.isoformat(),
        }
    )


def mark_of(next_version: int) -> bytes:
    """The line that forgets what is before it, and remembers how far versions had come."""
    return _line({"next_version": next_version})


def versions_in(log: bytes) -> tuple[Artifact, ...]:
    """Every version, oldest first; raises `DamagedLog` when a whole line follows a broken one or is out of order."""
    found: list[Artifact] = []
    expected = 0
    broken = False
    for number, line in enumerate(_lines(log)):
        entry = _entry(line)
        if entry is None:
            broken = True
            continue
        # A mark repeats the number that was to come; at the beginning nothing was before it.
        follows = entry.artifact.version == expected if entry.artifact else entry.next_version == expected or not number
        if broken or not follows:
            raise DamagedLog(f"a record is out of place: {line[:200]!r}")
        if entry.artifact:
            found.append(entry.artifact)
        else:
            found.clear()
        expected = entry.next_version
    return tuple(found)


def ending_of(tail: bytes, *, offset: int = 0) -> Ending | None:
    """The last whole line in the last bytes of a log, which begin at `offset`; None when there is none in them."""
    position = offset + tail.rfind(b"\n") + 1
    for line in reversed(_lines(tail)):
        entry = _entry(line)
        if entry:
            return Ending(entry, position)
        position -= len(line) + 1
    return None


def _lines(log: bytes) -> list[bytes]:
    # JSON escapes line ends, so a line is a record. What follows the last line end is the beginning of one, or nothing.
    return log.split(b"\n")[:-1]


def _line(fields: Mapping[str, object]) -> bytes:
    text = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
    return _checksum(text) + text + b"\n"


def _checksum(text: bytes) -> bytes:
    return b"%08x " % zlib.crc32(text)


def _entry(line: bytes) -> Entry | None:
    """What a line says; None when it is not whole."""
    if line[:9] != _checksum(line[9:]):
        return None
    try:
        fields = json.loads(line[9:])
        if "next_version" in fields:
            return Entry(int(fields["next_version"]))
        artifact = Artifact(
            name=fields["name"],
            version=int(fields["version"]),
            size=int(fields["size"]),
            mime_type=fields["mime_type"],
            sha256=fields["sha256"],
            created_at=datetime.fromisoformat(fields["created_at"]),
        )
    except (ValueError, TypeError, KeyError) as error:
        raise DamagedLog(f"a record cannot be understood: {line[:200]!r}") from error
    return Entry(artifact.version + 1, artifact)
