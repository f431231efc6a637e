"""Messages are read as they come, from whoever they come."""

import json
from dataclasses import dataclass
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given

from openskills.prompt.messages import ToolCall, calls_of, get, items, json_object, leading, string, takes_text, text_of
from tests.prompt.garbage import anything, garbage


@dataclass
class Answer:
    """As the objects of OpenAI's client are."""

    role: str = "assistant"
    content: str | None = None


def test_a_field_is_found_in_a_mapping_and_on_an_object() -> None:
    for message in ({"role": "user"}, MappingProxyType({"role": "user"}), Answer("user")):
        assert get(message, "role") == "user"
        assert get(message, "name") is None


def test_a_field_that_is_no_text_is_empty_as_text() -> None:
    assert string({"name": 3}, "name") == string({}, "name") == string(None, "name") == ""


@pytest.mark.parametrize(
    "content", ["one\ntwo", [{"type": "text", "text": "one"}, "two"], ({"text": "one"}, {"text": "two"})]
)
def test_the_text_of_a_message_may_come_in_parts(content: object) -> None:
    assert text_of({"content": content}) == "one\ntwo"


def test_what_is_no_text_adds_nothing_to_the_text() -> None:
    parts = [
        {"type": "image_url", "image_url": {"url": "data:"}},
        {"type": "text", "text": "one"},
        3,
        None,
        {"text": 4},
    ]
    assert text_of({"content": parts}) == "one"
    assert text_of({"content": None}) == text_of({}) == text_of({"content": 3}) == ""


def test_calls_are_read_from_dictionaries_objects_and_the_legacy_field() -> None:
    function = {"name": "skill_load", "arguments": "{}"}
    call = ToolCall("call_1", "skill_load", "{}")
    assert calls_of({"tool_calls": [{"id": "call_1", "type": "function", "function": function}]}) == [call]
    of_client = SimpleNamespace(id="call_1", function=SimpleNamespace(**function))
    assert calls_of(SimpleNamespace(tool_calls=[of_client])) == [call]
    assert calls_of({"function_call": function}) == [call._replace(id="")]


def test_a_call_without_a_function_is_none() -> None:
    assert calls_of({"tool_calls": [{"id": "call_1"}, None, 3, "x"]}) == []
    assert calls_of({"tool_calls": "call_1"}) == []


@pytest.mark.parametrize(
    "value", ["", "{", "[1]", '"x"', "[" * 100_000, '{"a": ' * 100_000, "1" * 5_000, None, 3, ["a"]]
)
def test_what_is_no_json_object_is_an_empty_one(value: object) -> None:
    assert json_object(value) == {}


def test_an_object_may_be_text_or_there_already() -> None:
    assert json_object('{"a": 1}') == json_object({"a": 1}) == {"a": 1}


def test_only_lists_have_items() -> None:
    assert items("abc") == items({"a": 1}) == items(None) == ()
    assert list(items([1, 2])) == list(items((1, 2))) == [1, 2]


@pytest.mark.parametrize(
    ("message", "takes"),
    [('{"content": "a"}', True), ('{"content": []}', True), ('{"content": null}', True), ("{}", True),
     ('{"content": 3}', False), ('{"content": {"a": 1}}', False), ("null", False), ('["content"]', False)],
)  # fmt: skip
def test_text_can_be_added_to_text_to_parts_and_to_nothing(message: str, takes: bool) -> None:
    assert takes_text(json.loads(message)) is takes


def test_text_cannot_be_added_to_the_object_of_a_client() -> None:
    assert not takes_text(Answer(content="a"))


def test_leading_are_the_system_messages_before_anybody_speaks() -> None:
    roles = ["system", "developer", "user", "system"]
    assert leading([{"role": role} for role in roles]) == 2
    assert leading([]) == 0


@given(anything, garbage)
def test_nothing_raises(value: Any, message: Any) -> None:
    for one in (value, message):
        text_of(one)
        calls_of(one)
        json_object(one)
        takes_text(one)
        leading([one])
