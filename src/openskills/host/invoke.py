"""`POST /skills/{id}:invoke` and `:stream`, and asynchronous runs (`Prefer: respond-async` or `?mode=async`)."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from functools import partial
from typing import Any
from urllib.parse import parse_qs

import orjson

from openskills.errors import InvalidArgument, SkillError
from openskills.host import http
from openskills.host.auth import ANONYMOUS, Principal
from openskills.host.history import new_run_id
from openskills.host.http import (
    ClientDisconnect,
    HttpExchange,
    HttpRefusal,
    HttpResponse,
    SseEvent,
    build_document,
    cancel_on_disconnect,
    read_body,
    response_from_result,
    send_events,
    trace_headers,
)
from openskills.host.idempotency import (
    IDEMPOTENCY_HEADER,
    REPLAYED_HEADER,
    IdempotencyClaim,
    IdempotentResponse,
    build_replay,
    location_header,
)
from openskills.host.model import Failure, InvokeResult, Listener, SkillOutputEvent
from openskills.host.parts import HostParts
from openskills.host.runs import Run, Runs, encode_data
from openskills.host.service import Host, Invocation, InvokeRequest
from openskills.host.strict_json import check_json, read_input

_PREFERENCE_APPLIED = (b"preference-applied", b"respond-async")


def is_synchronous(exchange: HttpExchange) -> bool:
    """Whether the caller waits for the result. Raises `InvalidArgument` for an unknown mode."""
    if exchange.scope["query_string"]:
        modes = parse_qs(exchange.scope["query_string"].decode("latin-1"), keep_blank_values=True).get("mode", ["sync"])
        if modes[-1] not in {"sync", "async"}:
            raise InvalidArgument("mode", f"{modes[-1][:50]!r} is not one of sync, async")
        if modes[-1] == "async":
            return False
    prefer = exchange.headers.get(b"prefer")
    return prefer is None or b"respond-async" not in {part.strip() for part in prefer.lower().split(b",")}


async def start_run(host: Host, runs: Runs, asked: InvokeRequest) -> Run:
    """Start an asynchronous run. Raises `SkillError`, or `HttpRefusal` if it cannot start."""
    host.check_request(asked)
    registration = host.get_registration(asked.skill_id, asked.principal)
    run_id = new_run_id()

    async def make(listener: Listener) -> InvokeResult:
        return (await host.perform(asked._replace(listener=listener, run_id=run_id))).result

    return await runs.start(
        make,
        skill_id=registration.id,
        trace_id=asked.trace_id,
        principal=asked.principal.name,
        version=registration.version,
        run_id=run_id,
        kind=registration.kind,
        request=encode_data({"input": host.mask_input(registration, asked.input)}),
    )


_MAX_ID_LENGTH = 100
SKILLS_PREFIX = "/skills/"

ActionHandler = Callable[[HttpExchange, InvokeRequest], Awaitable[None]]


def is_action_path(path: str) -> bool:
    """Whether a path has the form `/skills/{id}:{verb}`."""
    return path.startswith(SKILLS_PREFIX) and ":" in path and "/" not in path[len(SKILLS_PREFIX) :]


class SkillActions:
    """Handles `/skills/{id}:{verb}`. Dispatched by hand because every invocation comes this way."""

    def __init__(self, parts: HostParts) -> None:
        self._parts = parts
        self._host = parts.host
        self._verbs: dict[str, ActionHandler] = {"invoke": self._invoke, "stream": self._stream}

    async def handle(self, exchange: HttpExchange) -> None:
        skill_id, _, word = exchange.path[len(SKILLS_PREFIX) :].rpartition(":")
        skill_id = skill_id[:_MAX_ID_LENGTH]
        verb = self._verbs.get(word)
        if verb is None:
            failure = http.unknown_action(f":{word}", [f":{name}" for name in self._verbs])
            await exchange.send_response(exchange.build_refusal(failure, skill_id=skill_id))
        elif exchange.method == "POST":
            await self._perform(exchange, skill_id, verb)
        elif exchange.method == "OPTIONS":
            await exchange.send_response(options_response(exchange, ("POST", "OPTIONS")))
        else:
            failure = http.wrong_method(exchange.method, ("POST",))
            answer = exchange.build_refusal(failure, skill_id=skill_id)
            await exchange.send_response(add_allow_header(answer, ("POST", "OPTIONS")))

    async def _perform(self, exchange: HttpExchange, skill_id: str, act: ActionHandler) -> None:
        """Respond to a request of a caller. One that cannot start is refused as JSON."""
        principal = ANONYMOUS
        try:
            principal = self._authenticate(exchange)
            await act(exchange, await self._read_request(exchange, skill_id, principal))
        except (HttpRefusal, SkillError) as error:
            if exchange.answered:
                raise
            is_refusal = isinstance(error, HttpRefusal)
            failure = error.failure if is_refusal else Failure.from_error(error)
            asked = InvokeRequest(skill_id, {}, exchange.trace.id, principal, exchange.began)
            ended = self._host.record_refusal(failure, asked)
            answer = response_from_result(ended.result, ended.body, exchange.trace)
            await exchange.send_response(answer, close=is_refusal and error.close)
        except ClientDisconnect:
            return

    async def _invoke(self, exchange: HttpExchange, asked: InvokeRequest) -> None:
        """Respond with the result of the skill."""
        answer = await self._respond(exchange, asked)
        answer.headers.extend(self._host.rate_limit_headers(asked.principal))
        await exchange.send_response(answer)

    async def _stream(self, exchange: HttpExchange, asked: InvokeRequest) -> None:
        """Send events while the skill runs, last the result. Disconnecting cancels it, unless it has a key."""
        self._host.check_request(asked)
        claim = await self._claim(exchange, asked)
        await cancel_on_disconnect(exchange.receive, self._send_events(exchange, asked, claim))

    def _authenticate(self, exchange: HttpExchange) -> Principal:
        """The caller of a request. Raises `SkillError` or `HttpRefusal`."""
        if exchange.hostile is not None and exchange.hostile.field in {"Authorization", "Host"}:
            raise exchange.hostile
        principal = self._parts.authenticator.authenticate(exchange)
        principal.require_role("run")
        return principal

    async def _read_request(self, exchange: HttpExchange, skill_id: str, principal: Principal) -> InvokeRequest:
        """Parse a request. Raises `SkillError`, `HttpRefusal` or `ClientDisconnect`."""
        if exchange.hostile is not None:
            raise exchange.hostile
        check_json(exchange.headers.get(b"content-type"))
        body = await read_body(exchange, self._parts.settings.host_max_body, timeout=self._parts.options.body_seconds)
        trace = exchange.trace
        return InvokeRequest(
            skill_id,
            read_input(body),
            trace.id,
            principal,
            exchange.began,
            body,
            traceparent=trace.here,
            parent=trace.parent,
        )

    async def _claim(
        self, exchange: HttpExchange, asked: InvokeRequest, *, mode: str = "sync"
    ) -> IdempotencyClaim | IdempotentResponse | None:
        """Claim the idempotency key of a request; None without one. Raises `SkillError`."""
        key = exchange.header(IDEMPOTENCY_HEADER)
        if key is None:
            return None
        registration = self._host.get_registration(asked.skill_id, asked.principal)
        return await self._parts.idempotency.begin(key, asked, skill_id=registration.id, mode=mode)

    def _start(self, asked: InvokeRequest, claim: IdempotencyClaim) -> asyncio.Task[Invocation]:
        """Perform a claimed request in a task of its own, which goes on when its caller is gone."""
        return self._parts.idempotency.start(claim, self._host.perform(asked))

    async def _respond(self, exchange: HttpExchange, asked: InvokeRequest) -> HttpResponse:
        waits = is_synchronous(exchange)
        claim = await self._claim(exchange, asked, mode="sync" if waits else "async")
        if isinstance(claim, IdempotentResponse):
            return build_replay(claim, exchange.trace)
        if not waits:
            return await self._start_run(exchange, asked, claim)
        work = self._host.perform(asked) if claim is None else asyncio.shield(self._start(asked, claim))
        ended = await cancel_on_disconnect(exchange.receive, work)
        return response_from_result(ended.result, ended.body, exchange.trace)

    async def _start_run(
        self, exchange: HttpExchange, asked: InvokeRequest, claim: IdempotencyClaim | None
    ) -> HttpResponse:
        try:
            run = await start_run(self._host, self._parts.runs, asked)
        except (SkillError, HttpRefusal):
            if claim is not None:
                await self._parts.idempotency.abandon(claim)
            raise
        answer = build_document(
            run.to_dict(), exchange.trace, skill_id=run.skill_id, status=202, latency_ms=exchange.latency_ms
        )
        answer.headers.extend((location_header(run.id), _PREFERENCE_APPLIED))
        if claim is not None:
            await self._parts.idempotency.finish(claim, answer.status, answer.body)
        return answer

    async def _send_events(
        self, exchange: HttpExchange, asked: InvokeRequest, claim: IdempotencyClaim | IdempotentResponse | None
    ) -> None:
        # Sent before the call is counted, so they show what was left before it.
        headers = self._host.rate_limit_headers(asked.principal)
        if isinstance(claim, IdempotentResponse):
            headers.append(REPLAYED_HEADER)
            shown = _replay(claim)
        else:
            start = None if claim is None else partial(self._start, claim=claim)
            shown = stream_events(self._host, asked, start)
        async with aclosing(shown) as events:
            await send_events(exchange, events, ping=self._parts.options.ping_seconds, headers=headers)


async def _replay(earlier: IdempotentResponse) -> AsyncGenerator[SseEvent]:
    for event in final_events(orjson.loads(earlier.body)["error"], earlier.body):
        yield event


async def stream_events(
    host: Host, asked: InvokeRequest, start: Callable[[InvokeRequest], asyncio.Task[Invocation]] | None = None
) -> AsyncGenerator[SseEvent]:
    """The events of an invocation, from `start` to `result`.

    Closing the generator cancels the invocation, unless the function `start` has started it.
    """
    queue: asyncio.Queue[SkillOutputEvent | None] = asyncio.Queue()
    closed = False

    def listen(emitted: SkillOutputEvent) -> None:
        if not closed:
            queue.put_nowait(emitted)

    asked = asked._replace(listener=listen)
    work = asyncio.create_task(host.perform(asked)) if start is None else start(asked)
    work.add_done_callback(lambda _: queue.put_nowait(None))
    try:
        while (emitted := await queue.get()) is not None:
            yield SseEvent(emitted.kind, emitted.data)
        try:
            ended = work.result()
        except SkillError as error:
            # The result of a request with a key could not be stored; see `IdempotencyStore.finish`.
            ended = host.record_refusal(Failure.from_error(error), asked)
        for event in final_events(ended.result.to_dict()["error"], ended.body):
            yield event
    finally:
        closed = True
        if start is None:
            work.cancel()
            with suppress(asyncio.CancelledError):
                await work


def final_events(error: Mapping[str, Any] | None, body: bytes) -> tuple[SseEvent, ...]:
    """The last events: the error, if there is one, and the result."""
    result = SseEvent("result", body)
    return (result,) if error is None else (SseEvent("error", error), result)


def add_allow_header(answer: HttpResponse, methods: tuple[str, ...]) -> HttpResponse:
    return answer._replace(headers=[*answer.headers, (b"allow", ", ".join(methods).encode())])


def options_response(exchange: HttpExchange, methods: tuple[str, ...]) -> HttpResponse:
    return add_allow_header(HttpResponse(204, trace_headers(exchange.trace), b""), methods)
