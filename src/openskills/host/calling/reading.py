"""A Normalized Skill Result as it comes over the wire, read strictly. Pure."""

import json
import math
from collections.abc import Mapping
from typing import Any, NoReturn, cast

from openskills.errors import BadSkillOutput, SkillError
from openskills.host.result import Failure, InvokeResult, Outcome, failed, normalised, ok

LONGEST_EXCERPT = 500
"""Characters of an answer that an error repeats."""


class NotNormalised(ValueError):
    """Why something is no Normalized Skill Result."""


class SkillFailed(SkillError):
    """An invocation that did not succeed, raised by `unwrap`; `result` has everything that is known of it."""

    code = 502
    reason = "SKILL_FAILED"

    def __init__(self, result: InvokeResult, failure: Failure) -> None:
        details = {**failure.details, "code": failure.code}
        super().__init__(f"{result.skill_id}: {failure.message}", **details)
        self.result = result
        self.failure = failure


def unwrap(result: InvokeResult) -> Mapping[str, Any]:
    """The data of a skill that succeeded; raises `SkillFailed` otherwise."""
    failure = result.outcome.failure
    if failure is not None:
        raise SkillFailed(result, failure)
    return result.outcome.data or {}


def from_plain(value: object, *, retry_after: float | None = None) -> InvokeResult:
    """The result that `InvokeResult.plain` has written. Raises `NotNormalised` with the first thing that is wrong."""
    found = object_of(value, "the answer")
    for name in ("success", "skill_id", "trace_id", "data", "error"):
        if name not in found:
            raise NotNormalised(f"{name!r} is missing")
    meta = object_of(found.get("meta") or {}, "meta")
    return normalised(
        _outcome(found, meta, retry_after),
        skill_id=_text(found, "skill_id"),
        trace_id=_text(found, "trace_id"),
        latency_ms=_latency(meta.get("latency_ms", 0)),
        version="",
    )


def read_result(body: bytes, *, status: int = 200, retry_after: float | None = None) -> InvokeResult:
    """The result in the body of an answer with this HTTP status.

    Raises `BadSkillOutput`, with an excerpt of what came instead and the status.
    """
    try:
        found = from_plain(read_json(body), retry_after=retry_after)
        _check_status(found, status)
    except NotNormalised as why:
        message = f"the host answered {status} with something that is no Normalized Skill Result: {why}"
        raise BadSkillOutput(message, status=status, excerpt=excerpt(body)) from None
    return found


def read_json(body: bytes | str) -> object:
    """A value of strict JSON: no name twice, no NaN, bounded depth. Raises `NotNormalised`."""
    try:
        text = body.decode("utf-8") if isinstance(body, bytes) else body
        return json.loads(text, object_pairs_hook=_object, parse_constant=_refuse)
    except UnicodeDecodeError:
        raise NotNormalised("it is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise NotNormalised(f"it is not JSON ({error.msg} at character {error.pos:,})") from None
    except NotNormalised:
        raise
    except ValueError:
        # Python reads no number of more than some thousand digits.
        raise NotNormalised("it has a number that is too long") from None
    except RecursionError:
        raise NotNormalised("it is nested too deeply") from None


def object_of(value: object, what: str) -> Mapping[str, Any]:
    """A value that has to be an object of JSON. Raises `NotNormalised`."""
    if not isinstance(value, Mapping):
        raise NotNormalised(f"{what} is no object")
    return cast("Mapping[str, Any]", value)


def excerpt(body: bytes) -> str:
    """The beginning of an answer, as text."""
    text = body[: LONGEST_EXCERPT * 4].decode("utf-8", "replace")
    return text if len(text) <= LONGEST_EXCERPT else f"{text[:LONGEST_EXCERPT]}…"


def _check_status(found: InvokeResult, status: int) -> None:
    if found.success and not 200 <= status < 300:
        raise NotNormalised("it says success, and the HTTP status does not")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise NotNormalised("an object has the same name twice")
    return found


def _refuse(word: str) -> NoReturn:
    raise NotNormalised(f"{word} is no number of JSON")


def _outcome(found: Mapping[str, Any], meta: Mapping[str, Any], retry_after: float | None) -> Outcome:
    version = meta.get("version")
    if version is not None and not isinstance(version, str):
        raise NotNormalised("meta.version is no text")
    truncated = meta.get("truncated", False)
    if not isinstance(truncated, bool):
        raise NotNormalised("meta.truncated is neither true nor false")
    notes = {name: value for name, value in meta.items() if name not in {"latency_ms", "version", "truncated"}}
    success = found["success"]
    if not isinstance(success, bool):
        raise NotNormalised("'success' is neither true nor false")
    if success:
        if found["error"] is not None:
            raise NotNormalised("it has success and an error")
        data = object_of({} if found["data"] is None else found["data"], "'data'")
        return ok(data, truncated=truncated, version=version, notes=notes)
    if found["data"] is not None:
        raise NotNormalised("it has data without success")
    return failed(_failure(object_of(found["error"], "'error'"), retry_after), version=version, notes=notes)


def _failure(error: Mapping[str, Any], retry_after: float | None) -> Failure:
    code = error.get("code")
    if isinstance(code, bool) or not isinstance(code, int):
        raise NotNormalised("error.code is no whole number")
    details = error.get("details")
    return Failure(
        code, _text(error, "message"), {} if details is None else object_of(details, "error.details"), retry_after
    )


def _latency(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise NotNormalised("meta.latency_ms is no length of time")
    return float(value)


def _text(found: Mapping[str, Any], name: str) -> str:
    value = found.get(name)
    if not isinstance(value, str):
        raise NotNormalised(f"{name!r} is no text")
    return value
