"""ArtifactStore, Scope, references.

How an artifact is called: its name, its version, and the reference that has both. Pure.

What is kept, for whom, and what every store of artifacts can do.

Bytes on their way into a store, in pieces of a good size, counted.
"""

import re
import unicodedata
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, fields
from datetime import datetime
from typing import NamedTuple, NoReturn, Protocol

from openskills.errors import InvalidArgument, LimitExceeded
from openskills.paths import parse_relative

SCHEME = "artifact://"
USER_PREFIX = "user:"
MAX_NAME = 1024

_VERSION = re.compile(r"0|[1-9][0-9]{0,17}")
_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Zl", "Zp"})
# Format characters that belong to words and emoji: the two joiners.
_JOINERS = frozenset("\u200c\u200d")


class ArtifactRef(NamedTuple):
    """What `artifact://name[@version]` says; no version means the latest."""

    name: str
    version: int | None


def parse_ref(text: str, *, field: str = "artifact") -> ArtifactRef:
    """Read a reference. The version is the digits after the last `@`; every other `@` belongs to the name.

    Nothing is decoded: `%2e` is three characters. Raises `InvalidArgument` for what is no reference, for a version that
    is not written as a plain number, and whatever `normalize_name` raises.
    """
    if not text.startswith(SCHEME):
        raise InvalidArgument(
            field, f"{_excerpt(text)} is no artifact; write artifact://name or artifact://name@version"
        )
    whole = text.removeprefix(SCHEME)
    name, at, version = whole.rpartition("@")
    if at and not version:
        raise InvalidArgument(field, f"{_excerpt(text)} ends with '@'; write a version after it, or leave it out")
    if not at or not (version.isascii() and version.isdigit()):
        return ArtifactRef(normalize_name(whole, field=field), None)
    if not _VERSION.fullmatch(version):
        raise InvalidArgument(field, f"{_excerpt(version)} is no version; write a number such as 0 or 12")
    return ArtifactRef(normalize_name(name, field=field), int(version))


def normalize_name(name: str, *, field: str = "name") -> str:
    """The name in its only spelling: `a//b/./c` is `a/b/c`.

    A name is a relative path of printable characters, at most 1,024 of them; a leading `user:` is kept and is no part
    of the path. It is an identifier and never a place on a disk. Raises `InvalidArgument`, or `ForbiddenPath` for what
    is absolute or climbs with `..`.
    """
    if len(name) > MAX_NAME:
        raise InvalidArgument(field, f"a name of {len(name):,} characters is too long; {MAX_NAME:,} is the most")
    path = name.removeprefix(USER_PREFIX)
    if not path:
        raise InvalidArgument(field, f"{name!r} is no name for an artifact; write one such as out/report.pdf")
    for char in path:
        if unicodedata.category(char) in _INVISIBLE_CATEGORIES and char not in _JOINERS:
            raise InvalidArgument(field, f"{name!r} contains a control or invisible character ({char!a})")
    return name[: len(name) - len(path)] + str(parse_relative(path, field=field))


def check_version(version: int | None) -> int | None:
    """The same version; raises `InvalidArgument` for a negative one."""
    if version is not None and version < 0:
        raise InvalidArgument("version", f"{version} is no version; the first one is 0")
    return version


def _excerpt(text: str) -> str:
    return repr(text if len(text) <= 100 else text[:100] + "…")


BINARY = "application/octet-stream"
READ_LIMIT = 16 * 1024 * 1024
MAX_ID = 512

_MIME_TYPE = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+(\s*;[\x20-\x7e]*)?", re.ASCII)

Content = bytes | AsyncIterable[bytes]
"""What can be stored: bytes, or pieces of bytes as they come."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose artifacts: one session of one user of one application. Raises `InvalidArgument` for an empty id."""

    app: str
    user: str
    session: str

    def __post_init__(self) -> None:
        for field in fields(self):
            _check_id(field.name, getattr(self, field.name))

    def owner(self, name: str) -> tuple[str, ...]:
        """Who holds the artifact of this name: the session, or the user when the name begins with `user:`."""
        return self.user_owner if name.startswith(USER_PREFIX) else self.session_owner

    @property
    def session_owner(self) -> tuple[str, ...]:
        """The holder of names without prefix."""
        return (self.app, self.user, self.session)

    @property
    def user_owner(self) -> tuple[str, ...]:
        """The holder of `user:` names, the same one in every session of the user."""
        return (self.app, self.user)


@dataclass(frozen=True, slots=True)
class Artifact:
    """One version of an artifact; its bytes never change."""

    name: str
    version: int
    size: int
    mime_type: str
    sha256: str
    created_at: datetime

    @property
    def ref(self) -> str:
        """`artifact://name@version`."""
        return f"{SCHEME}{self.name}@{self.version}"


@dataclass(frozen=True, slots=True)
class ArtifactReader:
    """An artifact that is open for reading; `chunks` gives its bytes once, in pieces of at most 1 MiB."""

    artifact: Artifact
    chunks: AsyncIterator[bytes]


class ArtifactStore(Protocol):
    """Named, versioned bytes. `openskills.testing.check_artifact_store` checks what is promised here.

    Every method raises `InvalidArgument` or `ForbiddenPath` for a name that `normalize_name` refuses, and `SkillError`
    when the place where things are kept cannot be used. A store may be used from many tasks, threads and loops.
    """

    async def put(self, scope: Scope, name: str, data: Content, *, mime_type: str = BINARY) -> Artifact:
        """Keep bytes as the next version of `name`. When it returns, they are as durable as this store can make them.

        Versions are 0, 1, 2, … without gaps, whoever else puts at the same time. After an exception or a cancellation
        while `data` is read there is no new version; a cancellation later may come too late. Raises `LimitExceeded`
        for more bytes than the store takes, and whatever `data` raises.
        """
        ...

    def open(self, scope: Scope, name: str, version: int | None = None) -> AbstractAsyncContextManager[ArtifactReader]:
        """Read one version, or the latest: `async with store.open(scope, name) as reading`.

        Raises `InvalidArgument` when there is no such artifact. What is open can be read to its end even when it is
        deleted meanwhile.
        """
        ...

    async def list(self, scope: Scope) -> Sequence[Artifact]:
        """The latest version of every name in the scope, those of the user (`user:`) among them, sorted by name."""
        ...

    async def versions(self, scope: Scope, name: str) -> Sequence[Artifact]:
        """Every version of one name, oldest first; empty when there is none."""
        ...

    async def delete(self, scope: Scope, name: str) -> bool:
        """Forget every version of a name; false when there was none.

        Numbers are not used again: the next version gets the number that it would have had, so a reference that
        somebody kept never means other bytes.
        """
        ...


async def read_artifact(
    store: ArtifactStore, scope: Scope, name: str, version: int | None = None, *, limit: int | None = READ_LIMIT
) -> bytes:
    """All bytes of one version, or of the latest. Raises `LimitExceeded`, before reading, for more than `limit`."""
    async with store.open(scope, name, version) as reading:
        size = reading.artifact.size
        if limit is not None and size > limit:
            raise LimitExceeded(
                f"{reading.artifact.ref} has {size:,} bytes, {size - limit:,} more than the limit of {limit:,};"
                " raise the limit or read it in pieces with open()",
                limit=limit,
                size=size,
            )
        return b"".join([chunk async for chunk in reading.chunks])


def check_mime_type(mime_type: str) -> str:
    """The same MIME type; raises `InvalidArgument` for what is none."""
    if len(mime_type) > 255 or not _MIME_TYPE.fullmatch(mime_type):
        raise InvalidArgument("mime_type", f"{mime_type[:100]!r} is no MIME type; write one such as image/png")
    return mime_type


def build_unknown_error(name: str, version: int | None, versions: Sequence[Artifact]) -> InvalidArgument:
    """The error for an artifact that is not there; it says which versions are."""
    if not versions:
        hint = "; a version is a number after the last '@'" if "@" in name else ""
        return InvalidArgument("artifact", f"there is no artifact named {name!r} in this session{hint}")
    known = f"{versions[0].version} to {versions[-1].version}" if len(versions) > 1 else str(versions[0].version)
    return InvalidArgument("artifact", f"{name!r} has no version {version}; it has {known}")


def select_version(name: str, version: int | None, versions: Sequence[Artifact]) -> Artifact:
    """The one that is asked for, or the latest; raises `InvalidArgument` when it is not there."""
    if version is None and versions:
        return versions[-1]
    for artifact in versions:
        if artifact.version == version:
            return artifact
    raise build_unknown_error(name, version, versions)


def _check_id(field: str, value: str) -> None:
    if not value:
        raise InvalidArgument(field, "is empty; every artifact belongs to an app, a user and a session")
    if len(value) > MAX_ID:
        raise InvalidArgument(field, f"has {len(value):,} characters; {MAX_ID} is the most")
    if any("\ud800" <= char <= "\udfff" for char in value):
        raise InvalidArgument(field, f"{value!r} contains half a character (a lone surrogate)")


PIECE_BYTES = 1024 * 1024


async def split_content(data: Content, *, limit: int) -> AsyncGenerator[bytes]:
    """The content in pieces, none empty, small ones gathered to about 1 MiB.

    Raises `LimitExceeded` as soon as there are more than `limit` bytes, and `InvalidArgument` for what is not bytes.
    """
    gathered = bytearray()
    total = 0
    async for chunk in _iterate_chunks(data):
        total += len(chunk)
        if total > limit:
            _raise_too_large(data, total, limit)
        # A large chunk goes on as it is: copying it would double what the caller holds.
        if not gathered and len(chunk) >= PIECE_BYTES:
            yield chunk
            continue
        gathered += chunk
        if len(gathered) >= PIECE_BYTES:
            yield bytes(gathered)
            gathered.clear()
    if gathered:
        yield bytes(gathered)


async def _iterate_chunks(data: Content) -> AsyncGenerator[bytes]:
    if isinstance(data, bytes):
        yield data
        return
    _check_type(data, AsyncIterable, "bytes or an async iterable of bytes")
    async for chunk in data:
        _check_type(chunk, bytes, "bytes in every piece")
        yield chunk


def _check_type(value: object, kind: type, wanted: str) -> None:
    # Callers without a type checker pass text, open files and lists.
    if not isinstance(value, kind):
        raise InvalidArgument("data", f"is {type(value).__name__}; an artifact is made of {wanted}")


def _raise_too_large(data: Content, total: int, limit: int) -> NoReturn:
    size = f"{total:,}" if isinstance(data, bytes) else f"{total:,} or more"
    raise LimitExceeded(
        f"an artifact of {size} bytes is too large: this store takes {limit:,} per artifact", limit=limit, size=total
    )
