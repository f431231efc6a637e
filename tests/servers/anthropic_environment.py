"""The part of Anthropic's API that a self-hosted environment worker uses, with scripted sessions."""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

NOW = "2026-11-16T12:00:00Z"


@dataclass
class ScriptedSession:
    """A session: what its agent calls, and what came back."""

    id: str
    events: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    results: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    resources: Sequence[Mapping[str, Any]] = ()
    is_deleted: bool = False
    live: asyncio.Queue[dict[str, Any]] = field(default_factory=asyncio.Queue[dict[str, Any]])
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def call(self, name: str, **given: Any) -> str:
        """Let the agent call a tool, and return the id of the call."""
        event = {
            "type": "agent.tool_use",
            "id": f"toolu_{len(self.events)}",
            "name": name,
            "input": given,
            "processed_at": NOW,
            "evaluated_permission": "allow",
        }
        self._add(event)
        return str(event["id"])

    def end(self, kind: str = "session.status_terminated") -> None:
        """End the session."""
        self.is_deleted = kind == "session.deleted"
        self._add({"type": kind, "id": f"event_{len(self.events)}", "processed_at": NOW})

    async def result(self, call: str) -> dict[str, Any]:
        """What the worker answered to a call."""
        async with asyncio.timeout(60):
            while call not in self.results:
                self.changed.clear()
                await self.changed.wait()
        return self.results[call]

    def _add(self, event: dict[str, Any]) -> None:
        self.events.append(event)
        self.live.put_nowait(event)

    def to_json(self) -> dict[str, Any]:
        """The session as the API describes it."""
        return {
            "id": self.id,
            "type": "session",
            "agent": {"id": "agent_1", "type": "agent", "name": "a", "version": 1, "skills": [], "tools": []},
            "environment_id": "env_1",
            "created_at": NOW,
            "updated_at": NOW,
            "metadata": {},
            "resources": list(self.resources),
            "status": "running",
            "stats": {},
            "usage": {},
            "vault_ids": [],
            "outcome_evaluations": [],
        }


class AnthropicEnvironment:
    """An environment with a queue of sessions. `heartbeat` is the answer to heartbeats, or a status."""

    def __init__(self) -> None:
        self.sessions: dict[str, ScriptedSession] = {}
        self.heartbeat: int | str = "active"
        self.url = ""
        self.acked: list[str] = []
        self.stopped: list[str] = []
        self.beats = 0
        self.keys: set[str] = set()
        self._queue: list[str] = []

    def add_session(self, id: str, **fields: Any) -> ScriptedSession:  # noqa: A002
        """Queue work for a new session."""
        session = self.sessions[id] = ScriptedSession(id, **fields)
        self._queue.append(id)
        return session

    @asynccontextmanager
    async def serve(self) -> AsyncGenerator["AnthropicEnvironment"]:
        """Serve it on a free port, in this event loop."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        work = "/v1/environments/{environment}/work"
        routes = [
            Route(f"{work}/poll", self._poll),
            Route(f"{work}/{{id}}/ack", self._ack, methods=["POST"]),
            Route(f"{work}/{{id}}/heartbeat", self._beat, methods=["POST"]),
            Route(f"{work}/{{id}}/stop", self._stop, methods=["POST"]),
            Route("/v1/sessions/{id}", self._describe),
            Route("/v1/sessions/{id}/events/stream", self._stream),
            Route("/v1/sessions/{id}/events", self._list),
            Route("/v1/sessions/{id}/events", self._post, methods=["POST"]),
        ]
        config = uvicorn.Config(
            Starlette(routes=routes), log_level="warning", lifespan="off", timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve([listener]))
        try:
            yield self
        finally:
            server.should_exit = server.force_exit = True
            await serving

    def _work(self, id: str) -> dict[str, Any]:  # noqa: A002
        session = {"id": id, "type": "session"}
        return {
            "id": f"work_{id}",
            "type": "work",
            "state": "queued",
            "data": session,
            "environment_id": "env_1",
            "created_at": NOW,
            "metadata": {},
            "secret": None,
        }

    async def _poll(self, request: Request) -> Response:
        self.keys.add(request.headers.get("authorization", ""))
        if self._queue:
            return JSONResponse(self._work(self._queue.pop(0)))
        await asyncio.sleep(0.05)
        return JSONResponse(None)

    async def _ack(self, request: Request) -> Response:
        self.acked.append(request.path_params["id"])
        return JSONResponse(self._work(request.path_params["id"].removeprefix("work_")))

    async def _beat(self, request: Request) -> Response:
        del request
        self.beats += 1
        if isinstance(self.heartbeat, int):
            return JSONResponse({"type": "error", "error": {"type": "x", "message": "no"}}, self.heartbeat)
        answer = {"type": "work_heartbeat", "last_heartbeat": NOW, "lease_extended": True, "ttl_seconds": 2}
        return JSONResponse({**answer, "state": self.heartbeat})

    async def _stop(self, request: Request) -> Response:
        self.stopped.append(request.path_params["id"])
        return JSONResponse(self._work(request.path_params["id"].removeprefix("work_")))

    async def _describe(self, request: Request) -> Response:
        session = self.sessions[request.path_params["id"]]
        if session.is_deleted:
            return JSONResponse({"type": "error", "error": {"type": "not_found_error", "message": "deleted"}}, 404)
        return JSONResponse(session.to_json())

    async def _list(self, request: Request) -> Response:
        return JSONResponse({"data": self.sessions[request.path_params["id"]].events, "next_page": None})

    async def _post(self, request: Request) -> Response:
        session = self.sessions[request.path_params["id"]]
        events = (await request.json())["events"]
        for event in events:
            session.results[event["tool_use_id"]] = event
        session.changed.set()
        return JSONResponse({"data": events})

    async def _stream(self, request: Request) -> Response:
        session = self.sessions[request.path_params["id"]]

        async def send() -> AsyncIterator[str]:
            while True:
                event = await session.live.get()
                yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"

        return StreamingResponse(send(), media_type="text/event-stream")
