"""Connections as our own server takes them: nobody may hold one forever without asking for anything.

uvicorn waits for the head of a request as long as it takes and as large as it gets, and answers what is no HTTP with
plain text. Here a head has a time and a size, and the answer is a result.
"""

import asyncio
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from openskills.host.wire import faults
from openskills.host.wire.answers import Answer, refusal
from openskills.host.wire.trace_ids import minted

HEAD_BYTES = 64 * 1024


class HostProtocol(HttpToolsProtocol):
    """One connection. `head_seconds` is how long the head of a request may take."""

    head_seconds: ClassVar[float] = 20.0

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._patience: asyncio.TimerHandle | None = None
        self._head = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Somebody is there: a request should follow."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is there any more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Some bytes have come."""
        super().data_received(data)
        begun = self.cycle is not None  # pyright: ignore[reportUnnecessaryComparison] - it is None at first
        if begun and not self.cycle.response_complete:
            self._stop_waiting()
        elif not self.transport.is_closing():
            self._incomplete(len(data))

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP."""
        self._refuse(refusal(faults.no_http(msg), minted()))

    def _incomplete(self, size: int) -> None:
        if self._patience is None:
            self._wait()
        self._head += size
        if self._head > HEAD_BYTES:
            self._refuse(refusal(faults.head_too_large(HEAD_BYTES), minted()))

    def _wait(self) -> None:
        self._patience = self.loop.call_later(self.head_seconds, self._too_slow)

    def _stop_waiting(self) -> None:
        self._head = 0
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _too_slow(self) -> None:
        if not self.transport.is_closing():
            self._refuse(refusal(faults.head_too_slow(self.head_seconds), minted()))

    def _refuse(self, answer: Answer) -> None:
        lines = [b"HTTP/1.1 %d \r\n" % answer.status]
        lines += [b"%s: %s\r\n" % header for header in (*answer.headers, (b"connection", b"close"))]
        self.transport.write(b"".join([*lines, b"\r\n", answer.body]))
        self.transport.close()
