"""Lines of a log for programs: one JSON object each, whatever stands in them."""

import json
import logging
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import cast

from openskills.trace.binding import BOUND
from openskills.trace.masking import masked

FIELDS = "openskills_fields"
"""The attribute of a record that has what we say in it."""

_LONGEST = 16 * 1024
_DEEPEST = 4
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
        for fields in (_said(record), _extra(record), self._trouble(record)):
            for name, value in fields.items():
                line.setdefault(name, value)
        here = BOUND.get()
        found = _plain(line, here.secrets if here is not None else {})
        # The only control character that JSON leaves as it is.
        return _JSON.encode(found).replace("\x7f", "\\u007f")

    def _trouble(self, record: logging.LogRecord) -> dict[str, object]:
        found: dict[str, object] = {}
        if record.exc_info:
            found["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            found["stack"] = self.formatStack(record.stack_info)
        return found


def _said(record: logging.LogRecord) -> Mapping[str, object]:
    """What a span says of itself; for other records what is bound where they are written."""
    said = record.__dict__.get(FIELDS)
    if isinstance(said, Mapping):
        return cast("Mapping[str, object]", said)
    here = BOUND.get()
    return {"trace_id": here.trace_id, **here.fields} if here is not None else {}


def _extra(record: logging.LogRecord) -> Mapping[str, object]:
    return {name: value for name, value in record.__dict__.items() if name not in _EVERY_RECORD and name != FIELDS}


def _plain(value: object, secrets: Mapping[str, str], depth: int = 0) -> object:
    """A value of JSON without secrets; what is none becomes its text."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if depth < _DEEPEST and isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {str(name)[:_LONGEST]: _plain(item, secrets, depth + 1) for name, item in items}
    if depth < _DEEPEST and isinstance(value, list | tuple):
        return [_plain(item, secrets, depth + 1) for item in cast("Sequence[object]", value)]
    text = masked(str(value), secrets) if secrets else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}[... {len(text) - _LONGEST:,} more characters]"
