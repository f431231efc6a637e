"""The parameters of a function as a description of its input."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal, Optional

import pytest

from openskills.errors import InvalidArgument
from openskills.skillkit.fields import arguments, checked


def handler(text: str, limit: int = 20, *, deep: bool = False) -> None:
    """Something with all kinds of parameters."""


def whole(given: dict[str, Any], /) -> None:
    """Takes the input as it is."""


def open_ended(name: str, **rest: Any) -> None:
    """Takes everything."""


def written(text: "str", mode: "Literal['a', 'b']" = "a") -> None:
    """Its annotations are texts."""


def test_fields_become_parameters() -> None:
    assert arguments(handler, {"text": "x", "deep": True}) == ([], {"text": "x", "deep": True})
    assert arguments(whole, {"x": 1}) == ([{"x": 1}], {})
    assert arguments(open_ended, {"name": "x", "y": 1}) == ([], {"name": "x", "y": 1})
    assert arguments(written, {"text": "x", "mode": "b"}) == ([], {"text": "x", "mode": "b"})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "text: is required"),
        ({"text": "x", "limt": 1}, "limt: is not known; did you mean 'limit'?"),
        ({"text": "x", "zzz": 1}, "zzz: is not known; known are 'text', 'limit', 'deep'"),
        ({"text": 1}, r"text: has to be text, not a whole number \(1\)"),
        ({"text": "x", "limit": "1"}, r"limit: has to be a whole number, not text \('1'\)"),
        ({"text": "x", "limit": True}, "limit: has to be a whole number, not true or false"),
        ({"text": "x", "limit": 1.5}, r"limit: has to be a whole number, not a number \(1.5\)"),
        ({"text": "x", "deep": 1}, "deep: has to be true or false, not a whole number"),
        ({"text": None}, "text: has to be text, not null"),
        ({"text": {}}, "text: has to be text, not an object"),
    ],
)
def test_what_is_wrong_is_said_with_the_name_of_the_field(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^{said}"):
        arguments(handler, given)


@pytest.mark.parametrize(
    ("value", "wanted", "kept"),
    [
        (5.0, int, 5),
        (Decimal("5"), int, 5),
        (5, float, 5),
        (1.5, int | Decimal | float, 1.5),
        (Decimal("5.0"), int | Decimal, Decimal("5.0")),
        ([1, 2], list[int], [1, 2]),
        ([1, 2], Sequence[float], [1, 2]),
        ({"a": "b"}, dict[str, str], {"a": "b"}),
        ({"a": 1}, Mapping[str, Any], {"a": 1}),
        (None, str | None, None),
        ("x", Optional[str], "x"),  # noqa: UP045
        ("a", Literal["a", "b"], "a"),
        ([[1], ["x"]], list[list[int | str]], [[1], ["x"]]),
        (object, Any, object),
        ([1, "x"], list, [1, "x"]),
    ],
)
def test_values_that_fit_are_kept(value: Any, wanted: Any, kept: Any) -> None:
    found = checked("x", value, wanted)
    assert found == kept
    assert type(found) is type(kept)


@pytest.mark.parametrize(
    ("value", "wanted", "said"),
    [
        ([1, "x"], list[int], r"x\[1\]: has to be a whole number, not text"),
        ({"a": 1}, dict[str, str], r"x\.a: has to be text"),
        (["x"], list[int] | None, r"x\[0\]: has to be a whole number"),
        ("x", int | float, "x: has to be a number, not text"),
        ("x", int | None, "x: has to be a whole number or null, not text"),
        ("c", Literal["a", "b"], r"x: has to be one of 'a', 'b', not text \('c'\)"),
        (True, Literal[1], "x: has to be one of 1, not true or false"),
        (Decimal("1e999999999"), int, "x: has to be a whole number, not a number"),
        (10**500, str, r"x: has to be text, not a whole number \(very many digits\)"),
        ("y" * 1000, int, "x: has to be a whole number, not text .{,70}…"),
    ],
)
def test_values_that_do_not_fit_are_refused(value: Any, wanted: Any, said: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^{said}"):
        checked("x", value, wanted)
