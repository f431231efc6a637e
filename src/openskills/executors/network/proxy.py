"""Filtering HTTP/1 proxy: lets one command reach the hosts of its allow-list, and nothing else.

Parsing is strict: ambiguous messages are rejected, so that no server sees another request than the one that was
checked. A name is resolved once, here; every address is checked, and exactly the checked address is dialled. Bytes are
relayed in bounded memory.
"""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from ipaddress import ip_address
from typing import Final

from openskills.errors import InvalidArgument
from openskills.executors.network.allowlist import (
    Address,
    AllowList,
    Host,
    format_host_port,
    normalize_host,
    split_port,
    unmap_address,
)

MAX_HEAD = 8 * 1024
MAX_RESPONSE_HEAD = 32 * 1024
END = b"\r\n\r\n"

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_TARGET = re.compile(r"[!-~]+")
_FIELD = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t -~\x80-\xff]*?)[ \t]*")
_LENGTH = re.compile(r"[0-9]{1,18}")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[\t -~]*)?\r\n")
_STATUS = re.compile(r"(HTTP/1\.[01]) ([1-5][0-9]{2})(?: ([\t -~\x80-\xff]*))?")
# Hop-by-hop fields, and fields that are generated from the parsed values.
_HOP = {"connection", "keep-alive", "proxy-connection", "te", "trailer", "upgrade"}
_HOP_REQUEST = _HOP | {"proxy-authorization", "transfer-encoding", "content-length", "host"}
_HOP_RESPONSE = _HOP | {"proxy-authenticate", "proxy-authentication-info"}
_FRAMING = {"transfer-encoding", "content-length"}

Fields = tuple[tuple[str, str], ...]


class ProxyRefusal(Exception):
    """A request that the proxy rejects; `str()` is the message for the client."""

    def __init__(self, status: HTTPStatus, message: str, target: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.target = target


@dataclass(frozen=True, slots=True)
class ProxyRequest:
    """A request to the proxy. `length` is the size of its body, None if chunked. `target` is empty for CONNECT."""

    method: str
    host: Host
    port: int
    target: str
    version: str
    fields: Fields
    length: int | None

    @property
    def is_tunnel(self) -> bool:
        """Whether it is a CONNECT request."""
        return not self.target

    def build_forward_head(self) -> bytes:
        """The head for the server: without hop-by-hop fields, with the checked host, for one request only."""
        host = format_host_port(self.host, None if self.port == 80 else self.port)
        lines = [f"{self.method} {self.target} {self.version}", f"Host: {host}"]
        lines += [f"{name}: {value}" for name, value in _drop_fields(self.fields, _HOP_REQUEST)]
        if self.length is None:
            lines.append("Transfer-Encoding: chunked")
        elif self.length or any(name.lower() == "content-length" for name, _ in self.fields):
            lines.append(f"Content-Length: {self.length}")
        return _encode_head([*lines, "Connection: close"])


def parse_request(data: bytes) -> ProxyRequest:
    """Parse the head of a request, including its empty line. Raises `ProxyRefusal`."""
    first, fields = _split_head(data)
    words = first.split(" ")
    if len(words) != 3 or not _TOKEN.fullmatch(words[0]) or words[2] not in ("HTTP/1.1", "HTTP/1.0"):
        raise _bad_request("expected an HTTP/1.1 proxy request")
    method, target, version = words
    length = _parse_length(fields)
    if method == "CONNECT":
        host, port = _parse_authority(target, None)
        return ProxyRequest(method, host, port, "", version, fields, length)
    authority, path = _split_absolute_target(target)
    host, port = _parse_authority(authority, 80)
    return ProxyRequest(method, host, port, path, version, fields, length)


def parse_response(data: bytes) -> tuple[int, bytes]:
    """The status of a server's response, and its head for the client. Raises `ProxyRefusal`."""
    try:
        first, fields = _split_head(data)
    except ProxyRefusal as refused:
        raise ProxyRefusal(HTTPStatus.BAD_GATEWAY, f"invalid response from the server: {refused}") from None
    match = _STATUS.fullmatch(first)
    if not match:
        raise ProxyRefusal(HTTPStatus.BAD_GATEWAY, "the server's response is not HTTP/1")
    lines = [first, *(f"{name}: {value}" for name, value in _drop_fields(fields, _HOP_RESPONSE))]
    status = int(match[2])
    return status, _encode_head(lines if status < 200 else [*lines, "Connection: close"])


def parse_chunk(line: bytes) -> int:
    """Parse the size line of a chunk. Raises `ProxyRefusal`."""
    match = _CHUNK.fullmatch(line)
    if not match:
        raise _bad_request("invalid chunk size in the body")
    return int(match[1], 16)


def build_refusal_response(refused: ProxyRefusal) -> bytes:
    """The response to a rejected request: the message is the body and the reason phrase, which tools show."""
    body = f"openskills: {refused}\n".encode()
    phrase = "".join(char for char in str(refused) if " " <= char <= "~")[:300]
    lines = [f"HTTP/1.1 {refused.status.value} {phrase}", "Content-Type: text/plain; charset=utf-8"]
    return _encode_head([*lines, f"Content-Length: {len(body)}", "Connection: close"]) + body


def _split_head(data: bytes) -> tuple[str, Fields]:
    first, *lines = data.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    fields: list[tuple[str, str]] = []
    for line in lines:
        match = _FIELD.fullmatch(line)
        if not match:
            raise _bad_request("a header line is not 'name: value'")
        fields.append((match[1], match[2]))
    return first, tuple(fields)


def _parse_length(fields: Fields) -> int | None:
    """The size of the body, which must be given exactly once; None if it is chunked."""
    framing = [(name.lower(), value) for name, value in fields if name.lower() in _FRAMING]
    if not framing:
        return 0
    name, value = framing[0]
    if len(framing) == 1 and name == "content-length" and _LENGTH.fullmatch(value):
        return int(value)
    if len(framing) == 1 and name == "transfer-encoding" and value.lower() == "chunked":
        return None
    raise _bad_request("the body length must be given once: Content-Length, or Transfer-Encoding: chunked")


def _split_absolute_target(target: str) -> tuple[str, str]:
    scheme, separator, rest = target.partition("://")
    if not separator or not _TARGET.fullmatch(target) or "#" in target:
        raise _bad_request("this is a proxy: request http://host/path, or CONNECT host:port")
    if scheme.lower() != "http":
        raise _bad_request("this proxy only fetches http:// URLs; use CONNECT host:port for anything else")
    place = next((index for index, char in enumerate(rest) if char in "/?"), len(rest))
    path = rest[place:]
    return rest[:place], path if path.startswith("/") else f"/{path}"


def _parse_authority(text: str, default: int | None) -> tuple[Host, int]:
    if "@" in text:
        raise _bad_request("a user name before the host is not allowed", text)
    try:
        name, port = split_port(text)
        host = normalize_host(name)
    except InvalidArgument as error:
        raise _bad_request(error.message, text) from None
    if port is None and default is None:
        raise _bad_request(f"CONNECT {format_host_port(host, None)} has no port", text)
    return host, port or default or 0


def _drop_fields(fields: Fields, dropped: set[str]) -> Fields:
    named = {
        word.strip().lower() for name, value in fields if name.lower() == "connection" for word in value.split(",")
    }
    return tuple(field for field in fields if field[0].lower() not in dropped | (named - _FRAMING))


def _encode_head(lines: list[str]) -> bytes:
    return "\r\n".join(lines).encode("latin-1") + END


def _bad_request(message: str, target: str = "") -> ProxyRefusal:
    return ProxyRefusal(HTTPStatus.BAD_REQUEST, message, target)


CHUNK = 32 * 1024
"""The size of one read. Each side of a connection buffers at most a few of these."""
_ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
_CLOSE_TIMEOUT = 5.0
_LINGER_SECONDS = 1.0
_LINGER_BYTES = 1024 * 1024


@dataclass(slots=True)
class ProxyPeer:
    """One side of a relayed connection; `answered`: it was sent something."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    answered: bool = False

    async def close(self) -> None:
        """Flush and close; a peer that does not read is aborted after a timeout."""
        self.writer.close()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(_CLOSE_TIMEOUT):
                await self.writer.wait_closed()
                return
        self.writer.transport.abort()

    def abort(self) -> None:
        """Close immediately."""
        self.writer.transport.abort()


RestartClock = Callable[[], None]
"""Restarts the idle timeout of one connection, which is for both directions together, because bytes were relayed."""


async def relay_tunnel(client: ProxyPeer, server: ProxyPeer, restart: RestartClock) -> None:
    """Relay both directions until both have ended; each may end before the other."""
    client.answered = True
    await _relay_chunk(_ESTABLISHED, client.writer, restart)
    works = (_relay_all(client.reader, server.writer, restart), _relay_all(server.reader, client.writer, restart))
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        await _cancel_all(*tasks)


async def relay_exchange(request: ProxyRequest, client: ProxyPeer, server: ProxyPeer, restart: RestartClock) -> None:
    """Relay one request and its response. Anything that the client sends after the request is dropped."""
    server.writer.write(request.build_forward_head())
    sending = asyncio.ensure_future(_relay_body(request.length, client.reader, server.writer, restart))
    answering = asyncio.ensure_future(_relay_response(server.reader, client, restart))
    try:
        await asyncio.wait({sending, answering}, return_when=asyncio.FIRST_COMPLETED)
        # A server may respond before it has read everything, and reject the rest.
        if sending.done() and not isinstance(sending.exception(), OSError):
            sending.result()
        await answering
    finally:
        await _cancel_all(sending, answering)
    await _drain_client(client)


async def send_response(data: bytes, client: ProxyPeer) -> None:
    """Send a final response."""
    with suppress(OSError):
        client.writer.write(data)
        client.writer.write_eof()
        await _drain_client(client)


async def _drain_client(client: ProxyPeer) -> None:
    """Wait briefly for a client that is still sending: closing now could destroy a response that it has not read."""
    left = _LINGER_BYTES
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(_LINGER_SECONDS):
            while left > 0 and (chunk := await client.reader.read(CHUNK)):
                left -= len(chunk)


async def _cancel_all(*tasks: "asyncio.Future[None]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _relay_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, restart: RestartClock) -> None:
    while chunk := await reader.read(CHUNK):
        await _relay_chunk(chunk, writer, restart)
    writer.write_eof()


async def _relay_chunk(chunk: bytes, writer: asyncio.StreamWriter, restart: RestartClock) -> None:
    restart()
    writer.write(chunk)
    await writer.drain()


async def _relay_body(
    length: int | None, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, restart: RestartClock
) -> None:
    if length is not None:
        await _relay_exactly(length, reader, writer, restart)
        return
    while size := parse_chunk(await _read_until(reader, b"\r\n", MAX_HEAD)):
        await _relay_chunk(b"%x\r\n" % size, writer, restart)
        await _relay_exactly(size, reader, writer, restart)
        if await reader.readexactly(2) != b"\r\n":
            raise ProxyRefusal(HTTPStatus.BAD_REQUEST, "a chunk of the body is longer than its size")
        await _relay_chunk(b"\r\n", writer, restart)
    # Trailers end with an empty line; they are not relayed.
    while await _read_until(reader, b"\r\n", MAX_HEAD) != b"\r\n":
        pass
    await _relay_chunk(b"0\r\n\r\n", writer, restart)


async def _relay_exactly(
    length: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, restart: RestartClock
) -> None:
    while length:
        chunk = await reader.read(min(length, CHUNK))
        if not chunk:
            raise EOFError("the client disconnected in the middle of its request")
        length -= len(chunk)
        await _relay_chunk(chunk, writer, restart)


async def _relay_response(reader: asyncio.StreamReader, client: ProxyPeer, restart: RestartClock) -> None:
    status = 100
    while status < 200:
        try:
            found = await _read_until(reader, END, MAX_RESPONSE_HEAD, HTTPStatus.BAD_GATEWAY)
        except asyncio.IncompleteReadError:
            message = "the server closed the connection without a response"
            raise ProxyRefusal(HTTPStatus.BAD_GATEWAY, message) from None
        status, head = parse_response(found)
        if status == HTTPStatus.SWITCHING_PROTOCOLS:
            raise ProxyRefusal(HTTPStatus.BAD_GATEWAY, "unexpected protocol switch by the server")
        client.answered = True
        await _relay_chunk(head, client.writer, restart)
    await _relay_all(reader, client.writer, restart)


async def _read_until(
    reader: asyncio.StreamReader,
    end: bytes,
    max_bytes: int,
    status: HTTPStatus = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
) -> bytes:
    """Read up to and including `end`. Raises `ProxyRefusal` if that is too long, or `IncompleteReadError`."""
    try:
        found = await reader.readuntil(end)
    except asyncio.LimitOverrunError:
        found = bytes(max_bytes + 1)
    if len(found) > max_bytes:
        raise ProxyRefusal(status, f"the head has more than {max_bytes:,} bytes")
    return found


async def read_head(reader: asyncio.StreamReader) -> bytes:
    """Read the head of a request. Raises `ProxyRefusal` if it is too long or invalid; `EOFError` without a request."""
    # A client that speaks TLS or SOCKS would otherwise wait forever for a response.
    first = await reader.readexactly(1)
    if not (first.isascii() and first.isalpha()):
        raise _bad_request("this is an HTTP/1.1 proxy; use http://127.0.0.1 and its port as the proxy URL")
    return first + await _read_until(reader, END, MAX_HEAD)


Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Resolves a name to addresses; raises OSError if it has none."""

_MAX_ADDRESSES = 16
_MAX_REFUSALS = 100
_LOOKUPS = 4
_LOCAL = "localhost,127.0.0.1,::1"


@dataclass(frozen=True, slots=True)
class ProxyLimits:
    """The limits of a proxy. Timeouts are for reading one head, resolving or dialling once, and inactivity."""

    connections: int = 64
    head_seconds: float = 10.0
    connect_seconds: float = 10.0
    idle_seconds: float = 300.0


@dataclass(frozen=True, slots=True)
class BlockedRequest:
    """A rejected request; `target` is its host and port, if known."""

    target: str
    reason: str


DEFAULT_LIMITS: Final = ProxyLimits()


class SystemResolver:
    """The machine's resolver, in its own threads, so that an unresponsive name server does not block others."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_LOOKUPS, thread_name_prefix="openskills-resolve")

    async def __call__(self, name: str, port: int) -> Sequence[str]:
        """Resolve a name; raises OSError if it has no address."""
        loop = asyncio.get_running_loop()
        # As bytes, which are not translated: exactly the checked name is looked up.
        look_up = partial(socket.getaddrinfo, name.encode("ascii"), port, type=socket.SOCK_STREAM)
        return [str(address[0]) for *_, address in await loop.run_in_executor(self._threads, look_up)]

    def close(self) -> None:
        """Stop; lookups that are under way end by themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class FilteringProxy:
    """Serves the connections of one listening socket. It belongs to the event loop that started it."""

    def __init__(
        self, allowed: Sequence[str], *, resolver: Resolver | None = None, limits: ProxyLimits = DEFAULT_LIMITS
    ) -> None:
        """Raises `InvalidArgument` for an invalid entry of `allowed`; see `allowlist.py` for the syntax."""
        self._allowed = AllowList(allowed)
        self._system = SystemResolver()
        self._resolver = resolver or self._system
        self._limits = limits
        self._refused: dict[BlockedRequest, None] = {}
        self._closed = False
        self._serving: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def refusals(self) -> tuple[BlockedRequest, ...]:
        """The rejected requests so far, without duplicates; at most 100."""
        return tuple(self._refused)

    def environment(self, port: int) -> dict[str, str]:
        """The environment variables that make programs in the sandbox use the proxy on this loopback port."""
        address = f"http://127.0.0.1:{port}"
        values: dict[str, str] = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), address)
        # A command may run its own servers on the sandbox's loopback, which leads nowhere else.
        values["NO_PROXY"] = "" if self._allowed.can_reach_loopback() else _LOCAL
        return values | {name.lower(): value for name, value in values.items()}

    async def start(self, listener: socket.socket) -> None:
        """Start accepting; the proxy closes the socket."""
        self._server = await asyncio.start_server(self._accept, sock=listener, limit=CHUNK)

    async def close(self) -> None:
        """Stop accepting and end all connections; safe to call twice."""
        self._closed = True
        if self._server is not None:
            self._server.close()
            # A connection that was accepted just now arrives in the next iterations of the loop.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        for task in self._serving:
            task.cancel()
        if self._serving:
            await asyncio.wait(self._serving)
        self._system.close()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._closed:
            writer.transport.abort()
            return
        writer.transport.set_write_buffer_limits(CHUNK)
        task = asyncio.get_running_loop().create_task(self._serve(ProxyPeer(reader, writer)))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, client: ProxyPeer) -> None:
        try:
            await self._handle_request(client)
            await client.close()
        except ProxyRefusal as refused:
            if len(self._refused) < _MAX_REFUSALS:
                self._refused[BlockedRequest(refused.target[:300], str(refused)[:1000])] = None
            if not client.answered:
                await send_response(build_refusal_response(refused), client)
        except (OSError, EOFError):
            pass  # client or server disconnected
        finally:
            client.abort()

    async def _handle_request(self, client: ProxyPeer) -> None:
        if len(self._serving) > self._limits.connections:
            message = f"too many connections; the maximum is {self._limits.connections}"
            raise ProxyRefusal(HTTPStatus.SERVICE_UNAVAILABLE, message)
        seconds = self._limits.head_seconds
        try:
            async with asyncio.timeout(seconds):
                request = parse_request(await read_head(client.reader))
        except TimeoutError:
            message = f"no complete request within {seconds:g} seconds"
            raise ProxyRefusal(HTTPStatus.REQUEST_TIMEOUT, message) from None
        server = await self._dial(request.host, request.port)
        idle = self._limits.idle_seconds
        try:
            async with asyncio.timeout(idle) as timeout:
                loop = asyncio.get_running_loop()

                def restart() -> None:
                    timeout.reschedule(loop.time() + idle)

                if request.is_tunnel:
                    await relay_tunnel(client, server, restart)
                else:
                    await relay_exchange(request, client, server, restart)
            await server.close()
        except TimeoutError:
            target = format_host_port(request.host, request.port)
            message = f"{target}: no data for {idle:g} seconds"
            raise ProxyRefusal(HTTPStatus.GATEWAY_TIMEOUT, message, target) from None
        finally:
            server.abort()

    async def _dial(self, host: Host, port: int) -> ProxyPeer:
        """Connect to a checked address of the host. Raises `ProxyRefusal`."""
        target = format_host_port(host, port)
        reason = self._allowed.explain_refusal(host, port)
        if reason:
            raise ProxyRefusal(HTTPStatus.FORBIDDEN, reason, target)
        failure = "no address"
        for address in self._filter_addresses(host, port, await self._resolve_addresses(host, port)):
            try:
                async with asyncio.timeout(self._limits.connect_seconds):
                    return ProxyPeer(*await asyncio.open_connection(str(address), port, limit=CHUNK))
            except TimeoutError:
                failure = f"no answer within {self._limits.connect_seconds:g} seconds"
            except OSError as error:
                failure = error.strerror or str(error)
        raise ProxyRefusal(HTTPStatus.BAD_GATEWAY, f"{target} cannot be reached: {failure}", target)

    async def _resolve_addresses(self, host: Host, port: int) -> list[Address]:
        if not isinstance(host, str):
            return [host]
        target = format_host_port(host, port)
        try:
            async with asyncio.timeout(self._limits.connect_seconds):
                found = await self._resolver(host, port)
        except TimeoutError:
            message = f"{host} was not resolved within {self._limits.connect_seconds:g} seconds"
            raise ProxyRefusal(HTTPStatus.GATEWAY_TIMEOUT, message, target) from None
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or "no such host"
            raise ProxyRefusal(HTTPStatus.BAD_GATEWAY, f"cannot resolve {host}: {reason}", target) from None
        # A zone (fe80::1%eth0) names an interface of this machine; the address is the same.
        unique = dict.fromkeys(unmap_address(ip_address(text.partition("%")[0])) for text in found)
        return list(unique)[:_MAX_ADDRESSES]

    def _filter_addresses(self, host: Host, port: int, addresses: Sequence[Address]) -> list[Address]:
        """The allowed addresses; raises `ProxyRefusal` if there are addresses but none is allowed."""
        reasons = {
            address: self._allowed.explain_address_refusal(host, port, address, own=is_own_address(address))
            for address in addresses
        }
        refused = [reason for reason in reasons.values() if reason]
        if addresses and len(refused) == len(reasons):
            raise ProxyRefusal(HTTPStatus.FORBIDDEN, refused[0], format_host_port(host, port))
        return [address for address, reason in reasons.items() if not reason]


def is_own_address(address: Address) -> bool:
    """Whether it is an address of this machine: a packet to it would have it as its source. Nothing is sent."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((str(address), 9))
            return ip_address(probe.getsockname()[0]) == address
    except OSError:
        return False
