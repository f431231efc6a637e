"""Results of invocations, and records of them, as tests need them."""

import time

from openskills.errors import InvalidArgument, SkillError
from openskills.host.history import RunRecord, new_run_id
from openskills.host.model import InvokeResult, failure_outcome, normalize_outcome, success_outcome


def succeeded(skill_id: str = "echo", *, latency_ms: float = 3.0, data: str = "hi") -> InvokeResult:
    """A skill has answered."""
    return normalize_outcome(
        success_outcome({"echoed": data}), skill_id=skill_id, trace_id="trace-1", latency_ms=latency_ms, version="0.1.0"
    )


def refused(skill_id: str = "echo", *, error: SkillError | None = None) -> InvokeResult:
    """A skill has failed."""
    outcome = failure_outcome(error or InvalidArgument("text", "is missing"))
    return normalize_outcome(outcome, skill_id=skill_id, trace_id="trace-2", latency_ms=1.0, version="0.1.0")


def record(
    result: InvokeResult | None = None, *, who: str = "ci", began: float | None = None, body: bytes = b'{"input": {}}'
) -> RunRecord:
    """A row of the history."""
    at = time.time() if began is None else began
    return RunRecord.from_result(
        result or succeeded(),
        run_id=new_run_id(at),
        who=who,
        runner_type="cli:python",
        began=at,
        body=body,
        bytes_out=9,
    )
