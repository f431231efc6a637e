"""Content, kept once under its digest. Blocking."""

import hashlib
import os
from collections.abc import Generator, Set
from contextlib import contextmanager, suppress
from pathlib import Path

from openskills.artifacts.content import PIECE
from openskills.artifacts.disk import arriving, flush_directory, write_all
from openskills.artifacts.store import Artifact
from openskills.errors import SkillError


class Arrival:
    """Content on its way: written to a file of its own, counted and digested."""

    def __init__(self, handle: int, path: Path) -> None:
        self.size = 0
        self._handle = handle
        self._path = path
        self._digest = hashlib.sha256()

    @property
    def sha256(self) -> str:
        """The digest of what has arrived."""
        return self._digest.hexdigest()

    def write(self, piece: bytes) -> None:
        """Add a piece."""
        write_all(self._handle, piece)
        self._digest.update(piece)
        self.size += len(piece)

    def become(self, target: Path) -> None:
        """Make it durable, then give it its name."""
        os.fsync(self._handle)
        self._path.rename(target)


class Outgoing:
    """Content that is being read, checked against the digest that it was kept under."""

    def __init__(self, handle: int, artifact: Artifact, path: Path) -> None:
        self._handle = handle
        self._artifact = artifact
        self._path = path
        self._size = 0
        self._digest = hashlib.sha256()

    def next_piece(self) -> bytes:
        """The next piece, empty at the end; raises `SkillError` there when the bytes are not those that were put."""
        piece = os.read(self._handle, PIECE)
        self._digest.update(piece)
        self._size += len(piece)
        if not piece and (self._size, self._digest.hexdigest()) != (self._artifact.size, self._artifact.sha256):
            raise damaged(self._artifact, self._path)
        return piece


class Blobs:
    """A directory of files named by the SHA-256 of what is in them; `arrivals` is on the same disk."""

    def __init__(self, directory: Path, arrivals: Path) -> None:
        self._directory = directory
        self._arrivals = arrivals

    @contextmanager
    def arriving(self) -> Generator[Arrival]:
        """Take content in; what has not been kept when the block ends is gone."""
        with arriving(self._arrivals) as (handle, path):
            yield Arrival(handle, path)

    def keep(self, arrival: Arrival) -> None:
        """Make the content available under its digest, durably; the caller prevents a removal at the same time."""
        target = self._directory / arrival.sha256
        # What has a name is complete and flushed already.
        if not target.exists():
            arrival.become(target)
        # Also when the file was there: who made it may have been killed before it came this far.
        flush_directory(self._directory)

    @contextmanager
    def reading(self, artifact: Artifact) -> Generator[Outgoing]:
        """Read content; raises `FileNotFoundError` when it is not there."""
        path = self._directory / artifact.sha256
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            yield Outgoing(handle, artifact, path)
        finally:
            os.close(handle)

    def names(self) -> Set[str]:
        """The digests of everything that is kept."""
        return {entry.name for entry in os.scandir(self._directory)}

    def remove(self, digests: Set[str]) -> int:
        """Remove content and say how many bytes that freed; who has it open can read on."""
        freed = 0
        for digest in digests:
            path = self._directory / digest
            with suppress(FileNotFoundError):
                size = path.stat().st_size
                path.unlink()
                freed += size
        return freed


def damaged(artifact: Artifact, path: Path) -> SkillError:
    """The error for content that is not what was put; only somebody else, or a failing disk, can have changed it."""
    return SkillError(f"{artifact.ref} is damaged: {path} is missing or has changed; restore it", ref=artifact.ref)
