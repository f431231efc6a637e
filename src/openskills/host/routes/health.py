"""`GET /healthz`, `GET /readyz`, `GET /metrics`: for those who watch the host."""

from openskills.host.books.keys import Principal
from openskills.host.books.metrics import CONTENT_TYPE
from openskills.host.parts import Parts
from openskills.host.wire import faults
from openskills.host.wire.answers import Answer, document, trace_headers
from openskills.host.wire.exchange import Exchange
from openskills.host.wire.faults import Refused
from openskills.version import __version__


async def healthz(exchange: Exchange, _: Parts | None) -> Answer:
    """The process is alive."""
    return document({"status": "ok", "version": __version__}, exchange.trace, latency_ms=exchange.latency_ms)


async def readyz(exchange: Exchange, parts: Parts | None) -> Answer:
    """Whether invocations should be sent here now; 503 before the start and while the host is about to end."""
    if parts is None or not parts.prepared:
        raise Refused(faults.starting())
    if parts.host.draining:
        raise Refused(faults.draining())
    counts = {"ready": 0, "broken": 0, "unavailable": 0}
    for entry in parts.registry.entries():
        counts[entry.status] += 1
    return document(
        {"status": "ready", "skills": counts, "running": parts.host.running},
        exchange.trace,
        latency_ms=exchange.latency_ms,
    )


async def metrics(exchange: Exchange, parts: Parts, _: Principal) -> Answer:
    """Numbers for Prometheus. The one answer that is no result: its form is not ours."""
    body = parts.metrics.render()
    length = (b"content-length", b"%d" % len(body))
    return Answer(200, [(b"content-type", CONTENT_TYPE.encode()), length, *trace_headers(exchange.trace)], body)
