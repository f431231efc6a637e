"""The variables that a hosted skill sees: documented ones, those of its manifest, and nothing of the host's. Pure.

| variable | value |
|---|---|
| `PATH`, `HOME`, `LANG` | of the place in which it runs |
| `OPENSKILL_SKILL_ID` | the id of the skill |
| `OPENSKILL_ALLOWED_ROOT` | the directory that it may read, absolute |
| `OPENSKILL_TIMEOUT_MS` | how long a call may take |
| `OPENSKILL_TRACE_ID`, `TRACEPARENT` | of this call |
"""

from collections.abc import Sequence

from openskills.host.registration import Registration
from openskills.host.runner import Call


def skill_environment(registration: Registration, *, path: Sequence[str], home: str) -> dict[str, str]:
    """What is the same for all calls of a skill. The manifest may say otherwise for everything but the skill's own."""
    root = {} if registration.allowed_root is None else {"OPENSKILL_ALLOWED_ROOT": str(registration.allowed_root)}
    return {
        "PATH": ":".join(path),
        "HOME": home,
        "LANG": "C.UTF-8",
        **registration.environment,
        "OPENSKILL_SKILL_ID": registration.id,
        "OPENSKILL_TIMEOUT_MS": str(registration.timeout_ms),
        **root,
    }


def call_environment(call: Call) -> dict[str, str]:
    """What belongs to one call."""
    parent = {} if call.traceparent is None else {"TRACEPARENT": call.traceparent}
    return {**call.secrets, "OPENSKILL_TRACE_ID": call.trace_id, **parent}
