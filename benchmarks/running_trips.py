"""Round trips: a line is written to a command that runs already, and its answer is read. Each way does it once more."""

import asyncio
import itertools
import os
import pty
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from peer_process import PeerProcess
from running_bench import SKILL, Ground
from sampling import Way, timed

from openskills.executors.requests import RunRequest
from openskills.executors.spec import Limits, TerminalSize
from openskills.runtime.session import SkillSession

ASKING = "while IFS= read -r line; do printf 'got:%s\\n> ' \"$line\"; done"
"""Answers each line, and shows that it waits for the next one."""
SILENT = "while IFS= read -r line; do printf 'got:%s\\n' \"$line\"; done"
"""Answers each line, and says no more, as `cat` does."""

_TIMEOUT = 30.0
_PROMPT = b"> "

Write = Callable[[bytes], Awaitable[object]]
Read = Callable[[], Awaitable[bytes]]


@asynccontextmanager
async def bare_pipe() -> AsyncGenerator[Way]:
    """bash on pipes, with asyncio: what a script of one's own would do."""
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec("bash", "-c", ASKING, stdin=pipe, stdout=pipe)
    stdin, stdout = child.stdin, child.stdout
    assert stdin is not None
    assert stdout is not None

    async def write(data: bytes) -> None:
        stdin.write(data)
        await stdin.drain()

    try:
        yield _trip(write, lambda: stdout.read(65536))
    finally:
        stdin.close()
        await child.wait()


@asynccontextmanager
async def bare_terminal() -> AsyncGenerator[Way]:
    """The same on a terminal that nobody looks after."""
    ours, theirs = pty.openpty()
    try:
        child = await asyncio.create_subprocess_exec(
            "bash", "-c", ASKING, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
    finally:
        os.close(theirs)
    os.set_blocking(ours, False)
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(ours, readable.set)

    async def write(data: bytes) -> None:
        os.write(ours, data)

    async def read() -> bytes:
        while True:
            readable.clear()
            with suppress(BlockingIOError):
                return os.read(ours, 65536)
            await readable.wait()

    try:
        yield _trip(write, read)
    finally:
        loop.remove_reader(ours)
        child.kill()
        await child.wait()
        os.close(ours)


async def of_process(place: Ground, *, terminal: bool) -> Way:
    """A process of ours: written to and read from, as a host does it."""
    bench = await place.bench()
    request = RunRequest(
        ("bash", "-c", ASKING),
        input_open=True,
        readable=True,
        terminal=TerminalSize() if terminal else None,
        limits=Limits(timeout=3600),
    )
    process = (await bench.start(request)).process
    offset = 0

    async def read() -> bytes:
        nonlocal offset
        output = await process.read(offset, wait=_TIMEOUT)
        offset = output.next_offset
        return output.data

    return _trip(process.write, read)


async def of_tool(session: SkillSession, command: str, *, terminal: bool) -> Way:
    """`skill_write_stdin`, as a model calls it, for a command that `skill_exec` has started."""
    wanted = {"skill": SKILL, "command": command, "tty": terminal, "yield_ms": 0}
    started = await session.call("skill_exec", wanted)
    if started.error is not None:
        raise RuntimeError(started.text)
    numbers = itertools.count(10_000)

    async def once() -> None:
        number = next(numbers)
        arguments = {"session_id": started.data["session_id"], "chars": str(number), "submit": True}
        result = await session.call("skill_write_stdin", arguments)
        if result.error is not None or f"got:{number}" not in result.data["output"]:
            raise RuntimeError(result.text)

    return timed(once)


def of_peer(peer: PeerProcess, command: str, *, terminal: bool) -> Way:
    """The same tool of trpc-agent-py: see `running_trpc_typing.py`."""
    numbers = itertools.count(10_000)

    async def once() -> float:
        number = next(numbers)
        request: dict[str, Any] = {"command": command, "tty": terminal, "type": str(number), "answer": f"got:{number}"}
        return float((await peer.ask(request))["seconds"])

    return once


def _trip(write: Write, read: Read) -> Way:
    """A line of a new number; it is over when its answer and the prompt after it have come."""
    numbers = itertools.count(10_000)

    async def once() -> None:
        number, seen = next(numbers), b""
        async with asyncio.timeout(_TIMEOUT):
            await write(b"%d\n" % number)
            while b"got:%d" % number not in seen or not seen.endswith(_PROMPT):
                piece = await read()
                if not piece:
                    raise RuntimeError(f"the command ended after {seen!r}")
                seen += piece

    return timed(once)
