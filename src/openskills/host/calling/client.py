"""A client of the skill host. Blocking callers use `openskills.sync.run`."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, Self

from openskills.errors import HostUnavailable, InvalidArgument
from openskills.host.calling.connection import ClientLimits, Connection
from openskills.host.calling.listing import HostedSkill, read_skill, read_skills, told
from openskills.host.calling.reading import read_result
from openskills.host.calling.request import Ask, base_of, bearer, body_of, header_value, is_sendable, skill_path
from openskills.host.calling.run import StartedRun, started
from openskills.host.calling.stream import events_in
from openskills.host.calling.stream_events import StreamEvent
from openskills.host.result import InvokeResult
from openskills.host.wire.trace_ids import LONGEST as LONGEST_TRACE_ID
from openskills.host.wire.trace_ids import minted
from openskills.settings import Settings
from openskills.trace import trace_id as bound_trace_id

_VARIABLE = "OPENSKILL_HTTP_BASE_URL"
_MARGIN = 5.0
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
        base = base_of(base_url or settings.http_base_url, name="base_url" if base_url else _VARIABLE)
        headers = {"Authorization": bearer(key)} if key else {}
        self._connection = Connection(base, headers, limits or ClientLimits(), named=_VARIABLE)
        self._whole_call = timeout if timeout is not None else settings.timeout_ms / 1000 + _MARGIN
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

        Without a trace id it is that of the block around the call (`openskills.trace.bind`), or a new one.
        """
        ask = _invocation(skill_id, "invoke", input, trace_id, idempotency_key)
        answer = await self._connection.fetch(ask, _deadline(self._whole_call))
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
        ask = _invocation(skill_id, "stream", input, trace_id, idempotency_key, Accept="text/event-stream")
        async with (
            self._connection.opened(ask, _deadline(self._stream_call)) as answer,
            aclosing(events_in(self._connection, answer)) as events,
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
    ) -> StartedRun:
        """Start a run that goes on without us, and can be watched, waited for and cancelled."""
        ask = _invocation(skill_id, "invoke", input, trace_id, idempotency_key, Prefer="respond-async")
        answer = await self._connection.fetch(ask, _deadline(self._whole_call))
        return started(self._connection, answer, self._stream_call)

    async def skills(self) -> tuple[HostedSkill, ...]:
        """Everything that the host has, broken skills included."""
        return read_skills(await self._get("/skills"))

    async def skill(self, skill_id: str) -> HostedSkill:
        """One skill. Raises `UnknownSkill`."""
        return read_skill(await self._get(skill_path(skill_id)), skill_id)

    async def health(self) -> Mapping[str, Any]:
        """What the host says of itself at `/healthz`."""
        return told(await self._get("/healthz"))

    async def close(self) -> None:
        """Close the connections of the running loop."""
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _get(self, path: str) -> InvokeResult:
        ask = Ask("GET", path, {"Accept": "application/json", **_traced(None)}, repeatable=True)
        answer = await self._connection.fetch(ask, _deadline(self._whole_call))
        return read_result(answer.body, status=answer.status)


def _invocation(
    skill_id: str,
    verb: str,
    input: Mapping[str, Any],  # noqa: A002
    trace_id: str | None,
    idempotency_key: str | None,
    **headers: str,
) -> Ask:
    sent = {"Content-Type": "application/json", "Accept": "application/json", **headers, **_traced(trace_id)}
    if idempotency_key is not None:
        sent["Idempotency-Key"] = header_value(idempotency_key, name="idempotency_key")
    path = skill_path(skill_id, verb)
    return Ask("POST", path, sent, body_of(input), repeatable=idempotency_key is not None)


def _traced(trace_id: str | None) -> dict[str, str]:
    if trace_id is not None:
        return {"X-Trace-Id": header_value(trace_id, name="trace_id", most=LONGEST_TRACE_ID)}
    bound = bound_trace_id()
    # An application may bind what no header can have.
    return {"X-Trace-Id": bound if is_sendable(bound, LONGEST_TRACE_ID) else minted().id}


def _deadline(seconds: float | None) -> float | None:
    return None if seconds is None else asyncio.get_running_loop().time() + seconds
