"""SQL queries on the session tables, for SQLite and PostgreSQL.

A query is the SQL and its arguments; `$1` is the first. Untrusted values are never part of the SQL.
"""

import json
from collections.abc import Sequence
from datetime import datetime

from openskills.session.events import Event, event_to_json
from openskills.session.store import (
    NO_LEASE,
    LeaseRecord,
    SessionHead,
    SessionInfo,
    SessionKey,
    digest_ids,
    state_to_json,
)
from openskills.sql import SqlQuery, SqlRow

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


def session_id(key: SessionKey) -> str:
    """The id of a session in the tables."""
    return digest_ids(key.app, key.user, key.session)


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
    """Delete the events, then the session; the second removes one row or none."""
    found = (session_id(key),)
    return (_DELETE_EVENTS, found), (_DELETE, found)


def build_lease_query(key: SessionKey) -> SqlQuery:
    """The last lease of a session: one row or none, for `lease_from_rows`."""
    return _LEASE, (session_id(key),)


def build_set_lease_query(key: SessionKey, lease: LeaseRecord) -> SqlQuery:
    """Store the last lease of a session."""
    return _SET_LEASE, (session_id(key), lease.epoch, lease.holder, lease.expires)


def lease_from_rows(rows: Sequence[SqlRow]) -> LeaseRecord:
    """The lease in the rows of `build_lease_query`."""
    return LeaseRecord(*rows[0]) if rows else NO_LEASE


def head_from_row(key: SessionKey, row: SqlRow) -> SessionHead:
    """The head in a row of `build_head_query`."""
    revision, begun, updated, state = row
    return SessionHead(key, revision, datetime.fromisoformat(begun), datetime.fromisoformat(updated), json.loads(state))


def info_from_row(app: str, user: str, row: SqlRow) -> SessionInfo:
    """The list entry in a row of `build_list_query`."""
    name, revision, begun, updated = row
    key = SessionKey(app, user, name)
    return SessionInfo(key, revision, datetime.fromisoformat(begun), datetime.fromisoformat(updated))
