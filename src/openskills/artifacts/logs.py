"""One log per name: which versions there are. Blocking; one writer per name at a time, readers do not wait for it."""

import hashlib
import json
import os
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from openskills.artifacts.disk import flush_directory, is_full, locked, private, replace, write_all
from openskills.artifacts.records import LONGEST, DamagedLog, Ending, Entry, ending_of, mark_of, record_of, versions_in
from openskills.artifacts.store import Artifact
from openskills.errors import SkillError

Owner = tuple[str, ...]

# What a crash cut short and the whole line before it are in here, so the cost of a put does not grow with the log.
_TAIL = 4 * LONGEST


class Logs:
    """A directory per owner with a log per name, both under digests: a name never becomes a path."""

    def __init__(self, directory: Path, locks: Path, arrivals: Path) -> None:
        self._directory = directory
        self._locks = locks
        self._arrivals = arrivals

    def versions(self, owner: Owner, name: str) -> tuple[Artifact, ...]:
        """Every version of one name, oldest first."""
        return self._versions(self._path(owner, name))

    def latest(self, owner: Owner, name: str) -> Artifact | None:
        """The latest version of one name."""
        return self._latest(self._path(owner, name))

    def latest_of_all(self, owner: Owner) -> list[Artifact]:
        """The latest version of every name of an owner."""
        folder = self._directory / _key(owner)
        with suppress(FileNotFoundError):
            return [artifact for path in folder.iterdir() if (artifact := self._latest(path))]
        return []

    def everything(self) -> Iterator[Artifact]:
        """Every version of every name of everybody."""
        for folder in self._directory.iterdir():
            for path in folder.iterdir():
                yield from self._versions(path)

    def add(self, owner: Owner, name: str, numbered: Callable[[int], Artifact]) -> Artifact:
        """Remember one more version, durably; `numbered` makes it from the number that it gets."""
        path = self._path(owner, name)
        with locked(self._lock(path)):
            private(path.parent)
            with _opened(path, os.O_RDWR | os.O_CREAT) as handle:
                last = _ending(handle, path)
                if not last.position:
                    # Before the first record: whoever is killed when, a log with a record has a durable name.
                    flush_directory(path.parent)
                    flush_directory(self._directory)
                artifact = numbered(last.entry.next_version)
                _extend(handle, last.position, record_of(artifact, owner))
        return artifact

    def forget(self, owner: Owner, name: str) -> bool:
        """Forget all versions in one step, durably, and keep only the next number; false when there were none.

        A disk that is full is mostly no hindrance: one more line fits into the last block of the log.
        """
        path = self._path(owner, name)
        with locked(self._lock(path)):
            latest = self._latest(path)
            if latest:
                mark = mark_of(latest.version + 1)
                with _opened(path, os.O_RDWR) as handle:
                    _extend(handle, _ending(handle, path).position, mark)
                self._take_off_the_disk(path, mark)
        return latest is not None

    def _take_off_the_disk(self, path: Path, mark: bytes) -> None:
        """Leave only the mark of a log that ends with it."""
        try:
            replace(path, mark, via=self._arrivals)
        except OSError as error:
            # A full disk has no room for a new file; what was said in the old one is enough, and must not fail:
            # deleting is how room is made.
            if not is_full(error):
                raise

    def _latest(self, path: Path) -> Artifact | None:
        with suppress(FileNotFoundError), _opened(path, os.O_RDONLY) as handle:
            return _ending(handle, path).entry.artifact
        return None

    def _versions(self, path: Path) -> tuple[Artifact, ...]:
        try:
            return versions_in(_content(path))
        except DamagedLog:
            # Perhaps it was read while a writer mended the end that a crash had cut short: look again, alone.
            with locked(self._lock(path)), _sound(path):
                return versions_in(_content(path))

    def _path(self, owner: Owner, name: str) -> Path:
        return self._directory / _key(owner) / _key((*owner, name))

    def _lock(self, path: Path) -> Path:
        return self._locks / path.name[:2]


def _key(parts: Owner) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@contextmanager
def _opened(path: Path, flags: int) -> Generator[int]:
    handle = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        yield handle
    finally:
        os.close(handle)


@contextmanager
def _sound(path: Path) -> Generator[None]:
    try:
        yield
    except DamagedLog as error:
        raise SkillError(f"the log {path} of the artifact store is damaged: {error}; restore it") from error


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _ending(handle: int, path: Path) -> Ending:
    offset = max(0, os.fstat(handle).st_size - _TAIL)
    with _sound(path):
        last = ending_of(os.pread(handle, _TAIL, offset), offset=offset)
        if last is None and offset:
            raise DamagedLog(f"its last {_TAIL:,} bytes have no record")
    return last or Ending(Entry(), 0)


def _extend(handle: int, position: int, line: bytes) -> None:
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
