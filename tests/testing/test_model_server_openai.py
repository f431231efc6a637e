"""The server's words in OpenAI's protocol, read by the official client in the test of the server."""

import json
from typing import Any

from openskills.agent.model import Answer, ToolCall, Usage
from openskills.testing import Refusal
from openskills.testing.model_server_openai import openai_error, openai_events, openai_whole

ANSWER = Answer("Hello", (ToolCall("a", "run", '{"x": 1}'),), Usage(9, 4, 3))


def chunks(asked: dict[str, Any]) -> list[Any]:
    data = [line.removeprefix(b"data: ").strip() for line in openai_events(ANSWER, asked, 4)]
    assert data[-1] == b"[DONE]"
    return [json.loads(one) for one in data[:-1]]


def test_text_and_arguments_come_in_pieces_and_the_reason_last() -> None:
    found = [chunk["choices"][0] for chunk in chunks({"model": "m"})]
    assert "".join(choice["delta"].get("content", "") for choice in found) == "Hello"
    written = [choice["delta"]["tool_calls"][0] for choice in found if "tool_calls" in choice["delta"]]
    assert written[0]["id"] == "a"
    assert "".join(call["function"]["arguments"] for call in written) == '{"x": 1}'
    assert [choice["finish_reason"] for choice in found] == [None] * (len(found) - 1) + ["tool_calls"]


def test_usage_is_told_to_those_who_ask() -> None:
    assert all("usage" not in chunk for chunk in chunks({}))
    *others, last = chunks({"stream_options": {"include_usage": True}})
    assert all(chunk["usage"] is None for chunk in others)
    assert (last["choices"], last["usage"]["prompt_tokens"]) == ([], 9)


def test_a_whole_answer_has_it_all() -> None:
    body = openai_whole(ANSWER, {"model": "m"})
    assert body["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "run"
    assert (body["model"], body["usage"]["prompt_tokens_details"]) == ("m", {"cached_tokens": 3})


def test_an_error_has_a_kind_that_fits_its_status() -> None:
    assert openai_error(Refusal(429, "slow down"))["error"]["code"] == "rate_limit_exceeded"
    assert openai_error(Refusal(429, kind="insufficient_quota"))["error"]["type"] == "insufficient_quota"
