"""`/runs/{id}`, `/runs/{id}/events`, `POST /runs/{id}:cancel`: runs that go on without their caller."""

from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress

from openskills.errors import InvalidArgument
from openskills.host.books.keys import Principal
from openskills.host.books.run_states import Run, RunEvent
from openskills.host.parts import Parts
from openskills.host.routes.verbs import options
from openskills.host.wire import faults
from openskills.host.wire.answers import Answer, document
from openskills.host.wire.bodies import Gone
from openskills.host.wire.exchange import Exchange
from openskills.host.wire.faults import Refused
from openskills.host.wire.presence import while_present
from openskills.host.wire.sse import Shown, send_events

_READ = ("GET", "HEAD", "OPTIONS")
_WRITE = ("POST", "OPTIONS")


async def run(exchange: Exchange, parts: Parts, principal: Principal) -> Answer:
    """How a run stands; with `:cancel` after its id, end it."""
    run_id, colon, verb = exchange.scope["path_params"]["run_id"].partition(":")
    if colon and verb != "cancel":
        raise Refused(faults.unknown_verb(f":{verb}", [":cancel"]))
    allowed = _WRITE if colon else _READ
    if exchange.method == "OPTIONS":
        return options(exchange, allowed)
    if exchange.method not in allowed:
        raise Refused(faults.wrong_method(exchange.method, allowed), allow=allowed)
    act = parts.runs.cancel if colon else parts.runs.get
    return _told(exchange, await act(run_id, principal=principal.name))


async def events(exchange: Exchange, parts: Parts, principal: Principal) -> None:
    """What a run shows, from its beginning or from after `Last-Event-ID`, to its result. Hanging up does it no harm."""
    run_id: str = exchange.scope["path_params"]["run_id"]
    after = _after(exchange.header(b"last-event-id"))
    # Before the stream begins: afterwards nobody could be told that there is no such run.
    await parts.runs.get(run_id, principal=principal.name)
    async with aclosing(_shown(parts, run_id, after, principal)) as shown:
        with suppress(Gone):
            await while_present(
                exchange.receive, send_events(exchange, shown, ping=parts.options.ping_seconds, until=parts.ending)
            )


async def _shown(parts: Parts, run_id: str, after: int, principal: Principal) -> AsyncGenerator[Shown]:
    followed: AsyncGenerator[RunEvent] = parts.runs.events(run_id, after, principal=principal.name)
    async with aclosing(followed):
        async for event in followed:
            yield Shown(event.kind, event.data, str(event.id))


def _after(header: str | None) -> int:
    if not header:
        return 0
    if not (header.isascii() and header.isdigit() and len(header) < 16):
        raise InvalidArgument("Last-Event-ID", f"{header[:50]!r} is no id of an event; they are whole numbers")
    return int(header)


def _told(exchange: Exchange, found: Run) -> Answer:
    return document(found.plain(), exchange.trace, skill_id=found.skill_id, latency_ms=exchange.latency_ms)
