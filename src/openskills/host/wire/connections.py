"""Connections as our own server takes them: nobody may hold one forever without asking for anything.

uvicorn waits for the head of a request as long as it takes and as large as it gets, and answers what is no HTTP with
plain text. Here a head has a time and a size, and the answer is a result. Each request gets one answer: what still
comes of one that was refused early belongs to nobody, and the connection ends with it.
"""

import asyncio
from typing import Any, ClassVar, Literal

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from openskills.host.wire import faults
from openskills.host.wire.answers import Answer, refusal
from openskills.host.wire.exchange import Exchange, Receive, Scope, Send
from openskills.host.wire.lingering import EndsSoftly, Lingering
from openskills.host.wire.trace_ids import minted

HEAD_BYTES = 64 * 1024


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
        self._lingering: Lingering | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Somebody is there: a request should follow."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is there any more."""
        self._stop_waiting()
        if self._lingering is not None:
            self._lingering.stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Some bytes have come."""
        if self._lingering is not None:
            self._lingering.swallow(len(data))
        elif not self._deaf:
            self._size, self._ended_one = len(data), False
            super().data_received(data)
            if not self._is_ending():
                self._look()

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        super().on_message_begin()
        self._stage = "head"

    def on_headers_complete(self) -> None:
        """The head of a request is there."""
        if self._head + self._size > HEAD_BYTES and self._size_of_head() > HEAD_BYTES:
            # Answered like any other, so that it does not come before the answers to earlier requests.
            self.app = _too_large
        super().on_headers_complete()
        self._stage = "body"
        self._stop_waiting()

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
            self._wait()

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
            self._refuse(refusal(faults.no_http(msg), minted()))

    def _look(self) -> None:
        """What has come, and what is still to come?"""
        if self._stage == "body":
            self._expect_rest()
        elif self._stage == "head" or not self._is_answering():
            if not self._is_answering():
                self._wait()
            # Where in these bytes a second request begins is not known. They are few; the next ones count.
            self._head += 0 if self._ended_one else self._size
            if self._head > HEAD_BYTES:
                self._refuse(refusal(faults.head_too_large(HEAD_BYTES), minted()))

    def _expect_rest(self) -> None:
        """An answer that does not wait for the rest of the body says that the connection ends."""
        if self._outlives is None:
            self._outlives = self.cycle.keep_alive
            self.cycle.keep_alive = False
            self.cycle.transport = EndsSoftly(self.transport, self._end)

    def _size_of_head(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete  # pyright: ignore[reportUnnecessaryComparison] - it is None at first

    def _is_ending(self) -> bool:
        return self._deaf or self._lingering is not None or self.transport.is_closing()

    def _wait(self) -> None:
        if self._patience is None:
            self._patience = self.loop.call_later(self.head_seconds, self._too_slow)

    def _stop_waiting(self) -> None:
        self._head = 0
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _too_slow(self) -> None:
        if not self._is_ending():
            self._refuse(refusal(faults.head_too_slow(self.head_seconds), minted()))

    def _refuse(self, answer: Answer) -> None:
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

    def _end(self) -> None:
        if self._stage == "body" and not self.transport.is_closing():
            self._linger()
        else:
            self.transport.close()

    def _linger(self) -> None:
        self._stop_waiting()
        self._lingering = self._lingering or Lingering(self.transport, self.loop)
        self.flow.resume_reading()


async def _too_large(scope: Scope, receive: Receive, send: Send) -> None:
    exchange = Exchange(scope, receive, send)
    await exchange.answer(refusal(faults.head_too_large(HEAD_BYTES), exchange.trace), close=True)
