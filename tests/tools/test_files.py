""""""

import asyncio
import hashlib
import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from openskills.artifacts.memory import MemoryArtifactStore
from openskills.errors import (
    ExecutorUnavailable,
    ForbiddenPath,
    InvalidArgument,
    InvalidSkill,
    LimitExceeded,
    UnknownSkill,
)
from openskills.executors.files.globs import compile_globs
from openskills.executors.requests import RunRequest
from openskills.tools.files import (
    LIST_FILES,
    MAX_WRITE_BYTES,
    READ_FILE,
    WRITE_FILE,
    FileSearchResult,
    find_files,
    open_file,
    patterns_except,
    resolve_file,
)
from openskills.tools.lines import PAGE_BYTES
from openskills.tools.refs import ArtifactFile, SkillFile, WorkspaceFile, parse_file_ref
from openskills.tools.search_files import SEARCH_FILES
from openskills.tools.tool import ToolContext, ToolResult, build_parameters, decode
from openskills.tools.uploads import UserUpload, upload_from_bytes
from tests.conftest import RequireProgram
from tests.tools.contexts import SCOPE, call, skills_in, tool_context, write_skill

FILES = ("out/a.csv", "out/deep/b.csv", "work/c.txt", "work/inputs/d.csv", "runs/r/log", "top.csv", "sk/e.csv")


async def found(directory: Path, glob: str | None, *, limit: int = 100, staged: bool = True) -> FileSearchResult:
    folder = write_skill(directory, files={"data.csv": "x", "inputs.d/a": "x"})

    async with tool_context(directory) as context:
        bench = await context.open_runner()
        for path in FILES:
            target = Path(bench.workspace.root) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(b"12")
        if staged:
            await bench.stage("demo", folder)
        return await find_files(context, glob, limit=limit)


def names(result: FileSearchResult) -> list[str]:
    return [entry.file.display_name for entry in result.entries]


@pytest.mark.parametrize("glob", [None, "", "**", "/", ".", "./", "workspace://**", "$WORKSPACE_DIR", "**/*", "**/**"])
async def test_without_a_pattern_everything_but_skills_is_found(glob: str | None, tmp_path: Path) -> None:
    if glob == "/":
        with pytest.raises(ForbiddenPath):
            await found(tmp_path, glob)
        return
    assert names(await found(tmp_path, glob)) == sorted(FILES)


@pytest.mark.parametrize(
    ("glob", "wanted"),
    [
        ("out", ["out/a.csv", "out/deep/b.csv"]),
        ("out/", ["out/a.csv", "out/deep/b.csv"]),
        ("out/*.csv", ["out/a.csv"]),
        ("**/*.csv", ["out/a.csv", "out/deep/b.csv", "sk/e.csv", "top.csv", "work/inputs/d.csv"]),
        ("**/{c,d}.*", ["work/c.txt", "work/inputs/d.csv"]),
        ("inputs", ["work/inputs/d.csv"]),
        ("out/a.csv", ["out/a.csv"]),
        ("skills/demo/data.csv", ["skills/demo/data.csv"]),
        ("nothing/**", []),
    ],
)
async def test_a_pattern_a_directory_and_a_file_are_found(glob: str, wanted: list[str], tmp_path: Path) -> None:
    assert names(await found(tmp_path, glob)) == wanted


async def test_sizes_are_found_and_a_limit_is_said(tmp_path: Path) -> None:
    result = await found(tmp_path, "out", limit=1)
    assert [entry.size for entry in result.entries] == [2]
    assert not result.complete


async def test_files_of_a_skill_are_found_in_the_catalog(tmp_path: Path) -> None:
    everything = ["skill://demo/SKILL.md", "skill://demo/data.csv", "skill://demo/inputs.d/a"]
    assert names(await found(tmp_path, "skill://demo", staged=False)) == everything
    assert names(await found(tmp_path, "skill://demo/*.csv", staged=False)) == everything[1:2]
    assert names(await found(tmp_path, "skills/demo", staged=False)) == everything
    assert names(await found(tmp_path, "skills/nobody", staged=False)) == []
    assert not (await found(tmp_path, "skill://demo", limit=2)).complete


async def test_an_unknown_skill_has_no_files(tmp_path: Path) -> None:
    with pytest.raises(UnknownSkill, match="'demo'"):
        await found(tmp_path, "skill://dem")


@pytest.mark.parametrize("glob", ["../*", "/etc/*", "host:///etc/*", "out/../../*", "skill://demo/../*"])
async def test_a_pattern_that_leaves_is_forbidden(glob: str, tmp_path: Path) -> None:
    with pytest.raises(ForbiddenPath):
        await found(tmp_path, glob)


async def test_artifacts_are_found_latest_first_and_by_version(tmp_path: Path) -> None:
    store = MemoryArtifactStore()

    async def list_artifacts(glob: str) -> list[str]:
        async with tool_context(tmp_path, executor=None, artifacts=store) as context:
            return names(await find_files(context, glob, limit=100))

    for name in ("inputs/a.csv", "inputs/a.csv", "b.txt", "user:c.csv"):
        await store.put(SCOPE, name, b"1")
    assert await list_artifacts("artifact://") == [
        "artifact://b.txt@0",
        "artifact://inputs/a.csv@1",
        "artifact://user:c.csv@0",
    ]
    assert await list_artifacts("artifact://inputs/*") == ["artifact://inputs/a.csv@1"]
    assert await list_artifacts("artifact://inputs/a.csv") == [
        "artifact://inputs/a.csv@0",
        "artifact://inputs/a.csv@1",
    ]
    assert await list_artifacts("artifact://inputs/a.csv@0") == ["artifact://inputs/a.csv@0"]


async def test_without_a_store_there_are_no_artifacts(tmp_path: Path) -> None:
    async with tool_context(tmp_path, executor=None) as context:
        with pytest.raises(InvalidArgument, match="has no artifact store"):
            await find_files(context, "artifact://", limit=1)


@pytest.mark.parametrize("name", ["a", "sk", "skill", "skillsx", "skillz", "work", "Skills", ".skills", "skills "])
def test_every_other_name_is_beside_a_name(name: str) -> None:
    assert compile_globs(patterns_except("skills")).matches(name)
    assert not compile_globs(patterns_except("skills")).matches("skills")


async def listed(directory: Path, command: str, executor: str = "local", **arguments: Any) -> ToolResult:
    async with tool_context(directory, executor=executor) as context:
        bench = await context.open_runner()
        await bench.run(RunRequest(f"cd $WORKSPACE_DIR && {command}"))
        return await call(context, LIST_FILES, **arguments)


@pytest.mark.parametrize(
    "glob", ["\ud800", "workspace://\ud800", "skill://demo/\ud800", "artifact://\udcff", "out/\udcff"]
)
async def test_a_lone_surrogate_is_refused_with_the_field(glob: str, tmp_path: Path) -> None:
    async with tool_context(tmp_path) as context:
        for tool, more in ((LIST_FILES, {}), (SEARCH_FILES, {"pattern": "x"})):
            with pytest.raises(InvalidArgument, match=r"glob: .*lone surrogate"):
                await call(context, tool, glob=glob, **more)


async def test_a_file_of_a_skill_whose_name_is_not_utf_8_is_left_out_and_said(tmp_path: Path) -> None:
    folder = write_skill(tmp_path, files={"a.md": "x"})
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.md")).write_text("x")

    async with tool_context(tmp_path) as context:
        result = await call(context, LIST_FILES, glob="skill://demo")
        assert [one["path"] for one in result.data["files"]] == ["skill://demo/SKILL.md", "skill://demo/a.md"]
        assert "\\xff.md has a name that is not UTF-8; left out" in result.text
        json.dumps(result.data, ensure_ascii=False).encode()


async def test_files_are_listed_with_their_sizes(tmp_path: Path) -> None:
    result = await listed(tmp_path, "printf 12345 > out/b; printf 1 > work/inputs/a", glob=None)
    assert result.text == "out/b\t5\nwork/inputs/a\t1"
    assert result.data == {
        "files": [
            {"path": "out/b", "ref": "workspace://out/b", "size_bytes": 5},
            {"path": "work/inputs/a", "ref": "workspace://work/inputs/a", "size_bytes": 1},
        ],
        "truncated": False,
    }


async def test_a_list_that_is_cut_says_so(tmp_path: Path) -> None:
    result = await listed(tmp_path, "touch out/{1..30}", limit=3, glob="out/*")
    assert len(result.data["files"]) == 3
    assert result.data["truncated"]
    assert "only the first 3 files; narrow the pattern" in result.text


async def test_links_and_the_like_are_named_and_left_out(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    result = await listed(tmp_path, f"touch out/a; ln -s {tmp_path} out/escape; mkfifo out/fifo", glob="out")
    assert [file["path"] for file in result.data["files"]] == ["out/a"]
    assert "out/escape is a link; left out" in result.text
    assert "out/fifo is a FIFO; left out" in result.text
    assert "secret" not in result.text


async def test_a_name_cannot_pretend_to_be_two_lines(tmp_path: Path) -> None:
    result = await listed(tmp_path, "touch $'out/a\\nb'", glob="out")
    assert result.text == "out/a\\nb\t0"


async def test_a_pattern_that_matches_nothing_is_not_an_error(tmp_path: Path) -> None:
    assert (await listed(tmp_path, "true", glob="out/*.csv")).text == "[no files match 'out/*.csv']"
    assert (await listed(tmp_path, "true")).text == "[the workspace has no files yet]"


async def test_a_negative_limit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="limit: -1 is negative"):
        await listed(tmp_path, "true", limit=-1)


async def test_skills_and_artifacts_are_listed_without_an_executor(tmp_path: Path) -> None:
    write_skill(tmp_path, files={"references/guide.md": "guide"})
    store = MemoryArtifactStore()

    await store.put(SCOPE, "a.txt", b"123")
    async with tool_context(tmp_path, executor=None, artifacts=store) as context:
        assert "skill://demo/references/guide.md\t5" in (await call(context, LIST_FILES, glob="skill://demo")).text
        assert (await call(context, LIST_FILES, glob="artifact://")).text == "artifact://a.txt@0\t3"
        with pytest.raises(ExecutorUnavailable):
            await call(context, LIST_FILES)


async def test_files_of_a_sandbox_are_listed(tmp_path: Path, require_program: RequireProgram) -> None:
    require_program("bwrap")
    result = await listed(tmp_path, "printf 12345 > out/b", "sandbox", glob="/workspace/out")
    assert result.text == "out/b\t5"


async def test_files_of_the_conversation_are_listed_and_those_that_are_missing_named(tmp_path: Path) -> None:
    uploads = [upload_from_bytes("notes.txt", b"mine"), UserUpload("file_id/f1/name/b", "b.txt", file_id="f1")]

    async with tool_context(tmp_path, uploads=uploads) as context:
        result = (await call(context, LIST_FILES)).text

    first, second = result.splitlines()
    assert first == "work/inputs/notes.txt\t4"
    assert "b.txt" in second
    assert "cannot be downloaded" in second


PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


async def read(directory: Path, data: bytes, name: str = "out/a.txt", **arguments: Any) -> ToolResult:
    async with tool_context(directory) as context:
        await (await context.open_runner()).workspace.write(name, data)
        return await call(context, READ_FILE, file_name=name, **arguments)


async def test_a_small_file_is_shown_whole(tmp_path: Path) -> None:
    result = await read(tmp_path, b"one\ntwo\n")
    assert result.text == "[out/a.txt: lines 1-2 of 2, 8 bytes]\none\ntwo"
    assert result.data == {
        "file_name": "out/a.txt",
        "ref": "workspace://out/a.txt",
        "size_bytes": 8,
        "mime_type": "text/plain",
        "contents": "one\ntwo\n",
        "start_line": 1,
        "end_line": 2,
        "total_lines": 2,
        "truncated": False,
    }


async def test_some_lines_are_shown_and_how_to_read_on(tmp_path: Path) -> None:
    result = await read(tmp_path, b"1\n2\n3\n4\n", start_line=2, num_lines=2)
    assert result.data["contents"] == "2\n3\n"
    assert (result.data["start_line"], result.data["end_line"], result.data["total_lines"]) == (2, 3, 4)
    assert result.data["next"] == {"start_line": 4, "start_byte": 0}
    assert not result.data["truncated"]
    assert result.text.endswith('[there is more; read on with {"file_name": "out/a.txt", "start_line": 4}]')


async def test_what_a_page_says_about_reading_on_leads_through_the_whole_file(tmp_path: Path) -> None:
    lines = [f"{number}: {'ä' * (number % 90)}" for number in range(2_000)]
    data = "\n".join([*lines, "€" * 50_000, "end"]).encode()

    async def scenario() -> str:
        async with tool_context(tmp_path) as context:
            await (await context.open_runner()).workspace.write("out/a.txt", data)
            found, arguments = "", {"file_name": "out/a.txt"}
            while True:
                result = await call(context, READ_FILE, **arguments)
                assert len(result.text.encode()) < PAGE_BYTES + 500
                found += result.data["contents"]
                if "next" not in result.data:
                    return found
                arguments = json.loads(result.text.rpartition("read on with ")[2].removesuffix("]"))

    assert (await scenario()).encode() == data


async def test_a_line_longer_than_a_page_says_where_it_was_cut(tmp_path: Path) -> None:
    result = await read(tmp_path, b"a\n" + b"x" * 100_000 + b"\n", start_line=2)
    assert result.data["truncated"]
    assert result.data["next"] == {"start_line": 2, "start_byte": PAGE_BYTES}
    assert "there is more within line 2;" in result.text


@pytest.mark.parametrize("arguments", [{}, {"start_line": 0}, {"start_line": None, "num_lines": 0, "start_byte": 0}])
async def test_nothing_and_zero_mean_the_beginning(arguments: dict[str, Any], tmp_path: Path) -> None:
    assert (await read(tmp_path, b"1\n2\n", **arguments)).data["contents"] == "1\n2\n"


@pytest.mark.parametrize("field", ["start_line", "num_lines", "start_byte"])
async def test_a_negative_number_is_refused(field: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=f"{field}: -1 is negative"):
        await read(tmp_path, b"1\n", "out/a.txt", **{field: -1})


async def test_a_line_that_there_is_not_is_refused_with_how_many_there_are(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="the file has 2 lines; line 3 does not exist"):
        await read(tmp_path, b"1\n2\n", start_line=3)


async def test_an_empty_file_is_shown_as_one(tmp_path: Path) -> None:
    result = await read(tmp_path, b"")
    assert result.text == "[out/a.txt: no lines of 0, 0 bytes]"
    assert result.data["contents"] == ""


async def test_a_binary_file_is_described(tmp_path: Path) -> None:
    result = await read(tmp_path, PNG, "out/plot.png", start_line=3)
    digest = hashlib.sha256(PNG).hexdigest()
    assert result.data["binary"]
    assert result.data["contents"] == ""
    assert result.data["sha256"] == digest
    assert result.data["mime_type"] == "image/png"
    assert f"image/png, {len(PNG)} bytes, sha256 {digest}" in result.text
    assert "a command can use it as out/plot.png" in result.text


async def test_an_artifact_that_is_not_text_says_how_a_command_gets_it(tmp_path: Path) -> None:
    store = MemoryArtifactStore()

    await store.put(SCOPE, "plot.png", PNG)
    async with tool_context(tmp_path, executor=None, artifacts=store) as context:
        result = await call(context, READ_FILE, path="artifact://plot.png")

    assert '{"from": "artifact://plot.png@0"} in its inputs' in result.text


async def test_utf_16_is_not_dumped_and_the_message_says_what_to_do(tmp_path: Path) -> None:
    result = await read(tmp_path, "a,b\n".encode("utf-16"), "out/a.csv")
    assert "iconv -f UTF-16 -t UTF-8" in result.text


async def test_bytes_that_are_not_text_are_replaced_and_said(tmp_path: Path) -> None:
    result = await read(tmp_path, "Köln\n".encode("latin-1") * 20)
    assert result.data["contents"] == "K\ufffdln\n" * 20
    assert "not UTF-8" in result.data["message"]
    assert "not UTF-8" in result.text


async def test_windows_text_is_read_with_its_mark_and_line_ends_told(tmp_path: Path) -> None:
    result = await read(tmp_path, b"\xef\xbb\xbfa\r\nb\r\n")
    assert result.data["contents"] == "a\nb\n"
    assert "byte order mark" in result.data["message"]
    assert "CRLF" in result.data["message"]


async def test_scripts_and_instructions_of_skills_can_be_read(tmp_path: Path) -> None:
    write_skill(tmp_path, files={"scripts/run.py": "print(1)\n"})

    async with tool_context(tmp_path, executor=None) as context:
        names = ("skill://demo/scripts/run.py", "skill://demo")
        script, body = [(await call(context, READ_FILE, file_name=name)).data["contents"] for name in names]

    assert script == "print(1)\n"
    assert body.endswith("# Body\n")


def sparse(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.write(b"line\n" * 10_000)
        file.truncate(size)


async def test_the_beginning_of_a_file_of_10_gigabytes_is_read_at_once(tmp_path: Path) -> None:
    async with tool_context(tmp_path) as context:
        workspace = (await context.open_runner()).workspace
        sparse(Path(workspace.root) / "out" / "huge.log", 10 * 1024**3)
        result = await call(context, READ_FILE, file_name="out/huge.log", num_lines=3)

    assert result.data["contents"] == "line\n" * 3
    assert result.data["total_lines"] is None
    assert result.data["size_bytes"] == 10 * 1024**3
    assert result.data["next"] == {"start_line": 4, "start_byte": 0}
    assert result.text.startswith("[out/huge.log: lines 1-3, 10,737,418,240 bytes]")


async def test_a_line_of_200_megabytes_costs_no_memory(tmp_path: Path) -> None:
    async def scenario() -> tuple[ToolResult, int]:
        async with tool_context(tmp_path) as context:
            workspace = (await context.open_runner()).workspace
            with (Path(workspace.root) / "out" / "long.txt").open("wb") as file:
                for _ in range(200):
                    file.write(b"x" * 1024 * 1024)
                file.write(b"\nlast line\n")
            tracemalloc.start()
            try:
                result = await call(context, READ_FILE, file_name="out/long.txt", start_line=2)
                return result, tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()

    result, peak = await scenario()
    assert result.data["contents"] == "last line\n"
    assert peak < 16 * 1024 * 1024


async def test_a_fifo_in_the_workspace_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    async with tool_context(tmp_path) as context:
        workspace = (await context.open_runner()).workspace
        os.mkfifo(Path(workspace.root) / "out" / "fifo")
        with pytest.raises(InvalidArgument, match="not a regular file"):
            await call(context, READ_FILE, file_name="out/fifo")


async def test_what_a_sandboxed_command_wrote_is_read_in_any_spelling(
    tmp_path: Path, require_program: RequireProgram
) -> None:
    require_program("bwrap")
    folder = write_skill(tmp_path)

    async with tool_context(tmp_path, executor="sandbox") as context:
        bench = await context.open_runner()
        await bench.stage("demo", folder)
        await bench.run(RunRequest("echo hi > out/a.txt; pwd > inputs/b.txt", skill="demo"))
        assert bench.workspace.root == "/workspace"
        for name in ("out/a.txt", "/workspace/out/a.txt", "skills/demo/out/a.txt", "$OUTPUT_DIR/a.txt"):
            result = await call(context, READ_FILE, file_name=name)
            assert result.data["ref"] == "workspace://out/a.txt"
            assert result.data["contents"] == "hi\n"
        result = await call(context, READ_FILE, file_name="inputs/b.txt")
        assert result.data["contents"] == "/workspace/skills/demo\n"


def test_the_model_is_told_one_name_for_the_file_and_may_use_another() -> None:
    assert list(build_parameters(READ_FILE)["properties"]) == ["file_name", "start_line", "num_lines", "start_byte"]
    assert decode(READ_FILE, {"path": "out/a", "start_line": "3"}) == decode(
        READ_FILE, {"file_name": "out/a", "start_line": 3}
    )


async def read_readable(context: ToolContext, text: str) -> bytes:
    async with open_file(context, await resolve_file(context, text)) as source:
        return b"".join([chunk async for chunk in source.chunks])


async def test_a_skill_is_read_without_an_executor(tmp_path: Path) -> None:
    write_skill(tmp_path, files={"scripts/run.py": "print(1)\n"})

    async with tool_context(tmp_path, executor=None) as context:
        assert await read_readable(context, "skill://demo/scripts/run.py") == b"print(1)\n"
        assert (await read_readable(context, "skill://demo")).startswith(b"---\nname: demo\n")
        assert await read_readable(context, "skills/demo/scripts/run.py") == b"print(1)\n"


async def test_a_staged_skill_is_read_as_commands_see_it(tmp_path: Path) -> None:
    folder = write_skill(tmp_path, files={"a.txt": "staged"})

    async with tool_context(tmp_path) as context:
        await (await context.open_runner()).stage("demo", folder)
        (folder / "a.txt").write_text("changed")
        assert await read_readable(context, "skills/demo/a.txt") == b"staged"
        assert await read_readable(context, "skill://demo/a.txt") == b"changed"


async def test_reading_a_skill_or_an_artifact_opens_no_workspace(tmp_path: Path) -> None:
    write_skill(tmp_path)
    store = MemoryArtifactStore()

    await store.put(SCOPE, "a", b"bytes")
    async with tool_context(tmp_path, artifacts=store) as context:
        assert await read_readable(context, "artifact://a") == b"bytes"
        await read_readable(context, "skill://demo/SKILL.md")
    assert not (tmp_path / "state" / "workspaces").exists()


async def test_without_an_executor_a_workspace_file_says_so(tmp_path: Path) -> None:
    async with tool_context(tmp_path, executor=None) as context:
        for text in ("out/a", "skills/none/a", "/workspace/out/a"):
            with pytest.raises(ExecutorUnavailable, match="no executor"):
                await read_readable(context, text)


async def test_an_absolute_path_below_the_workspace_is_one_in_it(tmp_path: Path) -> None:
    async with tool_context(tmp_path) as context:
        workspace = (await context.open_runner()).workspace
        await workspace.write("out/a", b"bytes")
        assert await resolve_file(context, f"{workspace.root}/out/a") == WorkspaceFile("out/a")
        assert await read_readable(context, f"{workspace.root}/out/a") == b"bytes"
        with pytest.raises(ForbiddenPath):
            await resolve_file(context, f"{workspace.root}/../x")


async def test_an_artifact_without_version_is_the_latest_and_says_which(tmp_path: Path) -> None:
    store = MemoryArtifactStore()

    for data in (b"one", b"two"):
        await store.put(SCOPE, "a", data)
    async with tool_context(tmp_path, executor=None, artifacts=store) as context:
        async with open_file(context, parse_file_ref("artifact://a")) as source:
            assert source.file == ArtifactFile("a", 1)
            assert len(source.sha256) == 64
        assert await read_readable(context, "artifact://a@0") == b"one"


async def test_an_unknown_artifact_has_its_nearest_names(tmp_path: Path) -> None:
    store = MemoryArtifactStore()

    async with tool_context(tmp_path, executor=None, artifacts=store) as context:
        with pytest.raises(InvalidArgument, match="known artifacts: none"):
            await read_readable(context, "artifact://reports.txt")
        await store.put(SCOPE, "report.txt", b"x")
        with pytest.raises(InvalidArgument, match=r"did you mean 'artifact://report.txt'\?"):
            await read_readable(context, "artifact://reports.txt")
        with pytest.raises(InvalidArgument, match=r"file_name: 'report\.txt' has no version 7; it has 0"):
            await read_readable(context, "artifact://report.txt@7")
        with pytest.raises(InvalidArgument, match=r"known artifacts: report.txt"):
            await read_readable(context, "artifact://zzz")


async def test_without_a_store_an_artifact_is_refused(tmp_path: Path) -> None:
    async with tool_context(tmp_path, executor=None) as context:
        with pytest.raises(InvalidArgument, match="has no artifact store"):
            await read_readable(context, "artifact://a")


async def test_an_unknown_or_hidden_skill_is_unknown_with_the_nearest_name(tmp_path: Path) -> None:
    write_skill(tmp_path, "visible")
    write_skill(tmp_path, "secret")
    skills = skills_in(tmp_path).view(lambda skill: skill.name != "secret")

    async with tool_context(tmp_path, executor=None, skills=skills) as context:
        with pytest.raises(UnknownSkill, match="'visible'"):
            await read_readable(context, "skill://visibel/SKILL.md")
        with pytest.raises(UnknownSkill):
            await read_readable(context, "skill://secret/SKILL.md")
        with pytest.raises(ExecutorUnavailable):
            await read_readable(context, "skills/secret/SKILL.md")


async def test_a_link_that_leaves_a_skill_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    folder = write_skill(tmp_path, files={"real.md": "real"})
    (folder / "inside.md").symlink_to("real.md")
    (folder / "outside.md").symlink_to("../../secret")
    (folder / "absolute.md").symlink_to(tmp_path / "secret")
    (folder / "up").symlink_to("..")

    async with tool_context(tmp_path, executor=None) as context:
        assert await read_readable(context, "skill://demo/inside.md") == b"real"
        for name in ("outside.md", "absolute.md", "up/../secret", "up/demo/real.md"):
            with pytest.raises(ForbiddenPath):
                await read_readable(context, f"skill://demo/{name}")


async def test_what_is_not_a_file_of_a_skill_is_never_waited_for(tmp_path: Path) -> None:
    folder = write_skill(tmp_path, files={"references/a.md": "a"})
    os.mkfifo(folder / "fifo")

    async with tool_context(tmp_path, executor=None) as context:
        with pytest.raises(InvalidArgument, match="not a regular file"):
            await read_readable(context, "skill://demo/fifo")
        with pytest.raises(InvalidArgument, match="is a directory; see list_files"):
            await read_readable(context, "skill://demo/references")


async def test_a_folder_that_is_not_a_skill_any_more_is_not_read(tmp_path: Path) -> None:
    folder = write_skill(tmp_path, files={"a.md": "a"})

    async with tool_context(tmp_path, executor=None) as context:
        (folder / "SKILL.md").unlink()
        with pytest.raises(InvalidSkill):
            await read_readable(context, "skill://demo/a.md")


async def test_a_link_that_a_command_made_leads_nowhere_outside(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")

    async with tool_context(tmp_path) as context:
        bench = await context.open_runner()
        made = f"echo in > work/b; ln -s {tmp_path}/secret out/a; ln -s .. out/up; ln -s / out/root"
        await bench.run(RunRequest(f"cd $WORKSPACE_DIR && {made}; ln -s ../work/b out/c"))
        assert await read_readable(context, "out/c") == b"in\n"
        for text in ("out/a", f"out/root/{tmp_path}/secret", "out/up/../secret"):
            with pytest.raises(ForbiddenPath):
                await read_readable(context, text)


async def test_what_was_opened_is_closed_again(tmp_path: Path) -> None:
    write_skill(tmp_path, files={"a.md": "a" * 3_000_000})

    async with tool_context(tmp_path, executor=None) as context:
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(20):
            async with open_file(context, SkillFile("demo", "a.md")) as source:
                assert len(await anext(source.chunks)) == 1024 * 1024
        assert len(os.listdir("/proc/self/fd")) <= before + 1


async def test_a_file_of_the_conversation_is_there_before_any_command_ran(tmp_path: Path) -> None:
    uploads = [upload_from_bytes("notes.txt", b"mine")]

    async with tool_context(tmp_path, uploads=uploads) as context:
        assert await read_readable(context, "work/inputs/notes.txt") == b"mine"
        assert await read_readable(context, "inputs/notes.txt") == b"mine"


async def test_a_file_of_the_conversation_that_cannot_be_had_says_why(tmp_path: Path) -> None:
    uploads = [UserUpload("file_id/f1/name/notes.txt", "notes.txt", file_id="f1")]

    async with tool_context(tmp_path, uploads=uploads) as context:
        with pytest.raises(InvalidArgument, match=r"notes.*cannot be downloaded: no download function"):
            await read_readable(context, "inputs/notes.txt")


async def content(context: ToolContext, path: str) -> bytes:
    async with (await context.open_runner()).workspace.open(path) as reading:
        return b"".join([chunk async for chunk in reading.chunks])


async def write(directory: Path, *calls: dict[str, Any], command: str = "true") -> list[ToolResult]:
    async with tool_context(directory) as context:
        await (await context.open_runner()).run(RunRequest(f"cd $WORKSPACE_DIR && {command}"))
        return [await call(context, WRITE_FILE, **one) for one in calls]


async def test_a_new_file_is_written_with_its_directories(tmp_path: Path) -> None:
    async with tool_context(tmp_path) as context:
        result = await call(context, WRITE_FILE, file_name="out/deep/a.txt", content="naïve\n")
        assert result.text == "wrote 7 bytes to out/deep/a.txt"
        assert result.data == {
            "file_name": "out/deep/a.txt",
            "ref": "workspace://out/deep/a.txt",
            "size_bytes": 7,
            "replaced": False,
            "appended": False,
        }
        assert await content(context, "out/deep/a.txt") == "naïve\n".encode()


async def test_a_file_that_was_there_is_replaced_and_that_is_said(tmp_path: Path) -> None:
    _, result = await write(tmp_path, {"path": "out/a", "content": "12345"}, {"path": "out/a", "content": "1"})
    assert result.data["replaced"]
    assert result.data["size_bytes"] == 1
    assert result.text == "wrote 1 bytes to out/a, replacing 5 bytes"


async def test_appending_keeps_what_was_there(tmp_path: Path) -> None:
    async with tool_context(tmp_path) as context:
        for text in ("0\n", "1\n"):
            await call(context, WRITE_FILE, file_name="out/a", content=text, append=True)
        result = await call(context, WRITE_FILE, file_name="out/a", content="2\n", append=True)
        assert result.data["appended"]
        assert result.text == "appended 2 bytes to out/a; it now has 6 bytes"
        assert await content(context, "out/a") == b"0\n1\n2\n"


async def test_calls_that_append_at_once_lose_nothing(tmp_path: Path) -> None:
    async with tool_context(tmp_path) as context:
        await context.open_runner()
        adding = (
            call(context, WRITE_FILE, file_name="out/a", content=f"{number}\n", append=True) for number in range(30)
        )
        await asyncio.gather(*adding)
        result = await content(context, "out/a")

    assert sorted(map(int, result.split())) == list(range(30))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("skills/demo/SKILL.md", "skills are read-only"),
        ("skill://demo/SKILL.md", "skills are read-only, write to work/ or out/"),
        ("artifact://a", "never changes; write to out/"),
        ("notes.md", "write to out/notes.md or work/notes.md"),
        ("out", "use a path below it"),
        ("../a", "'..' is not allowed"),
        ("/etc/passwd", "not in the workspace"),
        ("host:///etc/passwd", "file of the host"),
    ],
)
async def test_what_cannot_be_written_to_is_said_with_what_can(name: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ForbiddenPath) as caught:
        await write(tmp_path, {"file_name": name, "content": "x"})
    assert said in caught.value.message


async def test_the_inputs_alias_is_written_to_where_commands_look(tmp_path: Path) -> None:
    (result,) = await write(tmp_path, {"file_name": "inputs/a", "content": "x"})
    assert result.data["ref"] == "workspace://work/inputs/a"


async def test_a_link_that_leads_out_is_not_written_through(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    for name in ("out/file", "out/dir/victim"):
        with pytest.raises(ForbiddenPath):
            await write(
                tmp_path,
                {"file_name": name, "content": "x"},
                command=f"rm -rf out/*; ln -s {victim} out/file; ln -s {tmp_path} out/dir",
            )
    assert victim.read_text() == "mine"


async def test_a_directory_is_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="is a directory"):
        await write(tmp_path, {"file_name": "out/dir", "content": "x"}, command="mkdir out/dir")


async def test_nothing_is_appended_to_what_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="not a regular file"):
        await write(tmp_path, {"file_name": "out/fifo", "content": "x", "append": True}, command="mkfifo out/fifo")


async def test_scripts_can_be_executed(tmp_path: Path) -> None:
    async with tool_context(tmp_path) as context:
        bench = await context.open_runner()
        await call(context, WRITE_FILE, file_name="work/run", content="#!/bin/sh\necho one\n")
        result = await bench.run(RunRequest("$WORK_DIR/run"))
        assert result.stdout == "one\n"
        await call(context, WRITE_FILE, file_name="work/run", content="echo two\n", append=True)
        result = await bench.run(RunRequest("$WORK_DIR/run"))
        assert result.stdout == "one\ntwo\n"
        await call(context, WRITE_FILE, file_name="work/plain", content="echo")
        assert not os.access(Path(bench.workspace.root) / "work" / "plain", os.X_OK)


async def test_too_much_at_once_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(LimitExceeded, match="write it in parts with append"):
        await write(tmp_path, {"file_name": "out/a", "content": "x" * (MAX_WRITE_BYTES + 1)})


async def test_a_lone_surrogate_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="content: contains a lone surrogate"):
        await write(tmp_path, {"file_name": "out/a", "content": "\ud800"})


async def test_a_file_is_written_into_a_sandbox_for_its_commands(
    tmp_path: Path, require_program: RequireProgram
) -> None:
    require_program("bwrap")

    async with tool_context(tmp_path, executor="sandbox") as context:
        await call(context, WRITE_FILE, file_name="/workspace/work/a", content="hi\n")
        done = await (await context.open_runner()).run(RunRequest("cat $WORK_DIR/a && echo more >> $WORK_DIR/a"))
        assert done.exit_code == 0, done.stderr
        await call(context, WRITE_FILE, file_name="work/a", content="end\n", append=True)
        result = (await content(context, "work/a")).decode()

    assert result == "hi\nmore\nend\n"
