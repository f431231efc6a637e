"""The skill host as an application for any ASGI server: `uvicorn openskills.host.app:app`.

It is a FastAPI application, so that others can add routes to it or mount it. Invocations do not pass through its
layers: they cost more than an invocation does.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from openskills.host.draining import end_with, ends_gently
from openskills.host.options import HostOptions
from openskills.host.own_directory import remove_those_of_the_dead
from openskills.host.parts import Parts, RunnerTable, open_parts
from openskills.host.registry.reloading import prepare_all, reloads_on_hangup, watch
from openskills.host.routes.documents import docs_page, openapi_document
from openskills.host.routes.endpoints import Guarded, Open
from openskills.host.routes.health import healthz, metrics, readyz
from openskills.host.routes.invocations import Invocations
from openskills.host.routes.replays import Replays
from openskills.host.routes.run_starts import RunStarts
from openskills.host.routes.runs import events, run
from openskills.host.routes.skills import export_tools, list_skills, show_skill
from openskills.host.routes.streams import Streams
from openskills.host.routes.verbs import SkillVerbs, allowing, names_a_verb, options
from openskills.host.wire import faults
from openskills.host.wire.answers import Answer, refusal
from openskills.host.wire.exchange import Exchange, Receive, Scope, Send
from openskills.settings import Settings
from openskills.version import __version__

_log = logging.getLogger("openskills.host")

MakeRunners = Callable[[Settings], RunnerTable]


class SkillHostApp(FastAPI):
    """The application. Its host is there from the start of the server to its end."""

    verbs: SkillVerbs | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "http" and names_a_verb(scope["path"].removeprefix(scope.get("root_path") or "")):
            await self._verb(Exchange(scope, receive, send))
        else:
            await super().__call__(scope, receive, send)

    async def _verb(self, exchange: Exchange) -> None:
        try:
            if self.verbs is None:
                await exchange.answer(refusal(faults.starting(), exchange.trace))
            else:
                await self.verbs.handle(exchange)
        except Exception:  # the door: whatever went wrong, the caller gets a result
            _log.exception("the request with the trace id %s failed", exchange.trace.id)
            if exchange.answered:
                raise
            await exchange.answer(refusal(faults.internal(exchange.trace.id), exchange.trace))


def create_app(
    settings: Settings | None = None,
    options: HostOptions = HostOptions(),  # noqa: B008 - a value that never changes
    *,
    runners: MakeRunners | None = None,
) -> SkillHostApp:
    """The application of a host. Without settings they are read from the environment when the server starts.

    `runners` makes the table of runners; by default that of `openskills.host.running.runners`.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        chosen = settings or Settings.from_env()
        parts = await open_parts(chosen, options, (runners or _runners)(chosen))
        try:
            async with _serving(app, parts):
                yield
        finally:
            await parts.close()

    app = SkillHostApp(
        title="OpenSkill host",
        version=__version__,
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers={HTTPException: _refused, Exception: _failed},
    )
    app.router.routes.extend(_routes())
    return app


def _routes() -> list[Route]:
    return [
        Route("/healthz", Open(healthz), methods=["GET"]),
        Route("/readyz", Open(readyz), methods=["GET"]),
        Route("/metrics", Guarded(metrics), methods=["GET"]),
        Route("/skills", Guarded(list_skills), methods=["GET"]),
        Route("/skills/{skill_id}", Guarded(show_skill), methods=["GET"]),
        Route("/runs/{run_id}", Guarded(run)),
        Route("/runs/{run_id}/events", Guarded(events), methods=["GET"]),
        Route("/openapi.json", Guarded(openapi_document), methods=["GET"]),
        Route("/docs", Open(docs_page), methods=["GET"]),
        Route("/tools", Guarded(export_tools), methods=["GET"]),
    ]


@asynccontextmanager
async def _serving(app: FastAPI, parts: Parts) -> AsyncGenerator[None]:
    """The host takes requests from here to the end of the block."""
    assert isinstance(app, SkillHostApp)  # noqa: S101 - made above
    invocations = Invocations(
        parts.host,
        parts.gate,
        Replays(parts.idempotency),
        RunStarts(parts.host, parts.runs),
        most=parts.settings.host_max_body,
        seconds=parts.options.body_seconds,
    )
    app.state.parts = parts
    app.verbs = SkillVerbs(invocations, Streams(parts.host, invocations, ping=parts.options.ping_seconds))
    chores = [asyncio.create_task(prepare_all(parts)), asyncio.create_task(_tidied())]
    if parts.options.supervisor is not None:
        chores.append(asyncio.create_task(end_with(parts.options.supervisor)))
    if parts.options.watch:
        chores.append(asyncio.create_task(watch(parts)))
    try:
        with ends_gently(parts.host, parts.options.grace, parts.ending.set), reloads_on_hangup(parts):
            yield
    finally:
        # A server that handles signals by itself has waited for what was running.
        parts.host.draining = True
        parts.host.interrupt()
        parts.ending.set()
        for chore in chores:
            chore.cancel()
        await asyncio.wait(chores)


async def _tidied() -> None:
    """What hosts have left that were killed is gone. A host that cannot do that serves all the same."""
    with suppress(OSError):
        await asyncio.to_thread(remove_those_of_the_dead)


def _runners(settings: Settings) -> RunnerTable:
    from openskills.host.running.runners import Runners

    return Runners(settings)


async def _refused(request: Request, error: Exception) -> Response:
    """What the framework refuses: no such address, no such method."""
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for nothing else
    exchange = Exchange(request.scope, request.receive, _nowhere)
    if error.status_code == 405:
        methods = (*sorted(map(str.strip, (error.headers or {}).get("Allow", "").split(","))), "OPTIONS")
        if request.method == "OPTIONS":
            return _response(options(exchange, methods))
        failure = faults.wrong_method(request.method, methods)
        return _response(allowing(refusal(failure, exchange.trace, latency_ms=exchange.latency_ms), methods))
    if error.status_code == 404:
        failure = faults.unknown_address(exchange.path)
    else:
        failure = faults.other(error.status_code, str(error.detail))
    return _response(refusal(failure, exchange.trace, latency_ms=exchange.latency_ms))


async def _failed(request: Request, error: Exception) -> Response:
    """A fault of ours. The server writes it into its log after this."""
    del error
    exchange = Exchange(request.scope, request.receive, _nowhere)
    return _response(refusal(faults.internal(exchange.trace.id), exchange.trace))


def _response(answer: Answer) -> Response:
    response = Response(answer.body, answer.status)
    response.raw_headers = list(answer.headers)
    return response


async def _nowhere(_: Any) -> None:
    """Where answers go that the framework sends itself."""


app = create_app()
