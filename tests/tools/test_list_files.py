import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from openskills.artifacts.memory import MemoryArtifactStore
from openskills.errors import ExecutorUnavailable, InvalidArgument
from openskills.executors.requests import RunRequest
from openskills.tools.list_files import LIST_FILES
from openskills.tools.result import ToolResult
from openskills.tools.search_files import SEARCH_FILES
from openskills.tools.uploads import Upload, upload_of
from tests.conftest import RequireProgram
from tests.tools.contexts import SCOPE, call, tool_context, write_skill


def listed(directory: Path, command: str, executor: str = "local", **arguments: Any) -> ToolResult:
    async def scenario() -> ToolResult:
        async with tool_context(directory, executor=executor) as context:
            bench = await context.bench()
            await bench.run(RunRequest(f"cd $WORKSPACE_DIR && {command}"))
            return await call(context, LIST_FILES, **arguments)

    return asyncio.run(scenario())


@pytest.mark.parametrize(
    "glob", ["\ud800", "workspace://\ud800", "skill://demo/\ud800", "artifact://\udcff", "out/\udcff"]
)
def test_half_a_character_is_refused_with_the_field(glob: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with tool_context(tmp_path) as context:
            for tool, more in ((LIST_FILES, {}), (SEARCH_FILES, {"pattern": "x"})):
                with pytest.raises(InvalidArgument, match=r"glob: .*half a character"):
                    await call(context, tool, glob=glob, **more)

    asyncio.run(scenario())


def test_a_file_of_a_skill_whose_name_is_not_utf_8_is_left_out_and_said(tmp_path: Path) -> None:
    folder = write_skill(tmp_path, files={"a.md": "x"})
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.md")).write_text("x")

    async def scenario() -> None:
        async with tool_context(tmp_path) as context:
            result = await call(context, LIST_FILES, glob="skill://demo")
            assert [one["path"] for one in result.data["files"]] == ["skill://demo/SKILL.md", "skill://demo/a.md"]
            assert "\\xff.md has a name that is not UTF-8; left out" in result.text
            json.dumps(result.data, ensure_ascii=False).encode()

    asyncio.run(scenario())


def test_files_are_listed_with_their_sizes(tmp_path: Path) -> None:
    result = listed(tmp_path, "printf 12345 > out/b; printf 1 > work/inputs/a", glob=None)
    assert result.text == "out/b\t5\nwork/inputs/a\t1"
    assert result.data == {
        "files": [
            {"path": "out/b", "ref": "workspace://out/b", "size_bytes": 5},
            {"path": "work/inputs/a", "ref": "workspace://work/inputs/a", "size_bytes": 1},
        ],
        "truncated": False,
    }


def test_a_list_that_is_cut_says_so(tmp_path: Path) -> None:
    result = listed(tmp_path, "touch out/{1..30}", limit=3, glob="out/*")
    assert len(result.data["files"]) == 3
    assert result.data["truncated"]
    assert "only the first 3 files; narrow the pattern" in result.text


def test_links_and_the_like_are_named_and_left_out(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    result = listed(tmp_path, f"touch out/a; ln -s {tmp_path} out/escape; mkfifo out/fifo", glob="out")
    assert [file["path"] for file in result.data["files"]] == ["out/a"]
    assert "out/escape is a link; left out" in result.text
    assert "out/fifo is a FIFO; left out" in result.text
    assert "secret" not in result.text


def test_a_name_cannot_pretend_to_be_two_lines(tmp_path: Path) -> None:
    result = listed(tmp_path, "touch $'out/a\\nb'", glob="out")
    assert result.text == "out/a\\nb\t0"


def test_what_matches_nothing_is_no_error(tmp_path: Path) -> None:
    assert listed(tmp_path, "true", glob="out/*.csv").text == "[no files match 'out/*.csv']"
    assert listed(tmp_path, "true").text == "[the workspace has no files yet]"


def test_a_negative_limit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="limit: -1 is negative"):
        listed(tmp_path, "true", limit=-1)


def test_skills_and_artifacts_are_listed_without_an_executor(tmp_path: Path) -> None:
    write_skill(tmp_path, files={"references/guide.md": "guide"})
    store = MemoryArtifactStore()

    async def scenario() -> None:
        await store.put(SCOPE, "a.txt", b"123")
        async with tool_context(tmp_path, executor=None, artifacts=store) as context:
            assert "skill://demo/references/guide.md\t5" in (await call(context, LIST_FILES, glob="skill://demo")).text
            assert (await call(context, LIST_FILES, glob="artifact://")).text == "artifact://a.txt@0\t3"
            with pytest.raises(ExecutorUnavailable):
                await call(context, LIST_FILES)

    asyncio.run(scenario())


def test_files_of_a_sandbox_are_listed(tmp_path: Path, require_program: RequireProgram) -> None:
    require_program("bwrap")
    result = listed(tmp_path, "printf 12345 > out/b", "sandbox", glob="/workspace/out")
    assert result.text == "out/b\t5"


def test_files_of_the_conversation_are_listed_and_those_that_are_missing_named(tmp_path: Path) -> None:
    uploads = [upload_of("notes.txt", b"mine"), Upload("file_id/f1/name/b", "b.txt", file_id="f1")]

    async def scenario() -> str:
        async with tool_context(tmp_path, uploads=uploads) as context:
            return (await call(context, LIST_FILES)).text

    first, second = asyncio.run(scenario()).splitlines()
    assert first == "work/inputs/notes.txt\t4"
    assert "b.txt" in second
    assert "cannot be downloaded" in second
