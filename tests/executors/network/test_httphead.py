"""A request to the proxy is read strictly, and what is passed on is what was judged."""

from http import HTTPStatus
from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.executors.network.httphead import Refused, parse_chunk, parse_request, parse_response, refusal


def head(first: str, *fields: str) -> bytes:
    return "\r\n".join([first, *fields, "", ""]).encode("latin-1")


def test_a_tunnel_is_asked_for_by_host_and_port() -> None:
    request = parse_request(head("CONNECT Example.ORG.:8443 HTTP/1.1", "Host: whatever"))
    assert (request.tunnels, request.host, request.port) == (True, "example.org", 8443)
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
    sent = parse_request(head(f"GET {uri} HTTP/1.1", "Host: evil.com", "Accept: */*")).forwarded()
    assert sent == head(f"GET {target} HTTP/1.1", f"Host: {host}", "Accept: */*", "Connection: close")


def test_nothing_that_concerns_one_connection_is_passed_on() -> None:
    fields = ["Connection: keep-alive, X-Private", "X-Private: 1", "Keep-Alive: 5", "Proxy-Authorization: Basic eA=="]
    fields += ["Proxy-Connection: keep-alive", "TE: trailers", "Trailer: X", "Upgrade: h2c", "X-Kept:  a b ", "Host: x"]
    sent = parse_request(head("GET http://a.example/ HTTP/1.1", *fields)).forwarded()
    assert sent == head("GET / HTTP/1.1", "Host: a.example", "X-Kept: a b", "Connection: close")


@pytest.mark.parametrize(
    ("field", "length"), [("Content-Length: 12", 12), ("Content-Length: 0", 0), ("Transfer-Encoding: Chunked", None)]
)
def test_the_length_of_a_body_is_understood_and_said_again(field: str, length: int | None) -> None:
    request = parse_request(head("POST http://a.example/ HTTP/1.1", field, "Connection: Content-Length"))
    assert request.length == length
    assert field.lower().encode() in request.forwarded().lower()


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
    with pytest.raises(Refused) as refused:
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
    with pytest.raises(Refused) as refused:
        parse_request(head(first))
    assert refused.value.status == HTTPStatus.BAD_REQUEST


@given(st.binary(max_size=200))
def test_no_bytes_make_the_reader_fail_in_another_way(data: bytes) -> None:
    for text in (data, b"GET http://" + data, b"CONNECT " + data, b"POST http://a.b/ HTTP/1.1\r\n" + data):
        try:
            request = parse_request(text + b"\r\n\r\n")
        except Refused:
            continue
        assert request.tunnels or request.forwarded().count(b"\r\nHost: ") == 1


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
def test_what_is_no_answer_is_the_servers_fault(first: str) -> None:
    with pytest.raises(Refused) as refused:
        parse_response(head(first))
    assert refused.value.status == HTTPStatus.BAD_GATEWAY
    with pytest.raises(Refused) as refused:
        parse_response(head("HTTP/1.1 200 OK", first or "no colon"))
    assert refused.value.status == HTTPStatus.BAD_GATEWAY


def test_the_size_of_a_chunk_is_a_hexadecimal_number() -> None:
    assert [parse_chunk(line) for line in (b"0\r\n", b"1F\r\n", b"a;name=value\r\n")] == [0, 31, 10]


@pytest.mark.parametrize(
    "line", [b"\r\n", b"-1\r\n", b"+1\r\n", b"0x1\r\n", b"1_0\r\n", b"g\r\n", b"1\n", b"f" * 20 + b"\r\n"]
)
def test_a_chunk_without_a_size_is_refused(line: bytes) -> None:
    with pytest.raises(Refused):
        parse_chunk(line)


def test_a_refusal_says_why_in_its_body_and_in_its_reason_phrase() -> None:
    sent = refusal(Refused(HTTPStatus.FORBIDDEN, "a.example:443 is not on the list…\r\nX: y"))
    first, _, rest = sent.partition(b"\r\n")
    assert first == b"HTTP/1.1 403 a.example:443 is not on the listX: y"
    assert rest.count(b"\r\n\r\n") == 1
    assert rest.endswith("\r\n\r\nopenskills: a.example:443 is not on the list…\r\nX: y\n".encode())
