"""Connections that end while the other side is still sending."""

import asyncio
import socket

from openskills.host.wire.lingering import EndsSoftly, Lingering


class Ending(asyncio.Protocol):
    """A server that answers the first bytes and lingers then."""

    def __init__(self, most: int, ended: asyncio.Event) -> None:
        self._most = most
        self._ended = ended
        self._lingering: Lingering | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        if self._lingering is None:
            self._transport.write(b"answer")
            self._lingering = Lingering(self._transport, asyncio.get_running_loop(), most=self._most)
        else:
            self._lingering.swallow(len(data))

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - as the protocol has it
        if self._lingering is not None:
            self._lingering.stop()
        self._ended.set()


async def heard(most: int, size: int) -> tuple[bytes, bool]:
    """What a caller hears that sends so much before it listens, and whether all of it could be sent."""
    ended = asyncio.Event()
    server = await asyncio.get_running_loop().create_server(lambda: Ending(most, ended), "127.0.0.1", 0)
    async with server:
        found = await asyncio.to_thread(_call, server.sockets[0].getsockname()[1], size)
        await asyncio.wait_for(ended.wait(), 20)
        return found


def _call(port: int, size: int) -> tuple[bytes, bool]:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(b"x")
        whole = True
        found = connection.recv(100)
        try:
            connection.sendall(b"x" * size)
            found += connection.recv(100)
        except OSError:
            whole = False
    return found, whole


def test_who_is_still_sending_hears_the_answer_and_that_it_is_the_end() -> None:
    assert asyncio.run(heard(10_000_000, 5_000_000)) == (b"answer", True)


def test_who_does_not_stop_is_cut_off() -> None:
    answer, whole = asyncio.run(heard(100_000, 50_000_000))
    assert (answer, whole) == (b"answer", False)


def test_an_answer_is_written_to_where_it_goes_and_ends_as_it_is_told() -> None:
    class Kept(asyncio.Transport):
        def __init__(self) -> None:
            super().__init__()
            self.written: list[bytes] = []

        def write(self, data: bytes | bytearray | memoryview) -> None:
            self.written.append(bytes(data))

        def is_closing(self) -> bool:
            return bool(self.written)

    kept, ended = Kept(), list[bool]()
    soft = EndsSoftly(kept, lambda: ended.append(True))
    assert not soft.is_closing()
    soft.write(b"a")
    soft.close()
    assert (kept.written, soft.is_closing(), ended) == ([b"a"], True, [True])
