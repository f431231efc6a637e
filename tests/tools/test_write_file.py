import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from openskills.errors import ForbiddenPath, InvalidArgument, LimitExceeded
from openskills.executors.requests import RunRequest
from openskills.tools.result import ToolResult
from openskills.tools.tool import ToolContext
from openskills.tools.write_file import MOST_BYTES, WRITE_FILE
from tests.conftest import RequireProgram
from tests.tools.contexts import call, tool_context


async def content(context: ToolContext, path: str) -> bytes:
    async with (await context.bench()).workspace.open(path) as reading:
        return b"".join([chunk async for chunk in reading.chunks])


def write(directory: Path, *calls: dict[str, Any], command: str = "true") -> list[ToolResult]:
    async def scenario() -> list[ToolResult]:
        async with tool_context(directory) as context:
            await (await context.bench()).run(RunRequest(f"cd $WORKSPACE_DIR && {command}"))
            return [await call(context, WRITE_FILE, **one) for one in calls]

    return asyncio.run(scenario())


def test_a_new_file_is_written_with_its_directories(tmp_path: Path) -> None:
    async def scenario() -> None:
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

    asyncio.run(scenario())


def test_a_file_that_was_there_is_replaced_and_that_is_said(tmp_path: Path) -> None:
    _, result = write(tmp_path, {"path": "out/a", "content": "12345"}, {"path": "out/a", "content": "1"})
    assert result.data["replaced"]
    assert result.data["size_bytes"] == 1
    assert result.text == "wrote 1 bytes to out/a, replacing 5 bytes"


def test_appending_keeps_what_was_there(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with tool_context(tmp_path) as context:
            for text in ("0\n", "1\n"):
                await call(context, WRITE_FILE, file_name="out/a", content=text, append=True)
            result = await call(context, WRITE_FILE, file_name="out/a", content="2\n", append=True)
            assert result.data["appended"]
            assert result.text == "appended 2 bytes to out/a; it has 6 bytes now"
            assert await content(context, "out/a") == b"0\n1\n2\n"

    asyncio.run(scenario())


def test_calls_that_append_at_once_lose_nothing(tmp_path: Path) -> None:
    async def scenario() -> bytes:
        async with tool_context(tmp_path) as context:
            await context.bench()
            adding = (
                call(context, WRITE_FILE, file_name="out/a", content=f"{number}\n", append=True) for number in range(30)
            )
            await asyncio.gather(*adding)
            return await content(context, "out/a")

    assert sorted(map(int, asyncio.run(scenario()).split())) == list(range(30))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("skills/demo/SKILL.md", "skills are read-only"),
        ("skill://demo/SKILL.md", "skills are read-only, write to work/ or out/"),
        ("artifact://a", "never changes; write to out/"),
        ("notes.md", "write out/notes.md or work/notes.md"),
        ("out", "name something in it"),
        ("../a", "climbs out"),
        ("/etc/passwd", "not in the workspace"),
        ("host:///etc/passwd", "file of the host"),
    ],
)
def test_what_cannot_be_written_to_is_said_with_what_can(name: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ForbiddenPath) as caught:
        write(tmp_path, {"file_name": name, "content": "x"})
    assert said in caught.value.message


def test_the_inputs_alias_is_written_to_where_commands_look(tmp_path: Path) -> None:
    (result,) = write(tmp_path, {"file_name": "inputs/a", "content": "x"})
    assert result.data["ref"] == "workspace://work/inputs/a"


def test_a_link_that_leads_out_is_not_written_through(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    for name in ("out/file", "out/dir/victim"):
        with pytest.raises(ForbiddenPath):
            write(
                tmp_path,
                {"file_name": name, "content": "x"},
                command=f"rm -rf out/*; ln -s {victim} out/file; ln -s {tmp_path} out/dir",
            )
    assert victim.read_text() == "mine"


def test_a_directory_is_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="is a directory"):
        write(tmp_path, {"file_name": "out/dir", "content": "x"}, command="mkdir out/dir")


def test_nothing_is_appended_to_what_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="no regular file"):
        write(tmp_path, {"file_name": "out/fifo", "content": "x", "append": True}, command="mkfifo out/fifo")


def test_scripts_can_be_executed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with tool_context(tmp_path) as context:
            bench = await context.bench()
            await call(context, WRITE_FILE, file_name="work/run", content="#!/bin/sh\necho one\n")
            result = await bench.run(RunRequest("$WORK_DIR/run"))
            assert result.stdout == "one\n"
            await call(context, WRITE_FILE, file_name="work/run", content="echo two\n", append=True)
            result = await bench.run(RunRequest("$WORK_DIR/run"))
            assert result.stdout == "one\ntwo\n"
            await call(context, WRITE_FILE, file_name="work/plain", content="echo")
            assert not os.access(Path(bench.workspace.root) / "work" / "plain", os.X_OK)

    asyncio.run(scenario())


def test_too_much_at_once_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(LimitExceeded, match="write them in parts with append"):
        write(tmp_path, {"file_name": "out/a", "content": "x" * (MOST_BYTES + 1)})


def test_half_a_character_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="content: contains half a character"):
        write(tmp_path, {"file_name": "out/a", "content": "\ud800"})


def test_a_file_is_written_into_a_sandbox_for_its_commands(tmp_path: Path, require_program: RequireProgram) -> None:
    require_program("bwrap")

    async def scenario() -> str:
        async with tool_context(tmp_path, executor="sandbox") as context:
            await call(context, WRITE_FILE, file_name="/workspace/work/a", content="hi\n")
            done = await (await context.bench()).run(RunRequest("cat $WORK_DIR/a && echo more >> $WORK_DIR/a"))
            assert done.exit_code == 0, done.stderr
            await call(context, WRITE_FILE, file_name="work/a", content="end\n", append=True)
            return (await content(context, "work/a")).decode()

    assert asyncio.run(scenario()) == "hi\nmore\nend\n"
