"""The span of an invocation: below that of the caller, above everything that the host does for it.

When nobody watches this costs next to nothing; OpenTelemetry is used only where the application has loaded it.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager

from openskills.host.invocation import Asked
from openskills.host.registration import Registration
from openskills.trace import Span, span
from openskills.trace.binding import BOUND, Bound, restore
from openskills.trace.otel import tracer


@contextmanager
def invocation(registration: Registration, asked: Asked, secrets: Mapping[str, str]) -> Generator[Span]:
    """Everything that happens in the block belongs to this invocation. Its secrets are in none of what is told."""
    token = BOUND.set(_bound(registration, asked, secrets))
    try:
        if asked.parent is None or tracer() is None:
            with _span(registration) as watched:
                yield watched
        else:
            with _below(asked.parent), _span(registration) as watched:
                yield watched
    finally:
        restore(BOUND, token)


def traceparent_here(watched: Span, fallback: str | None) -> str | None:
    """The `traceparent` for whom we call: that of the span around this place, where there is one that is recorded."""
    # One that nobody watches is of this very class.
    if type(watched) is Span or tracer() is None:
        return fallback
    from opentelemetry import trace

    here = trace.get_current_span().get_span_context()
    if not here.is_valid:
        return fallback
    return f"00-{here.trace_id:032x}-{here.span_id:016x}-{here.trace_flags:02x}"


def _bound(registration: Registration, asked: Asked, secrets: Mapping[str, str]) -> Bound:
    outer = BOUND.get()
    if outer is None:
        # What `but` does, without a look at values that are known to be good.
        return Bound({"skill": registration.id}, False, secrets, {"id": asked.trace_id})
    return outer.but(asked.trace_id, None, secrets, {"skill": registration.id})


def _span(registration: Registration) -> Span:
    return span(
        f"execute_tool {registration.id}",
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": registration.id,
            "gen_ai.skill.name": registration.id,
            "openskills.runner": registration.kind,
        },
    )


@contextmanager
def _below(traceparent: str) -> Generator[None]:
    """Spans that begin in the block are below the caller's."""
    from opentelemetry import context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    token = context.attach(TraceContextTextMapPropagator().extract({"traceparent": traceparent}))
    try:
        yield
    finally:
        context.detach(token)
