"""From what went wrong between us and a provider to what a caller must handle. No key is ever in it."""

import json
import re
import time
from collections.abc import Mapping, Sequence
from typing import TypeAlias, cast

import httpx2

from openskills.agent.retrying import AttemptFailed, retry_after
from openskills.errors import InvalidArgument, ModelUnavailable, SkillError, Unauthorized
from openskills.prompt.messages import get, items, string

GARBLED = (json.JSONDecodeError, UnicodeDecodeError)
"""What reading an answer raises that is no answer."""

_LONGEST = 500
_KEY = re.compile(r"\b(?:sk|pk|rk|key)-[\w*.-]{6,}")
_HIDDEN = "[key]"
_PASSING = frozenset({408, 409, 429})
_KINDS = {
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


class Provider:
    """Who is asked: `name` of the model, `host` it is at, and `secrets` that never appear in what we say."""

    def __init__(self, name: str, host: str, secrets: Sequence[str]) -> None:
        self.name = name
        self.host = host
        self._secrets = tuple(secret for secret in secrets if secret)

    def failure(self, error: Exception) -> AttemptFailed:
        """What an error of the official clients, of HTTP, of the clock or of the answer's form means."""
        # Both official clients have errors of the same shape, in classes of their own.
        response: object = getattr(error, "response", None)
        body: object = getattr(error, "body", None)
        if isinstance(response, httpx2.Response) or body is not None:
            return self._told(response, body, str(error))
        cause = error.__cause__ or error
        if isinstance(cause, httpx2.ConnectTimeout | httpx2.PoolTimeout):
            return self._unreachable("it does not take the connection in time")
        if isinstance(cause, httpx2.TimeoutException | TimeoutError):
            return self.cut("it sent nothing for too long")
        if isinstance(cause, httpx2.ConnectError | httpx2.UnsupportedProtocol | OSError):
            return self._unreachable(self.clean(str(cause)) or type(cause).__name__)
        if isinstance(cause, GARBLED):
            return self.cut("it sent what is no event of an answer")
        return self.cut(self.clean(str(cause)) or type(cause).__name__)

    def complaint(self, body: object) -> AttemptFailed:
        """An error that was sent in place of an answer, as if all were well."""
        return self._told(None, body, "")

    def cut(self, why: str) -> AttemptFailed:
        """An answer that did not come to its end."""
        return AttemptFailed(ModelUnavailable(f"{self.name}: no whole answer from {self.host}: {why}"), again=True)

    def no_stream(self, content_type: str) -> AttemptFailed:
        """Something else than a model has answered."""
        shown = self.clean(content_type)[:80] or "something without a type"
        return AttemptFailed(
            ModelUnavailable(f"{self.name}: {self.host} answered with {shown} and no events; is the base URL right?")
        )

    def clean(self, text: str) -> str:
        """A text of theirs on one line, not too long, without keys."""
        for secret in self._secrets:
            text = text.replace(secret, _HIDDEN)
        shown = " ".join(_KEY.sub(_HIDDEN, text).split())
        return shown.rstrip(" .") if len(shown) <= _LONGEST else f"{shown[:_LONGEST]} ..."

    def _unreachable(self, why: str) -> AttemptFailed:
        return AttemptFailed(ModelUnavailable(f"{self.name}: {self.host} cannot be reached: {why}"), again=True)

    def _told(self, response: object, body: object, otherwise: str) -> AttemptFailed:
        answered = response.status_code if isinstance(response, httpx2.Response) else 0
        headers: _Headers = response.headers if isinstance(response, httpx2.Response) else {}
        # An error may also come as an event of an answer that began well.
        status = answered if answered >= 400 else _status_of(body)
        said = self.clean(message_of(body) or otherwise)
        failure = _error(f"{self.name}: {said}", status, said)
        again = isinstance(failure, ModelUnavailable) and _may_pass(status, body, headers)
        raw = response.text if isinstance(response, httpx2.Response) and answered >= 400 else ""
        return AttemptFailed(failure, again=again, after=retry_after(headers, time.time()), said=raw)


def message_of(body: object) -> str:
    """The sentence in the body of an error, in any of the shapes that servers give it."""
    if isinstance(body, str):
        return body
    if isinstance(body, list | tuple):
        return "; ".join(filter(None, map(message_of, cast("Sequence[object]", body))))
    place = ".".join(str(part) for part in items(get(body, "loc")))
    for name in ("message", "error", "detail", "msg"):
        found = message_of(get(body, name)) if get(body, name) is not None else ""
        if found:
            return f"{place}: {found}" if place else found
    return ""


def _status_of(body: object) -> int:
    """The status that an error would have had, had it come instead of the answer; 0 when it does not say."""
    inner = get(body, "error") or body
    for value in (get(inner, "code"), get(inner, "status"), get(inner, "type")):
        if isinstance(value, int) or (isinstance(value, str) and value.isdecimal() and len(value) == 3):
            return int(value)
        if isinstance(value, str) and value in _KINDS:
            return _KINDS[value]
    return 0


def _error(message: str, status: int, said: str) -> SkillError:
    if status in {401, 403}:
        why = "the key was refused" if status == 401 else "not allowed"
        return Unauthorized(f"{message} ({why}, {status})", status=status)
    if 400 <= status < 500 and status not in _PASSING and status != 402:
        return InvalidArgument("model", f"{message} (refused, {status})")
    shown = f"{message} ({status})" if status else message
    return ModelUnavailable(shown, status=status, said=said)


def _may_pass(status: int, body: object, headers: _Headers) -> bool:
    if headers.get("x-should-retry") == "false" or status == 402:
        return False
    inner = get(body, "error") or body
    # Told with 429 like a rate limit, but no waiting helps.
    return "insufficient_quota" not in (string(inner, "code"), string(inner, "type"))
