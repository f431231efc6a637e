"""The server of tests, as the official clients see it."""

import asyncio
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from openskills.agent.model import Answer, ToolCall, Usage
from openskills.testing import Asked, ModelServer, RawReply, Refusal, Reply, Reset

ANSWER = Answer("Hello", (ToolCall("call_1", "run", '{"x": 1}'),), Usage(9, 4, 3))
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
    refusal = Refusal(429, "slow down", headers={"retry-after": "3"})
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
    assert not asked.left.is_set()


def test_a_script_that_is_a_function_answers_each_request() -> None:
    def script(asked: Asked) -> str:
        return f"You are {asked.body['model']}."

    with ModelServer(script) as server, openai_client(server) as client:
        said = [client.chat.completions.create(model=name, messages=MESSAGES) for name in ("a", "b")]
    assert [completion.choices[0].message.content for completion in said] == ["You are a.", "You are b."]


def test_what_a_script_raises_fails_the_test() -> None:
    def script(asked: Asked) -> str:
        assert asked.body["model"] == "expected"
        return "Yes."

    with pytest.raises(AssertionError, match="expected"), ModelServer(script) as server:
        httpx2_post(server, expect=httpx2.RemoteProtocolError)


def test_a_request_beyond_the_script_is_refused() -> None:
    with ModelServer([]) as server:
        response = httpx2.post(f"{server.openai_url}/chat/completions", json={})
    assert (response.status_code, response.json()["error"]["message"]) == (400, "the script has no more answers")


def test_a_body_that_is_no_object_is_an_empty_one() -> None:
    with ModelServer(["Yes."]) as server:
        httpx2.post(f"{server.openai_url}/chat/completions", content=b"[1")
    assert server.requests[0].body == {}


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (Reset(), httpx2.ReadError),
        (Reply(ANSWER, cut_after=3), httpx2.RemoteProtocolError),
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
    with ModelServer([Reply(ANSWER, first_after=60)]) as server:
        with pytest.raises(httpx2.ReadTimeout):
            httpx2.post(f"{server.openai_url}/chat/completions", json={}, timeout=httpx2.Timeout(10, read=0.1))
        assert server.requests[0].left.wait(10)


def test_leaving_the_block_ends_what_is_still_being_said() -> None:
    async def ask(server: ModelServer) -> None:
        with pytest.raises((httpx2.RemoteProtocolError, httpx2.ReadError)):
            async with httpx2.AsyncClient() as client:
                await client.post(f"{server.openai_url}/chat/completions", json={})

    async def leave() -> None:
        with ModelServer([Reply(ANSWER, first_after=60)]) as server:
            task = asyncio.create_task(ask(server))
            async with asyncio.timeout(10):
                while not server.requests:
                    await asyncio.sleep(0.001)
        await task

    asyncio.run(leave())


def test_its_variables_lead_both_clients_to_it() -> None:
    with ModelServer([]) as server:
        assert server.environment["OPENAI_BASE_URL"] == server.openai_url
        assert server.environment["ANTHROPIC_BASE_URL"] == server.anthropic_url


def httpx2_post(server: ModelServer, *, expect: type[Exception]) -> None:
    with pytest.raises(expect):
        httpx2.post(f"{server.openai_url}/chat/completions", json={"model": "m", "stream": True})
