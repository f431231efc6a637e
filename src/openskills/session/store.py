"""What is kept of a conversation, and what every store of conversations can do."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Protocol, TypeAlias

from openskills.errors import InvalidArgument
from openskills.session.events import Event, applied
from openskills.session.plain import checked_id


@dataclass(frozen=True, slots=True, order=True)
class SessionKey:
    """Which conversation: of which user of which application. Raises `InvalidArgument` for what is no id."""

    app: str
    user: str
    session: str

    def __post_init__(self) -> None:
        for field in fields(self):
            checked_id(field.name, getattr(self, field.name))


@dataclass(frozen=True, slots=True)
class Session:
    """A conversation as it was when it was read. `revision` is how many events its log has.

    It is a copy: nothing that is done to it changes what is stored.
    """

    key: SessionKey
    state: Mapping[str, str]
    events: tuple[Event, ...]
    revision: int


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A conversation in a list: the times of its first and its last event."""

    key: SessionKey
    revision: int
    begun: datetime
    updated: datetime


@dataclass(frozen=True, slots=True)
class Appended:
    """What an append has done: the event as it is stored, and the conversation's revision and state after it."""

    event: Event
    revision: int
    state: Mapping[str, str]


AppendEventHook: TypeAlias = Callable[[Event, Mapping[str, str]], Event]
"""Sees an event, and the state it will be applied to, before it is stored; gives the event that is stored.

It may change what the event carries, but not its id; what it raises keeps the event from being stored. It runs while
nobody else can append to the conversation, so it decides on the state as it is: be quick, and do not use the store.
"""


class SessionStore(Protocol):
    """The logs of conversations, and their states. `openskills.testing.check_session_store` checks what is promised.

    A conversation begins with its first event. Every method raises `SkillError` when the place where things are kept
    cannot be used. A store may be used from many tasks, threads and loops.
    """

    async def get(self, key: SessionKey, *, after: int = 0) -> Session | None:
        """The conversation, or None when there is none. With `after`, only the events behind that number are in it."""
        ...

    async def append(self, key: SessionKey, event: Event, *, expected: int | None = None) -> Appended:
        """Put an event at the end of the log and apply its delta: both or neither, one append after the other.

        When it returns, the event is as durable as this store can make it. Its `seq` is the next number: 1, 2, 3, …
        without gaps. An event whose id is in the log already is not stored again, so a call that failed or was
        cancelled can simply be repeated. With `expected`, raises `SessionConflict`, and stores nothing, unless the
        conversation is at that revision (0: it has not begun); without it, deltas merge key by key.
        """
        ...

    async def list(self, app: str, user: str) -> Sequence[SessionInfo]:
        """The conversations of a user, the one that was last appended to by the time of its event first."""
        ...

    async def delete(self, key: SessionKey) -> bool:
        """Forget a conversation; false when there is none. The next append begins it anew, at revision 1."""
        ...


def appended(event: Event, state: Mapping[str, str], revision: int, hook: AppendEventHook | None = None) -> Appended:
    """What appending an event to a conversation in this state comes to. Every store does what this says.

    Raises what the hook raises, and `InvalidArgument` when it gives another event's id.
    """
    chosen = event if hook is None else hook(replace(event), dict(state))
    if chosen.id != event.id:
        raise InvalidArgument("hook", f"gave the event {event.id!r} another id, {chosen.id!r}")
    return Appended(replace(chosen, seq=revision + 1), revision + 1, applied(state, chosen.delta))


def latest_first(sessions: Sequence[SessionInfo]) -> Sequence[SessionInfo]:
    """The order of `SessionStore.list`; those that were last used at the same time are in order of their names."""
    by_name = sorted(sessions, key=lambda info: info.key)
    return tuple(sorted(by_name, key=lambda info: info.updated, reverse=True))
