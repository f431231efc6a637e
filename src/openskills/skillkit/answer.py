"""What a skill gives back, and the Normalized Skill Result around it. Pure."""

import json
from collections.abc import Mapping
from typing import Any

from openskills.errors import SkillError
from openskills.skillkit.refused import Refused

Plain = dict[str, Any]


class Answer:
    """The `data` of a skill that has more to say: whether something was left out, and notes for `meta`."""

    __slots__ = ("data", "notes", "truncated")

    def __init__(self, data: Mapping[str, Any], *, truncated: bool = False, notes: Mapping[str, Any] | None = None):
        self.data = data
        self.truncated = truncated
        self.notes = notes or {}


def error_of(error: Refused | SkillError) -> Plain:
    """The `error` of a result: a number, a sentence, and the word that belongs to the number."""
    word = error.word if isinstance(error, Refused) else error.reason
    return {"code": error.code, "message": error.message, "details": {"reason": word, **error.details}}


def internal(message: str, **details: object) -> Plain:
    """The `error` of a skill that could not do its work."""
    return {"code": SkillError.code, "message": message, "details": {"reason": SkillError.reason, **details}}


def answered(given: object) -> tuple[Answer | None, Plain | None]:
    """What a handler returned as an answer; or the error, when it returned something else."""
    if isinstance(given, Answer):
        return given, None
    if isinstance(given, Mapping):
        return Answer(given), None  # pyright: ignore[reportUnknownArgumentType]
    return None, internal(f"the skill returned {type(given).__name__}; it has to return an object (a dict)")


def result(
    answer: Answer | None, error: Plain | None, *, skill_id: str, trace_id: str, version: str, latency_ms: float
) -> bytes:
    """The Normalized Skill Result as one line of JSON; data that is no JSON makes it an `INTERNAL` error."""
    if error is None and answer is not None:
        meta = {**answer.notes, **_meta(version, latency_ms), **({"truncated": True} if answer.truncated else {})}
        try:
            return _line(_whole(skill_id, trace_id, dict(answer.data), None, meta))
        except (TypeError, ValueError, RecursionError) as problem:
            error = internal(f"the skill returned what is no JSON: {problem}")
    return _line(_whole(skill_id, trace_id, None, error, _meta(version, latency_ms)))


def _meta(version: str, latency_ms: float) -> Plain:
    return {"latency_ms": round(latency_ms, 3), "version": version}


def _whole(skill_id: str, trace_id: str, data: Plain | None, error: Plain | None, meta: Plain) -> Plain:
    return {
        "success": error is None,
        "skill_id": skill_id,
        "trace_id": trace_id,
        "data": data,
        "error": error,
        "meta": meta,
    }


def _line(value: Plain) -> bytes:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # Names of files may hold halves of characters, which no JSON has.
    return text.encode("utf-8", "replace") + b"\n"
