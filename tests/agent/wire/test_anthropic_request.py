"""Conversations in OpenAI's style, told to Anthropic's API, which is strict."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.agent.model import ModelRequest
from openskills.agent.wire.anthropic_caching import marked
from openskills.agent.wire.anthropic_request import (
    EARLIER,
    NO_RESULT,
    NOTHING,
    conversation,
    request_body,
    stable_blocks,
)
from openskills.errors import InvalidArgument
from tests.agent.asking import TOOL
from tests.agent.wire.anthropic_rules import faults

Message = dict[str, Any]


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def user(content: Any) -> Message:
    return {"role": "user", "content": content}


def calling(*calls: tuple[str, str, str], content: str | None = None) -> Message:
    made = [{"id": i, "type": "function", "function": {"name": n, "arguments": a}} for i, n, a in calls]
    return {"role": "assistant", "content": content, "tool_calls": made}


def result(id_: str, content: Any = "done") -> Message:
    return {"role": "tool", "tool_call_id": id_, "content": content}


def use(id_: str, name: str = "run", **given_input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id_, "name": name, "input": given_input}


def done(id_: str, content: str = "done", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id_, "content": [text(content)], **more}


def test_a_turn_with_tools_is_told_in_blocks() -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        user("Plot it."),
        calling(("a", "load", '{"skill": "x"}'), ("b", "run", "{}"), content="At once."),
        result("a"),
        result("b", ""),
    ]
    body = request_body("claude-test", ModelRequest(messages, [TOOL]), 1000)
    assert body == {
        "model": "claude-test",
        "max_tokens": 1000,
        "stream": True,
        "system": [text("Be brief.")],
        "tools": [
            {
                "name": "skill_load",
                "description": "Load a skill",
                "input_schema": TOOL["function"]["parameters"],
            }
        ],
        "messages": [
            {"role": "user", "content": [text("Plot it.")]},
            {"role": "assistant", "content": [text("At once."), use("a", "load", skill="x"), use("b")]},
            {"role": "user", "content": [done("a"), done("b", NOTHING)]},
        ],
    }


def test_system_messages_are_gathered_from_wherever_they_stand() -> None:
    messages = [user("a"), {"role": "developer", "content": "Be"}, {"role": "system", "content": [text("brief.")]}]
    body = request_body("claude-test", ModelRequest(messages), 1000)
    assert body["system"] == [text("Be"), text("brief.")]
    assert body["messages"] == [{"role": "user", "content": [text("a")]}]


def test_what_one_side_says_in_a_row_is_one_turn() -> None:
    messages = [user("a"), user("b"), {"role": "assistant", "content": "c"}, {"role": "assistant", "content": "d"}]
    assert conversation(messages) == [
        {"role": "user", "content": [text("a"), text("b")]},
        {"role": "assistant", "content": [text("c"), text("d")]},
    ]


def test_results_come_first_whatever_the_user_said_meanwhile() -> None:
    turns = conversation([user("go"), calling(("a", "run", "{}")), user("and?"), result("a")])
    assert turns[-1]["content"] == [done("a"), text("and?")]


def test_a_call_that_was_never_answered_has_a_result_that_says_so() -> None:
    error = done("a", NO_RESULT, is_error=True)
    assert conversation([user("go"), calling(("a", "run", "{}"))])[-1]["content"] == [error]
    turns = conversation([user("go"), calling(("a", "run", "{}")), {"role": "assistant", "content": "Well."}])
    assert [turn["role"] for turn in turns] == ["user", "assistant", "user", "assistant"]
    assert turns[2]["content"] == [error]


def test_a_result_without_its_call_is_told_as_text() -> None:
    assert conversation([result("gone", "42 rows"), user("and?")]) == [
        {"role": "user", "content": [text("[result of an earlier call]"), text("42 rows"), text("and?")]}
    ]


def test_ids_of_other_providers_become_ids_that_are_taken() -> None:
    calls = (("functions.run:0", "run", "{}"), ("functions.run:0", "run", "{}"), ("", "run", "{}"))
    turns = conversation([user("go"), calling(*calls), result("functions.run:0", "1"), result("functions.run:0", "2")])
    assert [block["id"] for block in turns[1]["content"]] == ["functions_run_0", "functions_run_0-2", "call"]
    assert turns[2]["content"][:2] == [done("functions_run_0", "1"), done("functions_run_0-2", "2")]


def test_arguments_that_were_no_json_are_shown_as_they_were() -> None:
    turns = conversation([user("go"), calling(("a", "do it!", '{"x": ')), result("a")])
    assert turns[1]["content"] == [use("a", "do_it_", invalid_json='{"x":')]


def test_a_conversation_that_begins_with_the_assistant_began_earlier() -> None:
    turns = conversation([{"role": "assistant", "content": "As I said."}, user("Yes?")])
    assert turns[0] == {"role": "user", "content": [text(EARLIER)]}


def test_nothing_to_answer_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="messages: there is none"):
        request_body("claude-test", ModelRequest([{"role": "system", "content": "Be brief."}, user(" ")]), 1000)


def test_a_request_may_name_its_own_limit_and_its_temperature_is_left_out() -> None:
    body = request_body("claude-test", ModelRequest([user("a")], max_output_tokens=7, temperature=0.5), 1000)
    assert body["max_tokens"] == 7
    assert "temperature" not in body


def test_a_tool_without_parameters_takes_an_empty_object() -> None:
    tool = {"type": "function", "function": {"name": "list"}}
    body = request_body("claude-test", ModelRequest([user("a")], [tool]), 1000)
    assert body["tools"] == [{"name": "list", "input_schema": {"type": "object", "properties": {}}}]


def test_only_the_first_system_message_is_sure_to_stay() -> None:
    first: Message = {"role": "system", "content": [text("a"), text("b")]}
    assert stable_blocks([first, {"role": "system", "content": "loaded"}, user("x")]) == 2
    assert stable_blocks([user("x"), first]) == 0


def says(role: str, content: Any) -> Message:
    return {"role": role, "content": content}


def calls_in_a_row(calls: list[tuple[str, str, str]], content: str | None) -> Message:
    return calling(*calls, content=content)


contents = st.none() | st.text(max_size=4) | st.lists(st.builds(text, st.text(max_size=4)), max_size=2)
ids = st.sampled_from(["", "a", "b", "functions.x:0"])
some_calls = st.lists(st.tuples(ids, st.text(max_size=4), st.sampled_from(["{}", '{"x": 1}', "{", ""])), max_size=3)
messages_of_any_kind: st.SearchStrategy[list[Message]] = st.lists(
    st.builds(says, st.sampled_from(["user", "system", "assistant", "x"]), contents)
    | st.builds(calls_in_a_row, some_calls, st.none() | st.text(max_size=4))
    | st.builds(result, ids, contents),
    max_size=12,
)


@given(messages_of_any_kind)
def test_whatever_became_of_a_conversation_the_api_takes_it(messages: list[Message]) -> None:
    request = ModelRequest([*messages, user("go on")], [TOOL])
    body = marked(request_body("claude-test", request, 1000), stable_blocks(request.messages))
    assert not faults(body)
    json.dumps(body)


@given(messages_of_any_kind, messages_of_any_kind)
def test_a_conversation_that_goes_on_begins_as_it_did(before: list[Message], after: list[Message]) -> None:
    ended = {"role": "assistant", "content": "That is all."}
    first = conversation([*before, user("go on"), ended])
    assert conversation([*before, user("go on"), ended, user("and then?"), *after])[: len(first)] == first
