"""The MCP server over Streamable HTTP, as the endpoint `/mcp` of the skill host."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from openskills.adapters.mcp.server import REQUEST_KEY, HostedTools, McpRequest, McpServer
from openskills.catalog.catalog import Catalog
from openskills.runtime.runtime import SkillRuntime
from openskills.runtime.session_pool import IDLE_TIMEOUT, SessionCaller
from openskills.settings import Settings

AsgiScope = MutableMapping[str, Any]
AsgiReceive = Callable[[], Awaitable[MutableMapping[str, Any]]]
AsgiSend = Callable[[MutableMapping[str, Any]], Awaitable[None]]

DISCONNECT_GRACE = 60.0
"""Seconds after which the session of a client is closed whose event stream has ended, unless it comes back."""
MAX_CONNECTIONS = 64
"""Connections of the handshake era that one user may have. The one without a request for longest ends for a new one."""
_SESSION_HEADER = b"mcp-session-id"
_SESSION_ID = re.compile(rb"[0-9a-f]{32}")
_NO_CONNECTION = "mcp"
"""The session of a user's requests that belong to no connection, as all of the era 2026-07-28."""


@dataclass(slots=True)
class _Connection:
    """A connection of the handshake era: its unfinished requests and the sessions that it has used."""

    user: str
    requests: int = 0
    sessions: set[str] = field(default_factory=set[str])
    timer: asyncio.TimerHandle | None = None


class McpEndpoint:
    """Serves an `McpServer` over HTTP. Belongs to one event loop. `start` it before the first request; close it.

    Sessions of the handshake era belong to the user who has opened them. With `stateless`, there are none.
    """

    def __init__(
        self,
        server: McpServer,
        *,
        stateless: bool = False,
        max_body: int,
        idle_timeout: float = IDLE_TIMEOUT,
        disconnect_grace: float = DISCONNECT_GRACE,
    ) -> None:
        self._server = server
        self._grace = disconnect_grace
        self._manager = StreamableHTTPSessionManager(
            server.protocol,
            stateless=stateless,
            max_request_body_size=max_body,
            session_idle_timeout=None if stateless else idle_timeout,
        )
        # Least recently used first.
        self._connections: dict[str, _Connection] = {}
        self._chores: set[asyncio.Task[None]] = set()
        self._stop = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._stack = AsyncExitStack()

    async def start(self, *owned: SkillRuntime) -> None:
        """Start serving; `owned` runtimes are closed with the endpoint."""
        for runtime in owned:
            await self._stack.enter_async_context(runtime)
        started = asyncio.get_running_loop().create_future()
        self._running = asyncio.create_task(self._run(started))
        await started

    async def _run(self, started: asyncio.Future[None]) -> None:
        # In one task, because the scopes of anyio must be left where they were entered.
        async with self._server.run(), self._manager.run():
            started.set_result(None)
            await self._stop.wait()

    async def close(self) -> None:
        """End all connections, sessions and commands. Safe to call twice."""
        self._stop.set()
        for known in self._connections.values():
            if known.timer is not None:
                known.timer.cancel()
        if self._running is not None:
            await asyncio.wait([self._running])
        if self._chores:
            await asyncio.wait(self._chores)
        await self._stack.aclose()

    async def handle(self, scope: AsgiScope, receive: AsgiReceive, send: AsgiSend, caller: SessionCaller) -> None:
        """Handle a request of an authenticated caller. If the client disconnects, what it has called is cancelled."""
        # Blanks around values do not count (RFC 9110); servers leave them to the application.
        headers = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        found = next((value for name, value in headers if name == _SESSION_HEADER), b"")
        connection = found.decode() if _SESSION_ID.fullmatch(found) else ""
        name = f"mcp-{connection}" if connection else _NO_CONNECTION
        request = McpRequest(caller, name, is_temporary=bool(connection) and not caller.session)
        token = AccessToken(token="", client_id=caller.user, scopes=[])
        inner = {**scope, "headers": headers, "user": AuthenticatedUser(token), REQUEST_KEY: request}

        async def watch() -> MutableMapping[str, Any]:
            message = await receive()
            if message["type"] == "http.disconnect":
                for task in request.tasks:
                    task.cancel()
            return message

        async def note(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                self._on_response(scope["method"], message, connection, caller)
            await send(message)

        known = self._connections.get(connection)
        if known is None or known.user != caller.user:
            await self._manager.handle_request(inner, watch, note)
            return
        self._arrive(connection, known, request)
        try:
            await self._manager.handle_request(inner, watch, note)
        finally:
            self._depart(connection, known, request, is_stream=scope["method"] == "GET")

    async def close_sessions(self, is_over: Callable[[object], bool]) -> None:
        """End the sessions and commands of the callers whose identity is no longer valid."""
        await self._server.sessions.close_sessions(is_over)

    def _on_response(
        self, method: str, message: MutableMapping[str, Any], connection: str, caller: SessionCaller
    ) -> None:
        if message["status"] >= 300:
            return
        if method == "DELETE":
            self._end_connection(connection, caller.user)
            return
        opened = dict(message["headers"]).get(_SESSION_HEADER, b"").decode("latin-1")
        if opened and opened not in self._connections:
            self._make_room(caller.user)
            self._connections[opened] = _Connection(caller.user)

    def _end_connection(self, connection: str, user: str) -> None:
        """Close the sessions that a connection has used. Named ones can be opened again, with their files."""
        known = self._connections.get(connection)
        if known is None or known.user != user:
            return
        del self._connections[connection]
        if known.timer is not None:
            known.timer.cancel()
        for name in known.sessions:
            self._start(self._server.sessions.close_session(user, name))

    def _make_room(self, user: str) -> None:
        own = [name for name, one in self._connections.items() if one.user == user]
        if len(own) < MAX_CONNECTIONS:
            return
        oldest = next((name for name in own if not self._connections[name].requests), own[0])
        self._end_connection(oldest, user)
        self._start(self._end_transport(oldest, user))

    async def _end_transport(self, connection: str, user: str) -> None:
        """What a client does to end its connection."""
        headers = [(_SESSION_HEADER, connection.encode())]
        scope: AsgiScope = {"type": "http", "method": "DELETE", "path": "/", "query_string": b"", "headers": headers}
        scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=user, scopes=[]))

        async def receive() -> MutableMapping[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def ignore(_: MutableMapping[str, Any]) -> None:
            pass

        await self._manager.handle_request(scope, receive, ignore)

    def _arrive(self, connection: str, known: _Connection, request: McpRequest) -> None:
        self._connections[connection] = self._connections.pop(connection)
        known.requests += 1
        known.sessions.add(request.session)
        if known.timer is not None:
            known.timer.cancel()
            known.timer = None

    def _depart(self, connection: str, known: _Connection, request: McpRequest, *, is_stream: bool) -> None:
        known.requests -= 1
        if known.requests or self._connections.get(connection) is not known:
            return
        if is_stream and not request.caller.session and not self._stop.is_set():
            loop = asyncio.get_running_loop()
            known.timer = loop.call_later(self._grace, self._expire, known, request)

    def _expire(self, known: _Connection, request: McpRequest) -> None:
        known.timer = None
        self._start(self._server.sessions.close_session(request.caller.user, request.session))

    async def announce_changes(self) -> None:
        """Look for changed skills, and tell clients to list tools, prompts and resources again."""
        await self._server.refresh()
        self._start(self._server.publish_list_changed())

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)


async def open_endpoint(
    settings: Settings, skills: Sequence[Path], hosted: HostedTools, *, tools: str, workers: int
) -> McpEndpoint:
    """The endpoint of a host: the skills in these directories, and the skills of the host as tools.

    `tools` is `session`, `hosted` or `both`. With several `workers` there are no sessions, because each of them would
    have its own.
    """
    catalog = await asyncio.to_thread(lambda: Catalog([]) if not skills else Catalog.from_paths(*skills))
    sessions = tools in ("session", "both") and workers == 1 and bool(skills)
    runtime = SkillRuntime(catalog, settings.executor if sessions else None, settings=settings)
    server = McpServer(
        runtime,
        session_tools=sessions,
        hosted=hosted if tools in ("hosted", "both") else None,
        app="mcp",
        cache_scope="private",
    )
    endpoint = McpEndpoint(server, stateless=workers > 1, max_body=settings.host_max_body)
    await endpoint.start(runtime)
    return endpoint
