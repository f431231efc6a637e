"""What a user would use instead: other libraries, and the programs that are underneath."""

import asyncio
import json
import os
import shutil
import subprocess
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from running_part import NotMeasured
from sampling import Way

HERE = Path(__file__).resolve().parent
ENVIRONMENT = HERE.parent / ".bench" / "running"
PEER_PYTHON = ENVIRONMENT / "bin" / "python"


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

    def way(self, do: str, command: str = "") -> Way:
        """`warm`, `new` or `load`: see `running_trpc.py`."""

        async def once() -> float:
            return float((await self.ask({"do": do, "command": command}))["seconds"])

        return once

    async def ask(self, request: dict[str, str] | None) -> dict[str, float]:
        """The answer to a request; without one, the first thing that it says."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        if request is not None:
            stdin.write(json.dumps(request).encode() + b"\n")
            await stdin.drain()
        line = await stdout.readline()
        if not line:
            raise NotMeasured("trpc-agent-py: it ended; run benchmarks/running_trpc.py by hand to see why")
        return json.loads(line)


@asynccontextmanager
async def trpc_agent(scratch: Path, skill: Path) -> AsyncGenerator[TrpcAgent]:
    """trpc-agent-py with this skill, a clean home and a temporary directory of its own, where it leaves everything."""
    if not (ENVIRONMENT / "lib").exists() or not list(ENVIRONMENT.glob("lib/*/site-packages/trpc_agent_sdk")):
        raise NotMeasured("trpc-agent-py: it is not installed; `make peers` installs it where it can")
    home = scratch / "home-trpc"
    home.mkdir()
    process = await asyncio.create_subprocess_exec(
        str(PEER_PYTHON),
        str(HERE / "running_trpc.py"),
        str(skill.parent),
        skill.name,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={"HOME": str(home), "TMPDIR": str(home), "PATH": os.defpath, "LANG": "C.UTF-8"},
    )
    try:
        peer = TrpcAgent(process)
        await peer.ask(None)
        yield peer
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
