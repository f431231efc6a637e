"""Access log, history and metrics per invocation.

One line of JSON for every invocation, in the shape of the package's `JsonFormatter`; written in batches.

An invocation only puts a tuple into a line. Lines are made and written some milliseconds later, off the event loop, so
neither a slow disk nor a reader that sleeps holds up a request.

Who keeps books of invocations: the log, the metrics, the history. None of them waits for anything.
"""

import json
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple, Protocol

import orjson

from openskills.host.history import History, RunRecord, id_prefix
from openskills.host.http import random_hex
from openskills.host.metrics import Metrics
from openskills.host.model import InvokeResult, Registration
from openskills.host.service import Invocation
from openskills.telemetry.values import mask_text

WRITE_INTERVAL = 0.05
"""Seconds that lines wait for company."""
MAX_PENDING = 100_000
"""Lines that may wait when they cannot be written; after that the newest are counted instead of kept."""
LOGGER = "openskills.host.access"


class AccessLogSink(Protocol):
    """Where lines go."""

    def write(self, lines: bytes, /) -> object:
        """Take some whole lines."""
        ...

    def flush(self) -> object:
        """Pass them on."""
        ...


class AccessRecord(NamedTuple):
    """What is said about one invocation."""

    at: float
    result: InvokeResult
    runner_type: str | None
    principal: str
    secrets: Mapping[str, str]


class AccessLog:
    """Lines for one sink. Any thread may write; `close` writes what is left."""

    def __init__(self, sink: AccessLogSink, *, pause: float = WRITE_INTERVAL) -> None:
        self._sink = sink
        self._pause = pause
        self._waiting: deque[AccessRecord] = deque()
        self._lost = 0
        self._wake = threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="openskills-access-log", daemon=True)
        self._thread.start()

    def write(self, access: AccessRecord) -> None:
        """Write a line about an invocation, soon."""
        if len(self._waiting) >= MAX_PENDING:
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

    def _run(self) -> None:
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
        lines = [format_line(self._waiting.popleft()) for _ in range(len(self._waiting))]
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


def format_line(access: AccessRecord) -> bytes:
    """The line, with its end. Secrets of the skill are replaced by their names."""
    result, failure = access.result, access.result.outcome.failure
    message = None
    if failure is not None:
        message = mask_text(failure.message, access.secrets) if access.secrets else failure.message
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


class AccessLogObserver:
    """A line for each."""

    def __init__(self, log: AccessLog) -> None:
        self._log = log

    def on_start(self, registration: Registration) -> None:
        """See `Watcher.began`."""

    def on_end(self, invocation: Invocation) -> None:
        """See `Watcher.ended`."""
        kind = None if invocation.registration is None else invocation.registration.kind
        self._log.write(AccessRecord(invocation.at, invocation.result, kind, invocation.principal, invocation.secrets))


class MetricsObserver:
    """Rates, errors, latencies, what is in flight."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def on_start(self, registration: Registration) -> None:
        """See `Watcher.began`."""
        self._metrics.record_start(registration.id)

    def on_end(self, invocation: Invocation) -> None:
        """See `Watcher.ended`."""
        skill, kind = "", ""
        if invocation.registration is not None:
            skill, kind = invocation.registration.id, invocation.registration.kind
        sizes = (len(invocation.request), len(invocation.body))
        self._metrics.record_end(invocation.result, kind, skill=skill, bytes_in=sizes[0], bytes_out=sizes[1])


class HistoryObserver:
    """A row for each; messages without secrets."""

    def __init__(self, history: History) -> None:
        self._history = history

    def on_start(self, registration: Registration) -> None:
        """See `Watcher.began`."""

    def on_end(self, invocation: Invocation) -> None:
        """See `Watcher.ended`."""
        record = RunRecord.from_result(
            invocation.result,
            run_id=invocation.run_id or f"{id_prefix(invocation.at)}{random_hex(10)}",
            who=invocation.principal,
            runner_type="" if invocation.registration is None else invocation.registration.kind,
            began=invocation.at,
            body=invocation.request,
            bytes_out=len(invocation.body),
        )
        self._history.record(_mask_record(record, invocation))


def _mask_record(record: RunRecord, invocation: Invocation) -> RunRecord:
    if not invocation.secrets or not record.message:
        return record
    return replace(record, message=mask_text(record.message, invocation.secrets))
