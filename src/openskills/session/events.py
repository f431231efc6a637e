"""Event, plain values.

Values that every store can keep: ids, texts, plain JSON. Copies, so that nothing is shared that could change.

What happened in a conversation: the entries of its log, and what each does to its state. Plain values and JSON.

The state of a conversation is a small map from key to text (`keys.py` says which keys we use). An event carries what it
changes there as a delta, so that the log, replayed, gives the state.
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
# Every event of a log that is read is checked: patterns, because a loop over characters would be half of the time.
_NO_ID = re.compile("[\0-\x1f\x7f-\x9f\ud800-\udfff]")
_NO_TEXT = re.compile("[\0\ud800-\udfff]")

_JsonPath: TypeAlias = "tuple[_JsonPath, str | int] | None"
"""Where a value is, from the inside out; words are made of it only when something is wrong there."""


def check_id(name: str, value: str) -> str:
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


def copy_json(name: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """A copy that consists of JSON values alone; tuples become lists. Raises `InvalidArgument` for anything else."""
    if not isinstance(value, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgument(name, f"is {type(value).__name__}, not a mapping")
    return _copy_mapping(value, (None, name), 0)


def copy_texts(name: str, value: Mapping[str, str | None]) -> dict[str, str | None]:
    """A copy of a map from text to text or None. Raises `InvalidArgument` for what some database would not take."""
    if not isinstance(value, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgument(name, f"is {type(value).__name__}, not a mapping")
    for key, text in value.items():
        if not _is_text(key) or not (text is None or _is_text(text)):
            raise InvalidArgument(name, f"{key!r} or its value is no text, or has NUL or half a character in it")
    return {str(key): None if text is None else str(text) for key, text in value.items()}


def _is_text(value: object) -> bool:
    return isinstance(value, str) and not _NO_TEXT.search(value)


def _copy_value(value: object, place: _JsonPath, depth: int) -> object:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        # An enumeration or another kind of text becomes just text.
        return str(value)
    if isinstance(value, int | float):
        return _check_number(value, place)
    if depth > MAX_DEPTH:
        raise _value_error(place, f"is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, Mapping):
        return _copy_mapping(cast("Mapping[object, object]", value), place, depth)
    if isinstance(value, list | tuple):
        items = cast("list[object]", value)
        return [_copy_value(item, (place, index), depth + 1) for index, item in enumerate(items)]
    raise _value_error(place, f"{type(value).__name__} is no JSON value")


def _copy_mapping(value: Mapping[Any, object], place: _JsonPath, depth: int) -> dict[str, Any]:
    for key in value:
        if not isinstance(key, str):
            raise _value_error(place, f"has the key {key!r}, which is no text")
    return {str(key): _copy_value(item, (place, key), depth + 1) for key, item in value.items()}


def _check_number(value: int | float, place: _JsonPath) -> int | float:
    if isinstance(value, int):
        if value.bit_length() > _MAX_BITS:
            raise _value_error(place, "is a number with too many digits")
        return int(value)
    if not math.isfinite(value):
        raise _value_error(place, f"{value} is no JSON value")
    return float(value)


def _value_error(place: _JsonPath, what: str) -> InvalidArgument:
    steps: list[str] = []
    while place is not None:
        place, step = place
        steps.append(str(step))
    return InvalidArgument(".".join(reversed(steps))[:200], what)


StateDelta: TypeAlias = Mapping[str, str | None]
"""What changes in a state: a key and its new value, or None for a key that goes."""

USER = "user"
"""The author of what a person said; every other author is the name of an agent."""

MESSAGE = "message"
TOOL_RESPONSE = "tool.response"
STATE_UPDATE = "state.update"


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened: who did it, what it was, when (UTC), its content, and what it changes in the state.

    `payload` is plain JSON, copied when the event is made. `seq` is the place in the log, from 1; 0 says that it is in
    none yet. `id` is unique, so an event that is appended again is known again. Raises `InvalidArgument` for what a
    store could not keep.
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
        # A frozen value sets its own fields only so.
        object.__setattr__(self, "at", _to_utc(self.at))
        object.__setattr__(self, "payload", copy_json("payload", self.payload))
        object.__setattr__(self, "delta", copy_texts("delta", self.delta))


def new_event(
    author: str, kind: str, payload: Mapping[str, Any] | None = None, delta: StateDelta | None = None
) -> Event:
    """An event that happens now, with an id that no other has."""
    return Event(uuid4().hex, author, kind, datetime.now(UTC), payload or {}, delta or {})


def apply_delta(state: Mapping[str, str], delta: StateDelta) -> dict[str, str]:
    """The state after a delta. What is not in the delta stays; a key whose value is None is gone."""
    merged = {**state, **delta}
    return {key: value for key, value in merged.items() if value is not None}


def event_to_json(event: Event) -> str:
    """The event as one line of ASCII, so that every database, log and socket takes it as it is."""
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
    """The event that `event_to_json` wrote; fields that it does not know are passed over.

    Raises `InvalidArgument` for anything else.
    """
    found = _parse_object(text)
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
        raise InvalidArgument("event", f"has no field {error.args[0]!r}") from None


def _parse_object(text: str | bytes) -> Mapping[str, Any]:
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidArgument("event", "is not JSON") from None
    if not isinstance(found, dict):
        raise InvalidArgument("event", "is not a JSON object")
    return cast("dict[str, Any]", found)


def _to_utc(at: datetime) -> datetime:
    if at.tzinfo is None:
        raise InvalidArgument("at", "has no time zone; give it in UTC")
    try:
        return at.astimezone(UTC)
    except OverflowError:
        raise InvalidArgument("at", f"{at} is no time in UTC") from None


def _parse_time(value: object) -> datetime:
    try:
        return datetime.fromisoformat(str(value))
    except ValueError:
        raise InvalidArgument("at", f"{str(value)[:40]!r} is no time such as 2026-01-31T12:00:00+00:00") from None


def _parse_integer(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidArgument("seq", f"{str(value)[:40]!r} is not the number of a place")
    return value
