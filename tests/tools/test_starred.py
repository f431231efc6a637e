"""A star stands for anything, and nothing else is special."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.tools.starred import fits


@pytest.mark.parametrize(
    ("pattern", "name", "fit"),
    [
        ("a", "a", True),
        ("a", "ab", False),
        ("*", "", True),
        ("a*a", "a", False),
        ("a*b*c", "a-b-c", True),
        ("a*b*c", "a-c", False),
        ("a.c", "abc", False),
        ("*b*", "abc", True),
    ],
)
def test_a_name_fits_or_does_not(pattern: str, name: str, fit: bool) -> None:
    assert fits(pattern, name) is fit


@given(st.text("ab*", max_size=8), st.text("ab", max_size=8))
def test_it_is_what_an_expression_would_say(pattern: str, name: str) -> None:
    assert fits(pattern, name) == bool(re.fullmatch(pattern.replace("*", ".*"), name))
