"""A uvicorn protocol with limits on the time and size of request headers.

uvicorn itself waits for headers without limits, and answers invalid HTTP with plain text; here the response is a
result. After a request was refused early, the connection is closed: the rest of its body is read and thrown away for a
while, because closing a socket with unread data would make the client's system discard the response.

A client may close its side of the connection after its request and wait for the response. To tell it from one that is
gone, an interim response (100), or a comment in a stream of events, is sent if the call takes longer: the system of the
latter answers with a reset.
"""

import asyncio
import select
from collections.abc import Callable
from typing import Any, ClassVar, Literal

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from openskills.host import http
from openskills.host.http import HttpExchange, HttpResponse, Receive, Scope, Send, build_refusal, new_trace

LINGER_SECONDS = 5.0
PROBE_INTERVAL = 0.2
"""Seconds between two looks at a client that has closed its side."""
MAX_LINGER_BYTES = 64 * 1024 * 1024
"""Bytes that are discarded before the connection is closed anyway."""


class ConnectionDrainer:
    """Half-closes a connection and discards what still arrives, for up to `LINGER_SECONDS`."""

    def __init__(
        self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, *, max_bytes: int = MAX_LINGER_BYTES
    ) -> None:
        self._transport = transport
        self._left = max_bytes
        self._timer = loop.call_later(LINGER_SECONDS, transport.close)
        if transport.can_write_eof():
            transport.write_eof()

    def discard(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            self._transport.close()

    def stop(self) -> None:
        """The connection was closed."""
        self._timer.cancel()


class SoftCloseTransport(asyncio.Transport):
    """A transport for a response before the end of its request: `close` calls `end` instead."""

    def __init__(self, transport: asyncio.Transport, end: Callable[[], None]) -> None:
        super().__init__()
        self._transport = transport
        self._end = end

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._transport.write(data)

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def close(self) -> None:
        self._end()


MAX_HEAD_BYTES = 64 * 1024


class HostProtocol(HttpToolsProtocol):
    """One connection. `head_seconds` is the timeout for request headers."""

    head_seconds: ClassVar[float] = 20.0

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._head_timer: asyncio.TimerHandle | None = None
        self._stage: Literal["between", "head", "body"] = "between"
        # Header bytes from earlier reads, bytes of this read, and whether those completed an earlier request.
        self._head = 0
        self._size = 0
        self._ended_one = False
        # The keep-alive flag of a request whose body is still arriving; None if there is none.
        self._outlives: bool | None = None
        self._deaf = False
        self._lingering: ConnectionDrainer | None = None
        self._probe: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Start the timer for the first request."""
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers."""
        self._stop_timer()
        if self._probe is not None:
            self._probe.cancel()
        if self._lingering is not None:
            self._lingering.stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse or discard bytes."""
        if self._lingering is not None:
            self._lingering.discard(len(data))
        elif not self._deaf:
            self._size, self._ended_one = len(data), False
            super().data_received(data)
            if not self._is_ending():
                self._check_progress()

    def eof_received(self) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The client has closed its side; returns whether it gets the response to its last request."""
        if not self._is_answering() or self._stage != "between" or self._is_ending():
            return False
        if self.cycle.scope["http_version"] == "1.0":
            return False
        self.cycle.keep_alive = False
        self._probe = self.loop.call_later(PROBE_INTERVAL, self._probe_client, False)
        return True

    def _probe_client(self, is_probed: bool) -> None:
        if not self._is_answering() or self._is_ending():
            return
        poll = select.poll()
        # Reports errors only, such as a reset.
        poll.register(self.transport.get_extra_info("socket").fileno(), 0)
        if poll.poll(0):
            self.transport.abort()
            return
        if not is_probed and not self.pipeline:
            if not self.cycle.response_started:
                self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            elif self.cycle.chunked_encoding:
                # Only streams of events are chunked.
                self.transport.write(b"%x\r\n%b\r\n" % (len(http.PING), http.PING))
        self._probe = self.loop.call_later(PROBE_INTERVAL, self._probe_client, True)

    def on_message_begin(self) -> None:
        """A request starts."""
        super().on_message_begin()
        self._stage = "head"

    def on_headers_complete(self) -> None:
        """The headers are complete."""
        if self._head + self._size > MAX_HEAD_BYTES and self._head_size() > MAX_HEAD_BYTES:
            # Sent through the application, so that responses to earlier requests come first.
            self.app = _refuse_large_head
        super().on_headers_complete()
        self._stage = "body"
        self._stop_timer()

    def on_message_complete(self) -> None:
        """The request is complete."""
        if self._outlives is not None:
            if not self.cycle.response_started:
                self.cycle.keep_alive = self._outlives
            self._outlives = None
        super().on_message_complete()
        self.cycle.scope[http.COMPLETE] = True  # pyright: ignore[reportGeneralTypeIssues] - a key of our own
        self._stage = "between"
        self._ended_one = True

    def on_response_complete(self) -> None:
        """A response is complete; the next request may have started."""
        super().on_response_complete()
        if self._stage == "head" and not self._is_answering() and not self._is_ending():
            self._start_timer()

    def shutdown(self) -> None:
        """Close the connection after the current response."""
        super().shutdown()
        if self._outlives is not None:
            self._outlives = False

    def send_400_response(self, msg: str) -> None:
        """Respond to invalid HTTP, unless it follows a request that was already answered."""
        if self._stage == "body" and self.cycle.response_started:
            self.transport.close()
        else:
            self._refuse(build_refusal(http.invalid_request(msg), new_trace()))

    def _check_progress(self) -> None:
        if self._stage == "body":
            # A response that is sent before the body is complete also closes the connection.
            if self._outlives is None:
                self._outlives = self.cycle.keep_alive
                self.cycle.keep_alive = False
                self.cycle.transport = SoftCloseTransport(self.transport, self._close_softly)
        elif self._stage == "head" or not self._is_answering():
            if not self._is_answering():
                self._start_timer()
            # Where a second request starts in these bytes is unknown; only later bytes are counted.
            self._head += 0 if self._ended_one else self._size
            if self._head > MAX_HEAD_BYTES:
                self._refuse(build_refusal(http.head_too_large(MAX_HEAD_BYTES), new_trace()))

    def _head_size(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete  # pyright: ignore[reportUnnecessaryComparison] - it is None at first

    def _is_ending(self) -> bool:
        return self._deaf or self._lingering is not None or self.transport.is_closing()

    def _start_timer(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.head_seconds, self._refuse_slow_head)

    def _stop_timer(self) -> None:
        self._head = 0
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _refuse_slow_head(self) -> None:
        if not self._is_ending():
            self._refuse(build_refusal(http.head_too_slow(self.head_seconds), new_trace()))

    def _refuse(self, answer: HttpResponse) -> None:
        if self._is_answering() and (self._stage != "body" or self.pipeline):
            # Earlier requests are answered first, and then the connection is closed.
            self.cycle.keep_alive = False
            self._deaf = True
            return
        lines = [b"HTTP/1.1 %d \r\n" % answer.status]
        lines += [b"%s: %s\r\n" % header for header in (*answer.headers, (b"connection", b"close"))]
        self.transport.write(b"".join([*lines, b"\r\n", answer.body]))
        if self._is_answering():
            # The reader of the body gets a disconnect.
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
