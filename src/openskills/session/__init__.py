"""Sessions: the state of conversations, their event logs, and the stores that keep them."""

from typing import TYPE_CHECKING

from openskills.lazy import lazy_exports

if TYPE_CHECKING:
    from openskills.session.events import Event, apply_delta, check_id, event_from_json, event_to_json, new_event
    from openskills.session.keys import docs_key, format_array, loaded_key, loaded_prefix, order_key, parse_array
    from openskills.session.memory import MemorySessionStore
    from openskills.session.open import open_session_store
    from openskills.session.postgres import PostgresSessionStore
    from openskills.session.redis import RedisSessionStore
    from openskills.session.sqlite import SqliteSessionStore
    from openskills.session.state import SkillState
    from openskills.session.store import (
        NO_LEASE,
        AppendResult,
        LeaseRecord,
        Session,
        SessionInfo,
        SessionKey,
        SessionLease,
        SessionStore,
        build_append_result,
        sort_latest_first,
        take_lease,
        to_milliseconds,
    )

__all__ = [
    "NO_LEASE",
    "AppendResult",
    "Event",
    "LeaseRecord",
    "MemorySessionStore",
    "PostgresSessionStore",
    "RedisSessionStore",
    "Session",
    "SessionInfo",
    "SessionKey",
    "SessionLease",
    "SessionStore",
    "SkillState",
    "SqliteSessionStore",
    "apply_delta",
    "build_append_result",
    "check_id",
    "docs_key",
    "event_from_json",
    "event_to_json",
    "format_array",
    "loaded_key",
    "loaded_prefix",
    "new_event",
    "open_session_store",
    "order_key",
    "parse_array",
    "sort_latest_first",
    "take_lease",
    "to_milliseconds",
]

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
        "NO_LEASE",
        "AppendResult",
        "LeaseRecord",
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
    __getattr__, __dir__ = lazy_exports(__name__, {name: home for home, names in _MODULES.items() for name in names})
