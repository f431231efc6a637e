"""All routes but invocations: health, metrics, skills, tools, runs, OpenAPI and docs."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from functools import cache
from importlib.resources import files
from urllib.parse import parse_qs

import orjson

from openskills.errors import InvalidArgument, SkillError, UnknownSkill
from openskills.host import http
from openskills.host.auth import Principal
from openskills.host.http import (
    JSON_CONTENT_TYPE,
    ClientDisconnect,
    HttpExchange,
    HttpRefusal,
    HttpResponse,
    Receive,
    Scope,
    Send,
    SseEvent,
    build_document,
    build_refusal,
    cancel_on_disconnect,
    send_events,
    trace_headers,
)
from openskills.host.invoke import add_allow_header, options_response
from openskills.host.metrics import CONTENT_TYPE
from openskills.host.model import Failure
from openskills.host.openapi import build_openapi, build_tools, describe_skill, describe_skipped
from openskills.host.parts import HostParts
from openskills.host.registry.registry import RegistryEntry
from openskills.host.runs import RunEvent
from openskills.host.service import check_scope
from openskills.version import __version__

RouteHandler = Callable[[HttpExchange, HostParts, Principal], Awaitable[HttpResponse | None]]
"""Handles an authenticated request; returns None if it has sent the response itself."""
PublicRouteHandler = Callable[[HttpExchange, HostParts | None], Awaitable[HttpResponse | None]]
"""The same without authentication, and also before the host has started."""


class AuthenticatedRoute:
    """A route that needs authentication."""

    def __init__(self, handler: RouteHandler) -> None:
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the handler; `SkillError` and `HttpRefusal` become error responses."""
        await _respond(HttpExchange(scope, receive, send), self._handle)

    async def _handle(self, exchange: HttpExchange) -> HttpResponse | None:
        parts = get_parts(exchange)
        if parts is None:
            raise HttpRefusal(http.host_starting())
        return await self._handler(exchange, parts, parts.authenticator.authenticate(exchange))


class PublicRoute:
    """A route without authentication."""

    def __init__(self, handler: PublicRouteHandler) -> None:
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the handler; `SkillError` and `HttpRefusal` become error responses."""
        await _respond(
            HttpExchange(scope, receive, send), lambda exchange: self._handler(exchange, get_parts(exchange))
        )


def get_parts(exchange: HttpExchange) -> HostParts | None:
    """The parts of the running host; None before it has started."""
    return getattr(exchange.scope["app"].state, "parts", None)


async def _respond(exchange: HttpExchange, handle: Callable[[HttpExchange], Awaitable[HttpResponse | None]]) -> None:
    with suppress(ClientDisconnect):
        try:
            if exchange.hostile is not None:
                raise exchange.hostile
            answer = await handle(exchange)
        except HttpRefusal as refused:
            answer = _build_refusal(exchange, refused.failure)
            await exchange.send_response(
                add_allow_header(answer, refused.allow) if refused.allow else answer, close=refused.close
            )
        except SkillError as error:
            await exchange.send_response(_build_refusal(exchange, Failure.from_error(error)))
        else:
            if answer is not None:
                await exchange.send_response(answer)


def _build_refusal(exchange: HttpExchange, failure: Failure) -> HttpResponse:
    return build_refusal(failure, exchange.trace, latency_ms=exchange.latency_ms)


async def healthz(exchange: HttpExchange, _: HostParts | None) -> HttpResponse:
    """The process is alive."""
    return build_document({"status": "ok", "version": __version__}, exchange.trace, latency_ms=exchange.latency_ms)


async def readyz(exchange: HttpExchange, parts: HostParts | None) -> HttpResponse:
    """Whether the host accepts invocations; 503 while it is starting or draining."""
    if parts is None or not parts.prepared:
        raise HttpRefusal(http.host_starting())
    if parts.host.draining:
        raise HttpRefusal(http.host_draining())
    counts = {"ready": 0, "broken": 0, "unavailable": 0}
    for entry in parts.registry.list_entries():
        counts[entry.status] += 1
    state = {"status": "ready", "skills": counts, "running": parts.host.in_flight}
    return build_document(state, exchange.trace, latency_ms=exchange.latency_ms)


async def show_metrics(exchange: HttpExchange, parts: HostParts, principal: Principal) -> HttpResponse:
    """Metrics in the Prometheus text format, of the skills that the caller may invoke."""
    text = parts.metrics.render(principal.can_invoke)
    return _build_response(exchange, text, (b"content-type", CONTENT_TYPE.encode()))


async def list_skills(exchange: HttpExchange, parts: HostParts, principal: Principal) -> HttpResponse:
    """All skills that the caller may invoke, including broken ones with their problems, and what is not served."""
    entries = (entry for entry in parts.registry.list_entries() if principal.can_invoke(entry.id))
    skipped = [one for one in parts.registry.skipped if principal.can_invoke(one.id)]
    listed = {
        "skills": [_describe_skill(entry, parts) for entry in entries],
        "not_served": [describe_skipped(one) for one in skipped],
    }
    return build_document(listed, exchange.trace, latency_ms=exchange.latency_ms)


def _describe_skill(entry: RegistryEntry, parts: HostParts) -> dict[str, object]:
    return describe_skill(entry, parts.start, parts.settings)


async def show_skill(exchange: HttpExchange, parts: HostParts, principal: Principal) -> HttpResponse:
    name = exchange.scope["path_params"]["skill_id"]
    try:
        entry = parts.registry.get_entry(parts.host.resolve_id(name, principal))
    except UnknownSkill as error:
        check_scope(principal, name, None)
        raise UnknownSkill(name, tuple(filter(principal.can_invoke, error.near))) from None
    check_scope(principal, name, entry.id)
    described = _describe_skill(entry, parts)
    return build_document(described, exchange.trace, skill_id=entry.id, latency_ms=exchange.latency_ms)


async def export_tools(exchange: HttpExchange, parts: HostParts, principal: Principal) -> HttpResponse:
    """Ready skills as tools for models: `?format=openai|openai-chat|anthropic|mcp`."""
    query = parse_qs(exchange.scope["query_string"].decode("latin-1"), keep_blank_values=True)
    form = query.get("format", ["openai"])[-1]
    entries = parts.registry.list_entries()
    ready = {entry.id for entry in entries if entry.status == "ready"}
    offered = [one for one in parts.registry.list_registrations() if one.id in ready and principal.can_invoke(one.id)]
    made = build_tools(offered, form, known=[entry.id for entry in entries if principal.can_see(entry.id)])
    return build_document({"format": form, "tools": made}, exchange.trace, latency_ms=exchange.latency_ms)


async def serve_console(exchange: HttpExchange, parts: HostParts | None) -> HttpResponse | None:
    """A page of the console. What renders pages is imported with the first one."""
    if parts is not None and not parts.options.console:
        raise HttpRefusal(http.unknown_address(exchange.path))
    from openskills.host.console.pages import handle_console

    return await handle_console(exchange, parts)


_READ_METHODS = ("GET", "HEAD", "OPTIONS")
_WRITE_METHODS = ("POST", "OPTIONS")


async def handle_run(exchange: HttpExchange, parts: HostParts, principal: Principal) -> HttpResponse:
    """The state of a run; `:cancel` after its id cancels it."""
    run_id, colon, verb = exchange.scope["path_params"]["run_id"].partition(":")
    if colon and verb != "cancel":
        raise HttpRefusal(http.unknown_action(f":{verb}", [":cancel"]))
    allowed = _WRITE_METHODS if colon else _READ_METHODS
    if exchange.method == "OPTIONS":
        return options_response(exchange, allowed)
    if exchange.method not in allowed:
        raise HttpRefusal(http.wrong_method(exchange.method, allowed), allow=allowed)
    if colon:
        principal.require_role("run")
    act = parts.runs.cancel if colon else parts.runs.get
    run = await act(run_id, principal=principal.name)
    return build_document(run.to_dict(), exchange.trace, skill_id=run.skill_id, latency_ms=exchange.latency_ms)


async def stream_run_events(exchange: HttpExchange, parts: HostParts, principal: Principal) -> None:
    """The events of a run, from its start or after `Last-Event-ID`. Disconnecting does not affect the run."""
    run_id: str = exchange.scope["path_params"]["run_id"]
    after = _parse_event_id(exchange.header(b"last-event-id"))
    # Before the stream starts: afterwards a 404 could not be sent.
    await parts.runs.get(run_id, principal=principal.name)
    async with aclosing(_run_events(parts, run_id, after, principal)) as shown:
        with suppress(ClientDisconnect):
            await cancel_on_disconnect(
                exchange.receive, send_events(exchange, shown, ping=parts.options.ping_seconds, until=parts.shutdown)
            )


async def _run_events(parts: HostParts, run_id: str, after: int, principal: Principal) -> AsyncGenerator[SseEvent]:
    followed: AsyncGenerator[RunEvent] = parts.runs.events(run_id, after, principal=principal.name)
    async with aclosing(followed):
        async for event in followed:
            yield SseEvent(event.kind, event.data, str(event.id))


def _parse_event_id(header: str | None) -> int:
    if not header:
        return 0
    if not (header.isascii() and header.isdigit() and len(header) < 16):
        raise InvalidArgument("Last-Event-ID", f"invalid event id {header[:50]!r}: expected an integer")
    return int(header)


_HTML = (b"content-type", b"text/html; charset=utf-8")
_CONTENT_SECURITY_POLICY = (
    b"content-security-policy",
    b"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'",
)


async def show_openapi(exchange: HttpExchange, parts: HostParts, principal: Principal) -> HttpResponse:
    """The OpenAPI document of the skills that the caller may invoke."""
    skills = [one for one in parts.registry.list_registrations() if principal.can_invoke(one.id)]
    document = build_openapi(skills, url=_base_url(exchange), keys_needed=parts.authenticator.is_key_required(exchange))
    return _build_response(exchange, orjson.dumps(document), JSON_CONTENT_TYPE)


async def show_docs(exchange: HttpExchange, _: HostParts | None) -> HttpResponse:
    """An HTML page to read about and try the skills; it works offline."""
    answer = _build_response(exchange, _read_page(), _HTML)
    answer.headers.append(_CONTENT_SECURITY_POLICY)
    return answer


@cache
def _read_page() -> bytes:
    return (files("openskills.host") / "docs.html").read_bytes()


def _base_url(exchange: HttpExchange) -> str:
    host = exchange.header(b"host")
    root = exchange.scope.get("root_path") or ""
    return f"{exchange.scope.get('scheme', 'http')}://{host}{root}" if host else root or "/"


def _build_response(exchange: HttpExchange, body: bytes, kind: tuple[bytes, bytes]) -> HttpResponse:
    length = (b"content-length", b"%d" % len(body))
    return HttpResponse(200, [kind, length, *trace_headers(exchange.trace)], body)
