"""On disk.

Content, kept once under its digest. Blocking.

What a store on disk remembers about one name: lines of text, each with its checksum. Pure.

One record per version; a mark says that everything before it was deleted. A line that a crash cut short is at the end
and was promised to nobody; it counts as not there.

One log per name: which versions there are. Blocking; one writer per name at a time, readers do not wait for it.

Artifacts on disk: durable once acknowledged, shared by threads and processes.

format           which layout this is
blobs/DIGEST     content, complete and flushed before it has its name
logs/OWNER/NAME  one log per name; a version exists when its record is in the log
arriving/        content on its way
locks/           one writer per name; nobody writes while `sweep` removes
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
from typing import ParamSpec, TypeVar

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
    lock_shared,
    make_private_durable,
    remove_orphans,
    replace_file_via,
    write_all,
)


class BlobWriter:
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

    def commit(self, target: Path) -> None:
        """Make it durable, then give it its name."""
        os.fsync(self._handle)
        self._path.rename(target)


class BlobReader:
    """Content that is being read, checked against the digest that it was kept under."""

    def __init__(self, handle: int, artifact: Artifact, path: Path) -> None:
        self._handle = handle
        self._artifact = artifact
        self._path = path
        self._size = 0
        self._digest = hashlib.sha256()

    def read_piece(self) -> bytes:
        """The next piece, empty at the end; raises `SkillError` there when the bytes are not those that were put."""
        piece = os.read(self._handle, PIECE_BYTES)
        self._digest.update(piece)
        self._size += len(piece)
        if not piece and (self._size, self._digest.hexdigest()) != (self._artifact.size, self._artifact.sha256):
            raise build_corruption_error(self._artifact, self._path)
        return piece


class BlobStore:
    """A directory of files named by the SHA-256 of what is in them; `arrivals` is on the same disk."""

    def __init__(self, directory: Path, arrivals: Path) -> None:
        self._directory = directory
        self._arrivals = arrivals

    @contextmanager
    def create_writer(self) -> Generator[BlobWriter]:
        """Take content in; what has not been kept when the block ends is gone."""
        with create_unnamed(self._arrivals) as (handle, path):
            yield BlobWriter(handle, path)

    def add(self, arrival: BlobWriter) -> None:
        """Make the content available under its digest, durably; the caller prevents a removal at the same time."""
        target = self._directory / arrival.sha256
        # What has a name is complete and flushed already.
        if not target.exists():
            arrival.commit(target)
        # Also when the file was there: who made it may have been killed before it came this far.
        flush_directory(self._directory)

    @contextmanager
    def open_reader(self, artifact: Artifact) -> Generator[BlobReader]:
        """Read content; raises `FileNotFoundError` when it is not there."""
        path = self._directory / artifact.sha256
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            yield BlobReader(handle, artifact, path)
        finally:
            os.close(handle)

    def list_digests(self) -> Set[str]:
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


def build_corruption_error(artifact: Artifact, path: Path) -> SkillError:
    """The error for content that is not what was put; only somebody else, or a failing disk, can have changed it."""
    return SkillError(f"{artifact.ref} is damaged: {path} is missing or has changed; restore it", ref=artifact.ref)


MAX_LINE = 16 * 1024
"""No line is longer than this, whatever names and ids are in it."""


class CorruptLog(ValueError):
    """A log with a fault that no crash of ours can leave behind."""


@dataclass(frozen=True, slots=True)
class VersionLogEntry:
    """One line: the number of the next version, and the version before it unless the line is a mark."""

    next_version: int = 0
    artifact: Artifact | None = None


@dataclass(frozen=True, slots=True)
class VersionLogTail:
    """The last whole line of a log, and where it ends."""

    entry: VersionLogEntry
    position: int


def format_record(artifact: Artifact, owner: tuple[str, ...]) -> bytes:
    """The line that remembers one version. The owner is there for people who look at the disk."""
    return _format_line(
        {
            "version": artifact.version,
            "name": artifact.name,
            "owner": owner,
            "size": artifact.size,
            "mime_type": artifact.mime_type,
            "sha256": artifact.sha256,
            "created_at": artifact.created_at.isoformat(),
        }
    )


def format_mark(next_version: int) -> bytes:
    """The line that forgets what is before it, and remembers how far versions had come."""
    return _format_line({"next_version": next_version})


def parse_versions(log: bytes) -> tuple[Artifact, ...]:
    """Every version, oldest first; raises `CorruptLog` when a whole line follows a broken one or is out of order."""
    found: list[Artifact] = []
    expected = 0
    broken = False
    for number, line in enumerate(_split_lines(log)):
        entry = _parse_entry(line)
        if entry is None:
            broken = True
            continue
        # A mark repeats the number that was to come; at the beginning nothing was before it.
        follows = entry.artifact.version == expected if entry.artifact else entry.next_version == expected or not number
        if broken or not follows:
            raise CorruptLog(f"a record is out of place: {line[:200]!r}")
        if entry.artifact:
            found.append(entry.artifact)
        else:
            found.clear()
        expected = entry.next_version
    return tuple(found)


def parse_tail(tail: bytes, *, offset: int = 0) -> VersionLogTail | None:
    """The last whole line in the last bytes of a log, which begin at `offset`; None when there is none in them."""
    position = offset + tail.rfind(b"\n") + 1
    for line in reversed(_split_lines(tail)):
        entry = _parse_entry(line)
        if entry:
            return VersionLogTail(entry, position)
        position -= len(line) + 1
    return None


def _split_lines(log: bytes) -> list[bytes]:
    # JSON escapes line ends, so a line is a record. What follows the last line end is the beginning of one, or nothing.
    return log.split(b"\n")[:-1]


def _format_line(fields: Mapping[str, object]) -> bytes:
    text = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
    return _checksum(text) + text + b"\n"


def _checksum(text: bytes) -> bytes:
    return b"%08x " % zlib.crc32(text)


def _parse_entry(line: bytes) -> VersionLogEntry | None:
    """What a line says; None when it is not whole."""
    if line[:9] != _checksum(line[9:]):
        return None
    try:
        fields = json.loads(line[9:])
        if "next_version" in fields:
            return VersionLogEntry(int(fields["next_version"]))
        artifact = Artifact(
            name=fields["name"],
            version=int(fields["version"]),
            size=int(fields["size"]),
            mime_type=fields["mime_type"],
            sha256=fields["sha256"],
            created_at=datetime.fromisoformat(fields["created_at"]),
        )
    except (ValueError, TypeError, KeyError) as error:
        raise CorruptLog(f"a record cannot be understood: {line[:200]!r}") from error
    return VersionLogEntry(artifact.version + 1, artifact)


Owner = tuple[str, ...]

# What a crash cut short and the whole line before it are in here, so the cost of a put does not grow with the log.
_TAIL = 4 * MAX_LINE


class VersionLogs:
    """A directory per owner with a log per name, both under digests: a name never becomes a path."""

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
        folder = self._directory / _key(owner)
        with suppress(FileNotFoundError):
            return [artifact for path in folder.iterdir() if (artifact := self._read_latest(path))]
        return []

    def list_all(self) -> Iterator[Artifact]:
        """Every version of every name of everybody."""
        for folder in self._directory.iterdir():
            for path in folder.iterdir():
                yield from self._read_versions(path)

    def add(self, owner: Owner, name: str, numbered: Callable[[int], Artifact]) -> Artifact:
        """Remember one more version, durably; `numbered` makes it from the number that it gets."""
        path = self._path(owner, name)
        with lock_shared(self._lock_path(path)):
            make_private_durable(path.parent)
            with _open_file(path, os.O_RDWR | os.O_CREAT) as handle:
                last = _read_tail(handle, path)
                if not last.position:
                    # Before the first record: whoever is killed when, a log with a record has a durable name.
                    flush_directory(path.parent)
                    flush_directory(self._directory)
                artifact = numbered(last.entry.next_version)
                _append_line(handle, last.position, format_record(artifact, owner))
        return artifact

    def remove(self, owner: Owner, name: str) -> bool:
        """Forget all versions in one step, durably, and keep only the next number; false when there were none.

        A disk that is full is mostly no hindrance: one more line fits into the last block of the log.
        """
        path = self._path(owner, name)
        with lock_shared(self._lock_path(path)):
            latest = self._read_latest(path)
            if latest:
                mark = format_mark(latest.version + 1)
                with _open_file(path, os.O_RDWR) as handle:
                    _append_line(handle, _read_tail(handle, path).position, mark)
                self._truncate_to_mark(path, mark)
        return latest is not None

    def _truncate_to_mark(self, path: Path, mark: bytes) -> None:
        """Leave only the mark of a log that ends with it."""
        try:
            replace_file_via(path, mark, via=self._arrivals)
        except OSError as error:
            # A full disk has no room for a new file; what was said in the old one is enough, and must not fail:
            # deleting is how room is made.
            if not is_disk_full(error):
                raise

    def _read_latest(self, path: Path) -> Artifact | None:
        with suppress(FileNotFoundError), _open_file(path, os.O_RDONLY) as handle:
            return _read_tail(handle, path).entry.artifact
        return None

    def _read_versions(self, path: Path) -> tuple[Artifact, ...]:
        try:
            return parse_versions(_read_content(path))
        except CorruptLog:
            # Perhaps it was read while a writer mended the end that a crash had cut short: look again, alone.
            with lock_shared(self._lock_path(path)), _translate_corruption(path):
                return parse_versions(_read_content(path))

    def _path(self, owner: Owner, name: str) -> Path:
        return self._directory / _key(owner) / _key((*owner, name))

    def _lock_path(self, path: Path) -> Path:
        return self._locks / path.name[:2]


def _key(parts: Owner) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


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
        raise SkillError(f"the log {path} of the artifact store is damaged: {error}; restore it") from error


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
            raise CorruptLog(f"its last {_TAIL:,} bytes have no record")
    return last or VersionLogTail(VersionLogEntry(), 0)


def _append_line(handle: int, position: int, line: bytes) -> None:
    """Write a line after the whole ones, in the place of what a crash cut short; leave no part of it on failure."""
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
        self._blobs = BlobStore(self._root / "blobs", self._arrivals)
        self._logs = VersionLogs(self._root / "logs", self._locks, self._arrivals)
        self._preparing = threading.Lock()
        self._prepared = False

    async def put(self, scope: Scope, name: str, data: Content, *, mime_type: str = BINARY) -> Artifact:
        """See `ArtifactStore.put`. Memory use does not depend on the size of what comes in pieces."""
        name, mime_type = normalize_name(name), check_mime_type(mime_type)
        async with self._open_stack() as held, aclosing(split_content(data, limit=self._max_bytes)) as arriving:
            arrival = await self._run_in_thread(held.enter_context, self._blobs.create_writer())
            async for piece in arriving:
                await self._run_in_thread(arrival.write, piece)
            return await self._run_in_thread(self._commit, arrival, scope.owner(name), name, mime_type)

    @asynccontextmanager
    async def open(self, scope: Scope, name: str, version: int | None = None) -> AsyncGenerator[ArtifactReader]:
        """See `ArtifactStore.open`. Bytes that are not those that were put raise `SkillError` at their end."""
        name, version = normalize_name(name), check_version(version)
        async with self._open_stack() as held:
            artifact, outgoing = await self._run_in_thread(self._open_version, held, scope.owner(name), name, version)
            async with aclosing(self._chunks(outgoing)) as chunks:
                yield ArtifactReader(artifact, chunks)

    async def list(self, scope: Scope) -> Sequence[Artifact]:
        """See `ArtifactStore.list`."""
        return await self._run_in_thread(self._list_latest, (scope.session_owner, scope.user_owner))

    async def versions(self, scope: Scope, name: str) -> Sequence[Artifact]:
        """See `ArtifactStore.versions`."""
        name = normalize_name(name)
        return await self._run_in_thread(self._logs.versions, scope.owner(name), name)

    async def delete(self, scope: Scope, name: str) -> bool:
        """See `ArtifactStore.delete`. The bytes stay on the disk until the next `sweep`."""
        name = normalize_name(name)
        return await self._run_in_thread(self._remove, scope.owner(name), name)

    async def sweep(self) -> SweepResult:
        """Remove content that no version refers to, and what killed processes left on the way.

        Safe at any time, beside any number of readers and writers; the last step of a `put` waits for it.
        """
        return await self._run_in_thread(self._sweep)

    @asynccontextmanager
    async def _open_stack(self) -> AsyncGenerator[ExitStack]:
        """A stack for what is opened in a thread, so that it is closed even when nobody waits for the answer."""
        held = ExitStack()
        try:
            yield held
        finally:
            await self._run_in_thread(held.close)

    async def _chunks(self, outgoing: BlobReader) -> AsyncGenerator[bytes]:
        while piece := await self._run_in_thread(outgoing.read_piece):
            yield piece

    async def _run_in_thread(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The one place where blocking work goes to a thread, and where the errors of the disk are translated."""

        def prepared() -> T:
            self._prepare()
            return work(*args, **kwargs)

        try:
            return await run_in_thread(prepared)
        except OSError as error:
            raise build_store_error(self._root, error) from error

    def _prepare(self) -> None:
        with self._preparing:
            if self._prepared:
                return
            for directory in (self._arrivals, self._locks, self._root / "blobs", self._root / "logs"):
                make_private_durable(directory)
            # Also when they were there: who made them may have been killed before it came this far.
            flush_directory(self._root)
            flush_directory(self._root.parent)
            self._check_format()
            remove_orphans(self._arrivals)
            self._prepared = True

    def _check_format(self) -> None:
        path = self._root / "format"
        if not path.exists():
            replace_file_via(path, FORMAT, via=self._arrivals)
        elif path.read_bytes() != FORMAT:
            raise SkillError(
                f"{self._root} was written by another version of OpenSkill: {path} does not say"
                f" {FORMAT.decode().strip()!r}; choose another directory or that version"
            )

    def _commit(self, arrival: BlobWriter, owner: Owner, name: str, mime_type: str) -> Artifact:
        def numbered(version: int) -> Artifact:
            return Artifact(name, version, arrival.size, mime_type, arrival.sha256, datetime.now(UTC))

        # Shared, so that no sweep falls between the content and the record that refers to it.
        with lock_shared(self._locks / "sweep", shared=True):
            self._blobs.add(arrival)
            return self._logs.add(owner, name, numbered)

    def _open_version(
        self, held: ExitStack, owner: Owner, name: str, version: int | None
    ) -> tuple[Artifact, BlobReader]:
        artifact = self._select_version(owner, name, version)
        try:
            return artifact, held.enter_context(self._blobs.open_reader(artifact))
        except FileNotFoundError as error:
            # Deleted and swept since the log was read: then this says so.
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
        with lock_shared(self._locks / "sweep", shared=True):
            return self._logs.remove(owner, name)

    def _sweep(self) -> SweepResult:
        remove_orphans(self._arrivals)
        # Looked at twice: the first time nobody has to wait, and mostly there is nothing to do.
        candidates = self._blobs.list_digests() - self._list_referenced()
        if not candidates:
            return SweepResult(0, 0)
        with lock_shared(self._locks / "sweep"):
            unwanted = candidates - self._list_referenced()
            return SweepResult(len(unwanted), self._blobs.remove(unwanted))

    def _list_referenced(self) -> set[str]:
        return {artifact.sha256 for artifact in self._logs.list_all()}
