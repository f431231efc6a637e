"""An application that watches: the real OpenTelemetry SDK, and a handler on our logger."""

import functools
import io
import json
import logging
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, Metric
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult

from openskills.telemetry.context import JsonFormatter


class Switch(Sampler):
    """Takes everything while it is on. A process has one provider, and other tests have nobody who watches."""

    def __init__(self) -> None:
        self.on = False

    def should_sample(
        self,
        parent_context: Any,  # noqa: ARG002
        trace_id: int,  # noqa: ARG002
        name: str,  # noqa: ARG002
        kind: Any = None,  # noqa: ARG002
        attributes: Any = None,
        links: Any = None,  # noqa: ARG002
        trace_state: Any = None,  # noqa: ARG002
    ) -> SamplingResult:
        """Whether to record; asked for each span."""
        return SamplingResult(Decision.RECORD_AND_SAMPLE if self.on else Decision.DROP, attributes)

    def get_description(self) -> str:
        """For people."""
        return "switch"


@dataclass(frozen=True)
class Watcher:
    """What was recorded."""

    exporter: InMemorySpanExporter

    def spans(self) -> tuple[ReadableSpan, ...]:
        """All that have ended, in that order."""
        return self.exporter.get_finished_spans()

    def one(self, name: str) -> ReadableSpan:
        """The only span of a name."""
        (found,) = [span for span in self.spans() if span.name == name]
        return found

    def parent(self, name: str) -> str | None:
        """The name of the span that the only span of a name is below."""
        above = self.one(name).parent
        if above is None:
            return None
        return next((span.name for span in self.spans() if place(span).span_id == above.span_id), "unknown")

    def everything(self) -> str:
        """All of it as text."""
        return "\n".join(span.to_json() for span in self.spans())


def attributes(span: ReadableSpan) -> Mapping[str, Any]:
    """What is said about a span."""
    return dict(span.attributes or {})


def place(span: ReadableSpan) -> trace.SpanContext:
    """Where a span is: its id, and that of its trace."""
    found = span.get_span_context()
    assert found is not None
    return found


@functools.cache
def _traced() -> tuple[Switch, InMemorySpanExporter]:
    switch, exporter = Switch(), InMemorySpanExporter()
    provider = TracerProvider(sampler=switch, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return switch, exporter


@functools.cache
def metric_reader() -> InMemoryMetricReader:
    """Where the metrics of this process are."""
    reader = InMemoryMetricReader()
    metrics.set_meter_provider(MeterProvider([reader], shutdown_on_exit=False))
    return reader


def measured(name: str) -> Sequence[Any]:
    """The points of a metric so far."""
    data = metric_reader().get_metrics_data()
    found: list[Metric] = [
        metric
        for resource in (data.resource_metrics if data else ())
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.name == name
    ]
    return [point for metric in found for point in metric.data.data_points]


@contextmanager
def watched() -> Generator[Watcher]:
    """An application with tracing."""
    switch, exporter = _traced()
    exporter.clear()
    switch.on = True
    try:
        yield Watcher(exporter)
    finally:
        switch.on = False
        exporter.clear()


@dataclass(frozen=True)
class Log:
    """What was logged."""

    stream: io.StringIO

    @property
    def text(self) -> str:
        """As it is in the file."""
        return self.stream.getvalue()

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Each line, read."""
        return [json.loads(line) for line in self.text.splitlines()]

    def one(self, name: str) -> dict[str, Any]:
        """The only line about a span."""
        (found,) = [line for line in self.lines if line.get("span") == name]
        return found


@contextmanager
def logged(level: int = logging.DEBUG, formatter: logging.Formatter | None = None) -> Generator[Log]:
    """An application with a log."""
    logger = logging.getLogger("openskills")
    log = Log(io.StringIO())
    handler = logging.StreamHandler(log.stream)
    handler.setFormatter(formatter or JsonFormatter())
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(level)
    # pytest would send what it captures to another process, and half a character cannot be sent.
    logger.propagate = False
    try:
        yield log
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]
