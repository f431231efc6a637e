"""What a user would use instead: other libraries, and the programs that are underneath."""

import asyncio
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from running_part import NotMeasured
from sampling import Way

HERE = Path(__file__).resolve().parent
ENVIRONMENT = HERE.parent / ".bench" / "running"
PEER_PYTHON = ENVIRONMENT / "bin" / "python"

_LONGEST_ANSWER = 64 * 1024 * 1024
_ENDS_WITHIN = 30.0


def bare(argv: Sequence[str]) -> Way:
    """`subprocess.run` with captured output: what a script of one's own would do."""

    async def once() -> float:
        begin = time.perf_counter()
        subprocess.run(argv, capture_output=True, check=True)
        return time.perf_counter() - begin

    return once


def bubblewrap() -> Callable[[Sequence[str]], Way]:
    """`bwrap` with new namespaces around the whole file system, read-only: the least that the kernel takes for it."""
    program = shutil.which("bwrap")
    if program is None:
        raise NotMeasured("`bwrap` alone: bubblewrap is not installed")
    options = ("--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev")
    return lambda argv: bare([program, *options, *argv])


class TrpcAgent:
    """trpc-agent-py in a process of its own, which does one thing when it is told to."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    def way(self, do: str, **more: Any) -> Way:
        """What takes the `seconds` of its answer: see the script that it runs."""

        async def once() -> float:
            return float((await self.ask({"do": do, **more}))["seconds"])

        return once

    async def ask(self, request: dict[str, Any] | None) -> dict[str, Any]:
        """The answer to a request; without one, the first thing that it says."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        if request is not None:
            stdin.write(json.dumps(request).encode() + b"\n")
            await stdin.drain()
        line = await stdout.readline()
        if not line:
            raise NotMeasured("trpc-agent-py: it ended; run its script in benchmarks/ by hand to see why")
        return json.loads(line)


@asynccontextmanager
async def trpc_agent(
    scratch: Path, *arguments: str | Path, script: str = "running_trpc.py", home: Path | None = None
) -> AsyncGenerator[TrpcAgent]:
    """trpc-agent-py, told what to do by a script of ours, with a temporary directory, where it leaves everything.

    Its home is empty, unless one is given: its login shells read the profile that is there.
    """
    if not (ENVIRONMENT / "lib").exists() or not list(ENVIRONMENT.glob("lib/*/site-packages/trpc_agent_sdk")):
        raise NotMeasured("trpc-agent-py: it is not installed; `make peers` installs it where it can")
    place = Path(tempfile.mkdtemp(prefix="home-trpc-", dir=scratch))
    process = await asyncio.create_subprocess_exec(
        str(PEER_PYTHON),
        str(HERE / script),
        *map(str, arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={"HOME": str(home or place), "TMPDIR": str(place), "PATH": os.defpath, "LANG": "C.UTF-8"},
        limit=_LONGEST_ANSWER,
    )
    try:
        peer = TrpcAgent(process)
        await peer.ask(None)
        yield peer
    finally:
        await _ended(process)


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Let it end by itself, so that it removes the container that it may have started."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), _ENDS_WITHIN)
    except TimeoutError:
        process.kill()
        await process.wait()
