"""What may stand in a span or a line."""

import asyncio
from pathlib import Path
from typing import cast

import pytest

from openskills.errors import CommandDenied, InvalidArgument
from openskills.trace.values import LONGEST, MOST, error_type, one_line, plain


def test_what_says_nothing_is_left_out_and_the_rest_stays_as_it_is() -> None:
    assert plain({"a": None, "b": 0, "c": "", "d": False, "e": 1.5, "f": ("x", "y")}) == {
        "b": 0,
        "c": "",
        "d": False,
        "e": 1.5,
        "f": ["x", "y"],
    }


def test_a_long_text_is_cut_and_says_by_how_much() -> None:
    cut = plain({"a": "x" * (LONGEST + 1500)})["a"]
    assert isinstance(cut, str)
    assert cut == "x" * LONGEST + "[... 1,500 more characters]"
    assert plain({"a": "x" * 20}, longest=5) == {"a": "xxxxx[... 15 more characters]"}


def test_what_is_no_plain_value_becomes_its_text() -> None:
    assert plain(cast("dict[str, str]", {"a": Path("x"), "b": {1}, "c": [Path("y")]})) == {
        "a": "x",
        "b": "{1}",
        "c": ["y"],
    }


def test_a_long_list_is_cut() -> None:
    assert plain({"a": ["x"] * (MOST + 9)}) == {"a": ["x"] * MOST}


def test_half_a_character_becomes_a_question_mark_and_whole_ones_stay() -> None:
    assert plain({"a": "caf\udce9 中文", "b": ["\ud800"]}) == {"a": "caf? 中文", "b": ["?"]}


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("execute_tool skill_run", "execute_tool skill_run"),
        ("表格", "表格"),
        ("a\nERROR b\r", "a\\nERROR b\\r"),
        ("\x1b[2J\x7f\u2028\u202e", "\\x1b[2J\\x7f\\u2028\\u202e"),
        ("\ud800", "\\ud800"),
    ],
)
def test_a_name_stands_on_one_line(name: str, shown: str) -> None:
    assert one_line(name) == shown
    assert len(one_line(name * 500)) <= 200 * 6


def test_an_error_is_told_by_one_of_few_words() -> None:
    assert error_type(CommandDenied("rm -rf is not allowed")) == "COMMAND_DENIED"
    assert error_type(InvalidArgument("cwd", "no")) == "INVALID_ARGUMENT"
    assert error_type(UnicodeDecodeError("utf-8", b"secret", 0, 1, "invalid start byte")) == "UnicodeDecodeError"
    assert error_type(asyncio.CancelledError()) == "CancelledError"
