"""Thoughts that a model reads again, in the conversation that they belong to and in no other."""

import json
from dataclasses import replace
from typing import Any

import pytest

from openskills.agent.model import Answer, ModelRequest, ToolCall
from openskills.agent.wire.anthropic_request import request_body
from openskills.agent.wire.anthropic_thoughts import thoughts, with_thoughts

ASKED = ModelRequest([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Plot it."}])
CALL = ToolCall("a", "run", '{"x": 1}')
ANSWER = Answer("At once.", (CALL,))
THOUGHT = {"type": "thinking", "thinking": "", "signature": "signed"}
SAID = {"type": "text", "text": "At once."}
USED = {"type": "tool_use", "id": "a", "name": "run", "input": {"x": 1}}
HEARD: list[dict[str, Any]] = [
    {**THOUGHT, "extra": "of the wire"},
    {"type": "redacted_thinking", "data": "xyz"},
    SAID,
    {"type": "tool_use", "id": "a", "name": "run", "input": {}, "partial_json": '{"x": 1}'},
]


def body(request: ModelRequest, model: str = "claude-test") -> dict[str, Any]:
    return with_thoughts(request_body(model, request, 100))


def answered(request: ModelRequest = ASKED, answer: Answer = ANSWER, heard: Any = HEARD) -> Answer:
    """The answer as a model gives it, after a log has kept it."""
    found = thoughts(body(request), answer, heard)
    return replace(answer, thinking=json.loads(json.dumps(found)))


def going_on(request: ModelRequest, answer: Answer) -> ModelRequest:
    results = [{"role": "tool", "tool_call_id": call.id, "content": "done"} for call in answer.calls]
    return ModelRequest([*request.messages, answer.message(), *results], request.tools)


def plain(request: ModelRequest) -> dict[str, Any]:
    messages = [{name: value for name, value in one.items() if name != "thinking"} for one in request.messages]
    return request_body("claude-test", replace(request, messages=messages), 100)


def test_thoughts_come_back_before_what_they_led_to() -> None:
    request = going_on(ASKED, answered())
    found = body(request)
    assert found["messages"][1] == {
        "role": "assistant",
        "content": [THOUGHT, {"type": "redacted_thinking", "data": "xyz"}, SAID, USED],
    }
    assert found["messages"][2] == plain(request)["messages"][2]


def test_thoughts_come_back_in_every_later_request_with_those_that_followed() -> None:
    first = going_on(ASKED, answered())
    other = {**THOUGHT, "signature": "later"}
    second = answered(first, replace(ANSWER, text=""), [other, {"type": "tool_use"}])
    done = {"role": "assistant", "content": "Done."}
    found = body(ModelRequest([*going_on(first, second).messages, done, ASKED.messages[1]]))["messages"]
    assert [turn["content"][0] for turn in found if turn["role"] == "assistant"][:2] == [THOUGHT, other]


def test_thoughts_between_words_and_calls_keep_their_place_and_calls_the_ids_that_they_have_now() -> None:
    calls = (CALL, replace(CALL, id="b"))
    heard = [THOUGHT, {"type": "text", "text": "At"}, {**THOUGHT, "signature": "2"}, HEARD[3]]
    heard += [{**THOUGHT, "signature": "3"}, {"type": "text", "text": " once."}, HEARD[3], {"type": "text", "text": ""}]
    answer = answered(answer=replace(ANSWER, text="At once. ", calls=calls), heard=heard)
    renamed = replace(answer, calls=(replace(CALL, id="a-2"), replace(CALL, id="b-2")))
    content = body(going_on(ASKED, renamed))["messages"][1]["content"]
    kinds = ["thinking", "text", "thinking", "tool_use", "thinking", "text", "tool_use"]
    assert [block["type"] for block in content] == kinds
    assert [block["id"] for block in content if block["type"] == "tool_use"] == ["a-2", "b-2"]


@pytest.mark.parametrize(
    "changed",
    [
        replace(ASKED, messages=[{"role": "system", "content": "Be long."}, ASKED.messages[1]]),
        replace(ASKED, messages=[ASKED.messages[0], {"role": "user", "content": "Plot that."}]),
        replace(ASKED, tools=[{"type": "function", "function": {"name": "run"}}]),
    ],
)
def test_thoughts_do_not_get_into_a_conversation_that_began_otherwise(changed: ModelRequest) -> None:
    request = going_on(changed, answered())
    assert body(request) == plain(request)


def test_another_model_does_not_get_them() -> None:
    assert body(going_on(ASKED, answered()), "claude-other")["messages"] == plain(going_on(ASKED, ANSWER))["messages"]


@pytest.mark.parametrize("changed", [{"text": "Not yet."}, {"calls": (CALL, CALL)}])
def test_an_answer_that_somebody_has_changed_has_lost_its_thoughts(changed: dict[str, Any]) -> None:
    request = going_on(ASKED, replace(answered(), **changed))
    assert body(request) == plain(request)


def test_an_answer_without_calls_or_without_thoughts_carries_none() -> None:
    assert thoughts(body(ASKED), Answer("At once."), HEARD[:3]) is None
    assert thoughts(body(ASKED), ANSWER, HEARD[2:]) is None
    assert "thinking" not in ANSWER.message()


def test_a_call_that_was_cut_off_is_not_said_again() -> None:
    assert thoughts(body(ASKED), replace(ANSWER, calls=(replace(CALL, arguments='{"x": '),)), HEARD) is None


@pytest.mark.parametrize("garbage", [[], "x", {"model": "claude-test"}, {"model": 3, "prefix": None, "blocks": "x"}, 0])
def test_what_is_no_thought_is_left_out(garbage: Any) -> None:
    message = {**ANSWER.message(), "thinking": garbage}
    request = ModelRequest([*ASKED.messages, message, {"role": "tool", "tool_call_id": "a", "content": "done"}])
    assert body(request) == plain(request)
