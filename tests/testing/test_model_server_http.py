"""Enough HTTP: requests one after another, answers whole and in chunks, silence that a client may end."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from openskills.testing.model_server_http import ClientLeft, Connection, Request

POST = b"POST /v1/messages HTTP/1.1\r\nHost: here\r\nX-Team:  skills \r\nContent-Length: 2\r\n\r\n{}"


async def serving(
    serve: Callable[[Connection], Awaitable[None]],
    client: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> None:
    ended = asyncio.Event()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(reader, writer)
        try:
            await serve(connection)
        finally:
            await connection.close()
            ended.set()

    async with await asyncio.start_server(connected, "127.0.0.1", 0) as server, asyncio.timeout(10):
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        await client(reader, writer)
        writer.close()
        await ended.wait()


def test_requests_come_one_after_another_until_the_client_is_done() -> None:
    found: list[Request | None] = []

    async def serve(connection: Connection) -> None:
        found.extend([await connection.request(), await connection.request(), await connection.request()])

    async def client(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(POST + POST)
        writer.write_eof()

    asyncio.run(serving(serve, client))
    request = Request("/v1/messages", {"host": "here", "x-team": "skills", "content-length": "2"}, b"{}")
    assert found == [request, request, None]


def test_half_a_request_is_none() -> None:
    async def serve(connection: Connection) -> None:
        assert await connection.request() is None

    async def client(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(POST[:-1])
        writer.write_eof()

    asyncio.run(serving(serve, client))


def test_answers_are_whole_or_in_chunks() -> None:
    async def serve(connection: Connection) -> None:
        await connection.whole(429, {"a": "ü"}, {"retry-after": "3"})
        await connection.begin(200, "text/event-stream")
        await connection.chunk(b"data: 1\n\n")
        await connection.chunk(b"")

    async def client(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        assert await reader.read() == (
            b"HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\ncontent-length: 11\r\n"
            b'retry-after: 3\r\n\r\n{"a": "\xc3\xbc"}'
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
            b"9\r\ndata: 1\n\n\r\n0\r\n\r\n"
        )

    asyncio.run(serving(serve, client))


def test_silence_ends_when_the_client_leaves() -> None:
    left: list[bool] = []

    async def serve(connection: Connection) -> None:
        with pytest.raises(ClientLeft):
            await connection.silence(60)
        with pytest.raises(ClientLeft):
            await connection.chunk(b"nobody is there")
        left.append(True)

    async def client(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    asyncio.run(serving(serve, client))
    assert left


def test_a_reset_is_an_error_to_the_client() -> None:
    async def serve(connection: Connection) -> None:
        await connection.request()
        connection.reset()

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(POST)
        with pytest.raises(ConnectionResetError):
            await reader.read()

    asyncio.run(serving(serve, client))
