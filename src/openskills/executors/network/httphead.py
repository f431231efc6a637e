"""Heads of HTTP/1 messages as a proxy reads and passes them on. Pure.

The reader is strict: what two programs could read differently is refused, so that nobody behind the proxy sees
another request than the one that was judged.
"""

import re
from dataclasses import dataclass
from http import HTTPStatus

from openskills.errors import InvalidArgument
from openskills.executors.network.hosts import Host, at_port, canonical_host, split_port

MAX_HEAD = 8 * 1024
MAX_RESPONSE_HEAD = 32 * 1024
END = b"\r\n\r\n"

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_TARGET = re.compile(r"[!-~]+")
_FIELD = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t -~\x80-\xff]*?)[ \t]*")
_LENGTH = re.compile(r"[0-9]{1,18}")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[\t -~]*)?\r\n")
_STATUS = re.compile(r"(HTTP/1\.[01]) ([1-5][0-9]{2})(?: ([\t -~\x80-\xff]*))?")
# What concerns one connection only, and what is written anew from what was understood.
_HOP = {"connection", "keep-alive", "proxy-connection", "te", "trailer", "upgrade"}
_HOP_REQUEST = _HOP | {"proxy-authorization", "transfer-encoding", "content-length", "host"}
_HOP_RESPONSE = _HOP | {"proxy-authenticate", "proxy-authentication-info"}
_FRAMING = {"transfer-encoding", "content-length"}

Fields = tuple[tuple[str, str], ...]


class Refused(Exception):
    """A request that is answered by the proxy itself; `str()` is the sentence for whoever sent it."""

    def __init__(self, status: HTTPStatus, message: str, target: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.target = target


@dataclass(frozen=True, slots=True)
class Request:
    """A request to a proxy. `length` is the size of its body; None: in chunks. `target` is empty for CONNECT."""

    method: str
    host: Host
    port: int
    target: str
    version: str
    fields: Fields
    length: int | None

    @property
    def tunnels(self) -> bool:
        """Whether it asks for a connection and not for a resource."""
        return not self.target

    def forwarded(self) -> bytes:
        """The head for the server: nothing of this connection, the host that was judged, one request only."""
        host = at_port(self.host, None if self.port == 80 else self.port)
        lines = [f"{self.method} {self.target} {self.version}", f"Host: {host}"]
        lines += [f"{name}: {value}" for name, value in _without(self.fields, _HOP_REQUEST)]
        if self.length is None:
            lines.append("Transfer-Encoding: chunked")
        elif self.length or any(name.lower() == "content-length" for name, _ in self.fields):
            lines.append(f"Content-Length: {self.length}")
        return _head([*lines, "Connection: close"])


def parse_request(data: bytes) -> Request:
    """Read the head of a request, up to and with its empty line. Raises `Refused`."""
    first, fields = _parts(data)
    words = first.split(" ")
    if len(words) != 3 or not _TOKEN.fullmatch(words[0]) or words[2] not in ("HTTP/1.1", "HTTP/1.0"):
        raise _bad("this is an HTTP/1.1 proxy, and that was no request for one")
    method, target, version = words
    length = _length(fields)
    if method == "CONNECT":
        host, port = _authority(target, None)
        return Request(method, host, port, "", version, fields, length)
    authority, path = _absolute(target)
    host, port = _authority(authority, 80)
    return Request(method, host, port, path, version, fields, length)


def parse_response(data: bytes) -> tuple[int, bytes]:
    """The status of a server's answer, and its head for the client. Raises `Refused` for what is no answer."""
    try:
        first, fields = _parts(data)
    except Refused as refused:
        raise Refused(HTTPStatus.BAD_GATEWAY, f"the server's answer is faulty: {refused}") from None
    match = _STATUS.fullmatch(first)
    if not match:
        raise Refused(HTTPStatus.BAD_GATEWAY, "the server's answer is not HTTP/1")
    lines = [first, *(f"{name}: {value}" for name, value in _without(fields, _HOP_RESPONSE))]
    status = int(match[2])
    return status, _head(lines if status < 200 else [*lines, "Connection: close"])


def parse_chunk(line: bytes) -> int:
    """The size that the first line of a chunk says. Raises `Refused`."""
    match = _CHUNK.fullmatch(line)
    if not match:
        raise _bad("a chunk of the body does not begin with its size")
    return int(match[1], 16)


def refusal(refused: Refused) -> bytes:
    """The answer to a request that is refused: the sentence is the body, and the reason phrase, which tools show."""
    body = f"openskills: {refused}\n".encode()
    phrase = "".join(char for char in str(refused) if " " <= char <= "~")[:300]
    lines = [f"HTTP/1.1 {refused.status.value} {phrase}", "Content-Type: text/plain; charset=utf-8"]
    return _head([*lines, f"Content-Length: {len(body)}", "Connection: close"]) + body


def _parts(data: bytes) -> tuple[str, Fields]:
    lines = data.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    return lines[0], tuple(_field(line) for line in lines[1:])


def _field(line: str) -> tuple[str, str]:
    match = _FIELD.fullmatch(line)
    if not match:
        raise _bad("a header line is not 'name: value'")
    return match[1], match[2]


def _length(fields: Fields) -> int | None:
    """The size of the body; None when it comes in chunks. Two answers to that question are none."""
    framing = [(name.lower(), value) for name, value in fields if name.lower() in _FRAMING]
    if not framing:
        return 0
    name, value = framing[0]
    if len(framing) == 1 and name == "content-length" and _LENGTH.fullmatch(value):
        return int(value)
    if len(framing) == 1 and name == "transfer-encoding" and value.lower() == "chunked":
        return None
    raise _bad("the length of the body must be said once: Content-Length, or Transfer-Encoding: chunked")


def _absolute(target: str) -> tuple[str, str]:
    scheme, separator, rest = target.partition("://")
    if not separator or not _TARGET.fullmatch(target) or "#" in target:
        raise _bad("this is a proxy: ask for http://host/path, or CONNECT host:port")
    if scheme.lower() != "http":
        raise _bad("this proxy fetches http:// only; for anything else ask it to CONNECT host:port")
    authority, found, path = _cut(rest)
    return authority, path if found == "/" else f"/{path}"


def _cut(rest: str) -> tuple[str, str, str]:
    place = next((index for index, char in enumerate(rest) if char in "/?"), len(rest))
    return rest[:place], rest[place : place + 1], rest[place:]


def _authority(text: str, default: int | None) -> tuple[Host, int]:
    if "@" in text:
        raise _bad("an address with a user name before the host is not accepted", text)
    try:
        name, port = split_port(text)
        host = canonical_host(name)
    except InvalidArgument as error:
        raise _bad(error.message, text) from None
    if port is None and default is None:
        raise _bad(f"CONNECT {at_port(host, None)} has no port", text)
    return host, port or default or 0


def _without(fields: Fields, dropped: set[str]) -> Fields:
    named = {
        word.strip().lower() for name, value in fields if name.lower() == "connection" for word in value.split(",")
    }
    return tuple(field for field in fields if field[0].lower() not in dropped | (named - _FRAMING))


def _head(lines: list[str]) -> bytes:
    return "\r\n".join(lines).encode("latin-1") + END


def _bad(message: str, target: str = "") -> Refused:
    return Refused(HTTPStatus.BAD_REQUEST, message, target)
