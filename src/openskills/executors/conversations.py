"""Interactive commands of a workbench: under its rules, in its audit log, with outputs and artifacts at the end."""

import asyncio
from dataclasses import replace
from typing import Literal

from openskills.executors.processes.interactive import LIMIT, SETTLE, WAIT, Owner, Poll, Processes, Written
from openskills.executors.protocol import Process
from openskills.executors.requests import RunRequest, RunResult
from openskills.executors.spec import Command
from openskills.executors.workbench import Started, Workbench


class Conversations:
    """The interactive commands of one owner. They are in `processes`, which a host has one of."""

    def __init__(self, bench: Workbench, processes: Processes, owner: Owner) -> None:
        self._bench = bench
        self._processes = processes
        self._owner = owner
        self._results: dict[str, asyncio.Task[RunResult]] = {}

    async def start(self, request: RunRequest) -> str:
        """Start a command with its input left open, and return its id. Raises what `Workbench.start` raises."""
        begun: list[Started] = []

        async def begin(command: Command) -> Process:
            del command  # made of the request, by the workbench
            begun.append(await self._bench.start(replace(request, input_open=True, readable=True)))
            return begun[0].process

        wanted = Command(("interactive",), terminal=request.terminal)
        identity = await self._processes.start(begin, wanted, self._owner)
        # Whether anybody asks or not: what it made is collected when it ends.
        self._results[identity] = asyncio.get_running_loop().create_task(self._bench.finish(begun[0]))
        return identity

    async def poll(
        self,
        identity: str,
        *,
        wait: float = WAIT,
        settle: float = SETTLE,
        limit: int = LIMIT,
        offset: int | None = None,
    ) -> Poll:
        """See `Processes.poll`."""
        return await self._processes.poll(identity, self._owner, wait=wait, settle=settle, limit=limit, offset=offset)

    async def write(self, identity: str, data: bytes = b"", *, submit: bool = False, wait: float = WAIT) -> Written:
        """See `Processes.write`."""
        return await self._processes.write(identity, self._owner, data, submit=submit, wait=wait)

    async def resize(self, identity: str, rows: int, columns: int) -> None:
        """See `Processes.resize`."""
        await self._processes.resize(identity, self._owner, rows, columns)

    async def kill(self, identity: str) -> Literal["killed", "exited"]:
        """See `Processes.kill`."""
        return await self._processes.kill(identity, self._owner)

    async def result(self, identity: str) -> RunResult:
        """How it ended and what it made, once it has. Raises `InvalidArgument` when there is no such command."""
        await self._processes.poll(identity, self._owner, wait=0, offset=0, limit=0)
        return await asyncio.shield(self._results[identity])
