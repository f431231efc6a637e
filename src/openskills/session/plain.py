"""Values that every store can keep: ids, texts, plain JSON. Copies, so that nothing is shared that could change."""

import math
import re
from collections.abc import Mapping
from typing import Any, TypeAlias, cast

from openskills.errors import InvalidArgument

MAX_ID = 512
MAX_DEPTH = 64
_MAX_BITS = 1024
# Every event of a log that is read is checked: patterns, because a loop over characters would be half of the time.
_NO_ID = re.compile("[\0-\x1f\x7f-\x9f\ud800-\udfff]")
_NO_TEXT = re.compile("[\0\ud800-\udfff]")

_Place: TypeAlias = "tuple[_Place, str | int] | None"
"""Where a value is, from the inside out; words are made of it only when something is wrong there."""


def checked_id(name: str, value: str) -> str:
    """The same id; raises `InvalidArgument` for one that is empty, very long, or not printable."""
    # What comes from JSON may be of any type, whatever the annotation says.
    if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgument(name, f"is {type(value).__name__}, not text")
    if not value:
        raise InvalidArgument(name, "is empty")
    if len(value) > MAX_ID:
        raise InvalidArgument(name, f"has {len(value):,} characters; {MAX_ID} is the most")
    if _NO_ID.search(value):
        raise InvalidArgument(name, f"{value[:80]!r} contains a control character or half a character")
    return value


def plain_json(name: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """A copy that consists of JSON values alone; tuples become lists. Raises `InvalidArgument` for anything else."""
    if not isinstance(value, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgument(name, f"is {type(value).__name__}, not a mapping")
    return _mapping(value, (None, name), 0)


def plain_texts(name: str, value: Mapping[str, str | None]) -> dict[str, str | None]:
    """A copy of a map from text to text or None. Raises `InvalidArgument` for what some database would not take."""
    if not isinstance(value, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgument(name, f"is {type(value).__name__}, not a mapping")
    for key, text in value.items():
        if not _is_text(key) or not (text is None or _is_text(text)):
            raise InvalidArgument(name, f"{key!r} or its value is no text, or has NUL or half a character in it")
    return {str(key): None if text is None else str(text) for key, text in value.items()}


def _is_text(value: object) -> bool:
    return isinstance(value, str) and not _NO_TEXT.search(value)


def _json(value: object, place: _Place, depth: int) -> object:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        # An enumeration or another kind of text becomes just text.
        return str(value)
    if isinstance(value, int | float):
        return _number(value, place)
    if depth > MAX_DEPTH:
        raise _wrong(place, f"is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, Mapping):
        return _mapping(cast("Mapping[object, object]", value), place, depth)
    if isinstance(value, list | tuple):
        items = cast("list[object]", value)
        return [_json(item, (place, index), depth + 1) for index, item in enumerate(items)]
    raise _wrong(place, f"{type(value).__name__} is no JSON value")


def _mapping(value: Mapping[Any, object], place: _Place, depth: int) -> dict[str, Any]:
    for key in value:
        if not isinstance(key, str):
            raise _wrong(place, f"has the key {key!r}, which is no text")
    return {str(key): _json(item, (place, key), depth + 1) for key, item in value.items()}


def _number(value: int | float, place: _Place) -> int | float:
    if isinstance(value, int):
        if value.bit_length() > _MAX_BITS:
            raise _wrong(place, "is a number with too many digits")
        return int(value)
    if not math.isfinite(value):
        raise _wrong(place, f"{value} is no JSON value")
    return float(value)


def _wrong(place: _Place, what: str) -> InvalidArgument:
    steps: list[str] = []
    while place is not None:
        place, step = place
        steps.append(str(step))
    return InvalidArgument(".".join(reversed(steps))[:200], what)
