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
from typing import IO

from openskills.errors import DeadlineExceeded, InvalidArgument, LimitExceeded

_CHUNK = 65536
_POLL_INTERVAL = 0.05
# Enough reads to empty the largest pipe.
_FINAL_POLLS = 16


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """Exit status and output of a finished process; a negative `returncode` is the signal that killed it."""

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
    """Run a program to completion, without a shell, without input and with `environment` only.

    `max_output` limits stdout and stderr together. Raises `DeadlineExceeded` after `timeout` seconds, `LimitExceeded`
    for more output, `InvalidArgument` when the program cannot be started. In every case the whole process group is
    killed at the end, and a descendant that keeps a pipe open does not delay the call.
    """
    deadline = time.monotonic() + timeout
    process = _start(argv, environment, cwd)
    try:
        stdout, stderr = _drain(process, deadline, max_output)
        process.wait(max(deadline - time.monotonic(), 0))
    except (TimeoutError, subprocess.TimeoutExpired):
        raise DeadlineExceeded(f"{argv[0]} timed out after {timeout:g} s") from None
    except OverflowError:
        raise LimitExceeded(f"{argv[0]} wrote more than {max_output:,} bytes and was stopped") from None
    finally:
        _kill_group(process)
    return ProcessResult(process.returncode, stdout, stderr)


def _start(
    argv: Sequence[str],
    environment: Mapping[str, str],
    cwd: Path,
    *,
    stdin: int = subprocess.DEVNULL,
    output: int = subprocess.PIPE,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    if not argv:
        raise InvalidArgument("argv", "is empty; the first item must be the program")
    try:
        return subprocess.Popen(
            list(argv),
            stdin=stdin,
            stdout=output,
            stderr=output,
            cwd=cwd,
            env=dict(environment),
            pass_fds=pass_fds,
            start_new_session=True,
        )
    except FileNotFoundError:
        missing = f"the directory {cwd}" if not cwd.is_dir() else f"the program {argv[0]!r}"
        raise InvalidArgument("argv", f"{missing} does not exist; install it or correct the path") from None
    except (OSError, ValueError) as error:
        raise InvalidArgument("argv", f"cannot start {argv[0]!r}: {error}") from None


def _drain(process: subprocess.Popen[bytes], deadline: float, max_output: int) -> tuple[bytes, bytes]:
    """Read stdout and stderr until the pipes are closed or the process ends; raises TimeoutError or OverflowError."""
    outputs = (bytearray(), bytearray())
    polls_left = _FINAL_POLLS
    with selectors.DefaultSelector() as selector:
        for pipe, output in zip(_pipes(process), outputs, strict=True):
            selector.register(pipe, selectors.EVENT_READ, output)
        while selector.get_map():
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise TimeoutError
            # Polled before reading: the last output is in the pipes by then.
            gone = process.poll() is not None
            ready = selector.select(min(remaining, _POLL_INTERVAL))
            for key, _ in ready:
                chunk = os.read(key.fd, _CHUNK)
                key.data.extend(chunk)
                if not chunk:
                    selector.unregister(key.fileobj)
            if sum(map(len, outputs)) > max_output:
                raise OverflowError
            polls_left -= gone
            # The program has ended, and only descendants keep the pipes open.
            if gone and not (ready and polls_left):
                break
    return bytes(outputs[0]), bytes(outputs[1])


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], ...]:
    return tuple(pipe for pipe in (process.stdout, process.stderr) if pipe)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    # The child leads its own group, so its background jobs die with it. macOS reports EPERM for a group of zombies.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in _pipes(process):
        pipe.close()


class HelperProcess:
    """A helper program that this process talks to over `connection`.

    It must exit when the connection is closed, which happens at the latest when this process dies.
    """

    def __init__(self, process: subprocess.Popen[bytes], connection: socket.socket) -> None:
        self._process = process
        self.connection = connection

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def close(self, timeout: float = 2.0) -> None:
        """Close the connection and wait for the program to exit; kill it after `timeout` seconds."""
        self.connection.close()
        self.wait_or_kill(timeout)

    def wait_or_kill(self, timeout: float = 2.0) -> None:
        """Wait for the program to exit, whose connection is closed elsewhere; kill it after `timeout` seconds."""
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def start_helper(argv: Sequence[str], environment: Mapping[str, str]) -> HelperProcess:
    """Start a helper; the descriptor number of its end of the connection is appended to `argv`.

    It inherits no other descriptor, has no terminal and `environment` only, and its output is discarded. Raises
    `InvalidArgument` when it cannot be started.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        command, root = [*argv, str(theirs.fileno())], Path("/")
        try:
            process = _start(command, environment, root, output=subprocess.DEVNULL, pass_fds=(theirs.fileno(),))
        except InvalidArgument:
            ours.close()
            raise
    return HelperProcess(process, ours)


class PipedProcess:
    """A program with three pipes, whose ends are non-blocking descriptors: `stdin`, `stdout` and `stderr`."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        pipes = (process.stdin, process.stdout, process.stderr)
        self.stdin, self.stdout, self.stderr = (pipe.fileno() for pipe in pipes if pipe)
        for descriptor in (self.stdin, self.stdout, self.stderr):
            os.set_blocking(descriptor, False)

    @property
    def pid(self) -> int:
        """The process id, which is also that of its process group."""
        return self._process.pid

    def poll(self) -> int | None:
        """The exit status, or None while the program runs; a negative one is the signal that killed it."""
        return self._process.poll()

    def close_stdin(self) -> None:
        """Close its input, which tells most programs to exit; safe to call twice."""
        if self._process.stdin:
            self._process.stdin.close()

    def terminate(self) -> None:
        """Ask the whole process group to exit (SIGTERM)."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGTERM)

    def kill(self) -> None:
        """Kill the whole process group and close the pipes; safe to call twice."""
        self.close_stdin()
        _kill_group(self._process)


def start_piped(argv: Sequence[str], environment: Mapping[str, str], cwd: Path) -> PipedProcess:
    """Start a program without a shell, with `environment` only, in a session of its own.

    Raises `InvalidArgument` when it cannot be started.
    """
    return PipedProcess(_start(argv, environment, cwd, stdin=subprocess.PIPE))
