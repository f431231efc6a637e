"""Routes that are no invocation: small functions from a request to an answer, behind one that does what all share."""

from collections.abc import Awaitable, Callable
from contextlib import suppress

from openskills.errors import SkillError
from openskills.host.books.keys import Principal
from openskills.host.parts import Parts
from openskills.host.result import Failure
from openskills.host.routes.verbs import allowing
from openskills.host.wire import faults
from openskills.host.wire.answers import Answer, refusal
from openskills.host.wire.bodies import Gone
from openskills.host.wire.exchange import Exchange, Receive, Scope, Send
from openskills.host.wire.faults import Refused

Handler = Callable[[Exchange, Parts, Principal], Awaitable[Answer | None]]
"""Answers a request of somebody who may ask; None when it has answered by itself."""
OpenHandler = Callable[[Exchange, Parts | None], Awaitable[Answer | None]]
"""The same for what everybody may ask, even before the host has started."""


class Guarded:
    """A route for those who may come in."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, whatever the handler raises that is an error of ours or a refusal."""
        await _answered(Exchange(scope, receive, send), self._handle)

    async def _handle(self, exchange: Exchange) -> Answer | None:
        parts = parts_of(exchange)
        if parts is None:
            raise Refused(faults.starting())
        return await self._handler(exchange, parts, parts.gate.principal(exchange))


class Open:
    """A route for everybody."""

    def __init__(self, handler: OpenHandler) -> None:
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, whatever the handler raises that is an error of ours or a refusal."""
        await _answered(Exchange(scope, receive, send), lambda exchange: self._handler(exchange, parts_of(exchange)))


def parts_of(exchange: Exchange) -> Parts | None:
    """The parts of the host that a request came to; None before it has started."""
    return getattr(exchange.scope["app"].state, "parts", None)


async def _answered(exchange: Exchange, handle: Callable[[Exchange], Awaitable[Answer | None]]) -> None:
    with suppress(Gone):
        try:
            if exchange.hostile is not None:
                raise exchange.hostile
            answer = await handle(exchange)
        except Refused as refused:
            answer = _refusal(exchange, refused.failure)
            await exchange.answer(allowing(answer, refused.allow) if refused.allow else answer, close=refused.close)
        except SkillError as error:
            await exchange.answer(_refusal(exchange, Failure.of(error)))
        else:
            if answer is not None:
                await exchange.answer(answer)


def _refusal(exchange: Exchange, failure: Failure) -> Answer:
    return refusal(failure, exchange.trace, latency_ms=exchange.latency_ms)
