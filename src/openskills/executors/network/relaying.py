"""Bytes between two connections, in bounded memory: what cannot be written is not read."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus

from openskills.executors.network.httphead import (
    END,
    MAX_HEAD,
    MAX_RESPONSE_HEAD,
    Refused,
    Request,
    parse_chunk,
    parse_response,
)

CHUNK = 32 * 1024
"""How much is read at once. Each side of a connection holds at most a few of these."""
_ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
_LAST_BYTES_MAY_TAKE = 5.0
_LINGER_SECONDS = 1.0
_LINGER_BYTES = 1024 * 1024


@dataclass(slots=True)
class Peer:
    """One side of a connection that is passed on; `answered`: it was sent something."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    answered: bool = False

    async def finish(self) -> None:
        """Close it when everything is written; a peer that does not read is not waited for."""
        self.writer.close()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(_LAST_BYTES_MAY_TAKE):
                await self.writer.wait_closed()
                return
        self.writer.transport.abort()

    def abort(self) -> None:
        """Close it at once."""
        self.writer.transport.abort()


class Budget:
    """How many bytes may pass in all, and how long nothing may pass; one clock for both directions."""

    def __init__(self, clock: asyncio.Timeout, idle: float, spend: "Spending") -> None:
        self._clock = clock
        self._idle = idle
        self._spend = spend

    def passed(self, count: int) -> None:
        """Bytes have gone through. Raises `Refused` when there were too many."""
        self._spend.add(count)
        self._clock.reschedule(asyncio.get_running_loop().time() + self._idle)


class Spending:
    """The bytes of all connections of one proxy."""

    def __init__(self, most: int | None) -> None:
        self.total = 0
        self._most = most

    def add(self, count: int) -> None:
        """Count; raises `Refused` beyond the limit."""
        self.total += count
        if self._most is not None and self.total > self._most:
            message = f"this command has moved more than {self._most:,} bytes over the network"
            raise Refused(HTTPStatus.FORBIDDEN, message)


async def tunnel(client: Peer, server: Peer, budget: Budget) -> None:
    """Pass on both directions until both have ended; each may end before the other."""
    client.answered = True
    await _pass(_ESTABLISHED, client.writer, budget)
    await _together(
        _pass_all(client.reader, server.writer, budget),
        _pass_all(server.reader, client.writer, budget),
    )


async def exchange(request: Request, client: Peer, server: Peer, budget: Budget) -> None:
    """Pass on one request and its answer. Nothing that the client sends after the request goes anywhere."""
    server.writer.write(request.forwarded())
    sending = asyncio.ensure_future(_pass_body(request.length, client.reader, server.writer, budget))
    answering = asyncio.ensure_future(_pass_answer(server.reader, client, budget))
    try:
        await asyncio.wait({sending, answering}, return_when=asyncio.FIRST_COMPLETED)
        # A server may answer before it has read everything, and does not want the rest.
        if sending.done() and not isinstance(sending.exception(), OSError):
            sending.result()
        await answering
    finally:
        await _stop(sending, answering)
    await linger(client)


async def say(data: bytes, client: Peer) -> None:
    """Send a last answer."""
    with suppress(OSError):
        client.writer.write(data)
        client.writer.write_eof()
        await linger(client)


async def linger(client: Peer) -> None:
    """Wait a little for the end of what a client is still sending: closing now could destroy what it has not read."""
    left = _LINGER_BYTES
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(_LINGER_SECONDS):
            while left > 0 and (chunk := await client.reader.read(CHUNK)):
                left -= len(chunk)


async def _together(*works: Coroutine[None, None, None]) -> None:
    """Do all until they end or one fails."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        await _stop(*tasks)


async def _stop(*tasks: "asyncio.Future[None]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _pass_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, budget: Budget) -> None:
    while chunk := await reader.read(CHUNK):
        await _pass(chunk, writer, budget)
    writer.write_eof()


async def _pass(chunk: bytes, writer: asyncio.StreamWriter, budget: Budget) -> None:
    budget.passed(len(chunk))
    writer.write(chunk)
    await writer.drain()


async def _pass_body(
    length: int | None, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, budget: Budget
) -> None:
    if length is not None:
        await _pass_exactly(length, reader, writer, budget)
        return
    while size := parse_chunk(await _until(reader, b"\r\n", MAX_HEAD)):
        await _pass(b"%x\r\n" % size, writer, budget)
        await _pass_exactly(size, reader, writer, budget)
        if await reader.readexactly(2) != b"\r\n":
            raise Refused(HTTPStatus.BAD_REQUEST, "a chunk of the body is longer than its size")
        await _pass(b"\r\n", writer, budget)
    # Trailers end with an empty line; they are not passed on.
    while await _until(reader, b"\r\n", MAX_HEAD) != b"\r\n":
        pass
    await _pass(b"0\r\n\r\n", writer, budget)


async def _pass_exactly(
    length: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, budget: Budget
) -> None:
    while length:
        chunk = await reader.read(min(length, CHUNK))
        if not chunk:
            raise EOFError("the client has gone in the middle of its request")
        length -= len(chunk)
        await _pass(chunk, writer, budget)


async def _pass_answer(reader: asyncio.StreamReader, client: Peer, budget: Budget) -> None:
    status = 100
    while status < 200:
        try:
            found = await _until(reader, END, MAX_RESPONSE_HEAD, HTTPStatus.BAD_GATEWAY)
        except asyncio.IncompleteReadError:
            raise Refused(HTTPStatus.BAD_GATEWAY, "the server has closed the connection without an answer") from None
        status, head = parse_response(found)
        if status == HTTPStatus.SWITCHING_PROTOCOLS:
            raise Refused(HTTPStatus.BAD_GATEWAY, "the server changes the protocol, which nobody asked for")
        client.answered = True
        await _pass(head, client.writer, budget)
    await _pass_all(reader, client.writer, budget)


async def _until(
    reader: asyncio.StreamReader,
    end: bytes,
    most: int,
    status: HTTPStatus = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
) -> bytes:
    """Up to and with `end`. Raises `Refused` when that is too long, `IncompleteReadError` when it does not come."""
    try:
        found = await reader.readuntil(end)
    except asyncio.LimitOverrunError:
        found = bytes(most + 1)
    if len(found) > most:
        raise Refused(status, f"a head of more than {most:,} bytes is not accepted")
    return found


async def read_head(reader: asyncio.StreamReader) -> bytes:
    """The head of a request. Raises `Refused` when it is too long or none; `EOFError` when there is no request."""
    # A program that speaks TLS or SOCKS would wait for an answer that does not come.
    first = await reader.readexactly(1)
    if not (first.isascii() and first.isalpha()):
        raise Refused(HTTPStatus.BAD_REQUEST, "this is an HTTP/1.1 proxy; use http://127.0.0.1 and its port as one")
    return first + await _until(reader, END, MAX_HEAD)
