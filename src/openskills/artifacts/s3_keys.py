"""What a bucket has, under which keys. Pure.

format                      which layout this is
content/RANDOM              the bytes of one version
names/OWNER/NAME/NUMBER-r   the record of a version: what it is, and where its bytes are
names/OWNER/NAME/NUMBER-d   a mark: this version and every older one were deleted

A key is written once and never again, so whoever writes the record of a version first has the version. OWNER and NAME
are digests. NUMBER counts down, because a bucket lists its keys in their order: the latest version comes first, and
before every record that was deleted comes a mark.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby, takewhile

from openskills.artifacts.store import Artifact
from openskills.errors import SkillError

FORMAT_KEY = "format"
FORMAT = b"openskills artifacts 1 in a bucket\n"
CONTENT = "content/"
NAMES = "names/"

Owner = tuple[str, ...]

_LAST = 10**15 - 1
_RECORD, _MARK = "-r", "-d"


@dataclass(frozen=True, slots=True)
class Found:
    """An object in a listing; `at` is when it was written."""

    key: str
    at: datetime
    size: int = 0

    @property
    def version(self) -> int:
        """The version that a key of a name is about."""
        return _LAST - int(self.key.rpartition("/")[2].removesuffix(_RECORD).removesuffix(_MARK))

    @property
    def is_mark(self) -> bool:
        """Whether it says that versions were deleted."""
        return self.key.endswith(_MARK)


@dataclass(frozen=True, slots=True)
class Record:
    """One version, and the key of its bytes."""

    artifact: Artifact
    content: str


def owner_prefix(owner: Owner) -> str:
    """What all keys of an owner begin with."""
    return f"{NAMES}{_digest(owner)}/"


def name_prefix(owner: Owner, name: str) -> str:
    """What all keys of a name begin with."""
    return f"{owner_prefix(owner)}{_digest((*owner, name))}/"


def record_key(prefix: str, version: int) -> str:
    """The key of a version's record."""
    return f"{prefix}{_LAST - version:015}{_RECORD}"


def mark_key(prefix: str, version: int) -> str:
    """The key that says that this version and all before it were deleted."""
    return f"{prefix}{_LAST - version:015}{_MARK}"


def living(found: Iterable[Found]) -> list[Found]:
    """The records of one name that were not deleted, the latest first."""
    return list(takewhile(lambda one: not one.is_mark, found))


def by_name(found: Iterable[Found]) -> Iterator[list[Found]]:
    """The keys of many names, those of one name together."""
    for _, group in groupby(found, key=lambda one: one.key.rpartition("/")[0]):
        yield list(group)


def record_text(record: Record, owner: Owner) -> bytes:
    """A record as JSON. The owner is there for people who look into the bucket."""
    artifact = record.artifact
    fields = {
        "version": artifact.version,
        "name": artifact.name,
        "owner": owner,
        "size": artifact.size,
        "mime_type": artifact.mime_type,
        "sha256": artifact.sha256,
        "created_at": artifact.created_at.isoformat(),
        "content": record.content,
    }
    return json.dumps(fields).encode()


def record_of(text: bytes, key: str) -> Record:
    """The record that `record_text` wrote; raises `SkillError` for anything else."""
    try:
        fields = json.loads(text)
        artifact = Artifact(
            name=fields["name"],
            version=int(fields["version"]),
            size=int(fields["size"]),
            mime_type=fields["mime_type"],
            sha256=fields["sha256"],
            created_at=datetime.fromisoformat(fields["created_at"]),
        )
        return Record(artifact, str(fields["content"]))
    except (ValueError, TypeError, KeyError) as error:
        raise SkillError(f"the record {key} of the artifact store is damaged; restore it") from error


def _digest(parts: Owner) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
