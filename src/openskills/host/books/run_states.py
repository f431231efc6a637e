"""A run that goes on while nobody waits for it: what is known of it, and what it shows. Pure."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import orjson

from openskills.errors import SkillError
from openskills.host.result import InvokeResult, failed, normalised
from openskills.host.wire.answers import wire_form


class RunState(StrEnum):
    """`QUEUED` waits for a place, `RUNNING` has shown something; the others are ends.

    `INTERRUPTED`: the process that ran it has ended, and nobody knows how far it got.
    """

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class Run:
    """One run. Times are in seconds since 1970. `cut` is how many bytes of its output were not kept.

    `result` is the Normalized Skill Result as JSON, and `status` its HTTP status; both are there when it has `ended`.
    """

    id: str
    principal: str
    skill_id: str
    trace_id: str
    version: str
    state: RunState
    worker: str
    created: float
    started: float | None = None
    ended: float | None = None
    cancel: bool = False
    cut: int = 0
    status: int | None = None
    result: bytes | None = field(default=None, repr=False)

    def plain(self) -> dict[str, Any]:
        """As the wire has it."""
        return {
            "id": self.id,
            "state": self.state.value,
            "skill_id": self.skill_id,
            "trace_id": self.trace_id,
            "version": self.version,
            "created": _time(self.created),
            "started": _time(self.started),
            "ended": _time(self.ended),
            "cancel_requested": self.cancel,
            "cut_bytes": self.cut,
            "result": None if self.result is None else orjson.Fragment(self.result),
        }


@dataclass(frozen=True, slots=True)
class RunEvent:
    """Something that a run has shown; `data` is JSON. Ids grow by one. The last is of the kind `result`.

    `kind` is one of `start`, `stdout`, `stderr`, `progress`, `artifact`, `cut`, `result`.
    """

    id: int
    kind: str
    at: float
    data: bytes


def ended(run: Run, state: RunState, result: InvokeResult, now: float, *, cut: int = 0) -> Run:
    """The run at its end."""
    said, body = wire_form(result)
    return replace(run, state=state, ended=now, status=said.status, result=body, cut=cut)


def without_result(run: Run, error: SkillError, now: float) -> InvokeResult:
    """The result of a run that came to none by itself."""
    return normalised(
        failed(error),
        skill_id=run.skill_id,
        trace_id=run.trace_id,
        latency_ms=max(now - run.created, 0.0) * 1000.0,
        version=run.version,
    )


def _time(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
