"""HTTP transport of the client: request building, retries, server-sent events and strict parsing of results.

Paths always start with a slash: `echo:invoke` alone would be a URL with the scheme `echo`.
"""

import asyncio
import json
import math
import os
import random
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, Generic, TypeVar, cast
from urllib.parse import quote, urlsplit

import httpx2

from openskills.agent.models.http import RetryPolicy, parse_retry_after
from openskills.arguments import check_arguments
from openskills.concurrency import LoopLocal
from openskills.errors import (
    BadSkillOutput,
    DeadlineExceeded,
    HostUnavailable,
    InvalidArgument,
    LimitExceeded,
    SkillError,
    shorten,
)
from openskills.host.model import Failure, InvokeResult, Outcome, failure_outcome, normalize_outcome, success_outcome
from openskills.skillkit.entry import InvalidJson, parse_json
from openskills.version import __version__

_MAX_ID_LENGTH = 200
_VISIBLE = re.compile(r"[\x21-\x7e]{1,4096}")


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """One request. A `repeatable` one may safely be sent twice."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    content: bytes | None = None
    repeatable: bool = False


def parse_base_url(url: str, *, name: str) -> str:
    """The URL of a host without a trailing slash; `name` is used in errors.

    Raises `InvalidArgument` for an invalid URL, and for one with a password, query or fragment.
    """
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError:
        raise InvalidArgument(name, "not a URL; use one such as http://127.0.0.1:8000") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0 or not url.strip().isprintable():
        raise InvalidArgument(name, f"{url!r} is not a URL of a host; use one such as http://127.0.0.1:8000")
    if parts.username is not None or parts.password is not None:
        raise InvalidArgument(name, "must not contain a user or password; set OPENSKILL_API_KEY instead")
    if parts.query or parts.fragment:
        raise InvalidArgument(name, f"{url!r} must not have a query or fragment; use one such as http://127.0.0.1:8000")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def is_local_url(url: str) -> bool:
    """Whether a URL has a loopback host."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def skill_path(skill_id: str, verb: str = "") -> str:
    """`/skills/ID`, or `/skills/ID:verb`. Raises `InvalidArgument` for an invalid id."""
    return f"/skills/{_quote_segment(skill_id, 'skill_id')}" + (f":{verb}" if verb else "")


def run_path(run_id: str, rest: str = "") -> str:
    """`/runs/ID`, followed by `:cancel` or `/events`. Raises `InvalidArgument` for an invalid id."""
    return f"/runs/{_quote_segment(run_id, 'run_id')}{rest}"


def _quote_segment(text: str, name: str) -> str:
    if not text or len(text) > _MAX_ID_LENGTH or not text.isprintable() or "/" in text or text.strip(".") == "":
        raise InvalidArgument(name, f"invalid id {text[:_MAX_ID_LENGTH]!r}; ids look like file_search")
    return quote(text, safe="")


def is_sendable(text: str, max_length: int) -> bool:
    """Whether a text is a valid header value: visible ASCII of at most this length."""
    return _VISIBLE.fullmatch(text) is not None and len(text) <= max_length


def check_header_value(text: str, *, name: str, max_length: int = 255) -> str:
    """Return a valid header value; raises `InvalidArgument` for others."""
    if not is_sendable(text, max_length):
        message = f"invalid value {text[:_MAX_ID_LENGTH]!r}: use up to {max_length} visible ASCII characters"
        raise InvalidArgument(name, message)
    return text


def bearer_header(api_key: str) -> str:
    """The `Authorization` header of a key. Raises `InvalidArgument`, without quoting the key."""
    if not _VISIBLE.fullmatch(api_key):
        raise InvalidArgument("api_key", "contains invalid characters; create a key with `openskills keys new`")
    return f"Bearer {api_key}"


def encode_body(input: Mapping[str, Any]) -> bytes:  # noqa: A002 - the protocol calls it that
    """The body of an invocation. Raises `InvalidArgument` if the input cannot be encoded as JSON."""
    if not isinstance(input, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without a type checker
        raise InvalidArgument("input", f"expected an object such as {{'text': 'hi'}}, got {type(input).__name__}")
    try:
        return json.dumps({"input": dict(input)}, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        raise InvalidArgument("input", "contains a lone surrogate") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument("input", f"cannot be encoded as JSON: {error}") from None


DEFAULT_RETRIES = RetryPolicy(attempts=4, pause=0.1, longest_pause=5.0, longest_retry_after=30.0)
"""Covers the restart of a host, without a long wait if there is none."""
_BUSY = frozenset({429, 503})
_GATEWAY = frozenset({502, 504})


def pause_after_failure(retries: RetryPolicy, tried: int, chance: float, *, repeatable: bool) -> float | None:
    """The pause after a request without a complete response; None if it was the last, or must not be repeated."""
    return retries.compute_pause(tried, chance) if repeatable and tried < retries.attempts else None


def pause_after_response(
    retries: RetryPolicy, tried: int, chance: float, status: int, headers: Mapping[str, str], *, repeatable: bool
) -> float | None:
    """The pause after a response; None if it is final.

    A busy host (429, 503) has done nothing and sends `Retry-After`. 409 means that the request with the same
    idempotency key is still running. 502 and 504 of a gateway are retried; from the host, in JSON, they are the result
    of the skill.
    """
    asked = _read_retry_after(headers)
    if tried >= retries.attempts or (asked is not None and asked > retries.longest_retry_after):
        return None
    pause = retries.compute_pause(tried, chance)
    if status in _BUSY or (status == 409 and repeatable):
        # With jitter, because others were told the same time.
        return asked + pause if asked is not None else None
    if status in _GATEWAY and repeatable and not is_json_response(headers):
        return (asked or 0.0) + pause
    return None


def is_json_response(headers: Mapping[str, str]) -> bool:
    """Whether a response has a JSON content type."""
    return headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"


def _read_retry_after(headers: Mapping[str, str]) -> float | None:
    # A date can only be compared with the clock of the server.
    is_date = "," in headers.get("retry-after", "")
    return parse_retry_after(headers, 0.0) if "date" in headers or not is_date else None


T = TypeVar("T")

_MAX_REDIRECTS = 3


@check_arguments
@dataclass(frozen=True, slots=True)
class ClientLimits:
    """Bytes of a response, seconds to connect, seconds of silence in a stream (hosts ping every 15), and retries."""

    answer_bytes: int = 32 * 1024 * 1024
    connect: float = 5.0
    silence: float = 60.0
    retries: RetryPolicy = DEFAULT_RETRIES


@dataclass(frozen=True, slots=True)
class ClientResponse(Generic[T]):
    """A response with its body, as bytes or as an iterator. Header names are lower case; closing twice is harmless."""

    status: int
    headers: Mapping[str, str]
    body: T
    close: Callable[[], Awaitable[None]]


class ClientTransport:
    """Connections to one host, for any number of event loops. Raises only `SkillError`s.

    `named` is the setting of the URL, for messages.
    """

    def __init__(self, base: str, headers: Mapping[str, str], limits: ClientLimits, *, named: str) -> None:
        self.base = base
        self._headers = {"User-Agent": f"openskills/{__version__}", "Accept-Encoding": "identity", **headers}
        self.limits = limits
        self._named = named
        self._clients = LoopLocal(self._get_client)

    async def fetch(self, ask: ClientRequest, deadline: float | None) -> ClientResponse[bytes]:
        """Send a request and read the whole response by the deadline, a time of the loop.

        Raises `HostUnavailable`, `DeadlineExceeded`, and `LimitExceeded` for a response that is too large.
        """

        async def attempt() -> ClientResponse[bytes]:
            answer = await self._send(ask)
            try:
                return ClientResponse(answer.status, answer.headers, await self.read_all(answer.body), answer.close)
            finally:
                await answer.close()

        async with self._enforce_deadline(deadline):
            return await self._retry(attempt, ask, deadline)

    @asynccontextmanager
    async def open_stream(
        self, ask: ClientRequest, deadline: float | None
    ) -> AsyncGenerator[ClientResponse[AsyncIterator[bytes]]]:
        """Send a request and stream the response while the block runs.

        The iterator raises `HostUnavailable` for a broken connection, and `DeadlineExceeded` after a long silence.
        """
        async with self._enforce_deadline(deadline):
            answer = await self._retry(lambda: self._send(ask), ask, deadline)
        try:
            async with aclosing(self._read_pieces(answer.body, deadline)) as pieces:
                yield ClientResponse(answer.status, answer.headers, pieces, answer.close)
        finally:
            await answer.close()

    async def read_all(self, pieces: AsyncIterator[bytes]) -> bytes:
        """Read a whole body. Raises `LimitExceeded`."""
        body, limit = bytearray(), self.limits.answer_bytes
        async for piece in pieces:
            body += piece
            if len(body) > limit:
                raise LimitExceeded(f"the response of {self.base} is larger than {limit:,} bytes", limit=limit)
        return bytes(body)

    async def close(self) -> None:
        """Close the connections of the running event loop."""
        client = await self._clients.pop()
        if client is not None:
            await client.aclose()

    async def _get_client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            headers=self._headers,
            # Our deadlines bound a whole call; these would bound single steps.
            timeout=httpx2.Timeout(None, connect=self.limits.connect),
            # Shorter than the keep-alive of servers, to avoid connections that are being closed.
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=32, keepalive_expiry=2.0),
            # Proxies do not apply to this machine.
            trust_env=not is_local_url(self.base),
        )

    async def _retry(
        self, attempt: Callable[[], Awaitable[ClientResponse[T]]], ask: ClientRequest, deadline: float | None
    ) -> ClientResponse[T]:
        retries, repeatable, tried = self.limits.retries, ask.repeatable, 0
        while True:
            tried += 1
            chance = random.random()  # noqa: S311 - it spreads load and guards nothing
            try:
                answer = await attempt()
            except httpx2.TransportError as error:
                is_unsent = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
                pause = pause_after_failure(retries, tried, chance, repeatable=is_unsent or repeatable)
                if pause is None or not _is_before_deadline(pause, deadline):
                    failure = self._unreachable_error(error, tried) if is_unsent else self._connection_error(error)
                    raise failure from None
            else:
                pause = pause_after_response(
                    retries, tried, chance, answer.status, answer.headers, repeatable=repeatable
                )
                if pause is None or not _is_before_deadline(pause, deadline):
                    return answer
                await answer.close()
            await asyncio.sleep(pause)

    async def _send(self, ask: ClientRequest) -> ClientResponse[AsyncIterator[bytes]]:
        """One attempt, up to the headers. Redirects are followed within the host only."""
        client = await self._clients.get()
        request = client.build_request(ask.method, self.base + ask.path, headers=ask.headers, content=ask.content)
        for _ in range(_MAX_REDIRECTS + 1):
            response = await client.send(request, stream=True)
            following = response.next_request
            if following is None:
                headers = {name.lower(): value for name, value in response.headers.items()}
                packed = headers.get("content-encoding", "identity").strip().lower()[:50]
                if packed not in ("", "identity"):
                    await response.aclose()
                    raise BadSkillOutput(f"the host sent a compressed response ({packed!r})")
                return ClientResponse(response.status_code, headers, response.aiter_raw(), response.aclose)
            await response.aclose()
            self._check_redirect(request, following)
            request = following
        raise HostUnavailable(f"{self.base} redirects more than {_MAX_REDIRECTS} times; check {self._named}")

    def _check_redirect(self, request: httpx2.Request, following: httpx2.Request) -> None:
        here, there = (str(one.url.copy_with(raw_path=b"/", fragment=None)).rstrip("/") for one in (request, following))
        if here != there:
            raise HostUnavailable(f"{self.base} redirects to {there}, another host; set {self._named} to its URL")
        if request.method != following.method:
            raise HostUnavailable(
                f"{self.base} redirects an invocation to a page; set {self._named} to the host itself"
            )

    async def _read_pieces(self, pieces: AsyncIterator[bytes], deadline: float | None) -> AsyncGenerator[bytes]:
        loop = asyncio.get_running_loop()
        while True:
            silent = loop.time() + self.limits.silence
            try:
                async with self._enforce_deadline(silent if deadline is None else min(deadline, silent)):
                    piece = await anext(pieces, None)
            except httpx2.TransportError as error:
                raise self._connection_error(error) from None
            if piece is None:
                return
            yield piece

    @asynccontextmanager
    async def _enforce_deadline(self, deadline: float | None) -> AsyncGenerator[None]:
        try:
            async with asyncio.timeout_at(deadline):
                yield
        except TimeoutError:
            message = f"{self.base} timed out; use a longer timeout, or check what the skill does"
            raise DeadlineExceeded(message) from None

    def _unreachable_error(self, error: httpx2.TransportError, tried: int) -> HostUnavailable:
        message = (
            f"cannot connect to a skill host at {self.base} ({_error_message(error)}); start one with "
            f"`openskills serve`, or set {self._named} to the URL of another"
        )
        return HostUnavailable(message, url=self.base, attempts=tried)

    def _connection_error(self, error: httpx2.TransportError) -> HostUnavailable:
        message = f"{self.base} closed the connection before the response was complete ({_error_message(error)})"
        return HostUnavailable(f"{message}; the skill may have run", url=self.base)


def _is_before_deadline(pause: float, deadline: float | None) -> bool:
    return deadline is None or asyncio.get_running_loop().time() + pause < deadline


def _error_message(error: httpx2.TransportError) -> str:
    # The error of the system, if there is one, is more helpful than that of the library.
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno:
            # Name resolution has negative numbers and its own messages.
            return os.strerror(cause.errno) if cause.errno > 0 else str(cause.strerror)
        cause = cause.__cause__ or cause.__context__
    return str(error) or type(error).__name__


MAX_EVENT_BYTES = 8 * 1024 * 1024
"""Size of one event; results may have some megabytes."""
_LINE_END = re.compile(rb"\r\n|\n|\r")
_FIELDS = frozenset({"event", "data", "id", "retry"})
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """A server-sent event. A client can resume after `id`."""

    kind: str
    data: str
    id: str | None = None


@dataclass(slots=True)
class EventReader:
    """Incremental, strict parser of server-sent events. `last_id` is the last id so far.

    Raises `LimitExceeded` for an event that is too large, and `BadSkillOutput` for invalid UTF-8 and unknown fields.
    """

    max_bytes: int = MAX_EVENT_BYTES
    last_id: str | None = None
    _rest: bytearray = field(default_factory=bytearray)
    _seen: int = 0
    """How much of `_rest` has no line end."""
    _kind: str = ""
    _lines: list[str] = field(default_factory=list[str])
    _size: int = 0
    _begun: bool = False

    def feed(self, data: bytes) -> Iterator[ServerEvent]:
        """The events that are complete now. Exhaust the iterator before the next call."""
        self._rest += data
        if not self._begun:
            if len(self._rest) < len(_BOM) and _BOM.startswith(self._rest):
                return
            self._begun = True
            if self._rest.startswith(_BOM):
                del self._rest[: len(_BOM)]
        for line in self._take_lines():
            event = self._parse_line(line)
            if event is not None:
                yield event
        self._check_size(len(self._rest))

    def _take_lines(self) -> Iterator[bytes]:
        start = 0
        while end := _LINE_END.search(self._rest, max(start, self._seen)):
            # A carriage return at the end may be the first half of a CRLF.
            if end.group() == b"\r" and end.end() == len(self._rest):
                break
            yield bytes(self._rest[start : end.start()])
            start = end.end()
            self._seen = start
        del self._rest[:start]
        self._seen = len(self._rest) - 1 if self._rest.endswith(b"\r") else len(self._rest)

    def _parse_line(self, line: bytes) -> ServerEvent | None:
        if not line:
            return self._build_event()
        if line.startswith(b":"):
            return None
        self._size += len(line)
        self._check_size(0)
        name, value = _split_field(line)
        if name == "data":
            self._lines.append(value)
        elif name == "event":
            self._kind = value
        elif name == "id" and "\0" not in value:
            self.last_id = value
        return None

    def _build_event(self) -> ServerEvent | None:
        kind, lines = self._kind or "message", self._lines
        self._kind, self._lines, self._size = "", [], 0
        # By the specification, an event needs data.
        return ServerEvent(kind, "\n".join(lines), self.last_id) if lines else None

    def _check_size(self, more: int) -> None:
        if self._size + more > self.max_bytes:
            raise LimitExceeded(f"an event of the stream is larger than {self.max_bytes:,} bytes", limit=self.max_bytes)


def _split_field(line: bytes) -> tuple[str, str]:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        raise _parse_error(line, "a line is not UTF-8") from None
    name, _, value = text.partition(":")
    if name not in _FIELDS:
        raise _parse_error(line, "unknown field")
    return name, value.removeprefix(" ")


def _parse_error(line: bytes, why: str) -> BadSkillOutput:
    shown = line[:200].decode("utf-8", "replace")
    return BadSkillOutput(f"invalid event stream from the host: {why}", excerpt=shown)


MAX_EXCERPT = 500
"""Characters of a response that errors quote."""


class InvalidResult(ValueError):
    """Not a valid Normalized Skill Result; the message says why."""


class SkillFailed(SkillError):
    """A failed invocation, raised by `unwrap`, with its `result`."""

    code = 502
    reason = "SKILL_FAILED"

    def __init__(self, result: InvokeResult, failure: Failure) -> None:
        details = {**failure.details, "code": failure.code}
        super().__init__(f"{result.skill_id}: {failure.message}", **details)
        self.result = result
        self.failure = failure


def unwrap(result: InvokeResult) -> Mapping[str, Any]:
    """The data of a successful result; raises `SkillFailed` otherwise."""
    failure = result.outcome.failure
    if failure is not None:
        raise SkillFailed(result, failure)
    return result.outcome.data or {}


def result_from_dict(value: object, *, retry_after: float | None = None) -> InvokeResult:
    found = check_object(value, "the response")
    for name in ("success", "skill_id", "trace_id", "data", "error"):
        if name not in found:
            raise InvalidResult(f"{name!r} is missing")
    meta = check_object(found.get("meta") or {}, "meta")
    return normalize_outcome(
        _parse_outcome(found, meta, retry_after),
        skill_id=_read_text(found, "skill_id"),
        trace_id=_read_text(found, "trace_id"),
        latency_ms=_parse_duration(meta, "latency_ms") or 0.0,
        version="",
        waited_ms=_parse_duration(meta, "waited_ms"),
        ran_ms=_parse_duration(meta, "ran_ms"),
    )


def read_result(answer: ClientResponse[bytes]) -> InvokeResult:
    """The result in a response, with its `Retry-After`. Raises `BadSkillOutput` with the status and an excerpt."""
    status = answer.status
    try:
        found = result_from_dict(read_json(answer.body), retry_after=_read_retry_after(answer.headers))
        if not found.success or status // 100 == 2:
            return found
        fault = "success is true, but the HTTP status is an error"
    except InvalidResult as why:
        fault = str(why)
    message = f"the response of the host ({status}) is not a Normalized Skill Result: {fault}"
    raise BadSkillOutput(message, status=status, excerpt=excerpt(answer.body))


def read_json(body: bytes | str) -> object:
    """Parse strict JSON: no duplicate keys, no NaN, bounded depth. Raises `InvalidResult`."""
    try:
        return parse_json(body.decode("utf-8") if isinstance(body, bytes) else body)
    except UnicodeDecodeError:
        raise InvalidResult("not UTF-8") from None
    except InvalidJson as error:
        raise InvalidResult(f"not valid JSON ({error})") from None


def check_object(value: object, what: str) -> Mapping[str, Any]:
    """Return a value that is a JSON object; raises `InvalidResult` for others."""
    if not isinstance(value, Mapping):
        raise InvalidResult(f"{what} is not an object")
    return cast("Mapping[str, Any]", value)


def excerpt(body: bytes) -> str:
    return shorten(body[: MAX_EXCERPT * 4].decode("utf-8", "replace"), MAX_EXCERPT)


def _parse_outcome(found: Mapping[str, Any], meta: Mapping[str, Any], retry_after: float | None) -> Outcome:
    version = meta.get("version")
    if version is not None and not isinstance(version, str):
        raise InvalidResult("meta.version is not a string")
    truncated = meta.get("truncated", False)
    if not isinstance(truncated, bool):
        raise InvalidResult("meta.truncated is not a boolean")
    ours = {"latency_ms", "waited_ms", "ran_ms", "version", "truncated"}
    notes = {name: value for name, value in meta.items() if name not in ours}
    success = found["success"]
    if not isinstance(success, bool):
        raise InvalidResult("'success' is not a boolean")
    if success:
        if found["error"] is not None:
            raise InvalidResult("it has both success and an error")
        data = check_object({} if found["data"] is None else found["data"], "'data'")
        return success_outcome(data, truncated=truncated, version=version, notes=notes)
    if found["data"] is not None:
        raise InvalidResult("it has data although it failed")
    return failure_outcome(
        _parse_failure(check_object(found["error"], "'error'"), retry_after), version=version, notes=notes
    )


def _parse_failure(error: Mapping[str, Any], retry_after: float | None) -> Failure:
    code = error.get("code")
    if isinstance(code, bool) or not isinstance(code, int):
        raise InvalidResult("error.code is not an integer")
    details = error.get("details")
    evidence: Mapping[str, Any] = {} if details is None else check_object(details, "error.details")
    return Failure(code, _read_text(error, "message"), evidence, retry_after)


def _parse_duration(meta: Mapping[str, Any], name: str) -> float | None:
    value = meta.get(name)
    if value is None and name not in meta:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise InvalidResult(f"meta.{name} is not a valid duration")
    return float(value)


def _read_text(found: Mapping[str, Any], name: str) -> str:
    value = found.get(name)
    if not isinstance(value, str):
        raise InvalidResult(f"{name!r} is not a string")
    return value
