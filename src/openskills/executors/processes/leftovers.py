"""Processes that a killed host or keeper left behind while it was making a sandbox: they run nothing, and wait.

Each has a marker on its command line that says whose it is.
"""

import os
import re
import secrets
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

VARIABLE = "OPENSKILL_RUN"

_MARKER = re.compile(
    rb"\0--setenv\0" + VARIABLE.encode() + rb"\0([0-9a-f]{1,64})\.([0-9]{1,10})\.([0-9]{1,20})\.([0-9a-f]{16})\0"
)
_START_TIME = 19
"""Place of the start time in /proc/PID/stat, counted after the name of the program."""


def new_marker() -> str:
    """A marker of this process that is like no other."""
    return f"{_here()}.{os.getpid()}.{_started(os.getpid())}.{secrets.token_hex(8)}"


def of_the_dead(marker: str) -> bool:
    """Whether the process that made this marker is gone; its number may belong to another one by now.

    Of a process in another container, whose number means nothing here, nobody can tell; nor of one that cannot be
    looked at, as when no more files can be opened.
    """
    here, pid, started, _ = marker.split(".")
    try:
        return here == _here() and _started(int(pid)) != int(started)
    except OSError:
        return False


def end_leftovers(is_one: Callable[[str], bool]) -> int:
    """Kill the processes on this machine whose marker is one of these; returns how many."""
    return sum(_end(pid, is_one) for pid in _numbers())


def _numbers() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def _end(pid: int, is_one: Callable[[str], bool]) -> bool:
    marker = _marker(pid)
    if marker is None or not is_one(marker):
        return False
    with suppress(ProcessLookupError, PermissionError):
        # By descriptor, and looked at again: meanwhile the number could have become somebody else's.
        descriptor = os.pidfd_open(pid)
        try:
            if _marker(pid) == marker:
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                return True
        finally:
            os.close(descriptor)
    return False


def _marker(pid: int) -> str | None:
    try:
        match = _MARKER.search(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return None
    return b".".join(match.groups()).decode("ascii") if match else None


def _here() -> str:
    """Where numbers of processes mean what they mean to us: this boot of the machine, this table of processes."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").replace("-", "").strip()
    return f"{boot}{os.stat('/proc/self/ns/pid').st_ino:x}"


def _started(pid: int) -> int:
    """When a process has begun; -1 when there is none."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[_START_TIME])
    except (FileNotFoundError, ProcessLookupError):
        return -1
