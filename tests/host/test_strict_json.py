"""The object in what a skill wrote.

Bodies of callers: one meaning, or a refusal that says what is wrong.
"""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.errors import InvalidArgument, UnsupportedMedia
from openskills.host.strict_json import (
    MAX_DEPTH,
    InvalidSkillJson,
    JsonMatch,
    check_json,
    find_json_object,
    is_json,
    is_result_like,
    read_input,
    read_json,
)


def test_an_object_alone_has_nothing_around_it() -> None:
    assert find_json_object(b' {"a": 1}\n') == JsonMatch({"a": 1})


def test_a_byte_order_mark_is_not_a_fault() -> None:
    assert find_json_object(b'\xef\xbb\xbf{"a": 1}') == JsonMatch({"a": 1})


def test_what_stands_around_an_object_is_reported() -> None:
    assert find_json_object(b'one\n{"success": true}\ntwo\n') == JsonMatch({"success": True}, "one\ntwo")


def test_an_object_inside_of_another_is_not_taken_for_the_answer() -> None:
    text = b'log\n{\n"success": true,\n"data": {"rows": [\n{"success": false}\n]}\n}'
    assert find_json_object(text).value["success"] is True


def test_a_result_behind_thousands_of_other_objects_is_found() -> None:
    assert find_json_object(b'{"log": 1}\n' * 5000 + b'{"success": true, "data": {}}\n').value["success"] is True


def test_an_object_with_nan_among_other_text_is_refused() -> None:
    with pytest.raises(InvalidSkillJson):
        find_json_object(b'log\n{"success": true, "data": {"a": NaN}}')


def test_a_lone_surrogate_among_other_text_is_refused() -> None:
    with pytest.raises(InvalidSkillJson, match="surrogate"):
        find_json_object(b'log\n{"success": true, "data": {"a": "\\ud83d"}}')


@pytest.mark.parametrize("line", [b"{\n", b'{"a":\n', b'{"a": [\n', b'{"a": 1}\n'])
def test_hostile_text_is_read_a_few_times_at_most(line: bytes) -> None:
    # Whoever reads it again from every line does not come to the end of this test.
    with pytest.raises(InvalidSkillJson):
        find_json_object(line * (2_000_000 // len(line)) + b"x")


@pytest.mark.parametrize(("value", "is_one"), [({"success": True}, True), ({"success": 1}, False), ({}, False)])
def test_a_result_has_a_success_of_true_or_false(value: dict[str, object], is_one: bool) -> None:
    assert is_result_like(value) is is_one


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(json_values)
def test_every_json_document_is_read_as_what_it_says(value: Any) -> None:
    assert read_json(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")) == value


@given(st.binary(max_size=300))
def test_random_bytes_are_an_input_or_refused_as_the_fault_of_the_caller(body: bytes) -> None:
    with suppress(InvalidArgument):
        assert isinstance(read_input(body), dict)


@given(st.dictionaries(st.text(), json_values, min_size=1, max_size=4), st.booleans())
def test_a_key_that_comes_twice_is_refused_wherever_it_stands(fields: dict[str, Any], inner: bool) -> None:
    members = [f"{json.dumps(name)}:{json.dumps(value)}" for name, value in fields.items()]
    text = "{" + ",".join([*members, members[0]]) + "}"
    with pytest.raises(InvalidArgument, match="duplicate key"):
        read_json((f'{{"input":[{text}]}}' if inner else text).encode())


def test_the_key_that_comes_twice_is_named() -> None:
    with pytest.raises(InvalidArgument, match="duplicate key 'text'"):
        read_input(b'{"input": {"text": 1, "te\\u0078t": 2}}')


def test_colons_braces_and_quotes_in_strings_count_for_nothing() -> None:
    value = {"input": {"a:b": 'c"d:{[e', "f\\": ":\\", "列": "：:"}}
    assert read_input(json.dumps(value).encode()) == value["input"]
    assert read_input(json.dumps(value, ensure_ascii=False).encode()) == value["input"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "empty"),
        (b"{", "not valid JSON"),
        (b'{"input": NaN}', "not valid JSON"),
        (b'{"input": {"x": 1e999}}', "infinity"),
        (b'{"input": {"x": "\\ud800"}}', "surrogate"),
        (b'{"input": {"x": "\xff"}}', "UTF-8"),
        (b'\xef\xbb\xbf{"input": {}}', "byte order mark"),
        ('{"input": {}}'.encode("utf-16"), "not valid JSON"),
        (b'{"input": {}} trailing', "after document"),
        (b'{"input": {"x": ' + b"9" * 5000 + b"}}", "4,300 digits"),
        (b'{"input": {"x": ' + b"9" * 400 + b".5}}", "infinity"),
        (b'{"input": {"x": 1e' + b"9" * 400 + b"}}", "infinity"),
        (b'{"input": {"x": ' + b"0" * 400 + b"}}", "not valid JSON"),
        (b'{"input": {"x": ' + b"9" * 400 + b', "y": NaN}}', "not valid JSON"),
        (b'{"input": {"x": ' + b"9" * 400 + b', "y": "\\ud800"}}', "surrogate"),
        (b'{"input": {"x": ' + b"9" * 5000 + b', "x": 1}}', "duplicate key 'x'"),
        (b"[]", "expected an object"),
        (b"{}", "input: is missing"),
        (b'{"input": null}', "input: expected an object, got null"),
        (b'{"input": "hello"}', "input: expected an object, got a string"),
        (b'{"input": {}, "skill": 1}', "skill: unknown field"),
        (b'{"input": {"x": ' + b"[" * 70 + b"]" * 70 + b"}}", "64 levels"),
        (b'{"input": {"x": ' + b"[" * 5000 + b"]" * 5000 + b"}}", "depth"),
        (b"[" * 500_000, "depth"),
    ],
)
def test_what_is_wrong_with_a_body_is_said(body: bytes, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        read_input(body)


def test_many_lists_side_by_side_are_not_deep() -> None:
    body = b'{"input": {"x": [' + b",".join([b"[{}]"] * 1000) + b"]}}"
    assert len(read_input(body)["x"]) == 1000
    deepest = b'{"input": {"x": ' + b"[" * (MAX_DEPTH - 2) + b"]" * (MAX_DEPTH - 2) + b"}}"
    assert read_input(deepest)


def test_integers_beyond_64_bits_keep_every_digit() -> None:
    assert read_json(b"[123456789012345678901234567890, 1.5]") == [123456789012345678901234567890, 1.5]


@pytest.mark.parametrize("digits", [308, 309, 310, 4300])
def test_integers_larger_than_every_float_keep_every_digit(digits: int) -> None:
    number = 10**digits - 1
    text = f'{{"a": {number}, "b": [-{number}], "c": "{number}", "d": 0.{number}}}'
    assert read_json(text.encode()) == {"a": number, "b": [-number], "c": str(number), "d": 1.0}


@pytest.mark.parametrize(
    "content_type",
    [b"application/json", b"application/json;charset=UTF-8", b'Application/JSON ; charset="utf-8"'],
)
def test_json_in_utf_8_is_taken(content_type: bytes) -> None:
    check_json(content_type)
    assert is_json(content_type)


@pytest.mark.parametrize(
    "content_type", [None, b"", b"text/plain", b"application/x-www-form-urlencoded", b"application/json; charset=gbk"]
)
def test_any_other_type_is_refused_with_the_one_to_send(content_type: bytes | None) -> None:
    with pytest.raises(UnsupportedMedia, match="Content-Type: application/json"):
        check_json(content_type)
