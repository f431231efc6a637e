"""HTTP for model providers: streamed responses with timeouts, retries, and errors without secrets."""

import asyncio
import json
import logging
import math
import random
import re
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, ClassVar, Self, TypeAlias, cast

import anyio
import httpx2

from openskills.agent.models.model import ModelEvent, ModelRequest, TextDelta
from openskills.arguments import check_arguments
from openskills.errors import InvalidArgument, ModelUnavailable, SkillError, Unauthorized
from openskills.prompt.history import get_field, get_items, get_string
from openskills.settings import Settings
from openskills.telemetry.mask import Masker
from openskills.telemetry.metrics import count

_LOG = logging.getLogger("openskills")

Attempt: TypeAlias = Callable[[], AsyncGenerator[ModelEvent]]
"""Makes one request; raises `AttemptError`."""

Wait: TypeAlias = Callable[[float], Awaitable[None]]


class AttemptError(Exception):
    """A failed attempt: the error for the caller, whether to retry, and after how many seconds if the server said so.

    `response_text` is the whole error response, to find out which parameters to leave out; it is never shown.
    """

    def __init__(
        self, error: SkillError, *, can_retry: bool = False, retry_after: float | None = None, response_text: str = ""
    ) -> None:
        super().__init__(error.message)
        self.error = error
        self.can_retry = can_retry
        self.retry_after = retry_after
        self.response_text = response_text


@check_arguments
@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential backoff with jitter: pauses double from `pause` to `longest_pause` seconds, randomly reduced by up to
    half. `Retry-After` is obeyed up to `longest_retry_after`; beyond that, the request fails.
    """

    attempts: int = 4
    pause: float = 1.0
    longest_pause: float = 30.0
    longest_retry_after: float = 60.0

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise InvalidArgument("retries.attempts", "must be at least 1")

    def compute_pause(self, tried: int, chance: float) -> float:
        """The pause after `tried` attempts; `chance` is a random number from 0 to 1."""
        # Larger powers overflow, and exceed any longest pause anyway.
        full = min(self.longest_pause, self.pause * 2 ** min(tried - 1, 32))
        return full * (1 - chance / 2)


@check_arguments
class Retrier:
    """Retries attempts until one succeeds. `wait` and `chance` are parameters for tests."""

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
        """Stream the events of the first attempt that succeeds.

        Raises errors that cannot be retried at once; `ModelUnavailable` after the last attempt, if the server asks to
        wait too long, and if an answer breaks off after its first event.
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
                why = failure.error.details.get("status") or "incomplete response"
            else:
                return
            count("openskills.model.retries", model=name)
            # Without the provider's message, which may repeat the prompt.
            _LOG.warning("%s: attempt %d failed (%s); retrying in %.1f seconds", name, tried, why, pause)
            await self._wait(pause)

    def _choose_pause(self, failure: AttemptError, tried: int, *, begun: bool) -> float:
        policy = self._policy
        if not failure.can_retry:
            raise failure.error from None
        if begun:
            raise _build_final_error(failure, tried, "the response was cut off") from None
        if failure.retry_after is not None and failure.retry_after > policy.longest_retry_after:
            raise _build_final_error(failure, tried, f"it asks to wait {failure.retry_after:.0f} seconds") from None
        if tried >= policy.attempts:
            times = "once" if tried == 1 else f"{tried} times"
            raise _build_final_error(failure, tried, f"tried {times}") from None
        if failure.retry_after is not None:
            return failure.retry_after
        return policy.compute_pause(tried, self._chance())


def parse_retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """The seconds to wait according to `Retry-After`; None if it is missing or invalid.

    `headers` are looked up in lower case. A date is compared with the server's `Date` if there is one, else with `now`.
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

_MAX_MESSAGE_CHARS = 500
_KEY = re.compile(r"\b(?:sk|pk|rk|key)-[\w*.-]{6,}")
_HIDDEN = "[secret key]"
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
    """The provider for error messages: the model's name, its host, and secrets that must not appear in messages."""

    def __init__(self, name: str, host: str, secrets: Sequence[str]) -> None:
        self.name = name
        self.host = host
        self._masker = Masker(("key", secret) for secret in secrets)

    def error_from_exception(self, error: Exception) -> AttemptError:
        """Translate an error of the official clients, of HTTP, a timeout or an invalid response."""
        # The errors of both official clients have the same attributes.
        response: object = getattr(error, "response", None)
        body: object = getattr(error, "body", None)
        if isinstance(response, httpx2.Response) or body is not None:
            return self._error_from_response(response, body, str(error))
        cause = error.__cause__ or error
        if isinstance(cause, httpx2.ConnectTimeout | httpx2.PoolTimeout):
            return self._connection_error("connecting timed out")
        if isinstance(cause, httpx2.TimeoutException | TimeoutError):
            return self.incomplete_error("reading timed out")
        if isinstance(cause, httpx2.ConnectError | httpx2.UnsupportedProtocol | OSError):
            return self._connection_error(self.clean(str(cause)) or type(cause).__name__)
        if isinstance(cause, DECODE_ERRORS):
            return self.incomplete_error("it sent invalid data")
        return self.incomplete_error(self.clean(str(cause)) or type(cause).__name__)

    def error_from_body(self, body: object) -> AttemptError:
        """The error for an error body in a successful response."""
        return self._error_from_response(None, body, "")

    def incomplete_error(self, why: str) -> AttemptError:
        """The error for an incomplete response."""
        message = f"{self.name}: incomplete response from {self.host}: {why}"
        return AttemptError(ModelUnavailable(message), can_retry=True)

    def content_type_error(self, content_type: str) -> AttemptError:
        """The error for a response that is not from a model."""
        shown = self.clean(content_type)[:80] or "no content type"
        return AttemptError(
            ModelUnavailable(f"{self.name}: {self.host} responded with {shown}, expected events; check the base URL")
        )

    def clean(self, text: str) -> str:
        """A message of the provider on one line, shortened, with keys masked."""
        shown = " ".join(_KEY.sub(_HIDDEN, self._masker.mask_text(text)).split())
        return shown.rstrip(" .") if len(shown) <= _MAX_MESSAGE_CHARS else f"{shown[:_MAX_MESSAGE_CHARS]} ..."

    def _connection_error(self, why: str) -> AttemptError:
        return AttemptError(ModelUnavailable(f"{self.name}: cannot connect to {self.host}: {why}"), can_retry=True)

    def _error_from_response(self, response: object, body: object, otherwise: str) -> AttemptError:
        answered = response.status_code if isinstance(response, httpx2.Response) else 0
        headers: _Headers = response.headers if isinstance(response, httpx2.Response) else {}
        # An error may also be an event of a successful response.
        status = answered if answered >= 400 else _find_status(body)
        said = self.clean(extract_message(body) or otherwise)
        failure = _build_error(f"{self.name}: {said}", status, said)
        retry = isinstance(failure, ModelUnavailable) and _is_transient(status, body, headers)
        raw = response.text if isinstance(response, httpx2.Response) and answered >= 400 else ""
        after = parse_retry_after(headers, time.time())
        return AttemptError(failure, can_retry=retry, retry_after=after, response_text=raw)


def extract_message(body: object) -> str:
    """The message in an error body, in any of the shapes that servers use."""
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
    """The HTTP status that matches an error body; 0 if unknown."""
    inner = get_field(body, "error") or body
    for value in (get_field(inner, "code"), get_field(inner, "status"), get_field(inner, "type")):
        if isinstance(value, int) or (isinstance(value, str) and value.isdecimal() and len(value) == 3):
            return int(value)
        if isinstance(value, str) and value in _STATUS_BY_KIND:
            return _STATUS_BY_KIND[value]
    return 0


def _build_error(message: str, status: int, said: str) -> SkillError:
    if status in {401, 403}:
        why = "invalid API key" if status == 401 else "not allowed"
        return Unauthorized(f"{message} ({why}, {status})", status=status)
    if 400 <= status < 500 and status not in _TRANSIENT_STATUSES and status != 402:
        return InvalidArgument("model", f"{message} (refused, {status})")
    shown = f"{message} ({status})" if status else message
    return ModelUnavailable(shown, status=status, said=said)


def _is_transient(status: int, body: object, headers: _Headers) -> bool:
    if headers.get("x-should-retry") == "false" or status == 402:
        return False
    inner = get_field(body, "error") or body
    # Sent with 429 like a rate limit, but retrying does not help.
    return "insufficient_quota" not in (get_string(inner, "code"), get_string(inner, "type"))


_DONE_MARKER = b"[DONE]"
_TAIL = 64
MAX_RESPONSE_BYTES = 256 * 1024 * 1024


@check_arguments
@dataclass(frozen=True, slots=True)
class ModelTimeouts:
    """Timeouts in seconds: to connect, to the first byte of the response, and between two chunks (or keep-alives)."""

    connect: float = 10.0
    first: float = 300.0
    between: float = 120.0

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) > 0:
                raise InvalidArgument(f"limits.{field.name}", "must be above 0")

    def to_httpx_timeout(self) -> httpx2.Timeout:
        """The timeouts of the HTTP client; `DeadlineByteStream` is more exact for the response."""
        longest = max(self.first, self.between)
        return httpx2.Timeout(longest, connect=self.connect, pool=self.connect)


class DeadlineByteStream(httpx2.AsyncByteStream):
    """A response stream that raises `httpx2.ReadTimeout` on timeouts and `ReadError` beyond `max_bytes`.

    The first chunk must arrive by `deadline`, in event loop time.
    """

    def __init__(
        self,
        source: httpx2.AsyncByteStream,
        limits: ModelTimeouts,
        deadline: float,
        max_bytes: int = MAX_RESPONSE_BYTES,
    ) -> None:
        self._source = source
        self._limits = limits
        self._first = deadline
        self._pieces: AsyncIterator[bytes] | None = None
        self._tail = b""
        self._left = max_bytes

    @property
    def has_done_marker(self) -> bool:
        """Whether the last bytes were `[DONE]`."""
        return _DONE_MARKER in self._tail

    def __aiter__(self) -> "DeadlineByteStream":
        return self

    async def __anext__(self) -> bytes:
        # Counted from the read, so that a slow reader does not look like a silent server.
        deadline = self._first if self._pieces is None else asyncio.get_running_loop().time() + self._limits.between
        self._pieces = self._pieces or aiter(self._source)
        try:
            async with asyncio.timeout_at(deadline):
                piece = await anext(self._pieces)
        except TimeoutError:
            raise httpx2.ReadTimeout("reading timed out") from None
        self._tail = (self._tail + piece)[-_TAIL:]
        self._left -= len(piece)
        if self._left < 0:
            raise httpx2.ReadError("the response is too large")
        return piece

    async def aclose(self) -> None:
        """Close the source."""
        await self._source.aclose()


_STREAMS = ("text/event-stream", "text/plain", "application/octet-stream", "")
_TRANSPORT_ERRORS = (httpx2.HTTPError, httpx2.StreamError, anyio.EndOfStream, OSError, *DECODE_ERRORS)
"""Errors that the official clients do not wrap; a timeout is an `OSError`."""


async def _iter_body(body: object, provider: ModelProvider) -> AsyncGenerator[object]:
    if get_field(body, "error"):
        raise provider.error_from_body(body)
    yield body


class ResponseParser(ABC):
    """Assembles a response from its events, tolerating invalid ones.

    `model` is used if the server sends no name.
    """

    def __init__(self, model: str = "") -> None:
        self._model = model
        self._text: list[str] = []
        self._characters = SurrogateBuffer()

    @property
    @abstractmethod
    def is_complete(self) -> bool:
        """Whether the last event has arrived."""

    @abstractmethod
    def _parse_event(self, event: object) -> str:
        """Take an event, or a complete response from a server that does not stream; return its text."""

    def add(self, event: object) -> str:
        """Take the next event; return new text of the answer."""
        return self._append_text(self._characters.add(self._parse_event(event)))

    def flush(self) -> str:
        """Return held-back text at the end."""
        return self._append_text(self._characters.flush())

    def _append_text(self, text: str) -> str:
        self._text.append(text)
        return text


class ClientModel(ABC):
    """What models behind the official clients have in common; implements `Model`.

    Subclasses set `_client`, `_create` (the streaming method of the client), `_events` (its `AsyncStream[object]`),
    `_errors` (its base exception) and `_variables` (of the environment, by parameter).
    """

    _variables: ClassVar[Mapping[str, str]]
    _client: Any
    _create: Any
    _events: type[Any]
    _errors: type[Exception]

    def __init__(
        self,
        name: str,
        url: httpx2.URL,
        secrets: Sequence[str],
        *,
        extra: Mapping[str, Any] | None,
        limits: ModelTimeouts | None,
        retrying: Retrier | None,
    ) -> None:
        self._name = name
        self._model = name.partition("/")[2]
        self._extra = dict(extra or {})
        self._limits = limits or ModelTimeouts()
        self._retrying = retrying or Retrier()
        self._provider = ModelProvider(name, format_host(url), secrets)

    @classmethod
    def from_settings(cls, model: str, settings: Settings, **options: Any) -> Self:
        """A model with the key and the URL of its provider in the environment, unless `options` say otherwise."""
        named = {name: settings.environment.get(variable) for name, variable in cls._variables.items()}
        return cast("Any", cls)(model, **{**named, **options})

    @property
    def name(self) -> str:
        """The name in logs and results."""
        return self._name

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        return self._retrying.stream(lambda: self._attempt(request), self.name)

    async def close(self) -> None:
        """Close its connections."""
        await self._client.close()

    @abstractmethod
    def _attempt(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]: ...

    @asynccontextmanager
    async def open_response(
        self,
        request: AbstractAsyncContextManager[Any],
        is_complete: Callable[[], bool],
        on_send: Callable[[bytes], None] | None = None,
    ) -> AsyncGenerator[tuple[AsyncIterator[object], DeadlineByteStream]]:
        """Send a request made by `with_streaming_response` of the client; yields the events of its response (one if it
        was not streamed), and its byte stream. Events are not parsed into types of the client, which trust the server.

        Failures raise `AttemptError`, also while the block reads, unless the response `is_complete`. Leaving the block
        closes the connection, unless the response was read to its end. `on_send` gets the body of the request when the
        server has answered, also with an error.
        """
        deadline = asyncio.get_running_loop().time() + self._limits.first
        try:
            async with AsyncExitStack() as opened:
                async with asyncio.timeout_at(deadline):
                    response = await opened.enter_async_context(request)
                http: httpx2.Response = response.http_response
                if on_send is not None:
                    on_send(http.request.content)
                assert isinstance(http.stream, httpx2.AsyncByteStream)  # noqa: S101 - the clients are asynchronous
                http.stream = source = DeadlineByteStream(http.stream, self._limits, deadline)
                kind = http.headers.get("content-type", "").partition(";")[0].strip().lower()
                if kind in _STREAMS:
                    yield await response.parse(to=self._events), source
                elif kind == "application/json":
                    yield _iter_body(await response.json(), self._provider), source
                else:
                    raise self._provider.content_type_error(kind)
        except (self._errors, *_TRANSPORT_ERRORS) as error:
            refused: object = getattr(error, "response", None)
            if on_send is not None and isinstance(refused, httpx2.Response):
                on_send(refused.request.content)
            if not is_complete():
                raise self._provider.error_from_exception(error) from None

    async def _stream_text(
        self,
        body: Mapping[str, Any],
        extra: Mapping[str, Any],
        answer: ResponseParser,
        *,
        may_end_early: bool = False,
        on_send: Callable[[bytes], None] | None = None,
    ) -> AsyncGenerator[TextDelta]:
        """Send a request and stream the text of its response. With `may_end_early`, `[DONE]` is a proper end."""
        sent = self._create(**body, extra_body=extra)
        async with self.open_response(sent, lambda: answer.is_complete, on_send) as (events, source):
            async for event in events:
                if text := answer.add(event):
                    yield TextDelta(text)
            if not answer.is_complete and not (may_end_early and source.has_done_marker):
                raise self._provider.incomplete_error("it was cut off")
        if text := answer.flush():
            yield TextDelta(text)


_SECRET = re.compile(r"auth|key|token|secret|cookie", re.IGNORECASE)


def parse_base_url(text: str) -> httpx2.URL:
    """Parse a base URL. Raises `InvalidArgument`, without repeating credentials."""
    try:
        url = httpx2.URL(text.strip())
    except httpx2.InvalidURL as error:
        raise InvalidArgument("base_url", f"not a URL: {error}") from None
    if url.scheme not in {"http", "https"} or not url.host:
        shown = text.strip().rpartition("@")[2]
        raise InvalidArgument("base_url", f"expected http:// or https:// and a host, got {shown!r}")
    return url


def format_host(url: httpx2.URL) -> str:
    """The host of a URL, with its port if it is not the default."""
    return url.host if url.port is None else f"{url.host}:{url.port}"


def find_secrets(headers: Mapping[str, str]) -> list[str]:
    """Values of headers whose names suggest a secret."""
    return [value for name, value in headers.items() if _SECRET.search(name)]


def parse_api_key(text: str | None, variable: str) -> str:
    """Strip an API key; empty if there is none. Raises `Unauthorized` for invalid characters.

    HTTP could not send them, and its error message would contain the key.
    """
    key = (text or "").strip()
    if not all("!" <= char <= "~" for char in key):
        raise Unauthorized(f"the key ({variable}) contains spaces or invalid characters; copy it again")
    return key


class SurrogateBuffer:
    """Joins surrogate pairs that were split between two chunks.

    JSON writes characters beyond U+FFFF as two escapes, and servers split between them. Lone surrogates become U+FFFD.
    """

    def __init__(self) -> None:
        self._half = ""

    def add(self, piece: str) -> str:
        """Return the complete characters so far."""
        text = self._half + piece
        self._half = text[-1] if text and "\ud800" <= text[-1] <= "\udbff" else ""
        return join_surrogates(text[:-1] if self._half else text)

    def flush(self) -> str:
        """Return the rest at the end."""
        text, self._half = self._half, ""
        return join_surrogates(text)


def join_surrogates(text: str) -> str:
    """Join surrogate pairs and replace lone surrogates by U+FFFD."""
    if not any("\ud800" <= char <= "\udfff" for char in text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
