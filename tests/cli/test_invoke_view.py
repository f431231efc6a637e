"""Events and results for the person at the shell; here with streams that are no terminal."""

import json
from typing import Any

import pytest

from openskills.cli.invoke_view import LiveView, pretty, show_result
from openskills.host.calling.reading import from_plain
from openskills.host.calling.stream_events import StreamEvent
from tests.host.scripted_server import normal

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


def test_output_in_a_form_that_nobody_knows_is_shown_as_it_is(capsys: Capture) -> None:
    with LiveView() as view:
        view.show(StreamEvent("stderr", {"line": 1}))
    assert capsys.readouterr().err == '{"line": 1}\n'


def test_in_a_pipe_there_is_no_bar_and_no_word_of_what_is_for_programs(capsys: Capture) -> None:
    with LiveView() as view:
        view.show(StreamEvent("start", {"skill_id": "echo"}))
        view.show(StreamEvent("progress", {"done": float("inf"), "total": True}))
        view.show(StreamEvent("result", normal()))
    assert capsys.readouterr().err == ""


def test_what_was_made_or_cut_is_said(capsys: Capture) -> None:
    with LiveView() as view:
        view.show(StreamEvent("artifact", {"path": "out/a.csv"}))
        view.show(StreamEvent("cut", {"reason": "too much"}))
    assert capsys.readouterr().err == "made: out/a.csv\nwarning: too much\n"


def test_a_result_that_was_cut_says_so(capsys: Capture) -> None:
    meta = {"latency_ms": 1234.5, "version": "1.0", "truncated": True}
    assert show_result(from_plain(normal(meta=meta))) == 0
    shown = capsys.readouterr()
    assert shown.err == "done: echo 1.0 in 1,234 ms, trace id t-1; the answer was cut\n"
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
    assert show_result(from_plain(normal(success=False, data=None, error=error))) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[:4] == ["failed: no JSON", "  502 BAD_SKILL_OUTPUT", "  exit_code: 1", "  stderr: boom"]


def test_json_for_people_has_whole_characters() -> None:
    assert pretty({"a": "你好"}) == '{\n  "a": "你好"\n}'
