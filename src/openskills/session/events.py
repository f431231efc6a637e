"""Session events: the entries of a session's log, as plain values and JSON.

The state of a session is a map from key to text (`keys.py` lists our keys). Each event carries its changes of the state
as a delta, so that replaying the log gives the state.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeAlias, cast
from uuid import uuid4

from openskills.errors import InvalidArgument

MAX_ID = 512
MAX_DEPTH = 64
_MAX_BITS = 1024
# Every event is checked when it is read; regular expressions are much faster than a loop over characters.
_NO_ID = re.compile("[\0-\x1f\x7f-\x9f\ud800-\udfff]")
_NO_TEXT = re.compile("[\0\ud800-\udfff]")

_JsonPath: TypeAlias = "tuple[_JsonPath, str | int] | None"
"""The path of a value, innermost step first; formatted for error messages only."""


def check_id(name: str, value: str) -> str:
    """Return the id; raises `InvalidArgument` for one that is empty, too long, or not printable."""
    # A value from JSON can have any type, despite the annotation.
    if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgument(name, f"expected text, got {type(value).__name__}")
    if not value:
        raise InvalidArgument(name, "must not be empty")
    if len(value) > MAX_ID:
        raise InvalidArgument(name, f"has {len(value):,} characters; the limit is {MAX_ID}")
    if _NO_ID.search(value):
        raise InvalidArgument(name, f"{value[:80]!r} contains a control character or a lone surrogate")
    return value


def copy_json(name: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """A deep copy of JSON values; tuples become lists. Raises `InvalidArgument` for anything else."""
    if not isinstance(value, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgument(name, f"expected a mapping, got {type(value).__name__}")
    return _copy_mapping(value, (None, name), 0)


def copy_texts(name: str, value: Mapping[str, str | None]) -> dict[str, str | None]:
    """A copy of a map from text to text or None. Raises `InvalidArgument` for text that not every database stores."""
    if not isinstance(value, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgument(name, f"expected a mapping, got {type(value).__name__}")
    for key, text in value.items():
        if not _is_text(key) or not (text is None or _is_text(text)):
            raise InvalidArgument(name, f"{key!r} or its value is not text, or contains NUL or a lone surrogate")
    return {str(key): None if text is None else str(text) for key, text in value.items()}


def _is_text(value: object) -> bool:
    return isinstance(value, str) and not _NO_TEXT.search(value)


def _copy_value(value: object, place: _JsonPath, depth: int) -> object:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int | float):
        return _check_number(value, place)
    if depth > MAX_DEPTH:
        raise _value_error(place, f"nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, Mapping):
        return _copy_mapping(cast("Mapping[object, object]", value), place, depth)
    if isinstance(value, list | tuple):
        items = cast("list[object]", value)
        return [_copy_value(item, (place, index), depth + 1) for index, item in enumerate(items)]
    raise _value_error(place, f"{type(value).__name__} is not a JSON value")


def _copy_mapping(value: Mapping[Any, object], place: _JsonPath, depth: int) -> dict[str, Any]:
    for key in value:
        if not isinstance(key, str):
            raise _value_error(place, f"the key {key!r} is not text")
    return {str(key): _copy_value(item, (place, key), depth + 1) for key, item in value.items()}


def _check_number(value: int | float, place: _JsonPath) -> int | float:
    if isinstance(value, int):
        if value.bit_length() > _MAX_BITS:
            raise _value_error(place, "the number has too many digits")
        return int(value)
    if not math.isfinite(value):
        raise _value_error(place, f"{value} is not a JSON value")
    return float(value)


def _value_error(place: _JsonPath, what: str) -> InvalidArgument:
    steps: list[str] = []
    while place is not None:
        place, step = place
        steps.append(str(step))
    return InvalidArgument(".".join(reversed(steps))[:200], what)


StateDelta: TypeAlias = Mapping[str, str | None]
"""Changes of a state: new values by key, None to remove the key."""

USER = "user"
"""The author of user messages; every other author is the name of an agent."""

MESSAGE = "message"
TOOL_RESPONSE = "tool.response"
STATE_UPDATE = "state.update"


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of a log: author, kind, time (UTC), content, and changes of the state.

    `payload` is plain JSON, copied on creation. `seq` is the position in the log, from 1; 0 means not stored yet. `id`
    is unique, so that an event that is appended twice is recognized. Raises `InvalidArgument` for values that a store
    cannot keep.
    """

    id: str
    author: str
    kind: str
    at: datetime
    payload: Mapping[str, Any] = field(default_factory=dict[str, Any])
    delta: StateDelta = field(default_factory=dict[str, str | None])
    seq: int = 0

    def __post_init__(self) -> None:
        for name in ("id", "author", "kind"):
            check_id(name, getattr(self, name))
        # The dataclass is frozen.
        object.__setattr__(self, "at", _to_utc(self.at))
        object.__setattr__(self, "payload", copy_json("payload", self.payload))
        object.__setattr__(self, "delta", copy_texts("delta", self.delta))


def new_event(
    author: str, kind: str, payload: Mapping[str, Any] | None = None, delta: StateDelta | None = None
) -> Event:
    """A new event with the current time and a unique id."""
    return Event(uuid4().hex, author, kind, datetime.now(UTC), payload or {}, delta or {})


def apply_delta(state: Mapping[str, str], delta: StateDelta) -> dict[str, str]:
    """The state after a delta; keys with the value None are removed."""
    merged = {**state, **delta}
    return {key: value for key, value in merged.items() if value is not None}


def event_to_json(event: Event) -> str:
    """The event as one line of ASCII JSON."""
    fields = {
        "id": event.id,
        "seq": event.seq,
        "author": event.author,
        "kind": event.kind,
        "at": event.at.isoformat(),
        "payload": event.payload,
        "delta": event.delta,
    }
    return json.dumps(fields, separators=(",", ":"))


def event_from_json(text: str | bytes) -> Event:
    """Parse the output of `event_to_json`; unknown fields are ignored. Raises `InvalidArgument` for anything else."""
    try:
        parsed: object = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidArgument("event", "not valid JSON") from None
    if not isinstance(parsed, dict):
        raise InvalidArgument("event", "expected a JSON object")
    found = cast("dict[str, Any]", parsed)
    try:
        return Event(
            id=found["id"],
            author=found["author"],
            kind=found["kind"],
            at=_parse_time(found["at"]),
            payload=found["payload"],
            delta=found["delta"],
            seq=_parse_integer(found["seq"]),
        )
    except KeyError as error:
        raise InvalidArgument("event", f"missing field {error.args[0]!r}") from None


def _to_utc(at: datetime) -> datetime:
    if at.tzinfo is None:
        raise InvalidArgument("at", "has no time zone; use UTC")
    try:
        return at.astimezone(UTC)
    except OverflowError:
        raise InvalidArgument("at", f"{at} cannot be converted to UTC") from None


def _parse_time(value: object) -> datetime:
    try:
        return datetime.fromisoformat(str(value))
    except ValueError:
        raise InvalidArgument("at", f"invalid time {str(value)[:40]!r}; use 2026-01-31T12:00:00+00:00") from None


def _parse_integer(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidArgument("seq", f"expected a non-negative integer, got {str(value)[:40]!r}")
    return value
