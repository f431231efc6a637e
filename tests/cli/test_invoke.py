"""`invoke`: a skill of a host from the shell, in a pipe and on a terminal.

What `--input` may say.

Events and results for the person at the shell; here with streams that are not terminals.

Where an invocation goes, and how it is told.
"""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openskills.cli.invoke import (
    InvokeArguments,
    InvokeTarget,
    LiveView,
    format_json,
    is_live,
    open_invoker,
    read_input,
    run_invocation,
    show_result,
)
from openskills.errors import HostUnavailable, InvalidArgument
from openskills.host.client.client import Client, StreamEvent
from openskills.host.client.transport import result_from_dict
from openskills.settings import Settings
from tests.cli.command import Command
from tests.conftest import RequireProgram
from tests.host.scripted_server import Reply, Request, Scripted, as_json, event, events, failure, normal, scripted


@pytest.fixture
def hosted(openskills: Command) -> Iterator[Scripted]:
    """A host that the command finds through the environment."""
    with scripted() as script:
        openskills.environment["OPENSKILL_HTTP_BASE_URL"] = script.url
        yield script


def echoing(request: Request) -> Reply:
    return as_json(normal(data={"echoed": request.input["text"]}, trace_id=request.headers["x-trace-id"]))


def test_the_data_is_the_answer(openskills: Command, hosted: Scripted) -> None:
    hosted.on_invoke(echoing)
    ran = openskills("invoke", "echo", "--input", '{"text": "你好"}', "--trace-id", "demo-123")
    assert ran.code == 0
    assert ran.json == {"echoed": "你好"}
    assert "你好" in ran.out
    assert ran.err == "done: echo 0.1.0 in 3 ms, trace id demo-123\n"


def test_json_is_the_whole_result(openskills: Command, hosted: Scripted) -> None:
    hosted.on_invoke(as_json(normal()))
    ran = openskills("invoke", "echo", "--json", "--idempotency-key", "k-1")
    assert (ran.code, ran.err) == (0, "")
    assert ran.json == normal()
    assert hosted.requests[0].headers["idempotency-key"] == "k-1"
    assert hosted.requests[0].input == {}


def test_a_skill_that_fails_says_why_and_the_exit_code_too(openskills: Command, hosted: Scripted) -> None:
    error = {"code": 403, "message": "no\x1b[2J way", "details": {"reason": "FORBIDDEN_PATH", "field": "root_dir"}}
    hosted.on_invoke(as_json(normal(success=False, data=None, error=error), 403))
    ran = openskills("invoke", "echo")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("failed: no\\x1b[2J way\n  403 FORBIDDEN_PATH\n  field: root_dir\n")
    assert openskills("invoke", "echo", "--json").json["error"] == error
    assert openskills("invoke", "echo", "--json").code == 1


def test_an_input_may_come_from_a_file_or_a_pipe(openskills: Command, hosted: Scripted) -> None:
    hosted.on_invoke(echoing)
    (openskills.cwd / "input.json").write_text('{"text": "from a file"}', "utf-8")
    assert openskills("invoke", "echo", "--input", "@input.json").json == {"echoed": "from a file"}
    piped = subprocess.run(
        openskills.line(["invoke", "echo", "--input", "-"]),
        input=b'{"text": "piped"}',
        env=openskills.variables({}),
        capture_output=True,
        timeout=60,
    )
    assert json.loads(piped.stdout) == {"echoed": "piped"}


def test_without_a_host_the_error_says_how_to_start_one(openskills: Command) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    ran = openskills("invoke", "echo", "--url", url)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(
        f"error: cannot connect to a skill host at {url} (Connection refused); start one with `openskills serve`"
    )
    assert "OPENSKILL_HTTP_BASE_URL" in ran.err
    told = openskills("invoke", "echo", "--url", url, "--json", "--trace-id", "t-9")
    assert told.code == 1
    assert told.json["error"]["details"]["reason"] == "HOST_UNAVAILABLE"
    assert told.json["trace_id"] == "t-9"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--input", "nope"], "--input: not valid JSON"),
        (["--input", "[1]"], "--input: expected a JSON object"),
        (["--timeout", "0"], "--timeout"),
        (["--timeout", "soon"], "--timeout"),
        (["--url", "nowhere"], "base_url"),
        (["--trace-id", "a b"], "trace_id"),
        (["--local", "--url", "http://127.0.0.1:1"], "--local"),
    ],
)
def test_wrong_usage_is_reported_with_exit_code_2(openskills: Command, arguments: list[str], said: str) -> None:
    ran = openskills("invoke", "echo", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_a_stream_in_a_pipe_shows_lines_on_stderr_and_data_on_stdout(openskills: Command, hosted: Scripted) -> None:
    pieces = (event("stdout", {"text": "one"}), event("stdout", {"text": "two\n"}), event("stderr", {"text": "end"}))
    hosted.on_invoke(events(*pieces, event("result", normal())), verb="stream")
    ran = openskills("invoke", "echo", "--stream")
    assert (ran.code, ran.json) == (0, {"echoed": "hello"})
    assert ran.err.splitlines()[:3] == ["one", "two", "end"]


def test_a_stream_for_programs_is_one_line_for_each_event(openskills: Command, hosted: Scripted) -> None:
    hosted.on_invoke(events(event("progress", {"done": 1}), event("result", normal())), verb="stream")
    ran = openskills("invoke", "echo", "--stream", "--json")
    assert (ran.code, ran.err) == (0, "")
    assert [json.loads(line) for line in ran.lines] == [
        {"event": "progress", "data": {"done": 1}},
        {"event": "result", "data": normal()},
    ]


def test_a_terminal_shows_live_output(openskills: Command, hosted: Scripted) -> None:
    pieces = (
        event("progress", {"done": 1, "total": 4, "message": "reading"}),
        event("stdout", {"text": "a line\n"}),
        event("stderr", {"text": "a \x1b[2J warning\n"}),
        event("artifact", {"path": "out/a.csv"}),
    )
    hosted.on_invoke(events(*pieces, event("result", normal())), verb="stream")
    ran = openskills.on_terminal("invoke", "echo")
    assert ran.code == 0
    assert "a line" in ran.out
    assert "\x1b[2ma \\x1b[2J warning" in ran.out
    assert "1/4" in ran.out
    assert "reading" in ran.out
    assert "out/a.csv" in ran.out
    assert '"echoed": "hello"' in ran.out


def test_ctrl_c_leaves_the_host_and_so_ends_the_run(openskills: Command, hosted: Scripted) -> None:
    hosted.on_invoke(events(event("stdout", {"text": "working\n"}), hold=True), verb="stream")
    with openskills.begun("invoke", "echo") as terminal:
        terminal.wait_for("working")
        terminal.interrupt()
        assert terminal.finish().code == 130
    assert hosted.gone.wait(10)


def test_a_timeout_ends_the_waiting(openskills: Command, hosted: Scripted) -> None:
    hosted.on_invoke(Reply([b"{"], hold=True))
    ran = openskills("invoke", "echo", "--timeout", "0.2")
    assert ran.code == 1
    assert "timed out; use a longer timeout" in ran.err


def test_an_invalid_response_is_an_error(openskills: Command, hosted: Scripted) -> None:
    hosted.on_invoke(Reply([b"<html>"], 500, "text/html"))
    ran = openskills("invoke", "echo")
    assert ran.code == 1
    assert "the response of the host (500) is not a Normalized Skill Result" in ran.err


def test_a_missing_key_is_a_failure_with_the_words_of_the_host(openskills: Command, hosted: Scripted) -> None:
    hosted.on_invoke(failure(401, "a key is needed", reason="UNAUTHORIZED"))
    ran = openskills("invoke", "echo", OPENSKILL_API_KEY="osk_1")
    assert (ran.code, hosted.requests[0].headers["authorization"]) == (1, "Bearer osk_1")
    assert "a key is needed" in ran.err


def test_json_is_read_as_it_stands() -> None:
    assert read_input('{"text": "你好", "n": [1, null]}') == {"text": "你好", "n": [1, None]}


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert read_input(f"@{tmp_path / 'a.json'}") == {"a": 1}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{'a': 1}", "line 1, column 2"),
        ("", "not valid JSON"),
        ("[1]", "expected a JSON object"),
        ('{"a": NaN}', "NaN is not a JSON number"),
        ('{"a": 1, "a": 2}', "duplicate key"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a": ' + "1" * 5_000 + "}", "not valid JSON"),
    ],
)
def test_input_that_is_not_a_json_object_is_refused_with_an_example(text: str, why: str) -> None:
    with pytest.raises(InvalidArgument, match=why) as caught:
        read_input(text)
    assert '{"text": "hello"}' in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"nowhere\.json.* No such file"):
        read_input(f"@{tmp_path / 'nowhere.json'}")
    with pytest.raises(InvalidArgument, match="cannot read"):
        read_input("@a\0b")
    (tmp_path / "latin").write_bytes(b'{"a": "\xe9"}')
    with pytest.raises(InvalidArgument, match="not valid UTF-8 at byte 7"):
        read_input(f"@{tmp_path / 'latin'}")


Capture = pytest.CaptureFixture[str]


def test_each_event_is_a_line_or_several_and_nothing_moves_the_cursor(capsys: Capture) -> None:
    with LiveView() as view:
        for text in ("a", "b\r\nc\n", "\x1b[2Jd\te", ""):
            view.show(StreamEvent("stdout", {"text": text}))
    assert capsys.readouterr().err == "a\nb\nc\n\\x1b[2Jd\te\n\n"


def test_the_result_on_the_stdout_of_a_skill_is_not_shown_twice(capsys: Capture) -> None:
    with LiveView() as view:
        for text in (json.dumps(normal()), '{"success": tru', "{}", "[" * 100_000 + '"success"'):
            view.show(StreamEvent("stdout", {"text": text}))
        view.show(StreamEvent("stderr", {"text": '{"success": true}'}))
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == ['{"success": tru', "{}"]
    assert lines[3:] == ['{"success": true}']


def test_output_in_an_unknown_format_is_shown_unchanged(capsys: Capture) -> None:
    with LiveView() as view:
        view.show(StreamEvent("stderr", {"line": 1}))
    assert capsys.readouterr().err == '{"line": 1}\n'


def test_a_pipe_gets_no_progress_bar(capsys: Capture) -> None:
    with LiveView() as view:
        view.show(StreamEvent("start", {"skill_id": "echo"}))
        view.show(StreamEvent("progress", {"done": float("inf"), "total": True}))
        view.show(StreamEvent("result", normal()))
    assert capsys.readouterr().err == ""


def test_artifacts_and_truncated_output_are_reported(capsys: Capture) -> None:
    with LiveView() as view:
        view.show(StreamEvent("artifact", {"path": "out/a.csv"}))
        view.show(StreamEvent("cut", {"reason": "too much"}))
    assert capsys.readouterr().err == "artifact: out/a.csv\nwarning: too much\n"


def test_a_result_that_was_cut_says_so(capsys: Capture) -> None:
    meta = {"latency_ms": 1234.5, "version": "1.0", "truncated": True}
    assert show_result(result_from_dict(normal(meta=meta))) == 0
    shown = capsys.readouterr()
    assert shown.err == "done: echo 1.0 in 1,234 ms, trace id t-1; the result was truncated\n"
    assert shown.out == '{\n  "echoed": "hello"\n}\n'


def test_the_evidence_of_a_failure_is_shown(capsys: Capture) -> None:
    details: dict[str, Any] = {
        "reason": "BAD_SKILL_OUTPUT",
        "retryable": False,
        "exit_code": 1,
        "stderr": "boom\n",
        "near": [],
    }
    error = {"code": 502, "message": "no JSON", "details": details}
    assert show_result(result_from_dict(normal(success=False, data=None, error=error))) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[:4] == ["failed: no JSON", "  502 BAD_SKILL_OUTPUT", "  exit_code: 1", "  stderr: boom"]


def test_json_for_people_has_whole_characters() -> None:
    assert format_json({"a": "你好"}) == '{\n  "a": "你好"\n}'


SETTINGS = Settings.from_env({})
NOBODY = InvokeTarget("http://127.0.0.1:1")
SKILL = """\
import json, sys
given = json.load(sys.stdin)["input"]
print("on my way", file=sys.stderr)
data = {"greeting": "hello " + given["name"]}
print(json.dumps({"success": True, "data": data, "error": None}))
"""


def test_json_and_stream_choose_the_output_mode() -> None:
    assert not is_live(None, as_json=True)
    assert is_live(True, as_json=True)
    assert is_live(True, as_json=False)
    assert not is_live(False, as_json=False)


def test_a_place_is_checked_before_anything_happens() -> None:
    for timeout in (0.0, -1.0, float("nan"), 1e9):
        with pytest.raises(InvalidArgument, match="--timeout"):
            InvokeTarget(timeout=timeout)
    with pytest.raises(InvalidArgument, match="--local"):
        InvokeTarget("http://127.0.0.1:8000", local=True)


def test_a_place_with_a_url_has_a_client_for_it() -> None:
    client = open_invoker(InvokeTarget("http://127.0.0.1:9/"), SETTINGS)
    assert isinstance(client, Client)
    assert client.base_url == "http://127.0.0.1:9"


@pytest.mark.parametrize(("reply", "code"), [(as_json(normal()), 0), (failure(500, "boom"), 1)])
def test_the_exit_code_says_whether_the_skill_succeeded(capsys: Capture, reply: object, code: int) -> None:
    with scripted() as host:
        host.replies["POST /skills/echo:invoke"] = [reply]  # pyright: ignore[reportArgumentType]
        for as_text in (True, False):
            call = InvokeArguments("echo", {}, as_json=not as_text)
            assert run_invocation(call, InvokeTarget(host.url), SETTINGS) == code
    capsys.readouterr()


def test_events_are_shown_as_they_arrive(capsys: Capture) -> None:
    with scripted() as host:
        host.on_invoke(events(event("stdout", {"text": "hi"}), event("result", normal())), verb="stream")
        call = InvokeArguments("echo", {}, live=True, as_json=True)
        assert run_invocation(call, InvokeTarget(host.url), SETTINGS) == 0
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [line["event"] for line in lines] == ["stdout", "result"]
        call = InvokeArguments("echo", {}, live=True)
        assert run_invocation(call, InvokeTarget(host.url), SETTINGS) == 0
        assert capsys.readouterr().err.startswith("hi\ndone: echo")


@pytest.mark.parametrize("live", [False, True])
def test_programs_hear_as_a_result_what_kept_it_from_being_invoked(capsys: Capture, live: bool) -> None:
    with pytest.raises(HostUnavailable):
        run_invocation(InvokeArguments("echo", {}, live=live, as_json=True), NOBODY, SETTINGS)
    said = json.loads(capsys.readouterr().out)
    result = said["data"] if live else said
    assert (result["success"], result["error"]["code"], len(result["trace_id"])) == (False, 503, 32)


def test_without_the_extra_the_error_says_how_to_install_it() -> None:
    program = (
        "import sys\n"
        "sys.modules['orjson'] = None\n"
        "from openskills.cli.main import main\n"
        "sys.exit(main(['invoke', 'echo', '--local']))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "pip install 'openskill-runtime[host]'" in done.stderr


def write_greet(directory: Path, script: str = SKILL) -> None:
    for name in ("skills_cli", "data"):
        (directory / name).mkdir()
    (directory / "skills_cli" / "greet.py").write_text(script, "utf-8")


def test_a_script_of_this_directory_runs_without_a_host(openskills: Command, require_program: RequireProgram) -> None:
    require_program("bwrap")
    write_greet(openskills.cwd)
    ran = openskills("invoke", "greet", "--local", "--stream", "--input", '{"name": "Ada"}')
    assert (ran.code, ran.json) == (0, {"greeting": "hello Ada"})
    assert "on my way" in ran.err


def test_a_timeout_ends_a_script_without_a_host(openskills: Command, require_program: RequireProgram) -> None:
    require_program("bwrap")
    write_greet(openskills.cwd, "import time\ntime.sleep(600)\n")
    ran = openskills("invoke", "greet", "--local", "--timeout", "2")
    assert ran.code == 1
    assert "greet timed out after 2 s" in ran.err
