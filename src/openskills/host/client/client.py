"""Client, runs, events.

What a host says of its skills. Pure.

What a client sees while a skill works: one event after the other, the last of them the result. Pure.

The events of an answer, from its pieces.

A run that goes on at the host, whoever watches.

A client of the skill host. Blocking callers use `openskills.sync.run`.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any, Self, cast

from openskills.errors import BadSkillOutput, HostUnavailable, InvalidArgument, Unauthorized, UnknownSkill
from openskills.host.client.transport import (
    ClientLimits,
    ClientRequest,
    ClientResponse,
    ClientTransport,
    EventReader,
    InvalidResult,
    ServerEvent,
    bearer_header,
    check_header_value,
    check_object,
    encode_body,
    excerpt,
    is_json_response,
    is_sendable,
    parse_base_url,
    read_json,
    read_result,
    result_from_dict,
    run_path,
    skill_path,
    unwrap,
)
from openskills.host.http import MAX_TRACE_ID_LENGTH as LONGEST_TRACE_ID
from openskills.host.http import new_trace
from openskills.host.model import InvokeResult
from openskills.settings import Settings
from openskills.telemetry.context import trace_id as bound_trace_id


@dataclass(frozen=True, slots=True)
class HostedSkill:
    """A skill of a host. `plain` is everything that the host says of it.

    `status` is `ready`, `broken` or `unavailable`; `kind` is `type:runtime`. The schema is None when it has none.
    """

    id: str
    description: str = ""
    status: str = "ready"
    kind: str = ""
    version: str = ""
    input_schema: Mapping[str, Any] | None = None
    plain: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)

    @property
    def is_ready(self) -> bool:
        """Whether it can be invoked now."""
        return self.status == "ready"

    @property
    def required_fields(self) -> tuple[str, ...]:
        """The names that an input must have."""
        return _read_strings((self.input_schema or {}).get("required"))


def read_data(result: InvokeResult) -> Mapping[str, Any]:
    """The data of a document. Raises `Unauthorized`, or `SkillFailed` for whatever else kept it back."""
    failure = result.outcome.failure
    if failure is not None and failure.code == Unauthorized.code:
        raise Unauthorized(f"{failure.message}; set OPENSKILL_API_KEY to a key of this host")
    return unwrap(result)


def read_skills(result: InvokeResult) -> tuple[HostedSkill, ...]:
    """The skills of `GET /skills`. Raises `BadSkillOutput`."""
    listed = read_data(result).get("skills")
    if not isinstance(listed, list):
        raise BadSkillOutput("the host's list of skills has no field 'skills'")
    return tuple(map(_parse_skill, cast("list[object]", listed)))


def read_skill(result: InvokeResult, skill_id: str) -> HostedSkill:
    """The skill of `GET /skills/ID`. Raises `UnknownSkill` with the nearest names."""
    failure = result.outcome.failure
    if failure is not None and failure.code == UnknownSkill.code:
        raise UnknownSkill(skill_id, _read_strings(failure.details.get("near")))
    return _parse_skill(read_data(result))


def _read_strings(value: object) -> tuple[str, ...]:
    return tuple(map(str, cast("list[object]", value))) if isinstance(value, list) else ()


def _parse_skill(value: object) -> HostedSkill:
    found = cast("Mapping[str, Any]", value if isinstance(value, Mapping) else {})
    skill_id = found.get("id")
    if not isinstance(skill_id, str) or not skill_id:
        raise BadSkillOutput("the host tells of a skill without an id")
    schema = found.get("input_schema")
    return HostedSkill(
        id=skill_id,
        description=_read_text(found, "description"),
        status=_read_text(found, "status") or "ready",
        kind=_read_text(found, "kind"),
        version=_read_text(found, "version"),
        input_schema=cast("Mapping[str, Any]", schema) if isinstance(schema, Mapping) else None,
        plain=found,
    )


def _read_text(found: Mapping[str, Any], name: str) -> str:
    value = found.get(name)
    return value if isinstance(value, str) else ""


RESULT = "result"


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """`kind` is `start`, `stdout`, `stderr`, `progress`, `artifact` or `result`; hosts may have others.

    `result` is there in the event of that kind, which is the last. `id` is where one may go on after it.
    """

    kind: str
    data: Mapping[str, Any]
    id: str | None = None
    result: InvokeResult | None = None

    def to_dict(self) -> dict[str, Any]:
        """For programs."""
        return {"event": self.kind, "data": dict(self.data)}


def result_event(result: InvokeResult) -> StreamEvent:
    """The last event, where a host has answered without a stream."""
    return StreamEvent(RESULT, result.to_dict(), None, result)


def read_event(event: ServerEvent) -> StreamEvent:
    """An event of the wire. Raises `BadSkillOutput` with an excerpt when it is not what it says."""
    try:
        data = check_object(read_json(event.data), "it")
        return StreamEvent(event.kind, data, event.id, result_from_dict(data) if event.kind == RESULT else None)
    except InvalidResult as why:
        message = f"an event {event.kind[:50]!r} of the host cannot be read: {why}"
        raise BadSkillOutput(message, excerpt=excerpt(event.data.encode("utf-8", "replace"))) from None


_EVENT_STREAM_TYPE = "text/event-stream"


async def read_events(
    connection: ClientTransport, answer: ClientResponse[AsyncIterator[bytes]]
) -> AsyncGenerator[StreamEvent]:
    """The events of a stream; of a result in JSON, which is what a refusal is, that one.

    Raises `BadSkillOutput` for every other answer.
    """
    if is_json_response(answer.headers):
        yield result_event(read_result(await connection.read_all(answer.body), status=answer.status))
        return
    kind = answer.headers.get("content-type", "")
    if answer.status != 200 or kind.partition(";")[0].strip().lower() != _EVENT_STREAM_TYPE:
        body = await connection.read_all(answer.body)
        message = f"{connection.base} answered {answer.status} with {kind[:50]!r} instead of a stream of events"
        raise BadSkillOutput(message, status=answer.status, excerpt=excerpt(body))
    reader = EventReader()
    async for piece in answer.body:
        for event in reader.feed(piece):
            yield read_event(event)


_MAX_RECONNECTS = 5
"""How often in a row a stream may break off without anything new."""


class ClientRun:
    """A run of the host. `id` is empty when the host had the result, or a refusal, at once."""

    def __init__(
        self,
        connection: ClientTransport,
        run_id: str,
        trace_id: str,
        timeout: float | None,
        done: InvokeResult | None = None,
    ) -> None:
        self.id = run_id
        self.trace_id = trace_id
        self._connection = connection
        self._timeout = timeout
        self._done = done

    async def events(self, after: str | None = None) -> AsyncGenerator[StreamEvent]:
        """What the run does, from its beginning or from after the event of an id, to its result.

        A stream that breaks off is taken up again where it was. Closing the generator leaves the run alone.
        """
        if self._done is not None:
            yield result_event(self._done)
            return
        deadline = None if self._timeout is None else asyncio.get_running_loop().time() + self._timeout
        breaks = 0
        numbered = True
        # Where events have no ids, to begin again would be to tell them twice.
        while numbered and breaks <= _MAX_RECONNECTS:
            with suppress(HostUnavailable):
                async with aclosing(self._follow(after, deadline)) as watched:
                    async for event in watched:
                        breaks, after, numbered = 0, event.id or after, event.id is not None
                        self._done = event.result
                        yield event
                        if event.result is not None:
                            return
            breaks += 1
            await asyncio.sleep(self._connection.limits.retries.compute_pause(breaks, 0.5))
        raise HostUnavailable(f"{self._connection.base} ends the events of the run {self.id} before its result")

    async def result(self) -> InvokeResult:
        """Wait for the end."""
        async with aclosing(self.events()) as events:
            async for event in events:
                if event.result is not None:
                    return event.result
        raise HostUnavailable(f"the run {self.id} has no result")

    async def status(self) -> Mapping[str, Any]:
        """What the host says of the run now. Raises `SkillFailed` for one that it does not know any more."""
        return read_data(await self._request("GET", ""))

    async def cancel(self) -> None:
        """End the run. One that has ended already stays as it is."""
        if self._done is None:
            read_data(await self._request("POST", ":cancel"))

    async def _request(self, method: str, rest: str) -> InvokeResult:
        # To cancel twice is to cancel.
        ask = ClientRequest(method, run_path(self.id, rest), {"X-Trace-Id": self.trace_id}, repeatable=True)
        answer = await self._connection.fetch(ask, asyncio.get_running_loop().time() + (self._timeout or 30.0))
        return read_result(answer.body, status=answer.status)

    async def _follow(self, after: str | None, deadline: float | None) -> AsyncGenerator[StreamEvent]:
        headers = {"Accept": "text/event-stream", "X-Trace-Id": self.trace_id}
        if after is not None:
            headers["Last-Event-ID"] = after
        ask = ClientRequest("GET", run_path(self.id, "/events"), headers, repeatable=True)
        async with (
            self._connection.open_stream(ask, deadline) as answer,
            aclosing(read_events(self._connection, answer)) as events,
        ):
            async for event in events:
                yield event


def run_from_response(connection: ClientTransport, answer: ClientResponse[bytes], timeout: float | None) -> ClientRun:
    """The run that an answer to `Prefer: respond-async` tells of. A host may also answer with the result itself."""
    result = read_result(answer.body, status=answer.status)
    if answer.status != 202:
        return ClientRun(connection, "", result.trace_id, timeout, result)
    data = result.outcome.data or {}
    run_id = data.get("run_id") or data.get("id") or answer.headers.get("location", "").rpartition("/")[2]
    if not isinstance(run_id, str) or not run_id:
        raise BadSkillOutput("the host started a run and did not say which", excerpt=excerpt(answer.body))
    return ClientRun(connection, run_id, result.trace_id, timeout)


_BASE_URL_VARIABLE = "OPENSKILL_HTTP_BASE_URL"
_TIMEOUT_MARGIN = 5.0
"""Seconds beyond the host's own limit: then it is the host that says what took too long."""


class Client:
    """Invokes the skills of one host.

    `base_url` and `api_key` are those of the settings unless given, and the settings those of the environment.
    `timeout` is how many seconds one call may take, with everything in it; unless given, an invocation has those that
    the host allows by default and a few more, and streams have no end as long as the host gives signs of life.

    A skill that fails is a result that says so; `unwrap` makes an exception of it. Raised are `HostUnavailable`,
    `DeadlineExceeded`, `BadSkillOutput` for an answer that is no Normalized Skill Result, `LimitExceeded` for one that
    is too large, and `InvalidArgument` for what cannot be sent. Nothing is sent twice unless that is safe: nobody
    accepted the connection, the host was busy and said when to come back, or there is an idempotency key.

    One client may be used by any number of tasks and loops; `close`, or `async with`, closes its connections.
    """

    def __init__(
        self,
        base_url: str | None = None,
        *,
        api_key: str | None = None,
        timeout: float | None = None,
        settings: Settings | None = None,
        limits: ClientLimits | None = None,
    ) -> None:
        settings = settings or Settings.from_env()
        if timeout is not None and not 0 < timeout < 1e7:
            raise InvalidArgument("timeout", f"{timeout!r} is no number of seconds; use something like 30")
        key = api_key or settings.host_api_key
        base = parse_base_url(base_url or settings.http_base_url, name="base_url" if base_url else _BASE_URL_VARIABLE)
        headers = {"Authorization": bearer_header(key)} if key else {}
        self._connection = ClientTransport(base, headers, limits or ClientLimits(), named=_BASE_URL_VARIABLE)
        self._whole_call = timeout if timeout is not None else settings.timeout_ms / 1000 + _TIMEOUT_MARGIN
        self._stream_call = timeout

    @property
    def base_url(self) -> str:
        """Where the host is."""
        return self._connection.base

    async def invoke(
        self,
        skill_id: str,
        input: Mapping[str, Any],  # noqa: A002 - the protocol calls it that
        *,
        trace_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> InvokeResult:
        """Invoke a skill, and wait for its result.

        Without a trace id it is that of the block around the call (`openskills.telemetry.bind`), or a new one.
        """
        ask = _build_invoke_request(skill_id, "invoke", input, trace_id, idempotency_key)
        answer = await self._connection.fetch(ask, _compute_deadline(self._whole_call))
        return read_result(answer.body, status=answer.status)

    async def stream(
        self,
        skill_id: str,
        input: Mapping[str, Any],  # noqa: A002
        *,
        trace_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> AsyncGenerator[StreamEvent]:
        """Invoke a skill, and see what it does while it does it. The last event has the result.

        Closing the generator ends the run. Raises `HostUnavailable` when the stream ends before the result came.
        """
        ask = _build_invoke_request(skill_id, "stream", input, trace_id, idempotency_key, Accept="text/event-stream")
        async with (
            self._connection.open_stream(ask, _compute_deadline(self._stream_call)) as answer,
            aclosing(read_events(self._connection, answer)) as events,
        ):
            async for event in events:
                yield event
                if event.result is not None:
                    return
        raise HostUnavailable(f"{self.base_url} ended the stream before the result; the skill may have run")

    async def start(
        self,
        skill_id: str,
        input: Mapping[str, Any],  # noqa: A002
        *,
        trace_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> ClientRun:
        """Start a run that goes on without us, and can be watched, waited for and cancelled."""
        ask = _build_invoke_request(skill_id, "invoke", input, trace_id, idempotency_key, Prefer="respond-async")
        answer = await self._connection.fetch(ask, _compute_deadline(self._whole_call))
        return run_from_response(self._connection, answer, self._stream_call)

    async def skills(self) -> tuple[HostedSkill, ...]:
        """Everything that the host has, broken skills included."""
        return read_skills(await self._get("/skills"))

    async def skill(self, skill_id: str) -> HostedSkill:
        """One skill. Raises `UnknownSkill`."""
        return read_skill(await self._get(skill_path(skill_id)), skill_id)

    async def health(self) -> Mapping[str, Any]:
        """What the host says of itself at `/healthz`."""
        return read_data(await self._get("/healthz"))

    async def close(self) -> None:
        """Close the connections of the running loop."""
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _get(self, path: str) -> InvokeResult:
        ask = ClientRequest("GET", path, {"Accept": "application/json", **_trace_headers(None)}, repeatable=True)
        answer = await self._connection.fetch(ask, _compute_deadline(self._whole_call))
        return read_result(answer.body, status=answer.status)


def _build_invoke_request(
    skill_id: str,
    verb: str,
    input: Mapping[str, Any],  # noqa: A002
    trace_id: str | None,
    idempotency_key: str | None,
    **headers: str,
) -> ClientRequest:
    sent = {"Content-Type": "application/json", "Accept": "application/json", **headers, **_trace_headers(trace_id)}
    if idempotency_key is not None:
        sent["Idempotency-Key"] = check_header_value(idempotency_key, name="idempotency_key")
    path = skill_path(skill_id, verb)
    return ClientRequest("POST", path, sent, encode_body(input), repeatable=idempotency_key is not None)


def _trace_headers(trace_id: str | None) -> dict[str, str]:
    if trace_id is not None:
        return {"X-Trace-Id": check_header_value(trace_id, name="trace_id", most=LONGEST_TRACE_ID)}
    bound = bound_trace_id()
    # An application may bind what no header can have.
    return {"X-Trace-Id": bound if is_sendable(bound, LONGEST_TRACE_ID) else new_trace().id}


def _compute_deadline(seconds: float | None) -> float | None:
    return None if seconds is None else asyncio.get_running_loop().time() + seconds
