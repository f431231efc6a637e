"""Requests for servers that speak OpenAI's protocol, well or less well."""

import json
from typing import Any

import pytest

from openskills.agent.model import Answer, ModelRequest, ToolCall
from openskills.agent.wire.openai_request import Dialect, request_body
from tests.agent.asking import TOOL

STRICT: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "array", "items": {"type": "string"}}},
    "required": ["a"],
    "additionalProperties": False,
}
LOOSE: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]}


def call(arguments: object) -> dict[str, Any]:
    function = {"name": "skill_run", "arguments": arguments}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": function}]}


def test_a_request_has_what_was_asked_and_nothing_else() -> None:
    message = {"role": "user", "content": "Hello"}
    assert request_body("gpt-test", ModelRequest([message]), Dialect()) == {
        "model": "gpt-test",
        "messages": [message],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_limits_temperature_and_tools_are_passed_on() -> None:
    request = ModelRequest([], [TOOL], max_output_tokens=100, temperature=0.0)
    body = request_body("gpt-test", request, Dialect())
    assert (body["tools"], body["max_completion_tokens"], body["temperature"]) == ([TOOL], 100, 0.0)


@pytest.mark.parametrize(("schema", "strict"), [(STRICT, True), (LOOSE, False), ({"items": [LOOSE]}, False)])
def test_a_schema_is_promised_strictly_only_where_that_is_possible(schema: dict[str, Any], strict: bool) -> None:
    body = request_body("gpt-test", ModelRequest([], json_schema=schema), Dialect())
    wanted = {"name": "answer", "schema": schema, "strict": strict}
    assert body["response_format"] == {"type": "json_schema", "json_schema": wanted}


@pytest.mark.parametrize("arguments", ['{"a": 1}', "{}"])
def test_arguments_that_are_an_object_are_sent_byte_for_byte(arguments: str) -> None:
    body = request_body("gpt-test", ModelRequest([call(arguments)]), Dialect())
    assert body["messages"] == [call(arguments)]


def test_arguments_that_are_no_object_are_sent_as_one_and_the_message_is_not_touched() -> None:
    message = call('{"a": ')
    body = request_body("gpt-test", ModelRequest([message]), Dialect())
    assert json.loads(body["messages"][0]["tool_calls"][0]["function"]["arguments"]) == {"invalid_json": '{"a":'}
    assert message == call('{"a": ')


def test_what_a_server_does_not_know_is_left_out() -> None:
    request = ModelRequest([], max_output_tokens=5, json_schema=LOOSE)
    body = request_body("gpt-test", request, Dialect(usage=False, max_tokens="max_tokens", json_schema=False))
    assert body == {"model": "gpt-test", "messages": [], "stream": True, "max_tokens": 5}


@pytest.mark.parametrize(
    ("said", "then"),
    [
        ("Unknown field: stream_options", Dialect(usage=False)),
        ('{"loc": ["body", "stream_options"], "msg": "extra fields not permitted"}', Dialect(usage=False)),
        ("unexpected 'max_completion_tokens'", Dialect(max_tokens="max_tokens")),
        ("This response_format type is unavailable now", Dialect(json_schema=False)),
        ("Invalid schema for response_format 'answer': 'a' is missing", None),
        ("no such model", None),
        ("", None),
    ],
)
def test_a_refusal_teaches_what_to_leave_out(said: str, then: Dialect | None) -> None:
    request = ModelRequest([], max_output_tokens=5, json_schema=LOOSE)
    assert Dialect().after_refusal(request_body("gpt-test", request, Dialect()), said) == then


def test_a_refusal_of_what_was_not_sent_teaches_nothing() -> None:
    body = request_body("gpt-test", ModelRequest([]), Dialect(usage=False))
    assert Dialect().after_refusal(body, "stream_options, max_completion_tokens, response_format") is None


def test_what_another_providers_model_thought_is_not_sent() -> None:
    thoughtful = Answer("At once.", (ToolCall("a", "run", "{}"),), thinking={"blocks": []}).message()
    broken = Answer("", (ToolCall("a", "run", "{"),), thinking={"blocks": []}).message()
    for message in (thoughtful, broken):
        (sent,) = request_body("m", ModelRequest([message]), Dialect())["messages"]
        assert "thinking" in message
        assert "thinking" not in sent
