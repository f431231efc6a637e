"""`POST /skills/{id}:invoke`: the way of most requests, so it is short."""

from openskills.errors import SkillError
from openskills.host.books.keys import ANONYMOUS, Principal
from openskills.host.invocation import Asked
from openskills.host.result import Failure
from openskills.host.routes.replays import HEADER as REPLAY_KEY
from openskills.host.routes.replays import Replays
from openskills.host.routes.run_starts import RunStarts, wants_to_wait
from openskills.host.service import Host
from openskills.host.wire.answers import Answer, answer_of
from openskills.host.wire.bodies import SECONDS, Gone, read_body
from openskills.host.wire.exchange import Exchange
from openskills.host.wire.faults import Refused
from openskills.host.wire.gate import Gate
from openskills.host.wire.presence import while_present
from openskills.host.wire.reading import read_input, require_json

LEASE = 60.0
"""Seconds beyond its time limit that an invocation may be under way: waiting, starting, ending."""


class Invocations:
    """Reads what is asked for, has it done, answers."""

    def __init__(
        self,
        host: Host,
        gate: Gate,
        replays: Replays,
        run_starts: RunStarts,
        *,
        most: int,
        seconds: float = SECONDS,
    ) -> None:
        self._host = host
        self._replays = replays
        self._run_starts = run_starts
        self._gate = gate
        self._most = most
        self._seconds = seconds

    async def invoke(self, exchange: Exchange, skill_id: str) -> None:
        """Answer with the result of the skill."""
        try:
            asked = await self.asked(exchange, skill_id)
            answer = await self._answer(exchange, asked)
        except Refused as refused:
            await self.refuse(exchange, skill_id, refused.failure, close=refused.close)
        except SkillError as error:
            await self.refuse(exchange, skill_id, Failure.of(error))
        except Gone:
            return
        else:
            await exchange.answer(answer)

    async def asked(self, exchange: Exchange, skill_id: str) -> Asked:
        """What a request asks for. Raises `SkillError`, `Refused` or `Gone`."""
        if exchange.hostile is not None:
            raise exchange.hostile
        principal = self._gate.principal(exchange)
        require_json(exchange.headers.get(b"content-type"))
        body = await read_body(exchange, self._most, seconds=self._seconds)
        trace = exchange.trace
        return Asked(
            skill_id,
            read_input(body),
            trace.id,
            principal,
            exchange.began,
            body,
            traceparent=trace.here,
            parent=trace.parent,
        )

    async def _answer(self, exchange: Exchange, asked: Asked) -> Answer:
        waits = wants_to_wait(exchange)
        if waits and REPLAY_KEY not in exchange.headers:
            return await self._done(exchange, asked)
        registration = self._host.find(asked.skill_id, asked.principal)
        return await self._replays.once(
            exchange,
            lambda: self._done(exchange, asked) if waits else self._run_starts.start(exchange, asked),
            principal=asked.principal.name,
            route=f"{registration.id}:invoke{'' if waits else '?mode=async'}",
            body=asked.body,
            lease=registration.timeout_ms / 1000 + LEASE,
        )

    async def _done(self, exchange: Exchange, asked: Asked) -> Answer:
        ended = await while_present(exchange.receive, self._host.perform(asked))
        return answer_of(ended.result, ended.body, exchange.trace)

    async def refuse(
        self,
        exchange: Exchange,
        skill_id: str,
        failure: Failure,
        *,
        principal: Principal = ANONYMOUS,
        close: bool = False,
    ) -> None:
        """Answer a request that reaches no skill."""
        asked = Asked(skill_id, {}, exchange.trace.id, principal, exchange.began)
        ended = self._host.refused(failure, asked)
        await exchange.answer(answer_of(ended.result, ended.body, exchange.trace), close=close)
