"""Commands that somebody talks to: started, polled, written to and killed by an id that only their owner can use."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from openskills.errors import ExecutorUnavailable, InvalidArgument, TooManyRequests
from openskills.executors.processes.cursor import Cursor, Piece
from openskills.executors.processes.hints import Interaction
from openskills.executors.processes.viewing import View, Viewer
from openskills.executors.protocol import Process
from openskills.executors.spec import Command, Ended, Ending, Terminal

FIRST_WAIT = 1.0
WAIT = 0.4
SETTLE = 0.075
LIMIT = 64 * 1024

_ROOM_AGAIN = 0.01
_NEWLINE, _ENTER = b"\n", b"\r"

Begin = Callable[[Command], Awaitable[Process]]
"""Starts a command: `Workspace.start`."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose a process is. Everybody else is told that there is none."""

    app: str
    user: str
    session: str
    agent: str


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """How many processes run at once, in all and for one owner, and for how long, in seconds.

    `idle` is the time without any call for a process. Of those that have ended `kept` are remembered, for `keep`
    seconds.
    """

    running: int = 64
    each: int = 64
    idle: float = 30 * 60.0
    lifetime: float = 6 * 3600.0
    kept: int = 32
    keep: float = 30 * 60.0


@dataclass(frozen=True, slots=True)
class Poll:
    """What came out of a process since the last poll. Offsets count bytes; `more` says that some is not read yet.

    `result` is there once it has exited, in every poll from then on.
    """

    status: Literal["running", "exited"]
    output: str
    data: bytes
    offset: int
    next_offset: int
    missed: int = 0
    more: bool = False
    interaction: Interaction | None = None
    result: Ended | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """How many bytes a process took of how many, the newline of `submit` included, and what it said then."""

    taken: int
    offered: int
    poll: Poll


class _Entry:
    """One process of the table."""

    def __init__(self, process: Process, owner: Owner, now: float, terminal: Terminal | None) -> None:
        self.process = process
        self.owner = owner
        self.cursor = Cursor(process)
        self.viewer = Viewer(process, terminal) if terminal else None
        self.enter = _ENTER if terminal else _NEWLINE
        self.writing = asyncio.Lock()
        self.begun = self.used = now
        self.ended_at: float | None = None
        self.expired = ""
        self.timer: asyncio.TimerHandle | None = None
        self.final: asyncio.Task[Ended] | None = None

    async def result(self) -> Ended:
        """How it ended, the same for everybody who asks."""
        return await (asyncio.shield(self.final) if self.final else self.process.wait())

    def expire(self, why: str) -> None:
        """End it because nobody wants it any more."""
        self.expired = why
        self.killing = asyncio.get_running_loop().create_task(self.process.kill())
        self.killing.add_done_callback(_heard)


class Processes:
    """The table of a host's interactive processes. It belongs to one event loop."""

    def __init__(self, limits: ProcessLimits | None = None) -> None:
        self._limits = limits or ProcessLimits()
        self._entries: dict[str, _Entry] = {}
        self._starting: list[Owner] = []
        self._closed = False

    async def start(self, begin: Begin, command: Command, owner: Owner) -> str:
        """Start a command with its input left open, and return its id.

        Raises `TooManyRequests` when as many as allowed are running, and whatever `begin` raises.
        """
        self._admit(owner)
        self._starting.append(owner)
        try:
            process = await begin(replace(command, input_open=True, readable=True))
        finally:
            self._starting.remove(owner)
        if self._closed:
            await process.kill()
            raise ExecutorUnavailable("the table of processes was closed while the command started")
        identity = secrets.token_hex(16)
        entry = _Entry(process, owner, self._now(), command.terminal)
        self._entries[identity] = entry
        entry.final = asyncio.get_running_loop().create_task(self._see_it_end(identity, entry))
        entry.final.add_done_callback(_heard)
        self._arm(identity, entry)
        return identity

    async def poll(
        self,
        identity: str,
        owner: Owner,
        *,
        wait: float = WAIT,
        settle: float = SETTLE,
        limit: int = LIMIT,
        offset: int | None = None,
    ) -> Poll:
        """What came since the last poll, or what there is from a byte offset on, which changes nothing for the others.

        Waits up to `wait` seconds, less when the command exits, or when it seems to wait for input and has printed
        nothing for `settle` seconds. An offset beyond what was printed is that of the next byte. Raises
        `InvalidArgument` when there is no such process of this owner.
        """
        entry = self._find(identity, owner)
        # Who polls in a loop what has something to say at once must not keep everybody else from running.
        await asyncio.sleep(0)
        if offset is None:
            piece = await entry.cursor.next(wait=wait, settle=settle, limit=limit)
        else:
            begin = min(offset, await entry.cursor.end())
            piece = await entry.cursor.read(begin, wait=wait, settle=settle, limit=limit)
        entry.used = self._now()
        return await _poll(entry, piece)

    async def write(
        self,
        identity: str,
        owner: Owner,
        data: bytes = b"",
        *,
        submit: bool = False,
        close: bool = False,
        wait: float = WAIT,
        settle: float = SETTLE,
        limit: int = LIMIT,
    ) -> Written:
        """Give input to a process, with Enter after it for `submit`, and poll. Nothing to write is a poll.

        It is tried for `wait` seconds; a process that does not read takes fewer bytes than all, and the rest is the
        caller's to write again. With `close` it sees the end of its input once it has taken everything. A terminal
        that reads whole lines keeps the first 4,095 bytes of each: the kernel takes the others and drops them. Raises
        `InvalidArgument` when the process has ended or its input is closed.
        """
        entry = self._find(identity, owner)
        offered = data + entry.enter if submit else data
        taken = await self._feed(entry, offered, wait) if offered else 0
        if close and taken == len(offered):
            await entry.process.close_input()
        poll = await self.poll(identity, owner, wait=wait, settle=settle, limit=limit)
        return Written(taken, len(offered), poll)

    async def resize(self, identity: str, owner: Owner, rows: int, columns: int) -> None:
        """Change the size of its terminal; raises `InvalidArgument` when it has none."""
        entry = self._find(identity, owner)
        await entry.process.resize(rows, columns)
        if entry.viewer is not None:
            await entry.viewer.resize(Terminal(rows, columns))

    async def view(self, identity: str, owner: Owner, poll: Poll) -> View:
        """What came in a poll as text to be read, and the screen of a full-screen program as it is now.

        Output of pipes is the same text; that of a terminal has no colours, cursor moves and titles in it.
        """
        entry = self._find(identity, owner)
        if entry.viewer is None:
            return View(poll.data.decode("utf-8", "replace"))
        return await entry.viewer.look(poll.offset, poll.data)

    def knows(self, identity: str, owner: Owner) -> bool:
        """Whether this owner has such a process, running or ended."""
        entry = self._entries.get(identity)
        return entry is not None and entry.owner == owner

    def running(self, owner: Owner) -> tuple[str, ...]:
        """The processes of an owner that have not ended, the oldest first."""
        mine = (pair for pair in self._entries.items() if pair[1].owner == owner)
        return tuple(identity for identity, entry in mine if entry.ended_at is None)

    async def kill(self, identity: str, owner: Owner) -> Literal["killed", "exited"]:
        """End a process and everything it started. A second call says the same as the first."""
        entry = self._find(identity, owner)
        await entry.process.kill()
        return "killed" if (await entry.result()).ending is Ending.KILLED else "exited"

    async def close(self) -> None:
        """End all processes and forget them."""
        self._closed = True
        entries, self._entries = list(self._entries.values()), {}
        for entry in entries:
            if entry.timer is not None:
                entry.timer.cancel()
        await asyncio.gather(*(entry.process.kill() for entry in entries), return_exceptions=True)
        await asyncio.gather(*(entry.result() for entry in entries), return_exceptions=True)

    def _admit(self, owner: Owner) -> None:
        if self._closed:
            raise ExecutorUnavailable("the table of processes is closed")
        owners = [*self._starting, *(entry.owner for entry in self._entries.values() if entry.ended_at is None)]
        for count, most in ((owners.count(owner), self._limits.each), (len(owners), self._limits.running)):
            if count >= most:
                raise TooManyRequests(f"{count} processes are running, and {most} is the most; end one and try again")

    def _find(self, identity: str, owner: Owner) -> _Entry:
        entry = self._entries.get(identity)
        # Whether somebody else has such a process is nobody's business.
        if entry is None or entry.owner != owner:
            raise InvalidArgument("process", f"there is no process {identity!r}; it was never started or is forgotten")
        entry.used = self._now()
        return entry

    async def _feed(self, entry: _Entry, data: bytes, wait: float) -> int:
        deadline = self._now() + wait
        async with entry.writing:
            printed = await entry.cursor.end()
            taken = await entry.process.write(data)
            while taken < len(data) and self._now() < deadline:
                await asyncio.sleep(_ROOM_AGAIN)
                with suppress(InvalidArgument):
                    taken += await entry.process.write(data[taken:])
                if entry.ended_at is not None:
                    break
            if taken:
                entry.cursor.wrote(data[:taken], printed)
        return taken

    async def _see_it_end(self, identity: str, entry: _Entry) -> Ended:
        try:
            ended = await entry.process.wait()
        finally:
            entry.ended_at = self._now()
            if identity in self._entries:
                self._arm(identity, entry)
                self._forget_oldest()
        return replace(ended, detail=entry.expired) if entry.expired and ended.ending is Ending.KILLED else ended

    def _forget_oldest(self) -> None:
        ended = [(entry.ended_at, name) for name, entry in self._entries.items() if entry.ended_at is not None]
        for _, name in sorted(ended)[: max(len(ended) - self._limits.kept, 0)]:
            self._forget(name)

    def _arm(self, identity: str, entry: _Entry) -> None:
        """See to it that somebody looks again when the process, or what is kept of it, is due."""
        if entry.timer is not None:
            entry.timer.cancel()
        due = self._due(entry)[0]
        entry.timer = asyncio.get_running_loop().call_at(due, self._look, identity, entry)

    def _due(self, entry: _Entry) -> tuple[float, str]:
        limits = self._limits
        if entry.ended_at is not None:
            return entry.ended_at + limits.keep, ""
        return min(
            (entry.used + limits.idle, f"nobody asked for it for {limits.idle:g} seconds, so it was ended"),
            (entry.begun + limits.lifetime, f"it was ended after {limits.lifetime:g} seconds, the most it may run"),
        )

    def _look(self, identity: str, entry: _Entry) -> None:
        due, why = self._due(entry)
        if due > self._now():
            self._arm(identity, entry)
        elif entry.ended_at is not None:
            self._forget(identity)
        elif not entry.expired:
            entry.expire(why)

    def _forget(self, identity: str) -> None:
        timer = self._entries.pop(identity).timer
        if timer is not None:
            timer.cancel()

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


async def _poll(entry: _Entry, piece: Piece) -> Poll:
    exited = piece.ended or entry.ended_at is not None
    return Poll(
        status="exited" if exited else "running",
        output=piece.text,
        data=piece.data,
        offset=piece.offset,
        next_offset=piece.next_offset,
        missed=piece.missed,
        more=not (piece.ended if exited else piece.complete),
        interaction=None if exited else piece.interaction,
        result=await entry.result() if exited else None,
    )


def _heard(task: "asyncio.Task[Ended] | asyncio.Task[None]") -> None:
    """Whoever asks for the result hears how it failed; asyncio need not complain when nobody does."""
    if not task.cancelled():
        task.exception()
