"""OpenTelemetry spans and metrics, if the application has loaded it; this package never imports it by itself."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from openskills.telemetry.values import PlainValue
from openskills.version import __version__

if TYPE_CHECKING:
    from contextvars import Token

    from opentelemetry.context import Context
    from opentelemetry.trace import Tracer, TracerProvider


_SCOPE = "openskills"
_SECONDS = [0.001, 0.002, 0.005, *(0.01 * 2**power for power in range(14))]
"""Bucket bounds: those of the GenAI conventions, and smaller ones for tools without a model."""


class OtelSpan:
    """One OpenTelemetry span. It never contains error messages, which may quote anything."""

    __slots__ = ("_span", "_token")

    def __init__(self, tracer: "Tracer", name: str, attributes: Mapping[str, PlainValue]) -> None:
        """Start a child of the current span."""
        self._span = tracer.start_span(name, attributes=attributes)
        self._token: Token[Context] | None = None

    @property
    def trace_id(self) -> str:
        """The trace id as 32 hex digits."""
        return format(self._span.get_span_context().trace_id, "032x")

    def enter(self) -> None:
        from opentelemetry import context, trace

        self._token = context.attach(trace.set_span_in_context(self._span))

    def leave(self) -> None:
        """Restore the previous span."""
        if self._token is not None:
            from opentelemetry import context

            context.detach(self._token)

    def set(self, attributes: Mapping[str, PlainValue]) -> None:
        self._span.set_attributes(attributes)

    def end(self, error: str) -> None:
        """End the span; `error` is the type of the error, or empty."""
        if error:
            from opentelemetry.trace import StatusCode

            self._span.set_attribute("error.type", error)
            self._span.set_status(StatusCode.ERROR)
        self._span.end()


@dataclass(slots=True)
class _TracerCache:
    provider: "TracerProvider | None" = None
    tracer: "Tracer | None" = None
    is_unset: bool = False


_tracer_cache = _TracerCache()
_instruments: dict[str, Any] = {}
"""Counters and histograms by name."""


def find_tracer() -> "Tracer | None":
    """The tracer of the application; None if tracing is not set up, even if a library has loaded the API."""
    if "opentelemetry.trace" not in sys.modules:
        return None
    from opentelemetry import trace

    # Without a provider, `get_tracer_provider` reads the environment on each call.
    if _tracer_cache.is_unset and getattr(trace, "_TRACER_PROVIDER", trace) is None:
        return None
    provider = trace.get_tracer_provider()
    _tracer_cache.is_unset = isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider)
    if _tracer_cache.is_unset:
        return None
    if provider is not _tracer_cache.provider:
        _tracer_cache.tracer, _tracer_cache.provider = provider.get_tracer(_SCOPE, __version__), provider
    return _tracer_cache.tracer


def current_trace_id() -> str:
    """The current trace id of the application as 32 hex digits, or empty."""
    if "opentelemetry.trace" not in sys.modules:
        return ""
    from opentelemetry import trace

    found = trace.get_current_span().get_span_context()
    return format(found.trace_id, "032x") if found.is_valid else ""


def add_to_counter(name: str, amount: int, labels: Mapping[str, str]) -> None:
    if "opentelemetry.metrics" not in sys.modules:
        return
    if name not in _instruments:
        from opentelemetry import metrics

        unit = "By" if name.endswith("bytes") else "1"
        _instruments[name] = metrics.get_meter(_SCOPE, __version__).create_counter(name, unit=unit)
    _instruments[name].add(amount, labels)


def observe_seconds(name: str, seconds: float, labels: Mapping[str, str]) -> None:
    """Record a duration in an OpenTelemetry histogram."""
    if "opentelemetry.metrics" not in sys.modules:
        return
    if name not in _instruments:
        from opentelemetry import metrics

        meter: Any = metrics.get_meter(_SCOPE, __version__)
        try:
            _instruments[name] = meter.create_histogram(name, unit="s", explicit_bucket_boundaries_advisory=_SECONDS)
        except TypeError:
            # Versions before 1.30 do not have this option.
            _instruments[name] = meter.create_histogram(name, unit="s")
    _instruments[name].record(seconds, labels)
