"""The events of an answer, whatever the answer is."""

import json
from collections.abc import AsyncGenerator

import pytest

from openskills.errors import BadSkillOutput
from openskills.host.calling.connection import Answered, ClientLimits, Connection
from openskills.host.calling.stream import events_in
from openskills.host.calling.stream_events import StreamEvent
from openskills.sync import run
from tests.host.scripted_server import EVENTS, JSON, event, normal


def read(body: bytes, kind: str, status: int = 200) -> list[StreamEvent]:
    async def pieces() -> AsyncGenerator[bytes]:
        for start in range(0, len(body), 7):
            yield body[start : start + 7]

    async def work() -> list[StreamEvent]:
        connection = Connection("http://host", {}, ClientLimits(), named="URL")
        return [one async for one in events_in(connection, Answered(status, {"content-type": kind}, pieces()))]

    return run(work())


def test_events_are_read_from_pieces_of_any_size() -> None:
    body = event("progress", {"done": 1}, 1) + event("result", normal(), 2)
    assert [(one.kind, one.id) for one in read(body, f"{EVENTS}; charset=utf-8")] == [
        ("progress", "1"),
        ("result", "2"),
    ]


def test_a_result_in_json_is_the_only_event() -> None:
    (only,) = read(json.dumps(normal()).encode(), JSON)
    assert only.result is not None


@pytest.mark.parametrize(("kind", "status"), [("text/html", 200), ("", 200), (EVENTS, 500)])
def test_what_is_no_stream_is_refused_with_an_excerpt(kind: str, status: int) -> None:
    with pytest.raises(BadSkillOutput, match="instead of a stream") as caught:
        read(b"<html>", kind, status)
    assert caught.value.details["excerpt"] == "<html>"
