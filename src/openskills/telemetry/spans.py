"""Spans, tool calls.

Pieces of work, how long they took and how they ended: spans of OpenTelemetry, and one line each in the log.

A span costs next to nothing when nobody watches: when no tracing is set up, and the logger `openskills` takes no INFO.

The span of a tool call, as the GenAI conventions of OpenTelemetry have it, and how long such calls take.
"""

import logging
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING

from openskills.telemetry import otel
from openskills.telemetry.context import FIELDS, TRACE_CONTEXT, TraceContext, get_context, reset_variable
from openskills.telemetry.metrics import count
from openskills.telemetry.values import (
    MAX_CONTENT,
    Attributes,
    PlainValue,
    Value,
    error_type,
    mask_attributes,
    to_one_line,
    to_plain_attributes,
)

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer


_LOGGER = logging.getLogger("openskills.telemetry")
# A library does not print; whoever wants the lines attaches a handler.
logging.getLogger("openskills").addHandler(logging.NullHandler())

_NAMES = {
    "session": "gen_ai.conversation.id",
    "agent": "gen_ai.agent.name",
    "tool": "gen_ai.tool.name",
    "skill": "gen_ai.skill.name",
}


class Span:
    """One piece of work. This one is watched by nobody, so all that is said of it is forgotten."""

    __slots__ = ()

    @property
    def can_show(self) -> bool:
        """Whether `show` is of use; to be asked where it costs something to know what to show."""
        return False

    def set(self, attributes: Attributes | None = None, /, **more: Value) -> None:
        """Say something about it: counts, sizes, names of ours. Never what somebody wrote; see `show`."""

    def show(self, attributes: Attributes | None = None, /, **more: Value) -> None:
        """Say what somebody wrote: arguments, results, commands. Forgotten unless `bind(content=True)` allows it.

        Secrets that are bound (`masked`) are replaced by their names.
        """

    def record_error(self, error: BaseException) -> None:
        """It ended badly, although no exception passes."""

    def end(self) -> None:
        """It is over; a `with` block says so itself. Safe to say twice, and nothing counts that is said later."""

    def __enter__(self) -> "Span":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        pass


_NOOP_SPAN = Span()
_OUTER: ContextVar[str] = ContextVar("openskills_span", default="")
"""The name of the watched span around this place."""


def span(name: str, attributes: Attributes | None = None, /, **more: Value) -> Span:
    """A piece of work, as a `with` block. What begins in it is below it, in the tasks and threads that it starts, too.

    An exception that passes is told by its type (`error.type`), never by its text. For work that another task ends
    there is `end()` instead of `with`; then nothing is below it.
    """
    tracer = otel.find_tracer()
    if tracer is None and not _LOGGER.isEnabledFor(logging.INFO):
        return _NOOP_SPAN
    return _RecordedSpan(name, {**(attributes or {}), **more}, tracer)


class _RecordedSpan(Span):
    """A span that is recorded by OpenTelemetry, written into the log, or both."""

    __slots__ = ("_attributes", "_began", "_bound", "_ended", "_error", "_name", "_outer", "_recording", "_tokens")

    def __init__(self, name: str, attributes: Attributes, tracer: "Tracer | None") -> None:
        self._name = to_one_line(name)
        self._bound = get_context()
        self._outer = _OUTER.get()
        self._attributes = to_plain_attributes(attributes)
        self._error = ""
        self._ended = False
        self._tokens: tuple[Token[TraceContext | None], Token[str]] | None = None
        self._recording: otel.OtelSpan | None = None
        if tracer is not None:
            marks = {_NAMES.get(key, f"openskills.{key}"): value for key, value in self._bound.fields.items()}
            self._recording = otel.start_otel_span(tracer, self._name, {**marks, **self._attributes})
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
            # Before it is cut: of a secret that is cut in two, half would be left.
            told = mask_attributes({**(attributes or {}), **more}, self._bound.secrets)
            self._add(to_plain_attributes(told, longest=MAX_CONTENT))

    def record_error(self, error: BaseException) -> None:
        self._error = error_type(error)

    def end(self) -> None:
        if self._ended:
            return
        self._ended = True
        milliseconds = (perf_counter() - self._began) * 1000
        if self._recording is not None:
            self._recording.end(self._error)
        self._write_line(milliseconds)

    def __enter__(self) -> "Span":
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
        level = logging.WARNING if self._error else level
        # Who wants warnings only is told by exceptions and results; a line for each would say everything twice.
        if not _LOGGER.isEnabledFor(min(level, logging.INFO)):
            return
        said = {
            **self._bound.fields,
            "trace_id": self._bound.trace_id,
            "span": self._name,
            "parent": self._outer or None,
            "duration_ms": round(milliseconds, 3),
            "error": self._error or None,
            "attributes": self._attributes or None,
        }
        fields = {name: value for name, value in said.items() if value is not None}
        failed = f" and failed: {self._error}" if self._error else ""
        _LOGGER.log(level, "%s took %.1f ms%s", self._name, milliseconds, failed, extra={FIELDS: fields})


DURATION = "gen_ai.execute_tool.duration"


class ToolCallSpan(Span):
    """A tool call. It knows how it ended even when nobody watches its span: metrics want to know, too."""

    __slots__ = ("_span", "error")

    def __init__(self, span: Span) -> None:
        self._span = span
        self.error = ""

    @property
    def can_show(self) -> bool:
        """See `Span.shows`."""
        return self._span.can_show

    def set(self, attributes: Attributes | None = None, /, **more: Value) -> None:
        """See `Span.set`."""
        self._span.set(attributes, **more)

    def show(self, attributes: Attributes | None = None, /, **more: Value) -> None:
        """See `Span.show`."""
        self._span.show(attributes, **more)

    def record_error(self, error: BaseException) -> None:
        """See `Span.failed`."""
        self.error = error_type(error)
        self._span.record_error(error)


@contextmanager
def execute_tool(name: str, *, call_id: str | None = None, skill: str | None = None) -> Generator[ToolCallSpan]:
    """One call of a tool: everything that begins in the block is below its span.

    `name` is that of a tool that there is, and `skill` of a skill that there is: both name things in metrics. An error
    that becomes a result is told with `failed`; one that passes is seen. Arguments and results are for `show`.
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
    with span(title, attributes) as watched:
        call = ToolCallSpan(watched)
        try:
            yield call
        except BaseException as error:
            call.record_error(error)
            raise
        finally:
            _record_duration(to_one_line(name), call.error, perf_counter() - began)


def _record_duration(tool: str, error: str, seconds: float) -> None:
    count("openskills.tool.calls", tool=tool, error=error or None)
    labels = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool}
    otel.observe_seconds(DURATION, seconds, {**labels, "error.type": error} if error else labels)
