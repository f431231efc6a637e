"""Open a session store by URL; only the module of the chosen store is imported."""

from importlib.util import find_spec
from pathlib import Path
from typing import cast
from urllib.parse import unquote

from openskills.arguments import check_arguments, find_plugin
from openskills.errors import InvalidArgument, MissingExtra
from openskills.session.memory import MemorySessionStore
from openskills.session.sqlite import SqliteSessionStore
from openskills.session.store import AppendEventHook, SessionStore
from openskills.settings import Settings

FORMS = (
    "memory:",
    "sqlite:///relative/path.db",
    "sqlite:////absolute/path.db",
    "postgresql://user:password@host/database",
    "redis://user:password@host/0",
)
"""The supported URLs."""

DEFAULT_FILE = "sessions.db"


@check_arguments
def open_session_store(url: str | None, settings: Settings, *, hook: AppendEventHook | None = None) -> SessionStore:
    """The store of a URL of one of the `FORMS`; by default an SQLite file in the state directory.

    `rediss` is Redis over TLS. Other schemes are entry points in the group `openskills.session_stores`. Nothing is
    opened yet. `hook` is called with every event before it is stored. Raises `InvalidArgument` for another URL, which
    the message does not repeat because of passwords, and `MissingExtra` when the package of the store is not installed.
    """
    if url is None:
        return SqliteSessionStore(settings.state_dir / DEFAULT_FILE, hook)
    scheme, _, rest = url.partition(":")
    if scheme == "memory" and rest in ("", "//"):
        return MemorySessionStore(hook)
    if rest.startswith("//"):
        if scheme == "sqlite":
            return SqliteSessionStore(_resolve_file(url, settings), hook)
        if scheme in ("postgresql", "postgres"):
            if find_spec("asyncpg") is None:
                raise MissingExtra("postgres", "a session store in PostgreSQL")
            from openskills.session.postgres import PostgresSessionStore

            return PostgresSessionStore(url, hook)
        if scheme in ("redis", "rediss"):
            if find_spec("redis") is None:
                raise MissingExtra("redis", "a session store in Redis")
            from openskills.session.redis import RedisSessionStore

            return RedisSessionStore(url, hook)
    if (plugin := find_plugin("openskills.session_stores", scheme, "store")) is not None:
        return cast("SessionStore", plugin(url, settings, hook=hook))
    raise InvalidArgument("store", f"unknown URL; use one of {', '.join(FORMS)}")


def _resolve_file(url: str, settings: Settings) -> Path:
    whole = url.removeprefix("sqlite://")
    path = unquote(whole.removeprefix("/"))
    if path == ":memory:":
        raise InvalidArgument("store", "an SQLite database in memory cannot be shared; use memory: instead")
    if not whole.startswith("/") or not path or path.endswith("/") or "?" in whole or "#" in whole or "\0" in path:
        raise InvalidArgument(
            "store",
            "sqlite:/// must be followed by the path of a file: sqlite:///sessions.db is in the current directory,"
            " sqlite:////var/lib/sessions.db is absolute; in paths write ? # % as %3F %23 %25",
        )
    return settings.home / path.removeprefix("~/") if path.startswith("~/") else Path(path)
