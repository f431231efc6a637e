"""Whether a client may ask the host again, and when. Only what is safe: nothing is ever done twice. Pure."""

from collections.abc import Mapping

from openskills.agent.retrying import Retries, retry_after

FEW = Retries(attempts=4, pause=0.1, longest_pause=5.0, longest_retry_after=30.0)
"""A host that is just restarting is back within a second; somebody without one should not wait long to hear it."""

_BUSY = frozenset({429, 503})
_GATEWAY = frozenset({502, 504})


def again_unsent(retries: Retries, tried: int, chance: float) -> float | None:
    """The pause after a request that never left, because nobody accepted a connection; None when it is enough."""
    return retries.before_next(tried, chance) if tried < retries.attempts else None


def again_unanswered(retries: Retries, tried: int, chance: float, *, repeatable: bool) -> float | None:
    """The pause after a request that may have arrived, and had no whole answer."""
    return again_unsent(retries, tried, chance) if repeatable else None


def again_answered(
    retries: Retries, tried: int, chance: float, status: int, headers: Mapping[str, str], *, repeatable: bool
) -> float | None:
    """The pause after an answer; None when it counts.

    A host that is busy (429, 503) has done nothing, and says when to come back. A conflict with a pause is a request of
    the same idempotency key that still runs. A gateway (502, 504) knows nothing of what happened; when it is the host
    who says that, in JSON, it is the result of the skill, and asking again would give the same.
    """
    asked = _asked(headers)
    if tried >= retries.attempts or (asked is not None and asked > retries.longest_retry_after):
        return None
    pause = retries.before_next(tried, chance)
    if status in _BUSY or (status == 409 and repeatable):
        # Not at the very moment: many were told the same.
        return asked + pause if asked is not None else None
    if status in _GATEWAY and repeatable and not is_json(headers):
        return (asked or 0.0) + pause
    return None


def is_json(headers: Mapping[str, str]) -> bool:
    """Whether an answer says that it is JSON."""
    return headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"


def _asked(headers: Mapping[str, str]) -> float | None:
    # A date can be compared only with the server's own clock: ours may be another.
    is_date = "," in headers.get("retry-after", "")
    return retry_after(headers, 0.0) if "date" in headers or not is_date else None
