"""Trace ids, bound fields, log lines.

What is true of everything that happens here: a trace id, and on whose behalf it happens.

Lines of a log for programs: one JSON object each, whatever stands in them.
"""

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
from openskills.telemetry.values import PlainValue, Value, mask_text, to_plain_attributes, truncate_text

T = TypeVar("T")

_NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class TraceContext:
    """What spans and lines are marked with. `content` says that what was written by others may be in them.

    `secrets` are values by name that are never in them.
    """

    fields: Mapping[str, PlainValue] = field(default_factory=dict[str, PlainValue])
    content: bool = False
    secrets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    _known: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def trace_id(self) -> str:
        """The one that was given; else that of the first OpenTelemetry span; else a new one, as 32 hex digits."""
        known = self._known.get("id")
        return known or self.adopt(otel.current_trace_id() or os.urandom(16).hex())

    def adopt(self, trace_id: str) -> str:
        """Have this trace id unless there is one; returns the one that counts."""
        # One step, whatever other threads do.
        return self._known.setdefault("id", trace_id)

    def extend(
        self, trace_id: str | None, content: bool | None, masked: Mapping[str, str], fields: Mapping[str, Value]
    ) -> "TraceContext":
        """The same with more fields. A new trace id is for the new one only; without it both share one."""
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
    """Mark everything that happens in this block, and in the tasks and threads that it starts.

    Without a trace id it is that of the block around it, or a new one. Known fields are `session`, `agent`, `tool` and
    `skill`; any others may be added. `content` allows what models, skills and users wrote in spans and lines; it is
    not allowed until somebody does. `masked` are secrets, values by name: where one would be in content or in a line,
    its name is there instead, in this block and in those inside it.
    """
    token = TRACE_CONTEXT.set(get_context().extend(trace_id, content, masked, fields))
    try:
        yield get_context()
    finally:
        reset_variable(TRACE_CONTEXT, token)


def get_context() -> TraceContext:
    """What is bound here; nothing, with a trace id of its own, outside of every block."""
    return TRACE_CONTEXT.get() or TraceContext()


def trace_id() -> str:
    """The trace id here; empty outside of every block."""
    here = TRACE_CONTEXT.get()
    return here.trace_id if here is not None else otel.current_trace_id()


def reset_variable(variable: ContextVar[T], token: Token[T]) -> None:
    """Undo a `set`, wherever that was done."""
    # A block that another task ends than began it has nothing to undo there.
    with suppress(ValueError):
        variable.reset(token)


FIELDS = "openskills_fields"
"""The attribute of a record that has what we say in it."""

_MAX_TEXT = 16 * 1024
_MAX_DEPTH = 4
_EVERY_RECORD = frozenset(logging.LogRecord("", 0, "", 0, "", (), None).__dict__) | {"message", "asctime", "taskName"}
_JSON = json.JSONEncoder(separators=(",", ":"))


class JsonFormatter(logging.Formatter):
    """One JSON object per record, in ASCII: no value can begin a line or move the cursor of who looks at it.

    It has the time, the level, the logger and the message, then the trace id and what is bound, then what the record
    brings (`extra`). Nothing of ours says what a model, a skill or a user wrote, unless the application allowed it.
    Secrets that are bound where the record is written are replaced by their names, in a traceback, too.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        for fields in (_collect_fields(record), _collect_extra(record), self._describe_exception(record)):
            for name, value in fields.items():
                line.setdefault(name, value)
        here = TRACE_CONTEXT.get()
        found = _to_json_value(line, here.secrets if here is not None else {})
        # The only control character that JSON leaves as it is.
        return _JSON.encode(found).replace("\x7f", "\\u007f")

    def _describe_exception(self, record: logging.LogRecord) -> dict[str, object]:
        found: dict[str, object] = {}
        if record.exc_info:
            found["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            found["stack"] = self.formatStack(record.stack_info)
        return found


def _collect_fields(record: logging.LogRecord) -> Mapping[str, object]:
    """What a span says of itself; for other records what is bound where they are written."""
    said = record.__dict__.get(FIELDS)
    if isinstance(said, Mapping):
        return cast("Mapping[str, object]", said)
    here = TRACE_CONTEXT.get()
    return {"trace_id": here.trace_id, **here.fields} if here is not None else {}


def _collect_extra(record: logging.LogRecord) -> Mapping[str, object]:
    return {name: value for name, value in record.__dict__.items() if name not in _EVERY_RECORD and name != FIELDS}


def _to_json_value(value: object, secrets: Mapping[str, str], depth: int = 0) -> object:
    """A value of JSON without secrets; what is none becomes its text."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if depth < _MAX_DEPTH and isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {str(name)[:_MAX_TEXT]: _to_json_value(item, secrets, depth + 1) for name, item in items}
    if depth < _MAX_DEPTH and isinstance(value, list | tuple):
        return [_to_json_value(item, secrets, depth + 1) for item in cast("Sequence[object]", value)]
    text = mask_text(str(value), secrets) if secrets else str(value)
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}[... {len(text) - _MAX_TEXT:,} more characters]"
