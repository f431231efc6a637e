"""Request, response, body, presence, SSE.

HTTP as bytes: strict reading, answers that are always results, connections that cannot starve others.

The trace id of a request, the caller's or a new one, and the W3C `traceparent` that goes with it.

What a caller sends stands in headers, logs and files later on. So it is printable ASCII and short, or it is refused.

What goes back over HTTP: a Normalized Skill Result as bytes, with its status and headers. Pure.

One HTTP request and its answer, on the bare protocol of the server: what every route shares.

What goes wrong before a skill is reached: no such address, a wrong method, a body too large or too slow. Pure.

The body of a request: never more of it than is wanted, and never for longer than it may take.

Whether the caller is still there: who hangs up ends the work that was done for nobody else.

Most calls are over before anybody could hang up. Looking costs a task, so it begins only after a moment.

Server-sent events as an answer: events as they happen, a comment when nothing does.
"""

import asyncio
import json
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

import orjson

from openskills.errors import BadSkillOutput, InvalidArgument, UnsupportedMedia
from openskills.host.model import Failure, InvokeResult, failure_outcome, normalize_outcome, success_outcome
from openskills.version import __version__

MAX_TRACE_ID_LENGTH = 128
TRACE_ID_HEADER = "X-Trace-Id"

_PRINTABLE = re.compile(rb"[\x20-\x7e]{1,%d}" % MAX_TRACE_ID_LENGTH)
_TRACE_ID = re.compile(r"(?!0{32})[0-9a-f]{32}")
_TRACEPARENT = re.compile(rb"(?!ff)([0-9a-f]{2})-((?!0{32})[0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-([0-9a-f]{2})(-.*)?")
_RANDOM = random.Random()  # noqa: S311 - seeded by the system once


class Trace(NamedTuple):
    """What ties together everything that happens for one request.

    `parent` is the caller's `traceparent` when it sent a good one; `here` is ours, for whoever we call and for the
    answer.
    """

    id: str
    here: str
    parent: str | None = None


def random_hex(size: int) -> str:
    """Random bytes as hex digits. They are for telling things apart, not for keeping them secret."""
    # Asking the system would cost more than all the rest of what is done here for a request.
    return f"{_RANDOM.getrandbits(8 * size):0{2 * size}x}"


def new_trace() -> Trace:
    """A new one."""
    dice = random_hex(24)
    return Trace(dice[:32], f"00-{dice[:32]}-{dice[32:]}-01")


def parse_trace(trace_id: bytes | None, traceparent: bytes | None) -> Trace:
    """The trace of a request with these headers. Raises `InvalidArgument` for a trace id that cannot be used.

    A `traceparent` that is not well-formed is as good as none, as its specification says.
    """
    known = _TRACEPARENT.fullmatch(traceparent) if traceparent else None
    # Only a version of the future may have more fields.
    if known is not None and known[1] == b"00" and known[4]:
        known = None
    if not trace_id and known is None:
        return new_trace()
    if trace_id and not _PRINTABLE.fullmatch(trace_id):
        raise InvalidArgument(
            TRACE_ID_HEADER,
            f"must be printable ASCII of at most {MAX_TRACE_ID_LENGTH} characters; leave it out for a new one",
        )
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
    """An answer that is complete."""

    status: int
    headers: Headers
    body: bytes


def encode_result(result: InvokeResult) -> tuple[InvokeResult, bytes]:
    """A result and its JSON. Data that are no JSON make it a failure."""
    plain = result.to_dict()
    try:
        return result, orjson.dumps(plain)
    except TypeError:
        body = _encode_with_json(plain)
    if body is not None:
        return result, body
    result = _to_encoding_failure(result)
    return result, orjson.dumps(result.to_dict())


def response_from_result(result: InvokeResult, body: bytes, trace: Trace) -> HttpResponse:
    """The answer that a result is."""
    return HttpResponse(http_status(result), build_headers(trace, body, result.outcome.failure), body)


def http_status(result: InvokeResult) -> int:
    """The HTTP status of a result. A code that is none of an error is that of an internal error."""
    status = result.status
    return status if status == 200 or 400 <= status <= 599 else 500


def build_headers(trace: Trace, body: bytes, failure: Failure | None = None) -> Headers:
    """The headers of an answer in JSON."""
    headers = [JSON_CONTENT_TYPE, (b"content-length", b"%d" % len(body)), *trace_headers(trace)]
    if failure is not None:
        if failure.retry_after is not None:
            headers.append((b"retry-after", b"%d" % max(math.ceil(failure.retry_after), 1)))
        if failure.code == 401:
            headers.append(_CHALLENGE)
    return headers


def trace_headers(trace: Trace) -> Headers:
    """What tells a caller under which id its request is known."""
    return [(b"x-trace-id", trace.id.encode("ascii")), (b"traceparent", trace.here.encode("ascii"))]


def build_refusal(failure: Failure, trace: Trace, *, skill_id: str = "", latency_ms: float = 0.0) -> HttpResponse:
    """The answer to a request that reached no skill."""
    result = normalize_outcome(
        failure_outcome(failure), skill_id=skill_id, trace_id=trace.id, latency_ms=latency_ms, version=__version__
    )
    return response_from_result(*encode_result(result), trace)


def build_document(
    value: Mapping[str, Any], trace: Trace, *, skill_id: str = "", status: int = 200, latency_ms: float = 0.0
) -> HttpResponse:
    """Something that is there to be read, as the data of a result that succeeded."""
    result = normalize_outcome(
        success_outcome(value), skill_id=skill_id, trace_id=trace.id, latency_ms=latency_ms, version=__version__
    )
    body = orjson.dumps(result.to_dict())
    return HttpResponse(status, build_headers(trace, body), body)


def _encode_with_json(plain: Mapping[str, Any]) -> bytes | None:
    # orjson has no integers beyond 64 bits, and rightly no half characters.
    try:
        text = json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode()
    except (TypeError, ValueError, RecursionError):
        return None


def _to_encoding_failure(result: InvokeResult) -> InvokeResult:
    error = BadSkillOutput("the skill answered with data that cannot be written as JSON")
    return normalize_outcome(
        failure_outcome(error),
        skill_id=result.skill_id.encode("ascii", "replace").decode(),
        trace_id=result.trace_id,
        latency_ms=result.latency_ms,
        version=result.version.encode("ascii", "replace").decode(),
    )


Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_SINGLE_HEADERS = frozenset({b"x-trace-id", b"authorization", b"content-type", b"host", b"idempotency-key"})
"""Headers that mean nothing when they say two things."""


class HttpExchange:
    """A request. `hostile` is what is wrong with its trace id, which is a new one then, or with its other headers."""

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
        if (
            len(self.headers) != len(scope["headers"])
            and (name := _find_conflicting_header(scope["headers"])) is not None
        ):
            self.trace, self.hostile = new_trace(), InvalidArgument(name, "is there twice, with different values")

    @property
    def method(self) -> str:
        """`GET`, `POST` and so on."""
        return self.scope["method"]

    @property
    def path(self) -> str:
        """Below where the application is mounted."""
        path, root = self.scope["path"], self.scope.get("root_path") or ""
        return path[len(root) :] if root and path.startswith(root) else path

    @property
    def latency_ms(self) -> float:
        """Since the request came."""
        return (time.perf_counter() - self.began) * 1000

    def header(self, name: bytes) -> str | None:
        """A header as text; its name in lower case."""
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")

    async def send_response(self, answer: HttpResponse, *, close: bool = False) -> None:
        """Send the whole answer."""
        self.answered = True
        headers = [*answer.headers, (b"connection", b"close")] if close else answer.headers
        await self.send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await self.send({"type": "http.response.body", "body": answer.body})


def _find_conflicting_header(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """The header that may be there once and says two things."""
    seen: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in _SINGLE_HEADERS and seen.setdefault(name, value) != value:
            return name.decode("ascii").title()
    return None


MAX_PATH_LENGTH = 100
DRAIN_RETRY_AFTER = 5
"""After how long a caller may try again when a host is about to end: by then another has its place."""


class HttpRefusal(Exception):
    """A request that is answered with this failure. `close` ends the connection; `allow` are the methods to use."""

    def __init__(self, failure: Failure, *, close: bool = False, allow: tuple[str, ...] = ()) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.close = close
        self.allow = allow


def unknown_address(path: str) -> Failure:
    """Nothing is at this path."""
    said = f"nothing is at {_excerpt(path)}; GET /skills lists the skills, GET /docs the addresses"
    return _build_failure(404, "UNKNOWN_ADDRESS", said)


def unknown_action(verb: str, known: Sequence[str]) -> Failure:
    """A skill or a run cannot do this."""
    return _build_failure(404, "UNKNOWN_VERB", f"there is no verb {_excerpt(verb)}; use {' or '.join(known)}")


def wrong_method(method: str, allowed: Sequence[str]) -> Failure:
    """The address is right, the method is not."""
    return _build_failure(
        405, "METHOD_NOT_ALLOWED", f"{_excerpt(method)} is not possible here; use {', '.join(allowed)}"
    )


def body_too_large(size: int | None, most: int) -> Failure:
    """A body of more bytes than are taken; `size` is None for one that did not say how large it is."""
    found = f"has {size:,} bytes" if size is not None else "is longer"
    return _build_failure(413, "LIMIT_EXCEEDED", f"the body {found}; {most:,} bytes are the most", limit=most)


def body_too_slow(seconds: float) -> Failure:
    """A body that did not come in time."""
    return _build_failure(408, "REQUEST_TIMEOUT", f"the body did not arrive within {seconds:g} seconds", retryable=True)


def bad_length(value: str) -> Failure:
    """A Content-Length that is no number."""
    return _build_failure(400, "INVALID_ARGUMENT", f"Content-Length: {_excerpt(value)} is no number of bytes")


def invalid_request(message: str) -> Failure:
    """Bytes that are no request."""
    return _build_failure(400, "INVALID_ARGUMENT", f"this is no HTTP/1.1: {message}")


def head_too_large(most: int) -> Failure:
    """Headers without end."""
    return _build_failure(431, "LIMIT_EXCEEDED", f"the headers are longer than {most:,} bytes", limit=most)


def head_too_slow(seconds: float) -> Failure:
    """A request that does not begin."""
    said = f"the headers did not arrive within {seconds:g} seconds"
    return _build_failure(408, "REQUEST_TIMEOUT", said, retryable=True)


def host_draining() -> Failure:
    """The host is about to end and begins nothing new."""
    said = "this host is about to end; call again in some seconds"
    return _build_failure(503, "DRAINING", said, retryable=True, after=DRAIN_RETRY_AFTER)


def host_starting() -> Failure:
    """The host has not begun yet."""
    return _build_failure(503, "STARTING", "this host is starting; call again in a second", retryable=True, after=1)


def wrong_host(host: str) -> Failure:
    """A request for another name than that of this machine, as a web page sends it that had its name point here."""
    said = f"this host serves this machine only, without keys, so not as {_excerpt(host)}; use 127.0.0.1 or a key"
    return _build_failure(421, "MISDIRECTED", said)


def internal_error(trace_id: str) -> Failure:
    """A fault of ours; what it was is in the log only."""
    return _build_failure(500, "INTERNAL", f"internal error; the log of the host has it under the trace id {trace_id}")


def framework_error(status: int, message: str) -> Failure:
    """Whatever else the framework refuses."""
    return _build_failure(status, "HTTP_ERROR", message[:300])


def _build_failure(
    code: int,
    reason: str,
    message: str,
    *,
    retryable: bool = False,
    after: float | None = None,
    limit: int | None = None,
) -> Failure:
    details: dict[str, object] = {"reason": reason, "retryable": retryable}
    if limit is not None:
        details["limit"] = limit
    return Failure(code, message, details, after)


def _excerpt(text: str) -> str:
    return repr(text if len(text) <= MAX_PATH_LENGTH else f"{text[:MAX_PATH_LENGTH]}…")


BODY_TIMEOUT = 10.0
"""How long a body may take to arrive."""


class ClientDisconnect(Exception):
    """Who called has hung up; nobody waits for an answer."""


async def read_body(exchange: HttpExchange, most: int, *, seconds: float = BODY_TIMEOUT) -> bytes:
    """The whole body. One that says it is too large is refused before any of it is read.

    Raises `Refused` for one that is too large or too slow, `UnsupportedMedia`, `ClientDisconnect` when the
    caller hangs up.
    """
    _check_encoding(exchange.headers.get(b"content-encoding"))
    _check_length(exchange.headers.get(b"content-length"), most)
    try:
        async with asyncio.timeout(seconds):
            message = await exchange.receive()
            if message["type"] == "http.request" and not message.get("more_body", False):
                body: bytes = message.get("body", b"")
                if len(body) > most:
                    raise HttpRefusal(body_too_large(len(body), most))
                return body
            return await _read_chunks(exchange, message, most)
    except TimeoutError:
        # What is still to come of this request cannot be told from the next one.
        raise HttpRefusal(body_too_slow(seconds), close=True) from None


async def _read_chunks(exchange: HttpExchange, message: Message, most: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while message["type"] == "http.request":
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > most:
            raise HttpRefusal(body_too_large(None, most))
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)
        message = await exchange.receive()
    raise ClientDisconnect


def _check_encoding(encoding: bytes | None) -> None:
    # Unpacked, a small body may be a very large one.
    if encoding is not None and encoding.strip().lower() not in {b"", b"identity"}:
        found = encoding.decode("latin-1")[:100]
        raise UnsupportedMedia(f"the content encoding is {found!r}; send the body as it is, without Content-Encoding")


def _check_length(length: bytes | None, most: int) -> None:
    if length is None:
        return
    if not length.isdigit():
        raise HttpRefusal(bad_length(length.decode("latin-1")), close=True)
    # A number of thousands of digits is large, whatever it is.
    size = int(length) if len(length) < 19 else None
    if size is None or size > most:
        raise HttpRefusal(body_too_large(size, most))


T = TypeVar("T")

DISCONNECT_CHECK_DELAY = 0.05
"""Seconds without a look."""


async def cancel_on_disconnect(receive: Receive, work: Awaitable[T]) -> T:
    """The result of the work. When the caller hangs up, it is cancelled and `ClientDisconnect` is raised."""
    return await _DisconnectMonitor(receive).run(work)


class _DisconnectMonitor:
    """One caller. The body of its request has been read, so the next message can only be that it is gone."""

    __slots__ = ("_gone", "_look", "_receive", "_worker")

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._gone = False
        self._look: asyncio.Task[None] | None = None
        self._worker: asyncio.Task[object] | None = None

    async def run(self, work: Awaitable[T]) -> T:
        self._worker = asyncio.current_task()
        timer = asyncio.get_running_loop().call_later(DISCONNECT_CHECK_DELAY, self._start)
        try:
            return await work
        except asyncio.CancelledError:
            if self._gone and self._worker is not None and self._worker.uncancel() == 0:
                raise ClientDisconnect from None
            raise
        finally:
            timer.cancel()
            if self._look is not None:
                self._look.cancel()

    def _start(self) -> None:
        self._look = asyncio.get_running_loop().create_task(self._wait_for_disconnect())

    async def _wait_for_disconnect(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            # A server that says other things all the time must not get all the time for it.
            await asyncio.sleep(DISCONNECT_CHECK_DELAY)
        self._gone = True
        if self._worker is not None:
            self._worker.cancel()


PING_SECONDS = 15.0
PING = b": ping\n\n"

_SSE_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),
    # Proxies that collect answers before they pass them on would hold events back.
    (b"x-accel-buffering", b"no"),
]


class SseEvent(NamedTuple):
    """One event. `data` is JSON already, or a value of it; `id` is where one may go on after it."""

    kind: str
    data: Mapping[str, Any] | bytes
    id: str | None = None

    def encode(self) -> bytes:
        """As it goes over the wire. JSON has no line breaks of its own."""
        data = self.data if isinstance(self.data, bytes) else orjson.dumps(self.data, default=str)
        first = b"" if self.id is None else b"id: %s\n" % self.id.encode()
        return b"%sevent: %s\ndata: %s\n\n" % (first, self.kind.encode(), data)


async def send_events(
    exchange: HttpExchange,
    events: AsyncIterator[SseEvent],
    *,
    ping: float = PING_SECONDS,
    until: asyncio.Event | None = None,
) -> None:
    """Send events until there are no more; when none comes for a while, a comment that keeps the connection open.

    `until` ends the answer earlier: the host is about to end.
    """
    exchange.answered = True
    headers = [*_SSE_HEADERS, *trace_headers(exchange.trace)]
    await exchange.send({"type": "http.response.start", "status": 200, "headers": headers})
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
            # Not `wait_for`: that would end the iterator together with the wait.
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
