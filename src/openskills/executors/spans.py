"""What is told about runs to those who watch: who ran which program, how it ended, how much it wrote.

The command line, the directory and what it wrote are content: they are told only where the application allows it, and
even then without secrets.
"""

import asyncio
import re
from collections.abc import Generator
from contextlib import contextmanager

from openskills.errors import CommandDenied
from openskills.executors.environment import redact
from openskills.executors.records.audit import AuditRun
from openskills.executors.spec import Command, CommandResult, EndReason
from openskills.telemetry.metrics import count
from openskills.telemetry.spans import Span, span
from openskills.telemetry.values import error_type

BYTES = "openskills.workspace.bytes"
"""Counts what goes in and out of workspaces, by `flow`."""

# A word with anything else in it may be an assignment, a quoted text, half a secret.
_PLAIN = re.compile(r"\s*([A-Za-z0-9_./+-]{1,64})(?:\s|$)")


class WatchedRun:
    """A run that has begun; `ended` is told once, and what is told later is not counted again."""

    __slots__ = ("_ended", "_run", "_span")

    def __init__(self, run: AuditRun, watched: Span) -> None:
        self._run = run
        self._span = watched
        self._ended = False

    def ended(self, how: CommandResult) -> None:
        """Tell how it ended. A command that failed is no error of ours."""
        if self._ended:
            return
        self._ended = True
        self._span.set(
            {
                "process.exit.code": how.exit_code,
                "workspace.run.ending": str(how.ending),
                "workspace.run.timed_out": how.ending is EndReason.TIMED_OUT,
                "workspace.run.cpu_ms": how.cpu_ms,
                "workspace.run.stdout_bytes": how.stdout.total,
                "workspace.run.stderr_bytes": how.stderr.total,
            }
        )
        self._span.end()
        self._counted(how.ending)
        count(BYTES, how.stdout.total + how.stderr.total, flow="printed")

    def cancelled(self) -> None:
        """Tell that it was ended while it was started: it may have run already, and nobody has seen how it ended."""
        self._ended = True
        self._span.set({"workspace.run.ending": str(EndReason.KILLED), "workspace.run.timed_out": False})
        self._span.end()
        self._counted(EndReason.KILLED)

    def _counted(self, ending: EndReason) -> None:
        count("openskills.run.ended", ending=str(ending), isolation=str(self._run.isolation))


@contextmanager
def starting(run: AuditRun, wanted: str | tuple[str, ...]) -> Generator[WatchedRun]:
    """The span of a run, for the block that starts it. It goes on until `ended`, unless the block fails.

    A block that is cancelled has begun a run: whoever starts a command ends it then, and the command may have been at
    work before its start was known here.
    """
    command = run.command
    running = span("workspace.run", _known(run, wanted))
    if running.can_show:
        arguments = [redact(argument, command.secrets) for argument in command.argv]
        running.show({"process.command_args": arguments, "process.working_directory": command.cwd})
    watched = WatchedRun(run, running)
    try:
        yield watched
    except asyncio.CancelledError:
        watched.cancelled()
        raise
    except BaseException as error:
        running.record_error(error)
        running.end()
        raise


def refused(error: BaseException) -> None:
    """Count a run that never came to a command. One that somebody has called off was not refused."""
    if isinstance(error, asyncio.CancelledError):
        return
    if isinstance(error, CommandDenied):
        count("openskills.run.denials")
    count("openskills.run.refusals", reason=error_type(error))


def _known(run: AuditRun, wanted: str | tuple[str, ...]) -> dict[str, str | bool | float | None]:
    command = run.command
    return {
        "gen_ai.skill.name": command.skill,
        "process.executable.name": redact(_base(command.argv[0]), command.secrets),
        "workspace.run.program": _program(wanted, command),
        "workspace.run.id": run.id,
        "workspace.run.interactive": command.input_open or command.terminal is not None,
        "workspace.run.timeout": command.limits.timeout,
        "workspace.run.digest": run.digest or None,
        "workspace.isolation": str(run.isolation),
    }


def _program(wanted: str | tuple[str, ...], command: Command) -> str | None:
    """What a text for the shell begins with: that everything is run by bash says nothing."""
    found = _PLAIN.match(wanted if isinstance(wanted, str) else wanted[0])
    return redact(_base(found[1]), command.secrets) if found else None


def _base(path: str) -> str:
    return path.rpartition("/")[2]
