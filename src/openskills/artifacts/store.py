"""What is kept, for whom, and what every store of artifacts can do."""

import re
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Protocol

from openskills.artifacts.ref import SCHEME, USER_PREFIX
from openskills.errors import InvalidArgument, LimitExceeded

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
class Reading:
    """An artifact that is open for reading; `chunks` gives its bytes once, in pieces of at most 1 MiB."""

    artifact: Artifact
    chunks: AsyncIterator[bytes]


class ArtifactStore(Protocol):
    """Named, versioned bytes. `openskills.testing.check_artifact_store` checks what is promised here.

    Every method raises `InvalidArgument` or `ForbiddenPath` for a name that `checked_name` refuses, and `SkillError`
    when the place where things are kept cannot be used. A store may be used from many tasks, threads and loops.
    """

    async def put(self, scope: Scope, name: str, data: Content, *, mime_type: str = BINARY) -> Artifact:
        """Keep bytes as the next version of `name`. When it returns, they are as durable as this store can make them.

        Versions are 0, 1, 2, … without gaps, whoever else puts at the same time. After an exception or a cancellation
        while `data` is read there is no new version; a cancellation later may come too late. Raises `LimitExceeded`
        for more bytes than the store takes, and whatever `data` raises.
        """
        ...

    def open(self, scope: Scope, name: str, version: int | None = None) -> AbstractAsyncContextManager[Reading]:
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


async def read(
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


def checked_mime_type(mime_type: str) -> str:
    """The same MIME type; raises `InvalidArgument` for what is none."""
    if len(mime_type) > 255 or not _MIME_TYPE.fullmatch(mime_type):
        raise InvalidArgument("mime_type", f"{mime_type[:100]!r} is no MIME type; write one such as image/png")
    return mime_type


def unknown(name: str, version: int | None, versions: Sequence[Artifact]) -> InvalidArgument:
    """The error for an artifact that is not there; it says which versions are."""
    if not versions:
        hint = "; a version is a number after the last '@'" if "@" in name else ""
        return InvalidArgument("artifact", f"there is no artifact named {name!r} in this session{hint}")
    known = f"{versions[0].version} to {versions[-1].version}" if len(versions) > 1 else str(versions[0].version)
    return InvalidArgument("artifact", f"{name!r} has no version {version}; it has {known}")


def chosen(name: str, version: int | None, versions: Sequence[Artifact]) -> Artifact:
    """The one that is asked for, or the latest; raises `InvalidArgument` when it is not there."""
    if version is None and versions:
        return versions[-1]
    for artifact in versions:
        if artifact.version == version:
            return artifact
    raise unknown(name, version, versions)


def _check_id(field: str, value: str) -> None:
    if not value:
        raise InvalidArgument(field, "is empty; every artifact belongs to an app, a user and a session")
    if len(value) > MAX_ID:
        raise InvalidArgument(field, f"has {len(value):,} characters; {MAX_ID} is the most")
    if any("\ud800" <= char <= "\udfff" for char in value):
        raise InvalidArgument(field, f"{value!r} contains half a character (a lone surrogate)")
