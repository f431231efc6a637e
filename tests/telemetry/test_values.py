"""What may stand in a span or a line.

Secrets are not in what is said.
"""

import asyncio
import base64
import html
import json
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import cast
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from openskills.errors import CommandDenied, InvalidArgument
from openskills.telemetry.context import bind
from openskills.telemetry.mask import Masker, get_masker
from openskills.telemetry.spans import span
from openskills.telemetry.values import (
    MAX_ITEMS,
    MAX_TEXT,
    error_type,
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


def test_what_is_not_a_plain_value_becomes_its_text() -> None:
    assert to_plain_attributes(cast("dict[str, str]", {"a": Path("x"), "b": {1}, "c": [Path("y")]})) == {
        "a": "x",
        "b": "{1}",
        "c": ["y"],
    }


def test_a_long_list_is_cut() -> None:
    assert to_plain_attributes({"a": ["x"] * (MAX_ITEMS + 9)}) == {"a": ["x"] * MAX_ITEMS}


def test_a_lone_surrogate_becomes_a_question_mark_and_whole_ones_stay() -> None:
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
    assert get_masker(SECRETS).mask_text(text) == told
    assert get_masker(SECRETS).mask_bytes(text.encode()) == told.encode()
    assert get_masker({}).mask_text(text) == text


def test_a_masker_is_built_once_and_is_false_if_there_is_nothing_to_mask() -> None:
    assert not get_masker({})
    assert not get_masker({"SHORT": "abc"})
    assert get_masker({"A": "hunter2"}) is get_masker({"A": "hunter2"})


def test_strings_keys_and_numbers_of_json_are_masked_and_nothing_else_changes() -> None:
    given = {"hunter2": "hunter2", "b": ["hunter2", "x"], "c": 1234, "d": None, "e": True, "f": 123400.0, "g": 0.5}
    assert get_masker({**SECRETS, "NUMBER": "001234"}).mask_json(given) == {
        "[secret PART]": "[secret PART]",
        "b": ["[secret PART]", "x"],
        "c": "[secret NUMBER]",
        "d": None,
        "e": True,
        "f": "[secret NUMBER]00",
        "g": 0.5,
    }
    assert get_masker(SECRETS).mask_json(10**5000) == 10**5000


def test_overlapping_secrets_leave_nothing_of_either() -> None:
    masker = Masker({"A": "one-two", "B": "two-three"}.items())
    assert masker.mask_text("<one-two-three>") == "<[secret A]>"
    assert masker.blank(b"<one-two-three>") == b"<*************>"


ENCODINGS: list[Callable[[str], str]] = [
    str,
    json.dumps,
    lambda secret: json.dumps(secret, ensure_ascii=False),
    lambda secret: json.dumps(json.dumps([secret])),
    lambda secret: json.dumps(secret).replace("/", "\\/"),
    repr,
    ascii,
    lambda secret: repr(secret.encode()),
    html.escape,
    lambda secret: html.escape(secret, quote=False),
    quote,
    lambda secret: quote(secret, safe="").lower() if secret.islower() else quote(secret, safe=""),
    lambda secret: secret.encode().hex(),
    lambda secret: secret.encode().hex().upper(),
    lambda secret: secret.strip() + "\r",
    *(lambda secret, n=n: base64.b64encode(b"a" * n + secret.encode()).decode() for n in range(4)),
    *(lambda secret, n=n: base64.b64encode(b"a" * n + secret.encode() + b"\xff\xffz").decode() for n in range(4)),
    lambda secret: base64.urlsafe_b64encode(b":" + secret.encode()).decode().rstrip("="),
    lambda secret: base64.encodebytes(secret.encode()).decode(),
    lambda secret: base64.encodebytes(secret.encode() + b"\n").decode(),
    lambda secret: "\n".join(textwrap.wrap(secret.encode().hex(), 60)),
]
SECRET_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=6).filter(lambda text: len(text.strip()) >= 6)


@given(SECRET_TEXTS, st.sampled_from(ENCODINGS), st.binary(max_size=40), st.lists(st.integers(1, 30)))
@example("-----BEGIN KEY-----\n" + "Zm9vYmFy+/" * 400 + "\n-----END KEY-----\n", str, b"", [1])
@example("a" * 9, str, b"a" * 4, [1, 1, 1])
def test_a_secret_is_masked_in_every_encoding_wherever_the_stream_is_cut(
    secret: str, encode: Callable[[str], str], noise: bytes, cuts: list[int]
) -> None:
    masker = Masker([("X", secret)])
    written = noise + encode(secret).encode() + noise
    masked = masker.mask_bytes(written)
    # Only what also depends on neighbouring bytes may be left: quotes, the first and the last characters of base64.
    assert b"[secret X]" in masked
    assert len(masked.replace(b"[secret X]", b"").replace(b"\n", b"")) <= 2 * len(noise) + 16
    assert len(masker.blank(written)) == len(written)
    stream, parts, rest = masker.open_stream(), list[bytes](), written
    for size in cuts:
        parts.append(stream.feed(rest[:size]))
        rest = rest[size:]
    parts += [stream.feed(rest), stream.flush()]
    assert b"".join(parts) == masked


@given(SECRET_TEXTS, st.integers(0), st.integers(0))
@example("0000*0", 4, 1)
def test_what_a_cut_leaves_of_a_secret_is_blanked(secret: str, start: int, end: int) -> None:
    data = secret.encode()
    masker = Masker([("X", secret)])
    for left, cut in (data[start % len(data) :], "cut_start"), (data[: end % len(data)], "cut_end"):
        blanked = masker.blank(left, **{cut: True})
        assert blanked == b"*" * len(left) or (len(left) < 4 and blanked == left)


def test_a_stream_returns_at_once_what_cannot_begin_a_secret() -> None:
    stream = get_masker({"X": "hunter2-and-more"}).open_stream()
    assert stream.feed(b"Password: ") == b"Password: "
    assert stream.feed(b"hunt") == b""
    assert stream.feed(b"ing") == b"hunting"
    assert stream.feed(b" hunter2-") == b" "
    assert stream.flush() == b"hunter2-"


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
