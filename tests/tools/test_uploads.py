"""Files of the conversation, and their copies in a workspace."""

import asyncio
import base64
from typing import Any

import pytest

from openskills.artifacts.memory import MemoryArtifactStore
from openskills.errors import InvalidArgument, SkillError
from openskills.executors.protocol import Workspace
from openskills.testing.fake_executor import FakeExecutor
from openskills.tools.uploads import (
    MAX_REASONS,
    DownloadCallback,
    FilePart,
    UploadLimits,
    UploadProblems,
    UploadReport,
    Uploads,
    UploadStager,
    UserUpload,
    decode_content,
    estimate_min_size,
    parse_file_part,
    upload_from_bytes,
)
from tests.tools.contexts import SCOPE
from tests.tools.run_calls import PNG


def message(*parts: object, role: str = "user", field: str = "content") -> dict[str, Any]:
    """A message with these parts."""
    return {"role": role, field: [{"type": "text", "text": "look"}, *parts]}


def file(name: str, data: bytes | str, **fields: object) -> dict[str, Any]:
    """A part with a file in it."""
    content = base64.b64encode(data).decode() if isinstance(data, bytes) else data
    return {"type": "file", "file": {"filename": name, "file_data": content, **fields}}


class Counted(str):
    """A text that counts how often it is turned into bytes."""

    __slots__ = ("decodings",)

    def __init__(self, _: str) -> None:
        self.decodings = 0

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        """Count, and do it."""
        self.decodings += 1
        return super().encode(encoding, errors)


def test_files_are_found_in_the_messages_of_the_user_and_nowhere_else() -> None:
    uploads = Uploads()
    uploads.add_from_messages(
        [
            message(file("system.txt", b"1"), role="system"),
            message(file("a.txt", b"2"), file("b.txt", b"3")),
            message(file("tool.txt", b"4"), role="tool"),
            {"role": "user", "content": "only text"},
            message(file("c.txt", b"5"), field="content_parts"),
        ]
    )
    assert [(one.name, one.data) for one in uploads.all()] == [("a.txt", b"2"), ("b.txt", b"3"), ("c.txt", b"5")]
    assert uploads.describe_problems() == ()


def test_the_same_file_is_one_however_often_and_however_it_is_met() -> None:
    uploads = Uploads()
    uploads.add_from_messages([message(file("A.txt", b"1"), file("a.txt", b"1"))])
    uploads.add_from_messages([message(file("a.txt", "data:text/plain;base64,MQ=="))])
    uploads.add(upload_from_bytes("a.txt", b"1"))
    assert [one.name for one in uploads.all()] == ["A.txt"]


def test_one_name_with_two_contents_is_two_files() -> None:
    uploads = Uploads()
    uploads.add_from_messages([message(file("a.txt", b"1"), file("a.txt", b"2"))])
    assert [one.data for one in uploads.all()] == [b"1", b"2"]


def test_a_content_that_was_met_before_is_not_decoded_again() -> None:
    uploads = Uploads()
    content = Counted(base64.b64encode(b"x" * 1000).decode())
    messages = [message(file("a.txt", content))]
    for _ in range(5):
        uploads.add_from_messages(messages)
    assert content.decodings == 1
    again = Counted(content)
    uploads.add_from_messages([message(file("a.txt", again))])
    assert again.decodings == 0


def test_files_without_content_keep_their_id() -> None:
    uploads = Uploads()
    uploads.add_from_messages([message({"type": "file", "file": {"file_id": "artifact://in/data.csv@2"}})])
    uploads.add_from_messages([message({"type": "input_file", "file_id": "file-7", "filename": "Seven.bin"})])
    assert uploads.all() == (
        UserUpload("file_id/artifact://in/data.csv@2/name/", "", None, "artifact://in/data.csv@2"),
        UserUpload("file_id/file-7/name/seven.bin", "Seven.bin", None, "file-7"),
    )


def test_a_file_that_is_broken_is_a_problem_that_names_it_once() -> None:
    uploads = Uploads()
    for _ in range(3):
        uploads.add_from_messages(
            [message(file("broken.pdf", "no base64 !"), {"type": "file", "file": {"filename": "empty.pdf"}})]
        )
    assert uploads.all() == ()
    assert uploads.describe_problems() == (
        "broken.pdf is unavailable: the content is not valid base64",
        "empty.pdf is unavailable: it has neither content nor an id",
    )


def test_a_broken_content_with_an_id_is_had_by_its_id() -> None:
    uploads = Uploads()
    uploads.add_from_messages([message(file("a.pdf", "no base64 !", file_id="file-1"))])
    assert [(one.data, one.file_id) for one in uploads.all()] == [(None, "file-1")]
    assert uploads.describe_problems() == ()


def test_a_content_that_is_far_too_large_is_not_even_decoded() -> None:
    uploads = Uploads(limits=UploadLimits(file_bytes=1000))
    content = Counted(base64.b64encode(b"x" * 10_000).decode())
    uploads.add_from_messages([message(file("large.bin", content))])
    assert (uploads.all(), content.decodings) == ((), 0)
    assert uploads.describe_problems() == ("large.bin is unavailable: too large, at most 1,000 bytes per file",)


def test_what_is_over_the_limits_is_not_held_and_told_in_one_sentence_for_each_limit() -> None:
    uploads = Uploads(limits=UploadLimits(files=3, file_bytes=100, total_bytes=250))
    for _ in range(2):
        uploads.add_from_messages([message(*(file(f"{number}.bin", bytes([number]) * 100) for number in range(5)))])
    assert [len(one.data or b"") for one in uploads.all()] == [100, 100]
    uploads.add_from_messages([message(file("small.bin", b"x"), file("large.bin", b"x" * 101))])
    uploads.add_from_messages([message(*(file(f"f{number}.txt", b"%d" % number) for number in range(3000)))])
    assert len(uploads.all()) == 3
    assert uploads.describe_problems() == (
        "2.bin, 3.bin, 4.bin are unavailable: all files together are too large, at most 250 bytes",
        "large.bin is unavailable: too large, at most 100 bytes per file",
        "f0.txt, f1.txt, f2.txt and 2,997 more are unavailable: too many files, at most 3",
    )


def test_a_file_over_the_limits_is_refused_once_and_one_that_is_known_is_not_refused() -> None:
    uploads = Uploads(limits=UploadLimits(files=1))
    assert uploads.add(upload_from_bytes("a", b"1"))
    assert not uploads.add(upload_from_bytes("b", b"2"))
    assert not uploads.add(upload_from_bytes("b", b"2"))
    assert uploads.add(upload_from_bytes("a", b"1"))
    assert not uploads.add(UserUpload("file_id/f/name/c", "c", file_id="f"))
    assert uploads.describe_problems() == ("b, c are unavailable: too many files, at most 1",)


def test_names_cannot_draw_on_a_terminal() -> None:
    uploads = Uploads()
    uploads.add_from_messages([message(file("a\x1b[2J\n.txt", "!"))])
    (problem,) = uploads.describe_problems()
    assert problem.isprintable()


def test_what_is_placed_is_remembered_for_one_workspace() -> None:
    uploads, one, other = Uploads(), object(), object()
    assert uploads.get_workspace_uploads(one) is uploads.get_workspace_uploads(one)
    assert uploads.get_workspace_uploads(other) is not uploads.get_workspace_uploads(one)


def test_only_bytes_are_a_file() -> None:
    with pytest.raises(InvalidArgument, match="expected bytes, got str"):
        upload_from_bytes("a", "text")  # pyright: ignore[reportArgumentType] - what is refused


TEXT = base64.b64encode(b"hello?>").decode()


@pytest.mark.parametrize(
    "part",
    [
        {"type": "file", "file": {"filename": "a.txt", "file_data": TEXT}},
        {"type": "file", "file": {"name": "a.txt", "data": TEXT}},
        {"type": "input_file", "filename": "a.txt", "file_data": TEXT},
        {"type": "file", "base64": TEXT, "name": "a.txt"},
    ],
)
def test_a_file_is_found_in_every_format(part: object) -> None:
    assert parse_file_part(part) == FilePart("a.txt", TEXT)


def test_ids_addresses_and_types_are_found() -> None:
    part = {"type": "file", "file": {"file_id": "file-1", "mime_type": "text/csv", "filename": None}}
    assert parse_file_part(part) == FilePart(file_id="file-1", mime_type="text/csv")
    url = "https://example.org/a.pdf"
    assert parse_file_part({"type": "input_file", "file_url": url}) == FilePart(file_id=url)


@pytest.mark.parametrize("other", ["text", None, {"type": "text", "text": "x"}, {"type": "image_url"}, {}])
def test_a_value_that_is_not_a_file_is_none(other: object) -> None:
    assert parse_file_part(other) is None


@pytest.mark.parametrize(
    ("content", "meant"),
    [
        (b"raw", (b"raw", "")),
        (TEXT, (b"hello?>", "")),
        (f"data:text/plain;base64,{TEXT}", (b"hello?>", "text/plain")),
        (f"DATA:text/plain;charset=utf-8;BASE64,{TEXT}", (b"hello?>", "text/plain")),
        ("data:text/plain,a%20b", (b"a b", "text/plain")),
        ("data:;base64,", (b"", "")),
        (f"{TEXT[:4]}\r\n{TEXT[4:]}\n", (b"hello?>", "")),
        (TEXT.rstrip("="), (b"hello?>", "")),
        (base64.urlsafe_b64encode(b"\xff\xfe\xfd??>").decode(), (b"\xff\xfe\xfd??>", "")),
    ],
)
def test_contents_are_decoded_however_they_are_written(content: bytes | str, meant: tuple[bytes, str]) -> None:
    assert decode_content(content) == meant


@pytest.mark.parametrize("broken", ["not base64!", "abcde", "é", "data:text/plain;base64,???", "data:,é", "\ud800"])
def test_broken_contents_are_none(broken: str) -> None:
    assert decode_content(broken) is None


@pytest.mark.parametrize("content", [b"x" * 5000, "eHh4" * 5000, "data:,%41" + "%41" * 5000])
def test_a_content_is_never_smaller_than_what_is_said_at_once(content: bytes | str) -> None:
    found = decode_content(content)
    assert found is not None
    assert 0 < estimate_min_size(content) <= len(found[0])


def test_files_with_one_reason_are_one_sentence() -> None:
    problems = UploadProblems()
    assert problems.describe() == ()
    problems.add("a", "it is late")
    assert problems.describe() == ("a is unavailable: it is late",)
    for name in "bcde":
        problems.add(name, "it is late")
    problems.add("f", "it is early")
    assert problems.describe() == (
        "a, b, c and 2 more are unavailable: it is late",
        "f is unavailable: it is early",
    )


def test_of_many_reasons_only_some_are_told_and_the_other_files_are_counted() -> None:
    problems = UploadProblems()
    for number in range(MAX_REASONS + 5):
        problems.add(f"{number}", f"reason {number}")
        problems.add(f"{number}", f"reason {number}")
    sentences = problems.describe()
    assert len(sentences) == MAX_REASONS + 1
    assert sentences[-1] == "10 more files are unavailable"


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
        ("artifact://../x", "leaves its directory"),
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
