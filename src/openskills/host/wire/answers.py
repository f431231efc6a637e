"""What goes back over HTTP: a Normalized Skill Result as bytes, with its status and headers. Pure."""

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from openskills.errors import BadSkillOutput
from openskills.host.result import Failure, InvokeResult, failed, normalised, ok
from openskills.host.wire.trace_ids import Trace
from openskills.version import __version__

Headers = list[tuple[bytes, bytes]]

JSON = (b"content-type", b"application/json")
_CHALLENGE = (b"www-authenticate", b"Bearer")


class Answer(NamedTuple):
    """An answer that is complete."""

    status: int
    headers: Headers
    body: bytes


def wire_form(result: InvokeResult) -> tuple[InvokeResult, bytes]:
    """A result and its JSON. Data that are no JSON make it a failure."""
    plain = result.plain()
    try:
        return result, orjson.dumps(plain)
    except TypeError:
        body = _slowly(plain)
    if body is not None:
        return result, body
    result = _unspeakable(result)
    return result, orjson.dumps(result.plain())


def answer_of(result: InvokeResult, body: bytes, trace: Trace) -> Answer:
    """The answer that a result is."""
    return Answer(status_of(result), headers_for(trace, body, result.outcome.failure), body)


def status_of(result: InvokeResult) -> int:
    """The HTTP status of a result. A code that is none of an error is that of an internal error."""
    status = result.status
    return status if status == 200 or 400 <= status <= 599 else 500


def headers_for(trace: Trace, body: bytes, failure: Failure | None = None) -> Headers:
    """The headers of an answer in JSON."""
    headers = [JSON, (b"content-length", b"%d" % len(body)), *trace_headers(trace)]
    if failure is not None:
        if failure.retry_after is not None:
            headers.append((b"retry-after", b"%d" % max(math.ceil(failure.retry_after), 1)))
        if failure.code == 401:
            headers.append(_CHALLENGE)
    return headers


def trace_headers(trace: Trace) -> Headers:
    """What tells a caller under which id its request is known."""
    return [(b"x-trace-id", trace.id.encode("ascii")), (b"traceparent", trace.here.encode("ascii"))]


def refusal(failure: Failure, trace: Trace, *, skill_id: str = "", latency_ms: float = 0.0) -> Answer:
    """The answer to a request that reached no skill."""
    result = normalised(
        failed(failure), skill_id=skill_id, trace_id=trace.id, latency_ms=latency_ms, version=__version__
    )
    return answer_of(*wire_form(result), trace)


def document(
    value: Mapping[str, Any], trace: Trace, *, skill_id: str = "", status: int = 200, latency_ms: float = 0.0
) -> Answer:
    """Something that is there to be read, as the data of a result that succeeded."""
    result = normalised(ok(value), skill_id=skill_id, trace_id=trace.id, latency_ms=latency_ms, version=__version__)
    body = orjson.dumps(result.plain())
    return Answer(status, headers_for(trace, body), body)


def _slowly(plain: Mapping[str, Any]) -> bytes | None:
    # orjson has no integers beyond 64 bits, and rightly no half characters.
    try:
        text = json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode()
    except (TypeError, ValueError, RecursionError):
        return None


def _unspeakable(result: InvokeResult) -> InvokeResult:
    error = BadSkillOutput("the skill answered with data that cannot be written as JSON")
    return normalised(
        failed(error),
        skill_id=result.skill_id.encode("ascii", "replace").decode(),
        trace_id=result.trace_id,
        latency_ms=result.latency_ms,
        version=result.version.encode("ascii", "replace").decode(),
    )
