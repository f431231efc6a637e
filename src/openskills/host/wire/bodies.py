"""The body of a request: never more of it than is wanted, and never for longer than it may take."""

import asyncio

from openskills.errors import UnsupportedMedia
from openskills.host.wire import faults
from openskills.host.wire.exchange import Exchange, Message
from openskills.host.wire.faults import Refused

SECONDS = 10.0
"""How long a body may take to arrive."""


class Gone(Exception):
    """Who called has hung up; nobody waits for an answer."""


async def read_body(exchange: Exchange, most: int, *, seconds: float = SECONDS) -> bytes:
    """The whole body. One that says it is too large is refused before any of it is read.

    Raises `Refused` for one that is too large or too slow, `UnsupportedMedia` for one that is packed, `Gone` when the
    caller hangs up.
    """
    _check_encoding(exchange.headers.get(b"content-encoding"))
    _check_length(exchange.headers.get(b"content-length"), most)
    try:
        async with asyncio.timeout(seconds):
            message = await exchange.receive()
            if message["type"] == "http.request" and not message.get("more_body", False):
                body: bytes = message.get("body", b"")
                if len(body) > most:
                    raise Refused(faults.body_too_large(len(body), most))
                return body
            return await _rest(exchange, message, most)
    except TimeoutError:
        # What is still to come of this request cannot be told from the next one.
        raise Refused(faults.body_too_slow(seconds), close=True) from None


async def _rest(exchange: Exchange, message: Message, most: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while message["type"] == "http.request":
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > most:
            raise Refused(faults.body_too_large(None, most))
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)
        message = await exchange.receive()
    raise Gone


def _check_encoding(encoding: bytes | None) -> None:
    # Unpacked, a small body may be a very large one.
    if encoding is not None and encoding.strip().lower() not in {b"", b"identity"}:
        found = encoding.decode("latin-1")[:100]
        raise UnsupportedMedia(f"the content encoding is {found!r}; send the body as it is, without Content-Encoding")


def _check_length(length: bytes | None, most: int) -> None:
    if length is None:
        return
    if not length.isdigit():
        raise Refused(faults.bad_length(length.decode("latin-1")), close=True)
    # A number of thousands of digits is large, whatever it is.
    size = int(length) if len(length) < 19 else None
    if size is None or size > most:
        raise Refused(faults.body_too_large(size, most))
