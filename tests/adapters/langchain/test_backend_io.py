"""Skills of a directory of this machine: what the backend would answer, quicker.

Work through the sync or the async methods of a backend.
"""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from deepagents.backends import FilesystemBackend
from deepagents.backends.protocol import BackendProtocol, FileDownloadResponse, LsResult
from langgraph.errors import GraphInterrupt

from openskills.adapters.langchain.backend_io import (
    MAX_SKILL_BYTES,
    LocalScan,
    Steps,
    await_result,
    download_files,
    list_directory,
    run_async,
    run_blocking,
    scan_directory,
)
from tests.skill_writer import WriteSkill


class Quiet(FilesystemBackend):
    """Answers as its base does."""


class Other(FilesystemBackend):
    """Answers differently."""

    def ls(self, path: str) -> LsResult:
        return LsResult(error=f"not {path}")


def paths(backend: Any, source: str) -> list[str]:
    found = scan_directory(backend, source)
    assert found is not None
    return [file.path for file in found.files]


@pytest.mark.parametrize("source", ["/skills/", "skills", "/skills", "/"])
def test_paths_are_those_of_the_backend(write_skill: WriteSkill, backend: Any, source: str) -> None:
    for name in ("b", "a"):
        write_skill(name, under="skills" if source != "/" else ".")
    listed = [entry["path"] for entry in backend.ls(source).entries if entry["is_dir"]]
    expected = [f"{path}SKILL.md" for path in listed if "skills/" not in path or source != "/"]
    assert paths(backend, source) == sorted(expected)


def test_without_virtual_paths_they_are_real_ones(write_skill: WriteSkill, tmp_path: Path) -> None:
    write_skill("a")
    backend = FilesystemBackend(root_dir=tmp_path, virtual_mode=False)
    assert paths(backend, str(tmp_path / "skills")) == [str(tmp_path / "skills" / "a" / "SKILL.md")]
    assert paths(backend, "skills") == [str(tmp_path / "skills" / "a" / "SKILL.md")]


@pytest.mark.parametrize("source", ["/../", "/nowhere", "~/skills", "/a\0b", "/file"])
def test_what_the_backend_refuses_is_left_to_it(backend: Any, tmp_path: Path, source: str) -> None:
    (tmp_path / "file").write_text("x", "utf-8")
    assert scan_directory(backend, source) is None


def test_a_source_that_leads_out_of_the_root_is_left_to_the_backend(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "outside" / "a").mkdir(parents=True)
    (tmp_path / "root" / "skills").symlink_to(tmp_path / "outside")
    assert scan_directory(FilesystemBackend(root_dir=tmp_path / "root"), "/skills") is None


def test_linked_skills_are_left_to_the_backend(write_skill: WriteSkill, backend: Any, tmp_path: Path) -> None:
    write_skill("a")
    (tmp_path / "skills" / "b").symlink_to(tmp_path / "skills" / "a")
    assert scan_directory(backend, "/skills/") is None


def test_a_linked_file_is_left_to_the_backend(write_skill: WriteSkill, backend: Any, tmp_path: Path) -> None:
    skill = write_skill("a")
    (skill / "SKILL.md").rename(skill / "real.md")
    (skill / "SKILL.md").symlink_to("real.md")
    (tmp_path / "skills" / "d" / "SKILL.md").mkdir(parents=True)
    found = scan_directory(backend, "/skills/")
    assert found is not None
    assert (found.files, found.others) == ((), ("/skills/a/SKILL.md", "/skills/d/SKILL.md"))


def test_other_backends_are_asked_themselves(tmp_path: Path) -> None:
    assert scan_directory(Other(root_dir=tmp_path), "/") is None
    assert scan_directory(None, "/") is None
    assert scan_directory(Quiet(root_dir=tmp_path), "/") == LocalScan(())


def test_directories_without_a_skill_and_files_are_passed_over(backend: Any, tmp_path: Path) -> None:
    (tmp_path / "skills" / "empty").mkdir()
    (tmp_path / "skills" / "file").write_text("x", "utf-8")
    assert paths(backend, "/skills/") == []


def test_a_file_that_is_gone_or_became_something_else_is_not_read(write_skill: WriteSkill, backend: Any) -> None:
    skill = write_skill("a")
    found = scan_directory(backend, "/skills/")
    assert found is not None
    (skill / "SKILL.md").unlink()
    assert found.files[0].read() is None
    os.mkfifo(skill / "SKILL.md")
    assert found.files[0].read() is None


def test_no_more_is_read_than_can_be_used(write_skill: WriteSkill, backend: Any) -> None:
    skill = write_skill("a")
    with (skill / "SKILL.md").open("wb") as file:
        file.truncate(MAX_SKILL_BYTES + 100)
    found = scan_directory(backend, "/skills/")
    assert found is not None
    content = found.files[0].read()
    assert content is not None
    assert len(content) == MAX_SKILL_BYTES + 1


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
    first = run_blocking(steps(), backend)
    assert asyncio.run(run_async(steps(), backend)) == first
    return first


def test_questions_are_answered_in_order_through_sync_and_async_methods(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")

    def work() -> Steps[tuple[int, bytes | None]]:
        entries, _ = yield from list_directory("/")
        (answer,) = yield from download_files([str(entries[0]["path"])])
        return len(entries), answer.content

    assert both(work, FilesystemBackend(root_dir=tmp_path)) == (1, b"1")


def test_work_without_a_question_needs_no_backend() -> None:
    def work() -> Steps[int]:
        yield from download_files([])
        return 3

    assert both(work, None) == 3


def test_an_error_of_listing_is_an_answer(tmp_path: Path) -> None:
    entries, error = both(lambda: list_directory("/nowhere"), FilesystemBackend(root_dir=tmp_path))
    assert (list(entries), error) == ([], "Path '/nowhere': path_not_found")


def test_a_plain_list_of_entries_is_taken(tmp_path: Path) -> None:
    entries, error = both(lambda: list_directory("/x/"), OldBackend(root_dir=tmp_path))
    assert (list(entries), error) == ([{"path": "/x/a/", "is_dir": True}], None)


def test_what_is_raised_is_an_answer_when_that_is_tolerated(tmp_path: Path) -> None:
    broken = Broken(tmp_path, RuntimeError("gone"))
    assert both(lambda: list_directory("/", tolerant=True), broken) == ((), "RuntimeError: gone")
    (answer,) = both(lambda: download_files(["/a"], tolerant=True), broken)
    assert (answer.path, answer.content, answer.error) == ("/a", None, "RuntimeError: gone")


@pytest.mark.parametrize("tolerant", [False, True])
@pytest.mark.parametrize("error", [GraphInterrupt(), KeyboardInterrupt()])
def test_an_interrupt_is_not_a_failure(tmp_path: Path, error: BaseException, tolerant: bool) -> None:
    with pytest.raises(type(error)):
        run_blocking(list_directory("/", tolerant=tolerant), Broken(tmp_path, error))


def test_what_is_raised_is_raised_when_it_is_not_tolerated(tmp_path: Path) -> None:
    ended: list[str] = []

    def work() -> Steps[None]:
        try:
            yield from list_directory("/")
        finally:
            ended.append("closed")

    with pytest.raises(OSError, match="gone"):
        run_blocking(work(), Broken(tmp_path, OSError("gone")))
    assert ended == ["closed"]


def test_an_awaitable_is_waited_for_as_the_caller_waits() -> None:
    async def answer() -> int:
        await asyncio.sleep(0)
        return 7

    assert both(lambda: await_result(answer), None) == 7


@pytest.mark.parametrize("count", [0, 1, 3])
def test_there_is_one_answer_for_each_path_whatever_the_backend_gives(count: int) -> None:
    class Careless(BackendProtocol):
        def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
            return [FileDownloadResponse(path=paths[0], content=b"x")] * count

    answers = run_blocking(download_files(["/a", "/b"]), Careless())
    assert [answer.content for answer in answers] == [b"x"] * min(count, 2) + [None] * (2 - min(count, 2))
    assert all(answer.error for answer in answers[count:])
