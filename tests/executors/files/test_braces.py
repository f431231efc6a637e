"""Braces: the patterns that they stand for."""

import pytest

from openskills.errors import InvalidArgument
from openskills.executors.files.braces import alternatives


@pytest.mark.parametrize(
    ("pattern", "stands_for"),
    [
        ("a", ["a"]),
        ("{a,b}", ["a", "b"]),
        ("x{a,b}y{1,2}", ["xay1", "xay2", "xby1", "xby2"]),
        ("{a,{b,c}}", ["a", "b", "c"]),
        ("{a,}", ["a", ""]),
        ("{a}", ["{a}"]),
        ("{}", ["{}"]),
        ("{a,b", ["{a,b"]),
        ("a,b}", ["a,b}"]),
        (r"\{a,b\}", [r"\{a,b\}"]),
        ("[{,}]", ["[{,}]"]),
        ("[{a,b}", ["[a", "[b"]),
    ],
)
def test_braces_stand_for_each_of_their_words(pattern: str, stands_for: list[str]) -> None:
    assert alternatives(pattern, field="glob") == stands_for


def test_braces_that_explode_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="more than 64"):
        alternatives("{a,b}" * 100, field="glob")
