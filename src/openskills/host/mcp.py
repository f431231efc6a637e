"""`/mcp`: the skills of the host for MCP clients, with the keys, scopes and limits of the host.

The protocol itself is an adapter that is found as an entry point and loaded with the first request.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from openskills.arguments import find_plugin
from openskills.errors import InvalidArgument, MissingExtra
from openskills.host import http
from openskills.host.auth import Principal, check_origin
from openskills.host.commands import HostCaller, check_name
from openskills.host.http import HttpExchange, HttpRefusal, Message, Receive, Scope, Send, read_body
from openskills.host.model import SkillOutputEvent
from openskills.host.openapi import list_tools
from openskills.host.parts import HostParts
from openskills.host.registry.registry import Registry
from openskills.host.service import Host

ENTRY_POINT_GROUP = "openskills.endpoints"
MCP_TOOLS = ("session", "hosted", "both", "off")
"""Which tools MCP clients get: those of sessions, hosted skills, both, or none at all."""
MAX_ENDPOINTS = 32
"""Each has a catalog that it watches."""
_MAX_HANDSHAKE = 64 * 1024


class HostTools:
    """The ready skills of a host as MCP tools."""

    def __init__(self, host: Host, registry: Registry) -> None:
        self._host = host
        self._registry = registry

    def list_tools(self, caller: HostCaller) -> Sequence[Mapping[str, Any]]:
        """The skills that the caller may invoke."""
        return list_tools(self._registry, caller.principal, "mcp")

    async def call(
        self, name: str, arguments: Mapping[str, Any], caller: HostCaller, on_progress: Callable[[str], None]
    ) -> tuple[Mapping[str, Any], str | None]:
        """Invoke a skill; returns its data, and the message of the error if it failed.

        Raises `LookupError` if there is none with this name for the caller.
        """
        found = self._registry.find(self._host.resolve_id(name, caller.principal))
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

    async def announce_changes(self) -> None:
        """Look for changed skills, and tell clients that the skills of the host have changed."""

    async def close_sessions(self, is_over: Callable[[object], bool]) -> None:
        """End the sessions and commands of the callers whose identity is no longer valid."""

    async def close(self) -> None:
        """End all connections and commands."""


class McpRoute:
    """Opens the adapter with the first request. Belongs to one host.

    Keys that may upload skills of their own have an endpoint each, because each of them has other skills. Of more than
    `max_endpoints`, the one that was not used for the longest time is closed.
    """

    def __init__(self, *, max_endpoints: int = MAX_ENDPOINTS) -> None:
        self._max_endpoints = max_endpoints
        self._opening = asyncio.Lock()
        self._endpoints: dict[str, _OpenEndpoint] = {}

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
            max_body = parts.settings.host_max_body
            if not {b"mcp-session-id", b"mcp-method"} & exchange.headers.keys():
                # It opens a connection, which keeps what is sent.
                parts.host.count_request(principal)
                max_body = min(max_body, _MAX_HANDSHAKE)
            body = await read_body(exchange, max_body, timeout=parts.options.body_seconds)
            receive = _replay(body, exchange.receive)
        owner = parts.catalogs.find_owner(principal)
        opened = self._endpoints.get(owner) or await self._open(parts, owner)
        # Most recently used last.
        self._endpoints[owner] = self._endpoints.pop(owner, opened)
        caller = HostCaller(parts.host, principal, _read_session_name(exchange))
        exchange.answered = True
        await opened.endpoint.handle(exchange.scope, receive, exchange.send, caller)

    async def _open(self, parts: HostParts, owner: str) -> "_OpenEndpoint":
        async with self._opening:
            if owner in self._endpoints:
                return self._endpoints[owner]
            # Importing the protocol takes a second.
            open_endpoint = await asyncio.to_thread(load_adapter)
            endpoint: EndpointProtocol = await open_endpoint(
                parts.settings,
                parts.list_skill_directories(owner),
                HostTools(parts.host, parts.registry),
                tools=parts.options.mcp_tools,
                workers=parts.options.workers,
            )
            oldest = next((one for one in self._endpoints if one), "")
            if oldest and len(self._endpoints) >= self._max_endpoints:
                closing = self._endpoints.pop(oldest)
                parts.on_reload.remove(closing.endpoint.announce_changes)
                parts.on_revoke.remove(closing.endpoint.close_sessions)
                await closing.close()
            ending = asyncio.create_task(_close_at_shutdown(parts.shutdown, endpoint))
            opened = self._endpoints[owner] = _OpenEndpoint(endpoint, ending)
            parts.exit_stack.push_async_callback(opened.close)
            parts.on_reload.append(endpoint.announce_changes)
            parts.on_revoke.append(endpoint.close_sessions)
            return opened


class _OpenEndpoint(NamedTuple):
    """An endpoint, and the task that closes it at the shutdown."""

    endpoint: EndpointProtocol
    ending: asyncio.Task[None]

    async def close(self) -> None:
        """Safe to call twice."""
        self.ending.cancel()
        await asyncio.wait([self.ending])
        await self.endpoint.close()


async def _close_at_shutdown(shutdown: asyncio.Event, endpoint: EndpointProtocol) -> None:
    """End event streams before the server waits for its connections."""
    await shutdown.wait()
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


def _read_session_name(exchange: HttpExchange) -> str:
    name = exchange.read_query().get("session")
    return "" if name is None else check_name("session", name)


def _replay(body: bytes, receive: Receive) -> Receive:
    """The messages of a request whose body has been read."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return waiting.pop() if waiting else await receive()

    return receive_again
