"""The object in what a skill wrote."""

import pytest

from openskills.host.running.json_output import Found, NotJson, json_object, looks_like_result


def test_an_object_alone_has_nothing_around_it() -> None:
    assert json_object(b' {"a": 1}\n') == Found({"a": 1})


def test_a_byte_order_mark_is_no_fault() -> None:
    assert json_object(b'\xef\xbb\xbf{"a": 1}') == Found({"a": 1})


def test_what_stands_around_an_object_is_told() -> None:
    assert json_object(b'one\n{"success": true}\ntwo\n') == Found({"success": True}, "one\ntwo")


def test_an_object_inside_of_another_is_not_taken_for_the_answer() -> None:
    text = b'log\n{\n"success": true,\n"data": {"rows": [\n{"success": false}\n]}\n}'
    assert json_object(text).value["success"] is True


def test_a_result_behind_thousands_of_other_objects_is_found() -> None:
    assert json_object(b'{"log": 1}\n' * 5000 + b'{"success": true, "data": {}}\n').value["success"] is True


def test_an_object_with_nan_among_other_text_is_refused() -> None:
    with pytest.raises(NotJson):
        json_object(b'log\n{"success": true, "data": {"a": NaN}}')


def test_half_a_character_among_other_text_is_refused() -> None:
    with pytest.raises(NotJson, match="surrogate"):
        json_object(b'log\n{"success": true, "data": {"a": "\\ud83d"}}')


@pytest.mark.parametrize("line", [b"{\n", b'{"a":\n', b'{"a": [\n', b'{"a": 1}\n'])
def test_hostile_text_is_read_a_few_times_at_most(line: bytes) -> None:
    # Whoever reads it again from every line does not come to the end of this test.
    with pytest.raises(NotJson):
        json_object(line * (2_000_000 // len(line)) + b"x")


@pytest.mark.parametrize(("value", "is_one"), [({"success": True}, True), ({"success": 1}, False), ({}, False)])
def test_a_result_has_a_success_of_true_or_false(value: dict[str, object], is_one: bool) -> None:
    assert looks_like_result(value) is is_one
