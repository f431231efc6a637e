"""What a skill shows while it works: lines of JSON on stderr, because stdout is for the one result."""

import io
import json
import sys
from typing import IO, Any

_LONGEST_LINE = 8192


def progress(done: float, total: float | None = None, message: str = "") -> None:
    """Say how far the work is. Callers that stream see it at once."""
    emit("progress", done=done, **({} if total is None else {"total": total}), **_unless_empty(message=message))


def artifact(path: str, **more: Any) -> None:
    """Say that a file was made; `path` as the caller may ask for it."""
    emit("artifact", path=path, **more)


def log(message: str, **fields: Any) -> None:
    """Say something to whoever reads the logs of the host."""
    emit("log", message=message, **fields)


def emit(event: str, **fields: Any) -> None:
    """Write one event. Values that JSON does not have are written as their text."""
    stream = sys.stderr
    if isinstance(stream, Lines):
        stream = stream.under
    write_event(stream, event, fields)


def write_event(stream: IO[str] | None, event: str, fields: dict[str, Any]) -> None:
    """Write one event to a stream; nobody is there to be told when that fails."""
    text = json.dumps({"event": event, **fields}, ensure_ascii=True, default=str)
    if stream is None:
        return
    try:
        stream.write(text + "\n")
        stream.flush()
    except (OSError, ValueError):
        return


class Lines(io.TextIOBase):
    """A text stream for whatever prints: each line becomes an event on the stream `under` it."""

    def __init__(self, under: IO[str] | None, event: str) -> None:
        super().__init__()
        self.under = under
        self.event = event
        self._rest = ""

    def writable(self) -> bool:
        """It is for writing only."""
        return True

    def write(self, text: str, /) -> int:
        """Take text; whole lines are passed on, long ones in pieces."""
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._pass_on(line)
        while len(self._rest) > _LONGEST_LINE:
            self._pass_on(self._rest[:_LONGEST_LINE])
            self._rest = self._rest[_LONGEST_LINE:]
        return len(text)

    def finish(self) -> None:
        """Pass on what has no end of line."""
        if self._rest:
            self._pass_on(self._rest)
            self._rest = ""

    def _pass_on(self, line: str) -> None:
        if line.strip():
            write_event(self.under, self.event, {"text": line[:_LONGEST_LINE]})


def _unless_empty(**fields: str) -> dict[str, str]:
    return {name: value for name, value in fields.items() if value}
