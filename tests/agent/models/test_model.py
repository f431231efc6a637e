"""What models say.

Calls with a name and an id of their own, and arguments that are always an object to those who need one.
"""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.agent.models.model import (
    ModelRequest,
    ModelResponse,
    ToolCall,
    Usage,
    clean_name,
    make_unique_id,
    normalise_calls,
    parse_arguments,
)


def test_an_answer_is_a_message_as_others_write_it() -> None:
    said = ModelResponse("hello", (ToolCall("c1", "skill_load", '{"skill": "a"}'),)).to_message()
    assert said == {
        "role": "assistant",
        "content": "hello",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "skill_load", "arguments": '{"skill": "a"}'}}
        ],
    }
    assert ModelResponse().to_message() == {"role": "assistant", "content": None}


def test_usage_adds_up() -> None:
    assert Usage(1, 2, 3) + Usage(10, 20, 30) == Usage(11, 22, 33)


HISTORY = [{"role": "assistant", "tool_calls": [{"id": "call_0", "function": {"name": "a", "arguments": "{}"}}]}]
TOOLS = [{"type": "function", "function": {"name": "mcp.files"}}]


def ids(*given_ids: str, history: bool = False) -> list[str]:
    request = ModelRequest(HISTORY if history else [])
    return [call.id for call in normalise_calls((ToolCall(one, "a", "{}") for one in given_ids), request)]


def test_ids_that_are_their_own_stay() -> None:
    assert ids("x", "y") == ["x", "y"]


def test_ids_that_are_missing_or_repeated_are_made_unique() -> None:
    assert ids("", "", "x", "x", "x-2") == ["call", "call-2", "x", "x-2", "x-2-2"]


def test_an_id_of_an_earlier_answer_is_not_used_again() -> None:
    assert ids("call_0", history=True) == ["call_0-2"]


@given(st.lists(st.text(max_size=3)))
def test_ids_are_always_unique(given_ids: list[str]) -> None:
    found = ids(*given_ids, history=True)
    assert len({*found, "call_0"}) == len(found) + 1


def test_a_name_that_is_offered_stays_as_it_is() -> None:
    calls = [ToolCall("a", "mcp.files", "{}"), ToolCall("b", "functions.skill_run", "{}"), ToolCall("c", "", "")]
    found = normalise_calls(calls, ModelRequest([], TOOLS))
    assert [call.name for call in found] == ["mcp.files", "functions_skill_run", "unnamed_tool"]
    assert found[2].arguments == "{}"


@given(st.text())
def test_every_name_becomes_one_that_providers_take_back(name: str) -> None:
    cleaned = clean_name(name)
    assert 0 < len(cleaned) <= 64
    assert cleaned.isascii()
    assert cleaned.replace("_", "").replace("-", "").isalnum() or not cleaned.strip("_-")


def test_a_free_id_is_the_first_with_a_number() -> None:
    assert make_unique_id("a", {"a", "a-2"}) == "a-3"


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ('{"a": 1}', {"a": 1}),
        ({"a": 1}, {"a": 1}),
        ("{}", {}),
        (" { } ", {}),
        ("", {}),
        (None, {}),
        ("[1]", {"invalid_json": "[1]"}),
        ('{"a": ', {"invalid_json": '{"a":'}),
        ("null", {"invalid_json": "null"}),
    ],
)
def test_arguments_are_an_object_and_nothing_that_was_written_is_lost(arguments: object, shown: object) -> None:
    assert parse_arguments(arguments) == shown


@given(st.text())
def test_any_text_has_arguments_that_can_be_sent(text: str) -> None:
    assert json.loads(json.dumps(parse_arguments(text))) == parse_arguments(text)
