"""Thoughts that a model reads again, in the conversation that they belong to and in no other."""

from typing import Any

from openskills.agent.model import Answer, ModelRequest, ToolCall
from openskills.agent.wire.anthropic_request import request_body
from openskills.agent.wire.anthropic_thoughts import Thoughts

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


def body(request: ModelRequest) -> dict[str, Any]:
    return request_body("claude-test", request, 100)


def going_on(request: ModelRequest, answer: Answer = ANSWER) -> ModelRequest:
    results = [{"role": "tool", "tool_call_id": call.id, "content": "done"} for call in answer.calls]
    return ModelRequest([*request.messages, answer.message(), *results], request.tools)


def remembered(request: ModelRequest = ASKED, answer: Answer = ANSWER, heard: Any = HEARD) -> Thoughts:
    thoughts = Thoughts()
    thoughts.keep(request, body(request), answer, heard)
    return thoughts


def test_thoughts_come_back_before_what_they_led_to() -> None:
    found = remembered().put_back(body(going_on(ASKED)))
    assert found["messages"][1] == {
        "role": "assistant",
        "content": [THOUGHT, {"type": "redacted_thinking", "data": "xyz"}, SAID, USED],
    }
    assert found["messages"][2] == body(going_on(ASKED))["messages"][2]


def test_thoughts_come_back_in_every_later_request() -> None:
    later = ModelRequest([*going_on(ASKED).messages, {"role": "assistant", "content": "Done."}, *ASKED.messages[1:]])
    assert remembered().put_back(body(later))["messages"][1]["content"][0] == THOUGHT


def test_thoughts_do_not_get_into_a_conversation_that_began_otherwise() -> None:
    other = ModelRequest([{"role": "system", "content": "Be long."}, ASKED.messages[1]])
    assert remembered().put_back(body(going_on(other))) == body(going_on(other))
    tools = [{"type": "function", "function": {"name": "run"}}]
    with_tools = ModelRequest(ASKED.messages, tools)
    assert remembered().put_back(body(going_on(with_tools))) == body(going_on(with_tools))


def test_an_answer_without_calls_or_without_thoughts_needs_no_memory() -> None:
    for answer, heard in ((Answer("At once."), HEARD[:3]), (ANSWER, HEARD[2:])):
        request = going_on(ASKED, answer)
        assert remembered(answer=answer, heard=heard).put_back(body(request)) == body(request)


def test_a_call_that_was_cut_off_is_not_said_again() -> None:
    cut = Answer("At once.", (ToolCall("a", "run", '{"x": '),))
    assert remembered(answer=cut).put_back(body(going_on(ASKED, cut))) == body(going_on(ASKED, cut))


def test_the_oldest_are_forgotten() -> None:
    thoughts = Thoughts(most=1)
    other = ModelRequest([{"role": "user", "content": "Another."}])
    for request in (ASKED, other):
        thoughts.keep(request, body(request), ANSWER, HEARD)
    assert thoughts.put_back(body(going_on(ASKED))) == body(going_on(ASKED))
    assert thoughts.put_back(body(going_on(other))) != body(going_on(other))
