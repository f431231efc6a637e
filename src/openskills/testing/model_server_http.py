"""As much HTTP as a scripted model server needs: requests in, answers out, over one connection after another."""

import asyncio
import json
import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.client import responses
from typing import Any

_POLL = 0.01


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it came in; the names of headers are in lower case."""

    path: str
    headers: Mapping[str, str]
    content: bytes


class ClientLeft(Exception):
    """The other side closed the connection before its answer was over."""


class Connection:
    """One connection from a client. Everything that writes raises `ClientLeft` when nobody is there any more."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def request(self) -> Request | None:
        """The next request; None when the client wants nothing more."""
        try:
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.rstrip().split("\r\n")
            headers = {
                name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
            }
            content = await self._reader.readexactly(int(headers.get("content-length", 0)))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        return Request(first.split(" ")[1], headers, content)

    async def whole(self, status: int, body: object, headers: Mapping[str, str]) -> None:
        """Answer with JSON."""
        content = json.dumps(body, ensure_ascii=False).encode()
        more = {"content-type": "application/json", "content-length": str(len(content)), **headers}
        await self._write(_head(status, more) + content)

    async def begin(self, status: int, content_type: str) -> None:
        """Begin an answer that comes in chunks."""
        await self._write(_head(status, {"content-type": content_type, "transfer-encoding": "chunked"}))

    async def chunk(self, content: bytes) -> None:
        """Some more of it; nothing is its end."""
        await self._write(b"%x\r\n%s\r\n" % (len(content), content))

    async def silence(self, seconds: float) -> None:
        """Say nothing for so long, or until the client leaves."""
        until = asyncio.get_running_loop().time() + seconds
        while (left := until - asyncio.get_running_loop().time()) > 0:
            if self._reader.at_eof() or self._reader.exception() is not None:
                raise ClientLeft
            await asyncio.sleep(min(left, _POLL))

    def reset(self) -> None:
        """End it in the way that the other side sees as an error of its own."""
        raw: Any = self._writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    async def close(self) -> None:
        """End it."""
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except ConnectionError:
            return

    async def _write(self, content: bytes) -> None:
        if self._reader.at_eof() or self._reader.exception() is not None:
            raise ClientLeft
        try:
            self._writer.write(content)
            await self._writer.drain()
        except ConnectionError:
            raise ClientLeft from None


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines: Sequence[str] = [
        f"HTTP/1.1 {status} {responses.get(status, 'Scripted')}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")
