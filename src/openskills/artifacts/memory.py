"""Artifact store in memory, for tests and artifacts that may be lost when the process ends."""

import hashlib
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from openskills.arguments import check_arguments
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
    """The versions of one name; `next_version` survives their deletion."""

    next_version: int = 0
    versions: list[tuple[Artifact, bytes]] = field(default_factory=list[tuple[Artifact, bytes]])


@check_arguments
class MemoryArtifactStore:
    """An `ArtifactStore` in memory. `max_bytes` limits one artifact."""

    def __init__(self, *, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._names: dict[tuple[str, ...], dict[str, _VersionList]] = {}
        self._lock = threading.Lock()

    async def put(self, scope: Scope, name: str, data: Content, *, mime_type: str = BINARY) -> Artifact:
        """See `ArtifactStore.put`; raises `LimitExceeded` for more than `max_bytes`."""
        name, mime_type = normalize_name(name), check_mime_type(mime_type)
        async with aclosing(split_content(data, limit=self._max_bytes)) as arriving:
            content = b"".join([piece async for piece in arriving])
        digest = hashlib.sha256(content).hexdigest()
        with self._lock:
            entry = self._names.setdefault(scope.owner(name), {}).setdefault(name, _VersionList())
            version = entry.next_version
            artifact = Artifact(name, version, len(content), mime_type, digest, datetime.now(UTC))
            entry.versions.append((artifact, content))
            entry.next_version += 1
        return artifact

    @asynccontextmanager
    async def open(self, scope: Scope, name: str, version: int | None = None) -> AsyncGenerator[ArtifactReader]:
        name, version = normalize_name(name), check_version(version)
        contents = dict(self._find_versions(scope.owner(name), name))
        artifact = select_version(name, version, tuple(contents))
        async with aclosing(_chunks(contents[artifact])) as chunks:
            yield ArtifactReader(artifact, chunks)

    async def list(self, scope: Scope) -> Sequence[Artifact]:
        with self._lock:
            owners = (self._names.get(owner, {}) for owner in (scope.session_owner, scope.user_owner))
            latest = [entry.versions[-1][0] for names in owners for entry in names.values() if entry.versions]
        return tuple(sorted(latest, key=lambda artifact: artifact.name))

    async def versions(self, scope: Scope, name: str) -> Sequence[Artifact]:
        name = normalize_name(name)
        return tuple(artifact for artifact, _ in self._find_versions(scope.owner(name), name))

    async def delete(self, scope: Scope, name: str) -> bool:
        name = normalize_name(name)
        with self._lock:
            entry = self._names.get(scope.owner(name), {}).get(name, _VersionList())
            found = bool(entry.versions)
            entry.versions.clear()
        return found

    def _find_versions(self, owner: tuple[str, ...], name: str) -> Sequence[tuple[Artifact, bytes]]:
        with self._lock:
            return tuple(self._names.get(owner, {}).get(name, _VersionList()).versions)


async def _chunks(content: bytes) -> AsyncGenerator[bytes]:
    for start in range(0, len(content), PIECE_BYTES):
        yield content[start : start + PIECE_BYTES]
