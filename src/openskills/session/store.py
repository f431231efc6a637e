"""The `SessionStore` protocol, its values, and functions that are shared by all stores."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Protocol, TypeAlias
from urllib.parse import urlsplit

from openskills.arguments import check_arguments
from openskills.errors import InvalidArgument, LeaseLost, SessionConflict, SessionInUse, SkillError
from openskills.session.events import Event, apply_delta, check_id, event_from_json


@check_arguments
@dataclass(frozen=True, slots=True, order=True)
class SessionKey:
    """The key of a session: application, user and session id. Raises `InvalidArgument` for an invalid id."""

    app: str
    user: str
    session: str

    def __post_init__(self) -> None:
        for field in fields(self):
            check_id(field.name, getattr(self, field.name))


@dataclass(frozen=True, slots=True)
class Session:
    """A copy of a session. `revision` is the number of events in its log."""

    key: SessionKey
    state: Mapping[str, str]
    events: tuple[Event, ...]
    revision: int


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """The list entry of a session, with the times of its first and last event."""

    key: SessionKey
    revision: int
    begun: datetime
    updated: datetime


@dataclass(frozen=True, slots=True)
class AppendResult:
    """The stored event, and the revision and state of the session after it."""

    event: Event
    revision: int
    state: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SessionLease:
    """The right of `holder` to run a conversation. Each lease of a session has a higher `epoch` than all before it."""

    key: SessionKey
    holder: str
    epoch: int


AppendEventHook: TypeAlias = Callable[[Event, Mapping[str, str]], Event]
"""Called with an event and the current state before the event is stored; returns the event to store.

It may change anything but the id; if it raises, nothing is stored. It blocks other appends to the session, so it must
be quick and must not use the store.
"""


class SessionStore(Protocol):
    """Stores the logs and states of sessions. `openskills.testing.check_session_store` checks an implementation.

    A session is created by its first event. Every method raises `SkillError` when the store cannot be used. A store
    can be used from many tasks, threads and event loops.
    """

    async def get(self, key: SessionKey, *, after: int = 0) -> Session | None:
        """The session, or None. With `after`, it has only the events after that number."""
        ...

    async def append(
        self, key: SessionKey, event: Event, *, expected: int | None = None, epoch: int | None = None
    ) -> AppendResult:
        """Append an event to the log and apply its delta, atomically.

        When it returns, the event is durable. Its `seq` is the next number: 1, 2, 3, … without gaps. An event whose id
        is in the log is not stored again, so a failed or cancelled call can be repeated. With `expected`, raises
        `SessionConflict`, and stores nothing, unless the session is at that revision (0: not created yet); without it,
        deltas merge key by key. With `epoch`, raises `LeaseLost`, and stores nothing, unless the lease of this epoch is
        the last one and was not released; without it, leases do not matter.
        """
        ...

    async def acquire_lease(self, key: SessionKey, holder: str, *, ttl: float) -> tuple[SessionLease, Session | None]:
        """Take the lease of a session for `ttl` seconds of the store's clock, and read the session, without its events.

        The session need not exist. Raises `SessionInUse` while another holder has a lease that is neither released nor
        expired; the same holder gets a new one, which ends its earlier one. Epochs of a session only grow, also after
        a release, an expiry and a deletion.
        """
        ...

    async def renew_lease(self, lease: SessionLease, *, ttl: float) -> None:
        """Let a lease last `ttl` seconds from now, even if it has expired. Raises `LeaseLost` if it is not the last one
        or was released."""
        ...

    async def release_lease(self, lease: SessionLease) -> None:
        """End a lease, so that others need not wait; nothing happens if it is not the last one."""
        ...

    async def list(self, app: str, user: str) -> Sequence[SessionInfo]:
        """The sessions of a user, the one with the latest event first."""
        ...

    async def delete(self, key: SessionKey) -> bool:
        """Delete a session; False when there is none. The next append starts again at revision 1. Leases stay."""
        ...


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """The last lease of a session as it is stored. `holder` is empty after a release; `expires` is in milliseconds."""

    epoch: int
    holder: str
    expires: int

    def check_epoch(self, key: SessionKey, epoch: int) -> None:
        """Raise `LeaseLost` unless the lease of this epoch is the last one and was not released."""
        if not self.holder or self.epoch != epoch:
            raise LeaseLost(key.session, epoch, self.holder)


NO_LEASE = LeaseRecord(0, "", 0)
"""The record of a session that never had a lease."""


def take_lease(
    key: SessionKey, last: LeaseRecord, holder: str, *, ttl: float, now: int, after: int | None = None
) -> LeaseRecord:
    """The record after `holder` takes the lease; `now` is the time of the store in milliseconds.

    Its epoch is the one that follows `after`, by default that of the last lease. Raises `SessionInUse`.
    """
    if last.holder not in ("", check_id("holder", holder)) and last.expires > now:
        raise SessionInUse(key.session, last.holder, (last.expires - now) / 1000)
    return LeaseRecord((last.epoch if after is None else after) + 1, holder, now + to_milliseconds(ttl))


def to_milliseconds(ttl: float) -> int:
    """A time to live in whole milliseconds; raises `InvalidArgument` if it is not positive."""
    if not 0.001 <= ttl <= 24 * 60 * 60:
        raise InvalidArgument("ttl", f"{ttl:g} seconds; use a number from 0.001 to 86400")
    return int(ttl * 1000)


def build_append_result(
    event: Event, state: Mapping[str, str], revision: int, hook: AppendEventHook | None = None
) -> AppendResult:
    """The result of appending an event, for all stores.

    Raises what the hook raises, and `InvalidArgument` when it changes the event's id.
    """
    chosen = event if hook is None else hook(replace(event), dict(state))
    if chosen.id != event.id:
        raise InvalidArgument("hook", f"must not change the id of the event {event.id!r} to {chosen.id!r}")
    return AppendResult(replace(chosen, seq=revision + 1), revision + 1, apply_delta(state, chosen.delta))


def sort_latest_first(sessions: Sequence[SessionInfo]) -> Sequence[SessionInfo]:
    """The order of `SessionStore.list`: latest first, equal times by name."""
    by_name = sorted(sessions, key=lambda info: info.key)
    return tuple(sorted(by_name, key=lambda info: info.updated, reverse=True))


@dataclass(frozen=True, slots=True)
class SessionHead:
    """A session without its events: revision, times of the first and last event, and state."""

    key: SessionKey
    revision: int
    begun: datetime
    updated: datetime
    state: Mapping[str, str]

    def without_events(self) -> Session:
        return Session(self.key, self.state, (), self.revision)

    def build_session(self, events: Sequence[Event], *, after: int = 0) -> Session:
        """The session with its events after `after`; raises `SkillError` when some are missing."""
        expected = list(range(max(after, 0) + 1, self.revision + 1))
        if [event.seq for event in events] != expected:
            raise SkillError(
                f"the log of session {self.key.session!r} is damaged: {len(events)} of {len(expected)} events found,"
                " or they are out of order; restore it from a backup, or delete the session"
            )
        return Session(self.key, self.state, tuple(events), self.revision)


def advance_head(
    key: SessionKey, head: SessionHead | None, event: Event, *, expected: int | None, hook: AppendEventHook | None
) -> tuple[AppendResult, SessionHead]:
    """The result of appending an event, and the new head; `head` is None for a new session.

    Raises `SessionConflict` when another revision was expected, and what `build_append_result` raises.
    """
    revision = head.revision if head else 0
    if expected is not None and expected != revision:
        raise SessionConflict(key.session, expected, revision)
    done = build_append_result(event, head.state if head else {}, revision, hook)
    begun = head.begun if head else done.event.at
    return done, SessionHead(key, done.revision, begun, done.event.at, done.state)


def result_from_stored(head: SessionHead, stored: str | bytes) -> AppendResult:
    return AppendResult(event_from_json(stored), head.revision, head.state)


def digest_ids(*parts: str) -> str:
    """A digest of ids that fits into any index, whatever their length and characters."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def session_id(key: SessionKey) -> str:
    return digest_ids(key.app, key.user, key.session)


def state_to_json(state: Mapping[str, str]) -> str:
    """A state as one line of ASCII JSON."""
    return json.dumps(dict(state), separators=(",", ":"))


def strip_credentials(url: str) -> str:
    """A URL without user, password and options: `postgresql://host:5432/database`.

    Of an ambiguous URL only the scheme is returned: a password with `/`, `?`, `#` or `@` looks like the rest of a URL.
    """
    scheme, found, rest = url.partition("://")
    if not found or not re.fullmatch(r"[a-z][a-z0-9+.-]{0,20}", scheme):
        return "(invalid URL)"
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
