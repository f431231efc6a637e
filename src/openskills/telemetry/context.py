"""The trace context (trace id, fields, secrets) of spans and log lines, and a JSON log formatter."""

import json
import logging
import math
import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TypeVar, cast

from openskills.telemetry import otel
from openskills.telemetry.mask import Masker, get_masker
from openskills.telemetry.values import PlainValue, Value, to_plain_attributes, truncate_text

T = TypeVar("T")

_NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class TraceContext:
    """Fields of spans and log lines. `content` allows texts of models, skills and users in them.

    `secrets` are values by name that are masked.
    """

    fields: Mapping[str, PlainValue] = field(default_factory=dict[str, PlainValue])
    content: bool = False
    secrets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    _known: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def trace_id(self) -> str:
        """The given trace id, that of the first OpenTelemetry span, or a new one of 32 hex digits."""
        known = self._known.get("id")
        return known or self.adopt(otel.current_trace_id() or os.urandom(16).hex())

    def adopt(self, trace_id: str) -> str:
        """Set the trace id unless there is one; returns the one in use. Atomic across threads."""
        return self._known.setdefault("id", trace_id)

    def extend(
        self, trace_id: str | None, content: bool | None, masked: Mapping[str, str], fields: Mapping[str, Value]
    ) -> "TraceContext":
        """A copy with more fields. Without a new trace id, both share one."""
        return TraceContext(
            {**self.fields, **to_plain_attributes(fields)},
            self.content if content is None else content,
            {**self.secrets, **masked} if masked else self.secrets,
            {"id": truncate_text(trace_id)} if trace_id else self._known,
        )


TRACE_CONTEXT: ContextVar[TraceContext | None] = ContextVar("openskills_bound", default=None)


@contextmanager
def bind(
    trace_id: str | None = None,
    *,
    content: bool | None = None,
    masked: Mapping[str, str] = _NONE,
    **fields: Value,
) -> Generator[TraceContext]:
    """Set the trace context of this block, and of the tasks and threads that it starts.

    The default trace id is that of the enclosing block, or a new one. Known fields are `session`, `agent`, `tool` and
    `skill`; others may be added. `content` allows texts of models, skills and users in spans and log lines; the default
    is that of the enclosing block, or False. `masked` are secrets, values by name, which are replaced by their names in
    this block and in nested ones.
    """
    token = TRACE_CONTEXT.set(get_context().extend(trace_id, content, masked, fields))
    try:
        yield get_context()
    finally:
        reset_variable(TRACE_CONTEXT, token)


def get_context() -> TraceContext:
    """The current context; an empty one with its own trace id outside of every block."""
    return TRACE_CONTEXT.get() or TraceContext()


def trace_id() -> str:
    """The current trace id; empty outside of every block."""
    here = TRACE_CONTEXT.get()
    return here.trace_id if here is not None else otel.current_trace_id()


def reset_variable(variable: ContextVar[T], token: Token[T]) -> None:
    """Reset a context variable, unless the block was started in another task."""
    with suppress(ValueError):
        variable.reset(token)


FIELDS = "openskills_fields"
"""The attribute of a log record that has our fields."""

_MAX_TEXT = 16 * 1024
_MAX_DEPTH = 4
_EVERY_RECORD = {*logging.LogRecord("", 0, "", 0, "", (), None).__dict__, "message", "asctime", "taskName", FIELDS}
_JSON = json.JSONEncoder(separators=(",", ":"))


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of ASCII JSON, without line breaks or control characters.

    It has time, level, logger and message, then the trace id and the bound fields, then `extra`. Bound secrets are
    replaced by their names, in tracebacks too.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its line end."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        extra = {name: value for name, value in record.__dict__.items() if name not in _EVERY_RECORD}
        for fields in (_collect_fields(record), extra, self._describe_exception(record)):
            for name, value in fields.items():
                line.setdefault(name, value)
        here = TRACE_CONTEXT.get()
        found = _to_json_value(line, get_masker(here.secrets if here is not None else {}))
        # The only control character that JSON does not escape.
        return _JSON.encode(found).replace("\x7f", "\\u007f")

    def _describe_exception(self, record: logging.LogRecord) -> dict[str, object]:
        found: dict[str, object] = {}
        if record.exc_info:
            found["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            found["stack"] = self.formatStack(record.stack_info)
        return found


def _collect_fields(record: logging.LogRecord) -> Mapping[str, object]:
    """The fields of a span; for other records the current context."""
    own = record.__dict__.get(FIELDS)
    if isinstance(own, Mapping):
        return cast("Mapping[str, object]", own)
    here = TRACE_CONTEXT.get()
    return {"trace_id": here.trace_id, **here.fields} if here is not None else {}


def _to_json_value(value: object, masker: Masker, depth: int = 0) -> object:
    """A JSON value without secrets; other objects become text."""
    if value is None or isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return masker.mask_json(value)
    if depth < _MAX_DEPTH and isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {
            masker.mask_text(str(name))[:_MAX_TEXT]: _to_json_value(item, masker, depth + 1) for name, item in items
        }
    if depth < _MAX_DEPTH and isinstance(value, list | tuple):
        return [_to_json_value(item, masker, depth + 1) for item in cast("Sequence[object]", value)]
    text = masker.mask_text(str(value))
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}[... {len(text) - _MAX_TEXT:,} more characters]"
