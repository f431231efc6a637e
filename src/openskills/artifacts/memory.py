"""Artifacts in the memory of this process: for tests, and for what may be lost when it ends."""

import hashlib
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from openskills.artifacts.store import (
    BINARY,
    PIECE_BYTES,
    Artifact,
    ArtifactReader,
    Content,
    Scope,
    check_mime_type,
    check_version,
    normalize_name,
    select_version,
    split_content,
)

MAX_BYTES = 64 * 1024 * 1024


@dataclass(slots=True)
class _VersionList:
    """The versions of one name, with the number of the next one, which outlives them."""

    next_version: int = 0
    versions: list[tuple[Artifact, bytes]] = field(default_factory=list[tuple[Artifact, bytes]])


class MemoryArtifactStore:
    """An `ArtifactStore` that forgets everything with the process. `max_bytes` bounds one artifact."""

    def __init__(self, *, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._shelves: dict[tuple[str, ...], dict[str, _VersionList]] = {}
        self._lock = threading.Lock()

    async def put(self, scope: Scope, name: str, data: Content, *, mime_type: str = BINARY) -> Artifact:
        """See `ArtifactStore.put`; raises `LimitExceeded` for more than `max_bytes`."""
        name, mime_type = normalize_name(name), check_mime_type(mime_type)
        async with aclosing(split_content(data, limit=self._max_bytes)) as arriving:
            content = b"".join([piece async for piece in arriving])
        digest = hashlib.sha256(content).hexdigest()
        with self._lock:
            shelf = self._shelves.setdefault(scope.owner(name), {}).setdefault(name, _VersionList())
            version = shelf.next_version
            artifact = Artifact(name, version, len(content), mime_type, digest, datetime.now(UTC))
            shelf.versions.append((artifact, content))
            shelf.next_version += 1
        return artifact

    @asynccontextmanager
    async def open(self, scope: Scope, name: str, version: int | None = None) -> AsyncGenerator[ArtifactReader]:
        """See `ArtifactStore.open`."""
        name, version = normalize_name(name), check_version(version)
        kept = dict(self._find_versions(scope.owner(name), name))
        artifact = select_version(name, version, tuple(kept))
        async with aclosing(_chunks(kept[artifact])) as chunks:
            yield ArtifactReader(artifact, chunks)

    async def list(self, scope: Scope) -> Sequence[Artifact]:
        """See `ArtifactStore.list`."""
        with self._lock:
            owners = (self._shelves.get(owner, {}) for owner in (scope.session_owner, scope.user_owner))
            latest = [shelf.versions[-1][0] for shelves in owners for shelf in shelves.values() if shelf.versions]
        return tuple(sorted(latest, key=lambda artifact: artifact.name))

    async def versions(self, scope: Scope, name: str) -> Sequence[Artifact]:
        """See `ArtifactStore.versions`."""
        name = normalize_name(name)
        return tuple(artifact for artifact, _ in self._find_versions(scope.owner(name), name))

    async def delete(self, scope: Scope, name: str) -> bool:
        """See `ArtifactStore.delete`."""
        name = normalize_name(name)
        with self._lock:
            shelf = self._shelves.get(scope.owner(name), {}).get(name, _VersionList())
            found = bool(shelf.versions)
            shelf.versions.clear()
        return found

    def _find_versions(self, owner: tuple[str, ...], name: str) -> Sequence[tuple[Artifact, bytes]]:
        with self._lock:
            return tuple(self._shelves.get(owner, {}).get(name, _VersionList()).versions)


async def _chunks(content: bytes) -> AsyncGenerator[bytes]:
    for start in range(0, len(content), PIECE_BYTES):
        yield content[start : start + PIECE_BYTES]
