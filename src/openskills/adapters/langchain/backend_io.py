"""One body for sync and async hooks.

The skills below a directory of this machine, read without the detours of a backend.

`FilesystemBackend` resolves every path several times. What it would answer is found here with one look at the directory
and one at each SKILL.md; whatever is unusual is left to the backend.

Work that asks a backend for files, written once for both doors of a backend.

deepagents' backends answer blocking (`ls`, `download_files`) and awaitable (`als`, `adownload_files`), and LangChain
calls each hook of a middleware in two forms. What is to be done is a generator that yields questions; `blocking` and
`awaiting` pass them on to the one door or the other.
"""

import asyncio
import os
import stat
from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, TypeAlias, TypeGuard, TypeVar, cast

from deepagents.backends import FilesystemBackend
from deepagents.backends.protocol import BackendProtocol, FileDownloadResponse, LsResult
from langgraph.errors import GraphBubbleUp

from openskills.sync import run

MAX_SKILL_BYTES = 10 * 1024 * 1024
"""The most bytes of a SKILL.md that are read; upstream's limit."""

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_LOCAL_METHODS = ("ls", "als", "download_files", "adownload_files", "_resolve_path")
Stamp = tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A SKILL.md: its path for the backend, the directory's name, where it really is, and when it last changed."""

    path: str
    directory: str
    place: str
    stamp: Stamp

    def read(self) -> bytes | None:
        """The bytes of the file, one more than `LARGEST` at most; None when it is gone or no longer a file."""
        try:
            descriptor = os.open(self.place, _FLAGS)
        except OSError:
            return None
        try:
            is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
            return _read_up_to(descriptor, min(self.stamp[3], MAX_SKILL_BYTES) + 1) if is_file else None
        except OSError:
            return None
        finally:
            os.close(descriptor)


@dataclass(frozen=True, slots=True)
class LocalScan:
    """`files` can be read here; `others` are paths of SKILL.md files that the backend should be asked for."""

    files: tuple[LocalFile, ...]
    others: tuple[str, ...] = ()


def is_local(backend: object) -> TypeGuard[FilesystemBackend]:
    """Whether what a backend answers can be found without asking it: it lists and reads as `FilesystemBackend` does."""
    kind = type(backend)
    return isinstance(backend, FilesystemBackend) and all(
        getattr(kind, name) is getattr(FilesystemBackend, name) for name in _LOCAL_METHODS
    )


def scan_directory(backend: object, source: str) -> LocalScan | None:
    """What is below `source`, sorted by path; None when only the backend itself can say."""
    if not is_local(backend):
        return None
    directory = _resolve_directory(backend, source)
    if directory is None:
        return None
    files: list[LocalFile] = []
    others: list[str] = []
    prefix = _build_prefix(backend, directory)
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.is_symlink():
                    return None
                if entry.is_dir(follow_symlinks=False):
                    _add_skill_file(f"{prefix}{entry.name}/SKILL.md", entry, files, others)
    except OSError:
        return None
    return LocalScan(tuple(sorted(files, key=lambda file: file.path)), tuple(sorted(others)))


def _add_skill_file(path: str, entry: os.DirEntry[str], files: list[LocalFile], others: list[str]) -> None:
    place = f"{entry.path}/SKILL.md"
    try:
        status = os.lstat(place)
    except FileNotFoundError:
        return
    except OSError:
        others.append(path)
        return
    if stat.S_ISREG(status.st_mode):
        stamp = (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size, status.st_ctime_ns)
        files.append(LocalFile(path, entry.name, place, stamp))
    else:
        others.append(path)


def _resolve_directory(backend: FilesystemBackend, source: str) -> str | None:
    """Where `source` is, by the rules of the backend; None for what it refuses or treats in a way of its own."""
    if "\0" in source:
        return None
    if not backend.virtual_mode:
        path = Path(source)
        return os.fspath(path) if path.is_absolute() else os.path.realpath(backend.cwd / path)
    if ".." in source or source.startswith("~"):
        return None
    root = os.fspath(backend.cwd)
    place = os.path.realpath(os.path.join(root, source.lstrip("/")))
    inside = place == root or place.startswith(root.rstrip("/") + "/")
    return place if inside else None


def _build_prefix(backend: FilesystemBackend, directory: str) -> str:
    """What the backend puts before the names below this directory."""
    if not backend.virtual_mode:
        return directory.rstrip("/") + "/"
    below = os.path.relpath(directory, backend.cwd)
    return "/" if below == "." else f"/{below}/"


def _read_up_to(descriptor: int, limit: int) -> bytes:
    """Up to `limit` bytes; a file that grows meanwhile is no reason to read on."""
    chunks: list[bytes] = []
    while limit > 0 and (chunk := os.read(descriptor, limit)):
        chunks.append(chunk)
        limit -= len(chunk)
    return b"".join(chunks)


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ListDirectoryRequest:
    """What is in this directory? What the backend raises is part of the answer if `tolerant`."""

    path: str
    tolerant: bool = False


@dataclass(frozen=True, slots=True)
class DownloadFilesRequest:
    """What is in these files? What the backend raises is part of the answer if `tolerant`."""

    paths: tuple[str, ...]
    tolerant: bool = False


@dataclass(frozen=True, slots=True)
class ScanSourceRequest:
    """Which skills are below this directory, if the backend is a directory of this machine? `read` reads them."""

    source: str
    read: Callable[[LocalScan], Any]


@dataclass(frozen=True, slots=True)
class AwaitRequest:
    """What does this come to? Waiting for it is done as the caller waits. What it raises is part of the answer."""

    begin: Callable[[], Awaitable[Any]]
    tolerant: bool = True


@dataclass(frozen=True, slots=True)
class BackendFailure:
    """What the backend raised instead of answering."""

    error: Exception

    def __str__(self) -> str:
        return f"{type(self.error).__name__}: {self.error}"


BackendRequest: TypeAlias = ListDirectoryRequest | DownloadFilesRequest | ScanSourceRequest | AwaitRequest
Steps: TypeAlias = Generator[BackendRequest, Any, T]
"""Work that yields questions and returns a `T`."""


def list_directory(path: str, *, tolerant: bool = False) -> Steps[tuple[Sequence[Any], str | None]]:
    """The entries of a directory, and what was wrong with reading it."""
    answer = yield ListDirectoryRequest(path, tolerant)
    if isinstance(answer, BackendFailure):
        return (), str(answer)
    if isinstance(answer, LsResult):
        return answer.entries or (), answer.error
    return cast("Sequence[Any]", answer or ()), None


def download_files(paths: Sequence[str], *, tolerant: bool = False) -> Steps[list[FileDownloadResponse]]:
    """One answer for each path, also where the backend gave fewer or more."""
    if not paths:
        return []
    answer = yield DownloadFilesRequest(tuple(paths), tolerant)
    if isinstance(answer, BackendFailure):
        return [FileDownloadResponse(path=path, content=None, error=str(answer)) for path in paths]
    given = list(cast("list[FileDownloadResponse]", answer))[: len(paths)]
    missing = "the backend gave no answer"
    return [*given, *(FileDownloadResponse(path=path, content=None, error=missing) for path in paths[len(given) :])]


def scan_source(source: str, read: Callable[[LocalScan], T]) -> Steps[T | None]:
    """What `read` makes of a directory of this machine; None when the backend has to be asked."""
    return cast("T | None", (yield ScanSourceRequest(source, read)))


def await_result(begin: Callable[[], Awaitable[T]]) -> Steps[T | BackendFailure]:
    """What an awaitable comes to, or what it raised."""
    return cast("T | BackendFailure", (yield AwaitRequest(begin)))


def run_blocking(steps: Steps[T], backend: BackendProtocol) -> T:
    """Do the work with the blocking door of a backend."""
    play = _StepRunner(steps)
    while (ask := play.request) is not None:
        with play:
            play.answer = _answer_blocking(backend, ask)
    return play.result()


async def run_async(steps: Steps[T], backend: BackendProtocol) -> T:
    """Do the work with the awaitable door of a backend."""
    play = _StepRunner(steps)
    while (ask := play.request) is not None:
        with play:
            play.answer = await _answer_async(backend, ask)
    return play.result()


def _answer_blocking(backend: BackendProtocol, ask: BackendRequest) -> object:
    if isinstance(ask, ListDirectoryRequest):
        return backend.ls(ask.path)
    if isinstance(ask, DownloadFilesRequest):
        return backend.download_files(list(ask.paths))
    if isinstance(ask, AwaitRequest):
        return run(ask.begin())
    return _scan_and_read(backend, ask)


async def _answer_async(backend: BackendProtocol, ask: BackendRequest) -> object:
    if isinstance(ask, ListDirectoryRequest):
        return await backend.als(ask.path)
    if isinstance(ask, DownloadFilesRequest):
        return await backend.adownload_files(list(ask.paths))
    if isinstance(ask, AwaitRequest):
        return await ask.begin()
    return await asyncio.to_thread(_scan_and_read, backend, ask) if is_local(backend) else None


def _scan_and_read(backend: BackendProtocol, ask: ScanSourceRequest) -> object:
    found = scan_directory(backend, ask.source)
    return ask.read(found) if found is not None else None


class _StepRunner(Generic[T]):
    """The state of one piece of work: the question that waits, then the result.

    As a context it takes what was answered meanwhile to the work, or what was raised if the question tolerates that.
    """

    def __init__(self, steps: Steps[T]) -> None:
        self._steps = steps
        self._result: T | None = None
        self.answer: object = None
        self.request: BackendRequest | None = None
        self._advance(None)

    def __enter__(self) -> None:
        self.answer = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None:
            self._advance(self.answer)
            return False
        # An interrupt of the graph is raised too, and is no failure.
        if (
            isinstance(error, GraphBubbleUp)
            or not isinstance(error, Exception)
            or not getattr(self.request, "tolerant", False)
        ):
            self._steps.close()
            return False
        self._advance(BackendFailure(error))
        return True

    def result(self) -> T:
        """What the work returned, once it is done."""
        return cast("T", self._result)

    def _advance(self, answer: object) -> None:
        try:
            self.request = self._steps.send(answer)
        except StopIteration as done:
            self.request, self._result = None, cast("T", done.value)
