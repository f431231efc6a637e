"""The entry point of a skill: one request in, one result out, whatever the handler does.

The Normalized Skill Result around what a skill gives back.

Lines of JSON on stderr.

The parameters of a function as a description of its input.

How a skill says no.

What comes on stdin, read strictly.

What the host tells a skill.
"""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, Optional

import pytest

from openskills.errors import ForbiddenPath, InvalidArgument, SkillError
from openskills.skillkit.entry import (
    MAX_INPUT,
    Answer,
    JsonObject,
    LineEventStream,
    SkillCallContext,
    SkillRefusal,
    artifact,
    begin_call,
    bind_arguments,
    build_error,
    build_result,
    convert_value,
    log,
    parse_input,
    progress,
    seconds_left,
    to_answer,
)

HEAD = "import os, sys\nfrom openskills.skillkit import Answer, SkillRefusal, main, progress, skill\n"
TAIL = "\nif __name__ == '__main__':\n    main(handle, version='1.2.3')\n"


def run(tmp_path: Path, code: str, **variables: str) -> tuple[dict[str, Any], list[Any], int]:
    """The result, the lines of stderr (as JSON where they are), and the exit status."""
    script = tmp_path / "shout.py"
    script.write_text(HEAD + code)
    done = subprocess.run(
        [sys.executable, str(script)],
        input=b'{"input": {"text": "hi"}}',
        capture_output=True,
        env={"PATH": os.defpath, **variables},
        timeout=60,
    )
    assert done.stdout.count(b"\n") == 1, done
    return json.loads(done.stdout), [json.loads(line) for line in done.stderr.splitlines()], done.returncode


def handler(body: str) -> str:
    return f"def handle(text: str):\n    {body}\n{TAIL}"


def test_a_skill_of_a_few_lines_is_complete(tmp_path: Path) -> None:
    result, events, status = run(
        tmp_path, handler("return {'said': text.upper()}"), OPENSKILL_TRACE_ID="t-1", OPENSKILL_SKILL_ID="loud"
    )
    latency = result["meta"].pop("latency_ms")
    assert result == {
        "success": True,
        "skill_id": "loud",
        "trace_id": "t-1",
        "data": {"said": "HI"},
        "error": None,
        "meta": {"version": "1.2.3"},
    }
    assert latency >= 0
    assert (events, status) == ([], 0)


def test_the_decorator_runs_the_last_function_of_a_script(tmp_path: Path) -> None:
    code = (
        "@skill(version='2.0.0')\ndef handle(text: str):\n    return Answer({'n': 1}, truncated=True, notes={'k': 2})\n"
    )
    result, _, status = run(tmp_path, code)
    assert (result["skill_id"], result["data"], status) == ("shout", {"n": 1}, 0)
    assert (result["meta"]["truncated"], result["meta"]["k"], result["meta"]["version"]) == (True, 2, "2.0.0")


def test_an_imported_skill_does_not_run(tmp_path: Path) -> None:
    (tmp_path / "shout.py").write_text(HEAD + "@skill()\ndef handle(text: str):\n    return {'said': text}\n")
    code = "import shout; print(shout.handle('x'))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout == "{'said': 'x'}\n"


@pytest.mark.parametrize(
    ("body", "code", "word", "said"),
    [
        (
            "raise SkillRefusal('INVALID_ARGUMENT', 'text: too loud', field='text')",
            400,
            "INVALID_ARGUMENT",
            "text: too loud",
        ),
        ("raise SkillRefusal('FORBIDDEN_PATH', 'no')", 403, "FORBIDDEN_PATH", "no"),
        ("raise SkillRefusal('WRONG', 'no')", 500, "INTERNAL", "ValueError: unknown reason 'WRONG'"),
        ("raise KeyError('x')", 500, "INTERNAL", "KeyError: 'x'"),
        ("return {}['x']", 500, "INTERNAL", "KeyError: 'x'"),
        ("return [1]", 500, "INTERNAL", "the skill returned list"),
        ("return None", 500, "INTERNAL", "the skill returned NoneType"),
        ("return {'x': object()}", 500, "INTERNAL", "the skill returned a value that is not valid JSON"),
        ("sys.exit(3)", 500, "INTERNAL", "the skill called sys.exit(3) instead of returning"),
        ("return handle(text)", 500, "INTERNAL", "RecursionError"),
        ("raise MemoryError", 500, "INTERNAL", "MemoryError"),
    ],
)
def test_whatever_goes_wrong_is_a_result(tmp_path: Path, body: str, code: int, word: str, said: str) -> None:
    result, _, status = run(tmp_path, handler(body))
    error = result["error"]
    assert (error["code"], error["details"]["reason"], status) == (code, word, 1)
    assert error["message"].startswith(said)
    assert result["data"] is None
    assert "traceback" not in error["details"]


def test_a_traceback_goes_to_stderr_and_when_debugging_to_the_caller(tmp_path: Path) -> None:
    result, events, _ = run(tmp_path, handler("return 1 / 0"), OPENSKILL_DEBUG="1")
    assert events[0]["event"] == "error"
    assert "ZeroDivisionError" in events[0]["traceback"]
    assert "shout.py" in result["error"]["details"]["traceback"]


def test_prints_of_all_kinds_are_kept_out_of_stdout(tmp_path: Path) -> None:
    code = """
def handle(text: str):
    print("one", 2)
    sys.stdout.write("no end")
    sys.stderr.write("to stderr\\n")
    progress(1, 2)
    import warnings
    warnings.warn("careful")
    return {"x": 1}
"""
    result, events, status = run(tmp_path, code + TAIL)
    assert (result["data"], status) == ({"x": 1}, 0)
    assert {"event": "stdout", "text": "one 2"} in events
    assert {"event": "stdout", "text": "no end"} in events
    assert {"event": "stderr", "text": "to stderr"} in events
    assert {"event": "progress", "done": 1, "total": 2} in events
    assert any("careful" in event.get("text", "") for event in events)


@pytest.mark.parametrize("body", ["os.write(1, b'raw')", "os.system('echo raw')"])
def test_children_and_raw_writes_are_kept_out_of_stdout(tmp_path: Path, body: str) -> None:
    script = tmp_path / "shout.py"
    script.write_text(HEAD + handler(f"{body}; return {{'x': 1}}"))
    done = subprocess.run(
        [sys.executable, str(script)], input=b'{"input": {"text": "hi"}}', capture_output=True, timeout=60
    )
    assert json.loads(done.stdout)["data"] == {"x": 1}
    assert done.stderr.strip() == b"raw"


def test_what_a_module_printed_before_the_call_is_kept_out_too(tmp_path: Path) -> None:
    script = tmp_path / "shout.py"
    script.write_text(HEAD + "print('early')\n" + handler("return {'x': 1}"))
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        [sys.executable, str(script)],
        input=b'{"input": {"text": "hi"}}',
        capture_output=True,
        env=environment,
        timeout=60,
    )
    assert json.loads(done.stdout)["data"] == {"x": 1}


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_not_a_crash(tmp_path: Path, closed: str) -> None:
    script = tmp_path / "shout.py"
    script.write_text(HEAD + handler("print('x'); progress(1); return {'x': 1}"))
    done = subprocess.run(
        ["bash", "-c", f'"$0" "$1" {closed}', sys.executable, str(script)],
        input=b'{"input": {"text": "hi"}}',
        capture_output=True,
        timeout=60,
    )
    assert b"Traceback" not in done.stderr
    if closed == "2>&-":
        assert json.loads(done.stdout)["data"] == {"x": 1}
        assert done.returncode == 0
    else:
        assert done.returncode == 1


def test_a_reader_that_has_gone_is_not_a_crash(tmp_path: Path) -> None:
    script = tmp_path / "shout.py"
    script.write_text(HEAD + handler("return {'x': 'y' * 1000000}"))
    with subprocess.Popen(
        [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        process.stdin.write(b'{"input": {"text": "hi"}}')
        process.stdin.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 1


def test_a_process_may_serve_several_calls(tmp_path: Path) -> None:
    (tmp_path / "shout.py").write_text(HEAD + handler("print('aside'); return {'said': text}"))
    code = """
import io, runpy, sys
for text in ("one", "two"):
    sys.stdin = io.TextIOWrapper(io.BytesIO(('{"input": {"text": "%s"}}' % text).encode()))
    try:
        runpy.run_path("shout.py", run_name="__main__")
    except SystemExit as end:
        assert end.code == 0
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, timeout=60)
    assert [json.loads(line)["data"]["said"] for line in done.stdout.splitlines()] == ["one", "two"], done.stderr


def written(answer: Answer | None, error: JsonObject | None = None) -> dict[str, Any]:
    line = build_result(answer, error, skill_id="s", trace_id="t", version="1.2.3", latency_ms=1.23456)
    assert line.endswith(b"}\n")
    return json.loads(line)


def test_data_makes_a_success() -> None:
    assert written(Answer({"a": "é"})) == {
        "success": True,
        "skill_id": "s",
        "trace_id": "t",
        "data": {"a": "é"},
        "error": None,
        "meta": {"latency_ms": 1.235, "version": "1.2.3"},
    }


def test_what_was_left_out_and_notes_are_in_meta_and_cannot_replace_what_is_ours() -> None:
    answer = Answer({}, truncated=True, notes={"files": 3, "version": "x", "latency_ms": -1})
    assert written(answer)["meta"] == {"files": 3, "latency_ms": 1.235, "version": "1.2.3", "truncated": True}


def test_an_error_makes_a_failure_with_its_word() -> None:
    for error, code, word in (
        (SkillRefusal("INVALID_ARGUMENT", "no", field="x"), 400, "INVALID_ARGUMENT"),
        (InvalidArgument("x", "no"), 400, "INVALID_ARGUMENT"),
        (ForbiddenPath("no"), 403, "FORBIDDEN_PATH"),
    ):
        found = written(None, build_error(error))
        assert (found["success"], found["data"]) == (False, None)
        assert (found["error"]["code"], found["error"]["details"]["reason"]) == (code, word)


def test_data_that_is_not_json_becomes_an_error() -> None:
    endless: dict[str, Any] = {}
    endless["again"] = endless
    for data in ({"a": object()}, {"a": float("nan")}, {"a": {1, 2}}, {("a", "b"): 1}, endless):
        found = written(Answer(data))  # pyright: ignore[reportArgumentType]
        assert found["error"]["code"] == 500
        assert found["error"]["message"].startswith("the skill returned a value that is not valid JSON")


def test_a_lone_surrogate_does_not_break_the_line() -> None:
    assert written(Answer({"name": "a\udcffb"}))["data"] == {"name": "a?b"}


def test_only_objects_are_answers() -> None:
    given, error = to_answer([1])
    assert given is None
    assert error is not None
    assert error["message"] == "the skill returned list; expected a dict"
    given, error = to_answer({"a": 1})
    assert given is not None
    assert (given.data, error) == ({"a": 1}, None)


def told(tell: Callable[[], None]) -> list[dict[str, Any]]:
    stream = io.StringIO()
    with redirect_stderr(stream):
        tell()
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_an_event_is_one_line_with_its_fields() -> None:
    assert told(lambda: progress(3, 10, "reading")) == [
        {"event": "progress", "done": 3, "total": 10, "message": "reading"}
    ]
    assert told(lambda: progress(0.5)) == [{"event": "progress", "done": 0.5}]
    assert told(lambda: artifact("data/out/x.csv", bytes=7)) == [
        {"event": "artifact", "path": "data/out/x.csv", "bytes": 7}
    ]
    assert told(lambda: log("a\nb\u2028c", when=object)) == [
        {"event": "log", "message": "a\nb\u2028c", "when": "<class 'object'>"}
    ]


def test_prints_become_events_line_by_line() -> None:
    stream = io.StringIO()
    lines = LineEventStream(stream, "stdout")
    print("one\ntwo", file=lines)
    lines.write("three ")
    print("x" * 10_000, end="", file=lines)
    lines.finish()
    found = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [event["event"] for event in found] == ["stdout"] * 4
    assert [event["text"][:9] for event in found] == ["one", "two", "three xxx", "xxxxxxxxx"]
    assert sum(len(event["text"]) for event in found) == 3 + 3 + 6 + 10_000


def test_events_reach_the_real_stderr_while_prints_are_caught() -> None:
    stream = io.StringIO()
    with redirect_stderr(LineEventStream(stream, "stderr")):
        progress(1)
        sys.stderr.write("beside\n")
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["progress", "stderr"]


@pytest.mark.parametrize("stream", [None, "closed"])
def test_nobody_has_to_listen(stream: str | None) -> None:
    gone = io.StringIO()
    gone.close()
    with redirect_stderr(None if stream is None else gone):
        progress(1)


def handler_fields(text: str, limit: int = 20, *, deep: bool = False) -> None:
    """Something with all kinds of parameters."""


def whole(given: dict[str, Any], /) -> None:
    """Takes the input as it is."""


def open_ended(name: str, **rest: Any) -> None:
    """Takes everything."""


def written_fields(text: "str", mode: "Literal['a', 'b']" = "a") -> None:
    """Its annotations are texts."""


def test_fields_become_parameters() -> None:
    assert bind_arguments(handler_fields, {"text": "x", "deep": True}) == ([], {"text": "x", "deep": True})
    assert bind_arguments(whole, {"x": 1}) == ([{"x": 1}], {})
    assert bind_arguments(open_ended, {"name": "x", "y": 1}) == ([], {"name": "x", "y": 1})
    assert bind_arguments(written_fields, {"text": "x", "mode": "b"}) == ([], {"text": "x", "mode": "b"})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "text: required"),
        ({"text": "x", "limt": 1}, "limt: unknown field; did you mean 'limit'?"),
        ({"text": "x", "zzz": 1}, "zzz: unknown field; known fields: 'text', 'limit', 'deep'"),
        ({"text": 1}, r"text: expected text, not a whole number \(1\)"),
        ({"text": "x", "limit": "1"}, r"limit: expected a whole number, not text \('1'\)"),
        ({"text": "x", "limit": True}, "limit: expected a whole number, not true or false"),
        ({"text": "x", "limit": 1.5}, r"limit: expected a whole number, not a number \(1.5\)"),
        ({"text": "x", "deep": 1}, "deep: expected true or false, not a whole number"),
        ({"text": None}, "text: expected text, not null"),
        ({"text": {}}, "text: expected text, not an object"),
    ],
)
def test_what_is_wrong_is_said_with_the_name_of_the_field(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^{said}"):
        bind_arguments(handler_fields, given)


@pytest.mark.parametrize(
    ("value", "wanted", "kept"),
    [
        (5.0, int, 5),
        (Decimal("5"), int, 5),
        (5, float, 5),
        (1.5, int | Decimal | float, 1.5),
        (Decimal("5.0"), int | Decimal, Decimal("5.0")),
        ([1, 2], list[int], [1, 2]),
        ([1, 2], Sequence[float], [1, 2]),
        ({"a": "b"}, dict[str, str], {"a": "b"}),
        ({"a": 1}, Mapping[str, Any], {"a": 1}),
        (None, str | None, None),
        ("x", Optional[str], "x"),  # noqa: UP045
        ("a", Literal["a", "b"], "a"),
        ([[1], ["x"]], list[list[int | str]], [[1], ["x"]]),
        (object, Any, object),
        ([1, "x"], list, [1, "x"]),
    ],
)
def test_values_that_fit_are_kept(value: Any, wanted: Any, kept: Any) -> None:
    found = convert_value("x", value, wanted)
    assert found == kept
    assert type(found) is type(kept)


@pytest.mark.parametrize(
    ("value", "wanted", "said"),
    [
        ([1, "x"], list[int], r"x\[1\]: expected a whole number, not text"),
        ({"a": 1}, dict[str, str], r"x\.a: expected text"),
        (["x"], list[int] | None, r"x\[0\]: expected a whole number"),
        ("x", int | float, "x: expected a number, not text"),
        ("x", int | None, "x: expected a whole number or null, not text"),
        ("c", Literal["a", "b"], r"x: expected one of 'a', 'b', not text \('c'\)"),
        (True, Literal[1], "x: expected one of 1, not true or false"),
        (Decimal("1e999999999"), int, "x: expected a whole number, not a number"),
        (10**500, str, r"x: expected text, not a whole number \(very many digits\)"),
        ("y" * 1000, int, "x: expected a whole number, not text .{,70}…"),
    ],
)
def test_values_that_do_not_fit_are_refused(value: Any, wanted: Any, said: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^{said}"):
        convert_value("x", value, wanted)


@pytest.mark.parametrize(
    ("word", "code"),
    [("INVALID_ARGUMENT", 400), ("FORBIDDEN_PATH", 403), ("INTERNAL", 500), ("LIMIT_EXCEEDED", 413)],
)
def test_a_word_has_the_number_of_the_error_table(word: str, code: int) -> None:
    refused = SkillRefusal(word, "no", field="x")
    assert (refused.code, refused.message, refused.details) == (code, "no", {"field": "x"})


def test_an_error_class_of_the_application_does_not_change_the_number_of_a_word() -> None:
    class OwnError(SkillError, code=599):
        pass

    assert (OwnError.reason, SkillRefusal("INTERNAL", "no").code) == ("INTERNAL", 500)


def test_a_word_that_nobody_knows_is_a_mistake_of_the_author() -> None:
    with pytest.raises(ValueError, match=r"unknown reason 'OOPS'; use one of .*FORBIDDEN_PATH"):
        SkillRefusal("OOPS", "no")


def test_the_input_is_what_stands_under_input() -> None:
    assert parse_input(b'{"input": {"a": [1, 2.5, "\xc3\xa9", null]}, "more": 1}') == {"a": [1, 2.5, "é", None]}


def test_exact_numbers_come_as_decimals() -> None:
    found = parse_input(b'{"input": {"a": [0.1, 1, 1e400]}}', exact=True)["a"]
    assert found == [Decimal("0.1"), 1, Decimal("1e400")]
    assert isinstance(found[1], int)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "missing; expected"),
        (b"{", "not valid JSON: Expecting property name"),
        (b"[]", "missing or not an object"),
        (b'{"input": 5}', "missing or not an object"),
        (b'{"input": {"a": NaN}}', "not valid JSON: NaN is not a JSON number"),
        (b'{"input": {"a": 1, "b": 2, "a": 3}}', "not valid JSON: duplicate key 'a'"),
        (b'{"input": {"a": "\\uD800"}}', "contains a lone surrogate"),
        (b'{"input": {"a": "\xff"}}', "not valid UTF-8 at byte 17"),
        (b"[" * 100_000, "not valid JSON: nested too deeply"),
        (b'{"input": {"a": ' + b"1" * 5000 + b"}}", "not valid JSON: a number has too many digits"),
        (b" " * (MAX_INPUT + 1), "larger than"),
    ],
)
def test_what_is_not_a_request_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^input: {said}"):
        parse_input(data)


def test_a_whole_character_in_two_escapes_is_fine() -> None:
    assert parse_input(b'{"input": {"a": "\\ud83d\\ude00"}}') == {"a": "😀"}


def test_a_number_beyond_every_exponent_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="too large or too small: 1e9999"):
        parse_input(b'{"input": {"a": 1e99999999999999999999}}', exact=True)


def test_variables_are_read() -> None:
    around = SkillCallContext(
        {
            "OPENSKILL_SKILL_ID": "echo",
            "OPENSKILL_TRACE_ID": "demo-123",
            "OPENSKILL_ALLOWED_ROOT": "files",
            "OPENSKILL_TIMEOUT_MS": "2500",
            "OPENSKILL_DEBUG": "1",
        }
    )
    assert (around.skill_id, around.trace_id, around.allowed_root) == ("echo", "demo-123", "files")
    assert (around.timeout_ms, around.debug) == (2500, True)


@pytest.mark.parametrize("timeout", ["", "soon", "0", "-5", "1.5"])
def test_without_variables_there_are_defaults(timeout: str) -> None:
    around = SkillCallContext({"OPENSKILL_TIMEOUT_MS": timeout, "OPENSKILL_ALLOWED_ROOT": ""}, name="shout")
    assert (around.skill_id, around.allowed_root, around.timeout_ms) == ("shout", "./data", 15_000)
    assert not around.debug
    assert len(around.trace_id) == 32


def test_the_time_that_is_left_counts_from_the_beginning_of_the_call() -> None:
    begin_call()
    assert 3000 < seconds_left({"OPENSKILL_TIMEOUT_MS": "3600000"}) <= 3600
