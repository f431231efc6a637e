"""What promises of executors are tried with: a workspace, commands in it, and a directory of this machine."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openskills.executors.protocol import Executor, Process, Workspace
from openskills.executors.spec import Command, Ended, Isolation, Stream
from openskills.testing.promises import expect

_ALIVE = """
import fcntl, os, sys, time
lock = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
deadline = time.monotonic() + 2
while True:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        sys.exit('nobody has it')
    except BlockingIOError:
        if time.monotonic() > deadline:
            print('alive')
            break
        time.sleep(0.02)
"""


@dataclass(frozen=True, slots=True)
class Trial:
    """A new workspace of an executor, what runs under it, and a directory of this machine that is empty.

    `make` gives another executor; who calls it closes that one.
    """

    executor: Executor
    workspace: Workspace
    key: str
    isolation: Isolation
    directory: Path
    make: Callable[[], Executor]

    async def run(self, command: Command) -> Ended:
        """Run a command to its end."""
        return await (await self.workspace.start(command)).wait()

    async def said(self, command: Command) -> str:
        """What a command writes to its stdout; it has to end with 0."""
        ended = await self.run(command)
        expect(ended.exit_code == 0, f"a command of the check failed: {told(ended)}")
        return ended.stdout.text()

    async def answer(self, text: str, *arguments: str) -> Any:
        """What a Python program prints, as JSON."""
        return json.loads(await self.said(Command(python(text, *arguments))))

    async def is_held(self, path: str) -> bool:
        """Whether some process still has the lock on this file, two seconds from now."""
        return "alive" in (await self.run(Command(python(_ALIVE, path)))).stdout.text()


Promise = Callable[[Trial], Awaitable[None]]
"""Checks what its docstring says."""


def python(text: str, *arguments: str) -> tuple[str, ...]:
    """The argv of a Python program."""
    return ("python3", "-I", "-S", "-c", text, *arguments)


def shell(text: str) -> tuple[str, ...]:
    """The argv of a line of shell."""
    return ("sh", "-c", text)


def told(ended: Ended) -> str:
    """A result as part of a sentence."""
    said = ended.stderr.text().strip()[-300:] or ended.stdout.text().strip()[-300:]
    return f"{ended.ending}, exit code {ended.exit_code}, {ended.detail or 'no detail'}, {said!r}"


async def content(workspace: Workspace, path: str) -> bytes:
    """The bytes of a file in a workspace."""
    async with workspace.open(path) as reading:
        return b"".join([chunk async for chunk in reading.chunks])


async def listed(workspace: Workspace, *globs: str, since: int | None = None) -> list[str]:
    """The paths that match, as they are listed."""
    return [info.path for info in (await workspace.list(globs, since=since)).files]


async def opened(workspace: Workspace, path: str) -> None:
    """Open a file and close it."""
    async with workspace.open(path):
        pass


async def read_until(process: Process, wanted: bytes, *, offset: int = 0, stream: Stream = Stream.BOTH) -> bytes:
    """Output from `offset` on, until `wanted` is in it or no more will come."""
    seen = b""
    while wanted not in seen:
        output = await process.read(offset, wait=1.0, stream=stream)
        seen, offset = seen + output.data, output.next_offset
        expect(not output.missed, f"{output.missed} bytes before offset {output.offset} were not kept")
        if output.ended:
            break
    return seen
