"""From an address to a store of conversations; only what is chosen is imported."""

from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote

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
"""What can be asked for."""

DEFAULT_FILE = "sessions.db"

_FIELD = "store"


def open_session_store(url: str | None, settings: Settings, *, hook: AppendEventHook | None = None) -> SessionStore:
    """The store at an address of one of the `FORMS`; without one, an SQLite file in the directory for state.

    `rediss` is Redis over TLS. Nothing is opened yet. `hook` sees every event before it is stored. Raises
    `InvalidArgument` for an address of another form, which it does not repeat, because there may be a password in it,
    and `MissingExtra` when the package that the store needs is not installed.
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
            return _open_postgres(url, hook)
        if scheme in ("redis", "rediss"):
            return _open_redis(url, hook)
    raise InvalidArgument(_FIELD, f"the address has none of these forms: {', '.join(FORMS)}")


def _resolve_file(url: str, settings: Settings) -> Path:
    whole = url.removeprefix("sqlite://")
    path = unquote(whole.removeprefix("/"))
    if path == ":memory:":
        raise InvalidArgument(_FIELD, "a database in memory is another one for every process; write memory: instead")
    if not whole.startswith("/") or not path or path.endswith("/") or "?" in whole or "#" in whole or "\0" in path:
        raise InvalidArgument(
            _FIELD,
            "sqlite:/// is followed by the path of a file: sqlite:///sessions.db is in the current directory,"
            " sqlite:////var/lib/sessions.db is absolute; in paths write ? # % as %3F %23 %25",
        )
    return settings.home / path.removeprefix("~/") if path.startswith("~/") else Path(path)


def _open_postgres(url: str, hook: AppendEventHook | None) -> SessionStore:
    if find_spec("asyncpg") is None:
        raise MissingExtra("postgres", "a session store in PostgreSQL")
    from openskills.session.postgres import PostgresSessionStore

    return PostgresSessionStore(url, hook)


def _open_redis(url: str, hook: AppendEventHook | None) -> SessionStore:
    if find_spec("redis") is None:
        raise MissingExtra("redis", "a session store in Redis")
    from openskills.session.redis import RedisSessionStore

    return RedisSessionStore(url, hook)
