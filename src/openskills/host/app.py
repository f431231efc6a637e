"""The skill host as an ASGI application: `uvicorn openskills.host.app:app`.

It is a FastAPI application, so that others can add routes or mount it. Invocations bypass the layers of FastAPI, which
cost more than the invocation itself.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from openskills.arguments import check_arguments
from openskills.errors import SkillError
from openskills.host import http
from openskills.host.console.catalog import list_catalog
from openskills.host.console.host import delete_workspace, handle_admin, show_workspaces
from openskills.host.console.skill import describe_catalog_skill
from openskills.host.http import HttpExchange, HttpResponse, Receive, Scope, Send
from openskills.host.invoke import (
    SkillActions,
    add_allow_header,
    is_action_path,
    options_response,
)
from openskills.host.lifecycle import drain_on_signals, exit_with_supervisor, remove_orphaned_dirs
from openskills.host.mcp import McpRoute
from openskills.host.parts import HostOptions, HostParts, open_parts
from openskills.host.publication import PublishedSkills, publish_route
from openskills.host.registry.reload import follow_changes, prepare_all, reload_on_hangup, watch
from openskills.host.routes import ROUTES, PublicRoute, define_route
from openskills.host.runners.table import Runners
from openskills.host.service import RunnerTable
from openskills.host.skills import ORPHAN_SECONDS, SkillStore
from openskills.host.vendors.api import VendorApi
from openskills.settings import Settings
from openskills.version import __version__

T = TypeVar("T")
_CHORE_PAUSE = 1.0
_log = logging.getLogger("openskills.host")

RunnerFactory = Callable[[Settings], RunnerTable]


class SkillHostApp(FastAPI):
    """The application. Its host exists while the server runs."""

    actions: SkillActions | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and is_action_path(scope["path"].removeprefix(scope.get("root_path") or "")):
            await self._handle_action(HttpExchange(scope, receive, send))
        else:
            await super().__call__(scope, receive, send)

    async def _handle_action(self, exchange: HttpExchange) -> None:
        try:
            if self.actions is None:
                await exchange.send_response(exchange.build_refusal(http.host_starting()))
            else:
                await self.actions.handle(exchange)
        except Exception:  # whatever went wrong, the caller gets a result
            _log.exception("request failed, trace id %s", exchange.trace.id)
            if exchange.answered:
                raise
            await exchange.send_response(exchange.build_refusal(http.internal_error(exchange.trace.id)))


@check_arguments
def create_app(
    settings: Settings | None = None,
    options: HostOptions = HostOptions(),  # noqa: B008 - immutable
    *,
    runners: RunnerFactory | None = None,
) -> SkillHostApp:
    """Create the application. Settings default to those of the environment when the server starts.

    `runners` creates the table of runners; by default `openskills.host.runners.table.Runners`.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        chosen = settings or Settings.from_env()
        parts = await open_parts(chosen, options, (runners or Runners)(chosen))
        try:
            async with _run_host(app, parts):
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
        exception_handlers={HTTPException: _handle_http_exception, Exception: _handle_error},
    )
    app.router.routes += [
        *ROUTES,
        define_route("/workspaces", show_workspaces, "GET"),
        define_route("/workspaces/{name}", delete_workspace, "DELETE"),
        define_route("/mcp", McpRoute().handle),
        Route("/v1/{path:path}", VendorApi()),
        *_list_published_routes(PublishedSkills()),
        define_route("/catalog", list_catalog, "GET"),
        define_route("/catalog/{name:path}", describe_catalog_skill, "GET"),
        define_route("/admin/{path:path}", handle_admin),
    ]
    return app


def _list_published_routes(published: PublishedSkills) -> list[Route]:
    handlers = {
        "/marketplace.json": published.show_marketplace,
        "/plugins/{name}.zip": published.send_plugin,
        "/published": published.show_published,
        "/api/search": published.search,
        "/api/download/{owner}/{repo}/{slug}": published.download,
    }
    for place in ("", "/{scope}"):
        handlers |= {
            f"{place}/.well-known/agent-skills/index.json": published.show_index,
            f"{place}/.well-known/agent-skills/{{path:path}}": published.send_file,
            f"{place}/.well-known/skills/index.json": published.show_old_index,
            f"{place}/.well-known/skills/{{path:path}}": published.send_file,
        }
    return [Route(path, PublicRoute(publish_route(one)), methods=["GET"]) for path, one in handlers.items()]


@asynccontextmanager
async def _run_host(app: FastAPI, parts: HostParts) -> AsyncGenerator[None]:
    """Serve requests while the block runs."""
    assert isinstance(app, SkillHostApp)  # noqa: S101 - created above
    app.state.parts = parts
    app.actions = SkillActions(parts)
    chores = [asyncio.create_task(chore) for chore in _list_chores(parts)]
    try:
        options = parts.options
        draining = drain_on_signals(parts.host, options.grace, parts.shutdown.set, delay=options.drain_delay)
        with draining, reload_on_hangup(parts):
            yield
    finally:
        # A server that handles signals itself has waited for running invocations.
        parts.host.draining = True
        parts.host.interrupt()
        parts.shutdown.set()
        for chore in chores:
            chore.cancel()
        await asyncio.wait(chores)


def _list_chores(parts: HostParts) -> Iterator[Coroutine[Any, Any, None]]:
    """What a host does in the background."""
    options = parts.options
    yield prepare_all(parts)
    yield _remove_leftovers()
    yield _keep_running(HostParts.end_invalid, parts)
    if options.supervisor is not None:
        yield exit_with_supervisor(options.supervisor)
    if parts.uploads is not None:
        yield _keep_running(_sweep_uploads, parts.uploads)
    if options.preload and parts.console is not None:
        yield parts.console.preload()
    if options.watch:
        yield _keep_running(watch, parts)
    if parts.database.is_shared:
        yield _keep_running(follow_changes, parts)


async def _keep_running(chore: Callable[[T], Awaitable[None]], argument: T) -> None:
    """Do a chore again and again, also after an unexpected error: without some of them, revoked keys stay valid."""
    logged = ""
    while True:
        try:
            await chore(argument)
        except Exception as error:  # noqa: BLE001 - it is logged, unless it is the same as the last one
            if repr(error) != logged:
                _log.exception("a background task has failed; it starts again in %g s", _CHORE_PAUSE)
            logged = repr(error)
        await asyncio.sleep(_CHORE_PAUSE)


async def _remove_leftovers() -> None:
    # Directories of killed hosts.
    with suppress(OSError):
        await asyncio.to_thread(remove_orphaned_dirs)


async def _sweep_uploads(uploads: SkillStore) -> None:
    while True:
        await asyncio.sleep(ORPHAN_SECONDS)
        try:
            await uploads.sweep()
        except SkillError as error:
            _log.warning("cannot remove unused uploads: %s", error.message)


async def _handle_http_exception(request: Request, error: Exception) -> Response:
    """Errors of the framework: unknown path, wrong method."""
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for this class only
    exchange = HttpExchange(request.scope, request.receive, _discard)
    if error.status_code == 405:
        methods = (*sorted(map(str.strip, (error.headers or {}).get("Allow", "").split(","))), "OPTIONS")
        if request.method == "OPTIONS":
            return _to_starlette_response(options_response(exchange, methods))
        failure = http.wrong_method(request.method, methods)
        return _to_starlette_response(add_allow_header(exchange.build_refusal(failure), methods))
    if error.status_code == 404:
        failure = http.unknown_address(exchange.path)
    else:
        failure = http.framework_error(error.status_code, str(error.detail))
    return _to_starlette_response(exchange.build_refusal(failure))


async def _handle_error(request: Request, error: Exception) -> Response:
    """A bug in the host. The server logs it after this."""
    del error
    exchange = HttpExchange(request.scope, request.receive, _discard)
    return _to_starlette_response(exchange.build_refusal(http.internal_error(exchange.trace.id)))


def _to_starlette_response(answer: HttpResponse) -> Response:
    response = Response(answer.body, answer.status)
    response.raw_headers = list(answer.headers)
    return response


async def _discard(_: Any) -> None:
    """The framework sends the response itself."""


app = create_app()
