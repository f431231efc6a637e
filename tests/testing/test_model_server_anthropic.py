"""The server's words in Anthropic's protocol, read by the official client in the test of the server."""

import json
from typing import Any

from openskills.agent.model import Answer, ToolCall, Usage
from openskills.testing import Refusal
from openskills.testing.model_server_anthropic import anthropic_error, anthropic_events, anthropic_whole

ANSWER = Answer("Hello", (ToolCall("a", "run", '{"x": 1}'),), Usage(9, 4, 3))


def events(answer: Answer) -> list[Any]:
    found: list[Any] = []
    for sent in anthropic_events(answer, {"model": "m"}, 4):
        name, data = sent.decode().strip().split("\n")
        found.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {found[-1]['type']}"
    return found


def test_blocks_are_begun_written_and_ended() -> None:
    found = events(ANSWER)
    assert [event["type"] for event in found] == [
        *("message_start", "ping"),
        *("content_block_start", "content_block_delta", "content_block_delta", "content_block_stop"),
        *("content_block_start", "content_block_delta", "content_block_delta", "content_block_stop"),
        *("message_delta", "message_stop"),
    ]
    assert found[0]["message"]["usage"]["cache_read_input_tokens"] == 3
    assert found[0]["message"]["usage"]["input_tokens"] == 6
    assert found[-2]["delta"]["stop_reason"] == "tool_use"


def test_an_answer_without_a_word_has_no_blocks() -> None:
    assert [event["type"] for event in events(Answer())] == ["message_start", "ping", "message_delta", "message_stop"]


def test_a_whole_answer_has_it_all() -> None:
    body = anthropic_whole(ANSWER, {"model": "m"})
    assert [block["type"] for block in body["content"]] == ["text", "tool_use"]
    assert (body["content"][1]["input"], body["usage"]["output_tokens"]) == ({"x": 1}, 4)


def test_an_error_has_a_kind_that_fits_its_status() -> None:
    assert anthropic_error(Refusal(529, "busy"))["error"] == {"type": "overloaded_error", "message": "busy"}
    assert anthropic_error(Refusal(502))["error"]["type"] == "api_error"
