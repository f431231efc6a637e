"""What is particular to servers that speak OpenAI's protocol."""

import asyncio
import sys

import pytest

from openskills.agent.model import Answer, ModelRequest, ToolCall, Usage
from openskills.agent.openai_model import OpenAIModel
from openskills.errors import InvalidArgument, MissingExtra, ModelUnavailable, Unauthorized
from openskills.settings import Settings
from openskills.testing import Asked, ModelServer, RawReply, Refusal, Reply, event
from openskills.testing.model_server_replies import Scripted
from tests.agent.asking import HELLO, KEY, AnyModel, answer, make_openai, using

LIMITED = ModelRequest(HELLO.messages, max_output_tokens=5, json_schema={"type": "object"})


def test_a_request_goes_to_chat_completions_with_the_key() -> None:
    with ModelServer(["Yes."]) as server:
        asyncio.run(answer(make_openai(server, organization="org-1", project="proj-1")))
    (asked,) = server.requests
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert (asked.headers["openai-organization"], asked.headers["openai-project"]) == ("org-1", "proj-1")
    assert asked.body["stream_options"] == {"include_usage": True}


def narrow(asked: Asked) -> Scripted:
    """A server that knows less than OpenAI's, and says so one field at a time."""
    for field in ("stream_options", "max_completion_tokens", "response_format"):
        if field in asked.body:
            return Refusal(400, f"unknown field: {field}")
    return Answer("Yes.", usage=Usage(9, 3))


def test_what_a_server_does_not_know_is_left_out_from_then_on() -> None:
    async def twice(model: AnyModel) -> list[Answer]:
        async with using(model):
            streams = [[event async for event in model.stream(LIMITED)] for _ in range(2)]
        return [event for events in streams for event in events if isinstance(event, Answer)]

    with ModelServer(narrow) as server:
        answers = asyncio.run(twice(make_openai(server)))
    assert [found.text for found in answers] == ["Yes.", "Yes."]
    assert len(server.requests) == 5
    assert server.requests[-1].body["max_tokens"] == 5


def test_tasks_that_learn_it_at_the_same_time_do_not_disturb_each_other() -> None:
    async def many(model: AnyModel) -> list[str]:
        async def one() -> str:
            last = [event async for event in model.stream(LIMITED)][-1]
            return last.text

        async with using(model):
            return await asyncio.gather(*(one() for _ in range(20)))

    with ModelServer(narrow) as server:
        assert asyncio.run(many(make_openai(server))) == ["Yes."] * 20


def test_a_field_of_the_caller_that_a_server_does_not_know_is_told() -> None:
    def refuse(_: Asked) -> Refusal:
        return Refusal(400, "unknown field: stream_options")

    with ModelServer(refuse) as server, pytest.raises(InvalidArgument, match="unknown field: stream_options"):
        asyncio.run(answer(make_openai(server, extra={"stream_options": {"include_usage": True}})))
    assert len(server.requests) == 2


def test_a_server_that_never_says_why_it_ended_but_says_that_it_is_done_is_believed() -> None:
    chunk = {"choices": [{"index": 0, "delta": {"content": "Yes."}, "finish_reason": None}]}
    with ModelServer([RawReply((event(chunk), event("[DONE]")))]) as server:
        assert asyncio.run(answer(make_openai(server))).text == "Yes."


def test_an_answer_that_ends_without_a_last_word_was_cut() -> None:
    chunk = {"choices": [{"index": 0, "delta": {"content": "Ye"}, "finish_reason": None}]}
    with ModelServer([RawReply((event(chunk),))]) as server, pytest.raises(ModelUnavailable, match="it broke off"):
        asyncio.run(answer(make_openai(server)))


def test_an_error_in_the_middle_of_an_answer_is_told() -> None:
    chunk = {"choices": [{"index": 0, "delta": {"content": "Ye"}}]}
    error = {"error": {"message": "The server had an error", "type": "server_error", "code": None}}
    with (
        ModelServer([RawReply((event(chunk), event(error)))]) as server,
        pytest.raises(ModelUnavailable, match="The server had an error; the answer broke off in the middle"),
    ):
        asyncio.run(answer(make_openai(server)))


def test_calls_of_an_earlier_answer_and_garbage_in_them_can_be_sent_back() -> None:
    garbage = Answer("", (ToolCall("c", "functions.skill_run", '{"x": '),))

    async def two_turns(model: AnyModel) -> Answer:
        async with using(model):
            said = [event async for event in model.stream(HELLO)][-1]
            assert isinstance(said, Answer)
            result = {"role": "tool", "tool_call_id": said.calls[0].id, "content": "no such tool"}
            request = ModelRequest([*HELLO.messages, said.message(), result])
            last = [event async for event in model.stream(request)][-1]
            assert isinstance(last, Answer)
            return last

    with ModelServer([Reply(garbage), Answer("", (ToolCall("c", "skill_run", "{}"),))]) as server:
        second = asyncio.run(two_turns(make_openai(server)))
    sent = server.requests[1].body["messages"][1]["tool_calls"][0]["function"]
    assert sent == {"name": "functions_skill_run", "arguments": '{"invalid_json": "{\\"x\\":"}'}
    assert second.calls == (ToolCall("c-2", "skill_run", "{}"),)


def test_key_and_server_come_from_the_settings() -> None:
    with ModelServer(["Yes."]) as server:
        settings = Settings.from_env(server.environment)
        model = OpenAIModel.from_settings("gpt-test", settings)
        assert asyncio.run(answer(model)).text == "Yes."
    assert server.requests[0].headers["authorization"] == "Bearer test-key"
    assert model.name == "openai/gpt-test"


def test_without_a_key_the_variable_to_set_is_named() -> None:
    with pytest.raises(Unauthorized, match="openai/gpt-5 needs a key; set OPENAI_API_KEY"):
        OpenAIModel.from_settings("gpt-5", Settings.from_env({}))


def test_without_the_package_the_extra_to_install_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(MissingExtra, match=r"pip install 'openskills\[openai\]'"):
        OpenAIModel("gpt-5", api_key=KEY)
