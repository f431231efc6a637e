"""Audit log of commands: append-only, one JSON object per line. Blocking.

A run has a line for its start and one for its end, with the same `run`; without the second, a crash interrupted it.
`trace_id` is that of the surrounding spans and log lines, empty outside of any. Ignore empty lines, and lines that a
full disk cut short.
"""

import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from openskills.executors.files.descriptors import auto_close
from openskills.executors.spec import Command, CommandResult, Isolation
from openskills.filesystem import lock_file
from openskills.telemetry.context import trace_id
from openskills.telemetry.mask import get_masker

MAX_BYTES = 64 * 1024 * 1024
KEEP = 5
"""A log of `MAX_BYTES` is rotated to `audit.jsonl.1`; this many rotated logs are kept."""

_MAX_TEXT, _MAX_ITEMS = 4096, 200
# ASCII only: no name can start a new line or contain terminal escapes.
_JSON = json.JSONEncoder(separators=(",", ":"), default=str)
_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AuditSubject:
    """On whose behalf a command runs; unknown fields are empty."""

    app: str = ""
    user: str = ""
    session: str = ""
    agent: str = ""


@dataclass(frozen=True, slots=True)
class AuditRun:
    """What is known about a run before it starts. Both of its lines have `id`."""

    id: str
    who: AuditSubject
    command: Command
    isolation: Isolation
    digest: str = ""
    request_id: str = ""


def build_start_record(run: AuditRun) -> dict[str, object]:
    """The record for the start of a run, with the names of variables and secrets but not their values."""
    command = run.command
    masker = get_masker(command.secrets)
    return {
        "event": "begin",
        "run": run.id,
        "request_id": run.request_id,
        **asdict(run.who),
        "skill": command.skill,
        "digest": run.digest,
        "argv": masker.mask_json(command.argv),
        "cwd": masker.mask_text(command.cwd),
        "env": sorted(command.env),
        "secrets": sorted(command.secrets),
        "network": list(command.network),
        "isolation": str(run.isolation),
    }


def build_end_record(run: AuditRun, ended: CommandResult, artifacts: Sequence[str] = ()) -> dict[str, object]:
    """The record for the end of a run, with the names of its artifacts."""
    masker = get_masker(run.command.secrets)
    return {
        "event": "end",
        "run": run.id,
        "request_id": run.request_id,
        **asdict(run.who),
        "skill": run.command.skill,
        "exit_code": ended.exit_code,
        "ending": str(ended.ending),
        "detail": masker.mask_text(ended.detail),
        "duration_ms": ended.duration_ms,
        "cpu_ms": ended.cpu_ms,
        "memory_bytes": ended.memory_bytes,
        "stdout_bytes": ended.stdout.total,
        "stderr_bytes": ended.stderr.total,
        "artifacts": masker.mask_json(artifacts),
        "isolation": str(run.isolation),
    }


def build_failure_record(run: AuditRun, reason: str) -> dict[str, object]:
    """The record for a run that did not start: denied, or the executor was unavailable."""
    detail = get_masker(run.command.secrets).mask_text(reason)
    return {**build_start_record(run), "event": "fail", "detail": detail}


class AuditLog:
    """The log at a path. Any number of processes may write to it at once.

    Disk errors do not fail a run: `report` is called once until writing works again. By default it logs a warning.
    """

    def __init__(
        self, path: Path, *, report: Callable[[str], None] | None = None, max_bytes: int = MAX_BYTES, keep: int = KEEP
    ) -> None:
        self._path = path
        self._report = report or _LOGGER.warning
        self._max_bytes = max_bytes
        self._keep = keep
        self._failing = False

    def write(self, record: Mapping[str, object]) -> bool:
        """Append one line atomically, with the time and the trace id; long texts and lists are truncated.

        Returns false if writing failed, which was reported.
        """
        fields = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "trace_id": trace_id(), **record}
        text = _JSON.encode(fields)
        if len(text) > _MAX_TEXT:
            text = _JSON.encode(_truncate_value(fields))
        line = text.encode() + b"\n"
        try:
            self._append(line)
        except OSError as error:
            if not self._failing:
                self._failing = True
                what = error.strerror or str(error)
                self._report(f"cannot write the audit log {self._path}: {what}; commands run without it")
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
        with auto_close(descriptor):
            size = os.fstat(descriptor).st_size
            # A full disk may have cut the last line short.
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                line = b"\n" + line
            written = os.write(descriptor, line)
        if written != len(line):
            raise OSError(f"only {written} of {len(line)} bytes could be written")
        if size + written > self._max_bytes:
            self._rotate()

    def _rotate(self) -> None:
        # Another process may have rotated it. Processes with the old file open still write their line there.
        with lock_file(_sibling_path(self._path, "lock")), suppress(FileNotFoundError):
            if self._path.stat().st_size <= self._max_bytes:
                return
            for number in range(self._keep - 1, 0, -1):
                with suppress(FileNotFoundError):
                    os.replace(_sibling_path(self._path, number), _sibling_path(self._path, number + 1))
            os.replace(self._path, _sibling_path(self._path, 1))


def _sibling_path(path: Path, what: int | str) -> Path:
    return path.with_name(f"{path.name}.{what}")


def _truncate_value(value: object) -> object:
    """The value with long texts and lists truncated."""
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
