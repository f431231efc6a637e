"""All routes but invocations: health, metrics, skills, tools, runs, conversations, OpenAPI and docs."""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import orjson
from starlette.routing import Route

from openskills.artifacts.store import Scope as ArtifactScope
from openskills.errors import InvalidArgument, LimitExceeded, SkillError, UnknownSkill
from openskills.executors.files.mime import SNIFF_BYTES, detect_mime_type
from openskills.executors.protocol import WorkspaceFileReader
from openskills.host import http
from openskills.host.auth import Principal
from openskills.host.bodies import read_fields, read_flag, read_message, read_object, read_text
from openskills.host.commands import COMMAND_KIND, MAX_INPUT_BYTES, MAX_UPLOAD_BYTES
from openskills.host.history import UNFINISHED, RunFilter
from openskills.host.http import (
    FILE_HEADERS,
    JSON_CONTENT_TYPE,
    ClientDisconnect,
    Headers,
    HttpExchange,
    HttpRefusal,
    HttpResponse,
    Receive,
    Scope,
    Send,
    SseEvent,
    Trace,
    build_document,
    build_file_headers,
    cancel_on_disconnect,
    send_events,
    send_file,
    stream_body,
    trace_headers,
)
from openskills.host.idempotency import location_header
from openskills.host.invoke import add_allow_header, options_response, start_run
from openskills.host.metrics import CONTENT_TYPE
from openskills.host.model import Failure
from openskills.host.openapi import (
    build_openapi,
    describe_skill,
    describe_skipped,
    list_tools,
)
from openskills.host.parts import HostParts
from openskills.host.runs import EventPosition, Run, RunState, encode_data
from openskills.host.service import InvokeRequest, check_scope
from openskills.settings import parse_seconds
from openskills.version import __version__

if TYPE_CHECKING:
    from openskills.prompt.usage import RecordedRequest

RouteHandler = Callable[[HttpExchange, HostParts, Principal], Awaitable[HttpResponse | None]]
"""Handles an authenticated request; returns None if it has sent the response itself."""
PublicRouteHandler = Callable[[HttpExchange, HostParts | None], Awaitable[HttpResponse | None]]
"""The same without authentication, and also before the host has started."""


class PublicRoute:
    """A route without authentication."""

    def __init__(self, handler: PublicRouteHandler) -> None:
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the handler; `SkillError` and `HttpRefusal` become error responses."""
        exchange = HttpExchange(scope, receive, send)
        with suppress(ClientDisconnect):
            try:
                if exchange.hostile is not None:
                    raise exchange.hostile
                answer = await self._handler(exchange, get_parts(exchange))
            except HttpRefusal as refused:
                answer = exchange.build_refusal(refused.failure)
                await exchange.send_response(
                    add_allow_header(answer, refused.allow) if refused.allow else answer, close=refused.close
                )
            except SkillError as error:
                await exchange.send_response(exchange.build_refusal(Failure.from_error(error)))
            else:
                if answer is not None:
                    await exchange.send_response(answer)


def get_parts(exchange: HttpExchange) -> HostParts | None:
    """The parts of the running host; None before it has started."""
    return getattr(exchange.scope["app"].state, "parts", None)


async def healthz(exchange: HttpExchange, _: HostParts | None) -> HttpResponse:
    """The process is alive."""
    return _respond_with(exchange, {"status": "ok", "version": __version__})


async def readyz(exchange: HttpExchange, parts: HostParts | None) -> HttpResponse:
    """Whether the host accepts invocations; 503 while it is starting or draining."""
    if parts is None or not parts.prepared:
        raise HttpRefusal(http.host_starting())
    if parts.host.stopping or parts.host.draining:
        raise HttpRefusal(http.host_draining())
    counts = {"ready": 0, "broken": 0, "unavailable": 0}
    for entry in parts.registry.list_entries():
        counts[entry.status] += 1
    return _respond_with(exchange, {"status": "ready", "skills": counts, "running": parts.host.in_flight})


async def show_metrics(exchange: HttpExchange, parts: HostParts, principal: Principal) -> HttpResponse:
    """Metrics in the Prometheus text format, of the skills that the caller may invoke."""
    text = parts.metrics.render(principal.can_invoke, parts.cluster.get_latest())
    return _build_response(exchange, text, (b"content-type", CONTENT_TYPE.encode()))


async def list_skills(exchange: HttpExchange, parts: HostParts, principal: Principal) -> HttpResponse:
    """All skills that the caller may invoke, including broken ones with their problems, and what is not served."""
    entries = (entry for entry in parts.registry.list_entries() if principal.can_invoke(entry.id))
    skipped = [one for one in parts.registry.skipped if principal.can_invoke(one.id)]
    listed = {
        "skills": [describe_skill(entry, parts.start, parts.settings) for entry in entries],
        "not_served": [describe_skipped(one) for one in skipped],
    }
    return _respond_with(exchange, listed)


async def show_skill(exchange: HttpExchange, parts: HostParts, principal: Principal) -> HttpResponse:
    name = exchange.scope["path_params"]["skill_id"]
    try:
        entry = parts.registry.get_entry(parts.host.resolve_id(name, principal))
    except UnknownSkill as error:
        check_scope(principal, name, None)
        raise UnknownSkill(name, tuple(filter(principal.can_invoke, error.near))) from None
    check_scope(principal, name, entry.id)
    return _respond_with(exchange, describe_skill(entry, parts.start, parts.settings), skill_id=entry.id)


async def export_tools(exchange: HttpExchange, parts: HostParts, principal: Principal) -> HttpResponse:
    """Ready skills as tools for models: `?format=openai|openai-chat|anthropic|mcp`."""
    form = exchange.read_query().get("format", "openai")
    return _respond_with(exchange, {"format": form, "tools": list_tools(parts.registry, principal, form)})


async def serve_console(exchange: HttpExchange, parts: HostParts | None) -> HttpResponse | None:
    """A page of the console. What renders pages is imported with the first one."""
    if parts is not None and not parts.options.console:
        raise HttpRefusal(http.unknown_address(exchange.path))
    from openskills.host.console.pages import handle_console

    return await handle_console(exchange, parts)


MAX_PAGE = 1_000
"""Runs in one response."""
MAX_BUCKETS = 500
"""Intervals of a time series."""
_DAY = 24 * 60 * 60.0


async def list_runs(exchange: HttpExchange, parts: HostParts, principal: Principal) -> HttpResponse:
    """The runs and calls of the caller, newest first: `?skill=&state=&since=&until=&text=&before=&limit=`."""
    query = exchange.read_query()
    limit = _read_number(query, "limit", 50, MAX_PAGE, 1)
    await parts.history.recover()
    found = await parts.runs.list(read_run_filter(query, find_owner(principal)), limit=limit)
    listed = [record.to_dict() for record in found]
    following = found[-1].id if len(found) == limit else None
    return _respond_with(exchange, {"runs": listed, "next": following})


async def show_run_series(exchange: HttpExchange, parts: HostParts, principal: Principal) -> HttpResponse:
    """Calls, errors, p50 and p95 over time: `?buckets=` and the filters of `list_runs`; by default of the last day."""
    query = exchange.read_query()
    wanted = read_run_filter(query, find_owner(principal))
    until = wanted.until or time.time()
    since = wanted.since if wanted.since is not None else until - _DAY
    if since >= until:
        raise InvalidArgument("since", "must be before until")
    buckets = _read_number(query, "buckets", 48, MAX_BUCKETS, 1)
    await parts.history.recover()
    found = await parts.runs.series(wanted, since=since, until=until, buckets=buckets)
    return _respond_with(exchange, {"seconds": (until - since) / buckets, "series": [one.to_dict() for one in found]})


async def compare_two_runs(exchange: HttpExchange, parts: HostParts, principal: Principal) -> HttpResponse:
    """What differs between the runs `?a=` and `?b=`."""
    query = exchange.read_query()
    for name in ("a", "b"):
        if not query.get(name):
            raise InvalidArgument(name, "required; send the ids of two runs as a and b")
    await parts.history.recover()
    return _respond_with(exchange, await parts.runs.compare(query["a"], query["b"], principal=find_owner(principal)))


def find_owner(principal: Principal) -> str | None:
    """Whose runs a caller may see: its own; all if it may manage the host."""
    return None if principal.has_role("admin") else principal.name


def read_run_filter(query: Mapping[str, str], owner: str | None) -> RunFilter:
    """The filter of a request, limited to the runs of an owner. Raises `InvalidArgument`."""
    who = owner or query.get("who") or None
    state = query.get("state", "")
    if state and state not in (UNFINISHED, *RunState):
        raise InvalidArgument("state", f"{state[:50]!r} is not one of {', '.join((*RunState, UNFINISHED))}")
    since, until = (_read_time(query, name) for name in ("since", "until"))
    text, before = query.get("text", "")[:200], query.get("before", "")[:100]
    return RunFilter(query.get("skill") or None, state, who, since, until, text, before)


def _read_time(query: Mapping[str, str], name: str) -> float | None:
    """A time in ISO 8601, or a duration before now such as `24h`."""
    text = query.get(name, "")
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return time.time() - parse_seconds(text, name)
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()


def _read_number(query: Mapping[str, str], name: str, default: int, maximum: int, minimum: int = 0) -> int:
    text = query.get(name) or str(default)
    if not (text.isascii() and text.isdigit() and len(text) < 10 and minimum <= int(text) <= maximum):
        raise InvalidArgument(name, f"invalid number {text[:50]!r}: use {minimum} to {maximum:,}")
    return int(text)


async def handle_run(exchange: HttpExchange, parts: HostParts, principal: Principal) -> HttpResponse:
    """A run with everything that is known about it; a verb after its id cancels it, runs it again, or sends input."""
    run_id, colon, verb = _get_path_value(exchange, "run_id").partition(":")
    if colon and verb not in ("again", *_RUN_ACTIONS):
        raise HttpRefusal(http.unknown_action(f":{verb}", [f":{name}" for name in (*_RUN_ACTIONS, "again")]))
    if (answer := _check_method(exchange, *(("POST",) if colon else ("GET", "HEAD")))) is not None:
        return answer
    if not colon:
        await parts.history.recover()
        document = (await parts.runs.describe(run_id, principal=find_owner(principal))).to_dict()
        return _respond_with(exchange, document, skill_id=document["skill_id"])
    principal.require_role("run")
    if verb == "again":
        env = (await read_fields(exchange, parts, ("env",))).get("env", {})
        return respond_with_run(exchange, await run_again(parts, principal, run_id, exchange.trace, env))
    return await _RUN_ACTIONS[verb](exchange, parts, await parts.runs.get(run_id, principal=find_owner(principal)))


async def run_again(parts: HostParts, principal: Principal, run_id: str, trace: Trace, env: Any = None) -> Run:
    """Start a run with the input of another one. Raises `SkillError` and `HttpRefusal`.

    The values of a command's variables were not stored; `env` has them again.
    """
    found = await parts.runs.describe(run_id, principal=find_owner(principal))
    request = found.read_request()
    if request is None:
        raise InvalidArgument("run", "its input was not stored, so it cannot be run again; send the input again")
    if found.run is not None and found.run.kind == COMMAND_KIND:
        workspace, names = str(request.pop("workspace", "")), list[str](request.pop("env", ()))
        missing = [name for name in names if not isinstance(env, dict) or name not in env]
        if missing:
            fix = f'send them again: {{"env": {{"{missing[0]}": "..."}}}}'
            raise InvalidArgument("env", f"the values of {', '.join(missing)[:300]} were not stored; {fix}")
        return await parts.commands.start(principal, workspace, {**request, **({"env": env} if env else {})}, trace)
    if env:
        raise InvalidArgument("env", "only commands have variables")
    skill_id = found.to_dict()["skill_id"]
    asked = InvokeRequest(skill_id, request["input"], trace.id, principal, time.perf_counter())
    asked = asked._replace(body=encode_data(request), traceparent=trace.here, parent=trace.parent)
    return await start_run(parts.host, parts.runs, asked)


async def _cancel_run(exchange: HttpExchange, parts: HostParts, run: Run) -> HttpResponse:
    cancelled = await parts.runs.cancel(run.id)
    return _respond_with(exchange, cancelled.to_dict(), skill_id=cancelled.skill_id)


async def _send_input(exchange: HttpExchange, parts: HostParts, run: Run) -> HttpResponse:
    """`text` goes to the input of a command; `close` ends the input."""
    asked = await read_object(exchange, parts, 6 * MAX_INPUT_BYTES + 100)
    text, close = asked.get("text", ""), asked.get("close", False)
    if not isinstance(text, str) or not isinstance(close, bool) or not asked.keys() <= {"text", "close"}:
        raise InvalidArgument("body", 'expected {"text": "...", "close": false}')
    data = text.encode("utf-8", "replace")
    if len(data) > MAX_INPUT_BYTES:
        raise LimitExceeded(f"the text has {len(data):,} bytes; the limit is {MAX_INPUT_BYTES:,}")
    taken = await parts.commands.get(run).write(data, close=close)
    return build_document({"taken_bytes": taken, "given_bytes": len(data)}, exchange.trace)


async def _resize_terminal(exchange: HttpExchange, parts: HostParts, run: Run) -> HttpResponse:
    asked = await read_object(exchange, parts, 1_000)
    rows, columns = asked.get("rows"), asked.get("columns")
    if not (type(rows) is int and type(columns) is int and 1 <= rows <= 100 and 1 <= columns <= 300):
        raise InvalidArgument("rows", "expected rows from 1 to 100 and columns from 1 to 300")
    await parts.commands.get(run).resize(rows, columns)
    return build_document({"rows": rows, "columns": columns}, exchange.trace)


_RUN_ACTIONS: Mapping[str, Callable[[HttpExchange, HostParts, Run], Awaitable[HttpResponse]]] = {
    "cancel": _cancel_run,
    "input": _send_input,
    "resize": _resize_terminal,
}


async def show_screen(exchange: HttpExchange, parts: HostParts, principal: Principal) -> HttpResponse:
    """What the terminal of a command shows, or showed at its end."""
    run = await parts.runs.get(_get_path_value(exchange, "run_id"), principal=find_owner(principal))
    return build_document({"screen": await parts.commands.read_screen(run)}, exchange.trace)


async def start_command(exchange: HttpExchange, parts: HostParts, principal: Principal) -> HttpResponse:
    """Start a command in a workspace: 202 with the run and its `Location`."""
    principal.require_role("run")
    asked = await read_object(exchange, parts, parts.settings.host_max_body)
    run = await parts.commands.start(principal, _get_path_value(exchange, "name"), asked, exchange.trace)
    return respond_with_run(exchange, run)


def respond_with_run(exchange: HttpExchange, run: Run) -> HttpResponse:
    """202 with a run that was started."""
    answer = _respond_with(exchange, run.to_dict(), 202, run.skill_id)
    answer.headers.append(location_header(run.id))
    return answer


async def list_workspace_files(exchange: HttpExchange, parts: HostParts, principal: Principal) -> HttpResponse:
    """The files of a workspace of the caller."""
    principal.require_role("run")
    found = await parts.commands.list_files(principal, _get_path_value(exchange, "name"))
    files = [{"path": one.path, "size_bytes": one.size} for one in found]
    return _respond_with(exchange, {"files": files})


async def handle_workspace_file(exchange: HttpExchange, parts: HostParts, principal: Principal) -> HttpResponse | None:
    """Download, upload (`PUT`) or remove (`DELETE`) a file of a workspace of the caller."""
    name, path = _get_path_value(exchange, "name"), _get_path_value(exchange, "path")
    principal.require_role("run")
    parts.host.count_request(principal)
    if exchange.method == "PUT":
        body = stream_body(exchange, MAX_UPLOAD_BYTES, timeout=6 * parts.options.body_seconds)
        async with aclosing(body):
            info = await parts.commands.write_file(principal, name, path, body)
        return build_document({"path": info.path, "size_bytes": info.size}, exchange.trace, status=201)
    if exchange.method == "DELETE":
        removed = await parts.commands.remove_file(principal, name, path)
        return build_document({"removed": removed}, exchange.trace)
    async with parts.commands.open_file(principal, name, path) as reading:
        await send_workspace_file(exchange, reading, lambda kind: build_file_headers(path, kind))
    return None


async def send_workspace_file(
    exchange: HttpExchange, reading: WorkspaceFileReader, build_headers: Callable[[str], Headers]
) -> None:
    """Send a file of a workspace; `build_headers` gets the type that its beginning has."""
    first = await anext(reading.chunks, b"")

    async def chain() -> AsyncGenerator[bytes]:
        yield first
        async for chunk in reading.chunks:
            yield chunk

    headers = build_headers(detect_mime_type(reading.info.path, first[:SNIFF_BYTES]))
    async with aclosing(chain()) as chunks:
        await send_file(exchange, chunks, reading.info.size, headers)


def _get_path_value(exchange: HttpExchange, name: str) -> str:
    return exchange.scope["path_params"][name]


async def stream_run_events(exchange: HttpExchange, parts: HostParts, principal: Principal) -> None:
    """The events of a run, from its start or after `Last-Event-ID`. Disconnecting does not affect the run.

    `?after=` is for clients that cannot send the header with their first request.
    """
    run_id, owner = _get_path_value(exchange, "run_id"), find_owner(principal)
    after = _parse_event_id(exchange.header(b"last-event-id") or exchange.read_query().get("after"))
    # Before the stream starts: afterwards a 404 could not be sent.
    await parts.runs.get(run_id, principal=owner)

    async def encode() -> AsyncGenerator[SseEvent]:
        async with aclosing(parts.runs.events(run_id, after, principal=owner)) as events:
            async for event in events:
                yield SseEvent(event.kind, event.data, str(event.id))

    await stream_events(exchange, parts, encode())


def _parse_event_id(header: str | None) -> int:
    if not header:
        return 0
    if not (header.isascii() and header.isdigit() and len(header) < 16):
        raise InvalidArgument("Last-Event-ID", f"invalid event id {header[:50]!r}: expected an integer")
    return int(header)


def _check_method(exchange: HttpExchange, *allowed: str) -> HttpResponse | None:
    """The response to OPTIONS; None for an allowed method. Raises `HttpRefusal`."""
    methods = (*allowed, "OPTIONS")
    if exchange.method == "OPTIONS":
        return options_response(exchange, methods)
    if exchange.method not in methods:
        raise HttpRefusal(http.wrong_method(exchange.method, methods), allow=methods)
    return None


async def list_models(exchange: HttpExchange, parts: HostParts, principal: Principal) -> HttpResponse:
    """The models that conversations may use."""
    del principal
    models = parts.conversations.list_models()
    return _respond_with(exchange, {"models": models, "default": models[0]})


def _respond_with(
    exchange: HttpExchange, document: Mapping[str, Any], status: int = 200, skill_id: str = ""
) -> HttpResponse:
    return build_document(document, exchange.trace, skill_id=skill_id, status=status, latency_ms=exchange.latency_ms)


async def handle_conversations(exchange: HttpExchange, parts: HostParts, principal: Principal) -> HttpResponse:
    """List the caller's conversations (`?search=`, `?limit=`, `?offset=`), or create one."""
    if exchange.method == "POST":
        principal.require_role("run")
        fields = await read_fields(exchange, parts, ("title", "model", "ask"))
        model = read_text(fields, "model") if "model" in fields else None
        made = await parts.conversations.create(
            principal, title=read_text(fields, "title"), model=model, asks=read_flag(fields, "ask")
        )
        response = _respond_with(exchange, made.to_dict(), status=201)
        response.headers.append((b"location", f"/conversations/{made.id}".encode("latin-1")))
        return response
    query = exchange.read_query()
    found, more = await parts.conversations.list(
        principal,
        search=query.get("search", ""),
        limit=_read_number(query, "limit", 50, 1_000),
        offset=_read_number(query, "offset", 0, 1_000_000),
    )
    return _respond_with(exchange, {"conversations": [one.to_dict() for one in found], "more": more})


async def handle_conversation(exchange: HttpExchange, parts: HostParts, principal: Principal) -> HttpResponse:
    """A conversation; `:cancel` after its id cancels the running turn."""
    identity, colon, verb = exchange.scope["path_params"]["conversation_id"].partition(":")
    if colon and verb != "cancel":
        raise HttpRefusal(http.unknown_action(f":{verb}", [":cancel"]))
    if (answer := _check_method(exchange, *(("POST",) if colon else ("GET", "HEAD", "DELETE")))) is not None:
        return answer
    if colon:
        principal.require_role("run")
        run = await parts.conversations.cancel(principal, identity)
        return _respond_with(exchange, {"run": None if run is None else run.to_dict()})
    if exchange.method == "DELETE":
        principal.require_role("run")
        await parts.conversations.delete(principal, identity)
        return _respond_with(exchange, {"deleted": identity})
    return _respond_with(exchange, (await parts.conversations.show(principal, identity)).to_dict())


async def send_message(exchange: HttpExchange, parts: HostParts, principal: Principal) -> HttpResponse:
    """Send a message as JSON or as a form with files; the response names the run that answers it."""
    principal.require_role("run")
    message = await read_message(exchange, parts)
    identity: str = exchange.scope["path_params"]["conversation_id"]
    run = await parts.conversations.send(principal, identity, message, exchange.trace.id)
    response = _respond_with(exchange, {"conversation": identity, "run": run.to_dict()}, status=202)
    response.headers.append(location_header(run.id))
    return response


async def stream_conversation(exchange: HttpExchange, parts: HostParts, principal: Principal) -> None:
    """The events of a conversation's turns, from the start of a running one or after `Last-Event-ID`."""
    identity: str = exchange.scope["path_params"]["conversation_id"]
    after = EventPosition.parse(exchange.header(b"last-event-id"))
    # Before the stream starts: afterwards a 404 could not be sent.
    await parts.conversations.read_turn(await parts.conversations.get(principal, identity), after)

    async def encode() -> AsyncGenerator[SseEvent]:
        async with aclosing(parts.conversations.follow(principal, identity, after)) as events:
            async for event in events:
                yield SseEvent(event.kind, {"run": event.position.run, **event.data}, str(event.position))

    await stream_events(exchange, parts, encode())


async def stream_events(exchange: HttpExchange, parts: HostParts, events: AsyncGenerator[SseEvent]) -> None:
    """Send events until their end, a disconnect, or the shutdown of the host."""
    async with aclosing(events):
        with suppress(ClientDisconnect):
            await cancel_on_disconnect(
                exchange.receive, send_events(exchange, events, ping=parts.options.ping_seconds, until=parts.shutdown)
            )


async def answer_approval(exchange: HttpExchange, parts: HostParts, principal: Principal) -> HttpResponse:
    """Answer a command that waits for approval: `{"decision": "allow_once"}`."""
    principal.require_role("run")
    params = exchange.scope["path_params"]
    fields = await read_fields(exchange, parts, ("decision", "reason"))
    decision, reason = read_text(fields, "decision"), read_text(fields, "reason")
    await parts.conversations.answer(principal, params["conversation_id"], params["approval_id"], decision, reason)
    return _respond_with(exchange, {"approval": params["approval_id"], "decision": decision})


async def list_requests(exchange: HttpExchange, parts: HostParts, principal: Principal) -> HttpResponse:
    """The recorded requests of a conversation."""
    found = await parts.conversations.read_requests(principal, exchange.scope["path_params"]["conversation_id"])
    return _respond_with(exchange, {"requests": [describe_request(one) for one in found]})


def describe_request(request: "RecordedRequest") -> dict[str, Any]:
    """A recorded request without its body."""
    return {
        "number": request.number,
        "at": request.at.isoformat(),
        "agent": request.agent,
        "model": request.model,
        "bytes": request.size,
        "sha256": request.digest,
        "tokens": dict(request.tokens),
        "recorded": request.body is not None,
    }


def select_request(
    found: "Sequence[RecordedRequest]", number: str
) -> "tuple[RecordedRequest, RecordedRequest | None, bytes]":
    """A request, the one of the same agent before it, and its body. Raises `HttpRefusal`."""
    index = next((index for index, one in enumerate(found) if str(one.number) == number), None)
    if index is None:
        raise HttpRefusal(http.unknown_part(f"unknown request {number[:50]!r}; {len(found)} were recorded"))
    wanted = found[index]
    if wanted.body is None:
        raise HttpRefusal(http.unknown_part(f"the body of request {number} ({wanted.size:,} bytes) was not recorded"))
    before = next((one for one in reversed(found[:index]) if one.agent == wanted.agent and one.body is not None), None)
    return wanted, before, wanted.body


async def show_request(exchange: HttpExchange, parts: HostParts, principal: Principal) -> HttpResponse:
    """A request with its difference to the one before; `?raw=1` is its body, byte for byte as it was sent."""
    params = exchange.scope["path_params"]
    found = await parts.conversations.read_requests(principal, params["conversation_id"])
    wanted, before, body = select_request(found, params["number"])
    if exchange.read_query().get("raw") == "1":
        answer = _build_response(exchange, body, JSON_CONTENT_TYPE)
        answer.headers.extend(FILE_HEADERS)
        return answer
    from openskills.prompt.usage import compare_requests

    changes = compare_requests(before.body if before else None, body)
    document = {
        **describe_request(wanted),
        "compared_with": None if before is None else before.number,
        "body": body.decode("utf-8", "replace"),
        "changes": [{"state": one.state, **one.element._asdict(), "before": one.before} for one in changes],
    }
    return _respond_with(exchange, document)


_INLINE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


async def download_file(exchange: HttpExchange, parts: HostParts, principal: Principal) -> None:
    """An artifact or attachment of a conversation: `?version=N`, by default the latest. Images can be shown inline."""
    params, query = exchange.scope["path_params"], exchange.read_query()
    head = await parts.conversations.get(principal, params["conversation_id"])
    version = _read_number(query, "version", 0, 10**9 - 1) if "version" in query else None
    scope = ArtifactScope(head.key.app, head.key.user, head.key.session)
    async with parts.conversations.artifacts.open(scope, params["name"], version) as reading:
        artifact = reading.artifact
        is_inline = query.get("inline") == "1" and artifact.mime_type in _INLINE_TYPES
        kind = artifact.mime_type if is_inline else "application/octet-stream"
        headers = build_file_headers(artifact.name, kind, is_inline=is_inline)
        await send_file(exchange, reading.chunks, artifact.size, headers)


_HTML = (b"content-type", b"text/html; charset=utf-8")
_CONTENT_SECURITY_POLICY = (
    b"content-security-policy",
    b"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'",
)


async def show_openapi(exchange: HttpExchange, parts: HostParts, principal: Principal) -> HttpResponse:
    """The OpenAPI document of the skills that the caller may invoke."""
    skills = [one for one in parts.registry.list_registrations() if principal.can_invoke(one.id)]
    document = build_openapi(
        skills,
        url=_base_url(exchange),
        keys_needed=parts.authenticator.is_key_required(exchange),
        models=parts.conversations.list_models(),
    )
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


def define_route(path: str, handler: RouteHandler, *methods: str) -> Route:
    """A route that needs authentication; without methods its handler checks them."""

    async def authenticate(exchange: HttpExchange, parts: HostParts | None) -> HttpResponse | None:
        if parts is None:
            raise HttpRefusal(http.host_starting())
        return await handler(exchange, parts, parts.authenticator.authenticate(exchange))

    return Route(path, PublicRoute(authenticate), methods=methods or None)


ROUTES = (
    Route("/healthz", PublicRoute(healthz), methods=["GET"]),
    Route("/readyz", PublicRoute(readyz), methods=["GET"]),
    define_route("/metrics", show_metrics, "GET"),
    define_route("/skills", list_skills, "GET"),
    define_route("/skills/{skill_id}", show_skill, "GET"),
    define_route("/runs", list_runs, "GET"),
    define_route("/runs/series", show_run_series, "GET"),
    define_route("/runs/compare", compare_two_runs, "GET"),
    define_route("/runs/{run_id}", handle_run),
    define_route("/runs/{run_id}/events", stream_run_events, "GET"),
    define_route("/runs/{run_id}/screen", show_screen, "GET"),
    define_route("/models", list_models, "GET"),
    define_route("/conversations", handle_conversations, "GET", "POST"),
    define_route("/conversations/{conversation_id}", handle_conversation),
    define_route("/conversations/{conversation_id}/messages", send_message, "POST"),
    define_route("/conversations/{conversation_id}/events", stream_conversation, "GET"),
    define_route("/conversations/{conversation_id}/approvals/{approval_id}", answer_approval, "POST"),
    define_route("/conversations/{conversation_id}/requests", list_requests, "GET"),
    define_route("/conversations/{conversation_id}/requests/{number}", show_request, "GET"),
    define_route("/conversations/{conversation_id}/files/{name:path}", download_file, "GET"),
    define_route("/workspaces/{name}/commands", start_command, "POST"),
    define_route("/workspaces/{name}/files", list_workspace_files, "GET"),
    define_route("/workspaces/{name}/files/{path:path}", handle_workspace_file, "GET", "PUT", "DELETE"),
    define_route("/openapi.json", show_openapi, "GET"),
    Route("/docs", PublicRoute(show_docs), methods=["GET"]),
    define_route("/tools", export_tools, "GET"),
    Route("/", PublicRoute(serve_console)),
    Route("/console/{path:path}", PublicRoute(serve_console)),
)
