"""Registration, Call, Outcome, InvokeResult, Runner.

What every invocation ends in, whatever runs the skill: the Normalized Skill Result. Pure.

Only `ok` and `failed` make an `Outcome`, and only `normalised` makes an `InvokeResult` from one, so data without
success or an error with it cannot be built.

One skill that the host can invoke: its manifest, checked, with every path resolved. Pure.

How a hosted skill is called. One protocol; `runners.py` has the table from `type:runtime` to who does it.

What is wrong with a manifest and is seen only when its skill is to be called. Pure.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from openskills.errors import InvalidSkill, SkillError


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an invocation failed: a number that is also the HTTP status, a sentence, and the evidence.

    `details["reason"]` is the word that belongs to the number.
    """

    code: int
    message: str
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    retry_after: float | None = None

    @classmethod
    def from_error(cls, error: SkillError) -> "Failure":
        """The failure that an error of ours is for whoever called."""
        details = {"reason": error.reason, "retryable": error.retryable, **error.details}
        retry_after = details.pop("retry_after", None)
        return cls(error.code, error.message, details, float(str(retry_after)) if retry_after is not None else None)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a runner brings back: `data`, or `failure`. `notes` are for `meta`: what a skill said beside its answer."""

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
    """A skill has done what was asked."""
    return Outcome(data, None, truncated, version, notes or {})


def failure_outcome(
    failure: Failure | SkillError, *, version: str | None = None, notes: Mapping[str, Any] | None = None
) -> Outcome:
    """A skill has not done what was asked."""
    found = Failure.from_error(failure) if isinstance(failure, SkillError) else failure
    return Outcome(None, found, False, version, notes or {})


@dataclass(frozen=True, slots=True)
class InvokeResult:
    """The Normalized Skill Result."""

    skill_id: str
    trace_id: str
    outcome: Outcome
    latency_ms: float
    version: str

    @property
    def success(self) -> bool:
        """Whether there is data."""
        return self.outcome.failure is None

    @property
    def status(self) -> int:
        """The HTTP status that goes with it."""
        return 200 if self.outcome.failure is None else self.outcome.failure.code

    def to_dict(self) -> dict[str, Any]:
        """As the wire has it."""
        failure = self.outcome.failure
        meta: dict[str, Any] = {**self.outcome.notes, "latency_ms": round(self.latency_ms, 3), "version": self.version}
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


def normalize_outcome(
    outcome: Outcome, *, skill_id: str, trace_id: str, latency_ms: float, version: str
) -> InvokeResult:
    """The one result that callers see. What the skill says of its own version counts more than the manifest."""
    return InvokeResult(skill_id, trace_id, outcome, latency_ms, outcome.version or version)


class SkillStartMethod(StrEnum):
    """How a `cli:python` skill starts.

    `FORK` (default): a fresh process for each call, forked from a warm interpreter. `SPAWN`: a cold interpreter for
    each call. `REUSE`: one process serves many calls; quickest, and calls can see what earlier ones left in it.
    """

    FORK = "fork"
    SPAWN = "spawn"
    REUSE = "reuse"


@dataclass(frozen=True, slots=True)
class HostLimits:
    """What one invocation may use. `None` is no limit of ours."""

    output_bytes: int = 5 * 1024 * 1024
    memory_bytes: int | None = 1024 * 1024 * 1024
    processes: int | None = 64
    file_bytes: int | None = 1024 * 1024 * 1024
    cpu_seconds: int | None = None
    concurrency: int | None = None


@dataclass(frozen=True, slots=True)
class Registration:
    """A skill of the host. `kind` is `type:runtime`, or `type` alone where there is no runtime (`http`, `docker`).

    `entry` is what the runner understands: an absolute path for `cli`, a URL for `http`, an image for `docker`,
    `package.module:callable` for `inproc`. `secrets` are names; `environment` holds plain values and no secret.
    `options` are the fields of the manifest that only one kind of runner knows.
    """

    id: str
    kind: str
    entry: str
    version: str
    description: str = ""
    timeout_ms: int = 15_000
    allowed_root: Path | None = None
    writable: bool = False
    input_schema: Mapping[str, Any] | None = None
    output_schema: Mapping[str, Any] | None = None
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    secrets: tuple[str, ...] = ()
    limits: HostLimits = HostLimits()
    executor: str = "auto"
    warm: SkillStartMethod = SkillStartMethod.FORK
    preload: tuple[str, ...] = ()
    origin: Path | None = None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class SkillOutputEvent:
    """Something that a skill shows while it works. `kind` is `stdout`, `stderr`, `progress` or `artifact`."""

    kind: str
    data: Mapping[str, Any]


Listener = Callable[[SkillOutputEvent], None]


@dataclass(frozen=True, slots=True)
class Call:
    """One invocation: the input, already checked against the schema, and until when (the loop's time) it may take.

    With a `listener` the runner tells what the skill shows while it works; without one it need not.
    """

    input: Mapping[str, Any]
    trace_id: str
    deadline: float
    secrets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    listener: Listener | None = None
    traceparent: str | None = None


class SkillRunner(Protocol):
    """Calls skills of one kind. It belongs to one event loop."""

    async def prepare(self, registration: Registration) -> None:
        """Make ready for the first call: start an interpreter, look whether the entry is there.

        Raises a `SkillError` that says what is missing; the host then shows the skill as unavailable with it.
        """
        ...

    async def invoke(self, registration: Registration, call: Call) -> Outcome:
        """Call the skill once, and adapt whatever comes back.

        What the skill did wrong is an outcome with its evidence, also that it did not end before the deadline. Raises
        `SkillError` for what the host could not do. A cancelled call ends what it started before the cancellation is
        passed on.
        """
        ...

    async def forget(self, skill_id: str) -> None:
        """Give back what is kept for this skill: it was removed, or its registration has changed.

        Calls that have begun go on; what serves them is given back behind the last.
        """
        ...

    async def close(self) -> None:
        """End everything."""
        ...


class ManifestFault(InvalidSkill):
    """A field of a manifest cannot be used. Whoever called is not to blame."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.details = {"field": field}
