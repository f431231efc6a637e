"""The channel refuses who does not know the token, and what is too large or not valid."""

import asyncio
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from openskills.errors import InvalidArgument
from openskills.executors.ray.channel import (
    MAX_HEADER,
    PIECE_BYTES,
    Channel,
    ChannelClosed,
    Reply,
    check_driver,
    connect,
)

TOKEN = b"t" * 32


async def answer(name: str, arguments: dict[str, Any], body: bytes) -> Reply:
    if name == "fail":
        raise InvalidArgument("field", "is wrong")
    if name == "wait":
        await asyncio.Event().wait()
    return {"name": name, **arguments}, body


@asynccontextmanager
async def serving() -> AsyncGenerator[tuple[int, list[Channel | None]]]:
    accepted: list[Channel | None] = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        is_driver = await check_driver(reader, writer, TOKEN)
        accepted.append(Channel(reader, writer, handler=answer, timeout=30) if is_driver else None)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], accepted
    finally:
        server.close()
        for channel in accepted:
            if channel is not None:
                channel.close()


async def open_channel(port: int, token: bytes = TOKEN) -> Channel:
    return Channel(*await connect("127.0.0.1", port, token, timeout=10), timeout=30)


async def test_requests_are_answered_out_of_order_with_any_bytes_and_their_errors() -> None:
    async with serving() as (port, _):
        channel = await open_channel(port)
        waiting = asyncio.ensure_future(channel.call("wait", {}))
        large = bytes(range(256)) * (3 * PIECE_BYTES // 256) + b"rest"
        assert await channel.call("echo", {"path": "\udcff"}, large) == ({"name": "echo", "path": "\udcff"}, large)
        with pytest.raises(InvalidArgument, match="field: is wrong"):
            await channel.call("fail", {})
        assert not waiting.done()
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        channel.close()


async def test_requests_that_are_cancelled_while_they_are_sent_leave_nothing_on_the_other_side() -> None:
    async with serving() as (port, accepted):
        channel = await open_channel(port)
        # More than the system buffers, so that it cannot leave at once; and more rounds than may arrive together.
        large = bytes(16 * 1024 * 1024)
        for _ in range(70):
            sending = asyncio.ensure_future(channel.call("echo", {}, large))
            await asyncio.sleep(0)
            sending.cancel()
            await asyncio.wait([sending])
            assert sending.cancelled()
        assert await channel.call("echo", {}, b"x") == ({"name": "echo"}, b"x")
        assert accepted[0] is not None
        assert not accepted[0].is_closed
        channel.close()


async def test_a_driver_with_another_token_is_not_heard() -> None:
    async with serving() as (port, accepted):
        with pytest.raises(ChannelClosed, match="cannot connect"):
            await open_channel(port, b"x" * 32)
        assert accepted == [None]


async def test_a_node_with_another_token_is_not_trusted() -> None:
    async def pretend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(49))
        writer.write(await reader.readexactly(32))
        writer.close()

    server = await asyncio.start_server(pretend, "127.0.0.1", 0)
    try:
        with pytest.raises(ChannelClosed, match="does not know the token"):
            await open_channel(server.sockets[0].getsockname()[1])
    finally:
        server.close()


@pytest.mark.parametrize(
    "frame",
    [
        struct.pack(">BIII", 0, 0, MAX_HEADER + 1, 0),
        struct.pack(">BIII", 0, 0, 0, PIECE_BYTES + 1),
        struct.pack(">BIII", 0, 0, 2, 0) + b"[]",
        struct.pack(">BIII", 0, 0, 3, 0) + b"{x}",
        struct.pack(">BIII", 0, 0, 12, 0) + b'{"call": "x"',
        b"".join(struct.pack(">BIII", 1, number, 0, 1) + b"x" for number in range(100)),
    ],
    ids=["large header", "large body", "not an object", "not JSON", "cut JSON", "many partial messages"],
)
async def test_an_invalid_message_ends_the_connection(frame: bytes) -> None:
    async with serving() as (port, accepted):
        channel = await open_channel(port)
        writer = channel._writer  # pyright: ignore[reportPrivateUsage]
        waiting = asyncio.ensure_future(channel.call("wait", {}))
        await asyncio.sleep(0)
        writer.write(frame)
        with pytest.raises(ChannelClosed):
            await waiting
        assert accepted[0] is not None
        assert accepted[0].is_closed
