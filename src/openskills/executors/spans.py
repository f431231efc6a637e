"""Telemetry of runs: which program ran, how it ended, how much it wrote.

The command line and the directory are content: they are recorded only if the application allows it, with secrets
masked.
"""

import asyncio
import re
from collections.abc import Generator
from contextlib import contextmanager

from openskills.errors import CommandDenied
from openskills.executors.records.audit import AuditRun
from openskills.executors.spec import CommandResult, EndReason
from openskills.telemetry.mask import get_masker
from openskills.telemetry.metrics import count
from openskills.telemetry.spans import Span, span
from openskills.telemetry.values import error_type

BYTES = "openskills.workspace.bytes"
"""Counts bytes into and out of workspaces, by `flow`."""

# Other words may be an assignment, quoted text or part of a secret.
_PLAIN = re.compile(r"\s*([A-Za-z0-9_./+-]{1,64})(?:\s|$)")


class WatchedRun:
    """A run that has begun. Its end is counted once."""

    __slots__ = ("_ended", "_run", "_span")

    def __init__(self, run: AuditRun, watched: Span) -> None:
        self._run = run
        self._span = watched
        self._ended = False

    def record_end(self, how: CommandResult) -> None:
        """Record the result. A failed command is not an error of ours."""
        if self._ended:
            return
        self._span.set(
            {
                "process.exit.code": how.exit_code,
                "workspace.run.cpu_ms": how.cpu_ms,
                "workspace.run.stdout_bytes": how.stdout.total,
                "workspace.run.stderr_bytes": how.stderr.total,
            }
        )
        self._end(how.ending)
        count(BYTES, how.stdout.total + how.stderr.total, flow="printed")

    def record_cancellation(self) -> None:
        """Record that it was killed during its start. It may have run, and its result is unknown."""
        self._end(EndReason.KILLED)

    def _end(self, ending: EndReason) -> None:
        self._ended = True
        timed_out = ending is EndReason.TIMED_OUT
        self._span.set({"workspace.run.ending": str(ending), "workspace.run.timed_out": timed_out})
        self._span.end()
        count("openskills.run.ended", ending=str(ending), isolation=str(self._run.isolation))


@contextmanager
def watch_run(run: AuditRun, wanted: str | tuple[str, ...]) -> Generator[WatchedRun]:
    """The span of a run, for the block that starts it. It continues until `record_end`, unless the block fails.

    A cancelled block counts as a run, because the command may have started already.
    """
    command = run.command
    # That bash runs a text says nothing, so its first word is recorded too.
    masker = get_masker(command.secrets)
    program = _PLAIN.match(wanted if isinstance(wanted, str) else wanted[0])
    attributes = {
        "gen_ai.skill.name": command.skill,
        "process.executable.name": masker.mask_text(_base(command.argv[0])),
        "workspace.run.program": masker.mask_text(_base(program[1])) if program else None,
        "workspace.run.id": run.id,
        "workspace.run.interactive": command.input_open or command.terminal is not None,
        "workspace.run.timeout": command.limits.timeout,
        "workspace.run.digest": run.digest or None,
        "workspace.isolation": str(run.isolation),
    }
    running = span("workspace.run", attributes)
    if running.can_show:
        shown = {"process.command_args": command.argv, "process.working_directory": command.cwd}
        running.show(masker.mask_json(shown))
    watched = WatchedRun(run, running)
    try:
        yield watched
    except asyncio.CancelledError:
        watched.record_cancellation()
        raise
    except BaseException as error:
        running.record_error(error)
        running.end()
        raise


def count_refusal(error: BaseException) -> None:
    """Count a run that did not start a command, unless it was cancelled."""
    if isinstance(error, asyncio.CancelledError):
        return
    if isinstance(error, CommandDenied):
        count("openskills.run.denials")
    count("openskills.run.refusals", reason=error_type(error))


def _base(path: str) -> str:
    return path.rpartition("/")[2]
