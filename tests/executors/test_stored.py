import json
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from openskills.artifacts.store import Artifact
from openskills.executors.requests import RunResult, interrupted
from openskills.executors.spec import Captured, Ended, Ending, Isolation
from openskills.executors.staging.outputs import OutputFile
from openskills.executors.stored import INLINE_BYTES, result_from, shown, stored


def result(data: bytes = b"x", stdout: bytes = b"out") -> RunResult:
    ended = Ended(3, Ending.TIMED_OUT, 12, Captured(stdout, b"tail", 7), Captured(), cpu_ms=5, detail="why")
    return RunResult(
        ended,
        Isolation.BUBBLEWRAP,
        "run",
        digest="d",
        output_files=(OutputFile("out/a", data, len(data), "text/plain"),),
        artifact_files=(Artifact("out/a", 2, 1, "text/plain", "sha", datetime(2026, 1, 2, tzinfo=UTC)),),
        warnings=("careful",),
    )


@given(st.binary(max_size=100), st.binary(max_size=100))
def test_what_is_stored_as_json_comes_back_the_same(data: bytes, stdout: bytes) -> None:
    before = result(data, stdout)
    assert result_from(json.loads(json.dumps(stored(before)))) == before


def test_large_contents_are_left_where_they_are() -> None:
    before = result(bytes(INLINE_BYTES + 1))
    record = stored(before)
    assert len(json.dumps(record)) < 10_000
    (file,) = result_from(record).output_files
    assert (file.data, file.truncated, file.size) == (b"", True, INLINE_BYTES + 1)


def test_a_program_sees_the_documented_fields() -> None:
    answer = json.loads(json.dumps(shown(result())))
    assert answer["stdout"] == "out\n[... 7 bytes not kept ...]\ntail"
    assert (answer["exit_code"], answer["timed_out"], answer["duration_ms"], answer["isolation"]) == (
        3,
        True,
        12,
        "bubblewrap",
    )
    assert answer["output_files"][0]["ref"] == "workspace://out/a"
    assert answer["output_files"][0]["content"] == "x"
    assert answer["artifact_files"][0]["ref"] == "artifact://out/a@2"
    assert answer["warnings"] == ["careful"]


def test_binary_content_is_not_shown_as_text() -> None:
    assert "content" not in shown(result(b"\x89PNG\0"))["output_files"][0]


def test_an_interrupted_run_says_so() -> None:
    answer = shown(interrupted(Isolation.NONE, "id", "the host ended"))
    assert (answer["ending"], answer["detail"], answer["exit_code"]) == ("interrupted", "the host ended", -1)
