"""Header timeouts on uvicorn.

The end of a connection whose other side may still be sending.

Closed at once, with bytes that nobody has read, a connection counts as broken: the system of the caller throws away the
answer that it has not read yet. So our side says that it is done, and what still comes is thrown away for a while.

Connections as our own server takes them: nobody may hold one forever without asking for anything.

uvicorn waits for the head of a request as long as it takes and as large as it gets, and answers what is no HTTP with
plain text. Here a head has a time and a size, and the answer is a result. Each request gets one answer: what still
comes of one that was refused early belongs to nobody, and the connection ends with it.
"""

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar, Literal

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from openskills.host import http
from openskills.host.http import HttpExchange, HttpResponse, Receive, Scope, Send, build_refusal, new_trace

LINGER_SECONDS = 5.0
MAX_LINGER_BYTES = 64 * 1024 * 1024
"""Bytes that are thrown away before the connection is closed all the same."""


class ConnectionDrainer:
    """A connection that ends. It begins with that; nothing can be written any more."""

    def __init__(
        self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, *, most: int = MAX_LINGER_BYTES
    ) -> None:
        self._transport = transport
        self._left = most
        self._timer = loop.call_later(LINGER_SECONDS, transport.close)
        if transport.can_write_eof():
            transport.write_eof()

    def discard(self, size: int) -> None:
        """So many bytes have come that nobody wants."""
        self._left -= size
        if self._left < 0:
            self._transport.close()

    def stop(self) -> None:
        """The connection is gone."""
        self._timer.cancel()


class SoftCloseTransport(asyncio.Transport):
    """A transport as an answer sees it that may be given before its request has come whole: its end is another."""

    def __init__(self, transport: asyncio.Transport, end: Callable[[], None]) -> None:
        super().__init__()
        self._transport = transport
        self._end = end

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send."""
        self._transport.write(data)

    def is_closing(self) -> bool:
        """Whether it ends."""
        return self._transport.is_closing()

    def close(self) -> None:
        """End it in the other way."""
        self._end()


MAX_HEAD_BYTES = 64 * 1024


class HostProtocol(HttpToolsProtocol):
    """One connection. `head_seconds` is how long the head of a request may take."""

    head_seconds: ClassVar[float] = 20.0

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._patience: asyncio.TimerHandle | None = None
        self._stage: Literal["between", "head", "body"] = "between"
        # Bytes of the head from earlier reads, bytes of this read, and whether those ended an earlier request.
        self._head = 0
        self._size = 0
        self._ended_one = False
        # Whether the connection would outlive a request whose body is still coming; None when none is.
        self._outlives: bool | None = None
        self._deaf = False
        self._lingering: ConnectionDrainer | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Somebody is there: a request should follow."""
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is there any more."""
        self._stop_timer()
        if self._lingering is not None:
            self._lingering.stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Some bytes have come."""
        if self._lingering is not None:
            self._lingering.discard(len(data))
        elif not self._deaf:
            self._size, self._ended_one = len(data), False
            super().data_received(data)
            if not self._is_ending():
                self._check_progress()

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        super().on_message_begin()
        self._stage = "head"

    def on_headers_complete(self) -> None:
        """The head of a request is there."""
        if self._head + self._size > MAX_HEAD_BYTES and self._head_size() > MAX_HEAD_BYTES:
            # Answered like any other, so that it does not come before the answers to earlier requests.
            self.app = _refuse_large_head
        super().on_headers_complete()
        self._stage = "body"
        self._stop_timer()

    def on_message_complete(self) -> None:
        """The request is there, whole."""
        if self._outlives is not None:
            if not self.cycle.response_started:
                self.cycle.keep_alive = self._outlives
            self._outlives = None
        super().on_message_complete()
        self._stage = "between"
        self._ended_one = True

    def on_response_complete(self) -> None:
        """A request is answered, and the next may have begun meanwhile."""
        super().on_response_complete()
        if self._stage == "head" and not self._is_answering() and not self._is_ending():
            self._start_timer()

    def shutdown(self) -> None:
        """The server ends: the connection ends after what is being answered."""
        super().shutdown()
        if self._outlives is not None:
            self._outlives = False

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, unless that was the rest of what has its answer."""
        if self._stage == "body" and self.cycle.response_started:
            self.transport.close()
        else:
            self._refuse(build_refusal(http.invalid_request(msg), new_trace()))

    def _check_progress(self) -> None:
        """What has come, and what is still to come?"""
        if self._stage == "body":
            self._expect_rest()
        elif self._stage == "head" or not self._is_answering():
            if not self._is_answering():
                self._start_timer()
            # Where in these bytes a second request begins is not known. They are few; the next ones count.
            self._head += 0 if self._ended_one else self._size
            if self._head > MAX_HEAD_BYTES:
                self._refuse(build_refusal(http.head_too_large(MAX_HEAD_BYTES), new_trace()))

    def _expect_rest(self) -> None:
        """An answer that does not wait for the rest of the body says that the connection ends."""
        if self._outlives is None:
            self._outlives = self.cycle.keep_alive
            self.cycle.keep_alive = False
            self.cycle.transport = SoftCloseTransport(self.transport, self._close_softly)

    def _head_size(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete  # pyright: ignore[reportUnnecessaryComparison] - it is None at first

    def _is_ending(self) -> bool:
        return self._deaf or self._lingering is not None or self.transport.is_closing()

    def _start_timer(self) -> None:
        if self._patience is None:
            self._patience = self.loop.call_later(self.head_seconds, self._refuse_slow_head)

    def _stop_timer(self) -> None:
        self._head = 0
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _refuse_slow_head(self) -> None:
        if not self._is_ending():
            self._refuse(build_refusal(http.head_too_slow(self.head_seconds), new_trace()))

    def _refuse(self, answer: HttpResponse) -> None:
        """Answer what never becomes a request, and end the connection."""
        if self._is_answering() and (self._stage != "body" or self.pipeline):
            # Earlier requests come first. What the caller said after them it will not hear.
            self.cycle.keep_alive = False
            self._deaf = True
            return
        lines = [b"HTTP/1.1 %d \r\n" % answer.status]
        lines += [b"%s: %s\r\n" % header for header in (*answer.headers, (b"connection", b"close"))]
        self.transport.write(b"".join([*lines, b"\r\n", answer.body]))
        if self._is_answering():
            # Who waits for the rest of the body is told that it will not come.
            self.cycle.disconnected = True
            self.cycle.waiting_for_100_continue = False
            self.cycle.message_event.set()
        self._linger()

    def _close_softly(self) -> None:
        if self._stage == "body" and not self.transport.is_closing():
            self._linger()
        else:
            self.transport.close()

    def _linger(self) -> None:
        self._stop_timer()
        self._lingering = self._lingering or ConnectionDrainer(self.transport, self.loop)
        self.flow.resume_reading()


async def _refuse_large_head(scope: Scope, receive: Receive, send: Send) -> None:
    exchange = HttpExchange(scope, receive, send)
    await exchange.send_response(build_refusal(http.head_too_large(MAX_HEAD_BYTES), exchange.trace), close=True)
