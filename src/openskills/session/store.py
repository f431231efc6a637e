"""SessionStore protocol.

What is kept of a conversation, and what every store of conversations can do.

A conversation without its events, and what the next event makes of it. Pure; the same for every store.

The address of a server, as it may be shown. Pure.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Protocol, TypeAlias
from urllib.parse import urlsplit

from openskills.errors import InvalidArgument, SessionConflict, SkillError
from openskills.session.events import Event, apply_delta, check_id, event_from_json


@dataclass(frozen=True, slots=True, order=True)
class SessionKey:
    """Which conversation: of which user of which application. Raises `InvalidArgument` for what is no id."""

    app: str
    user: str
    session: str

    def __post_init__(self) -> None:
        for field in fields(self):
            check_id(field.name, getattr(self, field.name))


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
class AppendResult:
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

    async def append(self, key: SessionKey, event: Event, *, expected: int | None = None) -> AppendResult:
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


def build_append_result(
    event: Event, state: Mapping[str, str], revision: int, hook: AppendEventHook | None = None
) -> AppendResult:
    """What appending an event to a conversation in this state comes to. Every store does what this says.

    Raises what the hook raises, and `InvalidArgument` when it gives another event's id.
    """
    chosen = event if hook is None else hook(replace(event), dict(state))
    if chosen.id != event.id:
        raise InvalidArgument("hook", f"gave the event {event.id!r} another id, {chosen.id!r}")
    return AppendResult(replace(chosen, seq=revision + 1), revision + 1, apply_delta(state, chosen.delta))


def sort_latest_first(sessions: Sequence[SessionInfo]) -> Sequence[SessionInfo]:
    """The order of `SessionStore.list`; those that were last used at the same time are in order of their names."""
    by_name = sorted(sessions, key=lambda info: info.key)
    return tuple(sorted(by_name, key=lambda info: info.updated, reverse=True))


@dataclass(frozen=True, slots=True)
class SessionHead:
    """How far a conversation has come: its revision, the times of its first and its last event, its state."""

    key: SessionKey
    revision: int
    begun: datetime
    updated: datetime
    state: Mapping[str, str]

    @property
    def info(self) -> SessionInfo:
        """The same as an entry of a list."""
        return SessionInfo(self.key, self.revision, self.begun, self.updated)

    def build_session(self, events: Sequence[Event], *, after: int = 0) -> Session:
        """The conversation with its events behind `after`; raises `SkillError` when some of them are missing."""
        expected = list(range(max(after, 0) + 1, self.revision + 1))
        if [event.seq for event in events] != expected:
            raise SkillError(
                f"the log of session {self.key.session!r} is damaged: of {len(expected)} events {len(events)} are"
                " there, or they are out of order; restore it from a backup, or delete the session"
            )
        return Session(self.key, self.state, tuple(events), self.revision)


def advance_head(
    key: SessionKey, head: SessionHead | None, event: Event, *, expected: int | None, hook: AppendEventHook | None
) -> tuple[AppendResult, SessionHead]:
    """What appending an event to a conversation comes to, and its head afterwards; a head of None: it begins.

    Raises `SessionConflict` when another revision was expected, and what `appended` raises.
    """
    revision = head.revision if head else 0
    if expected is not None and expected != revision:
        raise SessionConflict(key.session, expected, revision)
    done = build_append_result(event, head.state if head else {}, revision, hook)
    begun = head.begun if head else done.event.at
    return done, SessionHead(key, done.revision, begun, done.event.at, done.state)


def result_from_stored(head: SessionHead, stored: str | bytes) -> AppendResult:
    """The answer for an event that the log has already."""
    return AppendResult(event_from_json(stored), head.revision, head.state)


def digest_ids(*parts: str) -> str:
    """Ids as one short word that no other ids have: whatever their length and characters, it fits into any index."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def state_to_json(state: Mapping[str, str]) -> str:
    """A state as one line of ASCII."""
    return json.dumps(dict(state), separators=(",", ":"))


def strip_credentials(url: str) -> str:
    """An address without user, password and options: `postgresql://host:5432/database`.

    Of an address that cannot be taken apart without doubt only the scheme is left: a password with `/`, `?`, `#` or
    `@` in it looks like the rest of an address.
    """
    scheme, found, rest = url.partition("://")
    if not found or not re.fullmatch(r"[a-z][a-z0-9+.-]{0,20}", scheme):
        return "(an address that is none)"
    hidden = f"{scheme}://…"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return hidden
    if rest.count("@") > 1 or "@" in f"{parts.path}{parts.query}{parts.fragment}":
        return hidden
    host = f"[{host}]" if ":" in host else host
    return f"{scheme}://{host}{f':{port}' if port else ''}{parts.path}"
