"""Entries of a log: what they hold, as JSON and back, and what they do to a state.

What a store can keep, and what is refused before it gets there.
"""

import json
from datetime import UTC, datetime, timedelta, timezone
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.errors import InvalidArgument
from openskills.session.events import (
    MAX_DEPTH,
    MAX_ID,
    MESSAGE,
    TOOL_RESPONSE,
    USER,
    Event,
    apply_delta,
    check_id,
    copy_json,
    copy_texts,
    event_from_json,
    event_to_json,
    new_event,
)
from openskills.session.state import LoadMode

AT = datetime(2026, 1, 31, 12, 30, 15, 123456, UTC)

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
ids = st.text(st.characters(categories=("L", "N", "P", "S", "Zs")), min_size=1, max_size=20)
texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"))
events = st.builds(
    Event,
    ids,
    ids,
    ids,
    st.datetimes(timezones=st.just(UTC)),
    st.dictionaries(st.text(st.characters()), values, max_size=3),
    st.dictionaries(texts, st.none() | texts, max_size=3),
    st.integers(0, 2**60),
)


def test_a_new_event_happens_now_and_has_its_own_id() -> None:
    before = datetime.now(UTC)
    first, second = new_event(USER, MESSAGE, {"text": "hi"}), new_event("agent", TOOL_RESPONSE, delta={"a": None})
    assert before <= first.at <= second.at <= datetime.now(UTC)
    assert first.id != second.id
    assert (first.payload, first.delta, first.seq) == ({"text": "hi"}, {}, 0)
    assert (second.author, second.kind, second.payload, second.delta) == ("agent", "tool.response", {}, {"a": None})


@given(events)
def test_an_event_comes_back_from_json_as_it_was(event: Event) -> None:
    text = event_to_json(event)
    assert event_from_json(text) == event_from_json(text.encode()) == event
    assert text.isascii()
    assert "\n" not in text
    assert "\0" not in text


def test_the_json_has_a_field_for_each_fact() -> None:
    event = Event("e1", "agent", "message", AT, {"text": "图"}, {"a": "1", "b": None}, 7)
    assert json.loads(event_to_json(event)) == {
        "id": "e1",
        "seq": 7,
        "author": "agent",
        "kind": "message",
        "at": "2026-01-31T12:30:15.123456+00:00",
        "payload": {"text": "图"},
        "delta": {"a": "1", "b": None},
    }


def test_fields_of_a_later_version_are_passed_over() -> None:
    event = new_event("agent", "message")
    assert event_from_json(json.dumps({**json.loads(event_to_json(event)), "later": 1})) == event


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"id": None}, "id: expected text, got NoneType"),
        ({"id": ""}, "id: must not be empty"),
        ({"author": "a\nb"}, "author: .*control character"),
        ({"kind": 5}, "kind: expected text, got int"),
        ({"at": "yesterday"}, "at: invalid time 'yesterday'"),
        ({"at": 5}, "at: invalid time '5'"),
        ({"at": "2026-01-31T12:00:00"}, "at: has no time zone"),
        ({"at": "0001-01-01T00:00:00+14:00"}, "at: .* cannot be converted to UTC"),
        ({"seq": "1"}, "seq: "),
        ({"seq": True}, "seq: "),
        ({"seq": -1}, "seq: "),
        ({"payload": []}, "payload: expected a mapping, got list"),
        ({"delta": {"a": 1}}, "delta: "),
        ({"delta": "x"}, "delta: expected a mapping, got str"),
    ],
    ids=str,
)
def test_json_that_is_not_an_event_is_refused_with_the_field(change: dict[str, Any], said: str) -> None:
    fields = json.loads(event_to_json(new_event("agent", "message")))
    with pytest.raises(InvalidArgument, match=said):
        event_from_json(json.dumps({**fields, **change}))


@pytest.mark.parametrize("name", ["id", "seq", "author", "kind", "at", "payload", "delta"])
def test_a_field_that_is_missing_is_named(name: str) -> None:
    fields = json.loads(event_to_json(new_event("agent", "message")))
    del fields[name]
    with pytest.raises(InvalidArgument, match=f"event: missing field '{name}'"):
        event_from_json(json.dumps(fields))


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", b"\xff", "[" * 100_000, "9" * 5000], ids=lambda text: str(text)[:5]
)
def test_what_is_not_a_json_object_is_refused(text: str | bytes) -> None:
    with pytest.raises(InvalidArgument, match=r"event: (not valid JSON|expected a JSON object)"):
        event_from_json(text)


def test_a_time_of_another_zone_becomes_utc() -> None:
    event = Event("e", "a", "k", AT.astimezone(timezone(timedelta(hours=8))))
    assert event.at == AT
    assert event.at.tzinfo is UTC


def test_a_time_without_zone_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="at: has no time zone"):
        Event("e", "a", "k", AT.replace(tzinfo=None))


def test_an_event_does_not_change_with_what_it_was_made_of() -> None:
    payload: dict[str, Any] = {"list": [1]}
    delta: dict[str, str | None] = {"a": "1"}
    event = new_event("a", "k", payload, delta)
    payload["list"].append(2)
    delta["b"] = "2"
    assert (event.payload, event.delta) == ({"list": [1]}, {"a": "1"})


def test_a_delta_sets_removes_and_leaves_the_rest() -> None:
    state = {"a": "1", "b": "2", "c": "3"}
    assert apply_delta(state, {"a": "new", "b": None, "d": "", "never": None}) == {"a": "new", "c": "3", "d": ""}
    assert state == {"a": "1", "b": "2", "c": "3"}


def nested(levels: int) -> dict[str, Any]:
    """A mapping with so many lists in it, one in the other."""
    inner: list[Any] = []
    for _ in range(levels - 1):
        inner = [inner]
    return {"deep": inner}


@pytest.mark.parametrize("value", ["s1", "../x", "a b", "图", "'; --", "x" * MAX_ID])
def test_printable_text_is_an_id(value: str) -> None:
    assert check_id("session", value) == value


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("", "session: must not be empty"),
        ("x" * 513, "has 513 characters; the limit is 512"),
        ("a\0", "control character"),
        ("a\n", "control character"),
        ("\x7f", "control character"),
        ("\x9b", "control character"),
        ("\ud800", "a lone surrogate"),
        (7, "expected text, got int"),
        (None, "expected text, got NoneType"),
    ],
)
def test_what_is_not_an_id_is_refused_with_the_reason(value: Any, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        check_id("session", value)


def test_a_copy_shares_nothing_with_the_original() -> None:
    inner: dict[str, Any] = {"list": [1]}
    copy = copy_json("payload", {"inner": inner})
    inner["list"].append(2)
    assert copy == {"inner": {"list": [1]}}


def test_other_kinds_of_the_same_things_become_plain() -> None:
    copy = copy_json("payload", MappingProxyType({"mode": LoadMode.ONCE, "pair": (1, True), "none": None}))
    assert copy == {"mode": "once", "pair": [1, True], "none": None}
    assert [type(value) for value in copy.values()] == [str, list, type(None)]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"a": [0, {"b": b"bytes"}]}, "payload.a.1.b: bytes is not a JSON value"),
        ({"a": {1: "x"}}, "payload.a: the key 1 is not text"),
        ({"a": float("nan")}, "payload.a: nan is not a JSON value"),
        ({"a": float("-inf")}, "payload.a: -inf is not a JSON value"),
        ({"a": 10**5000}, "payload.a: the number has too many digits"),
        ({"a": {"x"}}, "payload.a: set is not a JSON value"),
        ({"a": object}, "payload.a: type is not a JSON value"),
        (["a"], "payload: expected a mapping, got list"),
        (nested(MAX_DEPTH + 1), f"nested deeper than {MAX_DEPTH} levels"),
        (nested(50_000), f"nested deeper than {MAX_DEPTH} levels"),
    ],
    ids=lambda value: repr(value)[:16] if not isinstance(value, dict) else "",
)
def test_what_is_not_json_is_refused_with_its_place(value: Any, said: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        copy_json("payload", value)
    assert said in str(raised.value)
    assert len(str(raised.value)) < 300


def test_the_deepest_that_is_taken_is_taken() -> None:
    assert copy_json("payload", nested(MAX_DEPTH)) == nested(MAX_DEPTH)


def test_a_map_of_texts_is_copied() -> None:
    texts: dict[str, str | None] = {"a": "1", "b": None, "图": ""}
    copy = copy_texts("delta", texts)
    assert copy == texts
    assert copy is not texts


@pytest.mark.parametrize(
    "value", [{"a": 1}, {1: "a"}, {"a\0": "1"}, {"a": "\0"}, {"\ud800": "1"}, {"a": "\udfff"}, "a"]
)
def test_a_text_that_some_database_would_refuse_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArgument, match="delta"):
        copy_texts("delta", value)
