"""Bytes pass unchanged in both directions, in bounded memory, and one request is one request."""

import asyncio
import socket
import struct
import tracemalloc

import pytest

from openskills.sync import run
from tests.executors.loopback import PATIENCE, Handler, Proxying, proxying, serving, until

MIB = 1024 * 1024


class Recorder:
    """A server that notes what it was sent, up to the end, and answers."""

    def __init__(self, answer: bytes = b"HTTP/1.1 204 No Content\r\n\r\n", *, expects: bytes = b"\r\n\r\n") -> None:
        self._answer = answer
        self._expects = expects
        self.heard = b""
        self.ended = asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while not self.heard.endswith(self._expects):
                data = await reader.read(65536)
                if not data:
                    return
                self.heard += data
            writer.write(self._answer)
            writer.write_eof()
            self.heard += await reader.read()
        finally:
            self.ended.set()


async def relayed(handler: Handler, sent: bytes) -> bytes:
    """The answer to a request; `PORT` in it is the server's."""
    async with serving(handler) as port, proxying(f"127.0.0.1:{port}") as through:
        return await through.ask(sent.replace(b"PORT", str(port).encode()))


def post(*fields: str, body: bytes) -> bytes:
    return "\r\n".join(["POST http://127.0.0.1:PORT/ HTTP/1.1", *fields, "", ""]).encode() + body


def test_a_body_of_known_length_arrives_and_nothing_after_it() -> None:
    recorder = Recorder(expects=b"12345")
    smuggled = b"GET / HTTP/1.1\r\nHost: other.example\r\n\r\n"
    answer = run(relayed(recorder, post("Content-Length: 5", body=b"12345" + smuggled)))
    assert answer.startswith(b"HTTP/1.1 204 ")
    assert recorder.heard.endswith(b"Content-Length: 5\r\nConnection: close\r\n\r\n12345")


def test_a_second_request_on_the_same_connection_goes_nowhere() -> None:
    recorder = Recorder()
    first = b"GET http://127.0.0.1:PORT/one HTTP/1.1\r\n\r\n"
    run(relayed(recorder, first + b"GET http://127.0.0.1:PORT/two HTTP/1.1\r\n\r\n"))
    assert recorder.heard.startswith(b"GET /one HTTP/1.1\r\n")
    assert b"/two" not in recorder.heard


def test_a_body_in_chunks_arrives_in_chunks_without_extensions_and_trailers() -> None:
    recorder = Recorder(expects=b"0\r\n\r\n")
    body = b"5;a=b\r\nhello\r\n1\r\n!\r\n0\r\nX-Trailer: y\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n"
    run(relayed(recorder, post("Transfer-Encoding: chunked", body=body)))
    assert recorder.heard.partition(b"\r\n\r\n")[2] == b"5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    "body", [b"zz\r\n", b"2\r\nhello\r\n0\r\n\r\n", b"-1\r\n", b"5\nhello\n0\n\n\r\n", b"1" * 9000 + b"\r\n"]
)
def test_chunks_that_do_not_add_up_are_refused(body: bytes) -> None:
    recorder = Recorder(expects=b"never")
    answer = run(relayed(recorder, post("Transfer-Encoding: chunked", body=body)))
    assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 431 "))
    assert b"0\r\n\r\n" not in recorder.heard.partition(b"\r\n\r\n")[2]


def test_a_body_that_breaks_off_is_not_passed_off_as_whole() -> None:
    recorder = Recorder(expects=b"never")

    async def scene() -> bytes:
        async with (
            serving(recorder) as port,
            proxying(f"127.0.0.1:{port}") as through,
            through.client() as (reader, writer),
        ):
            writer.write(post("Content-Length: 10", body=b"12345").replace(b"PORT", str(port).encode()))
            writer.write_eof()
            answer = await reader.read()
            await asyncio.wait_for(recorder.ended.wait(), PATIENCE)
            return answer

    assert run(scene()) == b""


def test_a_client_that_waits_for_the_servers_leave_gets_it() -> None:
    async def lenient(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await reader.readexactly(4)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + body)

    async def scene() -> bytes:
        async with (
            serving(lenient) as port,
            proxying(f"127.0.0.1:{port}") as through,
            through.client() as (reader, writer),
        ):
            head = post("Content-Length: 4", "Expect: 100-continue", body=b"")
            writer.write(head.replace(b"PORT", str(port).encode()))
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(b"body")
            return await reader.read()

    assert run(scene()) == b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nbody"


def test_an_answer_before_the_end_of_the_body_arrives() -> None:
    async def early(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
        writer.write_eof()
        await reader.read(1000)

    async def scene() -> bytes:
        async with (
            serving(early) as port,
            proxying(f"127.0.0.1:{port}") as through,
            through.client() as (reader, writer),
        ):
            head = post("Content-Length: 100000000", body=b"x" * 1000)
            writer.write(head.replace(b"PORT", str(port).encode()))
            return await reader.read()

    assert run(scene()).endswith(b"Connection: close\r\n\r\nno")


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nbad\r\n\r\n",
        b"HTTP/1.1 2",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 40_000 + b"\r\n\r\n",
    ],
)
def test_a_server_without_a_proper_answer_is_reported_as_such(answer: bytes) -> None:
    recorder = Recorder(answer)
    assert run(relayed(recorder, b"GET http://127.0.0.1:PORT/ HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 502 ")


def test_each_side_of_a_tunnel_may_stop_sending_before_the_other() -> None:
    async def after_the_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.read()
        writer.write(b"all of " + asked)

    async def before_the_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"done")
        writer.write_eof()
        heard.append(await reader.read())

    heard: list[bytes] = []

    async def scene(handler: Handler) -> bytes:
        async with (
            serving(handler) as port,
            proxying(f"127.0.0.1:{port}") as through,
            through.tunnel(f"127.0.0.1:{port}") as (reader, writer),
        ):
            writer.write(b"it")
            if handler is before_the_end:
                assert await reader.read() == b"done"
                writer.write(b" and more")
                writer.write_eof()
                await until(lambda: bool(heard))
                return heard[0]
            writer.write_eof()
            return await reader.read()

    assert run(scene(after_the_end)) == b"all of it"
    assert run(scene(before_the_end)) == b"it and more"


@pytest.mark.parametrize("way", ["tunnel", "plain"])
def test_a_client_that_breaks_off_frees_the_server(way: str) -> None:
    ended = asyncio.Event()

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            while True:
                writer.write(bytes(65536))
                await writer.drain()
        finally:
            ended.set()

    async def scene() -> None:
        async with serving(endless) as port, proxying(f"127.0.0.1:{port}") as through:
            first = f"CONNECT 127.0.0.1:{port}" if way == "tunnel" else f"GET http://127.0.0.1:{port}/"
            async with through.client() as (reader, writer):
                writer.write(f"{first} HTTP/1.1\r\n\r\n".encode())
                await reader.readexactly(1000)
                _reset(writer)
            await asyncio.wait_for(ended.wait(), PATIENCE)

    run(scene())


@pytest.mark.parametrize("way", ["tunnel", "plain"])
def test_a_large_answer_to_a_client_that_reads_slowly_takes_little_memory(way: str) -> None:
    size = 96 * MIB
    sent = 0

    async def large(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        block = bytes(65536)
        while sent < size:
            writer.write(block)
            await writer.drain()
            sent += len(block)

    async def stalled() -> None:
        """Wait until the server gets no further, because nobody reads."""
        before = -1
        async with asyncio.timeout(PATIENCE):
            while before != sent or not sent:
                before = sent
                for _ in range(20):
                    await asyncio.sleep(0.005)

    async def read(through: Proxying, port: int) -> int:
        async with through.client() as (reader, writer):
            if way == "tunnel":
                writer.write(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n".encode())
            else:
                writer.write(f"GET http://127.0.0.1:{port}/ HTTP/1.1\r\n\r\n".encode())
            await stalled()
            assert sent < size
            received = 0
            while chunk := await reader.read(MIB):
                received += len(chunk)
            return received

    async def scene() -> tuple[int, int]:
        async with serving(large) as port, proxying(f"127.0.0.1:{port}") as through:
            tracemalloc.start()
            try:
                received = await read(through, port)
                return received, tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()

    received, peak = run(scene())
    assert received > size
    assert peak < 4 * MIB


def test_a_large_upload_arrives_whole() -> None:
    size = 20 * MIB
    counted = 0

    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal counted
        await reader.readuntil(b"\r\n\r\n")
        while counted < size:
            counted += len(await reader.read(65536))
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")

    answer = run(relayed(count, post(f"Content-Length: {size}", body=bytes(size))))
    assert answer.startswith(b"HTTP/1.1 204 ")
    assert counted == size


def _reset(writer: asyncio.StreamWriter) -> None:
    """Break the connection off, as a killed process with unread data does."""
    connection: socket.socket = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
