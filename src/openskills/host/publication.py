"""Published skills: the `.well-known` indexes, archives, marketplace and plugins, and a registry for `npx skills`.

What a caller gets is what the catalog of the host shows to it. Who may read is `OPENSKILL_HOST_PUBLISH`.
"""

import asyncio
import hashlib
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from openskills.catalog.catalog import Catalog
from openskills.catalog.publish import (
    MAX_BYTES,
    Publication,
    PublishedSkill,
    SkillPublisher,
    UnpublishedSkill,
    build_archive,
    build_index,
    build_marketplace,
    build_old_index,
    build_plugin,
    list_plugins,
    read_published,
    to_json,
)
from openskills.catalog.skill import SKILL_FILE
from openskills.errors import InvalidArgument, UnsupportedMedia
from openskills.executors.files.mime import SNIFF_BYTES, detect_mime_type
from openskills.host import http
from openskills.host.auth import ANONYMOUS, Principal, is_loopback
from openskills.host.commands import HostCaller
from openskills.host.http import HttpExchange, HttpRefusal, HttpResponse, build_document, trace_headers
from openskills.host.parts import HostParts
from openskills.host.routes import PublicRouteHandler
from openskills.settings import Settings

DEFAULT_NAME = "openskills"
"""The name of the marketplace of a host without a public host name."""
REPOSITORY = "skills"
"""The repository of all skills for `npx skills`, which knows skills as OWNER/REPOSITORY/NAME. The owner is the team."""
LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
"""Names of this machine in documents. They are few, because an archive is built for each."""
MAX_HITS = 100
MAX_CATALOGS = 32
"""How many catalogs stay open, if callers see different directories."""
_CACHE_BYTES = 64 << 20
_MAX_DIGESTS = 10_000
_HOST = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
_log = logging.getLogger("openskills.host")

PublishedHandler = Callable[[HttpExchange, HostParts, Principal], Awaitable[HttpResponse]]


class PublishedCatalog:
    """The skills of some directories, and what can be published of them. Blocking."""

    def __init__(self, directories: Sequence[Path], settings: Settings) -> None:
        self.catalog = Catalog.from_paths(*directories, settings=settings) if directories else Catalog([], settings)
        self.publication = Publication({})
        self._publisher = SkillPublisher(self.catalog)
        self._reported: set[UnpublishedSkill] = set()
        self.next_refresh = 0.0

    def refresh(self) -> None:
        """Look for changes on disk, and log what is left out and was not before."""
        began = time.monotonic()
        self.catalog.refresh()
        self.publication = self._publisher.collect()
        for one in self.publication.left_out:
            if one not in self._reported:
                _log.warning("not published: %s: %s", one.path, one.reason)
        self._reported = set(self.publication.left_out)
        # With very many skills, half of the time at most is spent on looking for changes.
        self.next_refresh = 2 * time.monotonic() - began


class PublishedSkills:
    """The published skills of one host, with a handler for each route."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._catalogs: dict[tuple[Path, ...], PublishedCatalog] = {}
        self._built: dict[tuple[str, ...], bytes] = {}
        self._digests: dict[tuple[str, ...], str] = {}

    async def open_catalog(self, parts: HostParts, principal: Principal) -> PublishedCatalog:
        """The skills of the host and the uploads that a caller may see, as they are on disk now."""
        directories = tuple(parts.list_skill_directories(parts.catalogs.find_owner(principal)))
        async with self._lock:
            if not self._catalogs:
                parts.on_reload.append(self._invalidate)
            found = self._catalogs.pop(directories, None)
            if found is None:
                found = await asyncio.to_thread(PublishedCatalog, directories, parts.settings)
            if time.monotonic() >= found.next_refresh:
                await asyncio.to_thread(found.refresh)
            # Last used last.
            self._catalogs[directories] = found
            if len(self._catalogs) > MAX_CATALOGS:
                del self._catalogs[next(iter(self._catalogs))]
        return found

    async def find(self, parts: HostParts, principal: Principal) -> Publication:
        """What a caller may read."""
        caller = HostCaller(parts.host, principal)
        found = (await self.open_catalog(parts, principal)).publication
        return found.select(lambda one: caller.can_use(one.name))

    def _invalidate(self) -> None:
        for one in self._catalogs.values():
            one.next_refresh = 0.0

    async def show_index(self, exchange: HttpExchange, parts: HostParts, principal: Principal) -> HttpResponse:
        """`index.json` of version 0.2.0, of all skills, one team (`/TEAM`) or one skill (`/TEAM@SKILL`, `/@SKILL`)."""
        skills = await self._find_in_scope(exchange, parts, principal)
        return _build_json(exchange, parts, build_index(skills.values()))

    async def show_old_index(self, exchange: HttpExchange, parts: HostParts, principal: Principal) -> HttpResponse:
        """`index.json` of version 0.1.0."""
        skills = await self._find_in_scope(exchange, parts, principal)
        return _build_json(exchange, parts, build_old_index(skills.values()))

    async def send_file(self, exchange: HttpExchange, parts: HostParts, principal: Principal) -> HttpResponse:
        """`NAME.zip`, or one file of a skill as `NAME/PATH`."""
        skills = await self._find_in_scope(exchange, parts, principal)
        name, slash, path = exchange.scope["path_params"]["path"].partition("/")
        skill = skills.get(name if slash else name.removesuffix(".zip"))
        if skill is None or (path not in skill.files if slash else not name.endswith(".zip")):
            raise HttpRefusal(http.unknown_address(exchange.path))
        if not slash:
            data = await self._build(("skill", skill.name, skill.digest), lambda: build_archive(read_published(skill)))
            return _build_response(exchange, parts, data, "application/zip")
        data = await asyncio.to_thread(skill.skill.read, path, limit=MAX_BYTES)
        kind = "text/markdown" if path == SKILL_FILE else detect_mime_type(path, data[:SNIFF_BYTES])
        return _build_response(exchange, parts, data, kind)

    async def show_marketplace(self, exchange: HttpExchange, parts: HostParts, principal: Principal) -> HttpResponse:
        """A marketplace whose plugins are archives of this host."""
        url = find_public_url(exchange, parts)
        name = marketplace_name(url)
        plugins = list_plugins(name, [*(await self.find(parts, principal)).skills.values()])
        sources: dict[str, Mapping[str, str]] = {}
        for plugin, members in plugins.items():
            key, build = _plan_plugin(plugin, members, _mcp_url(url, parts) if plugin == name else "")
            if key not in self._digests:
                data = await self._build(key, build)
                self._digests[key] = hashlib.sha256(data).hexdigest()
            address = f"{url}/plugins/{plugin}.zip"
            sources[plugin] = {"source": "archive", "url": address, "sha256": self._digests[key]}
        if len(self._digests) > _MAX_DIGESTS:
            self._digests.clear()
        return _build_json(exchange, parts, build_marketplace(name, plugins, sources))

    async def send_plugin(self, exchange: HttpExchange, parts: HostParts, principal: Principal) -> HttpResponse:
        """A plugin of the marketplace as `NAME.zip`."""
        url = find_public_url(exchange, parts)
        name = marketplace_name(url)
        skills = [*(await self.find(parts, principal)).skills.values()]
        wanted: str = exchange.scope["path_params"]["name"]
        members = list_plugins(name, skills).get(wanted)
        if members is None:
            raise HttpRefusal(http.unknown_address(exchange.path))
        data = await self._build(*_plan_plugin(wanted, members, _mcp_url(url, parts) if wanted == name else ""))
        return _build_response(exchange, parts, data, "application/zip")

    async def search(self, exchange: HttpExchange, parts: HostParts, principal: Principal) -> HttpResponse:
        """`?q=WORDS&limit=N&owner=TEAM`, for `npx skills find`."""
        query = exchange.read_query()
        words, owner, limit = query.get("q", ""), query.get("owner", ""), _parse_limit(query.get("limit", "20"))
        url = find_public_url(exchange, parts)
        publication = await self.find(parts, principal)
        snapshot = (await self.open_catalog(parts, principal)).catalog.snapshot
        hits = await asyncio.to_thread(snapshot.search, words, max(len(snapshot.skills), 1))
        found = [publication.skills[hit.skill.name] for hit in hits if hit.skill.name in publication.skills]
        chosen = [one for one in found if not owner or owner == _owner_of(one)][:limit]
        rows = [
            {
                "id": f"{_owner_of(one)}/{REPOSITORY}/{one.name}",
                "name": one.name,
                "source": f"{url}/{one.team}",
                "installs": 0,
            }
            for one in chosen
        ]
        return _build_json(exchange, parts, {"query": words, "count": len(rows), "skills": rows})

    async def download(self, exchange: HttpExchange, parts: HostParts, principal: Principal) -> HttpResponse:
        """A skill as JSON, `/TEAM/skills/NAME`, for `npx skills`. It has texts only."""
        wanted = exchange.scope["path_params"]
        skill = (await self.find(parts, principal)).skills.get(wanted["slug"])
        if skill is None or (wanted["owner"], wanted["repo"]) != (_owner_of(skill), REPOSITORY):
            raise HttpRefusal(http.unknown_address(exchange.path))
        files = await asyncio.to_thread(read_published, skill)
        try:
            rows = [{"path": one.path, "contents": one.data.decode()} for one in files]
        except UnicodeDecodeError:
            place = f"{find_public_url(exchange, parts)}/{skill.team}".rstrip("/") + "/.well-known/agent-skills"
            message = f"{skill.name} has files that are not text; use the archive {place}/{skill.name}.zip"
            raise UnsupportedMedia(message) from None
        return _build_json(exchange, parts, {"files": rows, "hash": skill.digest})

    async def show_published(self, exchange: HttpExchange, parts: HostParts, principal: Principal) -> HttpResponse:
        """What is published and, for callers who may use all skills, what is left out and why.

        With `open`, the reasons are for callers with a key: they contain names of folders.
        """
        found = await self.find(parts, principal)
        rows = [{"name": one.name, "team": one.team, "digest": f"sha256:{one.digest}"} for one in found.skills.values()]
        is_stranger = parts.settings.host_publish == "open" and principal is ANONYMOUS
        is_restricted = is_stranger or HostCaller(parts.host, principal).is_restricted
        hidden = () if is_restricted else (await self.open_catalog(parts, principal)).publication.left_out
        left_out = [{"name": one.name, "reason": one.reason} for one in hidden]
        shown = {"skills": rows, "teams": list(found.teams), "left_out": left_out}
        return build_document(shown, exchange.trace, latency_ms=exchange.latency_ms)

    async def _find_in_scope(
        self, exchange: HttpExchange, parts: HostParts, principal: Principal
    ) -> Mapping[str, PublishedSkill]:
        found = await self.find(parts, principal)
        scope: str = exchange.scope["path_params"].get("scope", "")
        if not scope:
            return found.skills
        # `npx skills find` shows SOURCE@SKILL, so that this has to be the address of one skill.
        team, at, skill = scope.partition("@")
        chosen = found.select(lambda one: one.team == (team or one.team) and one.name == (skill if at else one.name))
        if not chosen.skills:
            raise HttpRefusal(http.unknown_address(exchange.path))
        return chosen.skills

    async def _build(self, key: tuple[str, ...], build: Callable[[], bytes]) -> bytes:
        """An archive, built now or before. One at a time, because each is in memory as a whole."""
        async with self._lock:
            data = self._built.pop(key, None) or await asyncio.to_thread(build)
            # Last used last.
            self._built[key] = data
            while sum(map(len, self._built.values())) > _CACHE_BYTES:
                del self._built[next(iter(self._built))]
        return data


def publish_route(handler: PublishedHandler) -> PublicRouteHandler:
    """A route for everybody who may read published skills."""

    async def handle(exchange: HttpExchange, parts: HostParts | None) -> HttpResponse:
        if parts is None:
            raise HttpRefusal(http.host_starting())
        mode = parts.settings.host_publish
        if mode == "off":
            raise HttpRefusal(http.unknown_address(exchange.path))
        if mode == "open" and not has_key(exchange):
            return await handler(exchange, parts, ANONYMOUS)
        return await handler(exchange, parts, parts.authenticator.authenticate(exchange))

    return handle


def has_key(exchange: HttpExchange) -> bool:
    """Whether a request has an API key, valid or not."""
    return not {b"authorization", b"x-api-key"}.isdisjoint(exchange.headers)


def find_public_url(exchange: HttpExchange, parts: HostParts) -> str:
    """The address of this host for URLs in documents, without a trailing slash.

    Without `OPENSKILL_HOST_PUBLIC_URL` it is the `Host` of the request, if that is the address that the request came to
    or, on a loopback address, one of `LOCAL_NAMES`. Raises `HttpRefusal` for any other: callers could put every name
    there.
    """
    if parts.settings.host_public_url is not None:
        return parts.settings.host_public_url
    host = exchange.header(b"host") or ""
    bare = urlsplit(f"//{host}").hostname if _HOST.fullmatch(host) else None
    server = exchange.scope.get("server")
    address = str(server[0]) if server is not None else ""
    if bare is None or not (bare == address or (bare in LOCAL_NAMES and is_loopback(address))):
        raise HttpRefusal(http.unknown_public_url(host))
    return f"{exchange.scope.get('scheme', 'http')}://{host}{exchange.scope.get('root_path') or ''}"


def marketplace_name(url: str) -> str:
    """The name of the marketplace at a URL: the host name with hyphens, as two hosts must have different names."""
    host = urlsplit(url).hostname or ""
    is_address = ":" in host or host.replace(".", "").isdigit()
    name = re.sub(r"[^a-z0-9]+", "-", host.lower()).strip("-")[:64].strip("-")
    return DEFAULT_NAME if is_loopback(host) or is_address or not name else name


def _mcp_url(url: str, parts: HostParts) -> str:
    """The URL of /mcp, if plugins may contain it: over plain HTTP only on this machine."""
    parsed = urlsplit(url)
    is_allowed = parsed.scheme == "https" or is_loopback(parsed.hostname or "")
    return f"{url}/mcp" if is_allowed and parts.options.mcp_tools != "off" else ""


def _plan_plugin(
    plugin: str, members: Sequence[PublishedSkill], mcp_url: str
) -> tuple[tuple[str, ...], Callable[[], bytes]]:
    """What the content of a plugin depends on: its name, skills and server. And the function that builds it."""
    lines = "".join(f"{one.name}\0{one.digest}\n" for one in members)
    digest = hashlib.sha256(f"{mcp_url}\n{lines}".encode()).hexdigest()
    return ("plugin", plugin, digest), lambda: build_archive(build_plugin(plugin, members, mcp_url))


def _owner_of(skill: PublishedSkill) -> str:
    return skill.team or DEFAULT_NAME


def _parse_limit(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < len(text) < 10 and int(text) > 0):
        raise InvalidArgument("limit", f"invalid limit {text[:50]!r}: expected an integer from 1 to {MAX_HITS}")
    return min(int(text), MAX_HITS)


def _build_json(exchange: HttpExchange, parts: HostParts, value: object) -> HttpResponse:
    return _build_response(exchange, parts, to_json(value), "application/json")


def _build_response(exchange: HttpExchange, parts: HostParts, body: bytes, kind: str) -> HttpResponse:
    """A document that caches may keep but must check: 304 if the caller has it already."""
    tag = f'"{hashlib.sha256(body).hexdigest()}"'
    is_open = parts.settings.host_publish == "open" and not has_key(exchange)
    headers = [
        (b"etag", tag.encode()),
        (b"cache-control", b"public, no-cache" if is_open else b"private, no-cache"),
        (b"vary", b"Authorization, Host, X-Api-Key"),
        (b"x-content-type-options", b"nosniff"),
        *trace_headers(exchange.trace),
    ]
    if is_open:
        headers.append((b"access-control-allow-origin", b"*"))
    known = [one.strip().removeprefix("W/") for one in (exchange.header(b"if-none-match") or "").split(",")]
    if tag in known or "*" in known:
        return HttpResponse(304, headers, b"")
    headers += [(b"content-type", kind.encode()), (b"content-length", b"%d" % len(body))]
    return HttpResponse(200, headers, body)
