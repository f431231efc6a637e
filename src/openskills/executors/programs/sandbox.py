"""Process 1 of a reusable sandbox: a supervisor that runs one command after the other and leaves nothing in between.

Our files are not visible there, so its program comes from the host (`reuse.load_supervisor_program`). Its connection is
descriptor 0. As process 1 of its namespace it cannot be signalled from inside, adopts all orphans, and kills all others
with one call that no fork can escape.

    exited  as in `supervisor.py`, and `reusable`: the sandbox is as it was before the command
"""

import ctypes
import os
import resource
import signal
import time
from contextlib import suppress

from openskills.executors.programs.supervisor import SupervisedCommand, SupervisorServer, serve
from openskills.executors.programs.traces import Traces

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
    """Runs one command at a time, and reports after each whether the sandbox can be reused."""

    def __init__(self, connection: "socket.socket", wakeups: int) -> None:
        super().__init__(connection, wakeups)
        self._traces = Traces(None)
        self._served = 0

    def _on_exit(
        self, identity: int, command: SupervisedCommand, status: int, used: "dict[str, int]", *, alone: bool
    ) -> None:
        del self._commands[identity]
        command.close()
        clean = alone or _kill_all()
        self._served += 1
        self._send(
            event="exited",
            id=identity,
            status=os.waitstatus_to_exitcode(status),
            was_ready=True,
            clean=clean,
            reusable=clean and self._is_unchanged(),
            **used,
        )

    def _forward_signal(self, message: "dict[str, int]") -> None:
        command = self._commands.get(message["id"])
        if command is None:
            return
        # All processes here belong to the command; only its first one gets a chance to exit by itself.
        whom = _ALL_PROCESSES if message["number"] == signal.SIGKILL else command.pid
        with suppress(ProcessLookupError):
            os.kill(whom, message["number"])

    def _is_unchanged(self) -> bool:
        if self._served >= _MAX_COMMANDS or not self._traces.undone():
            return False
        # The CPU time limit of a command also applies to this process.
        soft, _ = resource.getrlimit(resource.RLIMIT_CPU)
        return soft == resource.RLIM_INFINITY or time.process_time() <= soft * _SHARE_OF_TIME


def _kill_all() -> bool:
    """Kill and reap all other processes of the namespace; false if some remain."""
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
    """Be the supervisor of this sandbox until the host disconnects; everything here ends with us."""
    if os.getpid() != 1:
        raise SystemExit("this program kills all other processes and must run in its own pid namespace")
    # Commands share its user: they must not be able to read its memory or descriptors.
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    serve(0, SandboxSupervisor)
