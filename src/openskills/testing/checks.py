"""Helpers of the conformance checks: running promises one after the other, test content, and a trial workspace."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openskills.errors import InvalidArgument
from openskills.executors.protocol import Executor, Process, Workspace
from openskills.executors.spec import Command, CommandResult, Isolation, OutputStream

EVERY_BYTE = bytes(range(256))
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + EVERY_BYTE * 3 + b"\r\n\xff\xfe\x00"


ErrorTypes = type[Exception] | tuple[type[Exception], ...]
"""An error that is expected, or several of which one is."""


async def check_promise(promise: object, checking: Awaitable[None]) -> None:
    """Await a check. Errors name the promise that was checked, which is its docstring."""
    said = (promise.__doc__ or "").strip()
    try:
        await checking
    except AssertionError as error:
        raise AssertionError(f"broken promise: {said} {error}") from error
    except BaseException as error:
        error.add_note(f"while checking the promise: {said}")
        raise


def expect(condition: bool, otherwise: str) -> None:
    """Raise `AssertionError` with a description of the fault if the condition is false."""
    if not condition:
        raise AssertionError(otherwise)


async def expect_refusal(call: Awaitable[object], otherwise: str, kind: ErrorTypes = InvalidArgument) -> None:
    """Raise `AssertionError` if a call does not raise an error of this kind."""
    try:
        await call
    except kind:
        return
    names = " or ".join(one.__name__ for one in (kind if isinstance(kind, tuple) else (kind,)))
    raise AssertionError(f"{otherwise}; {names} was expected")


class ContentError(Exception):
    """The error that failing content raises."""


class EndlessContent:
    """Content that yields one piece and then waits forever."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        yield b"half"
        self.begun.set()
        await asyncio.Event().wait()


async def broken_content() -> AsyncGenerator[bytes]:
    """Content that fails after its first piece."""
    yield b"half"
    raise ContentError


async def stream_content(chunks: Sequence[bytes | str]) -> AsyncGenerator[bytes]:
    """Content in these pieces. A store must refuse text."""
    for chunk in chunks:
        await asyncio.sleep(0)
        yield chunk  # pyright: ignore[reportReturnType]


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
class ExecutorTrial:
    """A new workspace of an executor, the executor, and an empty directory of this machine.

    `make` gives another executor; who calls it closes that one.
    """

    executor: Executor
    workspace: Workspace
    key: str
    isolation: Isolation
    directory: Path
    make: Callable[[], Executor]

    async def run(self, command: Command) -> CommandResult:
        """Run a command to its end."""
        return await (await self.workspace.start(command)).wait()

    async def read_output(self, command: Command) -> str:
        """The stdout of a command, which has to exit with 0."""
        ended = await self.run(command)
        expect(ended.exit_code == 0, f"a command of the check failed: {describe_result(ended)}")
        return ended.stdout.text()

    async def run_json(self, text: str, *arguments: str) -> Any:
        """The output of a Python program, parsed as JSON."""
        return json.loads(await self.read_output(Command(python_argv(text, *arguments))))

    async def is_held(self, path: str) -> bool:
        """Whether some process still holds the lock on this file after two seconds."""
        return "alive" in (await self.run(Command(python_argv(_ALIVE, path)))).stdout.text()


Promise = Callable[[ExecutorTrial], Awaitable[None]]
"""Checks what its docstring says."""


def python_argv(text: str, *arguments: str) -> tuple[str, ...]:
    """The argv of a Python program."""
    return ("python3", "-I", "-S", "-c", text, *arguments)


def shell_argv(text: str) -> tuple[str, ...]:
    """The argv of a line of shell."""
    return ("sh", "-c", text)


def describe_result(ended: CommandResult) -> str:
    """A result in words."""
    said = ended.stderr.text().strip()[-300:] or ended.stdout.text().strip()[-300:]
    return f"{ended.ending}, exit code {ended.exit_code}, {ended.detail or 'no detail'}, {said!r}"


async def read_content(workspace: Workspace, path: str) -> bytes:
    """The bytes of a file in a workspace."""
    async with workspace.open(path) as reading:
        return b"".join([chunk async for chunk in reading.chunks])


async def list_paths(workspace: Workspace, *globs: str, since: int | None = None) -> list[str]:
    """The paths that match, in the order of the listing."""
    return [info.path for info in (await workspace.list(globs, since=since)).files]


async def open_and_close(workspace: Workspace, path: str) -> None:
    """Open a file and close it."""
    async with workspace.open(path):
        pass


async def read_until(
    process: Process, wanted: bytes, *, offset: int = 0, stream: OutputStream = OutputStream.BOTH
) -> bytes:
    """Output from `offset` on, until `wanted` is in it or no more will come."""
    seen = b""
    while wanted not in seen:
        output = await process.read(offset, wait=1.0, stream=stream)
        seen, offset = seen + output.data, output.next_offset
        expect(not output.missed, f"{output.missed} bytes before offset {output.offset} were not kept")
        if output.ended:
            break
    return seen
