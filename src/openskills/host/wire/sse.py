"""Server-sent events as an answer: events as they happen, a comment when nothing does."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any, NamedTuple

import orjson

from openskills.host.wire.answers import trace_headers
from openskills.host.wire.exchange import Exchange

PING_SECONDS = 15.0
PING = b": ping\n\n"

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),
    # Proxies that collect answers before they pass them on would hold events back.
    (b"x-accel-buffering", b"no"),
]


class Shown(NamedTuple):
    """One event. `data` is JSON already, or a value of it; `id` is where one may go on after it."""

    kind: str
    data: Mapping[str, Any] | bytes
    id: str | None = None

    def wire(self) -> bytes:
        """As it goes over the wire. JSON has no line breaks of its own."""
        data = self.data if isinstance(self.data, bytes) else orjson.dumps(self.data, default=str)
        first = b"" if self.id is None else b"id: %s\n" % self.id.encode()
        return b"%sevent: %s\ndata: %s\n\n" % (first, self.kind.encode(), data)


async def send_events(
    exchange: Exchange, events: AsyncIterator[Shown], *, ping: float = PING_SECONDS, until: asyncio.Event | None = None
) -> None:
    """Send events until there are no more; when none comes for a while, a comment that keeps the connection open.

    `until` ends the answer earlier: the host is about to end.
    """
    exchange.answered = True
    headers = [*_HEADERS, *trace_headers(exchange.trace)]
    await exchange.send({"type": "http.response.start", "status": 200, "headers": headers})
    if exchange.method != "HEAD":
        async with aclosing(_with_pings(events, ping, until or asyncio.Event())) as parts:
            async for part in parts:
                await exchange.send({"type": "http.response.body", "body": part, "more_body": True})
    await exchange.send({"type": "http.response.body", "body": b""})


async def _with_pings(events: AsyncIterator[Shown], ping: float, until: asyncio.Event) -> AsyncGenerator[bytes]:
    waiting: asyncio.Task[Shown | None] | None = None
    over = asyncio.create_task(until.wait())
    try:
        while True:
            waiting = waiting or asyncio.create_task(_next(events))
            # Not `wait_for`: that would end the iterator together with the wait.
            await asyncio.wait({waiting, over}, timeout=ping, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                if over.done():
                    return
                yield PING
                continue
            event, waiting = waiting.result(), None
            if event is None:
                return
            yield event.wire()
    finally:
        over.cancel()
        if waiting is not None:
            waiting.cancel()
            await asyncio.wait({waiting})


async def _next(events: AsyncIterator[Shown]) -> Shown | None:
    return await anext(events, None)
