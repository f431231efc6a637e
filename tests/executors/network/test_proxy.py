"""A command reaches the hosts of its list through the proxy, and nobody else, however it asks.

A request to the proxy is read strictly, and what is passed on is what was judged.

Bytes pass unchanged in both directions, in bounded memory, and one request is one request.
"""

import asyncio
import socket
import struct
import tracemalloc
from collections.abc import Sequence
from contextlib import suppress
from http import HTTPStatus
from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.errors import InvalidArgument
from openskills.executors.network.proxy import (
    FilteringProxy,
    ProxyLimits,
    ProxyRefusal,
    SystemResolver,
    build_refusal_response,
    is_own_address,
    parse_chunk,
    parse_request,
    parse_response,
)
from tests.executors.loopback import TIMEOUT, Handler, Proxying, listening, names, proxying, serving, until


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


async def hello(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")


async def test_a_tunnel_to_an_allowed_address_carries_bytes_both_ways() -> None:
    async with (
        serving(echo) as port,
        proxying(f"127.0.0.1:{port}") as through,
        through.tunnel(f"127.0.0.1:{port}") as (reader, writer),
    ):
        writer.write(b"\x16\x03\x01 anything")
        result = await reader.readexactly(12)

    assert result == b"\x16\x03\x01 anything"


async def test_a_plain_request_is_answered_by_the_server() -> None:
    async with serving(hello) as port, proxying(f"127.0.0.1:{port}") as through:
        answer = await through.get(f"http://127.0.0.1:{port}/")

    assert answer == b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"


@pytest.mark.parametrize(
    "target",
    ["evil.example:443", "127.0.0.1:{other}", "[::1]:{port}", "127.0.0.2:{port}", "localhost:{port}", "127.0.0.1:443"],
)
async def test_a_host_or_port_that_is_not_on_the_list_is_refused_by_name(target: str) -> None:
    async with serving(echo) as port, serving(echo) as other, proxying(f"127.0.0.1:{port}") as through:
        asked = target.format(port=port, other=other)
        answer = await through.ask(f"CONNECT {asked} HTTP/1.1\r\n\r\n".encode())
        refused = tuple(refusal.target for refusal in through.proxy.refusals)
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert f"openskills: {asked} is not on the network allow-list of this command; to allow it, add ".encode() in answer
    assert refused == (asked,)


@pytest.mark.parametrize(
    "addresses",
    [
        *("127.0.0.1", "::1", "::ffff:127.0.0.1", "10.0.0.1", "169.254.169.254", "fd00:ec2::254", "100.100.100.200"),
        *("0.0.0.0", "::", "224.0.0.1", "fe80::1%lo", "64:ff9b::7f00:1", "2002:7f00:1::", "127.0.0.1 ::1 10.0.0.1"),
    ],
)
async def test_a_name_that_leads_to_an_address_that_is_not_public_is_refused(addresses: str) -> None:
    async with serving(hello) as port:
        resolver = names(inner_example=addresses)
        async with proxying(f"inner.example:{port}", resolver=resolver) as through:
            answer = await through.get(f"http://inner.example:{port}/")

    assert answer.startswith(b"HTTP/1.1 403 ")
    assert b"to allow it, add" in answer


def test_the_addresses_of_this_machine_are_known_as_its_own() -> None:
    own = ["127.0.0.1"]
    # Nothing is sent. A machine without a route has no other address.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):
        probe.connect(("192.0.2.1", 9))
        own.append(str(probe.getsockname()[0]))
    assert [address for address in own if not is_own_address(ip_address(address))] == []
    assert not is_own_address(ip_address("192.0.2.1"))
    assert not is_own_address(ip_address("2001:db8::1"))


async def test_a_name_is_dialled_where_the_list_says_that_it_may_be() -> None:
    async with serving(hello) as port:
        resolver = names(inner_example="::ffff:127.0.0.1")
        async with proxying(f"inner.example:{port}=127.0.0.0/8", resolver=resolver) as through:
            result = await through.get(f"http://inner.example:{port}/")

    assert result.endswith(b"\r\n\r\nhello")


async def test_a_name_that_changes_its_address_after_it_was_judged_changes_nothing() -> None:
    asked: list[str] = []

    async def rebinding(name: str, port: int) -> Sequence[str]:
        asked.append(name)
        return ["127.0.0.1"] if len(asked) == 1 else ["127.0.0.2"]

    async with serving(hello) as port, proxying(f"rebind.example:{port}=127.0.0.1", resolver=rebinding) as through:
        first = await through.get(f"http://rebind.example:{port}/")
        second = await through.get(f"http://rebind.example:{port}/")
    assert first.endswith(b"hello")
    assert b" is at 127.0.0.2, a loopback address" in second
    assert asked == ["rebind.example", "rebind.example"]


async def test_of_several_addresses_only_those_that_may_be_are_dialled() -> None:
    met: list[str] = []

    async def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        met.append(writer.get_extra_info("sockname")[0])
        await hello(reader, writer)

    async with serving(note) as port:
        resolver = names(mixed_example="10.255.255.1 127.0.0.1 127.0.0.3")
        async with proxying(f"mixed.example:{port}=127.0.0.1", resolver=resolver) as through:
            result = await through.get(f"http://mixed.example:{port}/")

    assert result.endswith(b"hello")
    assert met == ["127.0.0.1"]


async def test_the_next_address_is_tried_when_one_does_not_answer() -> None:
    async with serving(hello) as port:
        # Nobody listens on the second loopback address.
        resolver = names(two_example="127.0.0.2 127.0.0.1")
        async with proxying(f"two.example:{port}=127.0.0.0/8", resolver=resolver) as through:
            result = await through.get(f"http://two.example:{port}/")

    assert result.endswith(b"hello")


async def test_a_server_that_is_not_there_is_said_to_be_unreachable() -> None:
    with listening() as closed:
        port = closed.getsockname()[1]

    async with proxying(f"127.0.0.1:{port}") as through:
        answer = await through.ask(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n".encode())

    assert answer.startswith(b"HTTP/1.1 502 ")
    assert f"openskills: 127.0.0.1:{port} cannot be reached: ".encode() in answer


async def test_a_name_that_does_not_exist_is_said_not_to_resolve() -> None:
    async with proxying("gone.example", resolver=names()) as through:
        result = await through.ask(b"CONNECT gone.example:443 HTTP/1.1\r\n\r\n")

    assert b"openskills: cannot resolve gone.example: Name or service not known\n" in result


async def test_a_resolver_that_never_answers_is_not_waited_for() -> None:
    async def never(name: str, port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    async with proxying("a.example", resolver=never, limits=ProxyLimits(connect_seconds=0.05)) as through:
        result = await through.ask(b"CONNECT a.example:443 HTTP/1.1\r\n\r\n")

    assert b"a.example was not resolved within 0.05 seconds" in result


@pytest.mark.parametrize("begun", [b"", b"G", b"GET http://a.example/ HTTP/1.1\r\nX: "])
async def test_a_request_that_does_not_come_to_its_end_is_given_up(begun: bytes) -> None:
    async with proxying("a.example", limits=ProxyLimits(head_seconds=0.1)) as through:
        result = await through.ask(begun)

    assert result.startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("size", [9_000, 200_000])
async def test_a_head_that_is_too_long_is_refused(size: int) -> None:
    async with proxying("a.example") as through:
        result = await through.get("http://a.example/", f"X: {'x' * size}")

    assert b" the head has more than 8,192 bytes" in result


@pytest.mark.parametrize("first", [b"\x05\x01\x00", b"\x04\x01", b"\x16\x03\x01\x02\x00", b"\r\n", b"\xff"])
async def test_a_program_that_speaks_something_else_is_reported_at_once(first: bytes) -> None:
    async with proxying("a.example", limits=ProxyLimits(head_seconds=TIMEOUT * 2)) as through:
        result = await through.ask(first)

    assert b"this is an HTTP/1.1 proxy" in result


async def test_fifty_tunnels_at_once_do_not_mix() -> None:
    async def one(through_port: int, port: int, number: int) -> bool:
        reader, writer = await asyncio.open_connection("127.0.0.1", through_port)
        writer.write(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        data = bytes([number]) * 200_000
        writer.write(data)
        writer.write_eof()
        back = await reader.read(-1)
        writer.close()
        return back == data

    async with serving(echo) as port, proxying(f"127.0.0.1:{port}") as through, asyncio.timeout(60):
        result = await asyncio.gather(*(one(through.port, port, number) for number in range(50)))

    assert result == [True] * 50


async def test_one_connection_too_many_is_refused_and_room_is_made_again() -> None:
    limits = ProxyLimits(connections=2)
    async with serving(hello) as port, proxying(f"127.0.0.1:{port}", limits=limits) as through:
        async with through.tunnel(f"127.0.0.1:{port}"), through.tunnel(f"127.0.0.1:{port}"):
            crowded = await through.get(f"http://127.0.0.1:{port}/")
        async with asyncio.timeout(TIMEOUT):
            while not (answer := await through.get(f"http://127.0.0.1:{port}/")).endswith(b"hello"):
                await asyncio.sleep(0.01)
    assert crowded.startswith(b"HTTP/1.1 503 too many connections; the maximum is 2")
    assert answer.endswith(b"hello")


async def test_a_connection_on_which_nothing_moves_is_ended() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    limits = ProxyLimits(idle_seconds=0.1)
    async with serving(silent) as port, proxying(f"127.0.0.1:{port}", limits=limits) as through:
        async with through.tunnel(f"127.0.0.1:{port}") as (reader, _):
            tunnelled = await reader.read()
        answer = await through.get(f"http://127.0.0.1:{port}/")
    assert tunnelled == b""
    assert answer.startswith(b"HTTP/1.1 504 ")


async def test_closing_ends_every_connection_on_both_sides_and_may_be_done_twice() -> None:
    gone = asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        gone.set()

    async with (
        serving(wait) as port,
        proxying(f"127.0.0.1:{port}") as through,
        through.tunnel(f"127.0.0.1:{port}") as (reader, _),
    ):
        await through.proxy.close()
        await through.proxy.close()
        left = await reader.read()
        await asyncio.wait_for(gone.wait(), TIMEOUT)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", through.port)
        result = left

    assert result == b""


async def test_what_is_kept_about_refusals_is_bounded() -> None:
    async with proxying("a.example") as through:
        for number in range(120):
            await through.ask(f"CONNECT host{number}.example:443 HTTP/1.1\r\n\r\n".encode())
        await through.ask(b"CONNECT " + b"x" * 7000 + b":443 HTTP/1.1\r\n\r\n")
        result = len(through.proxy.refusals)

    assert result == 100


def test_programs_are_told_about_the_proxy_in_both_spellings_and_keep_their_own_loopback() -> None:
    there = "http://127.0.0.1:3128"
    assert FilteringProxy(["a.example"]).environment(3128) == {
        **dict.fromkeys(["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"], there),
        **dict.fromkeys(["NO_PROXY", "no_proxy"], "localhost,127.0.0.1,::1"),
    }
    assert FilteringProxy(["127.0.0.1:80"]).environment(3128)["no_proxy"] == ""


def test_an_entry_that_cannot_be_read_is_refused_before_anything_starts() -> None:
    with pytest.raises(InvalidArgument, match=r"network: invalid port in 'http://a\.example'"):
        FilteringProxy(["http://a.example"])


async def test_the_systems_resolver_knows_this_machine() -> None:
    async def scene() -> Sequence[str]:
        resolver = SystemResolver()
        try:
            return await resolver("localhost", 80)
        finally:
            resolver.close()

    assert set(await scene()) <= {"127.0.0.1", "::1"}


def head(first: str, *fields: str) -> bytes:
    return "\r\n".join([first, *fields, "", ""]).encode("latin-1")


def test_a_tunnel_is_asked_for_by_host_and_port() -> None:
    request = parse_request(head("CONNECT Example.ORG.:8443 HTTP/1.1", "Host: whatever"))
    assert (request.is_tunnel, request.host, request.port) == (True, "example.org", 8443)
    assert parse_request(head("CONNECT [::1]:443 HTTP/1.0")).host == ip_address("::1")


@pytest.mark.parametrize(
    ("uri", "target", "host"),
    [
        ("http://example.org/a?b=c", "/a?b=c", "example.org"),
        ("http://example.org", "/", "example.org"),
        ("HTTP://EXAMPLE.org:80/", "/", "example.org"),
        ("http://example.org?x=http://evil.com/", "/?x=http://evil.com/", "example.org"),
        ("http://example.org:8080/a@b", "/a@b", "example.org:8080"),
        ("http://[2606:4700::1111]:81/", "/", "[2606:4700::1111]:81"),
    ],
)
def test_a_request_goes_on_to_the_host_of_its_address(uri: str, target: str, host: str) -> None:
    sent = parse_request(head(f"GET {uri} HTTP/1.1", "Host: evil.com", "Accept: */*")).build_forward_head()
    assert sent == head(f"GET {target} HTTP/1.1", f"Host: {host}", "Accept: */*", "Connection: close")


def test_nothing_that_concerns_one_connection_is_passed_on() -> None:
    fields = ["Connection: keep-alive, X-Private", "X-Private: 1", "Keep-Alive: 5", "Proxy-Authorization: Basic eA=="]
    fields += ["Proxy-Connection: keep-alive", "TE: trailers", "Trailer: X", "Upgrade: h2c", "X-Kept:  a b ", "Host: x"]
    sent = parse_request(head("GET http://a.example/ HTTP/1.1", *fields)).build_forward_head()
    assert sent == head("GET / HTTP/1.1", "Host: a.example", "X-Kept: a b", "Connection: close")


@pytest.mark.parametrize(
    ("field", "length"), [("Content-Length: 12", 12), ("Content-Length: 0", 0), ("Transfer-Encoding: Chunked", None)]
)
def test_the_length_of_a_body_is_understood_and_said_again(field: str, length: int | None) -> None:
    request = parse_request(head("POST http://a.example/ HTTP/1.1", field, "Connection: Content-Length"))
    assert request.length == length
    assert field.lower().encode() in request.build_forward_head().lower()


@pytest.mark.parametrize(
    "fields",
    [
        ["Content-Length: 5", "Transfer-Encoding: chunked"],
        ["Content-Length: 5", "Content-Length: 5"],
        ["Content-Length: 5, 5"],
        ["Content-Length: +5"],
        ["Content-Length: 0x5"],
        ["Content-Length: -1"],
        ["Content-Length: " + "9" * 30],
        ["Transfer-Encoding: gzip, chunked"],
        ["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"],
        ["Transfer-Encoding: identity"],
        ["Transfer-Encoding: \x0bchunked"],
        ["Transfer-Encoding : chunked"],
        [" folded: line"],
        ["X: a", "\tfolded"],
        ["no colon"],
        [": no name"],
        ["X: a\nEvil: b"],
        ["X: a\rEvil: b"],
        ["X: a\0b"],
        ["X\xe4: b"],
    ],
)
def test_a_head_that_can_be_read_in_two_ways_is_refused(fields: list[str]) -> None:
    with pytest.raises(ProxyRefusal) as refused:
        parse_request(head("POST http://a.example/ HTTP/1.1", *fields))
    assert refused.value.status == HTTPStatus.BAD_REQUEST


@pytest.mark.parametrize(
    "first",
    [
        *(
            "GET / HTTP/1.1",
            "GET * HTTP/1.1",
            "PRI * HTTP/2.0",
            "GET http://a.example/",
            "GET  http://a.example/ HTTP/1.1",
        ),
        *("GET http://a.example/ HTTP/0.9", "GET http://a.example/ http/1.1", "GET http://a.example/ HTTP/1.1 "),
        *("GET http://a.example/a b HTTP/1.1", "GET http://a.example/\x7f HTTP/1.1", "GET http://a.example/ä HTTP/1.1"),
        *("GET http://a.example/#f HTTP/1.1", "GET http:/a.example/ HTTP/1.1", "GET http:///x HTTP/1.1"),
        *("GET https://a.example/ HTTP/1.1", "GET ftp://a.example/ HTTP/1.1", "GET file:///etc/passwd HTTP/1.1"),
        *("GET http://a.example@evil.com/ HTTP/1.1", "GET http://u:p@a.example/ HTTP/1.1"),
        *("GET http://a.example\\@evil.com/ HTTP/1.1", "GET http://a.example%2eevil.com/ HTTP/1.1"),
        *("GET http://2130706433/ HTTP/1.1", "GET http://127.1/ HTTP/1.1", "GET http://a.example:99999/ HTTP/1.1"),
        *("CONNECT a.example HTTP/1.1", "CONNECT a.example:443/ HTTP/1.1", "CONNECT http://a.example:443 HTTP/1.1"),
        *("CONNECT a.example:443:443 HTTP/1.1", "CONNECT a.example\0.evil.com:443 HTTP/1.1", "CONNECT :443 HTTP/1.1"),
        *("CONNECT ::1:443 HTTP/1.1", "connect a.example:443 HTTP/1.1", "G\tT http://a.example/ HTTP/1.1", ""),
    ],
)
def test_everything_but_a_plain_request_to_a_proxy_is_refused(first: str) -> None:
    with pytest.raises(ProxyRefusal) as refused:
        parse_request(head(first))
    assert refused.value.status == HTTPStatus.BAD_REQUEST


@given(st.binary(max_size=200))
def test_no_bytes_make_the_reader_fail_in_another_way(data: bytes) -> None:
    for text in (data, b"GET http://" + data, b"CONNECT " + data, b"POST http://a.b/ HTTP/1.1\r\n" + data):
        try:
            request = parse_request(text + b"\r\n\r\n")
        except ProxyRefusal:
            continue
        assert request.is_tunnel or request.build_forward_head().count(b"\r\nHost: ") == 1


def test_an_answer_is_passed_on_as_the_last_one_of_its_connection() -> None:
    status, sent = parse_response(
        head("HTTP/1.1 200 OK", "Connection: keep-alive", "Keep-Alive: x", "Transfer-Encoding: chunked", "A: b")
    )
    assert status == 200
    assert sent == head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "A: b", "Connection: close")


def test_an_interim_answer_says_nothing_about_the_connection() -> None:
    assert parse_response(head("HTTP/1.1 100 Continue")) == (100, head("HTTP/1.1 100 Continue"))


@pytest.mark.parametrize(
    "first", ["SSH-2.0-OpenSSH", "HTTP/2 200", "HTTP/1.1 999 x", "HTTP/1.1 20", "", "220 ftp ready"]
)
def test_an_invalid_response_is_the_servers_fault(first: str) -> None:
    with pytest.raises(ProxyRefusal) as refused:
        parse_response(head(first))
    assert refused.value.status == HTTPStatus.BAD_GATEWAY
    with pytest.raises(ProxyRefusal) as refused:
        parse_response(head("HTTP/1.1 200 OK", first or "no colon"))
    assert refused.value.status == HTTPStatus.BAD_GATEWAY


def test_the_size_of_a_chunk_is_a_hexadecimal_number() -> None:
    assert [parse_chunk(line) for line in (b"0\r\n", b"1F\r\n", b"a;name=value\r\n")] == [0, 31, 10]


@pytest.mark.parametrize(
    "line", [b"\r\n", b"-1\r\n", b"+1\r\n", b"0x1\r\n", b"1_0\r\n", b"g\r\n", b"1\n", b"f" * 20 + b"\r\n"]
)
def test_a_chunk_without_a_size_is_refused(line: bytes) -> None:
    with pytest.raises(ProxyRefusal):
        parse_chunk(line)


def test_a_refusal_says_why_in_its_body_and_in_its_reason_phrase() -> None:
    sent = build_refusal_response(ProxyRefusal(HTTPStatus.FORBIDDEN, "a.example:443 is not on the list…\r\nX: y"))
    first, _, rest = sent.partition(b"\r\n")
    assert first == b"HTTP/1.1 403 a.example:443 is not on the listX: y"
    assert rest.count(b"\r\n\r\n") == 1
    assert rest.endswith("\r\n\r\nopenskills: a.example:443 is not on the list…\r\nX: y\n".encode())


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


async def test_a_body_of_known_length_arrives_and_nothing_after_it() -> None:
    recorder = Recorder(expects=b"12345")
    smuggled = b"GET / HTTP/1.1\r\nHost: other.example\r\n\r\n"
    answer = await relayed(recorder, post("Content-Length: 5", body=b"12345" + smuggled))
    assert answer.startswith(b"HTTP/1.1 204 ")
    assert recorder.heard.endswith(b"Content-Length: 5\r\nConnection: close\r\n\r\n12345")


async def test_a_second_request_on_the_same_connection_goes_nowhere() -> None:
    recorder = Recorder()
    first = b"GET http://127.0.0.1:PORT/one HTTP/1.1\r\n\r\n"
    await relayed(recorder, first + b"GET http://127.0.0.1:PORT/two HTTP/1.1\r\n\r\n")
    assert recorder.heard.startswith(b"GET /one HTTP/1.1\r\n")
    assert b"/two" not in recorder.heard


async def test_a_body_in_chunks_arrives_in_chunks_without_extensions_and_trailers() -> None:
    recorder = Recorder(expects=b"0\r\n\r\n")
    body = b"5;a=b\r\nhello\r\n1\r\n!\r\n0\r\nX-Trailer: y\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n"
    await relayed(recorder, post("Transfer-Encoding: chunked", body=body))
    assert recorder.heard.partition(b"\r\n\r\n")[2] == b"5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    "body", [b"zz\r\n", b"2\r\nhello\r\n0\r\n\r\n", b"-1\r\n", b"5\nhello\n0\n\n\r\n", b"1" * 9000 + b"\r\n"]
)
async def test_chunks_that_do_not_add_up_are_refused(body: bytes) -> None:
    recorder = Recorder(expects=b"never")
    answer = await relayed(recorder, post("Transfer-Encoding: chunked", body=body))
    assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 431 "))
    assert b"0\r\n\r\n" not in recorder.heard.partition(b"\r\n\r\n")[2]


async def test_a_body_that_is_cut_off_is_not_passed_off_as_whole() -> None:
    recorder = Recorder(expects=b"never")

    async with (
        serving(recorder) as port,
        proxying(f"127.0.0.1:{port}") as through,
        through.client() as (reader, writer),
    ):
        writer.write(post("Content-Length: 10", body=b"12345").replace(b"PORT", str(port).encode()))
        writer.write_eof()
        answer = await reader.read()
        await asyncio.wait_for(recorder.ended.wait(), TIMEOUT)
        result = answer

    assert result == b""


async def test_a_client_that_waits_for_the_servers_leave_gets_it() -> None:
    async def lenient(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await reader.readexactly(4)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + body)

    async with (
        serving(lenient) as port,
        proxying(f"127.0.0.1:{port}") as through,
        through.client() as (reader, writer),
    ):
        head = post("Content-Length: 4", "Expect: 100-continue", body=b"")
        writer.write(head.replace(b"PORT", str(port).encode()))
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"body")
        result = await reader.read()

    assert result == b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nbody"


async def test_an_answer_before_the_end_of_the_body_arrives() -> None:
    async def early(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
        writer.write_eof()
        await reader.read(1000)

    async with (
        serving(early) as port,
        proxying(f"127.0.0.1:{port}") as through,
        through.client() as (reader, writer),
    ):
        head = post("Content-Length: 100000000", body=b"x" * 1000)
        writer.write(head.replace(b"PORT", str(port).encode()))
        result = await reader.read()

    assert result.endswith(b"Connection: close\r\n\r\nno")


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
async def test_a_server_without_a_proper_answer_is_reported_as_such(answer: bytes) -> None:
    recorder = Recorder(answer)
    assert (await relayed(recorder, b"GET http://127.0.0.1:PORT/ HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 502 ")


async def test_each_side_of_a_tunnel_may_stop_sending_before_the_other() -> None:
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

    assert await scene(after_the_end) == b"all of it"
    assert await scene(before_the_end) == b"it and more"


@pytest.mark.parametrize("way", ["tunnel", "plain"])
async def test_a_client_that_is_cut_off_frees_the_server(way: str) -> None:
    ended = asyncio.Event()

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            while True:
                writer.write(bytes(65536))
                await writer.drain()
        finally:
            ended.set()

    async with serving(endless) as port, proxying(f"127.0.0.1:{port}") as through:
        first = f"CONNECT 127.0.0.1:{port}" if way == "tunnel" else f"GET http://127.0.0.1:{port}/"
        async with through.client() as (reader, writer):
            writer.write(f"{first} HTTP/1.1\r\n\r\n".encode())
            await reader.readexactly(1000)
            _reset(writer)
        await asyncio.wait_for(ended.wait(), TIMEOUT)


@pytest.mark.parametrize("way", ["tunnel", "plain"])
async def test_a_large_answer_to_a_client_that_reads_slowly_takes_little_memory(way: str) -> None:
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
        async with asyncio.timeout(TIMEOUT):
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

    received, peak = await scene()
    assert received > size
    assert peak < 4 * MIB


async def test_a_large_upload_arrives_whole() -> None:
    size = 20 * MIB
    counted = 0

    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal counted
        await reader.readuntil(b"\r\n\r\n")
        while counted < size:
            counted += len(await reader.read(65536))
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")

    answer = await relayed(count, post(f"Content-Length: {size}", body=bytes(size)))
    assert answer.startswith(b"HTTP/1.1 204 ")
    assert counted == size


def _reset(writer: asyncio.StreamWriter) -> None:
    """Break the connection off, as a killed process with unread data does."""
    connection: socket.socket = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
