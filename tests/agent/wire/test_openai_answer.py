"""Chunks of chat completions, as all kinds of servers send them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.agent.model import Answer, ModelRequest, ToolCall, Usage
from openskills.agent.wire.openai_answer import OpenAIAnswer

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


def folded(*chunks: object) -> Answer:
    answer = OpenAIAnswer()
    text = "".join([answer.add(chunk) for chunk in chunks] + [answer.end()])
    whole = answer.answer(ModelRequest([]))
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


def test_chunks_without_a_choice_and_fields_for_others_are_no_text() -> None:
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
    answer = OpenAIAnswer()
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
    answer = OpenAIAnswer()
    assert [answer.add(delta(content=half)) for half in ("\ud83d", "\ude00")] == ["", "😀"]


def test_a_model_that_is_not_named_is_the_one_that_was_asked() -> None:
    assert OpenAIAnswer("asked").answer(ModelRequest([])).model == "asked"


def test_a_call_without_a_name_still_comes_to_somebody_who_can_complain() -> None:
    assert folded(delta("stop", tool_calls=[{"index": 0}])).calls == (ToolCall("call", "unnamed_tool", "{}"),)


@given(st.lists(ANYTHING, max_size=6))
def test_nothing_that_a_server_sends_breaks_it(chunks: list[Any]) -> None:
    found = folded(*chunks)
    assert len({call.id for call in found.calls}) == len(found.calls)
    found.text.encode()
