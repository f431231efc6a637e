"""Invoke hosted skills in this process, without a server, keys or history."""

import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

from openskills.errors import InvalidArgument
from openskills.host.admission import Admission
from openskills.host.auth import Principal
from openskills.host.client.client import HostedSkill, StreamEvent, read_event
from openskills.host.client.transport import ServerEvent, check_header_value, encode_body
from openskills.host.http import new_trace
from openskills.host.invoke import stream_events
from openskills.host.model import MAX_TRACE_ID_LENGTH, InvokeResult
from openskills.host.registry.registry import Registry
from openskills.host.runners.table import Runners
from openskills.host.service import Host, InvokeRequest, RunnerTable
from openskills.host.strict_json import read_input
from openskills.settings import Settings

_LOCAL_PRINCIPAL = Principal("local")


class LocalHost:
    """Invokes skills like a `Client`, with the same results. Created by `open_local_host`."""

    def __init__(self, registry: Registry, host: Host) -> None:
        self._registry = registry
        self._host = host

    async def invoke(
        self,
        skill_id: str,
        input: Mapping[str, Any],  # noqa: A002 - the protocol calls it that
        *,
        trace_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> InvokeResult:
        """Invoke a skill; failures are in the result."""
        asked = _build_request(skill_id, input, trace_id, idempotency_key)
        return (await self._host.perform(asked)).result

    async def stream(
        self,
        skill_id: str,
        input: Mapping[str, Any],  # noqa: A002
        *,
        trace_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> AsyncGenerator[StreamEvent]:
        """Invoke a skill and yield its events. Closing the generator cancels it."""
        asked = _build_request(skill_id, input, trace_id, idempotency_key)
        async with aclosing(stream_events(self._host, asked)) as events:
            async for event in events:
                if isinstance(event.data, bytes):
                    yield read_event(ServerEvent(event.kind, event.data.decode(), event.id))
                else:
                    yield StreamEvent(event.kind, event.data, event.id)

    async def skills(self) -> tuple[HostedSkill, ...]:
        """All skills, including broken ones."""
        return tuple(
            HostedSkill(entry.id, status=entry.status)
            if (found := entry.registration) is None
            else HostedSkill(entry.id, found.description, entry.status, found.kind, found.version, found.input_schema)
            for entry in self._registry.list_entries()
        )


@asynccontextmanager
async def open_local_host(
    settings: Settings,
    *,
    manifests: Sequence[Path] = (),
    skills: Sequence[Path] = (),
    runners: Callable[[Settings], RunnerTable] | None = None,
) -> AsyncGenerator[LocalHost]:
    """Serve the skills of the settings and of further directories while the block runs."""
    registry = Registry(settings, manifests=manifests, skills=skills)
    table = (runners or Runners)(settings)
    try:
        yield LocalHost(registry, Host(registry, table, Admission(capacity=16, queue=64), secrets=settings.environment))
    finally:
        await table.close()


def _build_request(
    skill_id: str,
    input: Mapping[str, Any],  # noqa: A002
    trace_id: str | None,
    idempotency_key: str | None,
) -> InvokeRequest:
    if idempotency_key is not None:
        raise InvalidArgument("idempotency_key", "is not supported without a host; leave it out")
    if trace_id is None:
        trace_id = new_trace().id
    else:
        check_header_value(trace_id, name="trace_id", max_length=MAX_TRACE_ID_LENGTH)
    # Encoded and decoded, so that the skill gets what it would get over HTTP.
    body = encode_body(input)
    return InvokeRequest(skill_id, read_input(body), trace_id, _LOCAL_PRINCIPAL, time.perf_counter(), body)
