"""The values of an invocation: `Registration`, `Call`, `Outcome`, `InvokeResult`, and the `SkillRunner` protocol.

Create outcomes with `success_outcome` and `failure_outcome`, and results with `normalize_outcome`: then a result has
either data or an error.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from openskills.errors import InvalidSkill, SkillError, StoreUnavailable
from openskills.executors.requests import PackageOptions
from openskills.settings import DEFAULT_TIMEOUT_MS

MAX_TRACE_ID_LENGTH = 128
_log = logging.getLogger("openskills.host")

_NOT_STORED = (
    "the skill was called, but the result is not stored yet; send the request again with the same Idempotency-Key to "
    "get the result"
)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an invocation failed: `code` is the HTTP status, and `details["reason"]` the matching word."""

    code: int
    message: str
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    retry_after: float | None = None

    @classmethod
    def from_error(cls, error: SkillError) -> "Failure":
        """The failure for an error. That of the host's database does not reveal where it is; see the log."""
        if isinstance(error, StoreUnavailable):
            _log.warning("%s", error.message)
            shown = {name: error.details[name] for name in ("retry_after", "executed") if name in error.details}
            message = "the host's database cannot be used; see the log of the host"
            if "executed" in shown:
                message = f"{_NOT_STORED}. {message[0].upper()}{message[1:]}"
            error = StoreUnavailable(message, **shown)
        details = {"reason": error.reason, "retryable": error.retryable, **error.details}
        retry_after = details.pop("retry_after", None)
        return cls(error.code, error.message, details, float(str(retry_after)) if retry_after is not None else None)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a runner returns: `data` or `failure`. `notes` are further fields of `meta`."""

    data: Mapping[str, Any] | None
    failure: Failure | None
    truncated: bool = False
    version: str | None = None
    notes: Mapping[str, Any] = field(default_factory=dict[str, Any])


def success_outcome(
    data: Mapping[str, Any],
    *,
    truncated: bool = False,
    version: str | None = None,
    notes: Mapping[str, Any] | None = None,
) -> Outcome:
    return Outcome(data, None, truncated, version, notes or {})


def failure_outcome(
    failure: Failure | SkillError, *, version: str | None = None, notes: Mapping[str, Any] | None = None
) -> Outcome:
    found = Failure.from_error(failure) if isinstance(failure, SkillError) else failure
    return Outcome(None, found, False, version, notes or {})


@dataclass(frozen=True, slots=True)
class InvokeResult:
    """The Normalized Skill Result. `waited_ms` and `ran_ms` are None if the call was not queued or not started.

    `phases` are the milliseconds of each of the `PHASES` that it went through, in their order; for the history only.
    """

    skill_id: str
    trace_id: str
    outcome: Outcome
    latency_ms: float
    version: str
    waited_ms: float | None = None
    ran_ms: float | None = None
    phases: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def success(self) -> bool:
        return self.outcome.failure is None

    @property
    def status(self) -> int:
        return 200 if self.outcome.failure is None else self.outcome.failure.code

    def to_dict(self) -> dict[str, Any]:
        failure = self.outcome.failure
        meta: dict[str, Any] = {**self.outcome.notes, "latency_ms": round(self.latency_ms, 3), "version": self.version}
        if self.waited_ms is not None:
            meta["waited_ms"] = round(self.waited_ms, 3)
        if self.ran_ms is not None:
            meta["ran_ms"] = round(self.ran_ms, 3)
        if self.outcome.truncated:
            meta["truncated"] = True
        error = None
        if failure is not None:
            error = {"code": failure.code, "message": failure.message, "details": dict(failure.details)}
        return {
            "success": failure is None,
            "skill_id": self.skill_id,
            "trace_id": self.trace_id,
            "data": self.outcome.data if failure is None else None,
            "error": error,
            "meta": meta,
        }


RESULT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "title": "Normalized Skill Result",
    "required": ["success", "skill_id", "trace_id", "data", "error", "meta"],
    "properties": {
        "success": {"type": "boolean"},
        "skill_id": {"type": "string"},
        "trace_id": {"type": "string", "maxLength": MAX_TRACE_ID_LENGTH},
        "data": {"type": ["object", "null"]},
        "error": {"oneOf": [{"$ref": "#/components/schemas/Error"}, {"type": "null"}]},
        "meta": {
            "type": "object",
            "required": ["latency_ms", "version"],
            "properties": {
                "latency_ms": {"type": "number", "minimum": 0},
                "waited_ms": {"type": "number", "minimum": 0, "description": "time in the queue of the host"},
                "ran_ms": {"type": "number", "minimum": 0, "description": "time that the skill itself took"},
                "isolation": {"type": "string", "description": "what isolated the skill: bubblewrap, none, ..."},
                "memory_bytes": {"type": "integer", "description": "the largest resident size of one of its processes"},
                "version": {"type": "string"},
                "truncated": {"type": "boolean"},
            },
        },
    },
}
"""The JSON schema of `InvokeResult.to_dict`, for OpenAPI; `Error` is a component there."""


def normalize_outcome(
    outcome: Outcome,
    *,
    skill_id: str,
    trace_id: str,
    latency_ms: float,
    version: str,
    waited_ms: float | None = None,
    ran_ms: float | None = None,
    phases: Mapping[str, float] | None = None,
) -> InvokeResult:
    """The result for callers. The version that the skill reports takes precedence over `version`."""
    return InvokeResult(
        skill_id, trace_id, outcome, latency_ms, outcome.version or version, waited_ms, ran_ms, phases or {}
    )


PHASES = ("queue", "start", "sandbox", "script", "collect")
"""The phases of an invocation: waiting for a slot, preparing, isolating, the skill itself, reading its output."""


class SkillStartMethod(StrEnum):
    """How a `cli:python` skill starts.

    `FORK` (default): a process per call, forked from a warm interpreter. `SPAWN`: a new interpreter per call. `REUSE`:
    one process serves many calls; fastest, but calls see the state that earlier ones left.
    """

    FORK = "fork"
    SPAWN = "spawn"
    REUSE = "reuse"


@dataclass(frozen=True, slots=True)
class HostLimits:
    """Resource limits of one invocation. None means no limit."""

    output_bytes: int = 5 * 1024 * 1024
    memory_bytes: int | None = 1024 * 1024 * 1024
    processes: int | None = 64
    file_bytes: int | None = 1024 * 1024 * 1024
    cpu_seconds: int | None = None
    concurrency: int | None = None


@dataclass(frozen=True, slots=True)
class Registration:
    """A skill of the host: its validated manifest, with absolute paths.

    `kind` is `type:runtime`, or `type` alone (`http`, `docker`). `entry` is an absolute path for `cli`, a URL for
    `http`, an image for `docker`, `package.module:callable` for `inproc`. `secrets` are names; `environment` has plain
    values; `network` are the hosts that the operator grants. `digest` is that of the folder of a script or program, if
    the operator pins it. `options` are fields for one kind of runner only. `derived` is set if nobody wrote the
    schemas: `help` if the arguments come from `--help`, otherwise `default`. `packages` are for scripts without a
    manifest.
    """

    id: str
    kind: str
    entry: str
    version: str
    description: str = ""
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    allowed_root: Path | None = None
    writable: bool = False
    input_schema: Mapping[str, Any] | None = None
    output_schema: Mapping[str, Any] | None = None
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    secrets: tuple[str, ...] = ()
    network: tuple[str, ...] = ()
    limits: HostLimits = HostLimits()
    executor: str = "auto"
    warm: SkillStartMethod = SkillStartMethod.FORK
    preload: tuple[str, ...] = ()
    origin: Path | None = None
    digest: str = ""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    derived: str = ""
    packages: PackageOptions = field(default_factory=PackageOptions)


@dataclass(frozen=True, slots=True)
class SkillOutputEvent:
    """An event of a running skill. `kind` is `stdout`, `stderr`, `progress` or `artifact`."""

    kind: str
    data: Mapping[str, Any]


Listener = Callable[[SkillOutputEvent], None]


@dataclass(frozen=True, slots=True)
class Call:
    """One invocation for a runner: the validated input, and the deadline as a time of the loop.

    Runners send events to the `listener`, if there is one, and `mark` when a phase begins.
    """

    input: Mapping[str, Any]
    trace_id: str
    deadline: float
    secrets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    listener: Listener | None = None
    traceparent: str | None = None
    marks: dict[str, float] = field(default_factory=dict[str, float], repr=False, compare=False)

    def mark(self, phase: str) -> None:
        """Record that one of the `PHASES` begins now."""
        self.marks[phase] = time.perf_counter()


class SkillRunner(Protocol):
    """Calls skills of one kind. Belongs to one event loop."""

    async def prepare(self, registration: Registration) -> None:
        """Prepare for the first call: start an interpreter, check that the entry exists.

        Raises a `SkillError` that says what is missing; the host then shows the skill as unavailable.
        """

    async def invoke(self, registration: Registration, call: Call) -> Outcome:
        """Call the skill once.

        Errors of the skill, including a timeout, are outcomes. Raises `SkillError` for failures of the host. A
        cancelled call kills what it started before it raises.
        """
        ...

    async def forget(self, skill_id: str) -> None:
        """Release resources of a skill that was removed or changed, after its running calls have finished."""

    async def close(self) -> None:
        """Release everything."""


class ManifestFault(InvalidSkill):
    """An unusable field of a manifest, found when the skill is prepared or called."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.details = {"field": field}
