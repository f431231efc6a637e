"""One invocation for the shell: at a host or in this process, told live, as a result, or as JSON."""

import json
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Protocol

from openskills.cli.invoke_view import LiveView, show_result
from openskills.cli.output import say_json, say_text
from openskills.cli.reporting import reported
from openskills.errors import DeadlineExceeded, HostUnavailable, InvalidArgument, MissingExtra, SkillError

if TYPE_CHECKING:
    from openskills.host.calling.listing import HostedSkill
    from openskills.host.calling.stream_events import StreamEvent
    from openskills.host.result import InvokeResult
    from openskills.settings import Settings


class Manner(Enum):
    """How an invocation is told: its result alone, live as well, as JSON, or as a line of JSON for each event."""

    RESULT = auto()
    LIVE = auto()
    JSON = auto()
    JSON_LINES = auto()


@dataclass(frozen=True, slots=True)
class Place:
    """Where skills are invoked: at a URL, at that of the settings, or `local`, in this process."""

    url: str | None = None
    timeout: float | None = None
    local: bool = False

    def __post_init__(self) -> None:
        if self.timeout is not None and not 0 < self.timeout < 1e7:
            raise InvalidArgument("--timeout", f"{self.timeout:g} is no number of seconds; use something like 30")
        if self.local and self.url:
            raise InvalidArgument("--local", "is without a host; leave out --url")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be invoked, and how."""

    skill_id: str
    input: Mapping[str, Any]
    trace_id: str | None = None
    idempotency_key: str | None = None
    manner: Manner = Manner.RESULT


class Invoker(Protocol):
    """What a client of a host and a host in this process have in common."""

    async def invoke(
        self,
        skill_id: str,
        input: Mapping[str, Any],  # noqa: A002
        *,
        trace_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> "InvokeResult":
        """The result."""
        ...

    def stream(
        self,
        skill_id: str,
        input: Mapping[str, Any],  # noqa: A002
        *,
        trace_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> "AsyncGenerator[StreamEvent]":
        """The events, the last with the result."""
        ...

    async def skills(self) -> "tuple[HostedSkill, ...]":
        """What there is."""
        ...


def manner_of(stream: bool | None, *, as_json: bool) -> Manner:
    """How to tell it, from the options; without `--stream` a terminal is told live, a pipe is not."""
    if as_json:
        return Manner.JSON_LINES if stream else Manner.JSON
    live = sys.stderr.isatty() if stream is None else stream
    return Manner.LIVE if live else Manner.RESULT


def opened(place: Place, settings: "Settings") -> AbstractAsyncContextManager[Invoker]:
    """Who invokes there. Raises `MissingExtra` for `local` when what a host needs is not installed."""
    if place.local:
        try:
            from openskills.host.calling.local import local_host
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("openskills"):
                raise
            raise MissingExtra("host", "invoking skills without a running host") from None
        return local_host(settings)
    from openskills.host.calling.client import Client

    return Client(place.url, timeout=place.timeout, settings=settings)


def perform(wanted: Wanted, place: Place, settings: "Settings") -> int:
    """Invoke, print, and give the exit code. What kept it from being invoked is printed for programs, and raised."""
    from openskills.host.wire.trace_ids import minted
    from openskills.sync import run

    wanted = replace(wanted, trace_id=wanted.trace_id or minted().id)
    try:
        with reported():
            result = run(_in_time(wanted, place, settings))
    except SkillError as error:
        if wanted.manner in {Manner.JSON, Manner.JSON_LINES}:
            _say_error(error, wanted)
        raise
    if wanted.manner is Manner.JSON:
        say_json(result.plain())
    if wanted.manner in {Manner.JSON, Manner.JSON_LINES}:
        return 0 if result.success else 1
    return show_result(result)


async def _in_time(wanted: Wanted, place: Place, settings: "Settings") -> "InvokeResult":
    import asyncio

    # A client watches over its time itself, and says more about what took so long.
    try:
        async with asyncio.timeout(place.timeout if place.local else None):
            return await _invoked(wanted, place, settings)
    except TimeoutError:
        raise DeadlineExceeded(f"{wanted.skill_id} took longer than {place.timeout:g} seconds, and was ended") from None


async def _invoked(wanted: Wanted, place: Place, settings: "Settings") -> "InvokeResult":
    ids = {"trace_id": wanted.trace_id, "idempotency_key": wanted.idempotency_key}
    async with opened(place, settings) as invoker:
        if wanted.manner in {Manner.RESULT, Manner.JSON}:
            return await invoker.invoke(wanted.skill_id, wanted.input, **ids)
        with LiveView() as view:
            async with aclosing(invoker.stream(wanted.skill_id, wanted.input, **ids)) as events:
                async for event in events:
                    _tell(event, wanted.manner, view)
                    if event.result is not None:
                        return event.result
    raise HostUnavailable("the stream ended before the result; the skill may have run")


def _tell(event: "StreamEvent", manner: Manner, view: LiveView) -> None:
    if manner is Manner.JSON_LINES:
        say_text(json.dumps(event.plain()))
        # Whoever reads along wants it now.
        sys.stdout.flush()
    else:
        view.show(event)


def _say_error(error: SkillError, wanted: Wanted) -> None:
    from openskills.host.result import failed, normalised

    result = normalised(
        failed(error), skill_id=wanted.skill_id, trace_id=wanted.trace_id or "", latency_ms=0.0, version=""
    )
    if wanted.manner is Manner.JSON:
        say_json(result.plain())
    else:
        say_text(json.dumps({"event": "result", "data": result.plain()}))
