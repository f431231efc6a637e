"""Spans: OpenTelemetry spans and one log line each; tool calls follow the GenAI conventions.

A span costs almost nothing when tracing is not set up and the logger `openskills` is above INFO.
"""

import logging
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Self

from openskills.telemetry import otel
from openskills.telemetry.context import FIELDS, TRACE_CONTEXT, TraceContext, get_context, reset_variable
from openskills.telemetry.mask import get_masker
from openskills.telemetry.metrics import count
from openskills.telemetry.values import (
    MAX_CONTENT,
    Attributes,
    PlainValue,
    Value,
    error_type,
    to_one_line,
    to_plain_attributes,
)

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer


_LOGGER = logging.getLogger("openskills.telemetry")
# A library does not print; the application attaches a handler.
logging.getLogger("openskills").addHandler(logging.NullHandler())

_NAMES = {
    "session": "gen_ai.conversation.id",
    "agent": "gen_ai.agent.name",
    "tool": "gen_ai.tool.name",
    "skill": "gen_ai.skill.name",
}


class Span:
    """A span. This base class ignores everything; it is used when nothing is recorded."""

    __slots__ = ()

    @property
    def can_show(self) -> bool:
        """Whether `show` has an effect; check it when computing the attributes is expensive."""
        return False

    def set(self, attributes: Attributes | None = None, /, **more: Value) -> None:
        """Add attributes such as counts, sizes and our own names; for other texts use `show`."""

    def show(self, attributes: Attributes | None = None, /, **more: Value) -> None:
        """Add texts of models, skills and users, if `bind(content=True)` allows it. Bound secrets are masked."""

    def record_error(self, error: BaseException) -> None:
        """Mark the span as failed without raising."""

    def end(self) -> None:
        """End the span; a `with` block does it. Safe to call twice; later calls are ignored."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        pass


_NOOP_SPAN = Span()
_OUTER: ContextVar[str] = ContextVar("openskills_span", default="")
"""The name of the enclosing recorded span."""


def span(name: str, attributes: Attributes | None = None, /, **more: Value) -> Span:
    """Start a span; use it as a `with` block. Spans in the block, and in its tasks and threads, are its children.

    An exception is recorded by its type (`error.type`), never by its message. If another task ends the work, call
    `end()` instead of using `with`; then the span has no children.
    """
    return _start_recording(name, attributes, more) or _NOOP_SPAN


class _ErrorSpan(Span):
    """Keeps only the type of an error."""

    __slots__ = ("error",)

    def __init__(self) -> None:
        self.error = ""

    def record_error(self, error: BaseException) -> None:
        self.error = error_type(error)


class _RecordedSpan(_ErrorSpan):
    __slots__ = ("_attributes", "_began", "_bound", "_ended", "_name", "_outer", "_recording", "_tokens")

    def __init__(self, name: str, attributes: Attributes, tracer: "Tracer | None") -> None:
        super().__init__()
        self._name = to_one_line(name)
        self._bound = get_context()
        self._outer = _OUTER.get()
        self._attributes = to_plain_attributes(attributes)
        self._ended = False
        self._tokens: tuple[Token[TraceContext | None], Token[str]] | None = None
        self._recording: otel.OtelSpan | None = None
        if tracer is not None:
            marks = {_NAMES.get(key, f"openskills.{key}"): value for key, value in self._bound.fields.items()}
            self._recording = otel.OtelSpan(tracer, self._name, {**marks, **self._attributes})
            if self._bound.adopt(self._recording.trace_id) != self._recording.trace_id:
                self._recording.set({"openskills.trace_id": self._bound.trace_id})
        self._began = perf_counter()

    @property
    def can_show(self) -> bool:
        return self._bound.content

    def set(self, attributes: Attributes | None = None, /, **more: Value) -> None:
        self._add(to_plain_attributes({**(attributes or {}), **more}))

    def show(self, attributes: Attributes | None = None, /, **more: Value) -> None:
        if self._bound.content:
            # Masked before it is truncated, which could cut a secret in two.
            masked = get_masker(self._bound.secrets).mask_json({**(attributes or {}), **more})
            self._add(to_plain_attributes(masked, max_length=MAX_CONTENT))

    def end(self) -> None:
        if self._ended:
            return
        self._ended = True
        milliseconds = (perf_counter() - self._began) * 1000
        if self._recording is not None:
            self._recording.end(self.error)
        self._write_line(milliseconds)

    def __enter__(self) -> Self:
        self._tokens = TRACE_CONTEXT.set(self._bound), _OUTER.set(self._name)
        if self._recording is not None:
            self._recording.enter()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is not None:
            self.record_error(error)
        if self._recording is not None:
            self._recording.leave()
        if self._tokens is not None:
            reset_variable(_OUTER, self._tokens[1])
            reset_variable(TRACE_CONTEXT, self._tokens[0])
        self.end()

    def _add(self, attributes: dict[str, PlainValue]) -> None:
        if self._ended:
            return
        self._attributes |= attributes
        if self._recording is not None:
            self._recording.set(attributes)

    def _write_line(self, milliseconds: float) -> None:
        level = logging.DEBUG if self._outer else logging.INFO
        level = logging.WARNING if self.error else level
        # At level WARNING nothing is logged: exceptions and results already report the failure.
        if not _LOGGER.isEnabledFor(min(level, logging.INFO)):
            return
        values = {
            **self._bound.fields,
            "trace_id": self._bound.trace_id,
            "span": self._name,
            "parent": self._outer or None,
            "duration_ms": round(milliseconds, 3),
            "error": self.error or None,
            "attributes": self._attributes or None,
        }
        fields = {name: value for name, value in values.items() if value is not None}
        failed = f" and failed: {self.error}" if self.error else ""
        _LOGGER.log(level, "%s took %.1f ms%s", self._name, milliseconds, failed, extra={FIELDS: fields})


def _start_recording(name: str, attributes: Attributes | None, more: Attributes) -> _RecordedSpan | None:
    tracer = otel.find_tracer()
    if tracer is None and not _LOGGER.isEnabledFor(logging.INFO):
        return None
    return _RecordedSpan(name, {**(attributes or {}), **more}, tracer)


DURATION = "gen_ai.execute_tool.duration"


@contextmanager
def execute_tool(name: str, *, call_id: str | None = None, skill: str | None = None) -> Generator[Span]:
    """The span and metrics of one tool call.

    `name` and `skill` must be existing ones, because they are used as metric labels. Report an error that becomes a
    result with `record_error`; exceptions are recorded. Pass arguments and results to `show`.
    """
    began = perf_counter()
    title = f"execute_tool {name} {skill}" if skill and name == "skill_load" else f"execute_tool {name}"
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": call_id,
        "gen_ai.skill.name": skill,
    }
    # The error is for metrics, even if the span is not recorded.
    with _start_recording(title, attributes, {}) or _ErrorSpan() as call:
        try:
            yield call
        except BaseException as error:
            call.record_error(error)
            raise
        finally:
            tool = to_one_line(name)
            count("openskills.tool.calls", tool=tool, error=call.error or None)
            labels = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool}
            labels |= {"error.type": call.error} if call.error else {}
            otel.observe_seconds(DURATION, perf_counter() - began, labels)
