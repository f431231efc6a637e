"""A tool call and its result are one line each, whatever is in them.

What is shown of a run in a pipe: the answer on stdout, everything else on stderr. Terminals: `test_chat_loop.py`.
"""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from openskills.agent.agent import ARTIFACT, DELTA, END, ERROR, SUMMARY, TOOL_CALL
from openskills.cli.chat.view import (
    MAX_LENGTH,
    JsonChatView,
    TextChatView,
    format_call,
    format_cost,
    format_result,
    shorten,
)
from openskills.cli.output import escape_text
from openskills.session.events import MESSAGE, STATE_UPDATE, TOOL_RESPONSE, Event, new_event


@pytest.mark.parametrize(
    ("tool", "arguments", "line"),
    [
        ("skill_load", {"skill": "pdf"}, "skill_load pdf"),
        ("skill_run", {"skill": "pdf", "command": "ls\n-l", "timeout": 3}, "skill_run pdf: ls -l"),
        ("read_file", {"path": "out/a.txt"}, "read_file out/a.txt"),
        ("list_files", {}, "list_files"),
        ("plot", {"kind": "bar", "empty": None, "sizes": [1, 2]}, "plot kind=bar: sizes=[1, 2]"),
    ],
)
def test_a_call_shows_what_says_most(tool: str, arguments: dict[str, object], line: str) -> None:
    assert format_call(tool, json.dumps(arguments)) == line


@pytest.mark.parametrize("arguments", ['{"skill": ', "[1]", "[" * 100_000])
def test_arguments_that_are_not_an_object_are_shown_unchanged(arguments: str) -> None:
    assert format_call("skill_load", arguments) == shorten(f"skill_load {arguments}")


def result(**fields: object) -> str:
    return format_result(json.dumps({"stdout": "", "stderr": "", "output_files": [], **fields}))


def test_a_command_that_went_well_shows_its_first_line_and_its_files() -> None:
    files = [{"name": f"out/{name}"} for name in "abcdef"]
    line = result(exit_code=0, stdout="\nfirst\nsecond\n", output_files=files, isolation="bubblewrap")
    assert line == "exit code 0; first; out/a, out/b, out/c, out/d and 2 more"


def test_a_command_that_failed_shows_its_last_line() -> None:
    assert result(exit_code=2, stderr="Traceback\nValueError: no\n") == "exit code 2; ValueError: no"
    assert result(exit_code=3, stdout="only this\n") == "exit code 3; only this"
    assert result(exit_code=143, timed_out=True) == "exit code 143, timed out"


def test_a_command_without_isolation_is_named_so() -> None:
    assert result(exit_code=0, isolation="none") == "exit code 0; not isolated"


def test_a_command_that_is_talked_to_shows_what_it_asks() -> None:
    asks = {"status": "running", "interaction": {"needs_input": True, "hint": "Your name:"}, "output": "Your name:"}
    assert format_result(json.dumps(asks)) == "running; waiting for input: Your name:"
    assert format_result(json.dumps({"status": "running", "output": "a\nb\n"})) == "running; b"
    ended = {"status": "exited", "exit_code": 0, "output": "", "result": {"output_files": [{"name": "out/x"}]}}
    assert format_result(json.dumps(ended)) == "exited; exit code 0; out/x"


def test_text_shows_its_first_line_and_how_many_more_there_are() -> None:
    assert format_result("one") == "one"
    assert format_result("\none\ntwo\n\nthree\n") == "one (+2 lines)"
    assert format_result("") == "(nothing)"
    assert format_result('{"exit_code": 0}', failed=True) == '{"exit_code": 0}'
    assert format_result('{"skills": ["表格"]}') == '{"skills": ["表格"]}'


def test_no_line_is_long_or_commands_a_terminal() -> None:
    assert len(format_call("skill_run", json.dumps({"command": "x" * 10_000}))) == MAX_LENGTH
    assert format_result("a\x1b[2Jb\x07") == "a\\x1b[2Jb\\x07"
    assert escape_text("a\r\nb\rc") == "a\nb\\rc"
    assert escape_text("a\tb\n\x1b]0;x\x07👩\u200d👩") == "a\tb\n\\x1b]0;x\\x07👩\u200d👩"


USAGE = {"input": 1200, "output": 40, "cached": 1000}


def event(kind: str, payload: Mapping[str, Any], author: str = "assistant") -> Event:
    return new_event(author, kind, payload)


def said(text: str, *, calls: bool = False, author: str = "assistant") -> Event:
    message = {"role": "assistant", "content": text, **({"tool_calls": [{"id": "1"}]} if calls else {})}
    return event(MESSAGE, {"message": message}, author)


def test_only_the_answer_is_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    view = TextChatView("assistant")
    for one in (
        event(MESSAGE, {"to": "assistant", "message": {"role": "user", "content": "hi"}}, "user"),
        event(DELTA, {"text": "Let me"}),
        said("Let me see.", calls=True),
        event(TOOL_CALL, {"call_id": "1", "tool": "skill_load", "arguments": '{"skill": "pdf"}'}),
        event(TOOL_RESPONSE, {"call_id": "1", "tool": "skill_load", "content": "loaded: pdf", "failed": False}),
        event(STATE_UPDATE, {"why": "something"}),
        event(ARTIFACT, {"ref": "artifact://out/a\x1b@0"}),
        said("\nIt is\x1b there.\n"),
        event(END, {"text": "It is there.", "usage": USAGE, "steps": 2, "tool_calls": 1}),
    ):
        view.show(one)
    shown = capsys.readouterr()
    assert shown.out == "It is\x1b there.\n"
    assert shown.err.splitlines() == [
        "Let me see.",
        "* skill_load pdf",
        "  -> loaded: pdf",
        "  saved artifact://out/a\\x1b@0",
    ]


def test_an_error_a_summary_and_an_empty_answer_are_said_beside_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    view = TextChatView("assistant")
    view.show(event(SUMMARY, {"upto": 3, "text": "They met."}))
    view.show(event(ERROR, {"reason": "X", "message": "the model\nis gone"}))
    view.show(event(END, {"text": " "}))
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == "the conversation so far was summarised\nerror: the model is gone\n(no answer)\n"


def test_verbose_shows_arguments_results_and_costs_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    view = TextChatView("assistant", verbose=True)
    view.show(event(TOOL_CALL, {"call_id": "1", "tool": "t", "arguments": '{"a": "long"}'}))
    view.show(event(TOOL_RESPONSE, {"call_id": "1", "tool": "t", "content": "one\ntwo", "failed": False}))
    view.show(event(SUMMARY, {"upto": 3, "text": "They met."}))
    view.show(event(END, {"text": "x", "usage": USAGE, "steps": 2, "tool_calls": 1}))
    lines = capsys.readouterr().err.splitlines()
    assert lines[:5] == ["* t a=long", '     {"a": "long"}', "  -> one (+1 line)", "     one", "     two"]
    assert lines[-1] == "steps: 2; tool calls: 1; tokens: 1,200 in (1,000 of them cached), 40 out"


def test_what_another_agent_does_is_shown_with_its_name_and_its_words_are_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    view = TextChatView("assistant")
    view.show(event(TOOL_CALL, {"call_id": "1", "tool": "skill_load", "arguments": ""}, "assistant.pdf"))
    view.show(said("I am the other one.", author="assistant.pdf"))
    view.show(event(END, {"text": ""}, "assistant.pdf"))
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "* assistant.pdf: skill_load\n")


def test_results_of_calls_of_an_earlier_run_are_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    view = TextChatView("assistant")
    view.show(event(TOOL_CALL, {"call_id": "1", "tool": "skill_run", "arguments": ""}))
    view.begin()
    view.show(event(TOOL_RESPONSE, {"call_id": "1", "tool": "skill_run", "content": "interrupted", "failed": True}))
    view.show(event(TOOL_RESPONSE, {"call_id": "", "tool": "skill_load", "content": "loaded: pdf", "failed": False}))
    assert capsys.readouterr().err == "* skill_run\n* loaded: pdf\n"


def test_for_a_program_every_event_is_a_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    view = JsonChatView()
    view.begin()
    view.show(event(DELTA, {"text": "表\n"}))
    view.note("beside")
    shown = capsys.readouterr()
    assert json.loads(shown.out)["payload"] == {"text": "表\n"}
    assert shown.out.isascii()
    assert shown.err == "beside\n"


def test_a_run_without_costs_has_a_line_too() -> None:
    assert format_cost({}) == "steps: 0; tool calls: 0; tokens: 0 in, 0 out"
