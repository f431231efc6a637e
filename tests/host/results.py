"""Results of invocations, and records of them, as tests need them."""

import time

from openskills.errors import InvalidArgument, SkillError
from openskills.host.books.run_record import RunRecord, new_run_id
from openskills.host.result import InvokeResult, failed, normalised, ok


def succeeded(skill_id: str = "echo", *, latency_ms: float = 3.0, data: str = "hi") -> InvokeResult:
    """A skill has answered."""
    return normalised(
        ok({"echoed": data}), skill_id=skill_id, trace_id="trace-1", latency_ms=latency_ms, version="0.1.0"
    )


def refused(skill_id: str = "echo", *, error: SkillError | None = None) -> InvokeResult:
    """A skill has failed."""
    outcome = failed(error or InvalidArgument("text", "is missing"))
    return normalised(outcome, skill_id=skill_id, trace_id="trace-2", latency_ms=1.0, version="0.1.0")


def record(
    result: InvokeResult | None = None, *, who: str = "ci", began: float | None = None, body: bytes = b'{"input": {}}'
) -> RunRecord:
    """A row of the history."""
    at = time.time() if began is None else began
    return RunRecord.of(
        result or succeeded(),
        run_id=new_run_id(at),
        who=who,
        runner_type="cli:python",
        began=at,
        body=body,
        bytes_out=9,
    )
