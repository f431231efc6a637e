"""Work that asks a backend for files, written once for both doors of a backend.

deepagents' backends answer blocking (`ls`, `download_files`) and awaitable (`als`, `adownload_files`), and LangChain
calls each hook of a middleware in two forms. What is to be done is a generator that yields questions; `blocking` and
`awaiting` pass them on to the one door or the other.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, TypeAlias, TypeVar, cast

from deepagents.backends.protocol import BackendProtocol, FileDownloadResponse, LsResult
from langgraph.errors import GraphBubbleUp

from openskills.adapters.langchain.local_scan import LocalScan, is_local, scan
from openskills.sync import run

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ls:
    """What is in this directory? What the backend raises is part of the answer if `tolerant`."""

    path: str
    tolerant: bool = False


@dataclass(frozen=True, slots=True)
class Download:
    """What is in these files? What the backend raises is part of the answer if `tolerant`."""

    paths: tuple[str, ...]
    tolerant: bool = False


@dataclass(frozen=True, slots=True)
class Scan:
    """Which skills are below this directory, if the backend is a directory of this machine? `read` reads them."""

    source: str
    read: Callable[[LocalScan], Any]


@dataclass(frozen=True, slots=True)
class Await:
    """What does this come to? Waiting for it is done as the caller waits. What it raises is part of the answer."""

    begin: Callable[[], Awaitable[Any]]
    tolerant: bool = True


@dataclass(frozen=True, slots=True)
class Failed:
    """What the backend raised instead of answering."""

    error: Exception

    def __str__(self) -> str:
        return f"{type(self.error).__name__}: {self.error}"


Ask: TypeAlias = Ls | Download | Scan | Await
Steps: TypeAlias = Generator[Ask, Any, T]
"""Work that yields questions and returns a `T`."""


def listed(path: str, *, tolerant: bool = False) -> Steps[tuple[Sequence[Any], str | None]]:
    """The entries of a directory, and what was wrong with reading it."""
    answer = yield Ls(path, tolerant)
    if isinstance(answer, Failed):
        return (), str(answer)
    if isinstance(answer, LsResult):
        return answer.entries or (), answer.error
    return cast("Sequence[Any]", answer or ()), None


def downloaded(paths: Sequence[str], *, tolerant: bool = False) -> Steps[list[FileDownloadResponse]]:
    """One answer for each path, also where the backend gave fewer or more."""
    if not paths:
        return []
    answer = yield Download(tuple(paths), tolerant)
    if isinstance(answer, Failed):
        return [FileDownloadResponse(path=path, content=None, error=str(answer)) for path in paths]
    given = list(cast("list[FileDownloadResponse]", answer))[: len(paths)]
    missing = "the backend gave no answer"
    return [*given, *(FileDownloadResponse(path=path, content=None, error=missing) for path in paths[len(given) :])]


def scanned(source: str, read: Callable[[LocalScan], T]) -> Steps[T | None]:
    """What `read` makes of a directory of this machine; None when the backend has to be asked."""
    return cast("T | None", (yield Scan(source, read)))


def awaited(begin: Callable[[], Awaitable[T]]) -> Steps[T | Failed]:
    """What an awaitable comes to, or what it raised."""
    return cast("T | Failed", (yield Await(begin)))


def blocking(steps: Steps[T], backend: BackendProtocol) -> T:
    """Do the work with the blocking door of a backend."""
    play = _Play(steps)
    while (ask := play.ask) is not None:
        with play:
            play.answer = _ask(backend, ask)
    return play.result()


async def awaiting(steps: Steps[T], backend: BackendProtocol) -> T:
    """Do the work with the awaitable door of a backend."""
    play = _Play(steps)
    while (ask := play.ask) is not None:
        with play:
            play.answer = await _asked(backend, ask)
    return play.result()


def _ask(backend: BackendProtocol, ask: Ask) -> object:
    if isinstance(ask, Ls):
        return backend.ls(ask.path)
    if isinstance(ask, Download):
        return backend.download_files(list(ask.paths))
    if isinstance(ask, Await):
        return run(ask.begin())
    return _scanned(backend, ask)


async def _asked(backend: BackendProtocol, ask: Ask) -> object:
    if isinstance(ask, Ls):
        return await backend.als(ask.path)
    if isinstance(ask, Download):
        return await backend.adownload_files(list(ask.paths))
    if isinstance(ask, Await):
        return await ask.begin()
    return await asyncio.to_thread(_scanned, backend, ask) if is_local(backend) else None


def _scanned(backend: BackendProtocol, ask: Scan) -> object:
    found = scan(backend, ask.source)
    return ask.read(found) if found is not None else None


class _Play(Generic[T]):
    """The state of one piece of work: the question that waits, then the result.

    As a context it takes what was answered meanwhile to the work, or what was raised if the question tolerates that.
    """

    def __init__(self, steps: Steps[T]) -> None:
        self._steps = steps
        self._result: T | None = None
        self.answer: object = None
        self.ask: Ask | None = None
        self._go_on(None)

    def __enter__(self) -> None:
        self.answer = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None:
            self._go_on(self.answer)
            return False
        # An interrupt of the graph is raised too, and is no failure.
        if (
            isinstance(error, GraphBubbleUp)
            or not isinstance(error, Exception)
            or not getattr(self.ask, "tolerant", False)
        ):
            self._steps.close()
            return False
        self._go_on(Failed(error))
        return True

    def result(self) -> T:
        """What the work returned, once it is done."""
        return cast("T", self._result)

    def _go_on(self, answer: object) -> None:
        try:
            self.ask = self._steps.send(answer)
        except StopIteration as done:
            self.ask, self._result = None, cast("T", done.value)
