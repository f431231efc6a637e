"""Connections that ask for nothing, for too much, or for nothing that is HTTP."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from openskills.host.options import HostOptions
from openskills.host.wire.connections import HEAD_BYTES, HostProtocol
from tests.host.hosting import Served, eventually, served
from tests.host.routes.test_invocations import raw, result_in


class Patient(HostProtocol):
    head_seconds = 1000.0


class Hasty(HostProtocol):
    head_seconds = 0.05


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("host")) as found:
        yield found


def connected(host: Served) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(host.url.rpartition(":")[2])), timeout=20)


@pytest.mark.parametrize("data", [b"GARBAGE\r\n\r\n", b"\x16\x03\x01\x02\x00", b"GET / HTTP/9.9\r\n\r\n\r\n"])
def test_what_is_no_http_is_answered_with_a_result(host: Served, data: bytes) -> None:
    answer = raw(host, data)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert result_in(answer)["error"]["code"] == 400
    assert b"connection: close" in answer


def test_headers_without_end_are_cut_off(host: Served) -> None:
    head = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: "
    answer = raw(host, head + b"a" * (HEAD_BYTES + 1000))
    assert answer.startswith(b"HTTP/1.1 431 ")
    assert result_in(answer)["error"]["details"]["limit"] == HEAD_BYTES


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
