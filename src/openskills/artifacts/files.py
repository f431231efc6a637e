"""Artifact store on disk: durable once acknowledged, shared by threads and processes.

format           the version of this layout
blobs/DIGEST     content, complete and flushed before it gets its name
logs/OWNER/NAME  one log per name; a version exists when its record is in the log
arriving/        content that is being written
locks/           one writer per name; no writers while `sweep` removes

A log has one line per version, each with a checksum; a mark says that everything before it was deleted. A partial last
line, left by a crash, was never acknowledged and is ignored. Readers do not wait for writers.
"""

import hashlib
import json
import os
import threading
import zlib
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, aclosing, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

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
from openskills.concurrency import run_in_thread
from openskills.errors import SkillError
from openskills.filesystem import (
    build_store_error,
    create_unnamed,
    flush_directory,
    is_disk_full,
    lock_file,
    make_private,
    remove_orphans,
    replace_file_via,
    write_all,
)


class BlobWriter:
    """Writes content to a temporary file, and computes its size and digest."""

    def __init__(self, handle: int, path: Path) -> None:
        self.size = 0
        self._handle = handle
        self._path = path
        self._digest = hashlib.sha256()

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def write(self, piece: bytes) -> None:
        write_all(self._handle, piece)
        self._digest.update(piece)
        self.size += len(piece)

    def commit(self, target: Path) -> None:
        """Flush the file, then rename it to `target`."""
        os.fsync(self._handle)
        self._path.rename(target)


class BlobReader:
    """Reads content and checks it against its size and digest."""

    def __init__(self, handle: int, artifact: Artifact, path: Path) -> None:
        self._handle = handle
        self._artifact = artifact
        self._path = path
        self._size = 0
        self._digest = hashlib.sha256()

    def read_piece(self) -> bytes:
        """The next piece, empty at the end; there it raises `SkillError` if the bytes were changed."""
        piece = os.read(self._handle, PIECE_BYTES)
        self._digest.update(piece)
        self._size += len(piece)
        if not piece and (self._size, self._digest.hexdigest()) != (self._artifact.size, self._artifact.sha256):
            raise build_corruption_error(self._artifact, self._path)
        return piece


class BlobStore:
    """A directory of files named by the SHA-256 of their content; `arrivals` is on the same file system."""

    def __init__(self, directory: Path, arrivals: Path) -> None:
        self._directory = directory
        self._arrivals = arrivals

    @contextmanager
    def create_writer(self) -> Generator[BlobWriter]:
        """Write new content; it is discarded at the end of the block unless it was added."""
        with create_unnamed(self._arrivals) as (handle, path):
            yield BlobWriter(handle, path)

    def add(self, arrival: BlobWriter) -> None:
        """Store the content durably under its digest; the caller prevents a concurrent removal."""
        target = self._directory / arrival.sha256
        # An existing file is complete and flushed.
        if not target.exists():
            arrival.commit(target)
        # Also if the file existed: its writer may have been killed before flushing the directory.
        flush_directory(self._directory)

    @contextmanager
    def open_reader(self, artifact: Artifact) -> Generator[BlobReader]:
        """Read content; raises `FileNotFoundError`."""
        path = self._directory / artifact.sha256
        with _open_file(path, os.O_RDONLY) as handle:
            yield BlobReader(handle, artifact, path)

    def list_digests(self) -> Set[str]:
        """The digests of all stored content."""
        return {entry.name for entry in os.scandir(self._directory)}

    def remove(self, digests: Set[str]) -> int:
        """Remove content and return the number of bytes freed; open readers are not affected."""
        freed = 0
        for digest in digests:
            path = self._directory / digest
            with suppress(FileNotFoundError):
                size = path.stat().st_size
                path.unlink()
                freed += size
        return freed


def build_corruption_error(artifact: Artifact, path: Path) -> SkillError:
    """The error for stored content that was changed or removed by something else, or by a failing disk."""
    return SkillError(f"{artifact.ref} is damaged: {path} is missing or was changed; restore it", ref=artifact.ref)


MAX_LINE = 16 * 1024
"""The maximum length of a line, for any names and ids."""


class CorruptLog(ValueError):
    """A log is damaged in a way that a crash cannot explain."""


@dataclass(frozen=True, slots=True)
class VersionLogEntry:
    """One line: the number of the next version, and the version recorded unless the line is a mark."""

    next_version: int = 0
    artifact: Artifact | None = None


@dataclass(frozen=True, slots=True)
class VersionLogTail:
    """The last complete line of a log, and the offset of its end."""

    entry: VersionLogEntry
    position: int


def artifact_to_fields(artifact: Artifact, owner: tuple[str, ...]) -> dict[str, object]:
    """The stored JSON fields of a version. The owner is only there for people who inspect the storage."""
    return {
        "version": artifact.version,
        "name": artifact.name,
        "owner": owner,
        "size": artifact.size,
        "mime_type": artifact.mime_type,
        "sha256": artifact.sha256,
        "created_at": artifact.created_at.isoformat(),
    }


def artifact_from_fields(fields: Mapping[str, Any]) -> Artifact:
    """The version with these fields; raises `ValueError`, `TypeError` or `KeyError`."""
    return Artifact(
        name=fields["name"],
        version=int(fields["version"]),
        size=int(fields["size"]),
        mime_type=fields["mime_type"],
        sha256=fields["sha256"],
        created_at=datetime.fromisoformat(fields["created_at"]),
    )


def digest_key(parts: tuple[str, ...]) -> str:
    """The SHA-256 of an owner or name: neither ever becomes a path."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def format_record(artifact: Artifact, owner: tuple[str, ...]) -> bytes:
    return _format_line(artifact_to_fields(artifact, owner))


def format_mark(next_version: int) -> bytes:
    """The line that deletes everything before it, and keeps the next version number."""
    return _format_line({"next_version": next_version})


def parse_versions(log: bytes) -> tuple[Artifact, ...]:
    """Every version, oldest first; raises `CorruptLog` for a complete line after a broken one or out of order."""
    found: list[Artifact] = []
    expected = 0
    broken = False
    for number, line in enumerate(_split_lines(log)):
        entry = _parse_entry(line)
        if entry is None:
            broken = True
            continue
        # A mark repeats the expected number; the first line of a log may be a mark with any number.
        follows = entry.artifact.version == expected if entry.artifact else entry.next_version == expected or not number
        if broken or not follows:
            raise CorruptLog(f"a record is out of order: {line[:200]!r}")
        if entry.artifact:
            found.append(entry.artifact)
        else:
            found.clear()
        expected = entry.next_version
    return tuple(found)


def parse_tail(tail: bytes, *, offset: int = 0) -> VersionLogTail | None:
    """The last complete line in the last bytes of a log, which begin at `offset`; None if they have none."""
    position = offset + tail.rfind(b"\n") + 1
    for line in reversed(_split_lines(tail)):
        entry = _parse_entry(line)
        if entry:
            return VersionLogTail(entry, position)
        position -= len(line) + 1
    return None


def _split_lines(log: bytes) -> list[bytes]:
    # JSON escapes newlines, so each line is one record. After the last newline there is a partial record or nothing.
    return log.split(b"\n")[:-1]


def _format_line(fields: Mapping[str, object]) -> bytes:
    text = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
    return _checksum(text) + text + b"\n"


def _checksum(text: bytes) -> bytes:
    return b"%08x " % zlib.crc32(text)


def _parse_entry(line: bytes) -> VersionLogEntry | None:
    """The parsed line; None if it is incomplete."""
    if line[:9] != _checksum(line[9:]):
        return None
    try:
        fields = json.loads(line[9:])
        if "next_version" in fields:
            return VersionLogEntry(int(fields["next_version"]))
        artifact = artifact_from_fields(fields)
    except (ValueError, TypeError, KeyError) as error:
        raise CorruptLog(f"invalid record: {line[:200]!r}") from error
    return VersionLogEntry(artifact.version + 1, artifact)


Owner = tuple[str, ...]

# Large enough for a partial line and the complete line before it, so the cost of a put does not grow with the log.
_TAIL = 4 * MAX_LINE


class VersionLogs:
    """A directory per owner with a log per name, both named by digests."""

    def __init__(self, directory: Path, locks: Path, arrivals: Path) -> None:
        self._directory = directory
        self._locks = locks
        self._arrivals = arrivals

    def versions(self, owner: Owner, name: str) -> tuple[Artifact, ...]:
        """Every version of one name, oldest first."""
        return self._read_versions(self._path(owner, name))

    def latest(self, owner: Owner, name: str) -> Artifact | None:
        """The latest version of one name."""
        return self._read_latest(self._path(owner, name))

    def list_latest(self, owner: Owner) -> list[Artifact]:
        """The latest version of every name of an owner."""
        folder = self._directory / digest_key(owner)
        with suppress(FileNotFoundError):
            return [artifact for path in folder.iterdir() if (artifact := self._read_latest(path))]
        return []

    def list_all(self) -> Iterator[Artifact]:
        """Every version of every name of every owner."""
        for folder in self._directory.iterdir():
            for path in folder.iterdir():
                yield from self._read_versions(path)

    def add(self, owner: Owner, name: str, build: Callable[[int], Artifact]) -> Artifact:
        """Append a version durably; `build` makes it from its number."""
        path = self._path(owner, name)
        with lock_file(self._lock_path(path)):
            make_private(path.parent, durable=True)
            with _open_file(path, os.O_RDWR | os.O_CREAT) as handle:
                last = _read_tail(handle, path)
                if not last.position:
                    # Before the first record, so that a log with a record always has a durable name.
                    flush_directory(path.parent)
                    flush_directory(self._directory)
                artifact = build(last.entry.next_version)
                _append_line(handle, last.position, format_record(artifact, owner))
        return artifact

    def remove(self, owner: Owner, name: str) -> bool:
        """Delete all versions atomically and durably, keeping only the next number; false if there were none.

        This usually works on a full disk: one more line fits into the last block of the log.
        """
        path = self._path(owner, name)
        with lock_file(self._lock_path(path)):
            latest = self._read_latest(path)
            if latest:
                mark = format_mark(latest.version + 1)
                with _open_file(path, os.O_RDWR) as handle:
                    _append_line(handle, _read_tail(handle, path).position, mark)
                try:
                    # Leave only the mark.
                    replace_file_via(path, mark, via=self._arrivals)
                except OSError as error:
                    # The mark in the old file is enough, and deleting must work on a full disk.
                    if not is_disk_full(error):
                        raise
        return latest is not None

    def _read_latest(self, path: Path) -> Artifact | None:
        with suppress(FileNotFoundError), _open_file(path, os.O_RDONLY) as handle:
            return _read_tail(handle, path).entry.artifact
        return None

    def _read_versions(self, path: Path) -> tuple[Artifact, ...]:
        try:
            return parse_versions(_read_content(path))
        except CorruptLog:
            # Perhaps a writer was replacing a partial last line: read again under the lock.
            with lock_file(self._lock_path(path)), _translate_corruption(path):
                return parse_versions(_read_content(path))

    def _path(self, owner: Owner, name: str) -> Path:
        return self._directory / digest_key(owner) / digest_key((*owner, name))

    def _lock_path(self, path: Path) -> Path:
        return self._locks / path.name[:2]


@contextmanager
def _open_file(path: Path, flags: int) -> Generator[int]:
    handle = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        yield handle
    finally:
        os.close(handle)


@contextmanager
def _translate_corruption(path: Path) -> Generator[None]:
    try:
        yield
    except CorruptLog as error:
        raise SkillError(f"the artifact store log {path} is damaged: {error}; restore it") from error


def _read_content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _read_tail(handle: int, path: Path) -> VersionLogTail:
    offset = max(0, os.fstat(handle).st_size - _TAIL)
    with _translate_corruption(path):
        last = parse_tail(os.pread(handle, _TAIL, offset), offset=offset)
        if last is None and offset:
            raise CorruptLog(f"no record in its last {_TAIL:,} bytes")
    return last or VersionLogTail(VersionLogEntry(), 0)


def _append_line(handle: int, position: int, line: bytes) -> None:
    """Write a line after the complete ones, replacing a partial line; leave no part of it on failure."""
    os.ftruncate(handle, position)
    os.lseek(handle, position, os.SEEK_SET)
    try:
        write_all(handle, line)
        os.fsync(handle)
    except OSError:
        with suppress(OSError):
            os.ftruncate(handle, position)
        raise


MAX_BYTES = 1024 * 1024 * 1024
FORMAT = b"openskills artifacts 1\n"

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SweepResult:
    """The number and bytes of unreferenced blobs that a sweep removed."""

    blobs: int
    bytes: int


@check_arguments
class FileArtifactStore:
    """An `ArtifactStore` in a local directory. `max_bytes` limits one artifact.

    The first use creates the directory and removes temporary files of killed processes. Disk errors raise `SkillError`;
    artifacts that were acknowledged before are not affected.
    """

    def __init__(self, root: Path | str, *, max_bytes: int = MAX_BYTES) -> None:
        self._root = Path(root).absolute()
        self._max_bytes = max_bytes
        self._arrivals = self._root / "arriving"
        self._locks = self._root / "locks"
        self._blobs = BlobStore(self._root / "blobs", self._arrivals)
        self._logs = VersionLogs(self._root / "logs", self._locks, self._arrivals)
        self._preparing = threading.Lock()
        self._prepared = False

    async def put(self, scope: Scope, name: str, data: Content, *, mime_type: str = BINARY) -> Artifact:
        """See `ArtifactStore.put`. Memory use does not depend on the size of streamed content."""
        name, mime_type = normalize_name(name), check_mime_type(mime_type)
        async with self._open_stack() as held, aclosing(split_content(data, limit=self._max_bytes)) as arriving:
            arrival = await self._run_in_thread(held.enter_context, self._blobs.create_writer())
            async for piece in arriving:
                await self._run_in_thread(arrival.write, piece)
            return await self._run_in_thread(self._commit, arrival, scope.owner(name), name, mime_type)

    @asynccontextmanager
    async def open(self, scope: Scope, name: str, version: int | None = None) -> AsyncGenerator[ArtifactReader]:
        """See `ArtifactStore.open`. Content that was changed raises `SkillError` at its end."""
        name, version = normalize_name(name), check_version(version)
        async with self._open_stack() as held:
            artifact, outgoing = await self._run_in_thread(self._open_version, held, scope.owner(name), name, version)
            async with aclosing(self._chunks(outgoing)) as chunks:
                yield ArtifactReader(artifact, chunks)

    async def list(self, scope: Scope) -> Sequence[Artifact]:
        return await self._run_in_thread(self._list_latest, (scope.session_owner, scope.user_owner))

    async def versions(self, scope: Scope, name: str) -> Sequence[Artifact]:
        name = normalize_name(name)
        return await self._run_in_thread(self._logs.versions, scope.owner(name), name)

    async def delete(self, scope: Scope, name: str) -> bool:
        """See `ArtifactStore.delete`. The bytes stay on disk until the next `sweep`."""
        name = normalize_name(name)
        return await self._run_in_thread(self._remove, scope.owner(name), name)

    async def sweep(self) -> SweepResult:
        """Remove unreferenced content and temporary files of killed processes.

        Safe at any time, with any number of readers and writers; the last step of a `put` waits for it.
        """
        return await self._run_in_thread(self._sweep)

    @asynccontextmanager
    async def _open_stack(self) -> AsyncGenerator[ExitStack]:
        """A stack for files opened in a thread, so that they are closed even if the caller is cancelled."""
        held = ExitStack()
        try:
            yield held
        finally:
            await self._run_in_thread(held.close)

    async def _chunks(self, outgoing: BlobReader) -> AsyncGenerator[bytes]:
        while piece := await self._run_in_thread(outgoing.read_piece):
            yield piece

    async def _run_in_thread(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run blocking work in a thread, and translate disk errors."""

        def prepare_and_work() -> T:
            self._prepare()
            return work(*args, **kwargs)

        try:
            return await run_in_thread(prepare_and_work)
        except OSError as error:
            raise build_store_error(self._root, error) from error

    def _prepare(self) -> None:
        with self._preparing:
            if self._prepared:
                return
            for directory in (self._arrivals, self._locks, self._root / "blobs", self._root / "logs"):
                make_private(directory, durable=True)
            # Also if they existed: the process that created them may have been killed before flushing.
            flush_directory(self._root)
            flush_directory(self._root.parent)
            path = self._root / "format"
            if not path.exists():
                replace_file_via(path, FORMAT, via=self._arrivals)
            elif path.read_bytes() != FORMAT:
                raise SkillError(
                    f"{self._root} was written by another version of OpenSkill: {path} does not contain"
                    f" {FORMAT.decode().strip()!r}; use another directory or that version"
                )
            remove_orphans(self._arrivals)
            self._prepared = True

    def _commit(self, arrival: BlobWriter, owner: Owner, name: str, mime_type: str) -> Artifact:
        def build(version: int) -> Artifact:
            return Artifact(name, version, arrival.size, mime_type, arrival.sha256, datetime.now(UTC))

        # Shared lock: no sweep may run between adding the content and the record that refers to it.
        with lock_file(self._locks / "sweep", shared=True):
            self._blobs.add(arrival)
            return self._logs.add(owner, name, build)

    def _open_version(
        self, held: ExitStack, owner: Owner, name: str, version: int | None
    ) -> tuple[Artifact, BlobReader]:
        artifact = self._select_version(owner, name, version)
        try:
            return artifact, held.enter_context(self._blobs.open_reader(artifact))
        except FileNotFoundError as error:
            # Raises `InvalidArgument` if it was deleted and swept since the log was read.
            artifact = self._select_version(owner, name, artifact.version)
            raise build_corruption_error(artifact, Path(error.filename)) from error

    def _select_version(self, owner: Owner, name: str, version: int | None) -> Artifact:
        latest = self._logs.latest(owner, name)
        if latest and version in (None, latest.version):
            return latest
        return select_version(name, version, self._logs.versions(owner, name))

    def _list_latest(self, owners: Sequence[Owner]) -> Sequence[Artifact]:
        latest = [artifact for owner in owners for artifact in self._logs.list_latest(owner)]
        return tuple(sorted(latest, key=lambda artifact: artifact.name))

    def _remove(self, owner: Owner, name: str) -> bool:
        with lock_file(self._locks / "sweep", shared=True):
            return self._logs.remove(owner, name)

    def _sweep(self) -> SweepResult:
        remove_orphans(self._arrivals)
        # First without the lock: usually there is nothing to remove, and no writer has to wait.
        candidates = self._blobs.list_digests() - self._list_referenced()
        if not candidates:
            return SweepResult(0, 0)
        with lock_file(self._locks / "sweep"):
            unwanted = candidates - self._list_referenced()
            return SweepResult(len(unwanted), self._blobs.remove(unwanted))

    def _list_referenced(self) -> set[str]:
        return {artifact.sha256 for artifact in self._logs.list_all()}
