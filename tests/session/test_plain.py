"""What a store can keep, and what is refused before it gets there."""

from types import MappingProxyType
from typing import Any

import pytest

from openskills.errors import InvalidArgument
from openskills.session.changes import LoadMode
from openskills.session.plain import MAX_DEPTH, MAX_ID, checked_id, plain_json, plain_texts


def nested(levels: int) -> dict[str, Any]:
    """A mapping with so many lists in it, one in the other."""
    inner: list[Any] = []
    for _ in range(levels - 1):
        inner = [inner]
    return {"deep": inner}


@pytest.mark.parametrize("value", ["s1", "../x", "a b", "图", "'; --", "x" * MAX_ID])
def test_printable_text_is_an_id(value: str) -> None:
    assert checked_id("session", value) == value


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("", "session: is empty"),
        ("x" * 513, "has 513 characters; 512 is the most"),
        ("a\0", "control character"),
        ("a\n", "control character"),
        ("\x7f", "control character"),
        ("\x9b", "control character"),
        ("\ud800", "half a character"),
        (7, "is int, not text"),
        (None, "is NoneType, not text"),
    ],
)
def test_what_is_no_id_is_refused_with_the_reason(value: Any, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        checked_id("session", value)


def test_a_copy_shares_nothing_with_the_original() -> None:
    inner: dict[str, Any] = {"list": [1]}
    copy = plain_json("payload", {"inner": inner})
    inner["list"].append(2)
    assert copy == {"inner": {"list": [1]}}


def test_other_kinds_of_the_same_things_become_plain() -> None:
    copy = plain_json("payload", MappingProxyType({"mode": LoadMode.ONCE, "pair": (1, True), "none": None}))
    assert copy == {"mode": "once", "pair": [1, True], "none": None}
    assert [type(value) for value in copy.values()] == [str, list, type(None)]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"a": [0, {"b": b"bytes"}]}, "payload.a.1.b: bytes is no JSON value"),
        ({"a": {1: "x"}}, "payload.a: has the key 1, which is no text"),
        ({"a": float("nan")}, "payload.a: nan is no JSON value"),
        ({"a": float("-inf")}, "payload.a: -inf is no JSON value"),
        ({"a": 10**5000}, "payload.a: is a number with too many digits"),
        ({"a": {"x"}}, "payload.a: set is no JSON value"),
        ({"a": object}, "payload.a: type is no JSON value"),
        (["a"], "payload: is list, not a mapping"),
        (nested(MAX_DEPTH + 1), f"is nested deeper than {MAX_DEPTH} levels"),
        (nested(50_000), f"is nested deeper than {MAX_DEPTH} levels"),
    ],
    ids=lambda value: repr(value)[:16] if not isinstance(value, dict) else "",
)
def test_what_is_no_json_is_refused_with_its_place(value: Any, said: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        plain_json("payload", value)
    assert said in str(raised.value)
    assert len(str(raised.value)) < 300


def test_the_deepest_that_is_taken_is_taken() -> None:
    assert plain_json("payload", nested(MAX_DEPTH)) == nested(MAX_DEPTH)


def test_a_map_of_texts_is_copied() -> None:
    texts: dict[str, str | None] = {"a": "1", "b": None, "图": ""}
    copy = plain_texts("delta", texts)
    assert copy == texts
    assert copy is not texts


@pytest.mark.parametrize(
    "value", [{"a": 1}, {1: "a"}, {"a\0": "1"}, {"a": "\0"}, {"\ud800": "1"}, {"a": "\udfff"}, "a"]
)
def test_a_text_that_some_database_would_refuse_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArgument, match="delta"):
        plain_texts("delta", value)
