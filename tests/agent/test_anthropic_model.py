"""What is particular to Anthropic's Messages API."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from openskills.agent.agent import Agent
from openskills.agent.anthropic_model import AnthropicModel
from openskills.agent.model import Answer, ModelRequest, ToolCall
from openskills.agent.runner import Runner
from openskills.errors import InvalidArgument, MissingExtra, ModelUnavailable, Unauthorized
from openskills.runtime.options import SessionOptions
from openskills.runtime.runtime import SkillRuntime
from openskills.settings import Settings
from openskills.testing import ModelServer, RawReply, Reply, event
from tests.agent.asking import HELLO, KEY, TOOL, AnyModel, Waits, answer, make_anthropic, using
from tests.agent.rule_requests import catalog_in
from tests.agent.wire.anthropic_rules import faults
from tests.tools.contexts import settings_in

START = {"type": "message_start", "message": {"model": "claude-test", "usage": {"input_tokens": 1}}}
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


def sse(*events: dict[str, Any]) -> RawReply:
    return RawReply(tuple(event(data, data["type"]) for data in events))


def text(value: str) -> list[dict[str, Any]]:
    begun = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    return [begun, {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": value}}]


def test_a_request_goes_to_messages_with_the_key_and_marks_for_the_cache() -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
    with ModelServer(["Yes."]) as server:
        asyncio.run(answer(make_anthropic(server), ModelRequest(messages, [TOOL], temperature=0.5)))
    (asked,) = server.requests
    assert asked.path == "/v1/messages"
    assert KEY in (asked.headers.get("x-api-key", "") + asked.headers.get("authorization", ""))
    assert asked.headers["anthropic-version"]
    assert not faults(asked.body)
    mark = {"type": "ephemeral"}
    assert asked.body["tools"][-1]["cache_control"] == mark
    assert asked.body["system"] == [{"type": "text", "text": "Be brief.", "cache_control": mark}]
    assert asked.body["messages"][-1]["content"][-1]["cache_control"] == mark


def test_a_server_without_a_cache_need_not_see_marks() -> None:
    with ModelServer(["Yes."]) as server:
        asyncio.run(answer(make_anthropic(server, cache=False)))
    assert "cache_control" not in str(server.requests[0].body)


def test_a_schema_is_asked_for_beside_the_effort_of_the_caller() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    with ModelServer(["{}"]) as server:
        model = make_anthropic(server, extra={"output_config": {"effort": "low"}})
        asyncio.run(answer(model, ModelRequest(HELLO.messages, json_schema=schema)))
    wanted = {"type": "json_schema", "schema": {**schema, "additionalProperties": False}}
    assert server.requests[0].body["output_config"] == {"effort": "low", "format": wanted}


def test_a_schema_beyond_the_client_is_for_the_api_to_judge() -> None:
    schema: dict[str, Any] = {"properties": {"a": {}}}
    with ModelServer(["{}"]) as server:
        asyncio.run(answer(make_anthropic(server), ModelRequest(HELLO.messages, json_schema=schema)))
    assert server.requests[0].body["output_config"]["format"]["schema"] == schema


def test_an_overload_that_is_told_in_the_answer_is_waited_for() -> None:
    waits = Waits()
    with ModelServer([sse(START, OVERLOADED), "Yes."]) as server:
        assert asyncio.run(answer(make_anthropic(server, retrying=waits.retrying()))).text == "Yes."
    assert waits.seconds == [1]


def test_an_overload_in_the_middle_of_an_answer_is_told() -> None:
    with (
        ModelServer([sse(START, *text("Ye"), OVERLOADED)]) as server,
        pytest.raises(ModelUnavailable, match=r"Overloaded \(529\); the answer broke off in the middle"),
    ):
        asyncio.run(answer(make_anthropic(server)))


def test_a_refusal_within_an_answer_is_not_tried_again() -> None:
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": "too many images"}}
    with (
        ModelServer([sse(START, error)]) as server,
        pytest.raises(InvalidArgument, match=r"too many images \(refused, 400\)"),
    ):
        asyncio.run(answer(make_anthropic(server)))


def test_events_of_a_later_version_are_passed_over() -> None:
    later = {"type": "aside", "index": 7, "content": "?"}
    reply = sse(START, later, *text("Yes."), {"type": "message_stop"})
    with ModelServer([reply]) as server:
        assert asyncio.run(answer(make_anthropic(server))).text == "Yes."


def thoughtful(arguments: str, signature: str = "signed") -> RawReply:
    """An answer that loads a skill after some thought."""
    thought = {"type": "thinking", "thinking": "", "signature": ""}
    call: dict[str, Any] = {"type": "tool_use", "id": "toolu_1", "name": "skill_load", "input": {}}
    return sse(
        START,
        {"type": "content_block_start", "index": 0, "content_block": thought},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": signature}},
        {"type": "content_block_start", "index": 1, "content_block": call},
        {
            "type": "content_block_delta",
            "index": 1,
            "delta": {"type": "input_json_delta", "partial_json": arguments},
        },
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    )


def test_thoughts_before_a_call_come_back_with_its_result() -> None:
    async def two_steps(model: AnyModel) -> None:
        async with using(model):
            said = [found async for found in model.stream(HELLO)][-1]
            assert isinstance(said, Answer)
            result = {"role": "tool", "tool_call_id": said.calls[0].id, "content": "loaded"}
            request = ModelRequest([*HELLO.messages, said.message(), result])
            assert [found async for found in model.stream(request)]

    with ModelServer([thoughtful('{"skill": "a"}'), "Done."]) as server:
        asyncio.run(two_steps(make_anthropic(server)))
    assert server.requests[1].body["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "", "signature": "signed"},
        {"type": "tool_use", "id": "toolu_1", "name": "skill_load", "input": {"skill": "a"}},
    ]
    assert not faults(server.requests[1].body)


def test_thoughts_are_in_the_log_and_come_back_after_a_restart_and_only_to_their_model(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/sessions.db"
    catalog = catalog_in(tmp_path, alpha="Does a thing. Use when asked.")
    options = SessionOptions(load_mode="session")

    async def said(server: ModelServer, message: str, model: str = "claude-test") -> None:
        async with SkillRuntime(catalog, store=store, settings=settings_in(tmp_path), options=options) as runtime:
            asked = AnthropicModel(model, base_url=server.anthropic_url, api_key=KEY)
            reply = await Runner("app", Agent("assistant", asked, runtime)).reply(
                user="u", session="s", message=message
            )
            assert reply.error is None
            await asked.close()

    load = '{"skill": "alpha"}'
    with ModelServer([thoughtful(load, "one"), thoughtful(load, "two"), "Done.", "Again.", "Others."]) as server:
        asyncio.run(said(server, "hello"))
        asyncio.run(said(server, "go on"))
        asyncio.run(said(server, "and you?", "claude-other"))
    before, again, other = (server.requests[number].body for number in (2, 3, 4))
    signed = [
        [
            block.get("signature")
            for turn in body["messages"]
            for block in turn["content"]
            if block["type"] == "thinking"
        ]
        for body in (before, again, other)
    ]
    assert signed == [["one", "two"], ["one", "two"], []]
    assert not any(faults(body) for body in (before, again, other))


def test_a_conversation_that_grows_sends_the_same_bytes_before() -> None:
    """What is behind the marks of one request begins the next, marks aside."""
    calls = Answer("", (ToolCall("a", "skill_load", '{"skill": "x"}'),))

    async def two_steps(model: AnyModel) -> None:
        async with using(model):
            assert [found async for found in model.stream(HELLO)]
            result = {"role": "tool", "tool_call_id": "a", "content": "loaded"}
            request = ModelRequest([*HELLO.messages, calls.message(), result])
            assert [found async for found in model.stream(request)]

    with ModelServer([Reply(calls), "Done."]) as server:
        asyncio.run(two_steps(make_anthropic(server)))
    first, second = (asked.body["messages"] for asked in server.requests)
    assert _unmarked(second[: len(first)]) == _unmarked(first)


def test_a_token_is_taken_in_place_of_a_key() -> None:
    with ModelServer(["Yes."]) as server:
        env = {**server.environment, "ANTHROPIC_API_KEY": "", "ANTHROPIC_AUTH_TOKEN": "a-token"}
        model = AnthropicModel.from_settings("claude-test", Settings.from_env(env))
        asyncio.run(answer(model))
    assert server.requests[0].headers["authorization"] == "Bearer a-token"
    assert model.name == "anthropic/claude-test"


def test_without_a_key_the_variable_to_set_is_named() -> None:
    with pytest.raises(Unauthorized, match="anthropic/claude-test needs a key; set ANTHROPIC_API_KEY"):
        AnthropicModel.from_settings("claude-test", Settings.from_env({}))


def test_without_the_package_the_extra_to_install_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(MissingExtra, match=r"pip install 'openskills\[anthropic\]'"):
        AnthropicModel("claude-test", api_key=KEY)


def _unmarked(messages: list[dict[str, Any]]) -> list[Any]:
    blocks = [(said["role"], block) for said in messages for block in said["content"]]
    return [(role, {**block, "cache_control": None}) for role, block in blocks]
