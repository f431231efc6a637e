"""The first process of a sandbox that serves one command after the other: a keeper that leaves nothing between them.

Nothing of ours can be read there, so both come on the command line (`kept.build_supervisor_argv`). Its connection is
descriptor 0. As process 1 of its namespace it cannot be signalled from inside, is the parent of every orphan, and ends
all others with one call that no fork escapes.

    exited  as `keeper.py` says it, and `reusable`: the sandbox is as it was before the command
"""

import ctypes
import os
import resource
import signal
import time
from contextlib import suppress

from openskills.executors.programs.supervisor import SupervisedCommand, SupervisorServer, serve
from openskills.executors.programs.traces import PLACES, surroundings

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket


_PR_SET_DUMPABLE = 4
_ALL_PROCESSES = -1
_KILL_TIMEOUT = 1.0
_PAUSE = 0.0002
_MAX_COMMANDS = 1000
_SHARE_OF_TIME = 0.5


class SandboxSupervisor(SupervisorServer):
    """Serves one command at a time, and says after each whether the next may have this sandbox."""

    def __init__(self, connection: "socket.socket", wakeups: int) -> None:
        super().__init__(connection, wakeups)
        self._untouched = traces()
        self._served = 0

    def _on_exit(self, identity: int, command: SupervisedCommand, status: int, cpu_ms: int, *, alone: bool) -> None:
        del self._commands[identity]
        command.close()
        clean = alone or _kill_all()
        self._served += 1
        self._send(
            event="exited",
            id=identity,
            status=os.waitstatus_to_exitcode(status),
            was_ready=True,
            cpu_ms=cpu_ms,
            clean=clean,
            reusable=clean and self._is_unchanged(),
        )

    def _forward_signal(self, message: "dict[str, int]") -> None:
        command = self._commands.get(message["id"])
        if command is None:
            return
        # Everybody here belongs to the command, and only its first process is asked to end by itself.
        whom = _ALL_PROCESSES if message["number"] == signal.SIGKILL else command.pid
        with suppress(ProcessLookupError):
            os.kill(whom, message["number"])

    def _is_unchanged(self) -> bool:
        found = traces()
        return (
            found is not None and found == self._untouched and self._served < _MAX_COMMANDS and not _is_near_cpu_limit()
        )


def traces() -> "tuple[object, ...] | None":
    """What a command could have left for the next one to find; None when it can no longer be told."""
    try:
        return (*map(_is_empty, PLACES), *surroundings())
    except (OSError, MemoryError):
        return None


def _is_near_cpu_limit() -> bool:
    """Whether this process has used much of the processor time that it may have, as each of its commands may."""
    soft, _ = resource.getrlimit(resource.RLIMIT_CPU)
    return soft != resource.RLIM_INFINITY and time.process_time() > soft * _SHARE_OF_TIME


def _is_empty(place: str) -> bool:
    # The first name is enough: there may be as many as there is memory for.
    with os.scandir(place) as names:
        return next(names, None) is None


def _kill_all() -> bool:
    """Kill and reap all other processes of the namespace; false when some remain."""
    deadline = time.monotonic() + _KILL_TIMEOUT
    while True:
        try:
            os.kill(_ALL_PROCESSES, signal.SIGKILL)
            while os.waitpid(_ALL_PROCESSES, os.WNOHANG)[0]:
                pass
        except (ProcessLookupError, ChildProcessError):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(_PAUSE)


def serve_sandbox() -> None:
    """Be the keeper of this sandbox until the host hangs up; with us, all that runs here ends."""
    if os.getpid() != 1:
        raise SystemExit("this keeper kills all other processes, and must have a process namespace of its own")
    # Commands share its user: none of them is to look into its memory or at its descriptors.
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    serve(0, SandboxSupervisor)
