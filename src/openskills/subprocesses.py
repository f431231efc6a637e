"""The only module that starts child processes."""

import os
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NoReturn

from openskills.errors import DeadlineExceeded, InvalidArgument, LimitExceeded

_CHUNK = 65536
_POLL_INTERVAL = 0.05
# As often as it takes to empty the largest pipe.
_FINAL_POLLS = 16


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """A command that ended by itself; a negative `returncode` is the signal that ended it."""

    returncode: int
    stdout: bytes
    stderr: bytes


def run_program(
    argv: Sequence[str],
    *,
    environment: Mapping[str, str],
    cwd: Path,
    timeout: float,
    max_output: int,
) -> ProcessResult:
    """Run a program to its end, without a shell, with no input and with `environment` only.

    `max_output` bounds stdout and stderr together. Raises `DeadlineExceeded` after `timeout` seconds, `LimitExceeded`
    for more output, `InvalidArgument` when the program cannot be started. Whatever the outcome, nothing that stayed
    in the program's process group outlives the call, and a descendant that keeps a pipe open does not delay it.
    """
    deadline = time.monotonic() + timeout
    process = _start(argv, environment, cwd)
    try:
        stdout, stderr = _drain(process, deadline, max_output)
        process.wait(max(deadline - time.monotonic(), 0))
    except (TimeoutError, subprocess.TimeoutExpired):
        raise DeadlineExceeded(f"{argv[0]} did not end within {timeout:g} seconds and was stopped") from None
    except OverflowError:
        raise LimitExceeded(f"{argv[0]} wrote more than {max_output:,} bytes and was stopped") from None
    finally:
        _kill_group(process)
    return ProcessResult(process.returncode, stdout, stderr)


def _start(argv: Sequence[str], environment: Mapping[str, str], cwd: Path) -> subprocess.Popen[bytes]:
    if not argv:
        raise InvalidArgument("argv", "is empty; its first item is the program")
    try:
        return subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=dict(environment),
            start_new_session=True,
        )
    except FileNotFoundError:
        missing = f"the directory {cwd}" if not cwd.is_dir() else f"the program {argv[0]!r}"
        raise InvalidArgument("argv", f"{missing} does not exist; install it or correct the path") from None
    except (OSError, ValueError) as error:
        raise InvalidArgument("argv", f"cannot start {argv[0]!r}: {error}") from None


def _drain(process: subprocess.Popen[bytes], deadline: float, max_output: int) -> tuple[bytes, bytes]:
    """Both outputs, up to the end of the pipes or of the process; raises TimeoutError or OverflowError."""
    outputs = (bytearray(), bytearray())
    looks_left = _FINAL_POLLS
    with selectors.DefaultSelector() as selector:
        for pipe, output in zip(_pipes(process), outputs, strict=True):
            selector.register(pipe, selectors.EVENT_READ, output)
        while selector.get_map():
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise TimeoutError
            # Asked before the pipes are looked at: what it wrote last is in them by then.
            gone = process.poll() is not None
            ready = selector.select(min(remaining, _POLL_INTERVAL))
            for key, _ in ready:
                chunk = os.read(key.fd, _CHUNK)
                key.data.extend(chunk)
                if not chunk:
                    selector.unregister(key.fileobj)
            if sum(map(len, outputs)) > max_output:
                raise OverflowError
            looks_left -= gone
            # The program is gone, and the pipes are dry or full of other words: only descendants hold them open.
            if gone and not (ready and looks_left):
                break
    return bytes(outputs[0]), bytes(outputs[1])


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], ...]:
    return tuple(pipe for pipe in (process.stdout, process.stderr) if pipe)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    # The child leads its own group, so what it left in the background goes with it. When nobody is left there is
    # nothing to do; macOS says EPERM for a group of zombies.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in _pipes(process):
        pipe.close()


class HelperProcess:
    """A program of ours that runs beside this process, at the other end of `connection`.

    It must end by itself when the connection is closed, which happens at the latest when this process dies.
    """

    def __init__(self, process: subprocess.Popen[bytes], connection: socket.socket) -> None:
        self._process = process
        self.connection = connection

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def close(self, patience: float = 2.0) -> None:
        """Close the connection, and see to it that the program ends."""
        self.connection.close()
        self.wait_or_kill(patience)

    def wait_or_kill(self, patience: float = 2.0) -> None:
        """Wait until the program has ended, whose connection somebody closes; when it does not in time, kill it."""
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def start_helper(argv: Sequence[str], environment: Mapping[str, str]) -> HelperProcess:
    """Start a helper: the number of its end of the connection is appended to `argv`.

    It has no other descriptor of ours, no terminal, and `environment` only. What it complains about is discarded: it
    has a connection to say things on. Raises `InvalidArgument` when it cannot be started.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            process = subprocess.Popen(
                [*argv, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env=dict(environment),
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            raise InvalidArgument("argv", f"cannot start {argv[0]!r}: {error}") from None
    return HelperProcess(process, ours)


def exec_program(argv: Sequence[str]) -> NoReturn:
    """Let a program take the place of this process: it has its streams, its terminal, its environment and its id.

    What was printed before must have been flushed. Raises `InvalidArgument` when the program cannot be started.
    """
    try:
        os.execv(argv[0], list(argv))  # noqa: S606 - a shell is what nobody wants here
    except OSError as error:
        raise InvalidArgument("argv", f"cannot start {argv[0]!r}: {error.strerror or error}") from None
