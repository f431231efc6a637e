"""The warm programs for tests, one of each kind for all processes that run them."""

import fcntl
import marshal
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from uuid import uuid4

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLIENT = Path(__file__).with_name("warm_client.py")
TIMEOUT = 60.0
_LAST_USER_TIMEOUT = 600.0
"""Seconds after which who started a program no longer waits for other workers."""


def is_particular(env: Mapping[str, str]) -> bool:
    """Whether there are variables that an interpreter reads when it starts."""
    return env.get("LANG", "C.UTF-8") != "C.UTF-8" or any(name.startswith(("PYTHON", "LC_")) for name in env)


class WarmProcess:
    """An `openskills` that runs: what `subprocess.Popen` is for a process that is a child of this one."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.pid = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "big")
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, or None while it runs."""
        try:
            return self.wait(0)
        except TimeoutError:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and give the exit code. Raises `TimeoutError`."""
        if self.returncode is None:
            self._connection.settimeout(timeout)
            try:
                status = self._connection.recv(4, socket.MSG_WAITALL)
            except BlockingIOError as error:
                raise TimeoutError from error
            self._connection.close()
            assert status, "the warm program has ended"
            self.returncode = int.from_bytes(status, "big", signed=True)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it is known to have ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class WarmOpenskills:
    """Where calls are taken."""

    address: Path

    @property
    def line(self) -> list[str]:
        """What stands in for `python -m openskills`."""
        return [sys.executable, "-ISE", str(CLIENT), str(self.address)]

    def start(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stdout: int,
        stderr: int,
        stdin: int | None = None,
        strict: bool = False,
    ) -> WarmProcess:
        """Start it with these files as its input and output."""
        assert not is_particular(env), "the variables would have no effect on a process that was started already"
        place = {"directory": str(cwd), "environment": dict(env), "terminal": False, "strict": strict}
        call = marshal.dumps({"arguments": list(arguments), **place})
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(self.address))
        with open(os.devnull, "rb") as nothing:
            streams = [nothing.fileno() if stdin is None else stdin, stdout, stderr]
            socket.send_fds(connection, [len(call).to_bytes(4, "big")], streams)
            connection.sendall(call)
            return WarmProcess(connection)

    def run(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        timeout: float | None,
        stdin: bytes | None = None,
        strict: bool = False,
    ) -> "subprocess.CompletedProcess[bytes]":
        """Run it to its end, with this to read, and give what it wrote. Raises `TimeoutError`."""
        with TemporaryFile() as given, TemporaryFile() as output, TemporaryFile() as errors:
            given.write(stdin or b"")
            given.seek(0)
            process = self.start(
                arguments,
                cwd=cwd,
                env=env,
                strict=strict,
                stdin=None if stdin is None else given.fileno(),
                stdout=output.fileno(),
                stderr=errors.fileno(),
            )
            try:
                code = process.wait(timeout)
            finally:
                process.kill()
            written = [os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0) for file in (output, errors)]
            return subprocess.CompletedProcess(list(arguments), code, *written)


class _WarmProgram:
    """The program of this kind, which is found or started for the first who asks."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._running = ExitStack()
        self._taken: WarmOpenskills | None = None

    def get(self) -> WarmOpenskills:
        self._taken = self._taken or self._running.enter_context(_started(self._kind))
        return self._taken

    def end(self) -> None:
        self._running.close()
        self._taken = None


_kinds = {kind: _WarmProgram(kind) for kind in ("openskills", "script", "program")}


@contextmanager
def _started(kind: str) -> Generator[WarmOpenskills]:
    """A program that the workers of one run of pytest share; it ends when the last of them has ended."""
    run = os.environ.get("OPENSKILL_TEST_RUN", uuid4().hex)
    directory = Path(tempfile.gettempdir(), f"openskills-warm-{kind}-{run[:16]}")
    address, users = directory / "calls", directory / "users"
    program: subprocess.Popen[bytes] | None = None
    with _locked(directory):
        try:
            held = os.open(users, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            # Nobody has started it, or who did was killed.
            for path in (address, users):
                path.unlink(missing_ok=True)
            program, held = _start(kind, address, users)
    try:
        yield WarmOpenskills(address)
    finally:
        with _locked(directory):
            os.close(held)
            if _is_unused(users):
                # Whoever comes from now on starts another.
                shutil.rmtree(directory)
        if program is not None:
            try:
                program.wait(_LAST_USER_TIMEOUT)
            except subprocess.TimeoutExpired:
                # A process that was forked from a worker has survived it.
                program.kill()
                program.wait()


def _start(kind: str, address: Path, users: Path) -> tuple["subprocess.Popen[bytes]", int]:
    """Start it; it ends when all have closed `users`, of which this gives the first descriptor."""
    os.mkfifo(users, 0o600)
    reading = os.open(users, os.O_RDONLY | os.O_NONBLOCK)
    held = os.open(users, os.O_WRONLY)
    argv = [sys.executable, "-m", "tests.servers.warm_program", str(address), kind]
    program = subprocess.Popen(argv, cwd=ROOT, env={"LANG": "C.UTF-8"}, stdin=reading)
    os.close(reading)
    deadline = time.monotonic() + TIMEOUT
    while not address.exists():
        assert program.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return program, held


def _is_unused(users: Path) -> bool:
    reading = os.open(users, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return os.read(reading, 1) == b""
    except BlockingIOError:
        return False
    finally:
        os.close(reading)


@contextmanager
def _locked(directory: Path) -> Generator[None]:
    """Have a directory for this process alone; the directory is made anew if another one has just removed it."""
    with ExitStack() as stack:
        while True:
            directory.mkdir(mode=0o700, exist_ok=True)
            with suppress(FileNotFoundError):
                opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
                stack.callback(os.close, opened)
                fcntl.flock(opened, fcntl.LOCK_EX)
                if os.path.samestat(os.fstat(opened), directory.stat()):
                    break
        yield


def start_openskills(*arguments: str, cwd: Path, env: Mapping[str, str], stdout: int, stderr: int) -> WarmProcess:
    """`openskills` in an interpreter that has imported it already."""
    return _kinds["openskills"].get().start(arguments, cwd=cwd, env=env, stdout=stdout, stderr=stderr)


def run_script(
    script: Path,
    *arguments: str,
    cwd: Path,
    env: Mapping[str, str],
    timeout: float | None,
    stdin: bytes | None = None,
    strict: bool = True,
    kind: str = "script",
) -> "subprocess.CompletedProcess[bytes]":
    """`python -W error SCRIPT`, in an interpreter that has imported what such scripts import. Raises `TimeoutError`.

    Its kind is `script` if it stands for itself, and `program` if it uses the package. Without `strict` warnings are
    no errors.
    """
    program = _kinds[kind].get()
    return program.run([str(script), *arguments], cwd=cwd, env=env, timeout=timeout, stdin=stdin, strict=strict)


def openskills_line(*arguments: str) -> list[str]:
    """A command line that does the same."""
    return [*_kinds["openskills"].get().line, *arguments]


def program_line(script: Path) -> list[str]:
    """A command line that runs a program that uses the package, in an interpreter that has imported the package."""
    return [*_kinds["program"].get().line, str(script)]


@pytest.fixture(scope="session")
def warm_openskills() -> WarmOpenskills:
    """`openskills` in interpreters that have imported it already; it ends with this process."""
    return _kinds["openskills"].get()


@pytest.fixture(scope="session", autouse=True)
def end_warm_openskills() -> Generator[None]:
    """Nothing runs when the tests have ended."""
    yield
    for program in _kinds.values():
        program.end()
