import asyncio
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from openskills.artifacts.files import FileArtifactStore
from openskills.artifacts.memory import MemoryArtifactStore
from openskills.errors import InvalidArgument
from openskills.executors.requests import RunRequest
from openskills.tools.lines import LONGEST
from openskills.tools.result import ToolResult
from openskills.tools.search_files import MOST_TEXT, SEARCH_FILES
from tests.conftest import RequireProgram
from tests.tools.contexts import SCOPE, call, tool_context, write_skill


def searched(directory: Path, files: dict[str, bytes], pattern: str, **arguments: Any) -> ToolResult:
    async def scenario() -> ToolResult:
        async with tool_context(directory) as context:
            workspace = (await context.bench()).workspace
            for path, data in files.items():
                await workspace.write(path, data)
            return await call(context, SEARCH_FILES, pattern=pattern, **arguments)

    return asyncio.run(scenario())


def test_lines_are_found_with_path_and_number(tmp_path: Path) -> None:
    files = {"out/a.txt": b"one\ntwo needle\n", "work/b.txt": b"needle", "work/c.txt": b"nothing\n"}
    result = searched(tmp_path, files, "needle")
    assert result.text == "out/a.txt:2: two needle\nwork/b.txt:1: needle\n[2 matches in 3 files]"
    assert result.data["matches"] == [
        {"path": "out/a.txt", "line": 2, "text": "two needle"},
        {"path": "work/b.txt", "line": 1, "text": "needle"},
    ]
    assert result.data["files_searched"] == 3
    assert not result.data["truncated"]


def test_plain_text_is_no_regular_expression_unless_it_is_said_to_be(tmp_path: Path) -> None:
    files = {"out/a": b"a.c\nabc\n"}
    assert [match["line"] for match in searched(tmp_path, files, "a.c").data["matches"]] == [1]
    assert [match["line"] for match in searched(tmp_path, files, "a.c$", regex=True).data["matches"]] == [1, 2]
    assert [match["line"] for match in searched(tmp_path, files, "ABC", ignore_case=True).data["matches"]] == [2]


def test_lines_around_a_match_are_shown(tmp_path: Path) -> None:
    data = b"".join(b"%d\n" % number for number in range(1, 10))
    result = searched(tmp_path, {"out/a": data}, "5", context_lines=2, regex=True)
    assert result.text.splitlines()[:5] == ["out/a-3- 3", "out/a-4- 4", "out/a:5: 5", "out/a-6- 6", "out/a-7- 7"]
    assert result.data["matches"] == [
        {"path": "out/a", "line": 5, "text": "5", "before": ["3", "4"], "after": ["6", "7"]}
    ]


def test_matches_are_limited_and_that_is_said(tmp_path: Path) -> None:
    result = searched(tmp_path, {"out/a": b"x\n" * 1000, "out/b": b"x\n"}, "x", max_matches=7)
    assert len(result.data["matches"]) == 7
    assert result.data["truncated"]
    assert "there may be more; narrow the glob" in result.text


def test_the_text_of_a_result_is_limited(tmp_path: Path) -> None:
    result = searched(tmp_path, {"out/a": (b"x" * 500 + b"\n") * 1000}, "x", max_matches=500)
    assert len(result.text) < MOST_TEXT + 1000
    assert "matches are shown here" in result.text


def test_a_long_line_is_cut_around_its_match(tmp_path: Path) -> None:
    result = searched(tmp_path, {"out/a.json": b"{" + b"x" * 100_000 + b"needle" + b"x" * 100_000 + b"}"}, "needle")
    assert "needle" in result.text
    assert len(result.text) < 500


def test_the_end_of_an_endless_line_is_not_searched_and_that_is_said(tmp_path: Path) -> None:
    result = searched(tmp_path, {"out/a": b"x" * (LONGEST + 10) + b"needle\nneedle"}, "needle")
    assert [match["line"] for match in result.data["matches"]] == [2]
    assert "lines longer than 1,048,576 bytes" in result.text


@pytest.mark.parametrize("regex", [False, True])
def test_a_file_of_newlines_costs_little_memory(regex: bool, tmp_path: Path) -> None:
    tracemalloc.start()
    try:
        result = searched(tmp_path, {"out/a": b"\n" * 1_000_000 + b"needle"}, "needle", regex=regex)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [match["line"] for match in result.data["matches"]] == [1_000_001]
    assert peak < 32 * 1024 * 1024


def test_binary_files_are_skipped_and_counted(tmp_path: Path) -> None:
    result = searched(tmp_path, {"out/a.png": b"\x89PNG\r\n\x1a\nneedle", "out/b": b"needle"}, "needle")
    assert [match["path"] for match in result.data["matches"]] == ["out/b"]
    assert result.data["binary_files"] == 1
    assert "skipped as binary: 1" in result.text


def test_windows_text_is_searched_without_its_marks(tmp_path: Path) -> None:
    result = searched(tmp_path, {"out/a": b"\xef\xbb\xbfneedle\r\nneedle\r\n"}, "^needle$", regex=True)
    assert [match["text"] for match in result.data["matches"]] == ["needle", "needle"]


def test_other_encodings_are_searched_as_far_as_they_can(tmp_path: Path) -> None:
    result = searched(tmp_path, {"out/a": "Köln needle and more text\n".encode("latin-1")}, "needle")
    assert [match["text"] for match in result.data["matches"]] == ["K\ufffdln needle and more text"]


def test_where_nothing_can_be_searched_it_is_said(tmp_path: Path) -> None:
    assert searched(tmp_path, {}, "x").text == "[the workspace has no files yet]"
    assert searched(tmp_path, {"out/a": b"x"}, "x", glob="out/*.csv").text == "[no files match 'out/*.csv']"
    assert searched(tmp_path, {"out/a": b"x"}, "y").text == "[0 matches in 1 file]"


def test_files_of_skills_and_artifacts_are_searched_without_an_executor(tmp_path: Path) -> None:
    write_skill(tmp_path, files={"references/guide.md": "a needle\n"})
    store = MemoryArtifactStore()

    async def scenario() -> None:
        await store.put(SCOPE, "a.txt", b"one\nneedle\n")
        async with tool_context(tmp_path, executor=None, artifacts=store) as context:
            result = await call(context, SEARCH_FILES, pattern="needle", glob="skill://demo")
            assert result.data["matches"] == [
                {"path": "skill://demo/references/guide.md", "line": 1, "text": "a needle"}
            ]
            result = await call(context, SEARCH_FILES, pattern="needle", path="artifact://a.txt")
            assert result.data["matches"] == [{"path": "artifact://a.txt@0", "line": 2, "text": "needle"}]

    asyncio.run(scenario())


def test_links_are_not_searched(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("needle")

    async def scenario() -> ToolResult:
        async with tool_context(tmp_path) as context:
            bench = await context.bench()
            await bench.run(RunRequest(f"ln -s {tmp_path}/secret $OUTPUT_DIR/a; ln -s {tmp_path} $OUTPUT_DIR/b"))
            return await call(context, SEARCH_FILES, pattern="needle", glob="out")

    assert asyncio.run(scenario()).data["matches"] == []


def test_a_file_that_cannot_be_read_does_not_cost_the_others(tmp_path: Path) -> None:
    store = FileArtifactStore(tmp_path / "artifacts")

    async def scenario() -> ToolResult:
        lost = await store.put(SCOPE, "lost", b"x lost")
        await store.put(SCOPE, "there", b"x there")
        (blob,) = [path for path in (tmp_path / "artifacts").rglob(f"*{lost.sha256[4:]}*") if path.is_file()]
        blob.unlink()
        async with tool_context(tmp_path, executor=None, artifacts=store) as context:
            return await call(context, SEARCH_FILES, pattern="x", glob="artifact://")

    result = asyncio.run(scenario())
    assert [match["text"] for match in result.data["matches"]] == ["x there"]
    assert "could not be read: 1" in result.text


def test_a_broken_pattern_is_refused_even_where_there_is_nothing_to_search(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="pattern: is no regular expression"):
        searched(tmp_path, {}, "a(", regex=True)


@pytest.mark.parametrize("field", ["context_lines", "max_matches"])
def test_a_negative_number_is_refused(field: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=f"{field}: -1 is negative"):
        searched(tmp_path, {}, "x", **{field: -1})


def test_files_of_a_sandbox_are_searched(tmp_path: Path, require_program: RequireProgram) -> None:
    require_program("bwrap")

    async def scenario() -> ToolResult:
        async with tool_context(tmp_path, executor="sandbox") as context:
            await (await context.bench()).run(RunRequest("echo a needle > $OUTPUT_DIR/a"))
            return await call(context, SEARCH_FILES, pattern=r"\bneedle$", regex=True, glob="/workspace/out")

    assert asyncio.run(scenario()).data["matches"] == [{"path": "out/a", "line": 1, "text": "a needle"}]
