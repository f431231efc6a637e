"""One call of a skill as a process of its own, started cold: the same contract as a warm one, for any program."""

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress

from openskills.errors import ExecutorUnavailable
from openskills.executors.processes.keeping import Exit, Kept
from openskills.executors.sandbox.memory import in_memory
from openskills.executors.spec import Isolation
from openskills.host.registration import Registration
from openskills.host.running.fork_protocol import Ended, Late
from openskills.host.running.fork_slot import Heard
from openskills.host.running.place import Place

STDERR_BYTES = 256 * 1024
_CHUNK = 64 * 1024
_ENDS_WITHIN = 5.0
_FROM_SIGNAL = 128


class _Stream:
    """Our end of a pipe: what came is kept up to `most` bytes, all of it is counted and told."""

    def __init__(self, name: str, descriptor: int, most: int, heard: Heard | None) -> None:
        os.set_blocking(descriptor, False)
        self._name, self._descriptor, self._most, self._heard = name, descriptor, most, heard
        self._loop = asyncio.get_running_loop()
        self.data = bytearray()
        self.count = 0
        self.full = asyncio.Event()
        self._loop.add_reader(descriptor, self.read)

    def read(self) -> None:
        """Take what is there."""
        while self._descriptor >= 0:
            try:
                data = os.read(self._descriptor, _CHUNK)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self.close()
                return
            kept = data[: max(self._most - self.count, 0)]
            self.count += len(data)
            self.data += kept
            if kept and self._heard is not None:
                self._heard(self._name, kept)
            if self.count > self._most:
                self.full.set()
                return

    def close(self) -> None:
        """Let go of the pipe. Safe to call twice."""
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1


async def run_cold(
    place: Place,
    registration: Registration,
    argv: Sequence[str],
    env: Mapping[str, str],
    stdin: bytes,
    deadline: float,
    heard: Heard | None = None,
) -> Ended:
    """Run a program once to its end, with this on its stdin.

    Raises `Late` at the deadline, and what starting it raises. After either, and after a cancellation, nothing
    of it is left when this returns.
    """
    stdout = stderr = None
    with _Descriptors(stdin) as theirs:
        stdout = _Stream("stdout", theirs.stdout, registration.limits.output_bytes, heard)
        stderr = _Stream("stderr", theirs.stderr, STDERR_BYTES, heard)
        try:
            kept = await place.start(registration, argv, env, theirs.stdio)
        except BaseException:
            stdout.close()
            stderr.close()
            raise
    try:
        end = await _ended(kept, stdout, deadline)
        for stream in (stdout, stderr):
            stream.read()
    except TimeoutError:
        for stream in (stdout, stderr):
            stream.read()
        raise Late(bytes(stdout.data), bytes(stderr.data)) from None
    finally:
        stdout.close()
        stderr.close()
    if end.lost:
        raise ExecutorUnavailable("the process that starts skills has ended; try again")
    cut = stdout.count > registration.limits.output_bytes
    return Ended(
        returncode=_returncode(end.status, place.isolation),
        stdout=bytes(stdout.data),
        stderr=bytes(stderr.data),
        stdout_bytes=stdout.count,
        stderr_bytes=stderr.count,
        cut=cut,
        stale=False,
        clean=end.clean,
        cpu_ms=end.cpu_ms,
        memory_kib=0,
    )


def _returncode(status: int, isolation: Isolation) -> int:
    """How the command itself ended. What contains it says of a signal what a shell would."""
    if isolation is Isolation.BUBBLEWRAP and _FROM_SIGNAL < status <= _FROM_SIGNAL + signal.NSIG:
        return _FROM_SIGNAL - status
    return status


async def _ended(kept: Kept, stdout: _Stream, deadline: float) -> Exit:
    """How it ended, by itself or because it wrote too much; at the deadline and when cancelled it is killed first."""
    full = asyncio.ensure_future(stdout.full.wait())
    ending = asyncio.ensure_future(kept.exited())
    try:
        async with asyncio.timeout_at(deadline):
            await asyncio.wait((full, ending), return_when=asyncio.FIRST_COMPLETED)
            if not ending.done():
                kept.signal(signal.SIGKILL)
            return await ending
    except BaseException:
        kept.signal(signal.SIGKILL)
        with suppress(TimeoutError):
            await asyncio.shield(_gone(kept))
        raise
    finally:
        full.cancel()
        ending.cancel()


async def _gone(kept: Kept) -> None:
    async with asyncio.timeout(_ENDS_WITHIN):
        await kept.exited()


class _Descriptors:
    """Two pipes and a file in memory. When it is left, the other side's ends are closed; ours belong to the streams."""

    def __init__(self, stdin: bytes) -> None:
        self._stdin = stdin

    def __enter__(self) -> "_Descriptors":
        opened: list[int] = []
        try:
            opened += os.pipe2(os.O_CLOEXEC)
            opened += os.pipe2(os.O_CLOEXEC)
            opened.append(in_memory(self._stdin))
        except BaseException:
            for descriptor in opened:
                os.close(descriptor)
            raise
        self.stdout, their_stdout, self.stderr, their_stderr, stdin = opened
        self.stdio = (stdin, their_stdout, their_stderr)
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in self.stdio:
            os.close(descriptor)
