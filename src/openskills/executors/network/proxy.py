"""Filtering HTTP proxy on h11.

Heads of HTTP/1 messages as a proxy reads and passes them on. Pure.

The reader is strict: what two programs could read differently is refused, so that nobody behind the proxy sees
another request than the one that was judged.

Bytes between two connections, in bounded memory: what cannot be written is not read.

A proxy that lets one command reach the hosts of its allow-list, and nobody else.

A name is resolved once, here; every address is judged, and exactly what was judged is dialled. What the name means a
moment later makes no difference.
"""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Coroutine, Sequence
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
# What concerns one connection only, and what is written anew from what was understood.
_HOP = {"connection", "keep-alive", "proxy-connection", "te", "trailer", "upgrade"}
_HOP_REQUEST = _HOP | {"proxy-authorization", "transfer-encoding", "content-length", "host"}
_HOP_RESPONSE = _HOP | {"proxy-authenticate", "proxy-authentication-info"}
_FRAMING = {"transfer-encoding", "content-length"}

Fields = tuple[tuple[str, str], ...]


class ProxyRefusal(Exception):
    """A request that is answered by the proxy itself; `str()` is the sentence for whoever sent it."""

    def __init__(self, status: HTTPStatus, message: str, target: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.target = target


@dataclass(frozen=True, slots=True)
class ProxyRequest:
    """A request to a proxy. `length` is the size of its body; None: in chunks. `target` is empty for CONNECT."""

    method: str
    host: Host
    port: int
    target: str
    version: str
    fields: Fields
    length: int | None

    @property
    def is_tunnel(self) -> bool:
        """Whether it asks for a connection and not for a resource."""
        return not self.target

    def build_forward_head(self) -> bytes:
        """The head for the server: nothing of this connection, the host that was judged, one request only."""
        host = format_host_port(self.host, None if self.port == 80 else self.port)
        lines = [f"{self.method} {self.target} {self.version}", f"Host: {host}"]
        lines += [f"{name}: {value}" for name, value in _drop_fields(self.fields, _HOP_REQUEST)]
        if self.length is None:
            lines.append("Transfer-Encoding: chunked")
        elif self.length or any(name.lower() == "content-length" for name, _ in self.fields):
            lines.append(f"Content-Length: {self.length}")
        return _encode_head([*lines, "Connection: close"])


def parse_request(data: bytes) -> ProxyRequest:
    """Read the head of a request, up to and with its empty line. Raises `Refused`."""
    first, fields = _split_head(data)
    words = first.split(" ")
    if len(words) != 3 or not _TOKEN.fullmatch(words[0]) or words[2] not in ("HTTP/1.1", "HTTP/1.0"):
        raise _bad_request("this is an HTTP/1.1 proxy, and that was no request for one")
    method, target, version = words
    length = _parse_length(fields)
    if method == "CONNECT":
        host, port = _parse_authority(target, None)
        return ProxyRequest(method, host, port, "", version, fields, length)
    authority, path = _split_absolute_target(target)
    host, port = _parse_authority(authority, 80)
    return ProxyRequest(method, host, port, path, version, fields, length)


def parse_response(data: bytes) -> tuple[int, bytes]:
    """The status of a server's answer, and its head for the client. Raises `Refused` for what is no answer."""
    try:
        first, fields = _split_head(data)
    except ProxyRefusal as refused:
        raise ProxyRefusal(HTTPStatus.BAD_GATEWAY, f"the server's answer is faulty: {refused}") from None
    match = _STATUS.fullmatch(first)
    if not match:
        raise ProxyRefusal(HTTPStatus.BAD_GATEWAY, "the server's answer is not HTTP/1")
    lines = [first, *(f"{name}: {value}" for name, value in _drop_fields(fields, _HOP_RESPONSE))]
    status = int(match[2])
    return status, _encode_head(lines if status < 200 else [*lines, "Connection: close"])


def parse_chunk(line: bytes) -> int:
    """The size that the first line of a chunk says. Raises `Refused`."""
    match = _CHUNK.fullmatch(line)
    if not match:
        raise _bad_request("a chunk of the body does not begin with its size")
    return int(match[1], 16)


def build_refusal_response(refused: ProxyRefusal) -> bytes:
    """The answer to a request that is refused: the sentence is the body, and the reason phrase, which tools show."""
    body = f"openskills: {refused}\n".encode()
    phrase = "".join(char for char in str(refused) if " " <= char <= "~")[:300]
    lines = [f"HTTP/1.1 {refused.status.value} {phrase}", "Content-Type: text/plain; charset=utf-8"]
    return _encode_head([*lines, f"Content-Length: {len(body)}", "Connection: close"]) + body


def _split_head(data: bytes) -> tuple[str, Fields]:
    lines = data.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    return lines[0], tuple(_parse_field(line) for line in lines[1:])


def _parse_field(line: str) -> tuple[str, str]:
    match = _FIELD.fullmatch(line)
    if not match:
        raise _bad_request("a header line is not 'name: value'")
    return match[1], match[2]


def _parse_length(fields: Fields) -> int | None:
    """The size of the body; None when it comes in chunks. Two answers to that question are none."""
    framing = [(name.lower(), value) for name, value in fields if name.lower() in _FRAMING]
    if not framing:
        return 0
    name, value = framing[0]
    if len(framing) == 1 and name == "content-length" and _LENGTH.fullmatch(value):
        return int(value)
    if len(framing) == 1 and name == "transfer-encoding" and value.lower() == "chunked":
        return None
    raise _bad_request("the length of the body must be said once: Content-Length, or Transfer-Encoding: chunked")


def _split_absolute_target(target: str) -> tuple[str, str]:
    scheme, separator, rest = target.partition("://")
    if not separator or not _TARGET.fullmatch(target) or "#" in target:
        raise _bad_request("this is a proxy: ask for http://host/path, or CONNECT host:port")
    if scheme.lower() != "http":
        raise _bad_request("this proxy fetches http:// only; for anything else ask it to CONNECT host:port")
    authority, found, path = _split_authority(rest)
    return authority, path if found == "/" else f"/{path}"


def _split_authority(rest: str) -> tuple[str, str, str]:
    place = next((index for index, char in enumerate(rest) if char in "/?"), len(rest))
    return rest[:place], rest[place : place + 1], rest[place:]


def _parse_authority(text: str, default: int | None) -> tuple[Host, int]:
    if "@" in text:
        raise _bad_request("an address with a user name before the host is not accepted", text)
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
"""How much is read at once. Each side of a connection holds at most a few of these."""
_ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
_CLOSE_TIMEOUT = 5.0
_LINGER_SECONDS = 1.0
_LINGER_BYTES = 1024 * 1024


@dataclass(slots=True)
class ProxyPeer:
    """One side of a connection that is passed on; `answered`: it was sent something."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    answered: bool = False

    async def close(self) -> None:
        """Close it when everything is written; a peer that does not read is not waited for."""
        self.writer.close()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(_CLOSE_TIMEOUT):
                await self.writer.wait_closed()
                return
        self.writer.transport.abort()

    def abort(self) -> None:
        """Close it at once."""
        self.writer.transport.abort()


class TransferBudget:
    """How many bytes may pass in all, and how long nothing may pass; one clock for both directions."""

    def __init__(self, clock: asyncio.Timeout, idle: float, spend: "TransferCounter") -> None:
        self._clock = clock
        self._idle = idle
        self._spend = spend

    def add(self, count: int) -> None:
        """Bytes have gone through. Raises `Refused` when there were too many."""
        self._spend.add(count)
        self._clock.reschedule(asyncio.get_running_loop().time() + self._idle)


class TransferCounter:
    """The bytes of all connections of one proxy."""

    def __init__(self, most: int | None) -> None:
        self.total = 0
        self._most = most

    def add(self, count: int) -> None:
        """Count; raises `Refused` beyond the limit."""
        self.total += count
        if self._most is not None and self.total > self._most:
            message = f"this command has moved more than {self._most:,} bytes over the network"
            raise ProxyRefusal(HTTPStatus.FORBIDDEN, message)


async def relay_tunnel(client: ProxyPeer, server: ProxyPeer, budget: TransferBudget) -> None:
    """Pass on both directions until both have ended; each may end before the other."""
    client.answered = True
    await _relay_chunk(_ESTABLISHED, client.writer, budget)
    await _run_together(
        _relay_all(client.reader, server.writer, budget),
        _relay_all(server.reader, client.writer, budget),
    )


async def relay_exchange(request: ProxyRequest, client: ProxyPeer, server: ProxyPeer, budget: TransferBudget) -> None:
    """Pass on one request and its answer. Nothing that the client sends after the request goes anywhere."""
    server.writer.write(request.build_forward_head())
    sending = asyncio.ensure_future(_relay_body(request.length, client.reader, server.writer, budget))
    answering = asyncio.ensure_future(_relay_response(server.reader, client, budget))
    try:
        await asyncio.wait({sending, answering}, return_when=asyncio.FIRST_COMPLETED)
        # A server may answer before it has read everything, and does not want the rest.
        if sending.done() and not isinstance(sending.exception(), OSError):
            sending.result()
        await answering
    finally:
        await _cancel_all(sending, answering)
    await drain_client(client)


async def send_response(data: bytes, client: ProxyPeer) -> None:
    """Send a last answer."""
    with suppress(OSError):
        client.writer.write(data)
        client.writer.write_eof()
        await drain_client(client)


async def drain_client(client: ProxyPeer) -> None:
    """Wait a little for the end of what a client is still sending: closing now could destroy what it has not read."""
    left = _LINGER_BYTES
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(_LINGER_SECONDS):
            while left > 0 and (chunk := await client.reader.read(CHUNK)):
                left -= len(chunk)


async def _run_together(*works: Coroutine[None, None, None]) -> None:
    """Do all until they end or one fails."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        await _cancel_all(*tasks)


async def _cancel_all(*tasks: "asyncio.Future[None]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _relay_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, budget: TransferBudget) -> None:
    while chunk := await reader.read(CHUNK):
        await _relay_chunk(chunk, writer, budget)
    writer.write_eof()


async def _relay_chunk(chunk: bytes, writer: asyncio.StreamWriter, budget: TransferBudget) -> None:
    budget.add(len(chunk))
    writer.write(chunk)
    await writer.drain()


async def _relay_body(
    length: int | None, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, budget: TransferBudget
) -> None:
    if length is not None:
        await _relay_exactly(length, reader, writer, budget)
        return
    while size := parse_chunk(await _read_until(reader, b"\r\n", MAX_HEAD)):
        await _relay_chunk(b"%x\r\n" % size, writer, budget)
        await _relay_exactly(size, reader, writer, budget)
        if await reader.readexactly(2) != b"\r\n":
            raise ProxyRefusal(HTTPStatus.BAD_REQUEST, "a chunk of the body is longer than its size")
        await _relay_chunk(b"\r\n", writer, budget)
    # Trailers end with an empty line; they are not passed on.
    while await _read_until(reader, b"\r\n", MAX_HEAD) != b"\r\n":
        pass
    await _relay_chunk(b"0\r\n\r\n", writer, budget)


async def _relay_exactly(
    length: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, budget: TransferBudget
) -> None:
    while length:
        chunk = await reader.read(min(length, CHUNK))
        if not chunk:
            raise EOFError("the client has gone in the middle of its request")
        length -= len(chunk)
        await _relay_chunk(chunk, writer, budget)


async def _relay_response(reader: asyncio.StreamReader, client: ProxyPeer, budget: TransferBudget) -> None:
    status = 100
    while status < 200:
        try:
            found = await _read_until(reader, END, MAX_RESPONSE_HEAD, HTTPStatus.BAD_GATEWAY)
        except asyncio.IncompleteReadError:
            raise ProxyRefusal(
                HTTPStatus.BAD_GATEWAY, "the server has closed the connection without an answer"
            ) from None
        status, head = parse_response(found)
        if status == HTTPStatus.SWITCHING_PROTOCOLS:
            raise ProxyRefusal(HTTPStatus.BAD_GATEWAY, "the server changes the protocol, which nobody asked for")
        client.answered = True
        await _relay_chunk(head, client.writer, budget)
    await _relay_all(reader, client.writer, budget)


async def _read_until(
    reader: asyncio.StreamReader,
    end: bytes,
    most: int,
    status: HTTPStatus = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
) -> bytes:
    """Up to and with `end`. Raises `Refused` when that is too long, `IncompleteReadError` when it does not come."""
    try:
        found = await reader.readuntil(end)
    except asyncio.LimitOverrunError:
        found = bytes(most + 1)
    if len(found) > most:
        raise ProxyRefusal(status, f"a head of more than {most:,} bytes is not accepted")
    return found


async def read_head(reader: asyncio.StreamReader) -> bytes:
    """The head of a request. Raises `Refused` when it is too long or none; `EOFError` when there is no request."""
    # A program that speaks TLS or SOCKS would wait for an answer that does not come.
    first = await reader.readexactly(1)
    if not (first.isascii() and first.isalpha()):
        raise ProxyRefusal(
            HTTPStatus.BAD_REQUEST, "this is an HTTP/1.1 proxy; use http://127.0.0.1 and its port as one"
        )
    return first + await _read_until(reader, END, MAX_HEAD)


Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a name; raises OSError when it has none."""

_MAX_ADDRESSES = 16
_MAX_REFUSALS = 100
_LOOKUPS = 4
_LOCAL = "localhost,127.0.0.1,::1"


@dataclass(frozen=True, slots=True)
class ProxyLimits:
    """What a command may ask of its proxy. Seconds are for one head, one name or address, and for silence."""

    connections: int = 64
    head_seconds: float = 10.0
    connect_seconds: float = 10.0
    idle_seconds: float = 300.0
    total_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class BlockedRequest:
    """What a command asked for and did not get; `target` is a host and port when it named one."""

    target: str
    reason: str


DEFAULT_LIMITS: Final = ProxyLimits()


class SystemResolver:
    """The machine's own resolver, in threads of its own: a name server that never answers holds up nobody else."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_LOOKUPS, thread_name_prefix="openskills-resolve")

    async def __call__(self, name: str, port: int) -> Sequence[str]:
        """The addresses of a name; raises OSError when it has none."""
        loop = asyncio.get_running_loop()
        # As bytes, which nobody translates: what is looked up is what was judged.
        look_up = partial(socket.getaddrinfo, name.encode("ascii"), port, type=socket.SOCK_STREAM)
        return [str(address[0]) for *_, address in await loop.run_in_executor(self._threads, look_up)]

    def close(self) -> None:
        """Look up nothing more; what is being looked up ends by itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class FilteringProxy:
    """Serves the connections that come in on one listening socket. It belongs to the event loop that started it."""

    def __init__(
        self, allowed: Sequence[str], *, resolver: Resolver | None = None, limits: ProxyLimits = DEFAULT_LIMITS
    ) -> None:
        """Raises `InvalidArgument` for an entry of `allowed` that cannot be read; see `hosts.py` for what is one."""
        self._allowed = AllowList(allowed)
        self._system = SystemResolver()
        self._resolver = resolver or self._system
        self._limits = limits
        self._spending = TransferCounter(limits.total_bytes)
        self._refused: dict[BlockedRequest, None] = {}
        self._closed = False
        self._serving: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def refusals(self) -> tuple[BlockedRequest, ...]:
        """What was refused so far, each once, the first hundred of them."""
        return tuple(self._refused)

    @property
    def bytes_moved(self) -> int:
        """How many bytes went through, both ways together."""
        return self._spending.total

    def environment(self, port: int) -> dict[str, str]:
        """The variables that tell programs inside the sandbox to use the proxy on this port of its loopback."""
        address = f"http://127.0.0.1:{port}"
        values: dict[str, str] = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), address)
        # The sandbox's own loopback is no way out, and a command may serve something there for itself.
        values["NO_PROXY"] = "" if self._allowed.can_reach_loopback() else _LOCAL
        return values | {name.lower(): value for name, value in values.items()}

    async def start(self, listener: socket.socket) -> None:
        """Begin to accept. The socket is the proxy's from now on."""
        self._server = await asyncio.start_server(self._accept, sock=listener, limit=CHUNK)

    async def close(self) -> None:
        """End all connections and accept no more; safe to call twice."""
        self._closed = True
        if self._server is not None:
            self._server.close()
            # A connection that was accepted just now arrives in the next rounds of the loop.
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
            self._record_refusal(refused)
            if not client.answered:
                await send_response(build_refusal_response(refused), client)
        except (OSError, EOFError):
            # One of the two has gone; the other one sees it.
            pass
        finally:
            client.abort()

    async def _handle_request(self, client: ProxyPeer) -> None:
        if len(self._serving) > self._limits.connections:
            message = f"more than {self._limits.connections} connections at once are not allowed"
            raise ProxyRefusal(HTTPStatus.SERVICE_UNAVAILABLE, message)
        request = parse_request(await self._read_head(client))
        server = await self._dial(request.host, request.port)
        idle = self._limits.idle_seconds
        try:
            async with asyncio.timeout(idle) as clock:
                budget = TransferBudget(clock, idle, self._spending)
                if request.is_tunnel:
                    await relay_tunnel(client, server, budget)
                else:
                    await relay_exchange(request, client, server, budget)
            await server.close()
        except TimeoutError:
            target = format_host_port(request.host, request.port)
            raise ProxyRefusal(HTTPStatus.GATEWAY_TIMEOUT, f"{target}: {idle:g} seconds of silence", target) from None
        finally:
            server.abort()

    async def _read_head(self, client: ProxyPeer) -> bytes:
        seconds = self._limits.head_seconds
        try:
            async with asyncio.timeout(seconds):
                return await read_head(client.reader)
        except TimeoutError:
            raise ProxyRefusal(
                HTTPStatus.REQUEST_TIMEOUT, f"no whole request came within {seconds:g} seconds"
            ) from None

    async def _dial(self, host: Host, port: int) -> ProxyPeer:
        """A connection to an address of the host that was judged just now. Raises `Refused`."""
        target = format_host_port(host, port)
        reason = self._allowed.explain_refusal(host, port)
        if reason:
            raise ProxyRefusal(HTTPStatus.FORBIDDEN, reason, target)
        failure = "it has no address"
        for address in self._filter_addresses(host, port, await self._resolve_addresses(host, port)):
            try:
                async with asyncio.timeout(self._limits.connect_seconds):
                    # An address is not looked up again.
                    return ProxyPeer(*await asyncio.open_connection(str(address), port, limit=CHUNK))
            except TimeoutError:
                failure = f"no answer within {self._limits.connect_seconds:g} seconds"
            except OSError as error:
                failure = error.strerror or str(error)
        raise ProxyRefusal(HTTPStatus.BAD_GATEWAY, f"{target} cannot be reached: {failure}", target)

    async def _resolve_addresses(self, host: Host, port: int) -> list[Address]:
        if not isinstance(host, str):
            return [host]
        try:
            async with asyncio.timeout(self._limits.connect_seconds):
                found = await self._resolver(host, port)
        except TimeoutError:
            message = f"{host} was not resolved within {self._limits.connect_seconds:g} seconds"
            raise ProxyRefusal(HTTPStatus.GATEWAY_TIMEOUT, message, format_host_port(host, port)) from None
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or "no such host"
            raise ProxyRefusal(
                HTTPStatus.BAD_GATEWAY, f"{host} cannot be resolved: {reason}", format_host_port(host, port)
            ) from None
        # A zone (fe80::1%eth0) names an interface of this machine, and means the same address.
        unique = dict.fromkeys(unmap_address(ip_address(text.partition("%")[0])) for text in found)
        return list(unique)[:_MAX_ADDRESSES]

    def _filter_addresses(self, host: Host, port: int, addresses: Sequence[Address]) -> list[Address]:
        """Those that may be dialled; raises `Refused` when there are addresses and none of them may."""
        reasons = {
            address: self._allowed.explain_address_refusal(host, port, address, own=is_own_address(address))
            for address in addresses
        }
        refused = [reason for reason in reasons.values() if reason]
        if addresses and len(refused) == len(reasons):
            raise ProxyRefusal(HTTPStatus.FORBIDDEN, refused[0], format_host_port(host, port))
        return [address for address, reason in reasons.items() if not reason]

    def _record_refusal(self, refused: ProxyRefusal) -> None:
        if len(self._refused) < _MAX_REFUSALS:
            self._refused[BlockedRequest(refused.target[:300], str(refused)[:1000])] = None


def is_own_address(address: Address) -> bool:
    """Whether it is an address of this machine: a packet to it would come from it. Nothing is sent."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((str(address), 9))
            return ip_address(probe.getsockname()[0]) == address
    except OSError:
        return False
