"""Work through either door of a backend."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from deepagents.backends import FilesystemBackend
from deepagents.backends.protocol import BackendProtocol, FileDownloadResponse, LsResult
from langgraph.errors import GraphInterrupt

from openskills.adapters.langchain.steps import Steps, awaited, awaiting, blocking, downloaded, listed


class Broken(FilesystemBackend):
    """Raises whatever it is told to."""

    def __init__(self, root: Path, error: BaseException) -> None:
        super().__init__(root_dir=root)
        self.error = error

    def ls(self, path: str) -> LsResult:  # noqa: ARG002
        raise self.error

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:  # noqa: ARG002
        raise self.error


class OldBackend(FilesystemBackend):
    """Lists as backends did before results had errors."""

    def ls(self, path: str) -> Any:
        return [{"path": f"{path}a/", "is_dir": True}]


def both(steps: Any, backend: Any) -> Any:
    """The result through both doors, which is the same."""
    first = blocking(steps(), backend)
    assert asyncio.run(awaiting(steps(), backend)) == first
    return first


def test_questions_are_answered_in_order_through_either_door(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")

    def work() -> Steps[tuple[int, bytes | None]]:
        entries, _ = yield from listed("/")
        (answer,) = yield from downloaded([str(entries[0]["path"])])
        return len(entries), answer.content

    assert both(work, FilesystemBackend(root_dir=tmp_path)) == (1, b"1")


def test_work_without_a_question_needs_no_backend() -> None:
    def work() -> Steps[int]:
        yield from downloaded([])
        return 3

    assert both(work, None) == 3


def test_an_error_of_listing_is_an_answer(tmp_path: Path) -> None:
    entries, error = both(lambda: listed("/nowhere"), FilesystemBackend(root_dir=tmp_path))
    assert (list(entries), error) == ([], "Path '/nowhere': path_not_found")


def test_a_plain_list_of_entries_is_taken(tmp_path: Path) -> None:
    entries, error = both(lambda: listed("/x/"), OldBackend(root_dir=tmp_path))
    assert (list(entries), error) == ([{"path": "/x/a/", "is_dir": True}], None)


def test_what_is_raised_is_an_answer_when_that_is_tolerated(tmp_path: Path) -> None:
    broken = Broken(tmp_path, RuntimeError("gone"))
    assert both(lambda: listed("/", tolerant=True), broken) == ((), "RuntimeError: gone")
    (answer,) = both(lambda: downloaded(["/a"], tolerant=True), broken)
    assert (answer.path, answer.content, answer.error) == ("/a", None, "RuntimeError: gone")


@pytest.mark.parametrize("tolerant", [False, True])
@pytest.mark.parametrize("error", [GraphInterrupt(), KeyboardInterrupt()])
def test_an_interrupt_is_no_failure(tmp_path: Path, error: BaseException, tolerant: bool) -> None:
    with pytest.raises(type(error)):
        blocking(listed("/", tolerant=tolerant), Broken(tmp_path, error))


def test_what_is_raised_is_raised_when_it_is_not_tolerated(tmp_path: Path) -> None:
    ended: list[str] = []

    def work() -> Steps[None]:
        try:
            yield from listed("/")
        finally:
            ended.append("closed")

    with pytest.raises(OSError, match="gone"):
        blocking(work(), Broken(tmp_path, OSError("gone")))
    assert ended == ["closed"]


def test_an_awaitable_is_waited_for_as_the_caller_waits() -> None:
    async def answer() -> int:
        await asyncio.sleep(0)
        return 7

    assert both(lambda: awaited(answer), None) == 7


@pytest.mark.parametrize("count", [0, 1, 3])
def test_there_is_one_answer_for_each_path_whatever_the_backend_gives(count: int) -> None:
    class Careless(BackendProtocol):
        def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
            return [FileDownloadResponse(path=paths[0], content=b"x")] * count

    answers = blocking(downloaded(["/a", "/b"]), Careless())
    assert [answer.content for answer in answers] == [b"x"] * min(count, 2) + [None] * (2 - min(count, 2))
    assert all(answer.error for answer in answers[count:])
