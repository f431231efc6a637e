"""Sessions of the console, their cookies, and `Console`, what the pages of one host share.

On this machine a session is opened with a link that works once, as Jupyter does; elsewhere with an API key, which is
sent in the body of a request. The browser then has a random cookie, of which only the hash is stored.
"""

import asyncio
import hashlib
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from starlette.requests import cookie_parser

from openskills.errors import InvalidArgument, SkillError, Unauthorized
from openskills.filesystem import make_private
from openskills.host import http
from openskills.host.auth import CONSOLE, OWNER_MARK, WRITE_SCOPE, KeyRing, Principal
from openskills.host.database import BUSY_TIMEOUT, Database, HostDatabaseConnection, find_database
from openskills.host.http import HttpExchange, HttpRefusal
from openskills.host.skills import SkillStore, StoredSkill
from openskills.postgres import PostgresUrl
from openskills.settings import Settings
from openskills.sql import SqlConnection, select_rows

if TYPE_CHECKING:
    from openskills.catalog.catalog import Catalog
    from openskills.catalog.skill import Skill
    from openskills.catalog.watch import CatalogWatcher

COOKIE = "openskills_console"
LINK_SECONDS = 60 * 60.0
SESSION_SECONDS = 7 * 24 * 60 * 60.0
USED_INTERVAL = 60.0
"""Seconds between two notes that a session was used."""
_MAX_TEXT = 200
_CACHE_SECONDS, _MAX_CACHED = 1.0, 1_000
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


class ConsoleSessions:
    """Links and sessions in the host's database, shared by all workers and the command line.

    A session that was opened with a key ends when the key is revoked, replaced or expires. `authenticate` belongs to
    one thread, because it reads the file at once: that takes microseconds and never waits for writers. With PostgreSQL
    sessions are cached for a second, also those that do not exist.
    """

    def __init__(self, place: Path | PostgresUrl, keys: KeyRing) -> None:
        self._keys = keys
        self._database = Database(place)
        self._reader = HostDatabaseConnection(self._database.path, BUSY_TIMEOUT)
        self._cached: dict[str, tuple[float, tuple[str, str, float] | None]] = {}

    async def create_link(self) -> str:
        """A secret that opens one session, within an hour."""
        token, now = secrets.token_urlsafe(32), time.time()

        def insert(connection: SqlConnection) -> None:
            connection.execute("DELETE FROM console_links WHERE expires < ?", (now,))
            connection.execute("INSERT INTO console_links VALUES (?, ?)", (_digest(token), now + LINK_SECONDS))

        await self._database.write(insert)
        return token

    async def open_with_link(self, token: str, exchange: HttpExchange) -> str | None:
        """The cookie of a new session with all rights; None if the link was used, has expired or is unknown."""

        def use(connection: SqlConnection) -> bool:
            sql = "DELETE FROM console_links WHERE digest = ? AND expires > ?"
            return connection.execute(sql, (_digest(token), time.time())).rowcount == 1

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

        def insert(connection: SqlConnection) -> None:
            connection.execute("DELETE FROM console_sessions WHERE expires < ?", (now,))
            connection.execute("INSERT INTO console_sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)

        await self._database.write(insert)
        return token

    def authenticate(self, exchange: HttpExchange) -> Principal | None:
        """The caller, or None without a valid session. Raises `HttpRefusal` for a change that another site asks for."""
        found = self.find(exchange)
        if found is None:
            return None
        if exchange.method not in http.SAFE_METHODS:
            check_same_origin(exchange)
        return found[1]

    def find(self, exchange: HttpExchange) -> tuple[str, Principal, float] | None:
        """The id of the session of a request, its caller, and when it was last noted as used."""
        token = read_cookie(exchange, cookie_name(exchange))
        found = self._find_row(_digest(token)) if token else None
        principal = None if found is None else self._get_principal(found[1])
        return None if found is None or principal is None else (found[0], principal, found[2])

    def _find_row(self, digest: str) -> tuple[str, str, float] | None:
        def select(connection: SqlConnection) -> tuple[str, str, float] | None:
            sql = "SELECT id, key_digest, used FROM console_sessions WHERE digest = ? AND expires > ?"
            for session_id, key_digest, used in select_rows(connection, sql, (digest, time.time())):
                return session_id, key_digest, used
            return None

        if not self._database.is_shared:
            return self._reader.use(select)
        now = time.monotonic()
        known = self._cached.get(digest)
        if known is None or now - known[0] > _CACHE_SECONDS:
            if len(self._cached) >= _MAX_CACHED:
                self._cached.clear()
            known = self._cached[digest] = (now, self._database.read_blocking(select))
        return known[1]

    async def touch(self, session_id: str) -> None:
        """Note that a session was used."""
        sql = "UPDATE console_sessions SET used = ? WHERE id = ?"
        await self._database.write(lambda connection: connection.execute(sql, (time.time(), session_id)))

    async def list(self) -> Sequence[ConsoleSession]:
        """The open sessions, last used first."""
        sql = f"SELECT {_COLUMNS} FROM console_sessions WHERE expires > ? ORDER BY used DESC"  # noqa: S608 - our own names
        rows = await self._database.read(lambda connection: select_rows(connection, sql, (time.time(),)))
        found: list[ConsoleSession] = []
        for session_id, key_digest, *rest in rows:
            principal = self._get_principal(key_digest)
            if principal is not None:
                name = principal.name if key_digest else None
                found.append(ConsoleSession(session_id, name, principal.role, *rest))
        return found

    async def end(self, session_id: str) -> None:
        """End a session. Raises `InvalidArgument` for an unknown id."""
        self._cached.clear()
        sql = "DELETE FROM console_sessions WHERE id = ?"
        if not await self._database.write(lambda connection: connection.execute(sql, (session_id,)).rowcount):
            message = f"unknown session {session_id[:50]!r}; `openskills console sessions` lists them"
            raise InvalidArgument("id", message)

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
    return cookie_parser(exchange.header(b"cookie") or "").get(name, "")


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


Handler = TypeVar("Handler")


def find_handler(
    exchange: HttpExchange, path: str, routes: Iterable[tuple[str, re.Pattern[str], Handler]]
) -> tuple[Handler, dict[str, str]]:
    """What handles a method and a path, and the parameters of the path. Raises `HttpRefusal`."""
    allowed: list[str] = []
    for method, pattern, handler in routes:
        match = pattern.fullmatch(path)
        if match is not None and exchange.method in (method, "HEAD" if method == "GET" else method):
            return handler, match.groupdict()
        allowed += [method] if match is not None else []
    if allowed:
        raise HttpRefusal(http.wrong_method(exchange.method, allowed), allow=tuple(allowed))
    raise HttpRefusal(http.unknown_address(exchange.path))


MAX_PRIVATE_CATALOGS = 32
"""Catalogs with private uploads that stay open while nobody uses them."""


class Console:
    """What the pages of one host share: sessions, and catalogs, which are opened with the first page that needs them.

    Each owner of private uploads has a catalog of its own: the skills for everybody, and its uploads.
    """

    def __init__(
        self,
        settings: Settings,
        skills: Sequence[Path],
        start: Path,
        keys: KeyRing,
        *,
        trusted: bool,
        uploads: SkillStore | None = None,
    ) -> None:
        self._settings = settings
        self._skills = tuple(skills)
        self._start = start
        self._trusted = trusted
        self._uploads = uploads
        self._private: WeakValueDictionary[str, Catalog] = WeakValueDictionary()
        self._recent: OrderedDict[str, Catalog] = OrderedDict()
        self._next_refresh: dict[str, float] = {}
        self._opening = asyncio.Lock()
        self._catalog: Catalog | None = None
        self._watcher: CatalogWatcher | None = None
        self.sessions = ConsoleSessions(find_database(settings), keys)
        self.opened = time.time()

    async def open_catalog(self, owner: str = "") -> "Catalog":
        """The skills of the given directories, by default of the standard places. It follows changes on disk.

        With an owner, its private uploads are included, before others of the same names.
        """
        if owner:
            return await self._open_private(owner)
        if self._catalog is None:
            async with self._opening:
                if self._catalog is None:
                    self._catalog = await asyncio.to_thread(self._load)
        return self._catalog

    def find_owner(self, principal: Principal) -> str:
        """The owner of the private uploads that a caller has or may have; empty if it has none and cannot have any."""
        owner, uploads = principal.owner, self._uploads
        if uploads is None or not owner:
            return ""
        return owner if WRITE_SCOPE in principal.scopes or uploads.get_live(owner).is_dir() else ""

    def is_private(self, skill: "Skill", owner: str) -> bool:
        """Whether a skill is a private upload of this owner."""
        return bool(owner) and self._uploads is not None and skill.path.is_relative_to(self._uploads.get_live(owner))

    async def list_private(self, principal: Principal) -> "Sequence[StoredSkill]":
        """The private uploads of all other keys, for administrators; nothing for others."""
        if self._uploads is None or not principal.has_role("admin"):
            return ()
        return [one for one in await self._uploads.list_private() if one.owner != principal.owner]

    async def find_private(self, principal: Principal, name: str) -> "tuple[Skill, str] | None":
        """The private upload that an administrator means by `NAME~OWNER`, and its owner; None if there is none."""
        for one in await self.list_private(principal):
            if f"{one.name}{OWNER_MARK}{one.owner}" == name:
                skill = (await self.open_catalog(one.owner)).snapshot.find(one.name)
                return (skill, one.owner) if self.is_private(skill, one.owner) else None
        return None

    async def _open_private(self, owner: str) -> "Catalog":
        assert self._uploads is not None  # noqa: S101 - otherwise nobody has uploads
        async with self._opening:
            catalog = self._private.get(owner)
            if catalog is None:
                from openskills.catalog.catalog import Catalog

                directories = (*self._skills, make_private(self._uploads.get_live(owner)))
                catalog = await asyncio.to_thread(Catalog.from_paths, *directories, settings=self._settings)
            elif time.monotonic() >= self._next_refresh.get(owner, 0.0):
                began = time.monotonic()
                await asyncio.to_thread(catalog.refresh)
                # With very many skills, half of the time at most is spent on looking for changes.
                self._next_refresh[owner] = 2 * time.monotonic() - began
            # Commands that run keep theirs, too, so that there are never two for one owner.
            self._private[owner] = self._recent[owner] = catalog
            self._recent.move_to_end(owner)
            while len(self._recent) > MAX_PRIVATE_CATALOGS:
                self._next_refresh.pop(self._recent.popitem(last=False)[0], None)
        return catalog

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
        self._recent.clear()
        if self._watcher is not None:
            await asyncio.to_thread(self._watcher.close)
        await self.sessions.close()
