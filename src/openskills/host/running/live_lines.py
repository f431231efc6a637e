"""What a skill writes while it works, as events: a line each, told as soon as it is whole. Pure.

A line on stderr that is a JSON object with `"event": "progress"` or `"event": "artifact"` is that event, and its other
fields are the data. All other lines are `stdout` and `stderr` events with the line as `text`.
"""

import json
from collections.abc import Mapping
from typing import Any, cast

from openskills.host.runner import Emitted, Listener
from openskills.trace.masking import masked

_EVENTS = frozenset({"progress", "artifact"})
_LONGEST = 64 * 1024


class LiveLines:
    """Cuts two streams into lines. A line that does not end is told in pieces. Secrets are replaced by their names."""

    def __init__(self, listener: Listener, secrets: Mapping[str, str]) -> None:
        self._listener = listener
        self._secrets = secrets
        self._parts = {"stdout": b"", "stderr": b""}

    def heard(self, stream: str, data: bytes) -> None:
        """More has come on `stdout` or `stderr`."""
        *lines, rest = (self._parts[stream] + data).split(b"\n")
        for line in lines:
            self._tell(stream, line)
        while len(rest) > _LONGEST:
            self._tell(stream, rest[:_LONGEST])
            rest = rest[_LONGEST:]
        self._parts[stream] = rest

    def end(self) -> None:
        """Nothing more will come: what has no end of a line yet is told, too."""
        for stream, rest in self._parts.items():
            if rest:
                self._tell(stream, rest)
        self._parts = {"stdout": b"", "stderr": b""}

    def _tell(self, stream: str, line: bytes) -> None:
        text = masked(line.rstrip(b"\r").decode("utf-8", "replace"), self._secrets)
        event = _event(text) if stream == "stderr" else None
        self._listener(event or Emitted(stream, {"text": text}))


def _event(line: str) -> Emitted | None:
    if not line.lstrip().startswith("{"):
        return None
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    fields = cast("dict[str, Any]", found)
    kind = fields.get("event")
    if not isinstance(kind, str) or kind not in _EVENTS:
        return None
    return Emitted(kind, {name: value for name, value in fields.items() if name != "event"})
