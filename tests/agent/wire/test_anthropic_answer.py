"""Events of the Messages API."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.agent.model import Answer, ModelRequest, ToolCall, Usage
from openskills.agent.wire.anthropic_answer import AnthropicAnswer

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
START = {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 5, "output_tokens": 1}}}
STOP = {"type": "message_stop"}


def begin(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def piece(index: int, kind: str, **delta: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **delta}}


def end(reason: str, **usage: int) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}


def folded(*events: object) -> Answer:
    answer = AnthropicAnswer()
    text = "".join([answer.add(event) for event in events] + [answer.end()])
    whole = answer.answer(ModelRequest([]))
    assert whole.text == text
    return whole


def test_text_and_calls_are_put_together_from_their_pieces() -> None:
    found = folded(
        START,
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
    assert found == Answer("Hello", calls, Usage(5, 9, 0), "tool_calls", "m")


def test_a_call_that_is_given_at_once_or_without_arguments_is_a_call() -> None:
    found = folded(
        begin(0, type="tool_use", id="a", name="one", input={"x": "表"}),
        begin(1, type="tool_use", id="b", name="two", input={}),
        STOP,
    )
    assert [call.arguments for call in found.calls] == ['{"x": "表"}', "{}"]
    assert found.stop == "tool_calls"


def test_thoughts_are_no_text() -> None:
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
    assert folded(START, end("end_turn", input_tokens=7, output_tokens=2)).usage == Usage(7, 2, 0)


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
    assert folded(START, refused, STOP).text == "Not that."
    spoken = [begin(0, type="text", text="I would rather not."), refused]
    assert folded(START, *spoken).text == "I would rather not."


def test_an_answer_is_complete_when_it_has_a_reason_or_an_end() -> None:
    for last in (STOP, end("end_turn")):
        answer = AnthropicAnswer()
        answer.add(START)
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
    assert AnthropicAnswer("asked").answer(ModelRequest([])).model == "asked"


@given(st.lists(ANYTHING, max_size=8))
def test_nothing_that_a_server_sends_breaks_it(events: list[Any]) -> None:
    found = folded(*events)
    assert len({call.id for call in found.calls}) == len(found.calls)
