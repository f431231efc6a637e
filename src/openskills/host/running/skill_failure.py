"""What a skill says went wrong, as a failure with a number, a word and a sentence. Pure."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, cast

from openskills.errors import SkillError
from openskills.host.result import Failure

INTERNAL = SkillError.code
_LEAST, _MOST = 400, 599
_LONGEST_MESSAGE = 4000
_LONGEST_WORD = 100
_NO_WORDS = "the skill failed and did not say why"

_MORE_WORDS = {
    "BAD_REQUEST": 400,
    "INVALID_INPUT": 400,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "CONFLICT": 409,
    "TOO_LARGE": 413,
    "RATE_LIMITED": 429,
    "UNAVAILABLE": 503,
    "TIMEOUT": 504,
}
_WORDS_OF_NUMBERS = {403: "FORBIDDEN", 404: "NOT_FOUND", 409: "CONFLICT", 422: "INVALID_ARGUMENT", 503: "UNAVAILABLE"}


def _known() -> Iterator[type[SkillError]]:
    waiting: list[type[SkillError]] = [SkillError]
    while waiting:
        found = waiting.pop()
        yield found
        waiting += found.__subclasses__()


NUMBERS: Mapping[str, int] = {**_MORE_WORDS, **{error.reason: error.code for error in _known()}}
"""The number of every word that an error has."""

_WORDS: Mapping[int, str] = {**{error.code: error.reason for error in _known()}, **_WORDS_OF_NUMBERS, 500: "INTERNAL"}


def skill_failure(error: object) -> Failure:
    """The failure that a skill describes in its `error`, whatever that is.

    A word as the code becomes its number and `details.reason`; a number that is no HTTP status of a failure becomes
    500, with what it was in `details.original_code`.
    """
    if not isinstance(error, Mapping):
        said = error if isinstance(error, str) and error else _NO_WORDS
        return Failure(INTERNAL, said[:_LONGEST_MESSAGE], {"reason": SkillError.reason})
    told = cast("Mapping[str, Any]", error)
    details = _details(told.get("details"))
    code = told.get("code")
    number, reason = _numbered(code)
    if number is None:
        details["original_code"] = code
    # A skill may know a better word than the table does, but not another one than its own code.
    details["reason"] = reason or _own_reason(details) or _WORDS.get(number or INTERNAL) or _word_of(number)
    return Failure(number or INTERNAL, _message(told), details)


def _details(found: object) -> dict[str, Any]:
    if isinstance(found, Mapping):
        return dict(cast("Mapping[str, Any]", found))
    return {} if found is None else {"value": found}


def _own_reason(details: Mapping[str, Any]) -> str | None:
    found = details.get("reason")
    return found if isinstance(found, str) and found else None


def _message(told: Mapping[str, Any]) -> str:
    found = told.get("message")
    return found[:_LONGEST_MESSAGE] if isinstance(found, str) and found else _NO_WORDS


def _numbered(code: object) -> tuple[int | None, str | None]:
    """The number and the word that a code stands for; no number when it has none that can be used."""
    if code is None:
        return INTERNAL, None
    if isinstance(code, str):
        word = code.strip()
        if word.isdecimal() and word.isascii():
            return (int(word), None) if _is_status(float(word[:5])) and len(word) < 5 else (None, None)
        return NUMBERS.get(word.upper(), INTERNAL), word.upper()[:_LONGEST_WORD] or None
    if isinstance(code, bool) or not isinstance(code, int | float) or not _is_status(code):
        return None, None
    return int(code), None


def _is_status(number: float) -> bool:
    return math.isfinite(number) and _LEAST <= number <= _MOST and number == int(number)


def _word_of(number: int | None) -> str:
    return SkillError.reason if number is None or number >= INTERNAL else "INVALID_ARGUMENT"
