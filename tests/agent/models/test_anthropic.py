"""What is particular to Anthropic's Messages API.

Events of the Messages API.

Marks for the prompt cache.

Parts of messages, as Claude can see them.

Conversations in OpenAI's style, told to Anthropic's API, which is strict.

Thoughts that a model reads again, in the conversation that they belong to and in no other.
"""

import base64
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.agent.agent import Agent
from openskills.agent.models.anthropic import (
    EARLIER,
    NO_RESULT,
    NOTHING,
    AnthropicModel,
    AnthropicResponseParser,
    add_cache_marks,
    build_request_body,
    content_to_blocks,
    count_stable_blocks,
    extract_thinking,
    restore_thinking,
    translate_messages,
)
from openskills.agent.models.model import ModelRequest, ModelResponse, ToolCall, Usage
from openskills.agent.runner import Runner
from openskills.errors import InvalidArgument, MissingExtra, ModelUnavailable, Unauthorized
from openskills.runtime.options import SessionOptions
from openskills.runtime.runtime import SkillRuntime
from openskills.settings import Settings
from openskills.testing.checks import PNG
from openskills.testing.model_server import ModelReply, ModelServer, RawReply, event
from tests.agent.asking import HELLO, KEY, TOOL, AnyModel, Waits, answer, make_anthropic, using
from tests.agent.models.anthropic_rules import faults
from tests.agent.rule_requests import catalog_in
from tests.tools.contexts import settings_in

START = {"type": "message_start", "message": {"model": "claude-test", "usage": {"input_tokens": 1}}}
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


def sse(*events: dict[str, Any]) -> RawReply:
    return RawReply(tuple(event(data, data["type"]) for data in events))


def text(value: str) -> list[dict[str, Any]]:
    begun = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    return [begun, {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": value}}]


async def test_a_request_goes_to_messages_with_the_key_and_marks_for_the_cache() -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
    with ModelServer(["Yes."]) as server:
        await answer(make_anthropic(server), ModelRequest(messages, [TOOL], temperature=0.5))
    (asked,) = server.requests
    assert asked.path == "/v1/messages"
    assert KEY in (asked.headers.get("x-api-key", "") + asked.headers.get("authorization", ""))
    assert asked.headers["anthropic-version"]
    assert not faults(asked.body)
    mark = {"type": "ephemeral"}
    assert asked.body["tools"][-1]["cache_control"] == mark
    assert asked.body["system"] == [{"type": "text", "text": "Be brief.", "cache_control": mark}]
    assert asked.body["messages"][-1]["content"][-1]["cache_control"] == mark


async def test_a_server_without_a_cache_need_not_see_marks() -> None:
    with ModelServer(["Yes."]) as server:
        await answer(make_anthropic(server, cache=False))
    assert "cache_control" not in str(server.requests[0].body)


async def test_a_schema_is_asked_for_beside_the_effort_of_the_caller() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    with ModelServer(["{}"]) as server:
        model = make_anthropic(server, extra={"output_config": {"effort": "low"}})
        await answer(model, ModelRequest(HELLO.messages, json_schema=schema))
    wanted = {"type": "json_schema", "schema": {**schema, "additionalProperties": False}}
    assert server.requests[0].body["output_config"] == {"effort": "low", "format": wanted}


async def test_a_schema_beyond_the_client_is_for_the_api_to_judge() -> None:
    schema: dict[str, Any] = {"properties": {"a": {}}}
    with ModelServer(["{}"]) as server:
        await answer(make_anthropic(server), ModelRequest(HELLO.messages, json_schema=schema))
    assert server.requests[0].body["output_config"]["format"]["schema"] == schema


async def test_an_overload_that_is_told_in_the_answer_is_waited_for() -> None:
    waits = Waits()
    with ModelServer([sse(START, OVERLOADED), "Yes."]) as server:
        assert (await answer(make_anthropic(server, retrying=waits.retrying()))).text == "Yes."
    assert waits.seconds == [1]


async def test_an_overload_in_the_middle_of_an_answer_is_reported() -> None:
    with (
        ModelServer([sse(START, *text("Ye"), OVERLOADED)]) as server,
        pytest.raises(ModelUnavailable, match=r"Overloaded \(529\); the response was cut off"),
    ):
        await answer(make_anthropic(server))


async def test_a_refusal_within_an_answer_is_not_tried_again() -> None:
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": "too many images"}}
    with (
        ModelServer([sse(START, error)]) as server,
        pytest.raises(InvalidArgument, match=r"too many images \(refused, 400\)"),
    ):
        await answer(make_anthropic(server))


async def test_events_of_a_later_version_are_passed_over() -> None:
    later = {"type": "aside", "index": 7, "content": "?"}
    reply = sse(START, later, *text("Yes."), {"type": "message_stop"})
    with ModelServer([reply]) as server:
        assert (await answer(make_anthropic(server))).text == "Yes."


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


async def test_thoughts_before_a_call_come_back_with_its_result() -> None:
    async def two_steps(model: AnyModel) -> None:
        async with using(model):
            said = [found async for found in model.stream(HELLO)][-1]
            assert isinstance(said, ModelResponse)
            result = {"role": "tool", "tool_call_id": said.calls[0].id, "content": "loaded"}
            request = ModelRequest([*HELLO.messages, said.to_message(), result])
            assert [found async for found in model.stream(request)]

    with ModelServer([thoughtful('{"skill": "a"}'), "Done."]) as server:
        await two_steps(make_anthropic(server))
    assert server.requests[1].body["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "", "signature": "signed"},
        {"type": "tool_use", "id": "toolu_1", "name": "skill_load", "input": {"skill": "a"}},
    ]
    assert not faults(server.requests[1].body)


async def test_thoughts_are_in_the_log_and_come_back_after_a_restart_and_only_to_their_model(tmp_path: Path) -> None:
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
        await said(server, "hello")
        await said(server, "go on")
        await said(server, "and you?", "claude-other")
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


async def test_a_conversation_that_grows_sends_the_same_bytes_before() -> None:
    """What is behind the marks of one request begins the next, marks aside."""
    calls = ModelResponse("", (ToolCall("a", "skill_load", '{"skill": "x"}'),))

    async def two_steps(model: AnyModel) -> None:
        async with using(model):
            assert [found async for found in model.stream(HELLO)]
            result = {"role": "tool", "tool_call_id": "a", "content": "loaded"}
            request = ModelRequest([*HELLO.messages, calls.to_message(), result])
            assert [found async for found in model.stream(request)]

    with ModelServer([ModelReply(calls), "Done."]) as server:
        await two_steps(make_anthropic(server))
    first, second = (asked.body["messages"] for asked in server.requests)
    assert _unmarked(second[: len(first)]) == _unmarked(first)


async def test_a_token_is_taken_in_place_of_a_key() -> None:
    with ModelServer(["Yes."]) as server:
        env = {**server.environment, "ANTHROPIC_API_KEY": "", "ANTHROPIC_AUTH_TOKEN": "a-token"}
        model = AnthropicModel.from_settings("claude-test", Settings.from_env(env))
        await answer(model)
    assert server.requests[0].headers["authorization"] == "Bearer a-token"
    assert model.name == "anthropic/claude-test"


def test_without_a_key_the_variable_to_set_is_named() -> None:
    with pytest.raises(Unauthorized, match="anthropic/claude-test needs a key; set ANTHROPIC_API_KEY"):
        AnthropicModel.from_settings("claude-test", Settings.from_env({}))


def test_without_the_package_the_extra_to_install_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(MissingExtra, match=r"pip install 'openskill-runtime\[anthropic\]'"):
        AnthropicModel("claude-test", api_key=KEY)


def _unmarked(messages: list[dict[str, Any]]) -> list[Any]:
    blocks = [(said["role"], block) for said in messages for block in said["content"]]
    return [(role, {**block, "cache_control": None}) for role, block in blocks]


NAMES = ["type", "message", "index", "content_block", "delta", "usage", "content", "text", "partial_json", "id", "name"]
KINDS = (
    *("message_start", "content_block_start", "content_block_delta", "message_delta", "message_stop", "message"),
    *("text", "tool_use", "text_delta", "input_json_delta", "thinking", "thinking_delta"),
)
ANYTHING = st.recursive(
    st.none() | st.integers(-1, 3) | st.text(max_size=3) | st.sampled_from(KINDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5),
    max_leaves=25,
)
ANTHROPIC_ANSWER_START = {
    "type": "message_start",
    "message": {"model": "m", "usage": {"input_tokens": 5, "output_tokens": 1}},
}
STOP = {"type": "message_stop"}


def begin(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def piece(index: int, kind: str, **delta: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **delta}}


def end(reason: str, **usage: int) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}


def folded(*events: object) -> ModelResponse:
    answer = AnthropicResponseParser()
    text = "".join([answer.add(event) for event in events] + [answer.flush()])
    whole = answer.build_response(ModelRequest([]))
    assert whole.text == text
    return whole


def test_text_and_calls_are_put_together_from_their_pieces() -> None:
    found = folded(
        ANTHROPIC_ANSWER_START,
        {"type": "ping"},
        begin(0, type="text", text="He"),
        piece(0, "text_delta", text="llo"),
        {"type": "content_block_stop", "index": 0},
        begin(1, type="tool_use", id="a", name="one", input={}),
        begin(2, type="tool_use", id="b", name="two", input={}),
        piece(2, "input_json_delta", partial_json=""),
        piece(2, "input_json_delta", partial_json='{"x"'),
        piece(1, "input_json_delta", partial_json='{"y": 2}'),
        piece(2, "input_json_delta", partial_json=": 1}"),
        end("tool_use", output_tokens=9),
        STOP,
    )
    calls = (ToolCall("a", "one", '{"y": 2}'), ToolCall("b", "two", '{"x": 1}'))
    assert found == ModelResponse("Hello", calls, Usage(5, 9, 0), "tool_calls", "m")


def test_a_call_that_is_given_at_once_or_without_arguments_is_a_call() -> None:
    found = folded(
        begin(0, type="tool_use", id="a", name="one", input={"x": "表"}),
        begin(1, type="tool_use", id="b", name="two", input={}),
        STOP,
    )
    assert [call.arguments for call in found.calls] == ['{"x": "表"}', "{}"]
    assert found.stop == "tool_calls"


def test_thoughts_are_not_text() -> None:
    found = folded(
        begin(0, type="thinking", thinking="", signature=""),
        piece(0, "thinking_delta", thinking="hm"),
        piece(0, "signature_delta", signature="sig"),
        begin(1, type="redacted_thinking", data="xyz"),
        begin(2, type="text", text=""),
        piece(2, "text_delta", text="Yes."),
        piece(2, "citations_delta", citation={}),
        begin(3, type="server_tool_use", id="s", name="web_search", input={}),
        end("end_turn"),
    )
    assert (found.text, found.calls, found.stop) == ("Yes.", (), "stop")


def test_tokens_from_the_cache_are_among_those_of_the_input() -> None:
    start = {"input_tokens": 5, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 300, "output_tokens": 1}
    found = folded({"type": "message_start", "message": {"usage": start}}, end("end_turn", output_tokens=40))
    assert found.usage == Usage(325, 40, 300)


def test_counts_at_the_end_replace_those_at_the_beginning() -> None:
    assert folded(ANTHROPIC_ANSWER_START, end("end_turn", input_tokens=7, output_tokens=2)).usage == Usage(7, 2, 0)


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("tool_use", "tool_calls"),
        ("refusal", "refusal"),
        ("pause_turn", "pause_turn"),
    ],
)
def test_every_reason_to_stop_is_known_or_passed_on(reason: str, stop: str) -> None:
    assert folded(end(reason)).stop == stop


def test_a_refusal_without_a_word_gives_its_explanation() -> None:
    why = {"type": "refusal", "category": "cyber", "explanation": "Not that."}
    refused = {"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_details": why}, "usage": {}}
    assert folded(ANTHROPIC_ANSWER_START, refused, STOP).text == "Not that."
    spoken = [begin(0, type="text", text="I would rather not."), refused]
    assert folded(ANTHROPIC_ANSWER_START, *spoken).text == "I would rather not."


def test_an_answer_is_complete_when_it_has_a_reason_or_an_end() -> None:
    for last in (STOP, end("end_turn")):
        answer = AnthropicResponseParser()
        answer.add(ANTHROPIC_ANSWER_START)
        assert not answer.is_complete
        answer.add(last)
        assert answer.is_complete


def test_pieces_without_a_number_belong_to_what_was_begun_last() -> None:
    found = folded(
        {"type": "content_block_start", "content_block": {"type": "tool_use", "id": "a", "name": "one"}},
        {"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": '{"x": 1}'}},
    )
    assert found.calls == (ToolCall("a", "one", '{"x": 1}'),)
    assert folded(piece(0, "text_delta", text="Hello")).text == "Hello"


def test_a_model_that_is_not_named_is_the_one_that_was_asked() -> None:
    assert AnthropicResponseParser("asked").build_response(ModelRequest([])).model == "asked"


@given(st.lists(ANYTHING, max_size=8))
def test_nothing_that_a_server_sends_breaks_it(events: list[Any]) -> None:
    found = folded(*events)
    assert len({call.id for call in found.calls}) == len(found.calls)


MARK = {"type": "ephemeral"}


def turn(role: str, *texts: str) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text} for text in texts]}


def places(body: dict[str, Any]) -> list[str]:
    blocks = [
        *body.get("tools", []),
        *body.get("system", []),
        *(block for said in body["messages"] for block in said["content"]),
    ]
    return [block.get("text", block.get("name")) for block in blocks if block.get("cache_control") == MARK]


def test_marks_are_at_the_ends_of_what_is_sent_again() -> None:
    body = {
        "tools": [{"name": "one"}, {"name": "two"}],
        "system": [{"type": "text", "text": "stable"}, {"type": "text", "text": "loaded"}],
        "messages": [turn("user", "a"), turn("assistant", "b"), turn("user", "c", "d"), turn("assistant", "e")],
    }
    assert places(add_cache_marks(body, 1)) == ["two", "stable", "a", "d"]


def test_a_request_without_tools_and_system_has_marks_in_its_messages_alone() -> None:
    body = {"messages": [turn("user", "a"), turn("assistant", "b"), turn("user", "c"), turn("user", "d")]}
    assert places(add_cache_marks(body, 0)) == ["c", "d"]


def test_the_request_itself_stays_without_marks() -> None:
    body: dict[str, Any] = {"tools": [{"name": "one"}], "messages": [turn("user", "a")]}
    add_cache_marks(body, 0)
    assert places(body) == []


def test_a_system_of_which_nothing_is_stable_has_no_mark() -> None:
    body = {"system": [{"type": "text", "text": "loaded"}], "messages": [turn("user", "a")]}
    assert places(add_cache_marks(body, 0)) == ["a"]


PICTURE = base64.b64encode(PNG).decode()
PDF = base64.b64encode(b"%PDF-1.7").decode()


def test_text_is_a_block_and_nothing_is_none() -> None:
    assert content_to_blocks("Hello") == [{"type": "text", "text": "Hello"}]
    assert (
        content_to_blocks("")
        == content_to_blocks(" \n")
        == content_to_blocks(None)
        == content_to_blocks([{"type": "text", "text": ""}])
        == []
    )


def test_a_picture_is_shown_from_its_bytes_or_from_its_address() -> None:
    inside = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}"}}
    outside = {"type": "image_url", "image_url": {"url": "https://example.com/a.png", "detail": "high"}}
    assert content_to_blocks([inside, outside]) == [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}},
        {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
    ]


def test_files_are_documents_with_their_names() -> None:
    pdf = {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}}
    text = {"type": "file", "file": {"filename": "a.csv", "file_data": "data:text/csv;charset=utf-8,a%2Cb"}}
    picture = {"type": "file", "file": {"filename": "a.png", "file_data": f"data:image/png;base64,{PICTURE}"}}
    assert content_to_blocks([pdf, text, picture]) == [
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
            "title": "a.pdf",
        },
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a,b"}, "title": "a.csv"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}},
    ]


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({"type": "input_audio", "input_audio": {"data": "x"}}, "input_audio"),
        ({"type": "file", "file": {"file_id": "file-1"}}, "file file-1"),
        ({"type": "file", "file": {"filename": "a.zip", "file_data": "data:application/zip;base64,/w=="}}, "a.zip"),
        ({"type": "image_url", "image_url": {"url": "data:image/tiff;base64,AAAA"}}, "image/tiff"),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,A"}}, "image/png"),
        ({"type": "image_url"}, "image"),
        ({}, "part of a message"),
    ],
)
def test_what_claude_cannot_see_is_a_line_that_says_so(part: dict[str, Any], said: str) -> None:
    (block,) = content_to_blocks([part])
    assert block["type"] == "text"
    assert said in block["text"]
    assert "cannot read it" in block["text"]


@given(
    st.recursive(st.none() | st.text(max_size=30), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
)
def test_no_content_breaks_it(content: object) -> None:
    assert all(block["type"] != "text" or block["text"].strip() for block in content_to_blocks(content))


Message = dict[str, Any]


def text_anthropic_request(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def user(content: Any) -> Message:
    return {"role": "user", "content": content}


def calling(*calls: tuple[str, str, str], content: str | None = None) -> Message:
    made = [{"id": i, "type": "function", "function": {"name": n, "arguments": a}} for i, n, a in calls]
    return {"role": "assistant", "content": content, "tool_calls": made}


def result(id_: str, content: Any = "done") -> Message:
    return {"role": "tool", "tool_call_id": id_, "content": content}


def use(id_: str, name: str = "run", **given_input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id_, "name": name, "input": given_input}


def done(id_: str, content: str = "done", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id_, "content": [text_anthropic_request(content)], **more}


def test_a_turn_with_tools_is_told_in_blocks() -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        user("Plot it."),
        calling(("a", "load", '{"skill": "x"}'), ("b", "run", "{}"), content="At once."),
        result("a"),
        result("b", ""),
    ]
    body = build_request_body("claude-test", ModelRequest(messages, [TOOL]), 1000)
    assert body == {
        "model": "claude-test",
        "max_tokens": 1000,
        "stream": True,
        "system": [text_anthropic_request("Be brief.")],
        "tools": [
            {
                "name": "skill_load",
                "description": "Load a skill",
                "input_schema": TOOL["function"]["parameters"],
            }
        ],
        "messages": [
            {"role": "user", "content": [text_anthropic_request("Plot it.")]},
            {
                "role": "assistant",
                "content": [text_anthropic_request("At once."), use("a", "load", skill="x"), use("b")],
            },
            {"role": "user", "content": [done("a"), done("b", NOTHING)]},
        ],
    }


def test_system_messages_are_gathered_from_wherever_they_stand() -> None:
    messages = [
        user("a"),
        {"role": "developer", "content": "Be"},
        {"role": "system", "content": [text_anthropic_request("brief.")]},
    ]
    body = build_request_body("claude-test", ModelRequest(messages), 1000)
    assert body["system"] == [text_anthropic_request("Be"), text_anthropic_request("brief.")]
    assert body["messages"] == [{"role": "user", "content": [text_anthropic_request("a")]}]


def test_what_one_side_says_in_a_row_is_one_turn() -> None:
    messages = [user("a"), user("b"), {"role": "assistant", "content": "c"}, {"role": "assistant", "content": "d"}]
    assert translate_messages(messages) == [
        {"role": "user", "content": [text_anthropic_request("a"), text_anthropic_request("b")]},
        {"role": "assistant", "content": [text_anthropic_request("c"), text_anthropic_request("d")]},
    ]


def test_results_come_first_whatever_the_user_said_meanwhile() -> None:
    turns = translate_messages([user("go"), calling(("a", "run", "{}")), user("and?"), result("a")])
    assert turns[-1]["content"] == [done("a"), text_anthropic_request("and?")]


def test_a_call_that_was_never_answered_has_a_result_that_says_so() -> None:
    error = done("a", NO_RESULT, is_error=True)
    assert translate_messages([user("go"), calling(("a", "run", "{}"))])[-1]["content"] == [error]
    turns = translate_messages([user("go"), calling(("a", "run", "{}")), {"role": "assistant", "content": "Well."}])
    assert [turn["role"] for turn in turns] == ["user", "assistant", "user", "assistant"]
    assert turns[2]["content"] == [error]


def test_a_result_without_its_call_is_told_as_text() -> None:
    assert translate_messages([result("gone", "42 rows"), user("and?")]) == [
        {
            "role": "user",
            "content": [
                text_anthropic_request("[result of an earlier call]"),
                text_anthropic_request("42 rows"),
                text_anthropic_request("and?"),
            ],
        }
    ]


def test_ids_of_other_providers_become_ids_that_are_taken() -> None:
    calls = (("functions.run:0", "run", "{}"), ("functions.run:0", "run", "{}"), ("", "run", "{}"))
    turns = translate_messages(
        [user("go"), calling(*calls), result("functions.run:0", "1"), result("functions.run:0", "2")]
    )
    assert [block["id"] for block in turns[1]["content"]] == ["functions_run_0", "functions_run_0-2", "call"]
    assert turns[2]["content"][:2] == [done("functions_run_0", "1"), done("functions_run_0-2", "2")]


def test_arguments_that_were_no_json_are_shown_as_they_were() -> None:
    turns = translate_messages([user("go"), calling(("a", "do it!", '{"x": ')), result("a")])
    assert turns[1]["content"] == [use("a", "do_it_", invalid_json='{"x":')]


def test_a_conversation_that_begins_with_the_assistant_began_earlier() -> None:
    turns = translate_messages([{"role": "assistant", "content": "As I said."}, user("Yes?")])
    assert turns[0] == {"role": "user", "content": [text_anthropic_request(EARLIER)]}


def test_nothing_to_answer_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="messages: the request has no user"):
        build_request_body("claude-test", ModelRequest([{"role": "system", "content": "Be brief."}, user(" ")]), 1000)


def test_a_request_may_name_its_own_limit_and_its_temperature_is_left_out() -> None:
    body = build_request_body("claude-test", ModelRequest([user("a")], max_output_tokens=7, temperature=0.5), 1000)
    assert body["max_tokens"] == 7
    assert "temperature" not in body


def test_a_tool_without_parameters_takes_an_empty_object() -> None:
    tool = {"type": "function", "function": {"name": "list"}}
    body = build_request_body("claude-test", ModelRequest([user("a")], [tool]), 1000)
    assert body["tools"] == [{"name": "list", "input_schema": {"type": "object", "properties": {}}}]


def test_only_the_first_system_message_is_sure_to_stay() -> None:
    first: Message = {"role": "system", "content": [text_anthropic_request("a"), text_anthropic_request("b")]}
    assert count_stable_blocks([first, {"role": "system", "content": "loaded"}, user("x")]) == 2
    assert count_stable_blocks([user("x"), first]) == 0


def says(role: str, content: Any) -> Message:
    return {"role": role, "content": content}


def calls_in_a_row(calls: list[tuple[str, str, str]], content: str | None) -> Message:
    return calling(*calls, content=content)


contents = (
    st.none() | st.text(max_size=4) | st.lists(st.builds(text_anthropic_request, st.text(max_size=4)), max_size=2)
)
ids = st.sampled_from(["", "a", "b", "functions.x:0"])
some_calls = st.lists(st.tuples(ids, st.text(max_size=4), st.sampled_from(["{}", '{"x": 1}', "{", ""])), max_size=3)
messages_of_any_kind: st.SearchStrategy[list[Message]] = st.lists(
    st.builds(says, st.sampled_from(["user", "system", "assistant", "x"]), contents)
    | st.builds(calls_in_a_row, some_calls, st.none() | st.text(max_size=4))
    | st.builds(result, ids, contents),
    max_size=12,
)


@given(messages_of_any_kind)
def test_whatever_became_of_a_conversation_the_api_takes_it(messages: list[Message]) -> None:
    request = ModelRequest([*messages, user("go on")], [TOOL])
    body = add_cache_marks(build_request_body("claude-test", request, 1000), count_stable_blocks(request.messages))
    assert not faults(body)
    json.dumps(body)


@given(messages_of_any_kind, messages_of_any_kind)
def test_a_conversation_that_goes_on_begins_as_it_did(before: list[Message], after: list[Message]) -> None:
    ended = {"role": "assistant", "content": "That is all."}
    first = translate_messages([*before, user("go on"), ended])
    assert translate_messages([*before, user("go on"), ended, user("and then?"), *after])[: len(first)] == first


ASKED = ModelRequest([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Plot it."}])
CALL = ToolCall("a", "run", '{"x": 1}')
ANSWER = ModelResponse("At once.", (CALL,))
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
    return restore_thinking(build_request_body(model, request, 100))


def answered(request: ModelRequest = ASKED, answer: ModelResponse = ANSWER, heard: Any = HEARD) -> ModelResponse:
    """The answer as a model gives it, after a log has kept it."""
    found = extract_thinking(body(request), answer, heard)
    return replace(answer, thinking=json.loads(json.dumps(found)))


def going_on(request: ModelRequest, answer: ModelResponse) -> ModelRequest:
    results = [{"role": "tool", "tool_call_id": call.id, "content": "done"} for call in answer.calls]
    return ModelRequest([*request.messages, answer.to_message(), *results], request.tools)


def plain(request: ModelRequest) -> dict[str, Any]:
    messages = [{name: value for name, value in one.items() if name != "thinking"} for one in request.messages]
    return build_request_body("claude-test", replace(request, messages=messages), 100)


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
    assert extract_thinking(body(ASKED), ModelResponse("At once."), HEARD[:3]) is None
    assert extract_thinking(body(ASKED), ANSWER, HEARD[2:]) is None
    assert "thinking" not in ANSWER.to_message()


def test_a_call_that_was_cut_off_is_not_said_again() -> None:
    assert extract_thinking(body(ASKED), replace(ANSWER, calls=(replace(CALL, arguments='{"x": '),)), HEARD) is None


@pytest.mark.parametrize("garbage", [[], "x", {"model": "claude-test"}, {"model": 3, "prefix": None, "blocks": "x"}, 0])
def test_what_is_not_a_thought_is_left_out(garbage: Any) -> None:
    message = {**ANSWER.to_message(), "thinking": garbage}
    request = ModelRequest([*ASKED.messages, message, {"role": "tool", "tool_call_id": "a", "content": "done"}])
    assert body(request) == plain(request)


@pytest.mark.parametrize("url", ["data:image/png", "data:image/png;base64", "data:application/pdf"])
def test_a_data_url_without_data_is_not_sent_as_an_empty_picture(url: str) -> None:
    for part in ({"type": "image_url", "image_url": {"url": url}}, {"type": "file", "file": {"file_data": url}}):
        (block,) = content_to_blocks([part])
        assert block["type"] == "text"
        assert "not shown" in block["text"]


def test_a_data_url_may_have_text_that_is_not_escaped() -> None:
    (block,) = content_to_blocks([{"type": "file", "file": {"filename": "a.txt", "file_data": "data:text/plain,你好"}}])
    assert block["source"] == {"type": "text", "media_type": "text/plain", "data": "你好"}
