"""Commands for tests, started by a pool of keepers, without a workspace around them."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from openskills.executors.process import HostProcess
from openskills.executors.spec import Command, CommandResult
from openskills.executors.supervisor import LaunchRequest, SupervisedProcess, SupervisorPool, to_rlimits

ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
TIMEOUT = 20.0


class Starter:
    """Starts commands in a directory."""

    def __init__(self, pool: SupervisorPool, directory: Path) -> None:
        self._pool = pool
        self._directory = directory

    async def start(self, command: Command) -> HostProcess:
        """Start it as the local executor would."""

        async def launch(stdio: tuple[int, int, int]) -> SupervisedProcess:
            wanted = LaunchRequest(
                command.argv,
                {**ENVIRONMENT, **command.env},
                str(self._directory),
                dict(enumerate(stdio)),
                terminal=0 if command.terminal else None,
            )
            return await self._pool.start(wanted, to_rlimits(command.limits))

        return await HostProcess.start(command, launch)

    async def run(self, command: Command) -> CommandResult:
        """Start it and wait for its end."""
        return await (await self.start(command)).wait()


@asynccontextmanager
async def starter(directory: Path) -> AsyncGenerator[Starter]:
    """A starter whose keepers end with the block."""
    pool = SupervisorPool()
    try:
        yield Starter(pool, directory)
    finally:
        await pool.close()


def shell(text: str) -> tuple[str, ...]:
    """The argv of a shell command."""
    return ("bash", "-c", text)


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and is not reaped yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False


def is_stopped(pid: int) -> bool:
    """Whether every thread of a process is stopped."""
    threads = Path(f"/proc/{pid}/task").glob("*/stat")
    return all(thread.read_text("ascii").rpartition(")")[2].split()[0] == "T" for thread in threads)


async def eventually(condition: Callable[[], bool]) -> bool:
    """Look until it is true; false when it never is."""
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.01)
    return True


async def read_until(process: HostProcess, wanted: bytes) -> bytes:
    """Everything that a process has written until `wanted` is in it, or until it ends."""
    seen, offset = b"", 0
    deadline = time.monotonic() + TIMEOUT
    while wanted not in seen and time.monotonic() < deadline:
        output = await process.read(offset, wait=0.2)
        seen, offset = seen + output.data, output.next_offset
        if output.ended:
            break
    return seen


def open_descriptors() -> int:
    """How many descriptors this process has."""
    return len(os.listdir("/proc/self/fd"))
