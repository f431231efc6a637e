"""`/mcp`: the skills of the host for MCP clients, with the keys, scopes and limits of the host.

The protocol itself is an adapter that is found as an entry point and loaded with the first request.
"""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

from openskills.arguments import find_plugin
from openskills.errors import InvalidArgument, MissingExtra
from openskills.host import http
from openskills.host.auth import Principal, is_loopback
from openskills.host.commands import HostCaller
from openskills.host.http import HttpExchange, HttpRefusal, Message, Receive, Scope, Send, read_body
from openskills.host.model import SkillOutputEvent
from openskills.host.openapi import build_tools
from openskills.host.parts import HostParts
from openskills.host.registry.registry import Registry
from openskills.host.service import Host

ENTRY_POINT_GROUP = "openskills.endpoints"
MCP_TOOLS = ("session", "hosted", "both", "off")
"""Which tools MCP clients get: those of sessions, hosted skills, both, or none at all."""
_SESSION_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)


class HostTools:
    """The ready skills of a host as MCP tools."""

    def __init__(self, host: Host, registry: Registry) -> None:
        self._host = host
        self._registry = registry

    def list_tools(self, caller: HostCaller) -> Sequence[Mapping[str, Any]]:
        """The skills that the caller may invoke."""
        entries = self._registry.list_entries()
        ready = {entry.id for entry in entries if entry.status == "ready" and caller.principal.can_invoke(entry.id)}
        offered = [one for one in self._registry.list_registrations() if one.id in ready]
        return build_tools(offered, "mcp", known=[entry.id for entry in entries])

    async def call(
        self, name: str, arguments: Mapping[str, Any], caller: HostCaller, on_progress: Callable[[str], None]
    ) -> tuple[Mapping[str, Any], str | None]:
        """Invoke a skill; returns its data, and the message of the error if it failed.

        Raises `LookupError` if there is none with this name for the caller.
        """
        found = self._registry.find(name)
        if found is None or not caller.principal.can_invoke(found.id):
            raise LookupError(name)
        result = await self._host.invoke(
            found.id,
            arguments,
            trace_id=http.new_trace().id,
            principal=caller.principal,
            listener=lambda event: on_progress(_describe_event(event)),
        )
        failure = result.outcome.failure
        if failure is None:
            return result.outcome.data or {}, None
        return {"error": result.to_dict()["error"]}, failure.message


def _describe_event(event: SkillOutputEvent) -> str:
    said = str(event.data.get("message") or event.data.get("text") or "").strip()
    return f"{event.kind}: {said}"[:500] if said else event.kind


class EndpointProtocol(Protocol):
    """What an adapter for MCP provides."""

    async def handle(self, scope: Scope, receive: Receive, send: Send, caller: HostCaller) -> None:
        """Handle an authenticated request."""

    def announce_changes(self) -> None:
        """Tell clients that the skills of the host have changed."""

    async def close(self) -> None:
        """End all connections and commands."""


class McpRoute:
    """Opens the adapter with the first request. Belongs to one host."""

    def __init__(self) -> None:
        self._opening = asyncio.Lock()
        self._endpoint: EndpointProtocol | None = None

    async def handle(self, exchange: HttpExchange, parts: HostParts, principal: Principal) -> None:
        """Check and pass on a request. Raises `SkillError` or `HttpRefusal`."""
        if parts.options.mcp_tools == "off":
            raise HttpRefusal(http.unknown_address(exchange.path))
        check_origin(exchange)
        principal.require_role("run")
        if parts.host.draining:
            raise HttpRefusal(http.host_draining())
        receive = exchange.receive
        if exchange.method == "POST":
            limits = parts.settings.host_max_body, parts.options.body_seconds
            receive = _replay(await read_body(exchange, limits[0], timeout=limits[1]), exchange.receive)
        endpoint = self._endpoint or await self._open(parts)
        caller = HostCaller(parts.host, principal, _read_session_name(exchange))
        exchange.answered = True
        await endpoint.handle(exchange.scope, receive, exchange.send, caller)

    async def _open(self, parts: HostParts) -> EndpointProtocol:
        async with self._opening:
            if self._endpoint is not None:
                return self._endpoint
            # Importing the protocol takes a second.
            open_endpoint = await asyncio.to_thread(load_adapter)
            endpoint: EndpointProtocol = await open_endpoint(
                parts.settings,
                parts.options.skills,
                HostTools(parts.host, parts.registry),
                tools=parts.options.mcp_tools,
                workers=parts.options.workers,
            )
            ending = asyncio.create_task(_close_at_shutdown(parts.shutdown, endpoint))
            parts.exit_stack.push_async_callback(_end, ending, endpoint)
            parts.on_reload.append(endpoint.announce_changes)
            self._endpoint = endpoint
            return endpoint


async def _close_at_shutdown(shutdown: asyncio.Event, endpoint: EndpointProtocol) -> None:
    """End event streams before the server waits for its connections."""
    await shutdown.wait()
    await endpoint.close()


async def _end(ending: asyncio.Task[None], endpoint: EndpointProtocol) -> None:
    if not ending.done():
        ending.cancel()
        await asyncio.wait([ending])
    await endpoint.close()


def load_adapter() -> Callable[..., Any]:
    """The function that opens the endpoint. Raises `MissingExtra` without the extra `mcp`."""
    try:
        found = find_plugin(ENTRY_POINT_GROUP, "mcp", "mcp")
    except InvalidArgument as error:
        if isinstance(error.__cause__, ImportError):
            raise MissingExtra("mcp", f"/mcp ({error.__cause__.name})") from None
        raise
    if found is None:
        raise MissingExtra("mcp", "/mcp")
    return found


def check_origin(exchange: HttpExchange) -> None:
    """Refuse requests of web pages from elsewhere (DNS rebinding), even with a key.

    Raises `HttpRefusal` unless the page came from this host or, on a loopback address, from this machine.
    """
    origin = exchange.header(b"origin")
    if origin is None:
        return
    host = exchange.header(b"host") or ""
    found = urlsplit(origin)
    server = exchange.scope.get("server")
    is_local = server is not None and is_loopback(server[0]) and is_loopback(found.hostname or "")
    if not is_local and (found.scheme not in ("http", "https") or found.netloc.lower() != host.lower()):
        raise HttpRefusal(http.wrong_origin(origin))


def _read_session_name(exchange: HttpExchange) -> str:
    query = parse_qs(exchange.scope["query_string"].decode("latin-1"), keep_blank_values=True)
    names = query.get("session")
    if names is None:
        return ""
    if _SESSION_NAME.fullmatch(names[-1]) is None:
        raise InvalidArgument("session", f"invalid name {names[-1][:100]!r}: use up to 64 letters, digits, ., - and _")
    return names[-1]


def _replay(body: bytes, receive: Receive) -> Receive:
    """The messages of a request whose body has been read."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return waiting.pop() if waiting else await receive()

    return receive_again
