"""Files of the conversation in a workspace."""

import asyncio
from typing import Any

import pytest

from openskills.artifacts.memory import MemoryArtifactStore
from openskills.errors import SkillError
from openskills.executors.protocol import Workspace
from openskills.testing.fake_executor import FakeExecutor
from openskills.tools.uploads import (
    DownloadCallback,
    UploadLimits,
    UploadReport,
    Uploads,
    UploadStager,
    UserUpload,
    upload_from_bytes,
)
from tests.tools.contexts import SCOPE
from tests.tools.run_calls import PNG


class Desk:
    """Files of a conversation, a workspace in memory for them, and artifacts."""

    def __init__(
        self, *files: UserUpload, download: DownloadCallback | None = None, limits: UploadLimits | None = None
    ) -> None:
        self.uploads = Uploads(download=download, limits=limits)
        self.executor = FakeExecutor()
        self.artifacts: MemoryArtifactStore | None = MemoryArtifactStore()
        for file in files:
            self.uploads.add(file)

    async def workspace(self) -> Workspace:
        """The workspace as it is now."""
        return await self.executor.open("session")

    async def staging(self) -> UploadStager:
        """What stages into it."""
        return UploadStager(self.uploads, await self.workspace(), scope=SCOPE, artifacts=self.artifacts)

    async def arrive(self) -> UploadReport:
        """Stage what is new."""
        return await (await self.staging()).stage()

    async def paths(self) -> dict[str, bytes]:
        """Everything in the place for inputs."""
        workspace = await self.workspace()
        found = (await workspace.list(["work/inputs/**"])).files
        return {one.path.removeprefix("work/inputs/"): await self.read(one.path) for one in found}

    async def read(self, path: str) -> bytes:
        """The bytes of a file."""
        async with (await self.workspace()).open(path) as reading:
            return b"".join([chunk async for chunk in reading.chunks])


def by_id(file_id: str, name: str = "") -> UserUpload:
    """A file that has to be fetched."""
    return UserUpload(f"file_id/{file_id}/name/{name}", name, None, file_id)


async def test_files_arrive_as_they_are_under_names_that_are_safe_and_different() -> None:
    desk = Desk(
        upload_from_bytes("../../etc/passwd", b"1"),
        upload_from_bytes("chart.png", PNG),
        upload_from_bytes("CHART.png", b"2"),
        upload_from_bytes("", b"3"),
        upload_from_bytes("c:\\docs\\a b.txt", b"4"),
    )
    arrivals = await desk.arrive()
    assert await desk.paths() == {
        "passwd": b"1",
        "chart.png": PNG,
        "CHART_2.png": b"2",
        "upload_1": b"3",
        "a b.txt": b"4",
    }
    chart = list(arrivals.files.values())[1]
    assert (chart.path, chart.original_name) == ("work/inputs/chart.png", "chart.png")
    assert (chart.mime_type, chart.size) == ("image/png", len(PNG))
    assert arrivals.warnings == ()


async def test_a_file_comes_once_and_what_a_command_did_to_it_stays() -> None:
    desk = Desk(upload_from_bytes("a", b"1"), upload_from_bytes("b", b"2"))
    await desk.arrive()
    workspace = await desk.workspace()
    await workspace.write("work/inputs/a", b"changed")
    await workspace.remove("work/inputs/b")
    desk.uploads.add(upload_from_bytes("c", b"3"))
    await desk.arrive()
    assert await desk.paths() == {"a": b"changed", "c": b"3"}


async def test_arrivals_are_told_until_a_model_has_heard_of_them() -> None:
    desk = Desk(upload_from_bytes("a", b"1"))
    staging = await desk.staging()
    await staging.stage()
    again = await staging.stage()
    assert [file.path for file in again.files.values()] == ["work/inputs/a"]
    staging.mark_reported(again)
    desk.uploads.add(upload_from_bytes("b", b"2"))
    assert [file.path for file in (await staging.stage()).files.values()] == ["work/inputs/b"]


async def test_a_problem_is_told_until_a_model_has_heard_of_it_and_stays_a_reason_for_who_looks() -> None:
    desk = Desk(by_id("file-1", "a.csv"), limits=UploadLimits(files=2))
    desk.uploads.add_from_messages(
        [{"role": "user", "content": [{"type": "file", "file": {"filename": "x", "data": "!"}}]}]
    )
    staging = await desk.staging()
    await staging.stage()
    arrivals = await staging.stage()
    assert [warning.partition(" ")[0] for warning in arrivals.warnings] == ["x", "a.csv"]
    assert arrivals.missing == arrivals.warnings
    staging.mark_reported(arrivals)
    again = await staging.stage()
    assert (again.warnings, again.missing) == ((), arrivals.missing)
    await desk.executor.remove("session")
    assert (await desk.arrive()).warnings == ()
    for name in ("b", "c", "d"):
        desk.uploads.add(upload_from_bytes(name, b"1"))
    (news,) = (await desk.arrive()).warnings
    assert news == "c, d are unavailable: too many files, at most 2"


async def test_downloads_that_fail_are_few_sentences_however_many_they_are() -> None:
    desk = Desk(*(by_id(f"file-{number}", f"{number}.csv") for number in range(100)))
    warnings = (await desk.arrive()).warnings
    assert len(warnings) == 11
    assert warnings[-1] == "90 more files are unavailable"


async def test_in_a_workspace_from_before_the_users_file_is_taken_as_it_is_and_nothing_is_overwritten() -> None:
    desk = Desk(upload_from_bytes("same.txt", b"1"), upload_from_bytes("mine.txt", b"2"))
    workspace = await desk.workspace()
    before = await workspace.write("work/inputs/same.txt", b"1")
    await workspace.write("work/inputs/mine.txt", b"of a command")
    await workspace.write("work/inputs/mine_2.txt", b"X")
    arrivals = await desk.arrive()
    assert [file.path for file in arrivals.files.values()] == ["work/inputs/same.txt", "work/inputs/mine_3.txt"]
    paths = await desk.paths()
    assert (paths["mine.txt"], paths["mine_2.txt"], paths["mine_3.txt"]) == (b"of a command", b"X", b"2")
    same = (await workspace.list(["work/inputs/same.txt"])).files[0]
    assert same.stamp == before.stamp


async def test_a_workspace_that_was_made_anew_gets_the_files_again() -> None:
    desk = Desk(upload_from_bytes("a", b"1"))
    await desk.arrive()
    await desk.executor.remove("session")
    assert await desk.paths() == {}
    await desk.arrive()
    assert await desk.paths() == {"a": b"1"}


async def test_an_artifact_comes_from_the_store_with_its_own_name() -> None:
    desk = Desk(
        by_id("artifact://in/chart.bin"),
        by_id("artifact://user:photo.png@0", "mine.png"),
        by_id("artifact://in/chart.bin@0"),
        by_id("artifact://user:photo.png"),
    )
    assert desk.artifacts is not None
    await desk.artifacts.put(SCOPE, "in/chart.bin", b"old")
    await desk.artifacts.put(SCOPE, "in/chart.bin", b"new")
    await desk.artifacts.put(SCOPE, "user:photo.png", PNG, mime_type="image/png")
    arrivals = await desk.arrive()
    assert await desk.paths() == {"chart.bin": b"new", "mine.png": PNG, "chart_2.bin": b"old", "photo.png": PNG}
    names = [file.original_name for file in arrivals.files.values()]
    assert names == ["chart.bin", "mine.png", "chart.bin", "photo.png"]
    assert [file.mime_type for file in arrivals.files.values()][1] == "image/png"


async def test_what_only_has_an_id_is_downloaded() -> None:
    asked: list[str] = []

    async def download(file_id: str) -> bytes:
        asked.append(file_id)
        return PNG

    desk = Desk(by_id("file-1", "a.png"), download=download)
    arrivals = await desk.arrive()
    await desk.arrive()
    assert await desk.paths() == {"a.png": PNG}
    assert [file.mime_type for file in arrivals.files.values()] == ["image/png"]
    assert asked == ["file-1"]


@pytest.mark.parametrize(
    ("file_id", "reason"),
    [
        ("artifact://nothing.csv", "unknown artifact 'nothing.csv'"),
        ("artifact://../x", "climbs out"),
        ("file-2", "file-2 cannot be downloaded: no download function is set; send the file's content"),
        ("/etc/passwd", "/etc/passwd cannot be downloaded: no download function"),
        ("host:///etc/passwd", "cannot be downloaded: no download function"),
    ],
)
async def test_what_cannot_be_had_is_a_warning_that_names_it_and_costs_nothing_else(file_id: str, reason: str) -> None:
    desk = Desk(by_id(file_id, "missing.csv"), upload_from_bytes("here.csv", b"1"))
    (warning,) = (await desk.arrive()).warnings
    assert warning.startswith("missing.csv is unavailable: ")
    assert reason in warning
    assert await desk.paths() == {"here.csv": b"1"}


async def test_without_a_store_an_artifact_is_a_warning() -> None:
    desk = Desk(by_id("artifact://a.csv"))
    desk.artifacts = None
    arrivals = await desk.arrive()
    assert arrivals.warnings == (
        "artifact://a.csv is unavailable: it is an artifact, and this session has no artifact store",
    )


class Teapot(Exception):
    """What nobody here has a word for."""


@pytest.mark.parametrize("failure", [Teapot("short and stout"), SkillError("no"), OSError(5, "bad"), TimeoutError()])
async def test_whatever_a_download_raises_is_a_warning_and_it_is_tried_again(failure: Exception) -> None:
    failures = [failure]

    async def download(_: str) -> bytes:
        if failures:
            raise failures.pop()
        return b"1"

    desk = Desk(by_id("file-1", "a.csv"), download=download)
    (warning,) = (await desk.arrive()).warnings
    assert f"file-1 could not be downloaded: {type(failure).__name__}" in warning
    assert (await desk.arrive()).warnings == ()
    assert await desk.paths() == {"a.csv": b"1"}


async def test_a_download_that_brings_something_else_than_bytes_is_a_warning() -> None:
    async def download(_: str) -> Any:
        return "text"

    desk = Desk(by_id("file-1", "a.csv"), download=download)
    assert "returned str, expected bytes" in " ".join((await desk.arrive()).warnings)


async def test_a_cancelled_run_ends_its_download() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def download(_: str) -> bytes:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return b""

    desk = Desk(by_id("file-1"), upload_from_bytes("b", b"2"), download=download)
    task = asyncio.ensure_future(desk.arrive())
    async with asyncio.timeout(20):
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await ended.wait()


async def test_files_beyond_the_limits_are_warnings_with_the_limit() -> None:
    desk = Desk(
        upload_from_bytes("large", b"x" * 11),
        upload_from_bytes("one", b"x" * 10),
        upload_from_bytes("two", b"y" * 10),
        upload_from_bytes("three", b"z"),
        upload_from_bytes("four", b"4"),
        limits=UploadLimits(files=2, file_bytes=10, total_bytes=15),
    )
    warnings = (await desk.arrive()).warnings
    assert sorted(await desk.paths()) == ["one", "three"]
    assert [warning.partition(": ")[2] for warning in warnings] == [
        "too large, at most 10 bytes per file",
        "all files together are too large, at most 15 bytes",
        "too many files, at most 2",
    ]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("text/csv; charset=utf-8", "text/csv"),
        ("application/octet-stream", "image/png"),
        ("no type", "image/png"),
        ("x" * 1000, "image/png"),
    ],
)
async def test_a_type_that_says_something_is_believed_and_any_other_is_found_out(said: str, told: str) -> None:
    desk = Desk(upload_from_bytes("a", PNG, said))
    assert [file.mime_type for file in (await desk.arrive()).files.values()] == [told]


async def test_a_name_of_any_length_is_told_short() -> None:
    desk = Desk(upload_from_bytes("n" * 100_000, b"1"))
    (file,) = (await desk.arrive()).files.values()
    assert len(file.original_name) == 255
    assert len(file.path) == len("work/inputs/") + 255


async def test_an_artifact_that_is_too_large_is_not_read() -> None:
    desk = Desk(by_id("artifact://large"), limits=UploadLimits(file_bytes=10))
    assert desk.artifacts is not None
    await desk.artifacts.put(SCOPE, "large", b"x" * 11)
    assert "too large: 11 bytes, at most 10" in " ".join((await desk.arrive()).warnings)
    assert await desk.paths() == {}


async def test_runs_at_the_same_time_stage_a_file_once() -> None:
    asked: list[str] = []

    async def download(file_id: str) -> bytes:
        asked.append(file_id)
        await asyncio.sleep(0)
        return b"1"

    desk = Desk(by_id("file-1", "a"), by_id("file-2", "a"), download=download)
    both = await asyncio.gather(desk.arrive(), desk.arrive(), desk.arrive())
    assert sorted(await desk.paths()) == ["a", "a_2"]
    assert [len(arrivals.files) for arrivals in both] == [2, 2, 2]
    assert asked == ["file-1", "file-2"]


async def test_a_problem_of_the_messages_is_a_warning_too() -> None:
    desk = Desk()
    desk.uploads.add_from_messages(
        [{"role": "user", "content": [{"type": "file", "file": {"filename": "x", "data": "!"}}]}]
    )
    assert (await desk.arrive()).warnings == ("x is unavailable: the content is not valid base64",)
