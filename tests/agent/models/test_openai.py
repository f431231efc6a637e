"""What is particular to servers that speak OpenAI's protocol.

Chunks of chat completions, as all kinds of servers send them.

Requests for servers that speak OpenAI's protocol, well or less well.
"""

import asyncio
import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.agent.models.model import ModelRequest, ModelResponse, ToolCall, Usage
from openskills.agent.models.openai import ApiDialect, OpenAIModel, OpenAIResponseParser, build_request_body
from openskills.errors import InvalidArgument, MissingExtra, ModelUnavailable, Unauthorized
from openskills.settings import Settings
from openskills.testing.model_server import (
    ErrorReply,
    ModelReply,
    ModelServer,
    ModelServerRequest,
    RawReply,
    ScriptedReply,
    event,
)
from tests.agent.asking import HELLO, KEY, TOOL, AnyModel, answer, make_openai, using

LIMITED = ModelRequest(HELLO.messages, max_output_tokens=5, json_schema={"type": "object"})


async def test_a_request_goes_to_chat_completions_with_the_key() -> None:
    with ModelServer(["Yes."]) as server:
        await answer(make_openai(server, organization="org-1", project="proj-1"))
    (asked,) = server.requests
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert (asked.headers["openai-organization"], asked.headers["openai-project"]) == ("org-1", "proj-1")
    assert asked.body["stream_options"] == {"include_usage": True}


def narrow(asked: ModelServerRequest) -> ScriptedReply:
    """A server that knows less than OpenAI's, and says so one field at a time."""
    for field in ("stream_options", "max_completion_tokens", "response_format"):
        if field in asked.body:
            return ErrorReply(400, f"unknown field: {field}")
    return ModelResponse("Yes.", usage=Usage(9, 3))


async def test_what_a_server_does_not_know_is_left_out_from_then_on() -> None:
    async def twice(model: AnyModel) -> list[ModelResponse]:
        async with using(model):
            streams = [[event async for event in model.stream(LIMITED)] for _ in range(2)]
        return [event for events in streams for event in events if isinstance(event, ModelResponse)]

    with ModelServer(narrow) as server:
        answers = await twice(make_openai(server))
    assert [found.text for found in answers] == ["Yes.", "Yes."]
    assert len(server.requests) == 5
    assert server.requests[-1].body["max_tokens"] == 5


async def test_tasks_that_learn_it_at_the_same_time_do_not_disturb_each_other() -> None:
    async def many(model: AnyModel) -> list[str]:
        async def one() -> str:
            last = [event async for event in model.stream(LIMITED)][-1]
            return last.text

        async with using(model):
            return await asyncio.gather(*(one() for _ in range(20)))

    with ModelServer(narrow) as server:
        assert await many(make_openai(server)) == ["Yes."] * 20


async def test_a_field_of_the_caller_that_a_server_does_not_know_is_reported() -> None:
    def refuse(_: ModelServerRequest) -> ErrorReply:
        return ErrorReply(400, "unknown field: stream_options")

    with ModelServer(refuse) as server, pytest.raises(InvalidArgument, match="unknown field: stream_options"):
        await answer(make_openai(server, extra={"stream_options": {"include_usage": True}}))
    assert len(server.requests) == 2


async def test_a_server_that_never_says_why_it_ended_but_says_that_it_is_done_is_believed() -> None:
    chunk = {"choices": [{"index": 0, "delta": {"content": "Yes."}, "finish_reason": None}]}
    with ModelServer([RawReply((event(chunk), event("[DONE]")))]) as server:
        assert (await answer(make_openai(server))).text == "Yes."


async def test_an_answer_that_ends_without_a_last_word_was_cut() -> None:
    chunk = {"choices": [{"index": 0, "delta": {"content": "Ye"}, "finish_reason": None}]}
    with ModelServer([RawReply((event(chunk),))]) as server, pytest.raises(ModelUnavailable, match="it was cut off"):
        await answer(make_openai(server))


async def test_an_error_in_the_middle_of_an_answer_is_reported() -> None:
    chunk = {"choices": [{"index": 0, "delta": {"content": "Ye"}}]}
    error = {"error": {"message": "The server had an error", "type": "server_error", "code": None}}
    with (
        ModelServer([RawReply((event(chunk), event(error)))]) as server,
        pytest.raises(ModelUnavailable, match="The server had an error; the response was cut off"),
    ):
        await answer(make_openai(server))


async def test_calls_of_an_earlier_answer_and_garbage_in_them_can_be_sent_back() -> None:
    garbage = ModelResponse("", (ToolCall("c", "functions.skill_run", '{"x": '),))

    async def two_turns(model: AnyModel) -> ModelResponse:
        async with using(model):
            said = [event async for event in model.stream(HELLO)][-1]
            assert isinstance(said, ModelResponse)
            result = {"role": "tool", "tool_call_id": said.calls[0].id, "content": "no such tool"}
            request = ModelRequest([*HELLO.messages, said.to_message(), result])
            last = [event async for event in model.stream(request)][-1]
            assert isinstance(last, ModelResponse)
            return last

    with ModelServer([ModelReply(garbage), ModelResponse("", (ToolCall("c", "skill_run", "{}"),))]) as server:
        second = await two_turns(make_openai(server))
    sent = server.requests[1].body["messages"][1]["tool_calls"][0]["function"]
    assert sent == {"name": "functions_skill_run", "arguments": '{"invalid_json": "{\\"x\\":"}'}
    assert second.calls == (ToolCall("c-2", "skill_run", "{}"),)


async def test_key_and_server_come_from_the_settings() -> None:
    with ModelServer(["Yes."]) as server:
        settings = Settings.from_env(server.environment)
        model = OpenAIModel.from_settings("gpt-test", settings)
        assert (await answer(model)).text == "Yes."
    assert server.requests[0].headers["authorization"] == "Bearer test-key"
    assert model.name == "openai/gpt-test"


def test_without_a_key_the_variable_to_set_is_named() -> None:
    with pytest.raises(Unauthorized, match="openai/gpt-5 needs a key; set OPENAI_API_KEY"):
        OpenAIModel.from_settings("gpt-5", Settings.from_env({}))


def test_without_the_package_the_extra_to_install_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(MissingExtra, match=r"pip install 'openskill-runtime\[openai\]'"):
        OpenAIModel("gpt-5", api_key=KEY)


NAMES = (
    *("choices", "delta", "message", "content", "tool_calls", "function", "name", "arguments", "index", "id"),
    *("usage", "prompt_tokens", "finish_reason", "model", "refusal", "text", "prompt_tokens_details"),
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(NAMES),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)


def delta(reason: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"model": "m", "choices": [{"index": 0, "delta": fields, "finish_reason": reason}]}


def piece(arguments: object = None, **fields: Any) -> dict[str, Any]:
    name = fields.pop("name", None)
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {**fields, "function": function}


def folded(*chunks: object) -> ModelResponse:
    answer = OpenAIResponseParser()
    text = "".join([answer.add(chunk) for chunk in chunks] + [answer.flush()])
    whole = answer.build_response(ModelRequest([]))
    assert whole.text == text
    return whole


def calls(*chunks: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    found = folded(*(delta(tool_calls=pieces) for pieces in chunks), delta("tool_calls"))
    return [(call.id, call.name, call.arguments) for call in found.calls]


def test_pieces_of_interleaved_calls_find_their_call() -> None:
    assert calls(
        [piece("", index=0, id="a", name="one"), piece("", index=1, id="b", name="two")],
        [piece('{"x"', index=1)],
        [piece('{"y"', index=0), piece(": 2}", index=1)],
        [piece(": 1}", index=0)],
    ) == [("a", "one", '{"y": 1}'), ("b", "two", '{"x": 2}')]


def test_calls_without_an_index_are_told_apart_by_their_ids() -> None:
    assert calls(
        [piece("{}", id="a", name="one")],
        [piece('{"x"', id="b", name="two")],
        [piece(": 1}")],
    ) == [("a", "one", "{}"), ("b", "two", '{"x": 1}')]


def test_calls_without_index_and_id_are_told_apart_by_their_names() -> None:
    assert calls([piece("{}", name="one")], [piece('{"x": 1}', name="one")]) == [
        ("call", "one", "{}"),
        ("call-2", "one", '{"x": 1}'),
    ]


def test_several_calls_of_one_chunk_without_an_index_are_several() -> None:
    assert calls([piece("{}", id="a", name="one"), piece("{}", id="b", name="two")]) == [
        ("a", "one", "{}"),
        ("b", "two", "{}"),
    ]


def test_calls_that_all_have_the_same_index_are_told_apart_by_their_ids() -> None:
    assert calls([piece("{}", index=0, id="a", name="one")], [piece("{}", index=0, id="b", name="two")]) == [
        ("a", "one", "{}"),
        ("b", "two", "{}"),
    ]


def test_an_id_and_a_name_that_come_with_every_piece_are_taken_once() -> None:
    assert calls(
        [piece('{"x"', index=0, id="a", name="one")],
        [piece(": 1}", index=0, id="a", name="one")],
    ) == [("a", "one", '{"x": 1}')]


def test_a_name_in_pieces_is_put_together() -> None:
    assert calls([piece("", index=0, id="a", name="skill_")], [piece("{}", index=0, name="load")]) == [
        ("a", "skill_load", "{}")
    ]


def test_the_same_id_for_different_calls_is_made_two() -> None:
    assert calls([piece("{}", index=0, id="a", name="one"), piece("{}", index=1, id="a", name="two")]) == [
        ("a", "one", "{}"),
        ("a-2", "two", "{}"),
    ]


def test_arguments_that_come_as_an_object_become_text() -> None:
    assert calls([piece({"skill": "表格"}, index=0, id="a", name="one")]) == [("a", "one", '{"skill": "表格"}')]


def test_chunks_without_a_choice_and_fields_for_others_are_not_text() -> None:
    found = folded(
        {"choices": []},
        {"model": "m", "choices": None},
        delta(role="assistant", content=None, reasoning_content="Let me think", reasoning="hm"),
        delta(content="Hello"),
        {"choices": [{"index": 1, "delta": {"content": "another answer"}}]},
        delta("stop"),
    )
    assert (found.text, found.model, found.stop) == ("Hello", "m", "stop")


def test_text_in_parts_is_text_and_thoughts_in_parts_are_not() -> None:
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "Hello"}]
    assert folded(delta(content=parts), delta("stop")).text == "Hello"


def test_the_words_of_a_refusal_are_text_and_the_reason_says_so() -> None:
    found = folded(delta(refusal="I can"), delta(refusal="not."), delta("stop"))
    assert (found.text, found.stop) == ("I cannot.", "refusal")


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("stop", "stop"),
        ("STOP", "stop"),
        ("eos", "stop"),
        ("", "stop"),
        ("length", "length"),
        ("max_tokens", "length"),
        ("content_filter", "content_filter"),
        ("function_call", "tool_calls"),
    ],
)
def test_every_word_for_the_end_is_known_or_passed_on(reason: str, stop: str) -> None:
    assert folded(delta(reason)).stop == stop


def test_an_answer_with_calls_that_claims_to_have_stopped_has_calls() -> None:
    assert folded(delta("stop", tool_calls=[piece("{}", index=0, id="a", name="one")])).stop == "tool_calls"


def test_an_answer_is_complete_when_the_server_says_why_it_ended() -> None:
    answer = OpenAIResponseParser()
    answer.add(delta(content="Hello"))
    assert not answer.is_complete
    answer.add(delta("stop"))
    assert answer.is_complete


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 5}}, Usage(9, 2, 5)),
        ({"prompt_tokens": 9, "completion_tokens": 2, "prompt_cache_hit_tokens": 4}, Usage(9, 2, 4)),
        ({"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": None}, Usage(9, 2, 0)),
        ({"prompt_tokens": "many", "completion_tokens": -2}, Usage()),
        (None, Usage()),
    ],
)
def test_usage_is_read_as_servers_tell_it(usage: object, counted: Usage) -> None:
    assert folded(delta("stop"), {"choices": [], "usage": usage}).usage == counted


def test_usage_that_grows_with_every_chunk_is_the_last() -> None:
    first, last = ({"prompt_tokens": 9, "completion_tokens": number} for number in (1, 7))
    assert folded({**delta(content="a"), "usage": first}, {**delta("stop"), "usage": last}).usage == Usage(9, 7)


def test_a_character_in_two_chunks_is_one_character() -> None:
    answer = OpenAIResponseParser()
    assert [answer.add(delta(content=half)) for half in ("\ud83d", "\ude00")] == ["", "😀"]


def test_a_model_that_is_not_named_is_the_one_that_was_asked() -> None:
    assert OpenAIResponseParser("asked").build_response(ModelRequest([])).model == "asked"


def test_a_call_without_a_name_still_comes_to_somebody_who_can_complain() -> None:
    assert folded(delta("stop", tool_calls=[{"index": 0}])).calls == (ToolCall("call", "unnamed_tool", "{}"),)


@given(st.lists(ANYTHING, max_size=6))
def test_nothing_that_a_server_sends_breaks_it(chunks: list[Any]) -> None:
    found = folded(*chunks)
    assert len({call.id for call in found.calls}) == len(found.calls)
    found.text.encode()


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
    assert build_request_body("gpt-test", ModelRequest([message]), ApiDialect()) == {
        "model": "gpt-test",
        "messages": [message],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_limits_temperature_and_tools_are_passed_on() -> None:
    request = ModelRequest([], [TOOL], max_output_tokens=100, temperature=0.0)
    body = build_request_body("gpt-test", request, ApiDialect())
    assert (body["tools"], body["max_completion_tokens"], body["temperature"]) == ([TOOL], 100, 0.0)


@pytest.mark.parametrize(("schema", "strict"), [(STRICT, True), (LOOSE, False), ({"items": [LOOSE]}, False)])
def test_a_schema_is_promised_strictly_only_where_that_is_possible(schema: dict[str, Any], strict: bool) -> None:
    body = build_request_body("gpt-test", ModelRequest([], json_schema=schema), ApiDialect())
    wanted = {"name": "answer", "schema": schema, "strict": strict}
    assert body["response_format"] == {"type": "json_schema", "json_schema": wanted}


@pytest.mark.parametrize("arguments", ['{"a": 1}', "{}"])
def test_arguments_that_are_an_object_are_sent_byte_for_byte(arguments: str) -> None:
    body = build_request_body("gpt-test", ModelRequest([call(arguments)]), ApiDialect())
    assert body["messages"] == [call(arguments)]


def test_arguments_that_are_not_an_object_are_sent_as_one_and_the_message_stays_the_same() -> None:
    message = call('{"a": ')
    body = build_request_body("gpt-test", ModelRequest([message]), ApiDialect())
    assert json.loads(body["messages"][0]["tool_calls"][0]["function"]["arguments"]) == {"invalid_json": '{"a":'}
    assert message == call('{"a": ')


def test_what_a_server_does_not_know_is_left_out() -> None:
    request = ModelRequest([], max_output_tokens=5, json_schema=LOOSE)
    body = build_request_body("gpt-test", request, ApiDialect(usage=False, max_tokens="max_tokens", json_schema=False))
    assert body == {"model": "gpt-test", "messages": [], "stream": True, "max_tokens": 5}


@pytest.mark.parametrize(
    ("said", "then"),
    [
        ("Unknown field: stream_options", ApiDialect(usage=False)),
        ('{"loc": ["body", "stream_options"], "msg": "extra fields not permitted"}', ApiDialect(usage=False)),
        ("unexpected 'max_completion_tokens'", ApiDialect(max_tokens="max_tokens")),
        ("This response_format type is unavailable now", ApiDialect(json_schema=False)),
        ("Invalid schema for response_format 'answer': 'a' is missing", None),
        ("no such model", None),
        ("", None),
    ],
)
def test_a_refusal_teaches_what_to_leave_out(said: str, then: ApiDialect | None) -> None:
    request = ModelRequest([], max_output_tokens=5, json_schema=LOOSE)
    assert ApiDialect().simplify(build_request_body("gpt-test", request, ApiDialect()), said) == then


def test_a_refusal_of_what_was_not_sent_teaches_nothing() -> None:
    body = build_request_body("gpt-test", ModelRequest([]), ApiDialect(usage=False))
    assert ApiDialect().simplify(body, "stream_options, max_completion_tokens, response_format") is None


def test_what_another_providers_model_thought_is_not_sent() -> None:
    thoughtful = ModelResponse("At once.", (ToolCall("a", "run", "{}"),), thinking={"blocks": []}).to_message()
    broken = ModelResponse("", (ToolCall("a", "run", "{"),), thinking={"blocks": []}).to_message()
    for message in (thoughtful, broken):
        (sent,) = build_request_body("m", ModelRequest([message]), ApiDialect())["messages"]
        assert "thinking" in message
        assert "thinking" not in sent
