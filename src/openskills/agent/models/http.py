"""Requests, failures, pacing, retries.

Asking again when an attempt came to nothing. What a caller has seen is never said twice.

From what went wrong between us and a provider to what a caller must handle. No key is ever in it.

How long an answer may keep us waiting.

One request through an official client, and the events of its answer as plain JSON values.

Where a provider is, and with what we come in; checked before anything is sent. Pure.

Text that arrives in pieces, given on in whole characters.
"""

import asyncio
import json
import logging
import math
import random
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeAlias, cast

import anyio
import httpx2

from openskills.agent.models.model import ModelEvent
from openskills.errors import InvalidArgument, ModelUnavailable, SkillError, Unauthorized
from openskills.prompt.history import get_field, get_items, get_string
from openskills.telemetry.metrics import count

_LOG = logging.getLogger("openskills")

Attempt: TypeAlias = Callable[[], AsyncGenerator[ModelEvent]]
"""Asks once, from the beginning; raises `AttemptError`."""

Wait: TypeAlias = Callable[[float], Awaitable[None]]


class AttemptError(Exception):
    """One attempt came to nothing: what to tell the caller, whether another may do better, and after how long.

    `again` is only said of a `ModelUnavailable`. `after` is what the server asked for, in seconds. `said` is the whole
    text of a refusal, for those who can tell from it what to leave out; it is shown to nobody.
    """

    def __init__(self, error: SkillError, *, again: bool = False, after: float | None = None, said: str = "") -> None:
        super().__init__(error.message)
        self.error = error
        self.can_retry = again
        self.retry_after = after
        self.response_text = said


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a request is tried, and how many seconds pass in between.

    The pauses double from `pause` to `longest_pause`, and each is shortened by chance, by up to a half: many who failed
    together should not come back together. A server that says when to come back (`Retry-After`) is obeyed up to
    `longest_retry_after`; one that asks for more is not asked again.
    """

    attempts: int = 4
    pause: float = 1.0
    longest_pause: float = 30.0
    longest_retry_after: float = 60.0

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise InvalidArgument("retries.attempts", "is less than 1")

    def compute_pause(self, tried: int, chance: float) -> float:
        """The pause after so many attempts; `chance` is a number from 0 to 1."""
        # Beyond this power everything is longer than any longest pause, and large powers overflow.
        full = min(self.longest_pause, self.pause * 2 ** min(tried - 1, 32))
        return full * (1 - chance / 2)


class Retrier:
    """Makes attempts until one succeeds. `wait` and `chance` are there for tests."""

    def __init__(
        self,
        policy: RetryPolicy | None = None,
        *,
        wait: Wait = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._policy = policy or RetryPolicy()
        self._wait = wait
        self._chance = chance

    async def stream(self, attempt: Attempt, name: str = "the model") -> AsyncGenerator[ModelEvent]:
        """The events of the first attempt that succeeds.

        Raises the error of an attempt that no other can mend, and `ModelUnavailable` after the last one, when the
        server wants us to stay away for longer than we would, and when an answer broke off that had begun to arrive.
        """
        tried = 0
        while True:
            tried += 1
            begun = False
            try:
                async with aclosing(attempt()) as events:
                    async for event in events:
                        begun = True
                        yield event
            except AttemptError as failure:
                pause = self._choose_pause(failure, tried, begun=begun)
                why = failure.error.details.get("status") or "no whole answer"
            else:
                return
            count("openskills.model.retries", model=name)
            # What the provider said stays out: it may repeat what it was asked.
            _LOG.warning("%s: attempt %d came to nothing (%s); again in %.1f seconds", name, tried, why, pause)
            await self._wait(pause)

    def _choose_pause(self, failure: AttemptError, tried: int, *, begun: bool) -> float:
        policy = self._policy
        if not failure.can_retry:
            raise failure.error from None
        if begun:
            raise _build_final_error(failure, tried, "the answer broke off in the middle") from None
        if failure.retry_after is not None and failure.retry_after > policy.longest_retry_after:
            raise _build_final_error(failure, tried, f"it asks to wait for {failure.retry_after:.0f} seconds") from None
        if tried >= policy.attempts:
            times = "once" if tried == 1 else f"{tried} times"
            raise _build_final_error(failure, tried, f"tried {times}") from None
        if failure.retry_after is not None:
            return failure.retry_after
        return policy.compute_pause(tried, self._chance())


def parse_retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """The seconds that a server asks us to wait; None when it does not say, or says nothing that can be read.

    `headers` are looked up in lower case. A date is compared with the server's own clock when it sends its time, and
    with `now` otherwise.
    """
    exact = _parse_number(headers.get("retry-after-ms"))
    if exact is not None:
        return exact / 1000
    said = headers.get("retry-after")
    seconds = _parse_number(said)
    if seconds is not None or said is None:
        return seconds
    then, there = _parse_date(said), _parse_date(headers.get("date"))
    return None if then is None else max(0.0, then - (now if there is None else there))


def _parse_number(text: str | None) -> float | None:
    try:
        found = float(text or "")
    except ValueError:
        return None
    return max(0.0, found) if math.isfinite(found) else None


def _parse_date(text: str | None) -> float | None:
    try:
        found: datetime = parsedate_to_datetime(text or "")
    except (ValueError, OverflowError):
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _build_final_error(failure: AttemptError, tried: int, why: str) -> ModelUnavailable:
    details = {**failure.error.details, "attempts": tried}
    if failure.retry_after is not None:
        details["retry_after"] = failure.retry_after
    return ModelUnavailable(f"{failure.error.message}; {why}", **details)


DECODE_ERRORS = (json.JSONDecodeError, UnicodeDecodeError)
"""What reading an answer raises that is no answer."""

_MAX_MESSAGE_CHARS = 500
_KEY = re.compile(r"\b(?:sk|pk|rk|key)-[\w*.-]{6,}")
_HIDDEN = "[key]"
_TRANSIENT_STATUSES = frozenset({408, 409, 429})
_STATUS_BY_KIND = {
    "authentication_error": 401,
    "permission_error": 403,
    "billing_error": 402,
    "insufficient_quota": 402,
    "invalid_request_error": 400,
    "context_length_exceeded": 400,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "overloaded_error": 529,
    "timeout_error": 504,
}
_Headers: TypeAlias = Mapping[str, str]


class ModelProvider:
    """Who is asked: `name` of the model, `host` it is at, and `secrets` that never appear in what we say."""

    def __init__(self, name: str, host: str, secrets: Sequence[str]) -> None:
        self.name = name
        self.host = host
        self._secrets = tuple(secret for secret in secrets if secret)

    def error_from_exception(self, error: Exception) -> AttemptError:
        """What an error of the official clients, of HTTP, of the clock or of the answer's form means."""
        # Both official clients have errors of the same shape, in classes of their own.
        response: object = getattr(error, "response", None)
        body: object = getattr(error, "body", None)
        if isinstance(response, httpx2.Response) or body is not None:
            return self._error_from_response(response, body, str(error))
        cause = error.__cause__ or error
        if isinstance(cause, httpx2.ConnectTimeout | httpx2.PoolTimeout):
            return self._connection_error("it does not take the connection in time")
        if isinstance(cause, httpx2.TimeoutException | TimeoutError):
            return self.incomplete_error("it sent nothing for too long")
        if isinstance(cause, httpx2.ConnectError | httpx2.UnsupportedProtocol | OSError):
            return self._connection_error(self.clean(str(cause)) or type(cause).__name__)
        if isinstance(cause, DECODE_ERRORS):
            return self.incomplete_error("it sent what is no event of an answer")
        return self.incomplete_error(self.clean(str(cause)) or type(cause).__name__)

    def error_from_body(self, body: object) -> AttemptError:
        """An error that was sent in place of an answer, as if all were well."""
        return self._error_from_response(None, body, "")

    def incomplete_error(self, why: str) -> AttemptError:
        """An answer that did not come to its end."""
        return AttemptError(ModelUnavailable(f"{self.name}: no whole answer from {self.host}: {why}"), again=True)

    def content_type_error(self, content_type: str) -> AttemptError:
        """Something else than a model has answered."""
        shown = self.clean(content_type)[:80] or "something without a type"
        return AttemptError(
            ModelUnavailable(f"{self.name}: {self.host} answered with {shown} and no events; is the base URL right?")
        )

    def clean(self, text: str) -> str:
        """A text of theirs on one line, not too long, without keys."""
        for secret in self._secrets:
            text = text.replace(secret, _HIDDEN)
        shown = " ".join(_KEY.sub(_HIDDEN, text).split())
        return shown.rstrip(" .") if len(shown) <= _MAX_MESSAGE_CHARS else f"{shown[:_MAX_MESSAGE_CHARS]} ..."

    def _connection_error(self, why: str) -> AttemptError:
        return AttemptError(ModelUnavailable(f"{self.name}: {self.host} cannot be reached: {why}"), again=True)

    def _error_from_response(self, response: object, body: object, otherwise: str) -> AttemptError:
        answered = response.status_code if isinstance(response, httpx2.Response) else 0
        headers: _Headers = response.headers if isinstance(response, httpx2.Response) else {}
        # An error may also come as an event of an answer that began well.
        status = answered if answered >= 400 else _find_status(body)
        said = self.clean(extract_message(body) or otherwise)
        failure = _build_error(f"{self.name}: {said}", status, said)
        again = isinstance(failure, ModelUnavailable) and _is_transient(status, body, headers)
        raw = response.text if isinstance(response, httpx2.Response) and answered >= 400 else ""
        return AttemptError(failure, again=again, after=parse_retry_after(headers, time.time()), said=raw)


def extract_message(body: object) -> str:
    """The sentence in the body of an error, in any of the shapes that servers give it."""
    if isinstance(body, str):
        return body
    if isinstance(body, list | tuple):
        return "; ".join(filter(None, map(extract_message, cast("Sequence[object]", body))))
    place = ".".join(str(part) for part in get_items(get_field(body, "loc")))
    for name in ("message", "error", "detail", "msg"):
        found = extract_message(get_field(body, name)) if get_field(body, name) is not None else ""
        if found:
            return f"{place}: {found}" if place else found
    return ""


def _find_status(body: object) -> int:
    """The status that an error would have had, had it come instead of the answer; 0 when it does not say."""
    inner = get_field(body, "error") or body
    for value in (get_field(inner, "code"), get_field(inner, "status"), get_field(inner, "type")):
        if isinstance(value, int) or (isinstance(value, str) and value.isdecimal() and len(value) == 3):
            return int(value)
        if isinstance(value, str) and value in _STATUS_BY_KIND:
            return _STATUS_BY_KIND[value]
    return 0


def _build_error(message: str, status: int, said: str) -> SkillError:
    if status in {401, 403}:
        why = "the key was refused" if status == 401 else "not allowed"
        return Unauthorized(f"{message} ({why}, {status})", status=status)
    if 400 <= status < 500 and status not in _TRANSIENT_STATUSES and status != 402:
        return InvalidArgument("model", f"{message} (refused, {status})")
    shown = f"{message} ({status})" if status else message
    return ModelUnavailable(shown, status=status, said=said)


def _is_transient(status: int, body: object, headers: _Headers) -> bool:
    if headers.get("x-should-retry") == "false" or status == 402:
        return False
    inner = get_field(body, "error") or body
    # Told with 429 like a rate limit, but no waiting helps.
    return "insufficient_quota" not in (get_string(inner, "code"), get_string(inner, "type"))


_DONE_MARKER = b"[DONE]"
_TAIL = 64
MAX_RESPONSE_BYTES = 256 * 1024 * 1024
"""Of one answer. The longest that models give today take a fifth of it, with everything around each word."""


@dataclass(frozen=True, slots=True)
class ModelTimeouts:
    """Seconds: to connect, until the first byte of the answer comes (from the beginning of the request on), and
    between one piece of it and the next. Signs of life that some servers send while a model thinks are pieces, too.
    """

    connect: float = 10.0
    first: float = 300.0
    between: float = 120.0

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) > 0:
                raise InvalidArgument(f"limits.{field.name}", "is not more than 0")

    def to_httpx_timeout(self) -> httpx2.Timeout:
        """What the HTTP client watches over. `DeadlineByteStream` bounds the waiting for the answer more exactly."""
        longest = max(self.first, self.between)
        return httpx2.Timeout(longest, connect=self.connect, pool=self.connect)


class DeadlineByteStream(httpx2.AsyncByteStream):
    """The bytes of an answer; raises `httpx2.ReadTimeout` when they keep us waiting, `ReadError` when they do not end.

    The first must have come by `deadline`, in the time of the event loop. `has_done_marker` tells whether the last
    were the `[DONE]` with which some protocols end.
    """

    def __init__(
        self, source: httpx2.AsyncByteStream, limits: ModelTimeouts, deadline: float, most: int = MAX_RESPONSE_BYTES
    ) -> None:
        self._source = source
        self._limits = limits
        self._first = deadline
        self._pieces: AsyncIterator[bytes] | None = None
        self._tail = b""
        self._left = most

    @property
    def has_done_marker(self) -> bool:
        """Whether the server said that this was all."""
        return _DONE_MARKER in self._tail

    def __aiter__(self) -> "DeadlineByteStream":
        return self

    async def __anext__(self) -> bytes:
        # A reader who takes his time is no silence of the server: it is counted from when he asks.
        deadline = self._first if self._pieces is None else asyncio.get_running_loop().time() + self._limits.between
        self._pieces = self._pieces or aiter(self._source)
        try:
            async with asyncio.timeout_at(deadline):
                piece = await anext(self._pieces)
        except TimeoutError:
            raise httpx2.ReadTimeout("nothing came for too long") from None
        self._tail = (self._tail + piece)[-_TAIL:]
        self._left -= len(piece)
        if self._left < 0:
            raise httpx2.ReadError("the answer does not end")
        return piece

    async def aclose(self) -> None:
        """Give up the rest."""
        await self._source.aclose()


_STREAMS = ("text/event-stream", "text/plain", "application/octet-stream", "")
_TRANSPORT_ERRORS = (httpx2.HTTPError, httpx2.StreamError, anyio.EndOfStream, OSError, *DECODE_ERRORS)
"""What passes through the official clients as it is, in one of them or in both; a timeout is an `OSError`."""


@dataclass(frozen=True, slots=True)
class ResponseStream:
    """An answer that is being read: its events, one for an answer that came whole, and the bytes that they are in."""

    events: AsyncIterator[object]
    source: DeadlineByteStream


@asynccontextmanager
async def open_response(
    request: AbstractAsyncContextManager[Any],
    stream: type[Any],
    errors: type[Exception],
    limits: ModelTimeouts,
    provider: ModelProvider,
    is_complete: Callable[[], bool],
) -> AsyncGenerator[ResponseStream]:
    """Send a request that `with_streaming_response` of a client has made, and hear its answer.

    `stream` is the client's `AsyncStream[object]`: events are not made into its types, which trust the server. `errors`
    is the base of the client's errors. What goes wrong is `AttemptError`, also while the block reads; but what goes
    wrong after the answer `is_complete` only ends the block. Leaving it closes the connection, unless the answer was
    read to its end.
    """
    deadline = asyncio.get_running_loop().time() + limits.first
    try:
        async with AsyncExitStack() as opened:
            async with asyncio.timeout_at(deadline):
                response = await opened.enter_async_context(request)
            source = _limit_stream(response.http_response, limits, deadline)
            kind = response.http_response.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind in _STREAMS:
                yield ResponseStream(await response.parse(to=stream), source)
            elif kind == "application/json":
                yield ResponseStream(_iter_body(await response.json(), provider), source)
            else:
                raise provider.content_type_error(kind)
    except (errors, *_TRANSPORT_ERRORS) as error:
        if not is_complete():
            raise provider.error_from_exception(error) from None


def _limit_stream(response: httpx2.Response, limits: ModelTimeouts, deadline: float) -> DeadlineByteStream:
    source = response.stream
    assert isinstance(source, httpx2.AsyncByteStream)  # noqa: S101 - the clients are asynchronous
    response.stream = paced = DeadlineByteStream(source, limits, deadline)
    return paced


async def _iter_body(body: object, provider: ModelProvider) -> AsyncGenerator[object]:
    if get_field(body, "error"):
        raise provider.error_from_body(body)
    yield body


_SECRET = re.compile(r"auth|key|token|secret|cookie", re.IGNORECASE)


def parse_base_url(text: str) -> httpx2.URL:
    """The base URL of a server. Raises `InvalidArgument`; what stands before an `@` in it is not repeated."""
    try:
        url = httpx2.URL(text.strip())
    except httpx2.InvalidURL as error:
        raise InvalidArgument("base_url", f"is no URL: {error}") from None
    if url.scheme not in {"http", "https"} or not url.host:
        shown = text.strip().rpartition("@")[2]
        raise InvalidArgument("base_url", f"{shown!r} does not begin with http:// or https:// and a host")
    return url


def format_host(url: httpx2.URL) -> str:
    """The host of a URL, with its port when it is no usual one; nothing of it is secret."""
    return url.host if url.port is None else f"{url.host}:{url.port}"


def find_secrets(headers: Mapping[str, str]) -> list[str]:
    """Values of headers that by their names are for nobody else's eyes."""
    return [value for name, value in headers.items() if _SECRET.search(name)]


def parse_api_key(text: str | None, variable: str) -> str:
    """The key without blanks around it; empty when there is none. Raises `Unauthorized` for what cannot be a key.

    HTTP could not send such a key, and would complain in words that contain it.
    """
    key = (text or "").strip()
    if not all("!" <= char <= "~" for char in key):
        raise Unauthorized(f"the key ({variable}) has blanks or characters in it that no key has; copy it once more")
    return key


class SurrogateBuffer:
    """Puts pieces together that were cut in the middle of a character.

    JSON may write a character beyond the first 65,536 as two escapes, and servers cut between them. Half of one can
    neither be printed nor stored; a half that stays alone becomes U+FFFD.
    """

    def __init__(self) -> None:
        self._half = ""

    def add(self, piece: str) -> str:
        """What is whole by now."""
        text = self._half + piece
        self._half = text[-1] if text and "\ud800" <= text[-1] <= "\udbff" else ""
        return join_surrogates(text[:-1] if self._half else text)

    def flush(self) -> str:
        """What is left when nothing more comes."""
        text, self._half = self._half, ""
        return join_surrogates(text)


def join_surrogates(text: str) -> str:
    """The text with halves of characters joined, and U+FFFD for those that stand alone."""
    if not any("\ud800" <= char <= "\udfff" for char in text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
