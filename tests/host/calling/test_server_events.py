"""Bytes to events, in whatever pieces they come."""

from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.errors import BadSkillOutput, LimitExceeded
from openskills.host.calling.server_events import EventReader, ServerEvent

STREAM = (
    ": a sign of life\n\n"
    "event: start\nid: 1\ndata: {}\n\n"
    'event: stdout\r\nid: 2\r\ndata: {"text": "二"}\r\n\r\n'
    "data: one\rdata: two\r\rretry: 5\nevent: never\n\n"
    "id: 9\n\ndata:x\n\n"
)
EVENTS = [
    ServerEvent("start", "{}", "1"),
    ServerEvent("stdout", '{"text": "二"}', "2"),
    ServerEvent("message", "one\ntwo", "2"),
    ServerEvent("message", "x", "9"),
]


def read(*pieces: bytes, most: int = 1000) -> list[ServerEvent]:
    reader = EventReader(most)
    return [event for piece in pieces for event in reader.feed(piece)]


@given(st.lists(st.integers(0, len(STREAM.encode())), max_size=12))
def test_where_the_pieces_end_makes_no_difference(cuts: list[int]) -> None:
    data = STREAM.encode()
    places = [0, *sorted(cuts), len(data)]
    assert read(*(data[start:end] for start, end in pairwise(places))) == EVENTS


def test_byte_by_byte_is_the_same() -> None:
    assert read(*(bytes([byte]) for byte in STREAM.encode())) == EVENTS


def test_a_byte_order_mark_at_the_beginning_is_skipped() -> None:
    assert read(b"\xef", b"\xbb\xbfdata: x\n\n") == [ServerEvent("message", "x")]


def test_an_event_that_is_not_complete_is_none() -> None:
    assert read(b"event: result\ndata: {}\n") == []


@pytest.mark.parametrize("pieces", [(b"data: " + b"x" * 2000,), (b"data: xxxxxxxx\n",) * 200, (b"x" * 600, b"x" * 600)])
def test_an_event_that_does_not_end_is_stopped(pieces: tuple[bytes, ...]) -> None:
    with pytest.raises(LimitExceeded, match="larger than 1,000 bytes"):
        read(*pieces)


def test_comments_without_end_are_no_event() -> None:
    assert read(*(b": ping\n\n",) * 1000) == []


@pytest.mark.parametrize("line", [b"<html>\n", b"data: \xff\n", b"strange: x\n"])
def test_what_is_no_stream_of_events_is_refused_with_an_excerpt(line: bytes) -> None:
    with pytest.raises(BadSkillOutput) as caught:
        read(line)
    assert caught.value.details["excerpt"] == line.decode("utf-8", "replace").rstrip()


@given(st.lists(st.binary(max_size=200) | st.sampled_from([b"data: {}\n", b"\n", b"\r", b"event: x\n"]), max_size=20))
def test_no_bytes_break_it_otherwise(pieces: list[bytes]) -> None:
    with suppress(BadSkillOutput, LimitExceeded):
        read(*pieces)


def test_the_last_id_is_known_to_those_who_go_on() -> None:
    reader = EventReader()
    list(reader.feed(b"id: 7\ndata: x\n\nid: a\0b\ndata: x\n\n"))
    assert reader.last_id == "7"
