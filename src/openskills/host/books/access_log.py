"""One line of JSON for every invocation, in the shape of the package's `JsonFormatter`; written in batches.

An invocation only puts a tuple into a line. Lines are made and written some milliseconds later, off the event loop, so
neither a slow disk nor a reader that sleeps holds up a request.
"""

import json
import threading
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple, Protocol

import orjson

from openskills.host.result import InvokeResult
from openskills.trace.masking import masked

PAUSE = 0.05
"""Seconds that lines wait for company."""
MOST_WAITING = 100_000
"""Lines that may wait when they cannot be written; after that the newest are counted instead of kept."""
LOGGER = "openskills.host.access"


class Sink(Protocol):
    """Where lines go."""

    def write(self, lines: bytes, /) -> object:
        """Take some whole lines."""
        ...

    def flush(self) -> object:
        """Pass them on."""
        ...


class Access(NamedTuple):
    """What is said about one invocation."""

    at: float
    result: InvokeResult
    runner_type: str | None
    principal: str
    secrets: Mapping[str, str]


class AccessLog:
    """Lines for one sink. Any thread may write; `close` writes what is left."""

    def __init__(self, sink: Sink, *, pause: float = PAUSE) -> None:
        self._sink = sink
        self._pause = pause
        self._waiting: deque[Access] = deque()
        self._lost = 0
        self._wake = threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._write_on, name="openskills-access-log", daemon=True)
        self._thread.start()

    def write(self, access: Access) -> None:
        """Write a line about an invocation, soon."""
        if len(self._waiting) >= MOST_WAITING:
            self._lost += 1
            return
        self._waiting.append(access)
        if not self._wake.is_set():
            self._wake.set()

    def close(self) -> None:
        """Write what is left."""
        self._closed = True
        self._wake.set()
        self._thread.join(timeout=5)

    def _write_on(self) -> None:
        nap = threading.Event()
        while not self._closed:
            self._wake.wait()
            if not self._closed:
                nap.wait(self._pause)
            self._wake.clear()
            self._write_batch()
        # What came between the last batch and the end.
        self._write_batch()

    def _write_batch(self) -> None:
        lost, self._lost = self._lost, 0
        # One by one: others put more at the other end meanwhile.
        lines = [line_of(self._waiting.popleft()) for _ in range(len(self._waiting))]
        written = len(lines)
        if lost:
            lines.append(
                orjson.dumps({"level": "WARNING", "logger": LOGGER, "message": f"{lost} lines were lost"}) + b"\n"
            )
        if not lines:
            return
        try:
            self._sink.write(b"".join(lines))
            self._sink.flush()
        except (OSError, ValueError):
            # Nobody reads any more, or the disk is full. Invocations go on; how many lines are missing is said later.
            self._lost += written + lost


def line_of(access: Access) -> bytes:
    """The line, with its end. Secrets of the skill are replaced by their names."""
    result, failure = access.result, access.result.outcome.failure
    message = None
    if failure is not None:
        message = masked(failure.message, access.secrets) if access.secrets else failure.message
    fields = {
        "time": datetime.fromtimestamp(access.at, UTC).isoformat(timespec="milliseconds"),
        "level": "INFO" if failure is None or failure.code < 500 else "WARNING",
        "logger": LOGGER,
        "message": "invoked",
        "trace_id": result.trace_id,
        "skill_id": result.skill_id,
        "runner_type": access.runner_type,
        "latency_ms": round(result.latency_ms, 3),
        "success": failure is None,
        "error.code": None if failure is None else failure.code,
        "error.message": message,
        "principal": access.principal,
    }
    try:
        line = orjson.dumps(fields)
    except TypeError:
        line = b"\xff"
    # As the formatter has it: nothing that moves a cursor, whatever a caller or a skill wrote.
    if not line.isascii() or b"\x7f" in line:
        line = json.dumps(fields, separators=(",", ":")).replace("\x7f", "\\u007f").encode()
    return line + b"\n"
