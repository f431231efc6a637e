"""Server-sent events, from bytes as they come. Strict and bounded: what is no event is refused, not skipped. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from openskills.errors import BadSkillOutput, LimitExceeded

MOST_BYTES = 8 * 1024 * 1024
"""Of one event: the result of a skill may have some megabytes."""

_END = re.compile(rb"\r\n|\n|\r")
_FIELDS = frozenset({"event", "data", "id", "retry"})
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event: its kind, its text, and the id after which a client may go on."""

    kind: str
    data: str
    id: str | None = None


@dataclass(slots=True)
class EventReader:
    """Takes bytes, gives the events that they complete. `last_id` is the last id that was said.

    Raises `LimitExceeded` for an event that does not end, `BadSkillOutput` for bytes that are no UTF-8 and for fields
    that the format does not have: a page of HTML is no stream without events.
    """

    most: int = MOST_BYTES
    last_id: str | None = None
    _rest: bytearray = field(default_factory=bytearray)
    _seen: int = 0
    """How much of the rest is known to have no end of line."""
    _kind: str = ""
    _lines: list[str] = field(default_factory=list[str])
    _size: int = 0
    _begun: bool = False

    def feed(self, data: bytes) -> Iterator[ServerEvent]:
        """The events that are whole now. The iterator must be used up before the next call."""
        self._rest += data
        if not self._begun:
            if len(self._rest) < len(_BOM) and _BOM.startswith(self._rest):
                return
            self._begun = True
            if self._rest.startswith(_BOM):
                del self._rest[: len(_BOM)]
        for line in self._take_lines():
            event = self._line(line)
            if event is not None:
                yield event
        self._check(len(self._rest))

    def _take_lines(self) -> Iterator[bytes]:
        start = 0
        while end := _END.search(self._rest, max(start, self._seen)):
            # A carriage return at the very end may be half of a line's end.
            if end.group() == b"\r" and end.end() == len(self._rest):
                break
            yield bytes(self._rest[start : end.start()])
            start = end.end()
            self._seen = start
        del self._rest[:start]
        self._seen = len(self._rest) - 1 if self._rest.endswith(b"\r") else len(self._rest)

    def _line(self, line: bytes) -> ServerEvent | None:
        if not line:
            return self._complete()
        if line.startswith(b":"):
            return None
        self._size += len(line)
        self._check(0)
        name, value = _field(line)
        if name == "data":
            self._lines.append(value)
        elif name == "event":
            self._kind = value
        elif name == "id" and "\0" not in value:
            self.last_id = value
        return None

    def _complete(self) -> ServerEvent | None:
        kind, lines = self._kind or "message", self._lines
        self._kind, self._lines, self._size = "", [], 0
        # The format says so: without data there is no event, whatever else was said.
        return ServerEvent(kind, "\n".join(lines), self.last_id) if lines else None

    def _check(self, more: int) -> None:
        if self._size + more > self.most:
            raise LimitExceeded(f"an event of the stream is larger than {self.most:,} bytes", limit=self.most)


def _field(line: bytes) -> tuple[str, str]:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        raise _refused(line, "a line is not UTF-8") from None
    name, _, value = text.partition(":")
    if name not in _FIELDS:
        raise _refused(line, "a line begins with no field of the format")
    return name, value.removeprefix(" ")


def _refused(line: bytes, why: str) -> BadSkillOutput:
    shown = line[:200].decode("utf-8", "replace")
    return BadSkillOutput(f"the host sent no stream of events: {why}", excerpt=shown)
