"""Connections that ask for nothing, for too much, or for nothing that is HTTP.

Connections that end while the other side is still sending.
"""

import asyncio
import http.client
import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from openskills.host.connections import MAX_HEAD_BYTES, ConnectionDrainer, HostProtocol, SoftCloseTransport
from openskills.host.parts import HostOptions
from tests.host.hosting import Served, Waiting, eventually, served
from tests.host.test_invoke import raw, result_in


class Patient(HostProtocol):
    head_seconds = 1000.0


class Hasty(HostProtocol):
    head_seconds = 0.05


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("host")) as found:
        yield found


@pytest.fixture
def many_files() -> Iterator[None]:
    """Both ends of 500 connections are more files than a session of a user begins with."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def connected(host: Served) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(host.url.rpartition(":")[2])), timeout=20)


@pytest.mark.parametrize("data", [b"GARBAGE\r\n\r\n", b"\x16\x03\x01\x02\x00", b"GET / HTTP/9.9\r\n\r\n\r\n"])
def test_what_is_not_http_is_answered_with_a_result(host: Served, data: bytes) -> None:
    answer = raw(host, data)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert result_in(answer)["error"]["code"] == 400
    assert b"connection: close" in answer


@pytest.mark.parametrize("body", [b"", b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"])
def test_headers_that_are_too_large_are_refused_even_when_they_come_whole(host: Served, body: bytes) -> None:
    head = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: "
    answer = to_the_end(host, head + b"a" * (MAX_HEAD_BYTES + 1000) + b"\r\n\r\n" + body)
    assert answer.startswith(b"HTTP/1.1 431 ")
    assert answer.count(b"HTTP/1.1 ") == 1
    assert result_in(answer)["error"]["details"]["limit"] == MAX_HEAD_BYTES


def test_headers_just_below_the_limit_are_taken(host: Served) -> None:
    head = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: "
    answer = raw(host, head + b"a" * (MAX_HEAD_BYTES - 200) + b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 ")


def to_the_end(host: Served, *parts: bytes) -> bytes:
    """What comes back for these bytes until the host ends the connection."""
    with connected(host) as connection:
        for each in parts:
            connection.sendall(each)
        found = b""
        while part := connection.recv(65536):
            found += part
    return found


def post(path: str, *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", *headers]
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode()


EARLY = [
    ("/skills/echo:invoke", "text/plain", 415),
    ("/nowhere", "application/json", 404),
    ("/skills", "application/json", 405),
    ("/skills/echo:nothing", "application/json", 404),
]


@pytest.mark.parametrize(("path", "kind", "status"), EARLY)
def test_what_is_refused_before_its_body_has_come_gets_one_answer(
    host: Served, path: str, kind: str, status: int
) -> None:
    with connected(host) as connection:
        connection.sendall(post(path, f"Content-Type: {kind}", "Content-Length: 900000"))
        found = connection.recv(65536)
        for _ in range(15):
            connection.sendall(b"a" * 60_000)
        # Whatever follows is not answered: the host has said that the connection ends.
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        while part := connection.recv(65536):
            found += part
    assert found.startswith(b"HTTP/1.1 %d " % status)
    assert found.count(b"HTTP/1.1 ") == 1
    assert b"connection: close" in found


@pytest.mark.parametrize(("path", "kind", "status"), EARLY)
@pytest.mark.parametrize("size", [10_000, 300_000, 900_000])
def test_a_client_that_keeps_its_connection_can_call_again_after_a_refusal(
    host: Served, path: str, kind: str, status: int, size: int
) -> None:
    client = http.client.HTTPConnection("127.0.0.1", int(host.url.rpartition(":")[2]), timeout=20)
    try:
        for _ in range(3):
            client.request("POST", path, b"a" * size, {"Content-Type": kind})
            answer = client.getresponse()
            assert (answer.status, answer.read()[:16]) == (status, b'{"success":false')
            client.request("POST", "/skills/echo:invoke", b'{"input":{"text":"a"}}', {"Content-Type": JSON})
            answer = client.getresponse()
            assert (answer.status, answer.read()[:15]) == (200, b'{"success":true')
    finally:
        client.close()


JSON = "application/json"


@pytest.mark.parametrize("chunked", [False, True])
def test_who_sends_far_too_much_can_read_that_it_is_too_much(host: Served, chunked: bool) -> None:
    client = http.client.HTTPConnection("127.0.0.1", int(host.url.rpartition(":")[2]), timeout=20)
    try:
        body = iter([b"a" * 1_000_000] * 20) if chunked else b"a" * 20_000_000
        client.request("POST", "/skills/echo:invoke", body, {"Content-Type": JSON}, encode_chunked=chunked)
        answer = client.getresponse()
        assert (answer.status, answer.read()[:16]) == (413, b'{"success":false')
    finally:
        client.close()


def test_a_body_that_is_not_http_after_its_refusal_is_not_answered_again(host: Served) -> None:
    with connected(host) as connection:
        connection.sendall(post("/nowhere", "Transfer-Encoding: chunked"))
        found = connection.recv(65536)
        connection.sendall(b"no chunk at all\r\n" * 10)
        while part := connection.recv(65536):
            found += part
    assert (found[:13], found.count(b"HTTP/1.1 ")) == (b"HTTP/1.1 404 ", 1)


def test_a_body_that_is_not_http_is_answered_once(host: Served) -> None:
    head = post("/skills/echo:invoke", "Content-Type: application/json", "Transfer-Encoding: chunked")
    answer = to_the_end(host, head + b'5\r\n{"inp\r\n', b"no chunk at all\r\n")
    assert (answer[:13], answer.count(b"HTTP/1.1 ")) == (b"HTTP/1.1 400 ", 1)


@pytest.mark.parametrize("after", [b"GARBAGE\r\n\r\n", b"GET / HTTP/1.1\r\nX-Long: " + b"a" * (MAX_HEAD_BYTES * 8)])
def test_what_is_not_a_request_comes_after_the_answer_to_what_was_one(tmp_path: Path, after: bytes) -> None:
    waiting = Waiting()
    with served(tmp_path, {"waiting": waiting}) as host, connected(host) as connection:
        body = b'{"input":{}}'
        connection.sendall(post("/skills/waiting:invoke", f"Content-Type: {JSON}", f"Content-Length: {len(body)}"))
        connection.sendall(body)
        eventually(waiting.began.is_set)
        connection.sendall(after)
        assert host.client.get("/healthz").status_code == 200
        waiting.may_end.set()
        found = b""
        while not found.endswith(b"}}"):
            found += connection.recv(65536)
    assert found.startswith(b"HTTP/1.1 200 ")
    assert found.count(b"HTTP/1.1 ") == 1


def test_a_second_head_that_does_not_come_whole_is_given_its_time_after_the_first_answer(tmp_path: Path) -> None:
    waiting = Waiting()
    with served(tmp_path, {"waiting": waiting}, protocol=Hasty) as host, connected(host) as connection:
        request = post("/skills/waiting:invoke", f"Content-Type: {JSON}", "Content-Length: 12") + b'{"input":{}}'
        connection.sendall(request + b"GET /healthz HT")
        eventually(waiting.began.is_set)
        waiting.may_end.set()
        found = b""
        while part := connection.recv(65536):
            found += part
    assert found.startswith(b"HTTP/1.1 200 ")
    assert found.count(b"HTTP/1.1 408 ") == 1


def test_a_request_whose_body_comes_in_pieces_keeps_its_connection(host: Served) -> None:
    with connected(host) as connection:
        for _ in range(3):
            body = b'{"input":{"text":"%s"}}' % (b"a" * 100_000)
            connection.sendall(post("/skills/echo:invoke", f"Content-Type: {JSON}", f"Content-Length: {len(body)}"))
            connection.sendall(body[:50_000])
            assert host.client.get("/healthz").status_code == 200
            connection.sendall(body[50_000:])
            found = b""
            while not found.endswith(b"}}"):
                found += connection.recv(65536)
            assert found.startswith(b"HTTP/1.1 200 ")
            assert b"connection: close" not in found


def test_headers_without_end_are_cut_off(host: Served) -> None:
    head = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: "
    answer = raw(host, head + b"a" * (MAX_HEAD_BYTES + 1000))
    assert answer.startswith(b"HTTP/1.1 431 ")
    assert result_in(answer)["error"]["details"]["limit"] == MAX_HEAD_BYTES


@pytest.mark.parametrize("data", [b"", b"GET /healthz HTTP/1.1\r\nHost: 127"])
def test_who_does_not_come_to_the_point_is_sent_away(tmp_path: Path, data: bytes) -> None:
    with served(tmp_path, protocol=Hasty) as host:
        answer = raw(host, data)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert result_in(answer)["error"]["details"]["reason"] == "REQUEST_TIMEOUT"
        # Between its requests a connection may rest for longer, and a good one is never cut off.
        assert host.client.get("/healthz").status_code == 200
        assert b"HTTP/1.1 408 " in raw_second(host, b"GET /healthz HTTP/1.1\r\nHost: 127")


def raw_second(host: Served, data: bytes) -> bytes:
    """What comes back for these bytes after a good request on the same connection, to the end."""
    with connected(host) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        found = connection.recv(65536)
        connection.sendall(data)
        while part := connection.recv(65536):
            found += part
    return found


def test_a_hundred_requests_on_one_connection_are_all_answered(host: Served) -> None:
    for _ in range(100):
        assert host.invoke("echo", {"text": "a"}).status_code == 200


def test_requests_that_do_not_wait_for_their_answers_are_answered_in_order(host: Served) -> None:
    with connected(host) as connection:
        request = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Trace-Id: number-%d\r\n\r\n"
        connection.sendall(b"".join(request % number for number in range(5)))
        found = b""
        while found.count(b'"error":null') < 5:
            found += connection.recv(65536)
    places = [found.index(b"x-trace-id: number-%d" % number) for number in range(5)]
    assert places == sorted(places)


def test_an_upgrade_that_is_not_possible_is_answered_as_a_plain_request(host: Served) -> None:
    head = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    assert raw(host, head).startswith(b"HTTP/1.1 200 ")


@pytest.mark.usefixtures("many_files")
def test_five_hundred_slow_connections_do_not_starve_the_others(tmp_path: Path) -> None:
    # The slow ones are never given up, so if anybody waited for them this would not end.
    with served(tmp_path, options=HostOptions(watch=False, body_seconds=1000), protocol=Patient) as host:
        connections = [connected(host) for _ in range(500)]
        try:
            head = b"POST /skills/echo:invoke HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            for number, connection in enumerate(connections):
                # Some stop in the head, some in the body.
                connection.sendall(head[:40] if number % 2 else head + b"Content-Length: 28\r\n\r\n{")
            eventually(lambda: len(host.server.server_state.connections) >= 500)
            for _ in range(200):
                assert host.invoke("echo", {"text": "a"}).status_code == 200
            assert len(host.server.server_state.connections) >= 500
        finally:
            for connection in connections:
                connection.close()
        eventually(lambda: len(host.server.server_state.connections) < 10)


class Ending(asyncio.Protocol):
    """A server that answers the first bytes and lingers then."""

    def __init__(self, most: int, ended: asyncio.Event) -> None:
        self._most = most
        self._ended = ended
        self._lingering: ConnectionDrainer | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        if self._lingering is None:
            self._transport.write(b"answer")
            self._lingering = ConnectionDrainer(self._transport, asyncio.get_running_loop(), max_bytes=self._most)
        else:
            self._lingering.discard(len(data))

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


async def test_who_is_still_sending_hears_the_answer_and_that_it_is_the_end() -> None:
    assert await heard(10_000_000, 5_000_000) == (b"answer", True)


async def test_who_does_not_stop_is_cut_off() -> None:
    answer, whole = await heard(100_000, 50_000_000)
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
    soft = SoftCloseTransport(kept, lambda: ended.append(True))
    assert not soft.is_closing()
    soft.write(b"a")
    soft.close()
    assert (kept.written, soft.is_closing(), ended) == ([b"a"], True, [True])
