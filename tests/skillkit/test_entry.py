"""The door of a skill: one request in, one result out, whatever the handler does."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HEAD = "import os, sys\nfrom openskills.skillkit import Answer, Refused, main, progress, skill\n"
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
            "raise Refused('INVALID_ARGUMENT', 'text: too loud', field='text')",
            400,
            "INVALID_ARGUMENT",
            "text: too loud",
        ),
        ("raise Refused('FORBIDDEN_PATH', 'no')", 403, "FORBIDDEN_PATH", "no"),
        ("raise Refused('WRONG', 'no')", 500, "INTERNAL", "ValueError: 'WRONG' is no reason"),
        ("raise KeyError('x')", 500, "INTERNAL", "KeyError: 'x'"),
        ("return {}['x']", 500, "INTERNAL", "KeyError: 'x'"),
        ("return [1]", 500, "INTERNAL", "the skill returned list"),
        ("return None", 500, "INTERNAL", "the skill returned NoneType"),
        ("return {'x': object()}", 500, "INTERNAL", "the skill returned what is no JSON"),
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
def test_a_closed_stream_is_no_crash(tmp_path: Path, closed: str) -> None:
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


def test_a_reader_that_has_gone_is_no_crash(tmp_path: Path) -> None:
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
