"""Artifacts in the memory of this process: for tests, and for what may be lost when it ends."""

import hashlib
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from openskills.artifacts.content import PIECE, pieces
from openskills.artifacts.ref import checked_name, checked_version
from openskills.artifacts.store import BINARY, Artifact, Content, Reading, Scope, checked_mime_type, chosen

MAX_BYTES = 64 * 1024 * 1024


@dataclass(slots=True)
class _Shelf:
    """The versions of one name, with the number of the next one, which outlives them."""

    next_version: int = 0
    kept: list[tuple[Artifact, bytes]] = field(default_factory=list[tuple[Artifact, bytes]])


class MemoryArtifactStore:
    """An `ArtifactStore` that forgets everything with the process. `max_bytes` bounds one artifact."""

    def __init__(self, *, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._shelves: dict[tuple[str, ...], dict[str, _Shelf]] = {}
        self._lock = threading.Lock()

    async def put(self, scope: Scope, name: str, data: Content, *, mime_type: str = BINARY) -> Artifact:
        """See `ArtifactStore.put`; raises `LimitExceeded` for more than `max_bytes`."""
        name, mime_type = checked_name(name), checked_mime_type(mime_type)
        async with aclosing(pieces(data, limit=self._max_bytes)) as arriving:
            content = b"".join([piece async for piece in arriving])
        digest = hashlib.sha256(content).hexdigest()
        with self._lock:
            shelf = self._shelves.setdefault(scope.owner(name), {}).setdefault(name, _Shelf())
            version = shelf.next_version
            artifact = Artifact(name, version, len(content), mime_type, digest, datetime.now(UTC))
            shelf.kept.append((artifact, content))
            shelf.next_version += 1
        return artifact

    @asynccontextmanager
    async def open(self, scope: Scope, name: str, version: int | None = None) -> AsyncGenerator[Reading]:
        """See `ArtifactStore.open`."""
        name, version = checked_name(name), checked_version(version)
        kept = dict(self._kept(scope.owner(name), name))
        artifact = chosen(name, version, tuple(kept))
        async with aclosing(_chunks(kept[artifact])) as chunks:
            yield Reading(artifact, chunks)

    async def list(self, scope: Scope) -> Sequence[Artifact]:
        """See `ArtifactStore.list`."""
        with self._lock:
            owners = (self._shelves.get(owner, {}) for owner in (scope.session_owner, scope.user_owner))
            latest = [shelf.kept[-1][0] for shelves in owners for shelf in shelves.values() if shelf.kept]
        return tuple(sorted(latest, key=lambda artifact: artifact.name))

    async def versions(self, scope: Scope, name: str) -> Sequence[Artifact]:
        """See `ArtifactStore.versions`."""
        name = checked_name(name)
        return tuple(artifact for artifact, _ in self._kept(scope.owner(name), name))

    async def delete(self, scope: Scope, name: str) -> bool:
        """See `ArtifactStore.delete`."""
        name = checked_name(name)
        with self._lock:
            shelf = self._shelves.get(scope.owner(name), {}).get(name, _Shelf())
            found = bool(shelf.kept)
            shelf.kept.clear()
        return found

    def _kept(self, owner: tuple[str, ...], name: str) -> Sequence[tuple[Artifact, bytes]]:
        with self._lock:
            return tuple(self._shelves.get(owner, {}).get(name, _Shelf()).kept)


async def _chunks(content: bytes) -> AsyncGenerator[bytes]:
    for start in range(0, len(content), PIECE):
        yield content[start : start + PIECE]
