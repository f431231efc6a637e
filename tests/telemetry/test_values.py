"""What may stand in a span or a line.

Secrets are not in what is said.
"""

import asyncio
import json
from pathlib import Path
from typing import cast

import pytest

from openskills.errors import CommandDenied, InvalidArgument
from openskills.telemetry.context import bind
from openskills.telemetry.spans import span
from openskills.telemetry.values import (
    MAX_ITEMS,
    MAX_TEXT,
    build_masker,
    error_type,
    mask_attributes,
    mask_text,
    to_one_line,
    to_plain_attributes,
)
from tests.telemetry.telemetry import attributes, logged, watched


def test_what_says_nothing_is_left_out_and_the_rest_stays_as_it_is() -> None:
    assert to_plain_attributes({"a": None, "b": 0, "c": "", "d": False, "e": 1.5, "f": ("x", "y")}) == {
        "b": 0,
        "c": "",
        "d": False,
        "e": 1.5,
        "f": ["x", "y"],
    }


def test_a_long_text_is_cut_and_says_by_how_much() -> None:
    cut = to_plain_attributes({"a": "x" * (MAX_TEXT + 1500)})["a"]
    assert isinstance(cut, str)
    assert cut == "x" * MAX_TEXT + "[... 1,500 more characters]"
    assert to_plain_attributes({"a": "x" * 20}, max_length=5) == {"a": "xxxxx[... 15 more characters]"}


def test_what_is_no_plain_value_becomes_its_text() -> None:
    assert to_plain_attributes(cast("dict[str, str]", {"a": Path("x"), "b": {1}, "c": [Path("y")]})) == {
        "a": "x",
        "b": "{1}",
        "c": ["y"],
    }


def test_a_long_list_is_cut() -> None:
    assert to_plain_attributes({"a": ["x"] * (MAX_ITEMS + 9)}) == {"a": ["x"] * MAX_ITEMS}


def test_half_a_character_becomes_a_question_mark_and_whole_ones_stay() -> None:
    assert to_plain_attributes({"a": "caf\udce9 中文", "b": ["\ud800"]}) == {"a": "caf? 中文", "b": ["?"]}


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
    assert to_one_line(name) == shown
    assert len(to_one_line(name * 500)) <= 200 * 6


def test_an_error_is_told_by_one_of_few_words() -> None:
    assert error_type(CommandDenied("rm -rf is not allowed")) == "COMMAND_DENIED"
    assert error_type(InvalidArgument("cwd", "no")) == "INVALID_ARGUMENT"
    assert error_type(UnicodeDecodeError("utf-8", b"secret", 0, 1, "invalid start byte")) == "UnicodeDecodeError"
    assert error_type(asyncio.CancelledError()) == "CancelledError"


SECRETS = {"TOKEN": "hunter2-and-more", "SHORT": "abc", "PART": "hunter2", "ODD": 'a"b\né\\'}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x hunter2-and-more y hunter2", "x [secret TOKEN] y [secret PART]"),
        ("abc", "abc"),
        ("nothing", "nothing"),
        (SECRETS["ODD"], "[secret ODD]"),
        (json.dumps({"x": SECRETS["ODD"]}), '{"x": "[secret ODD]"}'),
        (json.dumps({"x": SECRETS["ODD"]}, ensure_ascii=False), '{"x": "[secret ODD]"}'),
        ("", ""),
    ],
)
def test_a_secret_is_replaced_by_its_name_as_it_is_and_in_json(text: str, told: str) -> None:
    assert mask_text(text, SECRETS) == told
    assert mask_text(text, {}) == text


def test_nothing_is_made_where_there_is_nothing_to_look_for() -> None:
    assert build_masker({}) is build_masker({"SHORT": "abc"}) is None


def test_every_text_of_attributes_is_masked_and_nothing_else_changes() -> None:
    given = {"a": "hunter2", "b": ["hunter2", "x"], "c": 1234, "d": None, "e": True}
    assert mask_attributes(given, {**SECRETS, "NUMBER": "1234"}) == {
        "a": "[secret PART]",
        "b": ["[secret PART]", "x"],
        "c": 1234,
        "d": None,
        "e": True,
    }


def test_what_is_shown_in_a_span_and_its_line_has_no_secret_even_where_it_is_cut() -> None:
    secrets = {"TOKEN": "s3cret-" * 10}
    long = "x" * (16 * 1024 - 20) + secrets["TOKEN"]
    with watched() as watcher, logged() as log, bind(content=True, masked=secrets):
        with bind(session="s"), span("outer", {}) as outer:
            outer.show({"result": f"it is {secrets['TOKEN']}", "long": long, "words": ["echo", secrets["TOKEN"]]})
        told = attributes(watcher.one("outer"))
    assert told["result"] == "it is [secret TOKEN]"
    assert "s3cret" not in str(told)
    assert "s3cret" not in log.text
    assert "[secret TOKEN]" in log.text
