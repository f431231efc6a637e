"""Sessions of the console, their cookies, and `Console`, what the pages of one host share.

On this machine a session is opened with a link that works once, as Jupyter does; elsewhere with an API key, which is
sent in the body of a request. The browser then has a random cookie, of which only the hash is stored.
"""

import asyncio
import hashlib
import secrets
import sqlite3
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from openskills.errors import InvalidArgument, SkillError, Unauthorized
from openskills.host import http
from openskills.host.auth import CONSOLE, KeyRing, Principal
from openskills.host.database import BUSY_TIMEOUT, Database, HostDatabaseConnection
from openskills.host.http import HttpExchange, HttpRefusal
from openskills.settings import Settings
from openskills.sql import SqliteConnection

if TYPE_CHECKING:
    from openskills.catalog.catalog import Catalog
    from openskills.catalog.watch import CatalogWatcher

COOKIE = "openskills_console"
LINK_SECONDS = 60 * 60.0
SESSION_SECONDS = 7 * 24 * 60 * 60.0
USED_INTERVAL = 60.0
"""Seconds between two notes that a session was used."""
_MAX_TEXT = 200
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_COLUMNS = "id, key_digest, created, used, expires, address, browser"


@dataclass(frozen=True, slots=True)
class ConsoleSession:
    """A browser that has access. `key` is the name of its key, or None if it was opened with a link."""

    id: str
    key: str | None
    role: str
    created: float
    used: float
    expires: float
    address: str
    browser: str

    def to_dict(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__slots__}


def find_database(settings: Settings) -> Path:
    """The file with links and sessions: the host's database, also if no history is recorded."""
    return settings.host_history or settings.state_dir / "host.db"


class ConsoleSessions:
    """Links and sessions in the host's database, shared by all workers and the command line.

    A session that was opened with a key ends when the key is revoked, replaced or expires. `authenticate` belongs to
    one thread, because it reads the file at once: that takes microseconds and never waits for writers.
    """

    def __init__(self, path: Path, keys: KeyRing) -> None:
        self._keys = keys
        self._database = Database(path)
        self._reader = HostDatabaseConnection(path, BUSY_TIMEOUT)

    async def create_link(self) -> str:
        """A secret that opens one session, within an hour."""
        token, now = secrets.token_urlsafe(32), time.time()

        def insert(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM console_links WHERE expires < ?", (now,))
            connection.execute("INSERT INTO console_links VALUES (?, ?)", (_digest(token), now + LINK_SECONDS))

        await self._database.write(insert)
        return token

    async def open_with_link(self, token: str, exchange: HttpExchange) -> str | None:
        """The cookie of a new session with all rights; None if the link was used, has expired or is unknown."""

        def use(connection: sqlite3.Connection) -> bool:
            arguments = (_digest(token), time.time())
            return (
                connection.execute("DELETE FROM console_links WHERE digest = ? AND expires > ?", arguments).rowcount
                == 1
            )

        return await self._open("", exchange) if await self._database.write(use) else None

    async def open_with_key(self, key: str, exchange: HttpExchange) -> str:
        """The cookie of a new session with the rights of a key. Raises `Unauthorized`."""
        principal = self._keys.authenticate(f"Bearer {key.strip()}")
        if not principal.digest:
            raise Unauthorized("this host has no keys; use a link")
        return await self._open(principal.digest, exchange)

    async def _open(self, key_digest: str, exchange: HttpExchange) -> str:
        token, now = secrets.token_urlsafe(32), time.time()
        client = exchange.scope.get("client")
        address = str(client[0]) if client else ""
        browser = (exchange.header(b"user-agent") or "")[:_MAX_TEXT]
        row = (secrets.token_hex(6), _digest(token), key_digest, now, now, now + SESSION_SECONDS, address, browser)

        def insert(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM console_sessions WHERE expires < ?", (now,))
            connection.execute("INSERT INTO console_sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)

        await self._database.write(insert)
        return token

    def authenticate(self, exchange: HttpExchange) -> Principal | None:
        """The caller, or None without a valid session. Raises `HttpRefusal` for a change that another site asks for."""
        found = self.find(exchange)
        if found is None:
            return None
        if exchange.method not in _SAFE_METHODS:
            check_same_origin(exchange)
        return self._get_principal(found[1])

    def find(self, exchange: HttpExchange) -> tuple[str, str, float] | None:
        """The id of the session of a request, the digest of its key, and when it was last noted as used."""
        token = read_cookie(exchange, cookie_name(exchange))
        if not token:
            return None

        def select(connection: SqliteConnection) -> tuple[str, str, float] | None:
            sql = "SELECT id, key_digest, used FROM console_sessions WHERE digest = ? AND expires > ?"
            return connection.execute(sql, (_digest(token), time.time())).fetchone()

        found = self._reader.use(select)
        return found if found is not None and self._get_principal(found[1]) is not None else None

    async def touch(self, session_id: str) -> None:
        """Note that a session was used."""
        sql = "UPDATE console_sessions SET used = ? WHERE id = ?"
        await self._database.write(lambda connection: connection.execute(sql, (time.time(), session_id)))

    async def list(self) -> Sequence[ConsoleSession]:
        """The open sessions, last used first."""
        sql = f"SELECT {_COLUMNS} FROM console_sessions WHERE expires > ? ORDER BY used DESC"  # noqa: S608 - our own names
        rows = await self._database.read(lambda connection: connection.execute(sql, (time.time(),)).fetchall())
        found: list[ConsoleSession] = []
        for session_id, key_digest, *rest in rows:
            principal = self._get_principal(key_digest)
            if principal is not None:
                name = principal.name if key_digest else None
                found.append(ConsoleSession(session_id, name, principal.role, *rest))
        return found

    async def end(self, session_id: str) -> None:
        """End a session. Raises `InvalidArgument` for an unknown id."""
        sql = "DELETE FROM console_sessions WHERE id = ?"
        if not await self._database.write(lambda connection: connection.execute(sql, (session_id,)).rowcount):
            raise InvalidArgument(
                "id", f"unknown session {session_id[:50]!r}; `openskills console sessions` lists them"
            )

    def _get_principal(self, key_digest: str) -> Principal | None:
        return self._keys.find(key_digest) if key_digest else Principal(CONSOLE, role="admin")

    async def close(self) -> None:
        await self._database.close()
        self._reader.close()


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def cookie_name(exchange: HttpExchange) -> str:
    """The name of the cookie: with the port, because hosts on several ports of one machine share their cookies."""
    _, colon, port = (exchange.header(b"host") or "").rpartition(":")
    return f"{COOKIE}_{port}" if colon and port.isdigit() else COOKIE


def read_cookie(exchange: HttpExchange, name: str) -> str:
    """The value of a cookie of the request, or an empty text."""
    header = exchange.header(b"cookie") or ""
    if name not in header:
        return ""
    try:
        found = SimpleCookie(header).get(name)
    except CookieError:
        return ""
    return found.value if found is not None else ""


def build_cookie(exchange: HttpExchange, name: str, value: str, *, seconds: float, secret: bool = True) -> bytes:
    """A `Set-Cookie` header that only this site sends back; `seconds=0` removes the cookie."""
    is_https = "https" in (exchange.scope.get("scheme"), exchange.header(b"x-forwarded-proto"))
    path = exchange.scope.get("root_path") or "/"
    flags = "; HttpOnly" * secret + "; Secure" * is_https
    return f"{name}={value}; Path={path}; Max-Age={seconds:.0f}; SameSite=Strict{flags}".encode("latin-1")


def check_same_origin(exchange: HttpExchange) -> None:
    """Raise `HttpRefusal` unless a request was made by a page of this host.

    Browsers send `Sec-Fetch-Site` or, over plain HTTP, `Origin` with everything that changes something.
    """
    site, origin = exchange.header(b"sec-fetch-site"), exchange.header(b"origin")
    if site is not None:
        is_same = site in ("same-origin", "none")
    else:
        try:
            place = urlsplit(origin or "").netloc
        except ValueError:  # such as an address in brackets without an end
            raise HttpRefusal(http.wrong_origin(origin or "")) from None
        is_same = origin is not None and place.lower() == (exchange.header(b"host") or "").lower()
    if not is_same or (origin is not None and origin == "null"):
        raise HttpRefusal(http.wrong_origin(origin or site or "unknown pages"))


class Console:
    """What the pages of one host share: sessions, and the catalog, which is opened with the first page."""

    def __init__(
        self, settings: Settings, skills: Sequence[Path], start: Path, keys: KeyRing, *, trusted: bool
    ) -> None:
        self._settings = settings
        self._skills = tuple(skills)
        self._start = start
        self._trusted = trusted
        self._opening = asyncio.Lock()
        self._catalog: Catalog | None = None
        self._watcher: CatalogWatcher | None = None
        self.sessions = ConsoleSessions(find_database(settings), keys)
        self.opened = time.time()

    async def open_catalog(self) -> "Catalog":
        """The skills of the given directories, by default of the standard places. It follows changes on disk."""
        if self._catalog is None:
            async with self._opening:
                if self._catalog is None:
                    self._catalog = await asyncio.to_thread(self._load)
        return self._catalog

    async def preload(self) -> None:
        """Open the catalog and import what renders pages, so that the first page is quick."""
        # The page that needs it says what is wrong.
        with suppress(SkillError):
            await self.open_catalog()
        await asyncio.to_thread(import_module, "openskills.host.console.pages")

    def _load(self) -> "Catalog":
        from openskills.catalog.catalog import Catalog

        if self._skills:
            catalog = Catalog.from_paths(*self._skills, settings=self._settings)
        else:
            catalog = Catalog.standard(self._start, trusted=self._trusted, settings=self._settings)
        self._watcher = catalog.watch()
        return catalog

    async def close(self) -> None:
        if self._watcher is not None:
            await asyncio.to_thread(self._watcher.close)
        await self.sessions.close()
