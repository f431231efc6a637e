""""""

import asyncio
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from openskills.artifacts.files import FileArtifactStore
from openskills.artifacts.memory import MemoryArtifactStore
from openskills.errors import DeadlineExceeded, InvalidArgument
from openskills.executors.requests import RunRequest
from openskills.tools.lines import MAX_LINE_BYTES
from openskills.tools.search_files import MAX_MATCHES, MAX_PATTERN, MAX_TEXT_CHARS, SEARCH_FILES, open_matcher
from openskills.tools.tool import ToolResult
from tests.conftest import RequireProgram
from tests.tools.contexts import SCOPE, call, tool_context, write_skill


async def searched(directory: Path, files: dict[str, bytes], pattern: str, **arguments: Any) -> ToolResult:
    async with tool_context(directory) as context:
        workspace = (await context.open_runner()).workspace
        for path, data in files.items():
            await workspace.write(path, data)
        return await call(context, SEARCH_FILES, pattern=pattern, **arguments)


async def test_lines_are_found_with_path_and_number(tmp_path: Path) -> None:
    files = {"out/a.txt": b"one\ntwo needle\n", "work/b.txt": b"needle", "work/c.txt": b"nothing\n"}
    result = await searched(tmp_path, files, "needle")
    assert result.text == "out/a.txt:2: two needle\nwork/b.txt:1: needle\n[2 matches in 3 files]"
    assert result.data["matches"] == [
        {"path": "out/a.txt", "line": 2, "text": "two needle"},
        {"path": "work/b.txt", "line": 1, "text": "needle"},
    ]
    assert result.data["files_searched"] == 3
    assert not result.data["truncated"]


async def test_plain_text_is_not_a_regular_expression_unless_it_is_said_to_be(tmp_path: Path) -> None:
    files = {"out/a": b"a.c\nabc\n"}
    assert [match["line"] for match in (await searched(tmp_path, files, "a.c")).data["matches"]] == [1]
    assert [match["line"] for match in (await searched(tmp_path, files, "a.c$", regex=True)).data["matches"]] == [1, 2]
    assert [match["line"] for match in (await searched(tmp_path, files, "ABC", ignore_case=True)).data["matches"]] == [
        2
    ]


async def test_lines_around_a_match_are_shown(tmp_path: Path) -> None:
    data = b"".join(b"%d\n" % number for number in range(1, 10))
    result = await searched(tmp_path, {"out/a": data}, "5", context_lines=2, regex=True)
    assert result.text.splitlines()[:5] == ["out/a-3- 3", "out/a-4- 4", "out/a:5: 5", "out/a-6- 6", "out/a-7- 7"]
    assert result.data["matches"] == [
        {"path": "out/a", "line": 5, "text": "5", "before": ["3", "4"], "after": ["6", "7"]}
    ]


async def test_matches_are_limited_and_that_is_said(tmp_path: Path) -> None:
    result = await searched(tmp_path, {"out/a": b"x\n" * 1000, "out/b": b"x\n"}, "x", max_matches=7)
    assert len(result.data["matches"]) == 7
    assert result.data["truncated"]
    assert "there may be more; narrow the glob" in result.text


async def test_the_text_of_a_result_is_limited(tmp_path: Path) -> None:
    result = await searched(tmp_path, {"out/a": (b"x" * 500 + b"\n") * 1000}, "x", max_matches=500)
    assert len(result.text) < MAX_TEXT_CHARS + 1000
    assert "matches are shown here" in result.text


async def test_a_long_line_is_cut_around_its_match(tmp_path: Path) -> None:
    result = await searched(
        tmp_path, {"out/a.json": b"{" + b"x" * 100_000 + b"needle" + b"x" * 100_000 + b"}"}, "needle"
    )
    assert "needle" in result.text
    assert len(result.text) < 500


async def test_the_end_of_an_endless_line_is_not_searched_and_that_is_said(tmp_path: Path) -> None:
    result = await searched(tmp_path, {"out/a": b"x" * (MAX_LINE_BYTES + 10) + b"needle\nneedle"}, "needle")
    assert [match["line"] for match in result.data["matches"]] == [2]
    assert "the first 1,048,576 bytes of longer lines" in result.text


@pytest.mark.parametrize("regex", [False, True])
async def test_a_file_of_newlines_costs_little_memory(regex: bool, tmp_path: Path) -> None:
    tracemalloc.start()
    try:
        result = await searched(tmp_path, {"out/a": b"\n" * 1_000_000 + b"needle"}, "needle", regex=regex)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [match["line"] for match in result.data["matches"]] == [1_000_001]
    assert peak < 32 * 1024 * 1024


async def test_binary_files_are_skipped_and_counted(tmp_path: Path) -> None:
    result = await searched(tmp_path, {"out/a.png": b"\x89PNG\r\n\x1a\nneedle", "out/b": b"needle"}, "needle")
    assert [match["path"] for match in result.data["matches"]] == ["out/b"]
    assert result.data["binary_files"] == 1
    assert "skipped as binary: 1" in result.text


async def test_windows_text_is_searched_without_its_marks(tmp_path: Path) -> None:
    result = await searched(tmp_path, {"out/a": b"\xef\xbb\xbfneedle\r\nneedle\r\n"}, "^needle$", regex=True)
    assert [match["text"] for match in result.data["matches"]] == ["needle", "needle"]


async def test_other_encodings_are_searched_as_far_as_they_can(tmp_path: Path) -> None:
    result = await searched(tmp_path, {"out/a": "Köln needle and more text\n".encode("latin-1")}, "needle")
    assert [match["text"] for match in result.data["matches"]] == ["K\ufffdln needle and more text"]


async def test_where_nothing_can_be_searched_it_is_said(tmp_path: Path) -> None:
    assert (await searched(tmp_path, {}, "x")).text == "[the workspace has no files yet]"
    assert (await searched(tmp_path, {"out/a": b"x"}, "x", glob="out/*.csv")).text == "[no files match 'out/*.csv']"
    assert (await searched(tmp_path, {"out/a": b"x"}, "y")).text == "[0 matches in 1 file]"


async def test_files_of_skills_and_artifacts_are_searched_without_an_executor(tmp_path: Path) -> None:
    write_skill(tmp_path, files={"references/guide.md": "a needle\n"})
    store = MemoryArtifactStore()

    await store.put(SCOPE, "a.txt", b"one\nneedle\n")
    async with tool_context(tmp_path, executor=None, artifacts=store) as context:
        result = await call(context, SEARCH_FILES, pattern="needle", glob="skill://demo")
        assert result.data["matches"] == [{"path": "skill://demo/references/guide.md", "line": 1, "text": "a needle"}]
        result = await call(context, SEARCH_FILES, pattern="needle", path="artifact://a.txt")
        assert result.data["matches"] == [{"path": "artifact://a.txt@0", "line": 2, "text": "needle"}]


async def test_links_are_not_searched(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("needle")

    async with tool_context(tmp_path) as context:
        bench = await context.open_runner()
        await bench.run(RunRequest(f"ln -s {tmp_path}/secret $OUTPUT_DIR/a; ln -s {tmp_path} $OUTPUT_DIR/b"))
        result = await call(context, SEARCH_FILES, pattern="needle", glob="out")

    assert result.data["matches"] == []


async def test_a_file_that_cannot_be_read_does_not_cost_the_others(tmp_path: Path) -> None:
    store = FileArtifactStore(tmp_path / "artifacts")

    lost = await store.put(SCOPE, "lost", b"x lost")
    await store.put(SCOPE, "there", b"x there")
    (blob,) = [path for path in (tmp_path / "artifacts").rglob(f"*{lost.sha256[4:]}*") if path.is_file()]
    blob.unlink()
    async with tool_context(tmp_path, executor=None, artifacts=store) as context:
        result = await call(context, SEARCH_FILES, pattern="x", glob="artifact://")

    assert [match["text"] for match in result.data["matches"]] == ["x there"]
    assert "could not be read: 1" in result.text


async def test_a_broken_pattern_is_refused_even_where_there_is_nothing_to_search(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="pattern: invalid regular expression"):
        await searched(tmp_path, {}, "a(", regex=True)


@pytest.mark.parametrize("field", ["context_lines", "max_matches"])
async def test_a_negative_number_is_refused(field: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=f"{field}: -1 is negative"):
        await searched(tmp_path, {}, "x", **{field: -1})


async def test_files_of_a_sandbox_are_searched(tmp_path: Path, require_program: RequireProgram) -> None:
    require_program("bwrap")

    async with tool_context(tmp_path, executor="sandbox") as context:
        await (await context.open_runner()).run(RunRequest("echo a needle > $OUTPUT_DIR/a"))
        result = await call(context, SEARCH_FILES, pattern=r"\bneedle$", regex=True, glob="/workspace/out")

    assert result.data["matches"] == [{"path": "out/a", "line": 1, "text": "a needle"}]


TEXT = "alpha beta\nBETA\n\ngamma é\nbe.a\n"


async def hits(pattern: str, text: str = TEXT, *, regex: bool = False, ignore_case: bool = False) -> list[int]:
    async with open_matcher(pattern, regex=regex, ignore_case=ignore_case) as matcher:
        return [line for line, _ in await matcher.find_matches(text)]


async def test_plain_text_means_itself() -> None:
    assert await hits("be.a") == [4]
    assert await hits("beta") == [0]
    assert await hits("é") == [3]
    assert await hits("zzz") == []


async def test_case_can_be_ignored() -> None:
    assert await hits("Beta", ignore_case=True) == [0, 1]
    assert await hits("b.TA", regex=True, ignore_case=True) == [0, 1]


async def test_a_regular_expression_is_searched_in_every_line_by_itself() -> None:
    assert await hits("be.a", regex=True) == [0, 4]
    assert await hits("^$", regex=True) == [2]
    assert await hits(r"^(?=.*a)\w+$", regex=True) == []
    assert await hits(r"\w é$", regex=True) == [3]
    assert await hits("a", "", regex=True) == []


async def test_the_column_of_a_match_is_reported() -> None:
    for regex in (False, True):
        async with open_matcher("beta", regex=regex) as matcher:
            assert list(await matcher.find_matches("alpha beta\n")) == [(0, 6)]
            assert list(await matcher.find_matches("beta\nx\né beta beta\n")) == [(0, 0), (2, 2)]


async def test_a_text_full_of_matches_is_looked_at_until_there_are_enough() -> None:
    for regex in (False, True):
        assert await hits("a", "ab\nb\n" * (MAX_MATCHES + 10), regex=regex) == list(range(0, 2 * MAX_MATCHES, 2))


@pytest.mark.parametrize(
    ("pattern", "said"),
    [("", "is empty"), ("a\nb", "line by line"), ("x" * (MAX_PATTERN + 1), "too long"), ("\ud800", "surrogate")],
)
@pytest.mark.parametrize("regex", [False, True])
async def test_what_is_not_a_pattern_is_refused(pattern: str, said: str, regex: bool) -> None:
    with pytest.raises(InvalidArgument, match=said):
        await hits(pattern, regex=regex)


async def test_a_broken_regular_expression_is_refused_with_the_place() -> None:
    with pytest.raises(InvalidArgument, match=r"pattern: .*unterminated subpattern at position 1"):
        await hits("a(", regex=True)


@pytest.mark.parametrize("pattern", ["(" * 400 + ")" * 400, "a{99999999999999999999}", "(?P<a>x)(?P<a>x)"])
async def test_an_absurd_regular_expression_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidArgument):
        await hits(pattern + "(", regex=True)


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"(a|aa)+$", r"(.*)*b\1", r"^(([a-z])+.)+[A-Z]([a-z])+$"])
async def test_a_catastrophic_regular_expression_is_ended(pattern: str) -> None:
    async with open_matcher(pattern, regex=True, seconds=0.5) as matcher:
        with pytest.raises(DeadlineExceeded, match=r"timed out after 0\.5 s; write a simpler one"):
            await matcher.find_matches("a" * 5000 + "!\n")

    assert not running_programs()


async def test_the_loop_goes_on_while_a_regular_expression_takes_its_time() -> None:
    turns = 0
    async with open_matcher(r"(a+)+$", regex=True, seconds=1.0) as matcher:
        searching = asyncio.ensure_future(matcher.find_matches("a" * 5000 + "!\n"))
        while not searching.done():
            await asyncio.sleep(0.01)
            turns += 1
        assert isinstance(searching.exception(), DeadlineExceeded)

    assert turns > 1


async def test_a_search_that_is_cancelled_leaves_no_process() -> None:
    async with open_matcher(r"(a+)+$", regex=True) as matcher:
        searching = asyncio.ensure_future(matcher.find_matches("a" * 5000 + "!\n"))
        await asyncio.sleep(0)
        searching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await searching

    assert not running_programs()


def running_programs() -> list[str]:
    """Children of this process that run the program."""
    found: list[str] = []
    for task in Path("/proc/self/task").iterdir():
        # Threads and children of other tests may end meanwhile.
        with suppress(OSError):
            found += [pid for pid in (task / "children").read_text().split() if _is_the_program(pid)]
    return found


def _is_the_program(pid: str) -> bool:
    try:
        return b"regex_program" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
