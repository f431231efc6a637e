"""Pieces of work, how long they took and how they ended: spans of OpenTelemetry, and one line each in the log.

A span costs next to nothing when nobody watches: when no tracing is set up, and the logger `openskills` takes no INFO.
"""

import logging
from contextvars import ContextVar, Token
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING

from openskills.trace import otel
from openskills.trace.binding import BOUND, Bound, bound, restore
from openskills.trace.lines import FIELDS
from openskills.trace.masking import masked_attributes
from openskills.trace.values import LONGEST_CONTENT, Attributes, Plain, Value, error_type, one_line, plain

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

_LOGGER = logging.getLogger("openskills.trace")
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
    def shows(self) -> bool:
        """Whether `show` is of use; to be asked where it costs something to know what to show."""
        return False

    def set(self, attributes: Attributes | None = None, /, **more: Value) -> None:
        """Say something about it: counts, sizes, names of ours. Never what somebody wrote; see `show`."""

    def show(self, attributes: Attributes | None = None, /, **more: Value) -> None:
        """Say what somebody wrote: arguments, results, commands. Forgotten unless `bind(content=True)` allows it.

        Secrets that are bound (`masked`) are replaced by their names.
        """

    def failed(self, error: BaseException) -> None:
        """It ended badly, although no exception passes."""

    def end(self) -> None:
        """It is over; a `with` block says so itself. Safe to say twice, and nothing counts that is said later."""

    def __enter__(self) -> "Span":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        pass


_UNWATCHED = Span()
_OUTER: ContextVar[str] = ContextVar("openskills_span", default="")
"""The name of the watched span around this place."""


def span(name: str, attributes: Attributes | None = None, /, **more: Value) -> Span:
    """A piece of work, as a `with` block. What begins in it is below it, in the tasks and threads that it starts, too.

    An exception that passes is told by its type (`error.type`), never by its text. For work that another task ends
    there is `end()` instead of `with`; then nothing is below it.
    """
    tracer = otel.tracer()
    if tracer is None and not _LOGGER.isEnabledFor(logging.INFO):
        return _UNWATCHED
    return _Watched(name, {**(attributes or {}), **more}, tracer)


class _Watched(Span):
    """A span that is recorded by OpenTelemetry, written into the log, or both."""

    __slots__ = ("_attributes", "_began", "_bound", "_ended", "_error", "_name", "_outer", "_recording", "_tokens")

    def __init__(self, name: str, attributes: Attributes, tracer: "Tracer | None") -> None:
        self._name = one_line(name)
        self._bound = bound()
        self._outer = _OUTER.get()
        self._attributes = plain(attributes)
        self._error = ""
        self._ended = False
        self._tokens: tuple[Token[Bound | None], Token[str]] | None = None
        self._recording: otel.Recording | None = None
        if tracer is not None:
            marks = {_NAMES.get(key, f"openskills.{key}"): value for key, value in self._bound.fields.items()}
            self._recording = otel.recording(tracer, self._name, {**marks, **self._attributes})
            if self._bound.adopt(self._recording.trace_id) != self._recording.trace_id:
                self._recording.set({"openskills.trace_id": self._bound.trace_id})
        self._began = perf_counter()

    @property
    def shows(self) -> bool:
        return self._bound.content

    def set(self, attributes: Attributes | None = None, /, **more: Value) -> None:
        self._add(plain({**(attributes or {}), **more}))

    def show(self, attributes: Attributes | None = None, /, **more: Value) -> None:
        if self._bound.content:
            # Before it is cut: of a secret that is cut in two, half would be left.
            told = masked_attributes({**(attributes or {}), **more}, self._bound.secrets)
            self._add(plain(told, longest=LONGEST_CONTENT))

    def failed(self, error: BaseException) -> None:
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
        self._tokens = BOUND.set(self._bound), _OUTER.set(self._name)
        if self._recording is not None:
            self._recording.enter()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is not None:
            self.failed(error)
        if self._recording is not None:
            self._recording.leave()
        if self._tokens is not None:
            restore(_OUTER, self._tokens[1])
            restore(BOUND, self._tokens[0])
        self.end()

    def _add(self, attributes: dict[str, Plain]) -> None:
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
