"""`Prefer: respond-async` and `?mode=async`: the work goes on, the answer says where to look."""

from urllib.parse import parse_qs

from openskills.errors import InvalidArgument
from openskills.host.books.run_record import new_run_id
from openskills.host.books.runs import Runs
from openskills.host.invocation import Asked
from openskills.host.result import InvokeResult
from openskills.host.routes.replays import location_of
from openskills.host.runner import Listener
from openskills.host.service import Host
from openskills.host.wire.answers import Answer, document
from openskills.host.wire.exchange import Exchange
from openskills.host.wire.faults import Refused

_APPLIED = (b"preference-applied", b"respond-async")


def wants_to_wait(exchange: Exchange) -> bool:
    """Whether the caller waits for the result, as most do. Raises `InvalidArgument` for a mode that is not known."""
    if exchange.scope["query_string"]:
        modes = parse_qs(exchange.scope["query_string"].decode("latin-1"), keep_blank_values=True).get("mode", ["sync"])
        if modes[-1] not in {"sync", "async"}:
            raise InvalidArgument("mode", f"{modes[-1][:50]!r} is not one of sync, async")
        if modes[-1] == "async":
            return False
    prefer = exchange.headers.get(b"prefer")
    return prefer is None or b"respond-async" not in {part.strip() for part in prefer.lower().split(b",")}


class RunStarts:
    """Begins runs that go on without their caller."""

    def __init__(self, host: Host, runs: Runs) -> None:
        self._host = host
        self._runs = runs

    async def start(self, exchange: Exchange, asked: Asked) -> Answer:
        """Begin, and say where to look. Raises `SkillError`, or `Refused` for what cannot begin."""
        fault = self._host.fault(asked)
        if fault is not None:
            raise Refused(fault)
        registration = self._host.find(asked.skill_id, asked.principal)
        run_id = new_run_id()

        async def make(listener: Listener) -> InvokeResult:
            return (await self._host.perform(asked._replace(listener=listener, run_id=run_id))).result

        run = await self._runs.start(
            make,
            skill_id=registration.id,
            trace_id=asked.trace_id,
            principal=asked.principal.name,
            version=registration.version,
            run_id=run_id,
        )
        answer = document(
            run.plain(), exchange.trace, skill_id=run.skill_id, status=202, latency_ms=exchange.latency_ms
        )
        answer.headers.extend((location_of(run.id), _APPLIED))
        return answer
