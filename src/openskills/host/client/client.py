"""HTTP client of the skill host. Blocking callers use `openskills.sync.run`."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any, cast
from uuid import uuid4

from openskills.arguments import check_arguments
from openskills.concurrency import AsyncCloseable
from openskills.errors import (
    BadSkillOutput,
    DeadlineExceeded,
    HostUnavailable,
    InvalidArgument,
    SkillError,
    Unauthorized,
    UnknownSkill,
)
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
from openskills.host.model import MAX_TRACE_ID_LENGTH, InvokeResult
from openskills.settings import Settings
from openskills.telemetry.context import trace_id as bound_trace_id


@dataclass(frozen=True, slots=True)
class HostedSkill:
    """A skill of a host. `plain` is the whole description.

    `status` is `ready`, `broken` or `unavailable`; `kind` is `type:runtime`.
    """

    id: str
    description: str = ""
    status: str = "ready"
    kind: str = ""
    version: str = ""
    input_schema: Mapping[str, Any] | None = None
    plain: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)

    @property
    def timeout(self) -> float:
        """How long one invocation may take, in seconds; 0 if the host does not say so."""
        found = self.plain.get("timeout_ms")
        return found / 1000 if isinstance(found, int) else 0.0

    @property
    def is_ready(self) -> bool:
        return self.status == "ready"

    @property
    def required_fields(self) -> tuple[str, ...]:
        return _read_strings((self.input_schema or {}).get("required"))


def read_data(result: InvokeResult) -> Mapping[str, Any]:
    """The data of a result. Raises `Unauthorized`, or `SkillFailed` for other failures."""
    failure = result.outcome.failure
    if failure is not None and failure.code == Unauthorized.code:
        raise Unauthorized(f"{failure.message}; set OPENSKILL_API_KEY to a key of this host")
    return unwrap(result)


def read_skills(result: InvokeResult) -> tuple[HostedSkill, ...]:
    """The skills of `GET /skills`. Raises `BadSkillOutput`."""
    listed = read_data(result).get("skills")
    if not isinstance(listed, list):
        raise BadSkillOutput("invalid list of skills from the host: no field 'skills'")
    return tuple(map(_parse_skill, cast("list[object]", listed)))


def read_skill(result: InvokeResult, skill_id: str) -> HostedSkill:
    """The skill of `GET /skills/ID`. Raises `UnknownSkill` with similar names."""
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
        raise BadSkillOutput("invalid skill from the host: no id")
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
    """An event. `kind` is `start`, `stdout`, `stderr`, `progress`, `artifact` or `result`; hosts may have others.

    The last event has the `result`. A stream can be resumed after the event with this `id`.
    """

    kind: str
    data: Mapping[str, Any]
    id: str | None = None
    result: InvokeResult | None = None

    def to_dict(self) -> dict[str, Any]:
        return {"event": self.kind, "data": dict(self.data)}


def result_event(result: InvokeResult) -> StreamEvent:
    """The last event, for a host that responded without a stream."""
    return StreamEvent(RESULT, result.to_dict(), None, result)


def read_event(event: ServerEvent) -> StreamEvent:
    """Parse an event. Raises `BadSkillOutput` with an excerpt."""
    try:
        data = check_object(read_json(event.data), "the event")
        return StreamEvent(event.kind, data, event.id, result_from_dict(data) if event.kind == RESULT else None)
    except InvalidResult as why:
        message = f"invalid event {event.kind[:50]!r} from the host: {why}"
        raise BadSkillOutput(message, excerpt=excerpt(event.data.encode("utf-8", "replace"))) from None


_EVENT_STREAM_TYPE = "text/event-stream"


async def read_events(
    connection: ClientTransport, answer: ClientResponse[AsyncIterator[bytes]]
) -> AsyncGenerator[StreamEvent]:
    """The events of a response; a JSON result is one event. Raises `BadSkillOutput` for other responses."""
    if is_json_response(answer.headers):
        body = await connection.read_all(answer.body)
        yield result_event(read_result(ClientResponse(answer.status, answer.headers, body, answer.close)))
        return
    kind = answer.headers.get("content-type", "")
    if answer.status != 200 or kind.partition(";")[0].strip().lower() != _EVENT_STREAM_TYPE:
        body = await connection.read_all(answer.body)
        message = f"expected an event stream from {connection.base}, got status {answer.status} and {kind[:50]!r}"
        raise BadSkillOutput(message, status=answer.status, excerpt=excerpt(body))
    reader = EventReader()
    async for piece in answer.body:
        for event in reader.feed(piece):
            yield read_event(event)


_MAX_RECONNECTS = 5
"""Consecutive reconnects without a new event."""


class ClientRun:
    """An asynchronous run. `id` is empty if the host responded with the result at once."""

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
        """The events of the run, from its start or after the event with this id, up to its result.

        Reconnects after a broken connection. Closing the generator does not affect the run.
        """
        if self._done is not None:
            yield result_event(self._done)
            return
        deadline = _compute_deadline(self._timeout)
        breaks = 0
        numbered = True
        # Without ids a reconnect would repeat events.
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
        raise HostUnavailable(f"{self._connection.base} closed the events of run {self.id} before its result")

    async def result(self) -> InvokeResult:
        async with aclosing(self.events()) as events:
            async for event in events:
                if event.result is not None:
                    return event.result
        raise HostUnavailable(f"run {self.id} has no result")

    async def status(self) -> Mapping[str, Any]:
        """The current state of the run. Raises `SkillFailed` for an unknown run."""
        return read_data(await self._request("GET", ""))

    async def cancel(self) -> None:
        """Cancel the run. A run that has ended is unchanged."""
        if self._done is None:
            read_data(await self._request("POST", ":cancel"))

    async def _request(self, method: str, rest: str) -> InvokeResult:
        # Cancelling is idempotent.
        ask = ClientRequest(method, run_path(self.id, rest), {"X-Trace-Id": self.trace_id}, repeatable=True)
        return read_result(await self._connection.fetch(ask, _compute_deadline(self._timeout or 30.0)))

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
    """The run of a response to `Prefer: respond-async`. A host may also respond with the result."""
    result = read_result(answer)
    if answer.status != 202:
        return ClientRun(connection, "", result.trace_id, timeout, result)
    data = result.outcome.data or {}
    run_id = data.get("run_id") or data.get("id") or answer.headers.get("location", "").rpartition("/")[2]
    if not isinstance(run_id, str) or not run_id:
        raise BadSkillOutput("the host started a run without returning its id", excerpt=excerpt(answer.body))
    return ClientRun(connection, run_id, result.trace_id, timeout)


_BASE_URL_VARIABLE = "OPENSKILL_HTTP_BASE_URL"
_TIMEOUT_MARGIN = 5.0
"""Seconds beyond the timeout of the host, so that the host reports a timeout first."""


@check_arguments
class Client(AsyncCloseable):
    """Invokes the skills of one host.

    `base_url` and `api_key` default to those of the settings, and the settings to those of the environment. `timeout`
    is the total time of one call in seconds; the default for an invocation is a little more than the timeout of the
    skill, and streams have none as long as the host sends pings.

    A failed skill is a result; `unwrap` turns it into an exception. Raises `HostUnavailable`, `DeadlineExceeded`,
    `BadSkillOutput` for a response that is not a Normalized Skill Result, `LimitExceeded` for one that is too large,
    and `InvalidArgument`. Requests are retried only when that is safe: the connection was refused, the host was busy
    and sent `Retry-After`, or there is an idempotency key.

    A client may be used by any number of tasks and event loops; close it with `close` or `async with`.
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
            raise InvalidArgument("timeout", f"invalid timeout {timeout!r}: expected seconds, such as 30")
        key = api_key or settings.host_api_key
        base = parse_base_url(base_url or settings.http_base_url, name="base_url" if base_url else _BASE_URL_VARIABLE)
        headers = {"Authorization": bearer_header(key)} if key else {}
        self._connection = ClientTransport(base, headers, limits or ClientLimits(), named=_BASE_URL_VARIABLE)
        self._whole_call = timeout if timeout is not None else settings.timeout_ms / 1000 + _TIMEOUT_MARGIN
        self._stream_call = timeout

    @property
    def base_url(self) -> str:
        return self._connection.base

    async def invoke(
        self,
        skill_id: str,
        input: Mapping[str, Any],  # noqa: A002 - the protocol calls it that
        *,
        trace_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> InvokeResult:
        """Invoke a skill and return its result. `trace_id` defaults to the bound one (`telemetry.bind`), or is new."""
        ask = _build_invoke_request(skill_id, "invoke", input, trace_id, idempotency_key)
        if self._stream_call is not None:
            answer = await self._connection.fetch(ask, _compute_deadline(self._stream_call))
        else:
            answer = await self._fetch_patiently(ask, skill_id)
        return read_result(answer)

    async def stream(
        self,
        skill_id: str,
        input: Mapping[str, Any],  # noqa: A002
        *,
        trace_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> AsyncGenerator[StreamEvent]:
        """Invoke a skill and yield its events; the last one has the result.

        Closing the generator cancels the skill, unless there is an idempotency key. Raises `HostUnavailable` if the
        stream ends without a result.
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
        ask = _build_invoke_request(skill_id, "invoke", input, trace_id, idempotency_key, Prefer="respond-async")
        answer = await self._connection.fetch(ask, _compute_deadline(self._whole_call))
        return run_from_response(self._connection, answer, self._stream_call)

    async def run_again(self, run_id: str, *, env: Mapping[str, str] | None = None) -> ClientRun:
        """Start a run with the input of another one. Raises `SkillFailed` if that is unknown or was not stored.

        `env` has the variables of a command, whose values are never stored.
        """
        content = json.dumps({"env": dict(env)}).encode() if env else None
        headers = {"Content-Type": "application/json"} if env else {}
        ask = ClientRequest("POST", run_path(run_id, ":again"), headers, content, repeatable=False)
        answer = await self._connection.fetch(ask, _compute_deadline(self._whole_call))
        read_data(read_result(answer))
        return run_from_response(self._connection, answer, self._stream_call)

    async def skills(self) -> tuple[HostedSkill, ...]:
        """All skills of the host, including broken ones."""
        return read_skills(await self._get("/skills"))

    async def skill(self, skill_id: str) -> HostedSkill:
        """One skill. Raises `UnknownSkill`."""
        return read_skill(await self._get(skill_path(skill_id)), skill_id)

    async def health(self) -> Mapping[str, Any]:
        return read_data(await self._get("/healthz"))

    async def close(self) -> None:
        """Close the connections of the running event loop."""
        await self._connection.close()

    async def _fetch_patiently(self, ask: ClientRequest, skill_id: str) -> ClientResponse[bytes]:
        """Fetch with the default timeout, and ask the host for that of the skill only if this one has passed."""
        work = asyncio.create_task(self._connection.fetch(ask, None))
        try:
            await asyncio.wait([work], timeout=self._whole_call)
            if not work.done():
                with suppress(SkillError):
                    skill_timeout = (await self.skill(skill_id)).timeout
                    await asyncio.wait([work], timeout=max(skill_timeout + _TIMEOUT_MARGIN - self._whole_call, 0.0))
            if work.done():
                return work.result()
            raise DeadlineExceeded(f"{self.base_url} timed out; check what {skill_id} does, or pass a longer timeout")
        finally:
            work.cancel()
            await asyncio.wait([work])

    async def _get(self, path: str) -> InvokeResult:
        ask = ClientRequest("GET", path, {"Accept": "application/json", **_trace_headers(None)}, repeatable=True)
        return read_result(await self._connection.fetch(ask, _compute_deadline(self._whole_call)))


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
        return {"X-Trace-Id": check_header_value(trace_id, name="trace_id", max_length=MAX_TRACE_ID_LENGTH)}
    bound = bound_trace_id()
    # Applications may bind ids that are not valid in headers.
    return {"X-Trace-Id": bound if is_sendable(bound, MAX_TRACE_ID_LENGTH) else uuid4().hex}


def _compute_deadline(seconds: float | None) -> float | None:
    return None if seconds is None else asyncio.get_running_loop().time() + seconds
