"""`POST /skills/{id}:{verb}`: told apart by hand, because every invocation comes this way."""

import logging
from collections.abc import Awaitable, Callable

from openskills.host.result import Failure
from openskills.host.routes.invocations import Invocations
from openskills.host.routes.streams import Streams
from openskills.host.wire import faults
from openskills.host.wire.answers import Answer, refusal, trace_headers
from openskills.host.wire.exchange import Exchange

_log = logging.getLogger("openskills.host")
_LONGEST_ID = 100
PREFIX = "/skills/"

Verb = Callable[[Exchange, str], Awaitable[None]]


def names_a_verb(path: str) -> bool:
    """Whether a path is `/skills/{id}:{verb}`, with whatever id and verb."""
    return path.startswith(PREFIX) and ":" in path and "/" not in path[len(PREFIX) :]


class SkillVerbs:
    """What can be done with a skill."""

    def __init__(self, invocations: Invocations, streams: Streams) -> None:
        self._verbs: dict[str, Verb] = {"invoke": invocations.invoke, "stream": streams.stream}

    async def handle(self, exchange: Exchange) -> None:
        """Answer a request whose path names a verb."""
        skill_id, _, word = exchange.path[len(PREFIX) :].rpartition(":")
        verb = self._verbs.get(word)
        if verb is None:
            known = [f":{name}" for name in self._verbs]
            await exchange.answer(self._refusal(exchange, skill_id, faults.unknown_verb(f":{word}", known)))
        elif exchange.method == "POST":
            await verb(exchange, skill_id[:_LONGEST_ID])
        elif exchange.method == "OPTIONS":
            await exchange.answer(options(exchange, ("POST", "OPTIONS")))
        else:
            answer = self._refusal(exchange, skill_id, faults.wrong_method(exchange.method, ("POST",)))
            await exchange.answer(allowing(answer, ("POST", "OPTIONS")))

    def _refusal(self, exchange: Exchange, skill_id: str, failure: Failure) -> Answer:
        return refusal(failure, exchange.trace, skill_id=skill_id[:_LONGEST_ID], latency_ms=exchange.latency_ms)


def allowing(answer: Answer, methods: tuple[str, ...]) -> Answer:
    """The same answer, with the methods that are possible."""
    return answer._replace(headers=[*answer.headers, (b"allow", ", ".join(methods).encode())])


def options(exchange: Exchange, methods: tuple[str, ...]) -> Answer:
    """The answer to the question which methods are possible."""
    return allowing(Answer(204, trace_headers(exchange.trace), b""), methods)
