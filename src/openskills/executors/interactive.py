"""Commands that are talked to.

Whether a running command seems to wait for somebody to type something. Pure: it judges what was printed.

Reading what a running command prints, piece by piece: each byte once, and no character in two pieces.

Commands that somebody talks to: started, polled, written to and killed by an id that only their owner can use.

Interactive commands of a workbench: under its rules, in its audit log, with outputs and artifacts at the end.
"""

import asyncio
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from openskills.errors import ExecutorUnavailable, InvalidArgument, TooManyRequests
from openskills.executors.commands import ActiveCommand, CommandRunner
from openskills.executors.protocol import Process
from openskills.executors.records.journal import result_to_json
from openskills.executors.requests import RunRequest, RunResult
from openskills.executors.spec import Command, CommandResult, EndReason, TerminalSize
from openskills.executors.terminal import ScreenView, ScreenViewer

WINDOW = 16 * 1024
"""How much of the end of the output is looked at, in characters, whatever came before."""

_MENU_LINES = 40
_MAX_HINT = 200
# Every part may stand alone, so that a sequence that never ends is no reason to look at it twice.
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]?"  # colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # titles, links, the clipboard
    r"|\x1b[ -/]*[0-~]?"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_CHOICE = re.compile(r"\s{0,8}\d{1,3}[.)](?!\d)")
_SELECTIONS = ("enter the number", "choose a number", "select a number")
_REQUESTS = ("press enter", "type your")
_PROMPT_ENDS = (":", "?")
# These end ordinary lines, too, so they count only on a line that is not finished.
_OPEN_PROMPT_ENDS = ("[y/n]", "(y/n)", "(yes/no)", "[yes/no]", "> ", "$ ", "# ")


@dataclass(frozen=True, slots=True)
class Interaction:
    """It seems to wait for input: for a choice from a list, or for an answer. `hint` is the line that says so."""

    kind: Literal["selection", "prompt"]
    hint: str
    needs_input: bool = True


def detect_interaction(output: str) -> Interaction | None:
    """What a command waits for that has printed `output` since it was last given something, and still runs."""
    lines = _render_lines(output[-WINDOW:])
    spoken = [line for line in lines if line.strip()]
    if not spoken:
        return None
    last = spoken[-1]
    kind = _classify_prompt(spoken, unfinished=lines[-1] is last)
    return Interaction(kind, last.strip()[:_MAX_HINT]) if kind else None


def _classify_prompt(spoken: list[str], *, unfinished: bool) -> Literal["selection", "prompt"] | None:
    last = spoken[-1].lower()
    choices = sum(1 for line in spoken[-_MENU_LINES:] if _CHOICE.match(line))
    if choices > 1 or any(words in last for words in _SELECTIONS):
        return "selection"
    if last.rstrip().endswith(_PROMPT_ENDS) or any(words in last for words in _REQUESTS):
        return "prompt"
    if unfinished and (last.endswith(_OPEN_PROMPT_ENDS) or last.rstrip().endswith(_OPEN_PROMPT_ENDS)):
        return "prompt"
    return None


def _render_lines(text: str) -> list[str]:
    """The lines as a terminal shows them: without colours, and with only what stands after the last return."""
    plain = _ESCAPES.sub("", text).replace("\r\n", "\n")
    return [_CONTROL.sub("", line.rstrip("\r").rpartition("\r")[2]) for line in plain.split("\n")]


_MAX_CHARACTER_BYTES = 4
_MAX_ECHO = 4096
_BEYOND = 1 << 62


@dataclass(frozen=True, slots=True)
class ProcessOutputChunk:
    """Bytes of the output from `offset` up to `next_offset`; `missed` bytes before them are not kept any more.

    `complete` says that nothing came after them until now, `ended` that nothing will.
    """

    data: bytes
    offset: int
    next_offset: int
    missed: int
    complete: bool
    ended: bool
    interaction: Interaction | None

    @property
    def text(self) -> str:
        """The piece as text with plain line ends; what is no UTF-8 becomes U+FFFD. Escape sequences stay in it."""
        return self.data.decode("utf-8", "replace").replace("\r\n", "\n")


class OutputCursor:
    """A place in the output of one process. Whoever asks for the next piece waits for the one who asked before."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._lock = asyncio.Lock()
        self._offset = 0
        self._written_at = 0
        self._echo = ""

    async def next(self, *, wait: float, settle: float, limit: int) -> ProcessOutputChunk:
        """What came since the last piece; a call that is cancelled takes nothing away. See `read`."""
        async with self._lock:
            piece = await self.read(self._offset, wait=wait, settle=settle, limit=limit)
            self._offset = piece.next_offset
            return piece

    async def read(self, offset: int, *, wait: float, settle: float, limit: int) -> ProcessOutputChunk:
        """Output from a place on, gathered for up to `wait` seconds, up to `limit` bytes, or up to the end.

        Returns early when nothing more has come for `settle` seconds and the command seems to wait for input. A
        character that is not complete yet is left for the next piece.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + wait
        limit = max(limit, 2 * _MAX_CHARACTER_BYTES)
        data, start, end, missed = bytearray(), offset, offset, 0
        asked: Interaction | None = await self._detect_interaction(end)
        while True:
            left = max(deadline - clock(), 0.0)
            output = await self._process.read(end, wait=min(left, settle) if asked else left, limit=limit - len(data))
            if output.missed and data:
                # More came than is kept while we read. What we have is whole; the next piece counts what is not.
                break
            if output.missed:
                start, missed = output.offset, output.missed
            data += output.data
            end = output.next_offset
            if output.ended or not output.data or len(data) >= limit:
                break
            asked = await self._detect_interaction(end)
        complete = len(data) < limit or output.ended
        left_out, kept_back = (
            _count_partial_start(data) if missed else 0,
            0 if output.ended else _count_partial_end(data),
        )
        return ProcessOutputChunk(
            bytes(data[left_out : len(data) - kept_back]),
            start + left_out,
            start + len(data) - kept_back,
            missed + left_out,
            complete,
            output.ended,
            await self._detect_interaction(end) if complete and not output.ended else None,
        )

    async def read_end_offset(self) -> int:
        """How many bytes have been printed until now."""
        return (await self._process.read(_BEYOND, limit=0)).offset

    def record_input(self, data: bytes, at: int) -> None:
        """Input was given after `at` bytes of output: what those asked for is answered, and its echo asks nothing."""
        self._written_at = at
        self._echo = data.decode("utf-8", "replace").replace("\r", "\n") if len(data) <= _MAX_ECHO else ""

    async def _detect_interaction(self, end: int) -> Interaction | None:
        """What the output up to `end` asks for, beginning with the last input."""
        begin = max(self._written_at, end - WINDOW)
        if begin >= end:
            return None
        text = (await self._process.read(begin, limit=end - begin)).data.decode("utf-8", "replace")
        if begin == self._written_at and self._echo:
            text = text.replace("\r\n", "\n").removeprefix(self._echo)
        return detect_interaction(text)


def _count_partial_end(data: bytes | bytearray) -> int:
    """How many bytes at the end are the beginning of something: of a character, or of a line end."""
    if data.endswith(b"\r"):
        return 1
    for back in range(1, min(_MAX_CHARACTER_BYTES, len(data) + 1)):
        byte = data[-back]
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4 if byte < 0xF8 else 0
            return back if back < needed else 0
        if byte < 0x80:
            break
    return 0


def _count_partial_start(data: bytes | bytearray) -> int:
    """How many bytes at the start are the rest of a character whose beginning is lost."""
    for place, byte in enumerate(data[:_MAX_CHARACTER_BYTES]):
        if byte & 0xC0 != 0x80:
            return place
    return 0


FIRST_WAIT = 1.0
WAIT = 0.4
SETTLE = 0.075
LIMIT = 64 * 1024

_WRITE_RETRY_DELAY = 0.01
_NEWLINE, _ENTER = b"\n", b"\r"

ProcessStarter = Callable[[Command], Awaitable[Process]]
"""Starts a command: `Workspace.start`."""


@dataclass(frozen=True, slots=True)
class ProcessOwner:
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

    max_running: int = 64
    max_per_owner: int = 64
    idle_timeout: float = 30 * 60.0
    max_lifetime: float = 6 * 3600.0
    max_ended: int = 32
    ended_ttl: float = 30 * 60.0


@dataclass(frozen=True, slots=True)
class ProcessPollResult:
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
    result: CommandResult | None = None


@dataclass(frozen=True, slots=True)
class ProcessWriteResult:
    """How many bytes a process took of how many, the newline of `submit` included, and what it said then."""

    taken: int
    offered: int
    poll: ProcessPollResult


class _ProcessEntry:
    """One process of the table."""

    def __init__(self, process: Process, owner: ProcessOwner, now: float, terminal: TerminalSize | None) -> None:
        self.process = process
        self.owner = owner
        self.cursor = OutputCursor(process)
        self.viewer = ScreenViewer(process, terminal) if terminal else None
        self.enter = _ENTER if terminal else _NEWLINE
        self.write_lock = asyncio.Lock()
        self.started_at = self.used_at = now
        self.ended_at: float | None = None
        self.expiry_reason = ""
        self.timer: asyncio.TimerHandle | None = None
        self.final: asyncio.Task[CommandResult] | None = None

    async def result(self) -> CommandResult:
        """How it ended, the same for everybody who asks."""
        return await (asyncio.shield(self.final) if self.final else self.process.wait())

    def expire(self, why: str) -> None:
        """End it because nobody wants it any more."""
        self.expiry_reason = why
        self.killing = asyncio.get_running_loop().create_task(self.process.kill())
        self.killing.add_done_callback(_retrieve_exception)


class ProcessTable:
    """The table of a host's interactive processes. It belongs to one event loop."""

    def __init__(self, limits: ProcessLimits | None = None) -> None:
        self._limits = limits or ProcessLimits()
        self._entries: dict[str, _ProcessEntry] = {}
        self._starting: list[ProcessOwner] = []
        self._closed = False

    async def start(self, begin: ProcessStarter, command: Command, owner: ProcessOwner) -> str:
        """Start a command with its input left open, and return its id.

        Raises `TooManyRequests` when as many as allowed are running, and whatever `begin` raises.
        """
        self._check_capacity(owner)
        self._starting.append(owner)
        try:
            process = await begin(replace(command, input_open=True, readable=True))
        finally:
            self._starting.remove(owner)
        if self._closed:
            await process.kill()
            raise ExecutorUnavailable("the table of processes was closed while the command started")
        identity = secrets.token_hex(16)
        entry = _ProcessEntry(process, owner, self._now(), command.terminal)
        self._entries[identity] = entry
        entry.final = asyncio.get_running_loop().create_task(self._wait_for_end(identity, entry))
        entry.final.add_done_callback(_retrieve_exception)
        self._schedule_expiry(identity, entry)
        return identity

    async def poll(
        self,
        identity: str,
        owner: ProcessOwner,
        *,
        wait: float = WAIT,
        settle: float = SETTLE,
        limit: int = LIMIT,
        offset: int | None = None,
    ) -> ProcessPollResult:
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
            begin = min(offset, await entry.cursor.read_end_offset())
            piece = await entry.cursor.read(begin, wait=wait, settle=settle, limit=limit)
        entry.used_at = self._now()
        return await _build_poll_result(entry, piece)

    async def write(
        self,
        identity: str,
        owner: ProcessOwner,
        data: bytes = b"",
        *,
        submit: bool = False,
        close: bool = False,
        wait: float = WAIT,
        settle: float = SETTLE,
        limit: int = LIMIT,
    ) -> ProcessWriteResult:
        """Give input to a process, with Enter after it for `submit`, and poll. Nothing to write is a poll.

        It is tried for `wait` seconds; a process that does not read takes fewer bytes than all, and the rest is the
        caller's to write again. With `close` it sees the end of its input once it has taken everything. A terminal
        that reads whole lines keeps the first 4,095 bytes of each: the kernel takes the others and drops them. Raises
        `InvalidArgument` when the process has ended or its input is closed.
        """
        entry = self._find(identity, owner)
        offered = data + entry.enter if submit else data
        taken = await self._write_input(entry, offered, wait) if offered else 0
        if close and taken == len(offered):
            await entry.process.close_input()
        poll = await self.poll(identity, owner, wait=wait, settle=settle, limit=limit)
        return ProcessWriteResult(taken, len(offered), poll)

    async def resize(self, identity: str, owner: ProcessOwner, rows: int, columns: int) -> None:
        """Change the size of its terminal; raises `InvalidArgument` when it has none."""
        entry = self._find(identity, owner)
        await entry.process.resize(rows, columns)
        if entry.viewer is not None:
            await entry.viewer.resize(TerminalSize(rows, columns))

    async def view(self, identity: str, owner: ProcessOwner, poll: ProcessPollResult) -> ScreenView:
        """What came in a poll as text to be read, and the screen of a full-screen program as it is now.

        Output of pipes is the same text; that of a terminal has no colours, cursor moves and titles in it.
        """
        entry = self._find(identity, owner)
        if entry.viewer is None:
            return ScreenView(poll.data.decode("utf-8", "replace"))
        return await entry.viewer.view_output(poll.offset, poll.data)

    def has_process(self, identity: str, owner: ProcessOwner) -> bool:
        """Whether this owner has such a process, running or ended."""
        entry = self._entries.get(identity)
        return entry is not None and entry.owner == owner

    def list_running(self, owner: ProcessOwner) -> tuple[str, ...]:
        """The processes of an owner that have not ended, the oldest first."""
        mine = (pair for pair in self._entries.items() if pair[1].owner == owner)
        return tuple(identity for identity, entry in mine if entry.ended_at is None)

    async def kill(self, identity: str, owner: ProcessOwner) -> Literal["killed", "exited"]:
        """End a process and everything it started. A second call says the same as the first."""
        entry = self._find(identity, owner)
        await entry.process.kill()
        return "killed" if (await entry.result()).ending is EndReason.KILLED else "exited"

    async def close(self) -> None:
        """End all processes and forget them."""
        self._closed = True
        entries, self._entries = list(self._entries.values()), {}
        for entry in entries:
            if entry.timer is not None:
                entry.timer.cancel()
        await asyncio.gather(*(entry.process.kill() for entry in entries), return_exceptions=True)
        await asyncio.gather(*(entry.result() for entry in entries), return_exceptions=True)

    def _check_capacity(self, owner: ProcessOwner) -> None:
        if self._closed:
            raise ExecutorUnavailable("the table of processes is closed")
        owners = [*self._starting, *(entry.owner for entry in self._entries.values() if entry.ended_at is None)]
        for count, most in ((owners.count(owner), self._limits.max_per_owner), (len(owners), self._limits.max_running)):
            if count >= most:
                raise TooManyRequests(f"{count} processes are running, and {most} is the most; end one and try again")

    def _find(self, identity: str, owner: ProcessOwner) -> _ProcessEntry:
        entry = self._entries.get(identity)
        # Whether somebody else has such a process is nobody's business.
        if entry is None or entry.owner != owner:
            raise InvalidArgument("process", f"there is no process {identity!r}; it was never started or is forgotten")
        entry.used_at = self._now()
        return entry

    async def _write_input(self, entry: _ProcessEntry, data: bytes, wait: float) -> int:
        deadline = self._now() + wait
        async with entry.write_lock:
            printed = await entry.cursor.read_end_offset()
            taken = await entry.process.write(data)
            while taken < len(data) and self._now() < deadline:
                await asyncio.sleep(_WRITE_RETRY_DELAY)
                with suppress(InvalidArgument):
                    taken += await entry.process.write(data[taken:])
                if entry.ended_at is not None:
                    break
            if taken:
                entry.cursor.record_input(data[:taken], printed)
        return taken

    async def _wait_for_end(self, identity: str, entry: _ProcessEntry) -> CommandResult:
        try:
            ended = await entry.process.wait()
        finally:
            entry.ended_at = self._now()
            if identity in self._entries:
                self._schedule_expiry(identity, entry)
                self._forget_oldest()
        return (
            replace(ended, detail=entry.expiry_reason)
            if entry.expiry_reason and ended.ending is EndReason.KILLED
            else ended
        )

    def _forget_oldest(self) -> None:
        ended = [(entry.ended_at, name) for name, entry in self._entries.items() if entry.ended_at is not None]
        for _, name in sorted(ended)[: max(len(ended) - self._limits.max_ended, 0)]:
            self._forget(name)

    def _schedule_expiry(self, identity: str, entry: _ProcessEntry) -> None:
        """See to it that somebody looks again when the process, or what is kept of it, is due."""
        if entry.timer is not None:
            entry.timer.cancel()
        due = self._compute_expiry(entry)[0]
        entry.timer = asyncio.get_running_loop().call_at(due, self._on_expiry_timer, identity, entry)

    def _compute_expiry(self, entry: _ProcessEntry) -> tuple[float, str]:
        limits = self._limits
        if entry.ended_at is not None:
            return entry.ended_at + limits.ended_ttl, ""
        return min(
            (
                entry.used_at + limits.idle_timeout,
                f"nobody asked for it for {limits.idle_timeout:g} seconds, so it was ended",
            ),
            (
                entry.started_at + limits.max_lifetime,
                f"it was ended after {limits.max_lifetime:g} seconds, the most it may run",
            ),
        )

    def _on_expiry_timer(self, identity: str, entry: _ProcessEntry) -> None:
        due, why = self._compute_expiry(entry)
        if due > self._now():
            self._schedule_expiry(identity, entry)
        elif entry.ended_at is not None:
            self._forget(identity)
        elif not entry.expiry_reason:
            entry.expire(why)

    def _forget(self, identity: str) -> None:
        timer = self._entries.pop(identity).timer
        if timer is not None:
            timer.cancel()

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


async def _build_poll_result(entry: _ProcessEntry, piece: ProcessOutputChunk) -> ProcessPollResult:
    exited = piece.ended or entry.ended_at is not None
    return ProcessPollResult(
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


def _retrieve_exception(task: "asyncio.Task[CommandResult] | asyncio.Task[None]") -> None:
    """Whoever asks for the result hears how it failed; asyncio need not complain when nobody does."""
    if not task.cancelled():
        task.exception()


ResultFormatter: TypeAlias = Callable[[RunResult], Mapping[str, Any]]
"""What somebody is told about a result, as plain JSON values."""


@dataclass(frozen=True, slots=True)
class _InteractiveCommand:
    """What becomes of a command: its result, and how that is told."""

    result: asyncio.Task[RunResult]
    format_result: ResultFormatter


class InteractiveCommands:
    """The interactive commands of one owner. They are in `processes`, which a host has one of."""

    def __init__(self, bench: CommandRunner, processes: ProcessTable, owner: ProcessOwner) -> None:
        self._runner = bench
        self._processes = processes
        self._owner = owner
        self._commands: dict[str, _InteractiveCommand] = {}

    def with_runner(self, bench: CommandRunner) -> "InteractiveCommands":
        """The same commands; those that are started from here on follow the rules of another workbench."""
        other = copy(self)
        other._runner = bench  # noqa: SLF001 - a copy of ourselves
        return other

    async def start(self, request: RunRequest, tell: ResultFormatter = result_to_json) -> str:
        """Start a command with its input left open, and return its id. Raises what `CommandRunner.start` raises.

        `tell` is what `told` makes of the result, whoever asks for it later.
        """
        begun: list[ActiveCommand] = []

        async def begin(command: Command) -> Process:
            del command  # made of the request, by the workbench
            begun.append(await self._runner.start(replace(request, input_open=True, readable=True)))
            return begun[0].process

        wanted = Command(("interactive",), terminal=request.terminal)
        identity = await self._processes.start(begin, wanted, self._owner)
        # Whether anybody asks or not: what it made is collected when it ends.
        result = asyncio.get_running_loop().create_task(self._runner.finish(begun[0]))
        result.add_done_callback(_retrieve_result_exception)
        self._forget_ended()
        self._commands[identity] = _InteractiveCommand(result, tell)
        return identity

    async def poll(
        self,
        identity: str,
        *,
        wait: float = WAIT,
        settle: float = SETTLE,
        limit: int = LIMIT,
        offset: int | None = None,
    ) -> ProcessPollResult:
        """See `ProcessTable.poll`."""
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
    ) -> ProcessWriteResult:
        """See `ProcessTable.write`."""
        return await self._processes.write(
            identity, self._owner, data, submit=submit, close=close, wait=wait, limit=limit
        )

    async def view(self, identity: str, poll: ProcessPollResult) -> ScreenView:
        """See `ProcessTable.view`."""
        return await self._processes.view(identity, self._owner, poll)

    def has_command(self, identity: str) -> bool:
        """Whether such a command was started here, and is not forgotten."""
        return identity in self._commands and self._processes.has_process(identity, self._owner)

    def list_running(self) -> tuple[str, ...]:
        """The commands that have not ended, the oldest first."""
        return tuple(identity for identity in self._processes.list_running(self._owner) if identity in self._commands)

    async def resize(self, identity: str, rows: int, columns: int) -> None:
        """See `ProcessTable.resize`."""
        await self._processes.resize(identity, self._owner, rows, columns)

    async def kill(self, identity: str) -> Literal["killed", "exited"]:
        """See `ProcessTable.kill`."""
        return await self._processes.kill(identity, self._owner)

    async def result(self, identity: str) -> RunResult:
        """How it ended and what it made, once it has. Raises `InvalidArgument` when there is no such command."""
        await self._processes.poll(identity, self._owner, wait=0, offset=0, limit=0)
        return await asyncio.shield(self._commands[identity].result)

    async def describe(self, identity: str) -> Mapping[str, Any]:
        """The result as whoever started the command wanted it to be told; the same every time."""
        result = await self.result(identity)
        return self._commands[identity].format_result(result)

    async def close(self) -> None:
        """End all commands of this owner, and wait until what they made is collected."""
        await asyncio.gather(*map(self.kill, self.list_running()), return_exceptions=True)
        await asyncio.gather(*(talk.result for talk in self._commands.values()), return_exceptions=True)

    def _forget_ended(self) -> None:
        """What the table of processes has forgotten nobody can ask for."""
        for identity in [
            one for one, talk in self._commands.items() if talk.result.done() and not self.has_command(one)
        ]:
            del self._commands[identity]


def _retrieve_result_exception(task: asyncio.Task[RunResult]) -> None:
    """Whoever asks for the result hears how it failed; asyncio need not complain when nobody does."""
    if not task.cancelled():
        task.exception()
