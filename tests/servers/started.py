"""A server program that a test starts and ends: on a port of its own, in a directory of its own, as its child."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

STARTS_WITHIN = 60
ENDS_WITHIN = 30


class Started:
    """A running server. `ready` says whether it answers."""

    def __init__(self, command: Sequence[str], log: Path, ready: Callable[[], bool]) -> None:
        self._command = command
        self._log = log
        self._ready = ready
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, again if it has ended, and wait until it answers."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + STARTS_WITHIN
        while not self._ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.end(signal.SIGKILL)
                raise RuntimeError(
                    f"{self._command[0]} did not start:\n{self._log.read_text(errors='replace')[-3000:]}"
                )
            time.sleep(0.02)

    def end(self, with_signal: signal.Signals) -> None:
        """End it with a signal, and wait until it has ended."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(with_signal)
            process.wait(ENDS_WITHIN)


@contextmanager
def own_directory(name: str, *, owner: tuple[int, int] | None = None) -> Generator[Path]:
    """A directory that another user can reach, too, and that is gone afterwards."""
    # Not below pytest's own, which nobody but its user may enter; and short, because sockets lie in it.
    directory = Path(tempfile.mkdtemp(prefix=f"openskills-{name}-"))
    try:
        if owner is not None:
            os.chown(directory, *owner)
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def free_port() -> int:
    """A port that nobody uses just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(port: int) -> bool:
    """Whether somebody takes connections at a port."""
    with socket.socket() as probe:
        probe.settimeout(5)
        return probe.connect_ex(("127.0.0.1", port)) == 0
