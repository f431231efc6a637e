"""Observers of invocations: access log and history, besides `Metrics`. None of them blocks the event loop."""

import json
import threading
from collections import deque
from datetime import UTC, datetime
from typing import BinaryIO

import orjson

from openskills.host.history import History, RunRecord, id_prefix
from openskills.host.http import random_hex
from openskills.host.model import Registration
from openskills.host.service import Invocation, InvokeRequest
from openskills.paths import to_printable
from openskills.telemetry.mask import get_masker

WRITE_INTERVAL = 0.05
"""Seconds between two batches of lines."""
MAX_PENDING = 100_000
"""Lines that may be queued while they cannot be written; further ones are only counted."""
LOGGER = "openskills.host.access"


class AccessLog:
    """Writes one line of JSON per invocation, in the format of `JsonFormatter`, in batches from a thread.

    With `as_text` lines are for people. Implements `InvocationObserver`. Any thread may call its methods. `close`
    writes what is left.
    """

    def __init__(self, sink: BinaryIO, *, pause: float = WRITE_INTERVAL, as_text: bool = False) -> None:
        self._sink = sink
        self._format = format_text_line if as_text else format_line
        self._pause = pause
        self._waiting: deque[bytes] = deque()
        self._lost = 0
        self._wake = threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="openskills-access-log", daemon=True)
        self._thread.start()

    def on_start(self, registration: Registration, asked: InvokeRequest) -> None:
        """Not logged."""

    def on_end(self, invocation: Invocation) -> None:
        if len(self._waiting) >= MAX_PENDING:
            self._lost += 1
            return
        # Formatted here, because a thread that needs the GIL for a whole batch delays calls by milliseconds.
        self._waiting.append(self._format(invocation))
        if not self._wake.is_set():
            self._wake.set()

    def close(self) -> None:
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
        # One by one, because other threads append meanwhile.
        lines = [self._waiting.popleft() for _ in range(len(self._waiting))]
        written = len(lines)
        if lost:
            lines.append(
                orjson.dumps({"level": "WARNING", "logger": LOGGER, "message": f"{lost} lines were dropped"}) + b"\n"
            )
        if not lines:
            return
        try:
            self._sink.write(b"".join(lines))
            self._sink.flush()
        except (OSError, ValueError):
            # A closed pipe or a full disk. Invocations go on; the next batch says how many lines are missing.
            self._lost += written + lost


def format_line(invocation: Invocation) -> bytes:
    """The line with its newline; secrets of the skill are masked."""
    result, failure = invocation.result, invocation.result.outcome.failure
    message = None if failure is None else get_masker(invocation.secrets).mask_text(failure.message)
    fields = {
        "time": datetime.fromtimestamp(invocation.at, UTC).isoformat(timespec="milliseconds"),
        "level": "INFO" if failure is None or failure.code < 500 else "WARNING",
        "logger": LOGGER,
        "message": "invoked",
        "trace_id": result.trace_id,
        "skill_id": result.skill_id,
        "runner_type": None if invocation.registration is None else invocation.registration.kind,
        "latency_ms": round(result.latency_ms, 3),
        "waited_ms": None if result.waited_ms is None else round(result.waited_ms, 3),
        "ran_ms": None if result.ran_ms is None else round(result.ran_ms, 3),
        "success": failure is None,
        "error.code": None if failure is None else failure.code,
        "error.message": message,
        "principal": invocation.principal,
    }
    try:
        line = orjson.dumps(fields)
    except TypeError:
        line = b"\xff"
    # Like `JsonFormatter`: printable ASCII only, whatever a caller or a skill wrote.
    if not line.isascii() or b"\x7f" in line:
        line = json.dumps(fields, separators=(",", ":")).replace("\x7f", "\\u007f").encode()
    return line + b"\n"


def format_text_line(invocation: Invocation) -> bytes:
    """The line for a terminal: time, status, skill, latency, caller, trace id, and the error message if it failed."""
    result, failure = invocation.result, invocation.result.outcome.failure
    time = datetime.fromtimestamp(invocation.at).astimezone().strftime("%H:%M:%S")
    message = "" if failure is None else f"  {get_masker(invocation.secrets).mask_text(failure.message)}"
    who = f"{invocation.principal}  {result.trace_id}{message}"
    line = f"{time}  {failure.code if failure else 200}  {result.skill_id:<20} {result.latency_ms:>9,.1f} ms  {who}"
    return to_printable(" ".join(line.split("\n"))).encode("utf-8", "backslashreplace") + b"\n"


class HistoryObserver:
    """Records a row of the history, with secrets masked; `with_content` also stores both bodies.

    A call that has started gets a row even if this process is killed.
    """

    def __init__(self, history: History, *, with_content: bool = False) -> None:
        self._history = history
        self._with_content = with_content

    def on_start(self, registration: Registration, asked: InvokeRequest) -> None:
        if asked.run_id is not None:
            about = (registration.id, registration.version, registration.kind)
            self._history.record_start(asked.run_id, asked.trace_id, asked.principal.name, *about, len(asked.body))

    def on_end(self, invocation: Invocation) -> None:
        record = RunRecord.from_result(
            invocation.result,
            run_id=invocation.run_id or f"{id_prefix(invocation.at)}{random_hex(10)}",
            who=invocation.principal,
            runner_type="" if invocation.registration is None else invocation.registration.kind,
            began=invocation.at,
            body=invocation.request,
            bytes_out=len(invocation.body),
        )
        if invocation.secrets and record.message:
            record = record._replace(message=get_masker(invocation.secrets).mask_text(record.message))
        if self._with_content:
            record = record.with_content(invocation.request, invocation.body, invocation.secrets)
        self._history.record(record)
