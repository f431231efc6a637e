"""What happened in a conversation: the entries of its log, and what each does to its state. Plain values and JSON.

The state of a conversation is a small map from key to text (`keys.py` says which keys we use). An event carries what it
changes there as a delta, so that the log, replayed, gives the state.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeAlias, cast
from uuid import uuid4

from openskills.errors import InvalidArgument
from openskills.session.plain import checked_id, plain_json, plain_texts

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
            checked_id(name, getattr(self, name))
        # A frozen value sets its own fields only so.
        object.__setattr__(self, "at", _utc(self.at))
        object.__setattr__(self, "payload", plain_json("payload", self.payload))
        object.__setattr__(self, "delta", plain_texts("delta", self.delta))


def new_event(
    author: str, kind: str, payload: Mapping[str, Any] | None = None, delta: StateDelta | None = None
) -> Event:
    """An event that happens now, with an id that no other has."""
    return Event(uuid4().hex, author, kind, datetime.now(UTC), payload or {}, delta or {})


def applied(state: Mapping[str, str], delta: StateDelta) -> dict[str, str]:
    """The state after a delta. What is not in the delta stays; a key whose value is None is gone."""
    merged = {**state, **delta}
    return {key: value for key, value in merged.items() if value is not None}


def to_json(event: Event) -> str:
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


def from_json(text: str | bytes) -> Event:
    """The event that `to_json` wrote; fields that it does not know are passed over.

    Raises `InvalidArgument` for anything else.
    """
    found = _object_of(text)
    try:
        return Event(
            id=found["id"],
            author=found["author"],
            kind=found["kind"],
            at=_time(found["at"]),
            payload=found["payload"],
            delta=found["delta"],
            seq=_whole(found["seq"]),
        )
    except KeyError as error:
        raise InvalidArgument("event", f"has no field {error.args[0]!r}") from None


def _object_of(text: str | bytes) -> Mapping[str, Any]:
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidArgument("event", "is not JSON") from None
    if not isinstance(found, dict):
        raise InvalidArgument("event", "is not a JSON object")
    return cast("dict[str, Any]", found)


def _utc(at: datetime) -> datetime:
    if at.tzinfo is None:
        raise InvalidArgument("at", "has no time zone; give it in UTC")
    try:
        return at.astimezone(UTC)
    except OverflowError:
        raise InvalidArgument("at", f"{at} is no time in UTC") from None


def _time(value: object) -> datetime:
    try:
        return datetime.fromisoformat(str(value))
    except ValueError:
        raise InvalidArgument("at", f"{str(value)[:40]!r} is no time such as 2026-01-31T12:00:00+00:00") from None


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidArgument("seq", f"{str(value)[:40]!r} is not the number of a place")
    return value
