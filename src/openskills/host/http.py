"""HTTP requests and responses on plain ASGI: tracing headers, bodies, refusals, disconnects and server-sent events.

Every JSON response is a Normalized Skill Result. Values from the caller that end up in headers, logs and files, such as
the trace id, must be short printable ASCII.
"""

import asyncio
import json
import logging
import math
import random
import re
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    MutableMapping,
    Sequence,
)
from contextlib import aclosing
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, quote

import orjson

from openskills.errors import BadSkillOutput, InvalidArgument, UnsupportedMedia, shorten
from openskills.host.model import (
    MAX_TRACE_ID_LENGTH,
    Failure,
    InvokeResult,
    failure_outcome,
    normalize_outcome,
    success_outcome,
)
from openskills.version import __version__

_log = logging.getLogger("openskills.host")

TRACE_ID_HEADER = "X-Trace-Id"

_PRINTABLE = re.compile(rb"[\x20-\x7e]{1,%d}" % MAX_TRACE_ID_LENGTH)
_TRACE_ID = re.compile(r"(?!0{32})[0-9a-f]{32}")
_TRACEPARENT = re.compile(rb"(?!ff)([0-9a-f]{2})-((?!0{32})[0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-([0-9a-f]{2})(-.*)?")
_RANDOM = random.Random()  # noqa: S311 - seeded by the system once


class Trace(NamedTuple):
    """The trace of one request.

    `parent` is the caller's `traceparent`, if valid; `here` is ours, for the response and for calls that we make.
    """

    id: str
    here: str
    parent: str | None = None


def random_hex(size: int) -> str:
    """Random bytes as hex digits. For ids, not for secrets."""
    # `os.urandom` would cost more than everything else here.
    return f"{_RANDOM.getrandbits(8 * size):0{2 * size}x}"


def new_trace() -> Trace:
    dice = random_hex(24)
    return Trace(dice[:32], f"00-{dice[:32]}-{dice[32:]}-01")


def parse_trace(trace_id: bytes | None, traceparent: bytes | None) -> Trace:
    """The trace of a request with these headers. Raises `InvalidArgument` for an invalid trace id.

    An invalid `traceparent` is ignored, as its specification says.
    """
    known = _TRACEPARENT.fullmatch(traceparent) if traceparent else None
    # Only future versions may have more fields.
    if known is not None and known[1] == b"00" and known[4]:
        known = None
    if not trace_id and known is None:
        return new_trace()
    if trace_id and not _PRINTABLE.fullmatch(trace_id):
        message = f"must be printable ASCII of at most {MAX_TRACE_ID_LENGTH} characters; leave it out for a new one"
        raise InvalidArgument(TRACE_ID_HEADER, message)
    dice = random_hex(24)
    chosen = trace_id.decode("ascii").strip() if trace_id else ""
    if known is not None:
        inherited = known[2].decode("ascii")
        here = f"00-{inherited}-{dice[32:]}-{known[3].decode('ascii')}"
        return Trace(chosen or inherited, here, known[0].decode("latin-1"))
    chosen = chosen or dice[:32]
    shared = chosen if _TRACE_ID.fullmatch(chosen) else dice[:32]
    return Trace(chosen, f"00-{shared}-{dice[32:]}-01")


Headers = list[tuple[bytes, bytes]]

JSON_CONTENT_TYPE = (b"content-type", b"application/json")
_CHALLENGE = (b"www-authenticate", b"Bearer")


class HttpResponse(NamedTuple):
    """A complete response."""

    status: int
    headers: Headers
    body: bytes


def encode_result(result: InvokeResult) -> tuple[InvokeResult, bytes]:
    """A result and its JSON. Data that cannot be encoded make it a failure."""
    plain = result.to_dict()
    try:
        return result, orjson.dumps(plain)
    except TypeError:
        pass
    try:
        # orjson does not encode integers beyond 64 bits.
        return result, json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError):
        error = BadSkillOutput("the skill's data cannot be encoded as JSON")
    result = normalize_outcome(
        failure_outcome(error),
        skill_id=result.skill_id.encode("ascii", "replace").decode(),
        trace_id=result.trace_id,
        latency_ms=result.latency_ms,
        version=result.version.encode("ascii", "replace").decode(),
        waited_ms=result.waited_ms,
        ran_ms=result.ran_ms,
    )
    return result, orjson.dumps(result.to_dict())


def response_from_result(result: InvokeResult, body: bytes, trace: Trace) -> HttpResponse:
    return HttpResponse(http_status(result), build_headers(trace, body, result.outcome.failure), body)


def http_status(result: InvokeResult) -> int:
    """The HTTP status of a result; 500 for a code that is not an error status."""
    status = result.status
    return status if status == 200 or 400 <= status <= 599 else 500


def build_headers(trace: Trace, body: bytes, failure: Failure | None = None) -> Headers:
    headers = [JSON_CONTENT_TYPE, (b"content-length", b"%d" % len(body)), *trace_headers(trace)]
    if failure is not None:
        if failure.retry_after is not None:
            headers.append((b"retry-after", b"%d" % max(math.ceil(failure.retry_after), 1)))
        if failure.code == 401:
            headers.append(_CHALLENGE)
    return headers


def trace_headers(trace: Trace) -> Headers:
    return [(b"x-trace-id", trace.id.encode("ascii")), (b"traceparent", trace.here.encode("ascii"))]


def build_refusal(failure: Failure, trace: Trace, *, skill_id: str = "", latency_ms: float = 0.0) -> HttpResponse:
    """The response to a request that did not reach a skill."""
    result = normalize_outcome(
        failure_outcome(failure), skill_id=skill_id, trace_id=trace.id, latency_ms=latency_ms, version=__version__
    )
    return response_from_result(*encode_result(result), trace)


def build_document(
    value: Mapping[str, Any], trace: Trace, *, skill_id: str = "", status: int = 200, latency_ms: float = 0.0
) -> HttpResponse:
    """A document as the data of a successful result."""
    result = normalize_outcome(
        success_outcome(value), skill_id=skill_id, trace_id=trace.id, latency_ms=latency_ms, version=__version__
    )
    body = orjson.dumps(result.to_dict())
    return HttpResponse(status, build_headers(trace, body), body)


Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_SINGLE_HEADERS = frozenset(
    {b"x-trace-id", b"authorization", b"x-api-key", b"content-type", b"host", b"idempotency-key"}
)
"""Headers that must not be sent with two different values."""


class HttpExchange:
    """A request and its response. `hostile` is the error of an invalid trace id or of conflicting headers."""

    __slots__ = ("answered", "began", "headers", "hostile", "receive", "scope", "send", "trace")

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.began = time.perf_counter()
        self.scope = scope
        self.receive = receive
        self.send = send
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.answered = False
        self.hostile: InvalidArgument | None = None
        try:
            self.trace: Trace = parse_trace(self.headers.get(b"x-trace-id"), self.headers.get(b"traceparent"))
        except InvalidArgument as error:
            self.trace, self.hostile = new_trace(), error
        if len(self.headers) != len(scope["headers"]):
            seen: dict[bytes, bytes] = {}
            for name, value in scope["headers"]:
                if name in _SINGLE_HEADERS and seen.setdefault(name, value) != value:
                    header = name.decode("ascii").title()
                    self.trace, self.hostile = new_trace(), InvalidArgument(header, "was sent with different values")
                    break

    @property
    def method(self) -> str:
        return self.scope["method"]

    @property
    def path(self) -> str:
        """The path below the mount point of the application."""
        path, root = self.scope["path"], self.scope.get("root_path") or ""
        return path[len(root) :] if root and path.startswith(root) else path

    @property
    def latency_ms(self) -> float:
        return (time.perf_counter() - self.began) * 1000

    def header(self, name: bytes) -> str | None:
        """A header as text; `name` is lower case."""
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")

    def read_query(self) -> dict[str, str]:
        """The parameters of the URL; the last one of each name counts."""
        return dict(parse_qsl(self.scope["query_string"].decode("latin-1"), keep_blank_values=True))

    def build_refusal(self, failure: Failure, *, skill_id: str = "") -> HttpResponse:
        """The response to this request if it does not reach a skill."""
        return build_refusal(failure, self.trace, skill_id=skill_id, latency_ms=self.latency_ms)

    async def send_response(self, answer: HttpResponse, *, close: bool = False) -> None:
        self.answered = True
        headers = [*answer.headers, (b"connection", b"close")] if close else answer.headers
        await self.send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await self.send({"type": "http.response.body", "body": answer.body})


SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing, so that requests of other origins need no check."""
DRAIN_RETRY_AFTER = 5
"""`Retry-After` of a draining host, in seconds."""


class HttpRefusal(Exception):
    """Refuse a request with this failure. `close` closes the connection; `allow` are the allowed methods."""

    def __init__(self, failure: Failure, *, close: bool = False, allow: tuple[str, ...] = ()) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.close = close
        self.allow = allow


def unknown_address(path: str) -> Failure:
    said = f"unknown path {shorten(path)!r}; GET /skills lists the skills, GET /docs describes the API"
    return _build_failure(404, "UNKNOWN_ADDRESS", said)


def unknown_part(message: str) -> Failure:
    """404 for something that does not exist in what the path names."""
    return _build_failure(404, "NOT_FOUND", message)


def unknown_action(verb: str, known: Sequence[str]) -> Failure:
    """404 for an unknown verb of a skill or run."""
    return _build_failure(404, "UNKNOWN_VERB", f"unknown verb {shorten(verb)!r}; use {' or '.join(known)}")


def wrong_method(method: str, allowed: Sequence[str]) -> Failure:
    return _build_failure(405, "METHOD_NOT_ALLOWED", f"{shorten(method)!r} is not allowed; use {', '.join(allowed)}")


def body_too_large(size: int | None, limit: int) -> Failure:
    """413; `size` is None if it is not known."""
    found = "too large" if size is None else f"too large ({size:,} bytes)"
    return _build_failure(413, "LIMIT_EXCEEDED", f"the body is {found}; the limit is {limit:,} bytes", limit=limit)


def body_too_slow(seconds: float) -> Failure:
    return _build_failure(408, "REQUEST_TIMEOUT", f"the body did not arrive within {seconds:g} seconds", retryable=True)


def bad_length(value: str) -> Failure:
    """400 for an invalid Content-Length."""
    return _build_failure(400, "INVALID_ARGUMENT", f"Content-Length: {shorten(value)!r} is not a number")


def invalid_request(message: str) -> Failure:
    """400 for bytes that are not an HTTP request."""
    return _build_failure(400, "INVALID_ARGUMENT", f"invalid HTTP request: {message}")


def head_too_large(limit: int) -> Failure:
    return _build_failure(431, "LIMIT_EXCEEDED", f"the headers are larger than {limit:,} bytes", limit=limit)


def head_too_slow(seconds: float) -> Failure:
    said = f"the headers did not arrive within {seconds:g} seconds"
    return _build_failure(408, "REQUEST_TIMEOUT", said, retryable=True)


def host_draining() -> Failure:
    said = "this host is shutting down; try again in a few seconds"
    return _build_failure(503, "DRAINING", said, retryable=True, after=DRAIN_RETRY_AFTER)


def host_starting() -> Failure:
    return _build_failure(503, "STARTING", "this host is starting; try again in a second", retryable=True, after=1)


def wrong_host(host: str) -> Failure:
    """421 against DNS rebinding: a local request for a foreign host name."""
    said = (
        f"without an API key this host accepts local requests only, not for {shorten(host)!r}; use 127.0.0.1 or a key"
    )
    return _build_failure(421, "MISDIRECTED", said)


def unknown_public_url(host: str) -> Failure:
    """421 for a document with absolute URLs, if the address of this host is not known."""
    said = f"{shorten(host)!r} may not be this host; use its address, or set OPENSKILL_HOST_PUBLIC_URL"
    return _build_failure(421, "MISDIRECTED", said)


def wrong_origin(origin: str) -> Failure:
    """403 against DNS rebinding: a request of a web page from elsewhere."""
    return _build_failure(403, "FORBIDDEN", f"web pages of {shorten(origin)!r} may not use this host")


def internal_error(trace_id: str) -> Failure:
    """500 for a bug in the host; the details are only logged."""
    return _build_failure(500, "INTERNAL", f"internal error; see the log of the host for trace id {trace_id}")


def framework_error(status: int, message: str) -> Failure:
    """Any other error of the framework."""
    return _build_failure(status, "HTTP_ERROR", message[:300])


def _build_failure(
    code: int, reason: str, message: str, *, retryable: bool = False, after: float | None = None, **details: object
) -> Failure:
    return Failure(code, message, {"reason": reason, "retryable": retryable, **details}, after)


BODY_TIMEOUT = 10.0
"""Seconds in which a body must arrive."""
COMPLETE = "openskills.complete"
"""The key of a scope whose whole request has arrived, as the host's own server knows: its body needs no timeout."""


class ClientDisconnect(Exception):
    """The caller has closed the connection."""


async def read_body(exchange: HttpExchange, max_bytes: int, *, timeout: float = BODY_TIMEOUT) -> bytes:
    """Read the whole body. A body with too large a `Content-Length` is refused before it is read.

    Raises `HttpRefusal` if it is too large or too slow, `UnsupportedMedia`, and `ClientDisconnect`.
    """
    check_body_headers(exchange, max_bytes)
    if COMPLETE in exchange.scope:
        return await _read_chunks(exchange, max_bytes)
    try:
        async with asyncio.timeout(timeout):
            return await _read_chunks(exchange, max_bytes)
    except TimeoutError:
        # The rest of this request could not be told from the next one.
        raise HttpRefusal(body_too_slow(timeout), close=True) from None


async def stream_body(
    exchange: HttpExchange, max_bytes: int, *, timeout: float = BODY_TIMEOUT
) -> AsyncGenerator[bytes]:
    """The body in pieces, as they arrive. Raises like `read_body`, also after some pieces."""
    check_body_headers(exchange, max_bytes)
    deadline = asyncio.get_running_loop().time() + timeout
    size, more = 0, True
    while more:
        try:
            async with asyncio.timeout_at(deadline):
                message = await exchange.receive()
        except TimeoutError:
            raise HttpRefusal(body_too_slow(timeout), close=True) from None
        if message["type"] != "http.request":
            raise ClientDisconnect
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > max_bytes:
            raise HttpRefusal(body_too_large(None, max_bytes))
        if part:
            yield part
        more = message.get("more_body", False)


def check_body_headers(exchange: HttpExchange, max_bytes: int) -> None:
    """Raise `UnsupportedMedia` for a compressed body, and `HttpRefusal` for a wrong or too large `Content-Length`."""
    encoding = exchange.headers.get(b"content-encoding")
    # A small compressed body may expand to a very large one.
    if encoding is not None and encoding.strip().lower() not in {b"", b"identity"}:
        found = encoding.decode("latin-1")[:100]
        raise UnsupportedMedia(f"unsupported Content-Encoding {found!r}; send the body uncompressed")
    _check_length(exchange.headers.get(b"content-length"), max_bytes)


async def _read_chunks(exchange: HttpExchange, max_bytes: int) -> bytes:
    body = b""
    parts: list[bytes] = []
    size = 0
    while (message := await exchange.receive())["type"] == "http.request":
        body = message.get("body", b"")
        size += len(body)
        is_last = not message.get("more_body", False)
        if size > max_bytes:
            raise HttpRefusal(body_too_large(size if is_last and not parts else None, max_bytes))
        if is_last and not parts:
            return body
        parts.append(body)
        if is_last:
            return b"".join(parts)
    raise ClientDisconnect


def _check_length(length: bytes | None, max_bytes: int) -> None:
    if length is None:
        return
    if not length.isdigit():
        raise HttpRefusal(bad_length(length.decode("latin-1")), close=True)
    # Do not convert a number of thousands of digits.
    size = int(length) if len(length) < 19 else None
    if size is None or size > max_bytes:
        raise HttpRefusal(body_too_large(size, max_bytes))


T = TypeVar("T")

DISCONNECT_CHECK_DELAY = 0.05
"""Seconds before disconnects are watched for, which costs a task: most calls end sooner."""


async def cancel_on_disconnect(receive: Receive, work: Awaitable[T]) -> T:
    """Await `work`. If the caller disconnects, cancel it and raise `ClientDisconnect`."""
    worker = asyncio.current_task()
    assert worker is not None  # noqa: S101 - this is a coroutine
    look: asyncio.Task[None] | None = None
    is_gone = False

    async def wait_for_disconnect() -> None:
        nonlocal is_gone
        # The body of the request has been read, so the next message can only be a disconnect.
        while (await receive())["type"] != "http.disconnect":
            # Do not spin if a server keeps sending other messages.
            await asyncio.sleep(DISCONNECT_CHECK_DELAY)
        is_gone = True
        worker.cancel()

    def watch() -> None:
        nonlocal look
        look = asyncio.get_running_loop().create_task(wait_for_disconnect())

    timer = asyncio.get_running_loop().call_later(DISCONNECT_CHECK_DELAY, watch)
    try:
        return await work
    except asyncio.CancelledError:
        if is_gone and worker.uncancel() == 0:
            raise ClientDisconnect from None
        raise
    finally:
        timer.cancel()
        if look is not None:
            look.cancel()


SEND_TIMEOUT = 60.0
"""Seconds in which a client has to take the next piece of a file."""
FILE_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; sandbox"),
    (b"cache-control", b"no-store"),
)
"""Files of skills and users are never pages of this host."""


def build_file_headers(path: str, kind: str, *, is_inline: bool = False) -> Headers:
    """The headers of a file that browsers save under the last part of its path, or, with `is_inline`, may show."""
    name = quote(path.rpartition("/")[2], safe="")
    disposition = f"{'inline' if is_inline else 'attachment'}; filename*=UTF-8''{name}"
    return [
        (b"content-type", kind.encode("ascii", "replace")),
        (b"content-disposition", disposition.encode("ascii")),
        *FILE_HEADERS,
    ]


async def send_file(
    exchange: HttpExchange,
    chunks: AsyncIterator[bytes],
    size: int,
    headers: Headers,
    *,
    timeout: float = SEND_TIMEOUT,
) -> None:
    """Send a file piece by piece, each after the client has taken the one before. Raises `ClientDisconnect`.

    If the file has become shorter, or the client takes nothing for `timeout` seconds, the response is left incomplete
    and the server closes the connection: the client sees that it is not the whole file.
    """
    exchange.answered = True
    head = [*headers, (b"content-length", b"%d" % size), *trace_headers(exchange.trace)]
    await exchange.send({"type": "http.response.start", "status": 200, "headers": head})
    left = 0 if exchange.method == "HEAD" else size
    if left:
        left = await cancel_on_disconnect(exchange.receive, _send_chunks(exchange, chunks, left, timeout))
    if left:
        _log.warning(
            "%s: sent %d of %d bytes: the file was cut, or its reader stopped", exchange.path, size - left, size
        )
        return
    await exchange.send({"type": "http.response.body", "body": b""})


async def _send_chunks(exchange: HttpExchange, chunks: AsyncIterator[bytes], left: int, timeout: float) -> int:
    """Send at most `left` bytes; returns how many are missing at the end."""
    async for chunk in chunks:
        try:
            async with asyncio.timeout(timeout):
                await exchange.send({"type": "http.response.body", "body": chunk[:left], "more_body": True})
        except TimeoutError:
            return left
        left -= len(chunk[:left])
        if not left:
            break
    return left


PING_SECONDS = 15.0
PING = b": ping\n\n"

_SSE_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),
    # Disables response buffering in nginx and other proxies.
    (b"x-accel-buffering", b"no"),
]


_LINE_BREAK = re.compile(rb"\r\n|\r|\n")


class SseEvent(NamedTuple):
    """A server-sent event. `data` are bytes, or a value that is sent as JSON; a client can resume after `id`.

    Without a `kind` it is a message, which htmx puts into the page.
    """

    kind: str
    data: Mapping[str, Any] | bytes
    id: str | None = None

    def encode(self) -> bytes:
        """The event as bytes."""
        data = self.data if isinstance(self.data, bytes) else orjson.dumps(self.data, default=str)
        first = b"" if self.id is None else b"id: %s\n" % self.id.encode()
        kind = b"event: %s\n" % self.kind.encode() if self.kind else b""
        if b"\n" in data or b"\r" in data:
            data = b"\ndata: ".join(_LINE_BREAK.split(data))
        return b"%s%sdata: %s\n\n" % (first, kind, data)


async def send_events(
    exchange: HttpExchange,
    events: AsyncIterator[SseEvent],
    *,
    ping: float = PING_SECONDS,
    until: asyncio.Event | None = None,
    headers: Iterable[tuple[bytes, bytes]] = (),
) -> None:
    """Send events, and a comment after `ping` seconds without one. `until` ends the response early, at shutdown."""
    exchange.answered = True
    head = [*_SSE_HEADERS, *trace_headers(exchange.trace), *headers]
    await exchange.send({"type": "http.response.start", "status": 200, "headers": head})
    if exchange.method != "HEAD":
        async with aclosing(_encode_with_pings(events, ping, until or asyncio.Event())) as parts:
            async for part in parts:
                await exchange.send({"type": "http.response.body", "body": part, "more_body": True})
    await exchange.send({"type": "http.response.body", "body": b""})


async def _encode_with_pings(
    events: AsyncIterator[SseEvent], ping: float, until: asyncio.Event
) -> AsyncGenerator[bytes]:
    waiting: asyncio.Task[SseEvent | None] | None = None
    over = asyncio.create_task(until.wait())
    try:
        while True:
            waiting = waiting or asyncio.create_task(_next_event(events))
            # Not `wait_for`, which would cancel the iterator on a timeout.
            await asyncio.wait({waiting, over}, timeout=ping, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                if over.done():
                    return
                yield PING
                continue
            event, waiting = waiting.result(), None
            if event is None:
                return
            yield event.encode()
    finally:
        over.cancel()
        if waiting is not None:
            waiting.cancel()
            await asyncio.wait({waiting})


async def _next_event(events: AsyncIterator[SseEvent]) -> SseEvent | None:
    return await anext(events, None)
