"""Server-sent events as an answer."""

import asyncio
from collections.abc import AsyncGenerator

from openskills.host.calling.server_events import EventReader
from openskills.host.wire.sse import PING, Shown, send_events
from tests.host.exchanges import Sent


async def two() -> AsyncGenerator[Shown]:
    yield Shown("stdout", {"text": "a\nb\r\u2028c"}, "7")
    yield Shown("result", b'{"success":true}')


async def silent(closed: list[str]) -> AsyncGenerator[Shown]:
    try:
        await asyncio.Event().wait()
        yield Shown("never", {})
    finally:
        closed.append("closed")


def test_events_can_be_read_by_a_strict_reader() -> None:
    sent = Sent()
    asyncio.run(send_events(sent.exchange, two()))
    found = [(event.kind, event.data) for event in EventReader().feed(sent.body)]
    assert found == [("stdout", '{"text":"a\\nb\\r\u2028c"}'), ("result", '{"success":true}')]
    assert sent.body.startswith(b"id: 7\n")
    assert dict(sent.messages[0]["headers"])[b"content-type"].startswith(b"text/event-stream")
    assert sent.messages[-1] == {"type": "http.response.body", "body": b""}


def test_who_asks_without_wanting_the_body_gets_no_events() -> None:
    sent = Sent(method="HEAD")
    asyncio.run(send_events(sent.exchange, two()))
    assert sent.body == b""


def test_when_nothing_happens_there_is_a_comment_and_the_events_are_waited_for_on() -> None:
    async def pinged() -> bytes:
        sent = Sent()
        until = asyncio.Event()
        task = asyncio.create_task(send_events(sent.exchange, silent(closed), ping=0.005, until=until))
        while sent.body.count(PING) < 3:
            await asyncio.sleep(0.001)
        until.set()
        await task
        return sent.body

    closed: list[str] = []
    assert set(asyncio.run(pinged()).split(b"\n\n")) == {b": ping", b""}
    assert closed == ["closed"]


def test_what_the_events_raise_is_passed_on() -> None:
    async def broken() -> AsyncGenerator[Shown]:
        yield Shown("start", {})
        raise LookupError("gone")

    async def ask() -> str:
        try:
            await send_events(Sent().exchange, broken())
        except LookupError as error:
            return str(error)
        return ""

    assert asyncio.run(ask()) == "gone"
