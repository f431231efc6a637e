"""The session tables of SQLite and PostgreSQL: the queries, and the session store that both have in common.

A query is the SQL and its arguments; `$1` is the first. Untrusted values are never part of the SQL.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import ClassVar, TypeAlias, TypeVar

from openskills.session.events import Event, check_id, event_from_json, event_to_json
from openskills.session.store import (
    NO_LEASE,
    AppendEventHook,
    AppendResult,
    LeaseRecord,
    Session,
    SessionHead,
    SessionInfo,
    SessionKey,
    SessionLease,
    advance_head,
    digest_ids,
    result_from_stored,
    session_id,
    sort_latest_first,
    state_to_json,
    take_lease,
    to_milliseconds,
)
from openskills.sql import SqlQuery, SqlRow

T = TypeVar("T")
SqlSteps: TypeAlias = Generator[SqlQuery, Sequence[SqlRow], T]
"""The queries of one transaction; each gets its rows."""

_HEAD = "SELECT revision, begun, updated, state FROM openskills_sessions WHERE id = $1"
_EVENTS = "SELECT body FROM openskills_events WHERE session = $1 AND seq > $2 ORDER BY seq"
_EVENT = "SELECT body FROM openskills_events WHERE session = $1 AND id = $2"
_LIST = "SELECT name, revision, begun, updated FROM openskills_sessions WHERE owner = $1"
_ADD = "INSERT INTO openskills_events (session, seq, id, body) VALUES ($1, $2, $3, $4)"
_BEGIN = """
    INSERT INTO openskills_sessions (id, owner, app, username, name, revision, begun, updated, state)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
"""
_ADVANCE = "UPDATE openskills_sessions SET revision = $2, updated = $3, state = $4 WHERE id = $1"
_LEASE = "SELECT epoch, holder, expires FROM openskills_leases WHERE session = $1"
_SET_LEASE = """
    INSERT INTO openskills_leases (session, epoch, holder, expires) VALUES ($1, $2, $3, $4)
    ON CONFLICT (session) DO UPDATE SET epoch = excluded.epoch, holder = excluded.holder, expires = excluded.expires
"""
_DELETE_EVENTS = "DELETE FROM openskills_events WHERE session = $1"
_DELETE = "DELETE FROM openskills_sessions WHERE id = $1"


def build_head_query(key: SessionKey) -> SqlQuery:
    """The head of a session: one row or none, for `head_from_row`."""
    return _HEAD, (session_id(key),)


def build_events_query(key: SessionKey, after: int) -> SqlQuery:
    """The events after a number, in order: the JSON of each."""
    return _EVENTS, (session_id(key), max(after, 0))


def build_event_query(key: SessionKey, event: Event) -> SqlQuery:
    """The stored event with the same id: its JSON."""
    return _EVENT, (session_id(key), event.id)


def build_list_query(app: str, user: str) -> SqlQuery:
    """The sessions of a user, one row each for `info_from_row`."""
    return _LIST, (digest_ids(app, user),)


def build_write_queries(head: SessionHead, event: Event) -> tuple[SqlQuery, SqlQuery]:
    """Store the head of a session, and add an event to its log."""
    found, key = session_id(head.key), head.key
    begun, updated, state = head.begun.isoformat(), head.updated.isoformat(), state_to_json(head.state)
    if head.revision == 1:
        ids = (found, digest_ids(key.app, key.user), key.app, key.user, key.session)
        advance: SqlQuery = (_BEGIN, (*ids, head.revision, begun, updated, state))
    else:
        advance = (_ADVANCE, (found, head.revision, updated, state))
    return advance, (_ADD, (found, event.seq, event.id, event_to_json(event)))


def build_delete_queries(key: SessionKey) -> tuple[SqlQuery, SqlQuery]:
    """Delete the events, then the session."""
    found = (session_id(key),)
    return (_DELETE_EVENTS, found), (_DELETE, found)


def build_set_lease_query(key: SessionKey, lease: LeaseRecord) -> SqlQuery:
    return _SET_LEASE, (session_id(key), lease.epoch, lease.holder, lease.expires)


def head_from_row(key: SessionKey, row: SqlRow) -> SessionHead:
    revision, begun, updated, state = row
    return SessionHead(key, revision, datetime.fromisoformat(begun), datetime.fromisoformat(updated), json.loads(state))


def info_from_row(app: str, user: str, row: SqlRow) -> SessionInfo:
    name, revision, begun, updated = row
    key = SessionKey(app, user, name)
    return SessionInfo(key, revision, datetime.fromisoformat(begun), datetime.fromisoformat(updated))


class SqlSessionStore(ABC):
    """A `SessionStore` with these tables. A subclass executes queries in transactions."""

    _clock: ClassVar[SqlQuery]
    """The time of the store in milliseconds."""

    def __init__(self, hook: AppendEventHook | None) -> None:
        self._hook = hook

    @abstractmethod
    async def _read(self, steps: SqlSteps[T]) -> T:
        """Execute queries that see one consistent state."""

    @abstractmethod
    async def _write(self, key: SessionKey, steps: SqlSteps[T]) -> T:
        """Execute queries while nobody else writes to the session."""

    async def _write_lease(self, key: SessionKey, steps: SqlSteps[T]) -> T:
        """Like `_write`, for a change that need not survive a crash of the database."""
        return await self._write(key, steps)

    async def get(self, key: SessionKey, *, after: int = 0) -> Session | None:
        return await self._read(_read_session(key, after))

    async def append(
        self, key: SessionKey, event: Event, *, expected: int | None = None, epoch: int | None = None
    ) -> AppendResult:
        """See `SessionStore.append`. A hook blocks other appends to this session, in SQLite to all of the file."""
        return await self._write(key, _append_event(key, event, expected, epoch, self._hook))

    async def list(self, app: str, user: str) -> Sequence[SessionInfo]:
        rows = await self._read(_read_rows(build_list_query(check_id("app", app), check_id("user", user))))
        return sort_latest_first([info_from_row(app, user, row) for row in rows])

    async def delete(self, key: SessionKey) -> bool:
        return await self._write(key, _delete_session(key))

    async def acquire_lease(self, key: SessionKey, holder: str, *, ttl: float) -> tuple[SessionLease, Session | None]:
        return await self._write_lease(key, self._take_lease(key, holder, ttl))

    async def renew_lease(self, lease: SessionLease, *, ttl: float) -> None:
        await self._write_lease(lease.key, self._prolong_lease(lease, to_milliseconds(ttl)))

    async def release_lease(self, lease: SessionLease) -> None:
        await self._write_lease(lease.key, _end_lease(lease))

    def _take_lease(self, key: SessionKey, holder: str, ttl: float) -> SqlSteps[tuple[SessionLease, Session | None]]:
        last = yield from _read_lease(key)
        ((now,),) = yield self._clock
        taken = take_lease(key, last, holder, ttl=ttl, now=now)
        yield build_set_lease_query(key, taken)
        head = yield from _read_head(key)
        return SessionLease(key, holder, taken.epoch), head.without_events() if head else None

    def _prolong_lease(self, lease: SessionLease, milliseconds: int) -> SqlSteps[None]:
        last = yield from _read_lease(lease.key)
        last.check_epoch(lease.key, lease.epoch)
        ((now,),) = yield self._clock
        yield build_set_lease_query(lease.key, replace(last, expires=now + milliseconds))


def _read_rows(query: SqlQuery) -> SqlSteps[Sequence[SqlRow]]:
    return (yield query)


def _read_head(key: SessionKey) -> SqlSteps[SessionHead | None]:
    rows = yield build_head_query(key)
    return head_from_row(key, rows[0]) if rows else None


def _read_lease(key: SessionKey) -> SqlSteps[LeaseRecord]:
    rows = yield _LEASE, (session_id(key),)
    return LeaseRecord(*rows[0]) if rows else NO_LEASE


def _read_session(key: SessionKey, after: int) -> SqlSteps[Session | None]:
    head = yield from _read_head(key)
    if head is None:
        return None
    rows = yield build_events_query(key, after)
    return head.build_session([event_from_json(body) for (body,) in rows], after=after)


def _append_event(
    key: SessionKey, event: Event, expected: int | None, epoch: int | None, hook: AppendEventHook | None
) -> SqlSteps[AppendResult]:
    if epoch is not None:
        (yield from _read_lease(key)).check_epoch(key, epoch)
    head = yield from _read_head(key)
    stored = yield build_event_query(key, event)
    if head and stored:
        return result_from_stored(head, stored[0][0])
    done, after = advance_head(key, head, event, expected=expected, hook=hook)
    write_head, write_event = build_write_queries(after, done.event)
    yield write_head
    yield write_event
    return done


def _delete_session(key: SessionKey) -> SqlSteps[bool]:
    found = yield build_head_query(key)
    delete_events, delete_session = build_delete_queries(key)
    yield delete_events
    yield delete_session
    return bool(found)


def _end_lease(lease: SessionLease) -> SqlSteps[None]:
    last = yield from _read_lease(lease.key)
    if last.epoch == lease.epoch:
        yield build_set_lease_query(lease.key, replace(last, holder=""))
