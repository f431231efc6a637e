"""Whatever a skill writes and however it ends, there is one well-formed outcome.

What a skill writes while it works.

What a skill says went wrong.
"""

import json
import signal
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openskills.errors import BadSkillOutput, DeadlineExceeded, InvalidArgument
from openskills.host.model import Failure, Outcome, SkillOutputEvent, normalize_outcome
from openskills.host.runners.output import (
    CODES_BY_REASON,
    LiveLines,
    RawSkillOutput,
    excerpt,
    outcome_from_output,
    parse_failure,
    timeout_outcome,
)
from tests.long_form import examples


def outcome_of(stdout: object, **more: Any) -> Outcome:
    """The outcome of a skill that wrote this, as JSON unless it is bytes."""
    written = stdout if isinstance(stdout, bytes) else json.dumps(stdout).encode()
    fields: dict[str, Any] = {"returncode": 0, **more}
    return outcome_from_output(RawSkillOutput(written, **fields))


def failure_of(stdout: object, **more: Any) -> Failure:
    """The failure of a skill that wrote this."""
    failure = outcome_of(stdout, **more).failure
    assert failure is not None
    return failure


def test_a_normalised_result_is_taken_as_it_is() -> None:
    result = {"success": True, "data": {"a": 1}, "error": None, "meta": {"version": "2.1", "truncated": True, "x": 5}}
    assert outcome_of(result) == Outcome({"a": 1}, None, truncated=True, version="2.1", notes={"x": 5})


def test_an_object_that_is_not_a_result_is_data() -> None:
    assert outcome_of({"answer": 42}).data == {"answer": 42}


def test_a_failure_keeps_its_number_message_and_details() -> None:
    error = {"code": 404, "message": "no such file", "details": {"path": "a"}}
    failure = failure_of({"success": False, "error": error}, returncode=1)
    assert failure == Failure(404, "no such file", {"path": "a", "reason": "NOT_FOUND"})


def test_a_secret_as_code_stays_masked_as_reason() -> None:
    error = {"code": "s3cret-word", "message": "m"}
    failure = failure_of({"success": False, "error": error}, secrets={"TOKEN": "s3cret-word"})
    assert "S3CRET" not in str(failure).upper()


@pytest.mark.parametrize(
    ("code", "number", "reason"),
    [
        ("INVALID_ARGUMENT", 400, "INVALID_ARGUMENT"),
        ("forbidden_path", 403, "FORBIDDEN_PATH"),
        ("INTERNAL", 500, "INTERNAL"),
        ("OUT_OF_COFFEE", 500, "OUT_OF_COFFEE"),
        ("429", 429, "TOO_MANY_REQUESTS"),
        (422.0, 422, "INVALID_ARGUMENT"),
        (418, 418, "INVALID_ARGUMENT"),
        (599, 599, "INTERNAL"),
        (None, 500, "INTERNAL"),
    ],
)
def test_a_word_or_a_number_as_code_becomes_a_status_and_a_reason(code: object, number: int, reason: str) -> None:
    failure = failure_of({"success": False, "error": {"code": code, "message": "m"}}, returncode=1)
    assert (failure.code, failure.details["reason"]) == (number, reason)


@pytest.mark.parametrize("code", [0, 7, 200, 600, -1, 10**9, 404.5, True, [], {"a": 1}, "0", "99999999"])
def test_a_code_that_is_not_a_status_of_a_failure_becomes_500_and_is_reported(code: object) -> None:
    failure = failure_of({"success": False, "error": {"code": code, "message": "m"}}, returncode=1)
    assert (failure.code, failure.details["original_code"], failure.details["reason"]) == (500, code, "INTERNAL")


@pytest.mark.parametrize("error", [None, {}, [], 5, {"message": 5}, {"message": ""}])
def test_a_failure_without_words_gets_some(error: object) -> None:
    failure = failure_of({"success": False, "error": error}, returncode=1)
    assert (failure.code, failure.message) == (500, "the skill failed and did not say why")


def test_a_failure_that_is_a_sentence_is_that_sentence() -> None:
    assert failure_of({"success": False, "error": "disk full"}, returncode=1).message == "disk full"


def test_a_failure_with_the_exit_status_0_is_a_failure_with_a_warning() -> None:
    outcome = outcome_of({"success": False, "error": {"code": 400, "message": "m"}}, returncode=0)
    assert outcome.failure is not None
    assert "exit status is 0" in outcome.notes["warnings"][0]


@pytest.mark.parametrize(("returncode", "said"), [(3, "exited with status 3"), (-signal.SIGSEGV, "SIGSEGV")])
def test_success_with_a_bad_end_is_a_failure(returncode: int, said: str) -> None:
    failure = failure_of({"success": True, "data": {"a": 1}}, returncode=returncode)
    assert failure.code == 502
    assert said in failure.message
    assert '"a": 1' in failure.details["stdout"]


def test_success_with_an_error_leaves_the_error_out_and_says_so() -> None:
    outcome = outcome_of({"success": True, "data": {}, "error": {"code": 500, "message": "m"}})
    assert (outcome.data, outcome.failure) == ({}, None)
    assert "error is ignored" in outcome.notes["warnings"][0]


def test_data_that_is_not_an_object_becomes_one() -> None:
    assert outcome_of({"success": True, "data": [1, 2]}).data == {"value": [1, 2]}
    assert outcome_of({"success": True, "data": None}).data == {}


@pytest.mark.parametrize(
    "stdout",
    [
        b'loading model...\n{"success": true, "data": {"a": 1}}\n',
        b'{"success": true, "data": {"a": 1}}\nbye\n',
        b'{"debug": 1}\n{"success": false, "error": {}}\n{"success": true, "data": {"a": 1}}\n{"more": 2}\n',
        b'careful: {not json}\n{\n  "success": true,\n  "data": {\n    "a": 1\n  }\n}\n',
        b'\xff\xfe noise\n{"success": true, "data": {"a": 1}}',
        b'progress 50%\n[{"x": 1}]\n  {"success": true, "data": {"a": 1}}',
    ],
)
def test_other_text_on_stdout_is_left_out_of_the_answer_and_told(stdout: bytes) -> None:
    outcome = outcome_of(stdout)
    assert outcome.data == {"a": 1}
    assert outcome.notes["stray_stdout"]
    assert outcome.notes["warnings"] == ["stdout contains other text besides the result"]


def test_a_plain_object_counts_among_other_text_only_at_the_very_end() -> None:
    assert outcome_of(b'hello\n{"a": 1}\n').data == {"a": 1}
    assert failure_of(b'hello\n{"a": 1}\nbye').code == 502


@pytest.mark.parametrize(
    ("stdout", "said"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b"hello", "not valid JSON"),
        (b'{"a": ', "not valid JSON"),
        (b"[1, 2]", "expected an object, got a list"),
        (b"null", "expected an object, got null"),
        (b"3", "expected an object, got a number"),
        (b"\xff\xfe", "not UTF-8"),
        (b'{"a": NaN}', "NaN is not valid JSON"),
        (b'{"success": true, "data": {"a": -Infinity}}', "-Infinity is not valid JSON"),
        (b'{"a": "\\ud800"}', "lone surrogate"),
        (b'{"a": 123456789012345678901234567890}', "more than 64 bits"),
        (b'{"a": 1' + b"0" * 10_000 + b"}", "more than 64 bits"),
        (b'{"a": 1e400}', "not valid JSON"),
        (b'{"a": ' * 300 + b"1" + b"}" * 300, "levels deep"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "levels deep"),
    ],
)
def test_an_invalid_answer_is_reported_with_the_reason(stdout: bytes, said: str) -> None:
    failure = failure_of(stdout)
    assert (failure.code, failure.details["reason"]) == (502, "BAD_SKILL_OUTPUT")
    assert said in failure.message


def test_numbers_of_64_bits_and_long_fractions_are_kept() -> None:
    data = {"most": 2**64 - 1, "least": -(2**63), "pi": 3.14159265358979323846}
    assert outcome_of(data).data == data


def test_wide_answers_are_not_deep_ones() -> None:
    assert outcome_of({"rows": [{"n": [n]} for n in range(1000)]}).failure is None


def test_without_an_answer_the_last_line_of_stderr_is_in_the_message() -> None:
    failure = failure_of(b"", returncode=1, stderr=b"Traceback ...\nValueError: boom\n")
    assert failure.message == "the skill exited with status 1 without output: ValueError: boom"
    assert (failure.details["exit_code"], failure.details["stderr"]) == (1, "Traceback ...\nValueError: boom")


def test_a_signal_is_named() -> None:
    failure = failure_of(b"", returncode=-9)
    assert "SIGKILL" in failure.message
    assert (failure.details["signal"], failure.details["exit_code"]) == (9, None)


def test_an_answer_that_was_cut_is_invalid() -> None:
    failure = failure_of(b'{"success": true, "data": {}}', limit=29, returncode=-9)
    assert (failure.code, failure.details["limit_bytes"]) == (502, 29)


def test_a_failure_on_stderr_counts_when_stdout_is_empty() -> None:
    stderr = json.dumps({"success": False, "error": {"code": "INVALID_ARGUMENT", "message": "m"}}).encode()
    outcome = outcome_of(b"", stderr=stderr, returncode=1)
    assert outcome.failure == Failure(400, "m", {"reason": "INVALID_ARGUMENT"})
    assert outcome.notes["warnings"] == ["the result was on stderr"]


def test_secrets_are_not_in_the_evidence() -> None:
    secrets = {"TOKEN": "open-sesame"}
    failure = failure_of(b"open-sesame", stderr=b"key open-sesame\nlast open-sesame", returncode=1, secrets=secrets)
    assert "open-sesame" not in json.dumps([failure.message, dict(failure.details)])


def test_a_long_text_is_shown_from_both_ends() -> None:
    shown = excerpt(b"begin" + b"x" * 100_000 + b"end")
    assert len(shown) < 2100
    assert shown.startswith("begin")
    assert shown.endswith("end")
    assert "100,008 bytes" in shown


def test_too_late_says_how_long_was_waited() -> None:
    outcome = timeout_outcome(250, RawSkillOutput(b"half", b"", notes={"isolation": "none"}))
    assert outcome.failure is not None
    assert (outcome.failure.code, outcome.notes) == (504, {"isolation": "none"})
    assert (outcome.failure.details["timeout_ms"], outcome.failure.details["stdout"]) == (250, "half")


def test_what_was_written_before_it_was_too_late_is_reported_without_secrets() -> None:
    failure = timeout_outcome(250, RawSkillOutput(b"a geheim b", b"geheim", secrets={"TOKEN": "geheim"})).failure
    assert failure is not None
    assert (failure.details["stdout"], failure.details["stderr"]) == ("a [secret TOKEN] b", "[secret TOKEN]")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
ERRORS = JSON | st.fixed_dictionaries({}, optional={"code": JSON, "message": JSON, "details": JSON})
RESULTS = st.fixed_dictionaries(
    {"success": st.booleans() | JSON}, optional={"data": JSON, "error": ERRORS, "meta": JSON, "trace_id": JSON}
)
STDOUT = (
    st.binary(max_size=200)
    | (JSON | RESULTS).map(lambda value: json.dumps(value).encode())
    | st.tuples(st.binary(max_size=20), RESULTS, st.binary(max_size=20)).map(
        lambda parts: parts[0] + b"\n" + json.dumps(parts[1]).encode() + b"\n" + parts[2]
    )
)


@settings(max_examples=examples(400), deadline=None)
@given(STDOUT, STDOUT, st.none() | st.integers(-64, 255), st.none() | st.integers(1, 10))
def test_any_bytes_give_a_result_that_can_be_sent(
    stdout: bytes, stderr: bytes, returncode: int | None, limit: int | None
) -> None:
    outcome = outcome_from_output(
        RawSkillOutput(stdout, stderr, returncode, limit, {"TOKEN": "sesame"}, {"isolation": "none"})
    )
    result = normalize_outcome(outcome, skill_id="s", trace_id="t", latency_ms=1.0, version="1")
    wire = orjson.loads(orjson.dumps(result.to_dict()))
    assert wire["success"] is (wire["error"] is None)
    assert (wire["data"] is None) is not wire["success"]
    assert wire["success"] or (400 <= wire["error"]["code"] <= 599 and wire["error"]["message"])
    assert wire["success"] or wire["error"]["details"]["reason"]
    assert wire["meta"]["isolation"] == "none"


def told(stream: str, *parts: bytes, secrets: dict[str, str] | None = None) -> list[SkillOutputEvent]:
    """The events of a stream that comes in these parts."""
    found: list[SkillOutputEvent] = []
    lines = LiveLines(found.append, secrets or {})
    for part in parts:
        lines.write(stream, part)
    lines.flush()
    return found


def test_a_line_is_told_when_it_is_whole_and_the_rest_at_the_end() -> None:
    assert told("stdout", b"a", b"b\r\nc\n", b"d") == [
        SkillOutputEvent("stdout", {"text": text}) for text in ("ab", "c", "d")
    ]


def test_events_on_stderr_are_events() -> None:
    line = b'{"event": "artifact", "name": "a", "size": 1}\n{"event": "other"}\n{"event": 5}\n{broken\n'
    events = told("stderr", line)
    assert events[0] == SkillOutputEvent("artifact", {"name": "a", "size": 1})
    assert [event.kind for event in events] == ["artifact", "stderr", "stderr", "stderr"]


def test_events_on_stdout_are_lines() -> None:
    assert told("stdout", b'{"event": "progress"}\n')[0].kind == "stdout"


def test_secrets_are_masked() -> None:
    assert told("stderr", b"key sesame\n", secrets={"TOKEN": "sesame"}) == [
        SkillOutputEvent("stderr", {"text": "key [secret TOKEN]"})
    ]


@pytest.mark.parametrize("before", [0, 64 * 1024 - 3, 64 * 1024])
def test_a_secret_is_masked_across_pieces_and_lines(before: int) -> None:
    secret = "sesame\nopen\n"
    written = b"x" * before + secret.encode() + b"y"
    for size in (5, 64 * 1024, len(written)):
        parts = [written[at : at + size] for at in range(0, len(written), size)]
        text = "".join(event.data["text"] for event in told("stdout", *parts, secrets={"TOKEN": secret}))
        assert text == f"{'x' * before}[secret TOKEN]y"


def test_a_line_without_an_end_is_told_in_pieces() -> None:
    events = told("stdout", b"x" * 200_000)
    assert sum(len(event.data["text"]) for event in events) == 200_000
    assert len(events) == 4


@given(st.lists(st.binary(max_size=50), max_size=10))
def test_nothing_but_ends_of_lines_is_lost(parts: list[bytes]) -> None:
    text = "".join(event.data["text"] for event in told("stdout", *parts))
    assert text.count("a") == b"".join(parts).count(b"a")


def test_every_word_of_our_errors_has_its_number() -> None:
    for error in (BadSkillOutput, DeadlineExceeded, InvalidArgument):
        assert CODES_BY_REASON[error.reason] == error.code


def test_a_word_of_the_skill_in_the_details_is_kept_beside_a_number() -> None:
    failure = parse_failure({"code": 409, "message": "m", "details": {"reason": "ALREADY_THERE"}})
    assert (failure.code, failure.details["reason"]) == (409, "ALREADY_THERE")


def test_the_word_that_is_the_code_counts_more_than_the_one_in_the_details() -> None:
    failure = parse_failure({"code": "NOT_FOUND", "message": "m", "details": {"reason": "ELSE"}})
    assert (failure.code, failure.details["reason"]) == (404, "NOT_FOUND")


def test_details_that_are_not_an_object_become_one() -> None:
    assert parse_failure({"code": 400, "message": "m", "details": [1]}).details["value"] == [1]


def test_an_endless_message_is_cut() -> None:
    assert len(parse_failure({"code": 400, "message": "m" * 100_000}).message) == 4000
