"""The `ArtifactStore` protocol, its values (`Artifact`, `Scope`), and artifact names and references."""

import re
import unicodedata
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, fields
from datetime import datetime
from typing import NamedTuple, Protocol

from openskills.arguments import check_arguments
from openskills.errors import InvalidArgument, LimitExceeded, shorten
from openskills.paths import parse_relative

SCHEME = "artifact://"
USER_PREFIX = "user:"
MAX_NAME = 1024

_VERSION = re.compile(r"0|[1-9][0-9]{0,17}")
_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Zl", "Zp"})
# Zero-width joiner and non-joiner, which are part of words and emoji.
_JOINERS = frozenset("\u200c\u200d")


class ArtifactRef(NamedTuple):
    """A parsed `artifact://name[@version]`; without a version it means the latest."""

    name: str
    version: int | None


def parse_ref(text: str, *, field: str = "artifact") -> ArtifactRef:
    """Parse a reference. The version is the digits after the last `@`; every other `@` belongs to the name.

    Nothing is decoded: `%2e` is three characters. Raises `InvalidArgument` for an invalid reference or version, and
    whatever `normalize_name` raises.
    """
    if not text.startswith(SCHEME):
        raise InvalidArgument(
            field, f"{shorten(text)!r} is not an artifact; use artifact://name or artifact://name@version"
        )
    whole = text.removeprefix(SCHEME)
    name, at, version = whole.rpartition("@")
    if at and not version:
        raise InvalidArgument(field, f"{shorten(text)!r} ends with '@'; add a version or remove the '@'")
    if not at or not (version.isascii() and version.isdigit()):
        return ArtifactRef(normalize_name(whole, field=field), None)
    if not _VERSION.fullmatch(version):
        raise InvalidArgument(field, f"invalid version {shorten(version)!r}; use a number such as 0 or 12")
    return ArtifactRef(normalize_name(name, field=field), int(version))


def normalize_name(name: str, *, field: str = "name") -> str:
    """The canonical form of an artifact name: `a//b/./c` is `a/b/c`.

    A name is a relative path of at most 1,024 printable characters, optionally after `user:`. It is an identifier and
    never becomes a path on disk. Raises `InvalidArgument`, or `ForbiddenPath` for an absolute path or `..`.
    """
    if len(name) > MAX_NAME:
        raise InvalidArgument(field, f"the name has {len(name):,} characters; the maximum is {MAX_NAME:,}")
    path = name.removeprefix(USER_PREFIX)
    if not path:
        raise InvalidArgument(field, f"invalid artifact name {name!r}; use one such as out/report.pdf")
    for char in path:
        if unicodedata.category(char) in _INVISIBLE_CATEGORIES and char not in _JOINERS:
            raise InvalidArgument(field, f"{name!r} contains a control or invisible character ({char!a})")
    return name[: len(name) - len(path)] + str(parse_relative(path, field=field))


def check_version(version: int | None) -> int | None:
    """Return the version; raises `InvalidArgument` if it is negative."""
    if version is not None and version < 0:
        raise InvalidArgument("version", f"invalid version {version}; the first one is 0")
    return version


BINARY = "application/octet-stream"
READ_LIMIT = 16 * 1024 * 1024
MAX_ID = 512

_MIME_TYPE = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+(\s*;[\x20-\x7e]*)?", re.ASCII)

Content = bytes | AsyncIterable[bytes]
"""The content of an artifact: bytes, or an async iterable of bytes."""


@check_arguments
@dataclass(frozen=True, slots=True)
class Scope:
    """The owner of artifacts: a session of a user of an application. Raises `InvalidArgument` for an empty id."""

    app: str
    user: str
    session: str

    def __post_init__(self) -> None:
        for field in fields(self):
            _check_id(field.name, getattr(self, field.name))

    def owner(self, name: str) -> tuple[str, ...]:
        """The owner of the artifact of this name: the session, or the user if the name begins with `user:`."""
        return self.user_owner if name.startswith(USER_PREFIX) else self.session_owner

    @property
    def session_owner(self) -> tuple[str, ...]:
        """The owner of names without prefix."""
        return (self.app, self.user, self.session)

    @property
    def user_owner(self) -> tuple[str, ...]:
        """The owner of `user:` names, shared by all sessions of the user."""
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
    """An artifact that is open for reading; `chunks` yields its bytes once, in pieces of at most 1 MiB."""

    artifact: Artifact
    chunks: AsyncIterator[bytes]


class ArtifactStore(Protocol):
    """Named, versioned bytes. `openskills.testing.check_artifact_store` checks this contract.

    Every method raises `InvalidArgument` or `ForbiddenPath` for a name that `normalize_name` rejects, and `SkillError`
    if the storage cannot be used. A store may be used from many tasks, threads and event loops.
    """

    async def put(self, scope: Scope, name: str, data: Content, *, mime_type: str = BINARY) -> Artifact:
        """Store bytes as the next version of `name`. When it returns, they are as durable as this store can make them.

        Versions are 0, 1, 2, … without gaps, also with concurrent puts. After an exception or cancellation while `data`
        is read no version is added; a later cancellation may have no effect. Raises `LimitExceeded` if the
        artifact is too large, and whatever `data` raises.
        """
        ...

    def open(self, scope: Scope, name: str, version: int | None = None) -> AbstractAsyncContextManager[ArtifactReader]:
        """Read one version, or the latest: `async with store.open(scope, name) as reading`.

        Raises `InvalidArgument` if it does not exist. An open artifact can be read to its end even if it is deleted.
        """
        ...

    async def list(self, scope: Scope) -> Sequence[Artifact]:
        """The latest version of every name in the scope, including `user:` names, sorted by name."""
        ...

    async def versions(self, scope: Scope, name: str) -> Sequence[Artifact]:
        """Every version of one name, oldest first; empty if there is none."""
        ...

    async def delete(self, scope: Scope, name: str) -> bool:
        """Delete every version of a name; false if there was none.

        Version numbers are not reused, so an old reference never means other bytes.
        """
        ...


@check_arguments
async def read_artifact(
    store: ArtifactStore, scope: Scope, name: str, version: int | None = None, *, limit: int | None = READ_LIMIT
) -> bytes:
    """All bytes of one version, or of the latest. Raises `LimitExceeded` before reading more than `limit` bytes."""
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
    """Return the MIME type; raises `InvalidArgument` if it is malformed."""
    if len(mime_type) > 255 or not _MIME_TYPE.fullmatch(mime_type):
        raise InvalidArgument("mime_type", f"invalid MIME type {mime_type[:100]!r}; use one such as image/png")
    return mime_type


def build_unknown_error(name: str, version: int | None, versions: Sequence[Artifact]) -> InvalidArgument:
    """The error for an artifact that does not exist; it lists the known versions."""
    if not versions:
        hint = "; a version is a number after the last '@'" if "@" in name else ""
        return InvalidArgument("artifact", f"unknown artifact {name!r} in this session{hint}")
    known = f"{versions[0].version} to {versions[-1].version}" if len(versions) > 1 else str(versions[0].version)
    return InvalidArgument("artifact", f"{name!r} has no version {version}; it has {known}")


def select_version(name: str, version: int | None, versions: Sequence[Artifact]) -> Artifact:
    """The requested version, or the latest; raises `InvalidArgument` if it does not exist."""
    if version is None and versions:
        return versions[-1]
    for artifact in versions:
        if artifact.version == version:
            return artifact
    raise build_unknown_error(name, version, versions)


def _check_id(field: str, value: str) -> None:
    if not value:
        raise InvalidArgument(field, "must not be empty; every artifact belongs to an app, a user and a session")
    if len(value) > MAX_ID:
        raise InvalidArgument(field, f"has {len(value):,} characters; the maximum is {MAX_ID}")
    if any("\ud800" <= char <= "\udfff" for char in value):
        raise InvalidArgument(field, f"{value!r} contains a lone surrogate")


PIECE_BYTES = 1024 * 1024


async def split_content(data: Content, *, limit: int) -> AsyncGenerator[bytes]:
    """Yield the content in non-empty pieces; small ones are joined to about 1 MiB.

    Raises `LimitExceeded` as soon as there are more than `limit` bytes, and `InvalidArgument` for other types.
    """
    gathered = bytearray()
    total = 0
    async for chunk in _iterate_chunks(data):
        total += len(chunk)
        if total > limit:
            size = f"{total:,}" if isinstance(data, bytes) else f"{total:,} or more"
            raise LimitExceeded(
                f"the artifact has {size} bytes; the maximum is {limit:,} per artifact", limit=limit, size=total
            )
        # A large chunk is passed on without copying it.
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
        raise InvalidArgument("data", f"expected {wanted}, got {type(value).__name__}")
