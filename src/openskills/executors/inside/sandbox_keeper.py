"""The first process of a sandbox that serves one command after the other: a keeper that leaves nothing between them.

Nothing of ours can be read there, so both come on the command line (`kept.keeper_argv`). Its connection is
descriptor 0. As process 1 of its namespace it cannot be signalled from inside, is the parent of every orphan, and ends
all others with one call that no fork escapes.

    exited  as `keeper.py` says it, and `reusable`: the sandbox is as it was before the command
"""

import ctypes
import os
import resource
import signal
import time

from openskills.executors.inside.keeper import Command, Keeper, serve

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket

_PR_SET_DUMPABLE = 4
_EVERYBODY = -1
_ALL_GONE_WITHIN = 1.0
_PAUSE = 0.0002
_MEMORY_FILES = ("/tmp", "/dev/shm", "/home/u")  # noqa: S108 - those of the sandbox
_SOCKETS = ("/proc/net/sockstat", "/proc/net/sockstat6")
_LIMITS = [number for name, number in vars(resource).items() if name.startswith("RLIMIT_")]
_SEMAPHORES = "/proc/sysvipc/sem"


class SandboxKeeper(Keeper):
    """Serves one command at a time, and says after each whether the next may have this sandbox."""

    def __init__(self, connection: "socket.socket", wakeups: int) -> None:
        super().__init__(connection, wakeups)
        self._untouched = traces()

    def _ended(self, identity: int, command: Command, status: int, cpu_ms: int, *, alone: bool) -> None:
        del self._commands[identity]
        command.close()
        clean = alone or _end_everybody()
        self._send(
            event="exited",
            id=identity,
            status=os.waitstatus_to_exitcode(status),
            was_ready=True,
            cpu_ms=cpu_ms,
            clean=clean,
            reusable=clean and traces() == self._untouched,
        )


def traces() -> "tuple[object, ...] | None":
    """What a command could have left for the next one to find; None when it can no longer be told."""
    try:
        return (
            *((os.listdir(place), os.stat(place).st_mode) for place in _MEMORY_FILES),
            # A port that was served stays taken for a while.
            *(_sockets_in(_text(path)) for path in _SOCKETS),
            _text(_SEMAPHORES),
            # Processes of one user may change these of each other.
            tuple(resource.getrlimit(kind) for kind in _LIMITS),
            (os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0), os.sched_getaffinity(0)),
        )
    except OSError:
        return None


def _sockets_in(text: str) -> "tuple[str, ...]":
    """The numbers of sockets in use and of those that linger; others on these lines count the whole machine."""
    words = text.split()
    return tuple(after for word, after in zip(words, words[1:]) if word in ("inuse", "tw"))  # noqa: B905, RUF007


def _text(path: str) -> str:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read().decode("ascii", "replace")
    except FileNotFoundError:
        # A kernel without IPv6 or without semaphores: nothing can be left there.
        return ""


def _end_everybody() -> bool:
    """Kill and reap all other processes of the namespace; false when some remain."""
    deadline = time.monotonic() + _ALL_GONE_WITHIN
    while True:
        try:
            os.kill(_EVERYBODY, signal.SIGKILL)
            while os.waitpid(_EVERYBODY, os.WNOHANG)[0]:
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
    serve(0, SandboxKeeper)
