"""What one start of the host is told beside its settings. A value that can be handed to worker processes."""

from dataclasses import dataclass
from pathlib import Path

from openskills.host.wire.bodies import SECONDS
from openskills.host.wire.sse import PING_SECONDS

GRACE = 30.0


@dataclass(frozen=True, slots=True)
class HostOptions:
    """`manifests` and `skills` are more directories with manifests and with SKILL.md folders.

    `json_log` is where a line for each invocation goes: a file, `-` for stdout, empty for nowhere. `workers` is how
    many processes share the limits and, in `numbers`, their metrics; `supervisor` is the process that they end with.
    `grace` is how many seconds running invocations get when the host is told to end. `watch` looks at the manifests
    for changes.
    """

    manifests: tuple[Path, ...] = ()
    skills: tuple[Path, ...] = ()
    json_log: str = "-"
    workers: int = 1
    numbers: Path | None = None
    supervisor: int | None = None
    grace: float = GRACE
    watch: bool = True
    body_seconds: float = SECONDS
    ping_seconds: float = PING_SECONDS
