"""Secrets are not in what is said."""

import json

import pytest

from openskills.trace import bind, span
from openskills.trace.masking import masked, masked_attributes, masker
from tests.trace.telemetry import attributes, logged, watched

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
    assert masked(text, SECRETS) == told
    assert masked(text, {}) == text


def test_nothing_is_made_where_there_is_nothing_to_look_for() -> None:
    assert masker({}) is masker({"SHORT": "abc"}) is None


def test_every_text_of_attributes_is_masked_and_nothing_else_changes() -> None:
    given = {"a": "hunter2", "b": ["hunter2", "x"], "c": 1234, "d": None, "e": True}
    assert masked_attributes(given, {**SECRETS, "NUMBER": "1234"}) == {
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
