import asyncio
import hashlib
import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from openskills.artifacts.memory import MemoryArtifactStore
from openskills.errors import InvalidArgument
from openskills.executors.requests import RunRequest
from openskills.tools.decode import decode
from openskills.tools.lines import PAGE_BYTES
from openskills.tools.read_file import READ_FILE
from openskills.tools.result import ToolResult
from openskills.tools.schemas import parameters_of
from tests.conftest import RequireProgram
from tests.tools.contexts import SCOPE, call, tool_context, write_skill

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


def read(directory: Path, data: bytes, name: str = "out/a.txt", **arguments: Any) -> ToolResult:
    async def scenario() -> ToolResult:
        async with tool_context(directory) as context:
            await (await context.bench()).workspace.write(name, data)
            return await call(context, READ_FILE, file_name=name, **arguments)

    return asyncio.run(scenario())


def test_a_small_file_is_shown_whole(tmp_path: Path) -> None:
    result = read(tmp_path, b"one\ntwo\n")
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


def test_some_lines_are_shown_and_how_to_read_on(tmp_path: Path) -> None:
    result = read(tmp_path, b"1\n2\n3\n4\n", start_line=2, num_lines=2)
    assert result.data["contents"] == "2\n3\n"
    assert (result.data["start_line"], result.data["end_line"], result.data["total_lines"]) == (2, 3, 4)
    assert result.data["next"] == {"start_line": 4, "start_byte": 0}
    assert not result.data["truncated"]
    assert result.text.endswith('[there is more; read on with {"file_name": "out/a.txt", "start_line": 4}]')


def test_what_a_page_says_about_reading_on_leads_through_the_whole_file(tmp_path: Path) -> None:
    lines = [f"{number}: {'ä' * (number % 90)}" for number in range(2_000)]
    data = "\n".join([*lines, "€" * 50_000, "end"]).encode()

    async def scenario() -> str:
        async with tool_context(tmp_path) as context:
            await (await context.bench()).workspace.write("out/a.txt", data)
            found, arguments = "", {"file_name": "out/a.txt"}
            while True:
                result = await call(context, READ_FILE, **arguments)
                assert len(result.text.encode()) < PAGE_BYTES + 500
                found += result.data["contents"]
                if "next" not in result.data:
                    return found
                arguments = json.loads(result.text.rpartition("read on with ")[2].removesuffix("]"))

    assert asyncio.run(scenario()).encode() == data


def test_a_line_longer_than_a_page_says_where_it_was_cut(tmp_path: Path) -> None:
    result = read(tmp_path, b"a\n" + b"x" * 100_000 + b"\n", start_line=2)
    assert result.data["truncated"]
    assert result.data["next"] == {"start_line": 2, "start_byte": PAGE_BYTES}
    assert "there is more within line 2;" in result.text


@pytest.mark.parametrize("arguments", [{}, {"start_line": 0}, {"start_line": None, "num_lines": 0, "start_byte": 0}])
def test_nothing_and_zero_mean_the_beginning(arguments: dict[str, Any], tmp_path: Path) -> None:
    assert read(tmp_path, b"1\n2\n", **arguments).data["contents"] == "1\n2\n"


@pytest.mark.parametrize("field", ["start_line", "num_lines", "start_byte"])
def test_a_negative_number_is_refused(field: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=f"{field}: -1 is negative"):
        read(tmp_path, b"1\n", "out/a.txt", **{field: -1})


def test_a_line_that_there_is_not_is_refused_with_how_many_there_are(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="there is no line 3; the file has 2 lines"):
        read(tmp_path, b"1\n2\n", start_line=3)


def test_an_empty_file_is_shown_as_one(tmp_path: Path) -> None:
    result = read(tmp_path, b"")
    assert result.text == "[out/a.txt: no lines of 0, 0 bytes]"
    assert result.data["contents"] == ""


def test_a_binary_file_is_described(tmp_path: Path) -> None:
    result = read(tmp_path, PNG, "out/plot.png", start_line=3)
    digest = hashlib.sha256(PNG).hexdigest()
    assert result.data["binary"]
    assert result.data["contents"] == ""
    assert result.data["sha256"] == digest
    assert result.data["mime_type"] == "image/png"
    assert f"image/png, {len(PNG)} bytes, sha256 {digest}" in result.text
    assert "a command can use it as out/plot.png" in result.text


def test_an_artifact_that_is_no_text_says_how_a_command_gets_it(tmp_path: Path) -> None:
    store = MemoryArtifactStore()

    async def scenario() -> ToolResult:
        await store.put(SCOPE, "plot.png", PNG)
        async with tool_context(tmp_path, executor=None, artifacts=store) as context:
            return await call(context, READ_FILE, path="artifact://plot.png")

    assert '{"from": "artifact://plot.png@0"} in its inputs' in asyncio.run(scenario()).text


def test_utf_16_is_not_dumped_and_the_message_says_what_to_do(tmp_path: Path) -> None:
    result = read(tmp_path, "a,b\n".encode("utf-16"), "out/a.csv")
    assert "iconv -f UTF-16 -t UTF-8" in result.text


def test_bytes_that_are_no_text_are_replaced_and_said(tmp_path: Path) -> None:
    result = read(tmp_path, "Köln\n".encode("latin-1") * 20)
    assert result.data["contents"] == "K\ufffdln\n" * 20
    assert "not UTF-8" in result.data["message"]
    assert "not UTF-8" in result.text


def test_windows_text_is_read_with_its_mark_and_line_ends_told(tmp_path: Path) -> None:
    result = read(tmp_path, b"\xef\xbb\xbfa\r\nb\r\n")
    assert result.data["contents"] == "a\nb\n"
    assert "byte order mark" in result.data["message"]
    assert "CRLF" in result.data["message"]


def test_scripts_and_instructions_of_skills_can_be_read(tmp_path: Path) -> None:
    write_skill(tmp_path, files={"scripts/run.py": "print(1)\n"})

    async def scenario() -> list[str]:
        async with tool_context(tmp_path, executor=None) as context:
            names = ("skill://demo/scripts/run.py", "skill://demo")
            return [(await call(context, READ_FILE, file_name=name)).data["contents"] for name in names]

    script, body = asyncio.run(scenario())
    assert script == "print(1)\n"
    assert body.endswith("# Body\n")


def sparse(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.write(b"line\n" * 10_000)
        file.truncate(size)


def test_the_beginning_of_a_file_of_10_gigabytes_is_read_at_once(tmp_path: Path) -> None:
    async def scenario() -> ToolResult:
        async with tool_context(tmp_path) as context:
            workspace = (await context.bench()).workspace
            sparse(Path(workspace.root) / "out" / "huge.log", 10 * 1024**3)
            return await call(context, READ_FILE, file_name="out/huge.log", num_lines=3)

    result = asyncio.run(scenario())
    assert result.data["contents"] == "line\n" * 3
    assert result.data["total_lines"] is None
    assert result.data["size_bytes"] == 10 * 1024**3
    assert result.data["next"] == {"start_line": 4, "start_byte": 0}
    assert result.text.startswith("[out/huge.log: lines 1-3, 10,737,418,240 bytes]")


def test_a_line_of_200_megabytes_costs_no_memory(tmp_path: Path) -> None:
    async def scenario() -> tuple[ToolResult, int]:
        async with tool_context(tmp_path) as context:
            workspace = (await context.bench()).workspace
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

    result, peak = asyncio.run(scenario())
    assert result.data["contents"] == "last line\n"
    assert peak < 16 * 1024 * 1024


def test_a_fifo_in_the_workspace_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with tool_context(tmp_path) as context:
            workspace = (await context.bench()).workspace
            os.mkfifo(Path(workspace.root) / "out" / "fifo")
            with pytest.raises(InvalidArgument, match="no regular file"):
                await call(context, READ_FILE, file_name="out/fifo")

    asyncio.run(scenario())


def test_what_a_sandboxed_command_wrote_is_read_in_any_spelling(
    tmp_path: Path, require_program: RequireProgram
) -> None:
    require_program("bwrap")
    folder = write_skill(tmp_path)

    async def scenario() -> None:
        async with tool_context(tmp_path, executor="sandbox") as context:
            bench = await context.bench()
            await bench.stage("demo", folder)
            await bench.run(RunRequest("echo hi > out/a.txt; pwd > inputs/b.txt", skill="demo"))
            assert bench.workspace.root == "/workspace"
            for name in ("out/a.txt", "/workspace/out/a.txt", "skills/demo/out/a.txt", "$OUTPUT_DIR/a.txt"):
                result = await call(context, READ_FILE, file_name=name)
                assert result.data["ref"] == "workspace://out/a.txt"
                assert result.data["contents"] == "hi\n"
            result = await call(context, READ_FILE, file_name="inputs/b.txt")
            assert result.data["contents"] == "/workspace/skills/demo\n"

    asyncio.run(scenario())


def test_the_model_is_told_one_name_for_the_file_and_may_use_another() -> None:
    assert list(parameters_of(READ_FILE)["properties"]) == ["file_name", "start_line", "num_lines", "start_byte"]
    assert decode(READ_FILE, {"path": "out/a", "start_line": "3"}) == decode(
        READ_FILE, {"file_name": "out/a", "start_line": 3}
    )
