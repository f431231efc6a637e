"""What comes on stdin, read strictly."""

from decimal import Decimal

import pytest

from openskills.errors import InvalidArgument
from openskills.skillkit.request import MAX_INPUT, input_of


def test_the_input_is_what_stands_under_input() -> None:
    assert input_of(b'{"input": {"a": [1, 2.5, "\xc3\xa9", null]}, "more": 1}') == {"a": [1, 2.5, "é", None]}


def test_exact_numbers_come_as_decimals() -> None:
    found = input_of(b'{"input": {"a": [0.1, 1, 1e400]}}', exact=True)["a"]
    assert found == [Decimal("0.1"), 1, Decimal("1e400")]
    assert isinstance(found[1], int)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is missing: stdin has to be"),
        (b"{", "is no JSON: Expecting property name"),
        (b"[]", "is missing or no object"),
        (b'{"input": 5}', "is missing or no object"),
        (b'{"input": {"a": NaN}}', "contains NaN"),
        (b'{"input": {"a": 1, "b": 2, "a": 3}}', "has the key 'a' twice"),
        (b'{"input": {"a": "\\uD800"}}', "contains half a character"),
        (b'{"input": {"a": "\xff"}}', "is not UTF-8 at byte 17"),
        (b"[" * 100_000, "is nested too deeply"),
        (b'{"input": {"a": ' + b"1" * 5000 + b"}}", "contains a number with too many digits"),
        (b" " * (MAX_INPUT + 1), "is larger than"),
    ],
)
def test_what_is_no_request_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^input: {said}"):
        input_of(data)


def test_a_whole_character_in_two_escapes_is_fine() -> None:
    assert input_of(b'{"input": {"a": "\\ud83d\\ude00"}}') == {"a": "😀"}


def test_a_number_beyond_every_exponent_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="too large or too small: 1e9999"):
        input_of(b'{"input": {"a": 1e99999999999999999999}}', exact=True)
