"""Backend access for sync and async hooks, and a fast path for local directories.

deepagents' backends have blocking methods (`ls`, `download_files`) and async ones (`als`, `adownload_files`), and
LangChain calls each hook of a middleware in both forms. Work is written once, as a generator that yields requests;
`run_blocking` and `run_async` answer them with one set of methods or the other.

`FilesystemBackend` resolves every path several times. `scan_directory` gets the same result with one scan of the
directory and one `lstat` per SKILL.md, and leaves unusual cases to the backend.
"""

import asyncio
import os
import stat
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard, TypeVar, cast

from deepagents.backends import FilesystemBackend
from deepagents.backends.protocol import BackendProtocol, FileDownloadResponse, LsResult
from langgraph.errors import GraphBubbleUp

from openskills.sync import run

MAX_SKILL_BYTES = 10 * 1024 * 1024
"""Maximum size of a SKILL.md, as in deepagents."""

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_LOCAL_METHODS = ("ls", "als", "download_files", "adownload_files", "_resolve_path")
Stamp = tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A SKILL.md: its backend path, the name of its directory, its real path, and a stamp that changes with it."""

    path: str
    directory: str
    place: str
    stamp: Stamp

    def read(self) -> bytes | None:
        """The content, at most `MAX_SKILL_BYTES` + 1 bytes; None when the file is gone or not a regular file."""
        try:
            with open(self.place, "rb", buffering=0, opener=lambda path, _: os.open(path, _FLAGS)) as file:
                is_file = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
                return file.read(min(self.stamp[3], MAX_SKILL_BYTES) + 1) if is_file else None
        except OSError:
            return None


@dataclass(frozen=True, slots=True)
class LocalScan:
    """`files` can be read directly; `others` are paths of SKILL.md files to get from the backend."""

    files: tuple[LocalFile, ...]
    others: tuple[str, ...] = ()


def is_local(backend: object) -> TypeGuard[FilesystemBackend]:
    """Whether a backend lists and reads files exactly as `FilesystemBackend` does."""
    kind = type(backend)
    return isinstance(backend, FilesystemBackend) and all(
        getattr(kind, name) is getattr(FilesystemBackend, name) for name in _LOCAL_METHODS
    )


def scan_directory(backend: object, source: str) -> LocalScan | None:
    """The SKILL.md files below `source`, sorted by path; None when the backend must be asked."""
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
    """The directory of `source`, by the rules of the backend; None for special cases and what it refuses."""
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
    if not backend.virtual_mode:
        return directory.rstrip("/") + "/"
    below = os.path.relpath(directory, backend.cwd)
    return "/" if below == "." else f"/{below}/"


T = TypeVar("T")


@dataclass(slots=True)
class BackendRequest:
    """A call of the backend in both forms, and its answer.

    If `tolerant`, an exception in its `with` block becomes the answer, except for an interrupt of the graph.
    """

    call: Callable[[BackendProtocol], Any]
    acall: Callable[[BackendProtocol], Awaitable[Any]]
    tolerant: bool = False
    answer: Any = None

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        if not self.tolerant or not isinstance(error, Exception) or isinstance(error, GraphBubbleUp):
            return False
        self.answer = BackendFailure(error)
        return True


@dataclass(frozen=True, slots=True)
class BackendFailure:
    """An exception of the backend."""

    error: Exception

    def __str__(self) -> str:
        return f"{type(self.error).__name__}: {self.error}"


Steps: TypeAlias = Generator[BackendRequest, Any, T]
"""A generator that yields requests and returns a `T`."""


def list_directory(path: str, *, tolerant: bool = False) -> Steps[tuple[Sequence[Any], str | None]]:
    """The entries of a directory, and an error message or None."""
    answer = yield BackendRequest(lambda backend: backend.ls(path), lambda backend: backend.als(path), tolerant)
    if isinstance(answer, BackendFailure):
        return (), str(answer)
    if isinstance(answer, LsResult):
        return answer.entries or (), answer.error
    return cast("Sequence[Any]", answer or ()), None


def download_files(paths: Sequence[str], *, tolerant: bool = False) -> Steps[list[FileDownloadResponse]]:
    """One response for each path, even if the backend returned fewer or more."""
    if not paths:
        return []
    wanted = list(paths)
    answer = yield BackendRequest(
        lambda backend: backend.download_files(wanted), lambda backend: backend.adownload_files(wanted), tolerant
    )
    if isinstance(answer, BackendFailure):
        return [FileDownloadResponse(path=path, content=None, error=str(answer)) for path in paths]
    given = list(cast("list[FileDownloadResponse]", answer))[: len(paths)]
    missing = "no response from the backend"
    return [*given, *(FileDownloadResponse(path=path, content=None, error=missing) for path in paths[len(given) :])]


def scan_source(source: str, read: Callable[[LocalScan], T]) -> Steps[T | None]:
    """The result of `read` for a local directory; None when the backend must be asked."""

    def scan(backend: BackendProtocol) -> T | None:
        found = scan_directory(backend, source)
        return None if found is None else read(found)

    async def scan_in_thread(backend: BackendProtocol) -> T | None:
        return await asyncio.to_thread(scan, backend) if is_local(backend) else None

    return cast("T | None", (yield BackendRequest(scan, scan_in_thread)))


def await_result(begin: Callable[[], Awaitable[T]]) -> Steps[T | BackendFailure]:
    """The result of an awaitable, or its exception as a `BackendFailure`."""
    request = BackendRequest(lambda _: run(begin()), lambda _: begin(), tolerant=True)
    return cast("T | BackendFailure", (yield request))


def run_blocking(steps: Steps[T], backend: BackendProtocol) -> T:
    """Run the steps with the blocking methods of a backend."""
    answer: Any = None
    with closing(steps):
        while True:
            try:
                request = steps.send(answer)
            except StopIteration as done:
                return done.value
            with request:
                request.answer = request.call(backend)
            answer = request.answer


async def run_async(steps: Steps[T], backend: BackendProtocol) -> T:
    """Run the steps with the async methods of a backend."""
    answer: Any = None
    with closing(steps):
        while True:
            try:
                request = steps.send(answer)
            except StopIteration as done:
                return done.value
            with request:
                request.answer = await request.acall(backend)
            answer = request.answer
