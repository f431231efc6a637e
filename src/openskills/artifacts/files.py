"""Artifacts on disk: durable once acknowledged, shared by threads and processes.

format           which layout this is
blobs/DIGEST     content, complete and flushed before it has its name
logs/OWNER/NAME  one log per name; a version exists when its record is in the log
arriving/        content on its way
locks/           one writer per name; nobody writes while `sweep` removes
"""

import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import ExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import ParamSpec, TypeVar

from openskills.artifacts.blobs import Arrival, Blobs, Outgoing, damaged
from openskills.artifacts.content import pieces
from openskills.artifacts.disk import failure, flush_directory, locked, private, remove_orphans, replace
from openskills.artifacts.logs import Logs, Owner
from openskills.artifacts.ref import checked_name, checked_version
from openskills.artifacts.store import BINARY, Artifact, Content, Reading, Scope, checked_mime_type, chosen
from openskills.artifacts.threads import to_the_end
from openskills.errors import SkillError

MAX_BYTES = 1024 * 1024 * 1024
FORMAT = b"openskills artifacts 1\n"

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep removed: content that no version refers to."""

    blobs: int
    bytes: int


class FileArtifactStore:
    """An `ArtifactStore` in a directory of a local disk. `max_bytes` bounds one artifact.

    Making one touches nothing; the first use makes the directory and removes what killed processes left on the way.
    When the disk fails, `SkillError` says how; what was acknowledged before stays.
    """

    def __init__(self, root: Path | str, *, max_bytes: int = MAX_BYTES) -> None:
        self._root = Path(root).absolute()
        self._max_bytes = max_bytes
        self._arrivals = self._root / "arriving"
        self._locks = self._root / "locks"
        self._blobs = Blobs(self._root / "blobs", self._arrivals)
        self._logs = Logs(self._root / "logs", self._locks, self._arrivals)
        self._preparing = threading.Lock()
        self._prepared = False

    async def put(self, scope: Scope, name: str, data: Content, *, mime_type: str = BINARY) -> Artifact:
        """See `ArtifactStore.put`. Memory use does not depend on the size of what comes in pieces."""
        name, mime_type = checked_name(name), checked_mime_type(mime_type)
        async with self._held() as held, aclosing(pieces(data, limit=self._max_bytes)) as arriving:
            arrival = await self._on_disk(held.enter_context, self._blobs.arriving())
            async for piece in arriving:
                await self._on_disk(arrival.write, piece)
            return await self._on_disk(self._keep, arrival, scope.owner(name), name, mime_type)

    @asynccontextmanager
    async def open(self, scope: Scope, name: str, version: int | None = None) -> AsyncGenerator[Reading]:
        """See `ArtifactStore.open`. Bytes that are not those that were put raise `SkillError` at their end."""
        name, version = checked_name(name), checked_version(version)
        async with self._held() as held:
            artifact, outgoing = await self._on_disk(self._find, held, scope.owner(name), name, version)
            async with aclosing(self._chunks(outgoing)) as chunks:
                yield Reading(artifact, chunks)

    async def list(self, scope: Scope) -> Sequence[Artifact]:
        """See `ArtifactStore.list`."""
        return await self._on_disk(self._latest, (scope.session_owner, scope.user_owner))

    async def versions(self, scope: Scope, name: str) -> Sequence[Artifact]:
        """See `ArtifactStore.versions`."""
        name = checked_name(name)
        return await self._on_disk(self._logs.versions, scope.owner(name), name)

    async def delete(self, scope: Scope, name: str) -> bool:
        """See `ArtifactStore.delete`. The bytes stay on the disk until the next `sweep`."""
        name = checked_name(name)
        return await self._on_disk(self._forget, scope.owner(name), name)

    async def sweep(self) -> Swept:
        """Remove content that no version refers to, and what killed processes left on the way.

        Safe at any time, beside any number of readers and writers; the last step of a `put` waits for it.
        """
        return await self._on_disk(self._sweep)

    @asynccontextmanager
    async def _held(self) -> AsyncGenerator[ExitStack]:
        """A stack for what is opened in a thread, so that it is closed even when nobody waits for the answer."""
        held = ExitStack()
        try:
            yield held
        finally:
            await self._on_disk(held.close)

    async def _chunks(self, outgoing: Outgoing) -> AsyncGenerator[bytes]:
        while piece := await self._on_disk(outgoing.next_piece):
            yield piece

    async def _on_disk(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The one place where blocking work goes to a thread, and where the errors of the disk are translated."""

        def prepared() -> T:
            self._prepare()
            return work(*args, **kwargs)

        try:
            return await to_the_end(prepared)
        except OSError as error:
            raise failure(self._root, error) from error

    def _prepare(self) -> None:
        with self._preparing:
            if self._prepared:
                return
            for directory in (self._arrivals, self._locks, self._root / "blobs", self._root / "logs"):
                private(directory)
            # Also when they were there: who made them may have been killed before it came this far.
            flush_directory(self._root)
            flush_directory(self._root.parent)
            self._check_format()
            remove_orphans(self._arrivals)
            self._prepared = True

    def _check_format(self) -> None:
        path = self._root / "format"
        if not path.exists():
            replace(path, FORMAT, via=self._arrivals)
        elif path.read_bytes() != FORMAT:
            raise SkillError(
                f"{self._root} was written by another version of OpenSkill: {path} does not say"
                f" {FORMAT.decode().strip()!r}; choose another directory or that version"
            )

    def _keep(self, arrival: Arrival, owner: Owner, name: str, mime_type: str) -> Artifact:
        def numbered(version: int) -> Artifact:
            return Artifact(name, version, arrival.size, mime_type, arrival.sha256, datetime.now(UTC))

        # Shared, so that no sweep falls between the content and the record that refers to it.
        with locked(self._locks / "sweep", shared=True):
            self._blobs.keep(arrival)
            return self._logs.add(owner, name, numbered)

    def _find(self, held: ExitStack, owner: Owner, name: str, version: int | None) -> tuple[Artifact, Outgoing]:
        artifact = self._chosen(owner, name, version)
        try:
            return artifact, held.enter_context(self._blobs.reading(artifact))
        except FileNotFoundError as error:
            # Deleted and swept since the log was read: then this says so.
            artifact = self._chosen(owner, name, artifact.version)
            raise damaged(artifact, Path(error.filename)) from error

    def _chosen(self, owner: Owner, name: str, version: int | None) -> Artifact:
        latest = self._logs.latest(owner, name)
        if latest and version in (None, latest.version):
            return latest
        return chosen(name, version, self._logs.versions(owner, name))

    def _latest(self, owners: Sequence[Owner]) -> Sequence[Artifact]:
        latest = [artifact for owner in owners for artifact in self._logs.latest_of_all(owner)]
        return tuple(sorted(latest, key=lambda artifact: artifact.name))

    def _forget(self, owner: Owner, name: str) -> bool:
        with locked(self._locks / "sweep", shared=True):
            return self._logs.forget(owner, name)

    def _sweep(self) -> Swept:
        remove_orphans(self._arrivals)
        # Looked at twice: the first time nobody has to wait, and mostly there is nothing to do.
        candidates = self._blobs.names() - self._wanted()
        if not candidates:
            return Swept(0, 0)
        with locked(self._locks / "sweep"):
            unwanted = candidates - self._wanted()
            return Swept(len(unwanted), self._blobs.remove(unwanted))

    def _wanted(self) -> set[str]:
        return {artifact.sha256 for artifact in self._logs.everything()}
