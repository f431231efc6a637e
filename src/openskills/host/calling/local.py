"""The skills that a host would serve from here, invoked in this process: no server, no keys, no history."""

import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

from openskills.errors import InvalidArgument
from openskills.host.books.admission import Admission
from openskills.host.books.keys import Principal
from openskills.host.calling.listing import HostedSkill
from openskills.host.calling.request import body_of, header_value
from openskills.host.calling.server_events import ServerEvent
from openskills.host.calling.stream_events import StreamEvent, read_event
from openskills.host.invocation import Asked
from openskills.host.parts import RunnerTable
from openskills.host.registry.registry import Registry
from openskills.host.result import InvokeResult
from openskills.host.routes.streams import events_of
from openskills.host.service import Host
from openskills.host.wire.reading import read_input
from openskills.host.wire.trace_ids import LONGEST, minted
from openskills.settings import Settings

_SELF = Principal("local")


class LocalHost:
    """Invokes like a `Client`, and gives the same results. Made by `local_host`."""

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
        """Invoke a skill; whatever happens is in the result."""
        asked = _asked(skill_id, input, trace_id, idempotency_key)
        return (await self._host.perform(asked)).result

    async def stream(
        self,
        skill_id: str,
        input: Mapping[str, Any],  # noqa: A002
        *,
        trace_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> AsyncGenerator[StreamEvent]:
        """Invoke a skill, and see what it does meanwhile. Closing the generator ends it."""
        asked = _asked(skill_id, input, trace_id, idempotency_key)
        async with aclosing(events_of(self._host, asked)) as events:
            async for event in events:
                if isinstance(event.data, bytes):
                    yield read_event(ServerEvent(event.kind, event.data.decode(), event.id))
                else:
                    yield StreamEvent(event.kind, event.data, event.id)

    async def skills(self) -> tuple[HostedSkill, ...]:
        """Everything that there is, broken skills included."""
        return tuple(
            HostedSkill(entry.id, status=entry.status)
            if (found := entry.registration) is None
            else HostedSkill(entry.id, found.description, entry.status, found.kind, found.version, found.input_schema)
            for entry in self._registry.entries()
        )


@asynccontextmanager
async def local_host(
    settings: Settings,
    *,
    manifests: Sequence[Path] = (),
    skills: Sequence[Path] = (),
    runners: Callable[[Settings], RunnerTable] | None = None,
) -> AsyncGenerator[LocalHost]:
    """The skills of the settings, and of more directories, for the time of the block; what was started ends with it."""
    registry = Registry.load(settings, manifests=manifests, skills=skills)
    table = (runners or _runners)(settings)
    try:
        yield LocalHost(registry, Host(registry, table, Admission(capacity=16, queue=64), secrets=settings.environment))
    finally:
        await table.close()


def _runners(settings: Settings) -> RunnerTable:
    from openskills.host.running.runners import Runners

    return Runners(settings)


def _asked(skill_id: str, input: Mapping[str, Any], trace_id: str | None, idempotency_key: str | None) -> Asked:  # noqa: A002
    if idempotency_key is not None:
        raise InvalidArgument("idempotency_key", "needs a host that remembers it; leave it out here")
    traced = minted().id if trace_id is None else header_value(trace_id, name="trace_id", most=LONGEST)
    body = body_of(input)
    # Through the bytes, so that a skill gets what it would get over HTTP.
    return Asked(skill_id, read_input(body), traced, _SELF, time.perf_counter(), body)
