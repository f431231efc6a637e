"""The screen Host and the routes below `/admin`: health, keys, sessions, sources, packages, workspaces and doctor.

Everything but the overview, and the workspaces of the caller (`/workspaces`), needs the role `admin`.
"""

import asyncio
import json
import os
import platform
import re
import resource
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from openskills.errors import InvalidArgument
from openskills.host import http
from openskills.host.admission import parse_limits
from openskills.host.auth import ROLES, Principal, StoredKey, create_key
from openskills.host.console.access import find_handler
from openskills.host.console.catalog import UPLOADS
from openskills.host.console.skill import run_doctor
from openskills.host.database import CHANGE_SKILLS, find_history, record_change
from openskills.host.http import HttpExchange, HttpRefusal, HttpResponse, build_document, read_body
from openskills.host.parts import HostParts
from openskills.host.strict_json import check_json, read_json
from openskills.postgres import PostgresUrl
from openskills.settings import Settings, parse_seconds
from openskills.version import __version__

if TYPE_CHECKING:
    from openskills.executors.environments import EnvironmentStore
    from openskills.executors.records.leases import WorkspaceStore
    from openskills.host.console.pages import PageRequest

_MAX_BODY = 64 * 1024
_KEY_FIELDS = ("name", "role", "scopes", "expires", "limits")


def describe_status(parts: HostParts) -> dict[str, Any]:
    """Health, limits and their use: of all worker processes, and memory and time of this one."""
    settings, options = parts.settings, parts.options
    workers, history = parts.metrics.list_workers(), find_history(settings)
    status = "draining" if parts.host.stopping or parts.host.draining else "ready" if parts.prepared else "starting"
    return {
        "status": status,
        "version": __version__,
        "python": platform.python_version(),
        "pid": os.getpid(),
        "workers": options.workers,
        "processes": [{**one, "is_this": one["pid"] == os.getpid()} for one in workers],
        "uptime_seconds": round(time.time() - parts.catalogs.opened, 1),
        # At its highest, in kilobytes except on macOS.
        "memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024),
        "executor": settings.executor,
        "authentication": settings.host_auth,
        "in_flight": sum(one["in_flight"] for one in workers),
        "concurrency": parts.host.capacity * parts.options.workers,
        "queue": settings.host_queue,
        "timeout_ms": settings.timeout_ms,
        "max_body": settings.host_max_body,
        "skills": dict(Counter(entry.status for entry in parts.registry.list_entries())),
        "history": history.place if isinstance(history, PostgresUrl) else history and str(history),
        "history_lost": parts.history.lost_count,
    }


async def list_sources(parts: HostParts) -> list[dict[str, Any]]:
    """Where the skills of the catalog and of the host come from, with the number of skills."""
    catalog = await parts.catalogs.open_catalog()
    snapshot, uploads = catalog.snapshot, parts.uploads

    def name_root(label: str, path: Path) -> str:
        return UPLOADS if uploads is not None and path.is_relative_to(uploads.live) else label

    counts = Counter(skill.source for skill in (*snapshot.skills, *(one.skill for one in snapshot.hidden.values())))
    found: list[dict[str, Any]] = [
        {
            "kind": "catalog",
            "label": name_root(root.label, root.path),
            "path": str(root.path),
            "skills": counts[root.label],
        }
        for root in catalog.roots
    ]
    for directory in (parts.start / one for one in parts.registry.directories):
        hosted = [
            entry for entry in parts.registry.list_entries() if entry.origin and directory in entry.origin.parents
        ]
        label = name_root(directory.name, directory)
        found.append({"kind": "host", "label": label, "path": str(directory), "skills": len(hosted)})
    return found


def key_json(key: StoredKey, parts: HostParts) -> dict[str, Any]:
    """A key as JSON, without its digest, and what it uses of its limits in this worker."""
    is_expired = key.expires_at is not None and key.expires_at <= time.time()
    return {**key.to_dict(), "is_expired": is_expired, "use": parts.host.describe_use(key)}


async def create_host_key(parts: HostParts, given: Mapping[str, Any]) -> tuple[str, StoredKey]:
    """Create a key from `name`, `role`, `scopes`, `expires` (such as `30d`) and `limits` (such as `rate=5`).

    Raises `InvalidArgument`.
    """
    unknown = set(given) - set(_KEY_FIELDS)
    if unknown:
        raise InvalidArgument(min(unknown), "unknown field; use name, role, scopes, expires and limits")
    name, role, expires = (str(given.get(field) or "") for field in ("name", "role", "expires"))
    lifetime = parse_seconds(expires, "expires") if expires else None
    key, stored = create_key(name, now=datetime.now(UTC), lifetime=lifetime)
    limits: dict[str, Any] = {**parse_limits(_read_words(given.get("limits"), "limits"), "limits")}
    scopes = tuple(_read_words(given.get("scopes"), "scopes")) or ("*",)
    stored = replace(stored, role=role or "run", scopes=scopes, **limits)
    await parts.keys.add(stored)
    return key, stored


async def change_key_scopes(parts: HostParts, name: str, scopes: object) -> StoredKey:
    """Replace the scopes of a key; without any it may use all skills. Raises `InvalidArgument`."""
    return await parts.keys.change_scopes(name, tuple(_read_words(scopes or None, "scopes")) or ("*",))


def _read_words(value: object, field: str) -> list[str]:
    if value is None:
        return []
    if isinstance(value, str):
        return value.replace(",", " ").split()
    words = cast("list[Any]", value) if isinstance(value, list) else []
    if words and all(isinstance(one, str) for one in words):
        return words
    raise InvalidArgument(field, "expected a list of texts")


async def reload_skills(parts: HostParts) -> dict[str, Any]:
    """Look at all directories again, in this worker process; others notice changes by themselves.

    With PostgreSQL all hosts that share the database look again, too.
    """
    from openskills.host.registry.reload import prepare_unavailable, reload

    changes = await reload(parts)
    repaired = await prepare_unavailable(parts)
    catalog = await parts.catalogs.open_catalog()
    seen = await asyncio.to_thread(catalog.refresh)
    if parts.database.is_shared:
        await parts.database.write(lambda at: record_change(at, CHANGE_SKILLS))
    return {
        "hosted": {"added": changes.added, "removed": changes.removed, "changed": (*changes.changed, *repaired)},
        "catalog": {"added": seen.added, "removed": seen.removed, "changed": seen.changed},
    }


def _open_environments(settings: Settings) -> "EnvironmentStore":
    from openskills.executors.environments import EnvironmentStore
    from openskills.executors.spec import ENVIRONMENTS

    return EnvironmentStore(settings.state_dir / ENVIRONMENTS)


def _open_workspaces(settings: Settings) -> "WorkspaceStore":
    from openskills.executors.records.leases import WorkspaceStore

    return WorkspaceStore(settings.state_dir / "workspaces")


def clean_environments(settings: Settings, older_than: str) -> list[str]:
    """Remove package environments that were not used for this time; returns their ids. Blocking."""
    store, limit = _open_environments(settings), parse_seconds(older_than, "older_than")
    removable = [one.id for one in store.list() if time.time() - one.used_at >= limit]
    for id_ in removable:
        store.remove(id_)
    return removable


def clean_workspaces(settings: Settings, older_than: str) -> dict[str, Any]:
    """Remove workspaces that are not in use and were not used for this time; empty: those that expired. Blocking."""
    store = _open_workspaces(settings)
    cleaned = store.clean(older_than=parse_seconds(older_than, "older_than")) if older_than else store.sweep()
    return {
        "removed": [info.id for info in cleaned.removed],
        "in_use": [info.id for info in cleaned.in_use],
        "failures": list(cleaned.failures),
    }


# The API --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AdminRequest:
    """A request below `/admin`, of a caller with the role `admin`."""

    exchange: HttpExchange
    parts: HostParts
    name: str

    async def read_json(self) -> dict[str, Any]:
        """The body as a JSON object; empty if there is none."""
        body = await read_body(self.exchange, _MAX_BODY)
        if not body.strip():
            return {}
        check_json(self.exchange.headers.get(b"content-type"))
        value = read_json(body)
        if not isinstance(value, dict):
            raise InvalidArgument("body", "expected a JSON object")
        return cast("dict[str, Any]", value)


async def _show_status(request: AdminRequest) -> Mapping[str, Any]:
    return {**describe_status(request.parts), "sources": await list_sources(request.parts)}


async def _reload(request: AdminRequest) -> Mapping[str, Any]:
    return await reload_skills(request.parts)


async def _list_keys(request: AdminRequest) -> Mapping[str, Any]:
    return {"keys": [key_json(key, request.parts) for key in await request.parts.keys.list()]}


async def _create_key(request: AdminRequest) -> Mapping[str, Any]:
    given = await request.read_json()
    key, stored = await create_host_key(request.parts, given)
    return {"key": key, **key_json(stored, request.parts)}


async def _rotate_key(request: AdminRequest) -> Mapping[str, Any]:
    key, stored = await request.parts.keys.rotate(request.name, now=datetime.now(UTC))
    return {"key": key, **key_json(stored, request.parts)}


async def _change_key(request: AdminRequest) -> Mapping[str, Any]:
    """Replace the scopes of a key with `{"scopes": [...]}`."""
    given = await request.read_json()
    if set(given) != {"scopes"}:
        raise InvalidArgument("body", "expected an object with scopes and nothing else")
    stored = await change_key_scopes(request.parts, request.name, given["scopes"])
    return key_json(stored, request.parts)


async def _revoke_key(request: AdminRequest) -> Mapping[str, Any]:
    stored = await request.parts.keys.revoke(request.name)
    return {"revoked": stored.name}


async def _list_sessions(request: AdminRequest) -> Mapping[str, Any]:
    found = await request.parts.catalogs.sessions.list()
    return {"sessions": [one.to_dict() for one in found]}


async def _end_session(request: AdminRequest) -> Mapping[str, Any]:
    await request.parts.catalogs.sessions.end(request.name)
    return {"ended": request.name}


async def _list_packages(request: AdminRequest) -> Mapping[str, Any]:
    found = await asyncio.to_thread(_open_environments(request.parts.settings).list)
    return {"environments": [one.to_dict() for one in found]}


async def _clean_packages(request: AdminRequest) -> Mapping[str, Any]:
    older_than = str((await request.read_json()).get("older_than", "30d"))
    return {"removed": await asyncio.to_thread(clean_environments, request.parts.settings, older_than)}


async def _list_workspaces(request: AdminRequest) -> Mapping[str, Any]:
    found = await asyncio.to_thread(_open_workspaces(request.parts.settings).list)
    return {"workspaces": [info.to_dict() for info in found]}


async def _clean_workspaces(request: AdminRequest) -> Mapping[str, Any]:
    older_than = str((await request.read_json()).get("older_than", ""))
    return await asyncio.to_thread(clean_workspaces, request.parts.settings, older_than)


async def _show_doctor(request: AdminRequest) -> Mapping[str, Any]:
    name = request.exchange.read_query().get("skill")
    skill = (await request.parts.catalogs.open_catalog()).snapshot.find(name) if name else None
    checks = await run_doctor(request.parts, skill)
    return {"ok": all(check["ok"] or not check["required"] for check in checks), "checks": checks}


async def _show_cluster(request: AdminRequest) -> Mapping[str, Any]:
    """The report of the Ray cluster and the hosts; null for what is not used."""
    monitor = request.parts.cluster
    return {"cluster": await monitor.read_nodes(), "hosts": await monitor.read_hosts()}


async def _drain_node(request: AdminRequest) -> Mapping[str, Any]:
    """Drain a node, or undo it with `{"undo": true}`."""
    given = await request.read_json()
    undo = given.pop("undo", False)
    if given:
        raise InvalidArgument(min(given), "unknown field; use undo")
    if not isinstance(undo, bool):
        raise InvalidArgument("undo", "expected true or false")
    return await request.parts.cluster.drain(request.name, is_draining=not undo)


AdminHandler = Callable[[AdminRequest], Awaitable[Mapping[str, Any]]]
_NAME = r"(?P<name>[^/:]+)"
_ROUTES: Sequence[tuple[str, re.Pattern[str], AdminHandler]] = tuple(
    (method, re.compile(pattern), handler)
    for method, pattern, handler in (
        ("GET", "status", _show_status),
        ("POST", "reload", _reload),
        ("GET", "keys", _list_keys),
        ("POST", "keys", _create_key),
        ("POST", rf"keys/{_NAME}:rotate", _rotate_key),
        ("PATCH", rf"keys/{_NAME}", _change_key),
        ("DELETE", rf"keys/{_NAME}", _revoke_key),
        ("GET", "sessions", _list_sessions),
        ("DELETE", rf"sessions/{_NAME}", _end_session),
        ("GET", "packages", _list_packages),
        ("POST", "packages:clean", _clean_packages),
        ("GET", "workspaces", _list_workspaces),
        ("POST", "workspaces:clean", _clean_workspaces),
        ("GET", "cluster", _show_cluster),
        ("POST", rf"cluster/nodes/{_NAME}:drain", _drain_node),
        ("GET", "doctor", _show_doctor),
    )
)


async def handle_admin(exchange: HttpExchange, parts: HostParts, principal: Principal) -> HttpResponse:
    """Routes below `/admin`. Raises `Forbidden` without the role `admin`."""
    principal.require_role("admin")
    if parts.console is None:
        raise HttpRefusal(http.unknown_address(exchange.path))
    handler, params = find_handler(exchange, exchange.scope["path_params"]["path"], _ROUTES)
    result = await handler(AdminRequest(exchange, parts, params.get("name", "")))
    return build_document(result, exchange.trace, latency_ms=exchange.latency_ms)


async def show_workspaces(exchange: HttpExchange, parts: HostParts, principal: Principal) -> HttpResponse:
    """`GET /workspaces`: the workspaces of the caller."""
    principal.require_role("run")
    found = await parts.commands.list_workspaces(principal)
    names = ("size_bytes", "files", "age_seconds", "idle_seconds", "ttl_seconds", "in_use")
    listed = [{"name": name, **{field: info.to_dict()[field] for field in names}} for name, info in found]
    limit = None if principal.has_role("admin") else parts.settings.host_quota_workspaces
    return build_document({"workspaces": listed, "max_workspaces": limit}, exchange.trace)


async def delete_workspace(exchange: HttpExchange, parts: HostParts, principal: Principal) -> HttpResponse:
    """`DELETE /workspaces/{name}`: remove a workspace of the caller with its files."""
    principal.require_role("run")
    removed = await parts.commands.remove_workspace(principal, exchange.scope["path_params"]["name"])
    return build_document({"removed": removed}, exchange.trace)


# The pages ------------------------------------------------------------------------------------------------------------

TABS = ("overview", "keys", "sessions", "sources", "storage", "doctor")


async def show_host(request: "PageRequest") -> HttpResponse:
    return await _render_host(request, request.query.get("tab", TABS[0]))


async def _render_host(request: "PageRequest", tab: str, *, status: int = 200, **more: Any) -> HttpResponse:
    parts = request.host
    if tab not in TABS:
        raise InvalidArgument("tab", f"{tab[:50]!r} is not one of {', '.join(TABS)}")
    if tab != TABS[0]:
        request.caller.require_role("admin")
    context: dict[str, Any] = {
        "tab": tab,
        "status": describe_status(parts),
        "new_key": None,
        "given": dict.fromkeys(_KEY_FIELDS, ""),
        "wrong": {"field": "", "message": ""},
        "message": "",
        "roles": ROLES,
    }
    settings = parts.settings
    match tab:
        case "keys":
            context["keys"] = [key_json(key, parts) for key in await parts.keys.list()]
        case "sessions":
            context["sessions"] = await parts.catalogs.sessions.list()
        case "sources":
            snapshot = (await parts.catalogs.open_catalog()).snapshot
            context |= {
                "sources": await list_sources(parts),
                "problems": list(dict.fromkeys((*snapshot.problems, *parts.registry.problems))),
            }
        case "storage":
            context["environments"] = await asyncio.to_thread(_open_environments(settings).list)
            found = await asyncio.to_thread(_open_workspaces(settings).list)
            context |= {"workspaces": found, "names": {one.id: _describe_key(one.key) or one.id for one in found}}
        case "doctor":
            context["checks"] = await run_doctor(parts) if request.query.get("check") else []
        case _:
            context["sources"] = await list_sources(parts) if request.caller.has_role("admin") else []
    return request.render("host.html", {**context, **more}, block="panel", status=status)


def _describe_key(key: str) -> str:
    """The application, user and session of a workspace as a text for people."""
    try:
        words: object = json.loads(key)
    except ValueError:
        return key
    return " · ".join(map(str, cast("list[object]", words))) if isinstance(words, list) else key


async def create_key_page(request: "PageRequest") -> HttpResponse:
    """Create a key and show it, once."""
    fields = {name: value for name, value in (await request.form()).items() if value}
    try:
        key, stored = await create_host_key(request.host, fields)
    except InvalidArgument as error:
        # At its field, with everything that was entered.
        given = {**dict.fromkeys(_KEY_FIELDS, ""), **fields}
        wrong = {"field": error.field, "message": error.message.removeprefix(f"{error.field}: ")}
        return await _render_host(request, "keys", given=given, wrong=wrong, status=error.code)
    return await _render_host(request, "keys", new_key={"key": key, "name": stored.name})


async def rotate_key_page(request: "PageRequest") -> HttpResponse:
    name = request.params["name"]
    key, _ = await request.host.keys.rotate(name, now=datetime.now(UTC))
    return await _render_host(request, "keys", new_key={"key": key, "name": name})


async def change_key_page(request: "PageRequest") -> HttpResponse:
    await change_key_scopes(request.host, request.params["name"], (await request.form()).get("scopes", ""))
    return request.redirect("/console/host?tab=keys")


async def revoke_key_page(request: "PageRequest") -> HttpResponse:
    await request.host.keys.revoke(request.params["name"])
    return request.redirect("/console/host?tab=keys")


async def end_session_page(request: "PageRequest") -> HttpResponse:
    await request.console.sessions.end(request.params["name"])
    return request.redirect("/console/host?tab=sessions")


async def reload_page(request: "PageRequest") -> HttpResponse:
    found = await reload_skills(request.host)
    changes = [names for kind in found.values() for names in kind.values()]
    message = request.translate("Reloaded: {n} changes.", n=sum(map(len, changes)))
    return await _render_host(request, "sources", message=message)


async def clean_page(request: "PageRequest") -> HttpResponse:
    """Remove what was not used for a while."""
    older_than = (await request.form()).get("older_than", "")
    settings = request.host.settings
    if request.params["name"] == "packages":
        count = len(await asyncio.to_thread(clean_environments, settings, older_than or "30d"))
    elif request.params["name"] == "workspaces":
        count = len((await asyncio.to_thread(clean_workspaces, settings, older_than))["removed"])
    else:
        raise HttpRefusal(http.unknown_address(request.exchange.path))
    return await _render_host(request, "storage", message=request.translate("{n} removed.", n=count))


PAGES = (
    ("GET", "/console/host", show_host),
    ("POST", "/console/host/keys", create_key_page, "admin"),
    ("POST", "/console/host/keys/{name}/rotate", rotate_key_page, "admin"),
    ("POST", "/console/host/keys/{name}/scopes", change_key_page, "admin"),
    ("POST", "/console/host/keys/{name}/revoke", revoke_key_page, "admin"),
    ("POST", "/console/host/sessions/{name}/end", end_session_page, "admin"),
    ("POST", "/console/host/reload", reload_page, "admin"),
    ("POST", "/console/host/clean/{name}", clean_page, "admin"),
)
