"""What is shown of a run in a pipe: the answer on stdout, everything else on stderr. Terminals: `test_chat_loop.py`."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from openskills.agent.log import ARTIFACT, DELTA, END, ERROR, SUMMARY, TOOL_CALL
from openskills.cli.chat_view import JsonView, TextView, cost_line
from openskills.session.events import MESSAGE, STATE_UPDATE, TOOL_RESPONSE, Event, new_event

USAGE = {"input": 1200, "output": 40, "cached": 1000}


def event(kind: str, payload: Mapping[str, Any], author: str = "assistant") -> Event:
    return new_event(author, kind, payload)


def said(text: str, *, calls: bool = False, author: str = "assistant") -> Event:
    message = {"role": "assistant", "content": text, **({"tool_calls": [{"id": "1"}]} if calls else {})}
    return event(MESSAGE, {"message": message}, author)


def test_only_the_answer_is_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    view = TextView("assistant")
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
        "  kept artifact://out/a\\x1b@0",
    ]


def test_an_error_a_summary_and_an_empty_answer_are_said_beside_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    view = TextView("assistant")
    view.show(event(SUMMARY, {"upto": 3, "text": "They met."}))
    view.show(event(ERROR, {"reason": "X", "message": "the model\nis gone"}))
    view.show(event(END, {"text": " "}))
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == "the conversation so far was summarised\nerror: the model is gone\n(no answer)\n"


def test_verbose_shows_arguments_results_and_costs_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    view = TextView("assistant", verbose=True)
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
    view = TextView("assistant")
    view.show(event(TOOL_CALL, {"call_id": "1", "tool": "skill_load", "arguments": ""}, "assistant.pdf"))
    view.show(said("I am the other one.", author="assistant.pdf"))
    view.show(event(END, {"text": ""}, "assistant.pdf"))
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "* assistant.pdf: skill_load\n")


def test_the_end_of_a_call_of_an_earlier_run_is_no_news(capsys: pytest.CaptureFixture[str]) -> None:
    view = TextView("assistant")
    view.show(event(TOOL_CALL, {"call_id": "1", "tool": "skill_run", "arguments": ""}))
    view.begin()
    view.show(event(TOOL_RESPONSE, {"call_id": "1", "tool": "skill_run", "content": "interrupted", "failed": True}))
    view.show(event(TOOL_RESPONSE, {"call_id": "", "tool": "skill_load", "content": "loaded: pdf", "failed": False}))
    assert capsys.readouterr().err == "* skill_run\n* loaded: pdf\n"


def test_for_a_program_every_event_is_a_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    view = JsonView()
    view.begin()
    view.show(event(DELTA, {"text": "表\n"}))
    view.note("beside")
    shown = capsys.readouterr()
    assert json.loads(shown.out)["payload"] == {"text": "表\n"}
    assert shown.out.isascii()
    assert shown.err == "beside\n"


def test_a_run_without_costs_has_a_line_too() -> None:
    assert cost_line({}) == "steps: 0; tool calls: 0; tokens: 0 in, 0 out"
