"""What one conversation has loaded, and the log of it."""

from typing import TYPE_CHECKING

from openskills.lazy import lazy_exports

if TYPE_CHECKING:
    from openskills.session.events import Event, apply_delta, new_event
    from openskills.session.keys import docs_key, format_array, loaded_key, loaded_prefix, order_key, parse_array
    from openskills.session.memory import MemorySessionStore
    from openskills.session.open import open_session_store
    from openskills.session.postgres import PostgresSessionStore
    from openskills.session.redis import RedisSessionStore
    from openskills.session.sqlite import SqliteSessionStore
    from openskills.session.state import SkillState
    from openskills.session.store import SessionKey, SessionStore

__all__ = [
    "Event",
    "MemorySessionStore",
    "PostgresSessionStore",
    "RedisSessionStore",
    "SessionKey",
    "SessionStore",
    "SkillState",
    "SqliteSessionStore",
    "apply_delta",
    "docs_key",
    "format_array",
    "loaded_key",
    "loaded_prefix",
    "new_event",
    "open_session_store",
    "order_key",
    "parse_array",
]

_HOME = {
    "Event": "events",
    "MemorySessionStore": "memory",
    "PostgresSessionStore": "postgres",
    "RedisSessionStore": "redis",
    "SessionKey": "store",
    "SessionStore": "store",
    "SkillState": "state",
    "SqliteSessionStore": "sqlite",
    "apply_delta": "events",
    "docs_key": "keys",
    "format_array": "keys",
    "loaded_key": "keys",
    "loaded_prefix": "keys",
    "new_event": "events",
    "open_session_store": "open",
    "order_key": "keys",
    "parse_array": "keys",
}

# Hidden from type checkers: a module with __getattr__ would accept every misspelt name.
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__, _HOME)
