"""Ways to outlive the command: each leaves a process behind that has a marker among its arguments.

`python -m tests.hostile.probes.staying MARKER [stay]` starts all of them, says how many, and ends, or stays.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

_SECONDS = "300"
_PR_SET_NAME, _PR_SET_CHILD_SUBREAPER, _PR_SET_PDEATHSIG = 15, 36, 1
_RESPAWN = """
import os, sys, time
while True:
    if os.fork() == 0:
        os.setsid()
        time.sleep(0.2)
    else:
        os.wait()
"""


def _sleep(marker: str) -> list[str]:
    return ["bash", "-c", f'exec -a "$0" sleep {_SECONDS}', marker]


def _prctl(what: int, value: object) -> None:
    ctypes.CDLL(None).prctl(what, value, 0, 0, 0)


def _forked(work: Callable[[], None]) -> None:
    """Do something in a new process, that comes back never."""
    if os.fork() == 0:
        try:
            work()
        finally:
            os._exit(1)


def _become(marker: str) -> None:
    os.execvp("bash", _sleep(marker))


def background(marker: str) -> None:
    """An ordinary background job."""
    subprocess.Popen(_sleep(marker), start_new_session=False)


def quiet(marker: str) -> None:
    """A background job that has nothing to do with the streams of the command."""
    nothing = subprocess.DEVNULL
    subprocess.Popen(_sleep(marker), stdin=nothing, stdout=nothing, stderr=nothing)


def by_shell(marker: str) -> None:
    """What a shell calls disowned."""
    script = 'nohup "$@" >/dev/null 2>&1 & disown'
    subprocess.run(["bash", "-c", script, "bash", *_sleep(marker)], check=True)


def session(marker: str) -> None:
    """A session of its own."""
    subprocess.Popen(_sleep(marker), start_new_session=True)


def daemon(marker: str) -> None:
    """A session of its own, with a parent that has gone, holding nothing open."""

    def first() -> None:
        os.setsid()
        _forked(lambda: (os.closerange(0, 256), os.chdir("/"), _become(marker)))  # type: ignore[func-returns-value]
        os._exit(0)

    _forked(first)


def deaf(marker: str) -> None:
    """Ignores whatever can be ignored."""

    def work() -> None:
        os.setsid()
        for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
            signal.signal(number, signal.SIG_IGN)
        _become(marker)

    _forked(work)


def stopped(marker: str) -> None:
    """Does not run at all, until somebody continues it."""
    process = subprocess.Popen(_sleep(marker), start_new_session=True)
    os.kill(process.pid, signal.SIGSTOP)


def untied(marker: str) -> None:
    """Takes back that it is to die with its parent, and its name."""

    def work() -> None:
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, 0)
        _prctl(_PR_SET_NAME, b"kworker/0:1")
        _become(marker)

    _forked(work)


def adopting(marker: str) -> None:
    """Adopts the orphans of its descendants itself."""

    def work() -> None:
        os.setsid()
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        _forked(lambda: _forked(lambda: _become(marker)))
        _become(marker)

    _forked(work)


def respawning(marker: str) -> None:
    """Starts itself again whenever it ends."""
    subprocess.Popen([sys.executable, "-c", _RESPAWN, marker], start_new_session=True)


WAYS = (background, quiet, by_shell, session, daemon, deaf, stopped, untied, adopting, respawning)


def main(marker: str, *more: str) -> None:
    """Start all of them."""
    for way in WAYS:
        way(f"{marker}-{way.__name__}")
    time.sleep(0.5)
    sys.stdout.write(f"{len(WAYS)} stay\n")
    sys.stdout.flush()
    if more:
        time.sleep(float(_SECONDS))
    # Not the usual end, which would look after children.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
