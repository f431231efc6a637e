"""`invoke`: a skill of a host from the shell, in a pipe and on a terminal."""

import json
import socket
import subprocess
from collections.abc import Iterator

import pytest

from tests.cli.command import Command
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


def test_without_a_host_it_is_said_how_to_start_one(openskills: Command) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    ran = openskills("invoke", "echo", "--url", url)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(
        f"error: no skill host answers at {url} (Connection refused); start one with `openskills serve`"
    )
    assert "OPENSKILL_HTTP_BASE_URL" in ran.err
    told = openskills("invoke", "echo", "--url", url, "--json", "--trace-id", "t-9")
    assert told.code == 1
    assert told.json["error"]["details"]["reason"] == "HOST_UNAVAILABLE"
    assert told.json["trace_id"] == "t-9"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--input", "nope"], "--input: it is no JSON"),
        (["--input", "[1]"], "--input: it is no object"),
        (["--timeout", "0"], "--timeout"),
        (["--timeout", "soon"], "--timeout"),
        (["--url", "nowhere"], "base_url"),
        (["--trace-id", "a b"], "trace_id"),
        (["--local", "--url", "http://127.0.0.1:1"], "--local"),
    ],
)
def test_wrong_usage_is_said_and_is_two(openskills: Command, arguments: list[str], said: str) -> None:
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


def test_a_terminal_is_told_live(openskills: Command, hosted: Scripted) -> None:
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
    assert "did not answer in time" in ran.err


def test_an_answer_that_is_no_result_is_an_error(openskills: Command, hosted: Scripted) -> None:
    hosted.on_invoke(Reply([b"<html>"], 500, "text/html"))
    ran = openskills("invoke", "echo")
    assert ran.code == 1
    assert "answered 500 with something that is no Normalized Skill Result" in ran.err


def test_a_missing_key_is_a_failure_with_the_words_of_the_host(openskills: Command, hosted: Scripted) -> None:
    hosted.on_invoke(failure(401, "a key is needed", reason="UNAUTHORIZED"))
    ran = openskills("invoke", "echo", OPENSKILL_API_KEY="osk_1")
    assert (ran.code, hosted.requests[0].headers["authorization"]) == (1, "Bearer osk_1")
    assert "a key is needed" in ran.err
