"""What is told about a run."""

import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.artifacts.store import Artifact
from openskills.executors.requests import RunResult
from openskills.executors.spec import Captured, Ended, Ending, Isolation
from openskills.executors.staging.outputs import OutputFile
from openskills.tools.run_outcome import Shape, outcome, told
from openskills.tools.uploads import StagedUpload
from tests.tools.run_calls import PNG

REQUIRED = ["stdout", "stderr", "exit_code", "timed_out", "duration_ms", "isolation", "output_files"]


def result(
    *files: OutputFile,
    stdout: bytes | Captured = b"",
    ending: Ending = Ending.EXITED,
    detail: str = "",
    artifacts: tuple[Artifact, ...] = (),
    warnings: tuple[str, ...] = (),
) -> RunResult:
    """How a run went."""
    captured = stdout if isinstance(stdout, Captured) else Captured(stdout)
    ended = Ended(0 if ending is Ending.EXITED else 143, ending, 12, captured, Captured(b"e\n"), detail=detail)
    return RunResult(ended, Isolation.NONE, "r1", output_files=files, artifact_files=artifacts, warnings=warnings)


def text(path: str, content: str, *, truncated: bool = False) -> OutputFile:
    """A file with text in it."""
    data = content.encode()
    return OutputFile(path, data, len(data) + truncated, "text/plain", truncated=truncated)


def contents(data: dict[str, Any]) -> list[str | None]:
    """What the files have as content."""
    return [file.get("content") for file in data["output_files"]]


def test_a_quiet_run_has_what_every_result_has_and_nothing_else() -> None:
    data = outcome(result(stdout=b"hi\n"), Shape())
    assert list(data) == REQUIRED
    assert (data["stdout"], data["stderr"], data["exit_code"], data["timed_out"]) == ("hi\n", "e\n", 0, False)
    assert (data["duration_ms"], data["isolation"], data["output_files"]) == (12, "none", [])


def test_files_have_their_fields_and_text_its_content() -> None:
    picture = OutputFile("out/p.png", PNG, len(PNG), "image/png")
    data = outcome(result(text("out/a.txt", "é\n"), picture), Shape())
    assert data["output_files"] == [
        {
            "name": "out/a.txt",
            "ref": "workspace://out/a.txt",
            "content": "é\n",
            "mime_type": "text/plain",
            "size_bytes": 3,
            "truncated": False,
        },
        {
            "name": "out/p.png",
            "ref": "workspace://out/p.png",
            "mime_type": "image/png",
            "size_bytes": len(PNG),
            "truncated": False,
        },
    ]
    assert data["primary_output"] == data["output_files"][0]


@pytest.mark.parametrize("data", [b"%PDF-1.4 all letters", b"GIF89a letters", b"a\0b", b"\xff\xfe", b"PK\x03\x04abc"])
def test_what_is_no_text_is_never_inlined_even_when_its_bytes_are_letters(data: bytes) -> None:
    found = outcome(result(OutputFile("out/x.txt", data, len(data), "text/plain")), Shape())
    assert contents(found) == [None]
    assert "primary_output" not in found


def test_without_inline_files_have_no_content_but_the_primary_output_does() -> None:
    long = text("out/long.txt", "x" * 10, truncated=True)
    data = outcome(result(text("out/report.md", "# R"), long), Shape(inline=False))
    assert contents(data) == [None, None]
    assert [file["truncated"] for file in data["output_files"]] == [False, False]
    assert data["primary_output"]["content"] == "# R"


def test_without_any_content_the_rest_stays() -> None:
    data = outcome(result(text("out/report.md", "# R")), Shape(inline=False, primary_content=False))
    fields = {"name", "ref", "mime_type", "size_bytes", "truncated"}
    assert set(data["primary_output"]) == set(data["output_files"][0]) == fields


def test_a_primary_output_is_whole_text_that_is_not_too_long() -> None:
    assert outcome(result(text("out/report.md", "x" * 11)), Shape(primary_bytes=10)).get("primary_output") is None
    assert outcome(result(text("out/report.md", "x", truncated=True)), Shape()).get("primary_output") is None
    assert outcome(result(text("out/report.md", " \n")), Shape()).get("primary_output") is None
    assert outcome(result(), Shape()).get("primary_output") is None


def test_an_empty_file_has_an_empty_content() -> None:
    assert contents(outcome(result(text("out/empty", "")), Shape())) == [""]


def test_content_is_cut_where_there_is_no_more_room_and_the_result_says_so() -> None:
    data = outcome(result(text("out/a", "aaaa"), text("out/b", "bébb"), text("out/c", "c")), Shape(content_bytes=6))
    assert contents(data) == ["aaaa", "b", ""]
    assert [file["truncated"] for file in data["output_files"]] == [False, True, True]
    said = "the content of 2 files is cut to 6 bytes in all; read on by ref, with read_file or with a command"
    assert data["warnings"] == [said]


def test_of_very_many_files_and_warnings_only_so_many_are_told() -> None:
    files = [text(f"out/{number:05}", "") for number in range(3000)]
    data = outcome(result(*files, warnings=tuple(f"w{number}" for number in range(500))), Shape())
    assert len(data["output_files"]) == 1000
    assert "2,000 more files came of this run than are listed here" in data["warnings"][0]
    assert (len(data["warnings"]), data["warnings"][-1]) == (51, "451 more warnings are left out")


def test_a_pattern_that_is_no_text_does_not_make_the_result_one_that_cannot_be_sent() -> None:
    told(outcome(result(), Shape(patterns=("out/\udcff*",)))).encode()


def test_artifacts_and_staged_files_and_warnings_are_told() -> None:
    kept = Artifact("out/a", 3, 1, "text/plain", "0" * 64, datetime.now(UTC))
    staged = StagedUpload("work/inputs/a b.csv", "a b.csv", "text/csv", 4)
    data = outcome(result(artifacts=(kept,), warnings=("later",)), Shape(), [staged], ["earlier"])
    assert data["artifact_files"] == [{"name": "out/a", "version": 3, "ref": "artifact://out/a@3"}]
    assert data["staged_inputs"] == [
        {"name": "work/inputs/a b.csv", "original_name": "a b.csv", "mime_type": "text/csv", "size_bytes": 4}
    ]
    assert data["warnings"] == ["earlier", "later"]


def test_what_a_warm_start_would_have_saved_is_not_for_models() -> None:
    assert "warnings" not in outcome(result(warnings=("started cold: it has threads",)), Shape())


def test_a_long_stream_keeps_its_beginning_and_its_end() -> None:
    data = outcome(result(stdout=b"begin" + b"x" * 1000 + b"end!!"), Shape(stream_bytes=10))
    assert data["stdout"] == "begin\n[... 1,000 bytes not kept ...]\nend!!"
    (warning,) = data["warnings"]
    assert warning.startswith("stdout has 1,010 bytes, of which 10 are shown, from its beginning and its end; write")


def test_a_stream_that_was_cut_before_is_cut_further_and_the_count_is_of_all() -> None:
    data = outcome(result(stdout=Captured(b"a" * 50, b"z" * 50, 900)), Shape(stream_bytes=10))
    assert data["stdout"] == "aaaaa\n[... 990 bytes not kept ...]\nzzzzz"
    assert "stdout has 1,000 bytes, of which 10 are shown" in data["warnings"][0]


def test_of_an_odd_number_of_bytes_the_beginning_gets_one_more() -> None:
    assert outcome(result(stdout=b"abcdefgh"), Shape(stream_bytes=5))["stdout"].startswith("abc\n[... 3 bytes")


def test_a_stream_with_little_at_one_end_shows_what_there_is() -> None:
    data = outcome(result(stdout=Captured(b"a", b"z" * 50, 900)), Shape(stream_bytes=10))
    assert data["stdout"] == "a\n[... 941 bytes not kept ...]\nzzzzzzzzz"
    data = outcome(result(stdout=Captured(b"a" * 50, b"z", 900)), Shape(stream_bytes=10))
    assert data["stdout"] == "aaaaa\n[... 945 bytes not kept ...]\nz"


def test_a_stream_that_fits_is_as_it_was() -> None:
    data = outcome(result(stdout=Captured(b"a" * 5, b"z" * 5, 90)), Shape(stream_bytes=10))
    assert data["stdout"] == "aaaaa\n[... 90 bytes not kept ...]\nzzzzz"


@given(st.text(st.sampled_from("aé漢😀"), max_size=40), st.integers(0, 60), st.integers(0, 160))
def test_no_character_is_cut_in_two_and_every_byte_is_accounted_for(content: str, limit: int, split: int) -> None:
    data = content.encode()
    captured = Captured(data[:split], data[split:])
    shown = outcome(result(stdout=captured), Shape(stream_bytes=limit))["stdout"]
    if len(data) <= limit:
        assert shown == content
    else:
        head, _, rest = shown.partition("\n[... ")
        count, _, tail = rest.partition(" bytes not kept ...]\n")
        assert content.startswith(head)
        assert content.endswith(tail)
        assert len(head.encode()) + len(tail.encode()) == len(data) - int(count) <= limit


@pytest.mark.parametrize(
    ("ending", "detail", "words"),
    [
        (Ending.TIMED_OUT, "it did not end within 5 seconds", "stopped: it did not end within 5 seconds; do less"),
        (Ending.LIMIT, "it had 300 processes; 128 is the most", "stopped: it had 300 processes; .* make it use less"),
        (Ending.KILLED, "", "the command was killed$"),
        (Ending.KILLED, "nobody asked for it", "killed: nobody asked for it"),
        (Ending.INTERRUPTED, "the host ended", "not known: the host ended; look at its files"),
        (Ending.EXITED, "some of its processes could not be ended", "could not be ended"),
    ],
)
def test_who_ended_a_command_is_said_first(ending: Ending, detail: str, words: str) -> None:
    ended = result(ending=ending, detail=detail, warnings=("another",))
    data = outcome(ended, Shape(advice="do less"))
    assert re.search(words, data["warnings"][0])
    assert data["timed_out"] is (ending is Ending.TIMED_OUT)


def test_patterns_that_match_nothing_are_named() -> None:
    data = outcome(result(), Shape(patterns=("out/*.pdf", "out/b")))
    assert data["warnings"] == ["no file that this run made or changed matches out/*.pdf, out/b"]
    assert "warnings" not in outcome(result(text("out/b", "x")), Shape(patterns=("out/*.pdf", "out/b")))


def test_a_model_reads_the_same_as_compact_json_with_no_content_twice() -> None:
    data = outcome(result(text("out/report.md", "é")), Shape())
    read = json.loads(told(data))
    assert "é" in told(data)
    assert ", " not in told(data)
    assert "content" not in read["primary_output"]
    assert read["output_files"] == data["output_files"]
    assert data["primary_output"]["content"] == "é"


def test_a_model_reads_the_content_of_a_primary_output_that_stands_nowhere_else() -> None:
    data = outcome(result(text("out/report.md", "é")), Shape(inline=False))
    assert json.loads(told(data)) == data
