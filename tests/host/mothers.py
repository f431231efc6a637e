"""Warm interpreters without a runner around them, for tests."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from openskills.executors.supervisor import SupervisedProcess
from openskills.executors.zygote import ForkServer, ForkServerConfig, Worker, WorkerResult, encode_call
from openskills.host.model import Registration
from openskills.host.runners.isolation import LocalIsolation
from tests.host.calls_made import script


@asynccontextmanager
async def fork_servers(directory: Path, text: str, **more: Any) -> AsyncGenerator[Callable[..., Awaitable[ForkServer]]]:
    """Starts fork servers for this script."""
    entry = script(directory, text)
    fields: dict[str, Any] = {"preload": ("json",), "named": (), "stdout": 100_000, "stderr": 1000, **more}
    wanted = ForkServerConfig(str(entry), (), (str(directory), *(path for path in sys.path if path)), **fields)
    skill = Registration("s", "cli:python", str(entry), "1")
    place = LocalIsolation(directory)

    async def launch(argv: Sequence[str], stdin: int, stderr: int) -> SupervisedProcess:
        with open(os.devnull, "r+b", 0) as null:
            return await place.start(skill, argv, place.environment(skill), (stdin, null.fileno(), stderr), first=True)

    async def begin(**options: Any) -> ForkServer:
        return await ForkServer.start(launch, sys.executable, wanted, **options)

    try:
        yield begin
    finally:
        await place.close()


async def call(slot: Worker, stdin: bytes = b"", **variables: str) -> WorkerResult:
    """One call, with time enough."""
    deadline = asyncio.get_running_loop().time() + 20
    return await slot.call(encode_call(stdin, variables, live=False), deadline)
