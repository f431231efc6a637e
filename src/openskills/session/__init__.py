"""Sessions: the state of conversations, their event logs, and the stores that keep them."""

from typing import TYPE_CHECKING

from openskills.lazy import lazy_exports

if TYPE_CHECKING:
    from openskills.session.events import Event as Event
    from openskills.session.events import apply_delta as apply_delta
    from openskills.session.events import check_id as check_id
    from openskills.session.events import event_from_json as event_from_json
    from openskills.session.events import event_to_json as event_to_json
    from openskills.session.events import new_event as new_event
    from openskills.session.keys import docs_key as docs_key
    from openskills.session.keys import format_array as format_array
    from openskills.session.keys import loaded_key as loaded_key
    from openskills.session.keys import loaded_prefix as loaded_prefix
    from openskills.session.keys import order_key as order_key
    from openskills.session.keys import parse_array as parse_array
    from openskills.session.memory import MemorySessionStore as MemorySessionStore
    from openskills.session.open import open_session_store as open_session_store
    from openskills.session.postgres import PostgresSessionStore as PostgresSessionStore
    from openskills.session.redis import RedisSessionStore as RedisSessionStore
    from openskills.session.sqlite import SqliteSessionStore as SqliteSessionStore
    from openskills.session.state import SkillState as SkillState
    from openskills.session.store import NO_LEASE as NO_LEASE
    from openskills.session.store import AppendResult as AppendResult
    from openskills.session.store import LeaseRecord as LeaseRecord
    from openskills.session.store import Session as Session
    from openskills.session.store import SessionInfo as SessionInfo
    from openskills.session.store import SessionKey as SessionKey
    from openskills.session.store import SessionLease as SessionLease
    from openskills.session.store import SessionStore as SessionStore
    from openskills.session.store import build_append_result as build_append_result
    from openskills.session.store import sort_latest_first as sort_latest_first
    from openskills.session.store import take_lease as take_lease
    from openskills.session.store import to_milliseconds as to_milliseconds

_MODULES = {
    "events": ("Event", "apply_delta", "check_id", "event_from_json", "event_to_json", "new_event"),
    "keys": ("docs_key", "format_array", "loaded_key", "loaded_prefix", "order_key", "parse_array"),
    "memory": ("MemorySessionStore",),
    "open": ("open_session_store",),
    "postgres": ("PostgresSessionStore",),
    "redis": ("RedisSessionStore",),
    "sqlite": ("SqliteSessionStore",),
    "state": ("SkillState",),
    "store": (
        "AppendResult",
        "LeaseRecord",
        "NO_LEASE",
        "Session",
        "SessionInfo",
        "SessionKey",
        "SessionLease",
        "SessionStore",
        "build_append_result",
        "sort_latest_first",
        "take_lease",
        "to_milliseconds",
    ),
}

# Hidden from type checkers: a module with __getattr__ would accept every misspelt name.
if not TYPE_CHECKING:
    __all__, __getattr__, __dir__ = lazy_exports(__name__, _MODULES)
