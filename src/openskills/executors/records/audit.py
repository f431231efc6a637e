"""Who ran what, and how it ended: a log that is only ever added to, one JSON object on each line. Blocking.

A run leaves a line when it begins and one when it ends, with the same `run`; where the second is missing, a crash
interrupted it. `trace_id` is that of the work which it was part of, as spans and lines of the log have it, and empty
outside of any. An empty line means nothing, and neither does one that a full disk cut short.
"""

import fcntl
import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from openskills.executors.environment import redact
from openskills.executors.spec import Command, CommandResult, Isolation
from openskills.telemetry.context import trace_id

MAX_BYTES = 64 * 1024 * 1024
KEEP = 5
"""When the log is this long it becomes `audit.jsonl.1`, and the oldest of so many goes."""

_MAX_TEXT, _MAX_ITEMS = 4096, 200
# ASCII only: nothing in a name can begin a line, or move the cursor of who looks at the file.
_JSON = json.JSONEncoder(separators=(",", ":"), default=str)
_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AuditSubject:
    """On whose behalf a command is run; what is not known is empty."""

    app: str = ""
    user: str = ""
    session: str = ""
    agent: str = ""


@dataclass(frozen=True, slots=True)
class AuditRun:
    """What is known about a run before it begins. `id` ties its two lines together."""

    id: str
    who: AuditSubject
    command: Command
    isolation: Isolation
    digest: str = ""
    request_id: str = ""


def build_start_record(run: AuditRun) -> dict[str, object]:
    """The line for a run that is about to begin. It has the names of variables and of secrets, and no value of them."""
    command = run.command
    return {
        "event": "begin",
        "run": run.id,
        "request_id": run.request_id,
        **asdict(run.who),
        "skill": command.skill,
        "digest": run.digest,
        "argv": [redact(argument, command.secrets) for argument in command.argv],
        "cwd": command.cwd,
        "env": sorted(command.env),
        "secrets": sorted(command.secrets),
        "network": list(command.network),
        "isolation": str(run.isolation),
    }


def build_end_record(run: AuditRun, ended: CommandResult, artifacts: Sequence[str] = ()) -> dict[str, object]:
    """The line for a run that has ended, with the names of the artifacts that were kept of it."""
    return {
        "event": "end",
        "run": run.id,
        "request_id": run.request_id,
        **asdict(run.who),
        "skill": run.command.skill,
        "exit_code": ended.exit_code,
        "ending": str(ended.ending),
        "detail": redact(ended.detail, run.command.secrets),
        "duration_ms": ended.duration_ms,
        "cpu_ms": ended.cpu_ms,
        "stdout_bytes": ended.stdout.total,
        "stderr_bytes": ended.stderr.total,
        "artifacts": list(artifacts),
        "isolation": str(run.isolation),
    }


def build_failure_record(run: AuditRun, reason: str) -> dict[str, object]:
    """The line for a run that never came to a command: denied, or the executor could not be used."""
    detail = redact(reason, run.command.secrets)
    return {**build_start_record(run), "event": "fail", "detail": detail}


class AuditLog:
    """The log at a path. Any number of processes may write to it at once.

    A disk that fails must not fail a run: `report` is told, once until writing works again. Without it, that is a
    warning in the log of the program.
    """

    def __init__(
        self,
        path: Path,
        *,
        report: Callable[[str], None] | None = None,
        max_bytes: int = MAX_BYTES,
        keep: int = KEEP,
    ) -> None:
        self._path = path
        self._report = report or _LOGGER.warning
        self._max_bytes = max_bytes
        self._keep = keep
        self._failing = False

    def write(self, record: Mapping[str, object]) -> bool:
        """Add one line, with the time and the trace id, in one step.

        False when that is not possible, which was reported. Long texts and lists are cut, and say so.
        """
        fields = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "trace_id": trace_id(), **record}
        text = _JSON.encode(fields)
        if len(text) > _MAX_TEXT:
            text = _JSON.encode(_truncate_value(fields))
        line = text.encode() + b"\n"
        try:
            self._append(line)
        except OSError as error:
            self._report_failure(error)
            return False
        self._failing = False
        return True

    def _append(self, line: bytes) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(self._path, flags, 0o600)
        except FileNotFoundError:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self._path, flags, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            # A disk that was full may have taken only the beginning of the last line.
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                line = b"\n" + line
            written = os.write(descriptor, line)
        finally:
            os.close(descriptor)
        if written != len(line):
            raise OSError(f"only {written} of {len(line)} bytes could be written")
        if size + written > self._max_bytes:
            self._rotate()

    def _rotate(self) -> None:
        descriptor = os.open(_sibling_path(self._path, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # Another process may have done it meanwhile. Who has the old file open still writes its line there.
            if _read_size(self._path) > self._max_bytes:
                for number in range(self._keep - 1, 0, -1):
                    with suppress(FileNotFoundError):
                        os.replace(_sibling_path(self._path, number), _sibling_path(self._path, number + 1))
                os.replace(self._path, _sibling_path(self._path, 1))
        finally:
            os.close(descriptor)

    def _report_failure(self, error: OSError) -> None:
        if not self._failing:
            self._failing = True
            what = error.strerror or str(error)
            self._report(f"the audit log {self._path} cannot be written: {what}; commands are run without it")


def _read_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _sibling_path(path: Path, what: int | str) -> Path:
    return path.with_name(f"{path.name}.{what}")


def _truncate_value(value: object) -> object:
    """The same value with long texts and lists cut, so that a line stays a line."""
    if isinstance(value, str):
        if len(value) <= _MAX_TEXT:
            return value
        return f"{value[:_MAX_TEXT]}[... {len(value) - _MAX_TEXT:,} more characters]"
    if isinstance(value, Mapping):
        return {str(key): _truncate_value(item) for key, item in cast("Mapping[object, object]", value).items()}
    if isinstance(value, list | tuple):
        items = cast("Sequence[object]", value)
        more = [f"[... {len(items) - _MAX_ITEMS:,} more]"] if len(items) > _MAX_ITEMS else []
        return [*map(_truncate_value, items[:_MAX_ITEMS]), *more]
    return value
