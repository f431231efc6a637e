"""What goes wrong before a skill is reached: no such address, a wrong method, a body too large or too slow. Pure."""

from collections.abc import Sequence

from openskills.host.result import Failure

LONGEST_PATH = 100
DRAINING_SECONDS = 5
"""After how long a caller may try again when a host is about to end: by then another has its place."""


class Refused(Exception):
    """A request that is answered with this failure. `close` ends the connection; `allow` are the methods to use."""

    def __init__(self, failure: Failure, *, close: bool = False, allow: tuple[str, ...] = ()) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.close = close
        self.allow = allow


def unknown_address(path: str) -> Failure:
    """Nothing is at this path."""
    said = f"nothing is at {_shown(path)}; GET /skills lists the skills, GET /docs the addresses"
    return _failure(404, "UNKNOWN_ADDRESS", said)


def unknown_verb(verb: str, known: Sequence[str]) -> Failure:
    """A skill or a run cannot do this."""
    return _failure(404, "UNKNOWN_VERB", f"there is no verb {_shown(verb)}; use {' or '.join(known)}")


def wrong_method(method: str, allowed: Sequence[str]) -> Failure:
    """The address is right, the method is not."""
    return _failure(405, "METHOD_NOT_ALLOWED", f"{_shown(method)} is not possible here; use {', '.join(allowed)}")


def body_too_large(size: int | None, most: int) -> Failure:
    """A body of more bytes than are taken; `size` is None for one that did not say how large it is."""
    found = f"has {size:,} bytes" if size is not None else "is longer"
    return _failure(413, "LIMIT_EXCEEDED", f"the body {found}; {most:,} bytes are the most", limit=most)


def body_too_slow(seconds: float) -> Failure:
    """A body that did not come in time."""
    return _failure(408, "REQUEST_TIMEOUT", f"the body did not arrive within {seconds:g} seconds", retryable=True)


def bad_length(value: str) -> Failure:
    """A Content-Length that is no number."""
    return _failure(400, "INVALID_ARGUMENT", f"Content-Length: {_shown(value)} is no number of bytes")


def no_http(message: str) -> Failure:
    """Bytes that are no request."""
    return _failure(400, "INVALID_ARGUMENT", f"this is no HTTP/1.1: {message}")


def head_too_large(most: int) -> Failure:
    """Headers without end."""
    return _failure(431, "LIMIT_EXCEEDED", f"the headers are longer than {most:,} bytes", limit=most)


def head_too_slow(seconds: float) -> Failure:
    """A request that does not begin."""
    said = f"the headers did not arrive within {seconds:g} seconds"
    return _failure(408, "REQUEST_TIMEOUT", said, retryable=True)


def draining() -> Failure:
    """The host is about to end and begins nothing new."""
    said = "this host is about to end; call again in some seconds"
    return _failure(503, "DRAINING", said, retryable=True, after=DRAINING_SECONDS)


def starting() -> Failure:
    """The host has not begun yet."""
    return _failure(503, "STARTING", "this host is starting; call again in a second", retryable=True, after=1)


def misdirected(host: str) -> Failure:
    """A request for another name than that of this machine, as a web page sends it that had its name point here."""
    said = f"this host serves this machine only, without keys, so not as {_shown(host)}; use 127.0.0.1 or a key"
    return _failure(421, "MISDIRECTED", said)


def internal(trace_id: str) -> Failure:
    """A fault of ours; what it was is in the log only."""
    return _failure(500, "INTERNAL", f"internal error; the log of the host has it under the trace id {trace_id}")


def other(status: int, message: str) -> Failure:
    """Whatever else the framework refuses."""
    return _failure(status, "HTTP_ERROR", message[:300])


def _failure(
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


def _shown(text: str) -> str:
    return repr(text if len(text) <= LONGEST_PATH else f"{text[:LONGEST_PATH]}…")
