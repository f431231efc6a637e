"""What a run shows, until it is written: bounded, and it says what was cut. Pure, but for the time."""

import json
import time
from dataclasses import dataclass

import orjson

from openskills.host.runner import Emitted

MOST_BYTES = 1024 * 1024
MOST_EVENTS = 10_000
CUT = "cut"


@dataclass(frozen=True, slots=True)
class Shown:
    """An event before it has an id."""

    kind: str
    at: float
    data: bytes


class RunOutput:
    """Events of one run that wait to be written. After `most_bytes` or `most_events` no more are kept, only counted."""

    def __init__(self, most_bytes: int = MOST_BYTES, most_events: int = MOST_EVENTS) -> None:
        self._most_bytes = most_bytes
        self._most_events = most_events
        self._waiting: list[Shown] = []
        self._bytes = 0
        self._events = 0
        self.cut = 0

    def add(self, emitted: Emitted) -> None:
        """Keep an event, or count what was cut. With the first that is cut there is an event that says so."""
        data = encoded(emitted.data)
        if self._bytes + len(data) <= self._most_bytes and self._events < self._most_events:
            self._bytes += len(data)
            self._events += 1
            self._waiting.append(Shown(emitted.kind, time.time(), data))
            return
        if not self.cut:
            said = {"kept_bytes": self._bytes, "kept_events": self._events, "reason": "the output is too large to keep"}
            self._waiting.append(Shown(CUT, time.time(), encoded(said)))
        self.cut += len(data)

    def take(self) -> list[Shown]:
        """What waits; then nothing does."""
        waiting, self._waiting = self._waiting, []
        return waiting

    def put_back(self, shown: list[Shown]) -> None:
        """It could not be written: it waits again, before what came meanwhile."""
        self._waiting[:0] = shown


def encoded(data: object) -> bytes:
    """JSON of whatever a skill shows: half characters are escaped, what is no JSON is shown as text."""
    try:
        return orjson.dumps(data, default=str)
    except TypeError:
        return json.dumps(data, default=str).encode()
