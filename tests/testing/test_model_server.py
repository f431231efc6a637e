"""The server of tests, as the official clients see it.

The server's words in Anthropic's protocol, read by the official client in the test of the server.

Enough HTTP: requests one after another, answers whole and in chunks, silence that a client may end.

The server's words in OpenAI's protocol, read by the official client in the test of the server.

The small parts that replies are made of.
"""

import asyncio
import json
import threading
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from openskills.agent.models.model import ModelResponse, ToolCall, Usage
from openskills.testing.model_server import (
    ErrorReply,
    ModelReply,
    ModelServer,
    ModelServerRequest,
    RawReply,
    ResetReply,
    anthropic_body,
    anthropic_error,
    anthropic_events,
    event,
    openai_body,
    openai_error,
    openai_events,
    split_text,
)

ANSWER = ModelResponse("Hello", (ToolCall("call_1", "run", '{"x": 1}'),), Usage(9, 4, 3))
MESSAGES: Any = [{"role": "user", "content": "Hi"}]


def openai_client(server: ModelServer) -> openai.OpenAI:
    return openai.OpenAI(base_url=server.openai_url, api_key="k", max_retries=0)


def anthropic_client(server: ModelServer) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=server.anthropic_url, api_key="k", max_retries=0)


def test_the_client_of_openai_understands_a_whole_and_a_streamed_answer() -> None:
    with ModelServer([ANSWER, ANSWER]) as server, openai_client(server) as client:
        whole = client.chat.completions.create(model="m", messages=MESSAGES)
        with client.chat.completions.stream(model="m", messages=MESSAGES) as stream:
            streamed = stream.get_final_completion()
    for completion in (whole, streamed):
        message = completion.choices[0].message
        assert message.content == "Hello"
        assert message.tool_calls
        assert message.tool_calls[0].model_dump()["function"]["arguments"] == '{"x": 1}'
        assert completion.choices[0].finish_reason == "tool_calls"
    assert whole.usage
    assert whole.usage.prompt_tokens == 9


def test_the_client_of_anthropic_understands_a_whole_and_a_streamed_answer() -> None:
    with ModelServer([ANSWER, ANSWER]) as server, anthropic_client(server) as client:
        whole = client.messages.create(model="m", max_tokens=5, messages=MESSAGES)
        with client.messages.stream(model="m", max_tokens=5, messages=MESSAGES) as stream:
            streamed = stream.get_final_message()
    for message in (whole, streamed):
        text, call = message.content
        assert isinstance(text, anthropic.types.TextBlock)
        assert isinstance(call, anthropic.types.ToolUseBlock)
        assert (text.text, call.input, message.stop_reason) == ("Hello", {"x": 1}, "tool_use")
        assert message.usage.cache_read_input_tokens == 3


def test_refusals_are_the_errors_of_each_client() -> None:
    refusal = ErrorReply(429, "slow down", headers={"retry-after": "3"})
    with ModelServer([refusal, refusal]) as server, openai_client(server) as one, anthropic_client(server) as other:
        with pytest.raises(openai.RateLimitError, match="slow down") as first:
            one.chat.completions.create(model="m", messages=MESSAGES)
        with pytest.raises(anthropic.RateLimitError, match="slow down") as second:
            other.messages.create(model="m", max_tokens=5, messages=MESSAGES)
    assert first.value.response.headers["retry-after"] == second.value.response.headers["retry-after"] == "3"


def test_what_was_asked_is_remembered() -> None:
    with ModelServer(["Yes."]) as server, openai_client(server) as client:
        client.chat.completions.create(model="m", messages=MESSAGES)
    (asked,) = server.requests
    assert (asked.protocol, asked.path, asked.body["messages"]) == ("openai", "/v1/chat/completions", MESSAGES)
    assert asked.headers["authorization"] == "Bearer k"
    assert not asked.disconnected.is_set()


def test_a_script_that_is_a_function_answers_each_request() -> None:
    def script(asked: ModelServerRequest) -> str:
        return f"You are {asked.body['model']}."

    with ModelServer(script) as server, openai_client(server) as client:
        said = [client.chat.completions.create(model=name, messages=MESSAGES) for name in ("a", "b")]
    assert [completion.choices[0].message.content for completion in said] == ["You are a.", "You are b."]


def test_what_a_script_raises_fails_the_test() -> None:
    def script(asked: ModelServerRequest) -> str:
        assert asked.body["model"] == "expected"
        return "Yes."

    with pytest.raises(AssertionError, match="expected"), ModelServer(script) as server:
        httpx2_post(server, expect=httpx2.RemoteProtocolError)


def test_a_request_beyond_the_script_is_refused() -> None:
    with ModelServer([]) as server:
        response = httpx2.post(f"{server.openai_url}/chat/completions", json={})
    assert (response.status_code, response.json()["error"]["message"]) == (400, "the script has no more answers")


def test_a_body_that_is_not_an_object_is_an_empty_one() -> None:
    with ModelServer(["Yes."]) as server:
        httpx2.post(f"{server.openai_url}/chat/completions", content=b"[1")
    assert server.requests[0].body == {}


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (ResetReply(), httpx2.ReadError),
        (ModelReply(ANSWER, cut_after=3), httpx2.RemoteProtocolError),
        (RawReply((b"data: 1\n\n",), cut=True), httpx2.RemoteProtocolError),
    ],
)
def test_a_connection_breaks_as_the_script_says(reply: Any, error: type[Exception]) -> None:
    with ModelServer([reply]) as server:
        httpx2_post(server, expect=error)


def test_bytes_are_sent_as_they_are() -> None:
    with ModelServer([RawReply((b"<html>", b"", b"</html>"), content_type="text/html", status=502)]) as server:
        response = httpx2.post(f"{server.openai_url}/chat/completions", json={})
    assert (response.status_code, response.text) == (502, "<html></html>")
    assert response.headers["content-type"] == "text/html"


def test_a_client_that_leaves_is_noticed() -> None:
    with ModelServer([ModelReply(ANSWER, first_after=60)]) as server:
        with pytest.raises(httpx2.ReadTimeout):
            httpx2.post(f"{server.openai_url}/chat/completions", json={}, timeout=httpx2.Timeout(10, read=0.1))
        assert server.requests[0].disconnected.wait(10)


async def test_leaving_the_block_ends_what_is_still_being_said() -> None:
    async def ask(server: ModelServer) -> None:
        with pytest.raises((httpx2.RemoteProtocolError, httpx2.ReadError)):
            async with httpx2.AsyncClient(verify=False) as client:
                await client.post(f"{server.openai_url}/chat/completions", json={})

    with ModelServer([ModelReply(ANSWER, first_after=60)]) as server:
        task = asyncio.create_task(ask(server))
        async with asyncio.timeout(10):
            while not server.requests:
                await asyncio.sleep(0.001)
    await task


def test_its_variables_lead_both_clients_to_it() -> None:
    with ModelServer([]) as server:
        assert server.environment["OPENAI_BASE_URL"] == server.openai_url
        assert server.environment["ANTHROPIC_BASE_URL"] == server.anthropic_url


def httpx2_post(server: ModelServer, *, expect: type[Exception]) -> None:
    with pytest.raises(expect):
        httpx2.post(f"{server.openai_url}/chat/completions", json={"model": "m", "stream": True})


MODEL_SERVER_ANTHROPIC_ANSWER = ModelResponse("Hello", (ToolCall("a", "run", '{"x": 1}'),), Usage(9, 4, 3))


def events(answer: ModelResponse) -> list[Any]:
    found: list[Any] = []
    for sent in anthropic_events(answer, {"model": "m"}, 4):
        name, data = sent.decode().strip().split("\n")
        found.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {found[-1]['type']}"
    return found


def test_blocks_are_begun_written_and_ended() -> None:
    found = events(MODEL_SERVER_ANTHROPIC_ANSWER)
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
    assert [event["type"] for event in events(ModelResponse())] == [
        "message_start",
        "ping",
        "message_delta",
        "message_stop",
    ]


def test_a_whole_answer_has_it_all() -> None:
    body = anthropic_body(MODEL_SERVER_ANTHROPIC_ANSWER, {"model": "m"})
    assert [block["type"] for block in body["content"]] == ["text", "tool_use"]
    assert (body["content"][1]["input"], body["usage"]["output_tokens"]) == ({"x": 1}, 4)


def test_an_error_has_a_kind_that_fits_its_status() -> None:
    assert anthropic_error(ErrorReply(529, "busy"))["error"] == {"type": "overloaded_error", "message": "busy"}
    assert anthropic_error(ErrorReply(502))["error"]["type"] == "api_error"


POST = b"POST /v1/messages HTTP/1.1\r\nHost: here\r\nX-Team:  skills \r\nContent-Length: 2\r\n\r\n{}"
LAST = POST.replace(b"Host: here", b"Host: here\r\nConnection: close")


async def send(server: ModelServer, data: bytes, *, ends: bool = False) -> bytes:
    """Everything that the server says until it closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.anthropic_url.rpartition(":")[2]))
    try:
        async with asyncio.timeout(10):
            writer.write(data)
            if ends:
                writer.write_eof()
            return await reader.read()
    finally:
        writer.close()


async def test_requests_come_one_after_another_until_the_client_is_done() -> None:
    with ModelServer(["one", "two"]) as server:
        said = await send(server, POST + LAST)
    assert said.count(b"HTTP/1.1 200 OK") == 2
    expected = {"host": "here", "x-team": "skills", "content-length": "2"}
    assert [asked.path for asked in server.requests] == ["/v1/messages"] * 2
    assert server.requests[0].headers == expected
    assert server.connections == 1


async def test_half_a_request_is_none() -> None:
    with ModelServer(["one"]) as server:
        assert await send(server, POST[:-1], ends=True) == b""
    assert server.requests == []


async def test_answers_are_whole_or_in_chunks() -> None:
    with ModelServer([ErrorReply(429, "ü", headers={"retry-after": "3"}), RawReply((b"data: 1\n\n", b""))]) as server:
        said = await send(server, POST + LAST)
    whole, chunked = said.split(b"HTTP/1.1 ")[1:]
    assert whole.startswith(b"429 Too Many Requests\r\ncontent-type: application/json\r\ncontent-length: ")
    assert b"retry-after: 3\r\n\r\n{" in whole
    assert "ü".encode() in whole
    assert chunked == (
        b"200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n0\r\n\r\n"
    )


async def test_silence_ends_when_the_client_leaves() -> None:
    arrived = threading.Event()

    def reply(_: ModelServerRequest) -> ModelReply:
        arrived.set()
        return ModelReply(ANSWER, first_after=60)

    with ModelServer(reply) as server:
        _, writer = await asyncio.open_connection("127.0.0.1", int(server.anthropic_url.rpartition(":")[2]))
        writer.write(POST)
        await asyncio.to_thread(arrived.wait, 10)
        writer.close()
        assert await asyncio.to_thread(server.requests[0].disconnected.wait, 10)


async def test_a_reset_is_an_error_to_the_client() -> None:
    with ModelServer([ResetReply()]) as server, pytest.raises(ConnectionResetError):
        await send(server, POST)


MODEL_SERVER_OPENAI_ANSWER = ModelResponse("Hello", (ToolCall("a", "run", '{"x": 1}'),), Usage(9, 4, 3))


def chunks(asked: dict[str, Any]) -> list[Any]:
    data = [line.removeprefix(b"data: ").strip() for line in openai_events(MODEL_SERVER_OPENAI_ANSWER, asked, 4)]
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


def test_a_whole_answer_has_it_all_in_model_server_openai() -> None:
    body = openai_body(MODEL_SERVER_OPENAI_ANSWER, {"model": "m"})
    assert body["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "run"
    assert (body["model"], body["usage"]["prompt_tokens_details"]) == ("m", {"cached_tokens": 3})


def test_an_error_has_a_kind_that_fits_its_status_in_model_server_openai() -> None:
    assert openai_error(ErrorReply(429, "slow down"))["error"]["code"] == "rate_limit_exceeded"
    assert openai_error(ErrorReply(429, kind="insufficient_quota"))["error"]["type"] == "insufficient_quota"


def test_an_event_has_a_name_when_it_is_given_one() -> None:
    assert event({"a": "ü"}) == 'data: {"a": "ü"}\n\n'.encode()
    assert event("[DONE]", "end") == b"event: end\ndata: [DONE]\n\n"


def test_pieces_make_up_the_text() -> None:
    assert split_text("abcdefg", 3) == ["abc", "def", "g"]
    assert split_text("", 3) == []
