"""`POST /skills/{id}:stream`: the same as `:invoke`, told as it happens."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress

from openskills.errors import SkillError
from openskills.host.invocation import Asked, Invocation
from openskills.host.result import Failure
from openskills.host.routes.invocations import Invocations
from openskills.host.runner import Emitted
from openskills.host.service import Host
from openskills.host.wire.bodies import Gone
from openskills.host.wire.exchange import Exchange
from openskills.host.wire.faults import Refused
from openskills.host.wire.presence import while_present
from openskills.host.wire.sse import PING_SECONDS, Shown, send_events


class Streams:
    """Reads what is asked for, has it done, and tells of it meanwhile. Who hangs up ends it."""

    def __init__(self, host: Host, invocations: Invocations, *, ping: float = PING_SECONDS) -> None:
        self._host = host
        self._invocations = invocations
        self._ping = ping

    async def stream(self, exchange: Exchange, skill_id: str) -> None:
        """Answer with events, the last of them the result. What cannot begin is refused as `:invoke` does it."""
        try:
            asked = await self._invocations.asked(exchange, skill_id)
            fault = self._host.fault(asked)
        except Refused as refused:
            await self._invocations.refuse(exchange, skill_id, refused.failure, close=refused.close)
        except SkillError as error:
            await self._invocations.refuse(exchange, skill_id, Failure.of(error))
        except Gone:
            return
        else:
            if fault is not None:
                await self._invocations.refuse(exchange, skill_id, fault, principal=asked.principal)
                return
            with suppress(Gone):
                await while_present(exchange.receive, self._tell(exchange, asked))

    async def _tell(self, exchange: Exchange, asked: Asked) -> None:
        async with aclosing(events_of(self._host, asked)) as events:
            await send_events(exchange, events, ping=self._ping)


async def events_of(host: Host, asked: Asked) -> AsyncGenerator[Shown]:
    """What happens in an invocation, from `start` to `result`. Closing the generator cancels it."""
    told: asyncio.Queue[Emitted | None] = asyncio.Queue()
    work = asyncio.create_task(host.perform(asked._replace(listener=told.put_nowait)))
    work.add_done_callback(lambda _: told.put_nowait(None))
    try:
        while (emitted := await told.get()) is not None:
            yield Shown(emitted.kind, emitted.data)
        for event in ending(work.result()):
            yield event
    finally:
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work


def ending(ended: Invocation) -> tuple[Shown, ...]:
    """The last events: the result, and before it the error where there is one."""
    failure = ended.result.outcome.failure
    result = Shown("result", ended.body)
    if failure is None:
        return (result,)
    return Shown("error", ended.result.plain()["error"]), result
