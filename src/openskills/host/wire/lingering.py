"""The end of a connection whose other side may still be sending.

Closed at once, with bytes that nobody has read, a connection counts as broken: the system of the caller throws away the
answer that it has not read yet. So our side says that it is done, and what still comes is thrown away for a while.
"""

import asyncio
from collections.abc import Callable

SECONDS = 5.0
MOST = 64 * 1024 * 1024
"""Bytes that are thrown away before the connection is closed all the same."""


class Lingering:
    """A connection that ends. It begins with that; nothing can be written any more."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, *, most: int = MOST) -> None:
        self._transport = transport
        self._left = most
        self._timer = loop.call_later(SECONDS, transport.close)
        if transport.can_write_eof():
            transport.write_eof()

    def swallow(self, size: int) -> None:
        """So many bytes have come that nobody wants."""
        self._left -= size
        if self._left < 0:
            self._transport.close()

    def stop(self) -> None:
        """The connection is gone."""
        self._timer.cancel()


class EndsSoftly(asyncio.Transport):
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
