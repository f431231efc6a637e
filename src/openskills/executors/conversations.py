"""Interactive commands of a workbench: under its rules, in its audit log, with outputs and artifacts at the end."""

import asyncio
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from openskills.executors.processes.interactive import LIMIT, SETTLE, WAIT, Owner, Poll, Processes, Written
from openskills.executors.processes.viewing import View
from openskills.executors.protocol import Process
from openskills.executors.requests import RunRequest, RunResult
from openskills.executors.spec import Command
from openskills.executors.stored import shown
from openskills.executors.workbench import Started, Workbench

Tell: TypeAlias = Callable[[RunResult], Mapping[str, Any]]
"""What somebody is told about a result, as plain JSON values."""


@dataclass(frozen=True, slots=True)
class _Talk:
    """What becomes of a command: its result, and how that is told."""

    result: asyncio.Task[RunResult]
    tell: Tell


class Conversations:
    """The interactive commands of one owner. They are in `processes`, which a host has one of."""

    def __init__(self, bench: Workbench, processes: Processes, owner: Owner) -> None:
        self._bench = bench
        self._processes = processes
        self._owner = owner
        self._talks: dict[str, _Talk] = {}

    def on(self, bench: Workbench) -> "Conversations":
        """The same commands; those that are started from here on follow the rules of another workbench."""
        other = copy(self)
        other._bench = bench  # noqa: SLF001 - a copy of ourselves
        return other

    async def start(self, request: RunRequest, tell: Tell = shown) -> str:
        """Start a command with its input left open, and return its id. Raises what `Workbench.start` raises.

        `tell` is what `told` makes of the result, whoever asks for it later.
        """
        begun: list[Started] = []

        async def begin(command: Command) -> Process:
            del command  # made of the request, by the workbench
            begun.append(await self._bench.start(replace(request, input_open=True, readable=True)))
            return begun[0].process

        wanted = Command(("interactive",), terminal=request.terminal)
        identity = await self._processes.start(begin, wanted, self._owner)
        # Whether anybody asks or not: what it made is collected when it ends.
        result = asyncio.get_running_loop().create_task(self._bench.finish(begun[0]))
        result.add_done_callback(_heard)
        self._forget()
        self._talks[identity] = _Talk(result, tell)
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

    async def write(
        self,
        identity: str,
        data: bytes = b"",
        *,
        submit: bool = False,
        close: bool = False,
        wait: float = WAIT,
        limit: int = LIMIT,
    ) -> Written:
        """See `Processes.write`."""
        return await self._processes.write(
            identity, self._owner, data, submit=submit, close=close, wait=wait, limit=limit
        )

    async def view(self, identity: str, poll: Poll) -> View:
        """See `Processes.view`."""
        return await self._processes.view(identity, self._owner, poll)

    def knows(self, identity: str) -> bool:
        """Whether such a command was started here, and is not forgotten."""
        return identity in self._talks and self._processes.knows(identity, self._owner)

    def running(self) -> tuple[str, ...]:
        """The commands that have not ended, the oldest first."""
        return tuple(identity for identity in self._processes.running(self._owner) if identity in self._talks)

    async def resize(self, identity: str, rows: int, columns: int) -> None:
        """See `Processes.resize`."""
        await self._processes.resize(identity, self._owner, rows, columns)

    async def kill(self, identity: str) -> Literal["killed", "exited"]:
        """See `Processes.kill`."""
        return await self._processes.kill(identity, self._owner)

    async def result(self, identity: str) -> RunResult:
        """How it ended and what it made, once it has. Raises `InvalidArgument` when there is no such command."""
        await self._processes.poll(identity, self._owner, wait=0, offset=0, limit=0)
        return await asyncio.shield(self._talks[identity].result)

    async def told(self, identity: str) -> Mapping[str, Any]:
        """The result as whoever started the command wanted it to be told; the same every time."""
        result = await self.result(identity)
        return self._talks[identity].tell(result)

    async def close(self) -> None:
        """End all commands of this owner, and wait until what they made is collected."""
        await asyncio.gather(*map(self.kill, self.running()), return_exceptions=True)
        await asyncio.gather(*(talk.result for talk in self._talks.values()), return_exceptions=True)

    def _forget(self) -> None:
        """What the table of processes has forgotten nobody can ask for."""
        for identity in [one for one, talk in self._talks.items() if talk.result.done() and not self.knows(one)]:
            del self._talks[identity]


def _heard(task: asyncio.Task[RunResult]) -> None:
    """Whoever asks for the result hears how it failed; asyncio need not complain when nobody does."""
    if not task.cancelled():
        task.exception()
