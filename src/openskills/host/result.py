"""What every invocation ends in, whatever runs the skill: the Normalized Skill Result. Pure.

Only `ok` and `failed` make an `Outcome`, and only `normalised` makes an `InvokeResult` from one, so data without
success or an error with it cannot be built.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from openskills.errors import SkillError


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
    def of(cls, error: SkillError) -> "Failure":
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


def ok(
    data: Mapping[str, Any],
    *,
    truncated: bool = False,
    version: str | None = None,
    notes: Mapping[str, Any] | None = None,
) -> Outcome:
    """A skill has done what was asked."""
    return Outcome(data, None, truncated, version, notes or {})


def failed(
    failure: Failure | SkillError, *, version: str | None = None, notes: Mapping[str, Any] | None = None
) -> Outcome:
    """A skill has not done what was asked."""
    found = Failure.of(failure) if isinstance(failure, SkillError) else failure
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

    def plain(self) -> dict[str, Any]:
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


def normalised(outcome: Outcome, *, skill_id: str, trace_id: str, latency_ms: float, version: str) -> InvokeResult:
    """The one result that callers see. What the skill says of its own version counts more than the manifest."""
    return InvokeResult(skill_id, trace_id, outcome, latency_ms, outcome.version or version)
