"""Interactive commands: start, poll, write input and kill by an id that only the owner can use.

`ProcessTable` holds the processes of a host, `OwnedProcesses` gives access to those of one owner. `InteractiveCommands`
runs a session's commands there, under the rules of its `CommandRunner`, with audit log, outputs and artifacts.
"""

import asyncio
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from openskills.arguments import check_arguments
from openskills.errors import ExecutorUnavailable, InvalidArgument, TooManyRequests
from openskills.executors.commands import ActiveCommand, CommandRunner
from openskills.executors.protocol import Process
from openskills.executors.records.journal import result_to_json
from openskills.executors.requests import RunRequest, RunResult
from openskills.executors.spec import (
    CommandResult,
    EndReason,
    ProcessOutput,
    TerminalSize,
    count_partial_end,
    count_partial_start,
)
from openskills.executors.supervisor import retrieve_exception, spawn_task
from openskills.executors.terminal import ScreenView, ScreenViewer

WINDOW = 16 * 1024
"""How many characters at the end of the output are inspected."""

_MENU_LINES = 40
_MAX_HINT = 200
# Every part is optional, so that an unterminated sequence does not cause backtracking.
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]?"  # colors, cursor
    r"|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # titles, links, the clipboard
    r"|\x1b[ -/]*[0-~]?"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_CHOICE = re.compile(r"\s{0,8}\d{1,3}[.)](?!\d)")
_SELECTIONS = ("enter the number", "choose a number", "select a number")
_REQUESTS = ("press enter", "type your")
_PROMPT_ENDS = (":", "?")
# These also end ordinary lines, so they count only on an unfinished line.
_OPEN_PROMPT_ENDS = ("[y/n]", "(y/n)", "(yes/no)", "[yes/no]", "> ", "$ ", "# ")


@dataclass(frozen=True, slots=True)
class Interaction:
    """The command seems to wait for input: a choice from a list, or an answer. `hint` is the line with the prompt."""

    kind: Literal["selection", "prompt"]
    hint: str
    needs_input: bool = True


def detect_interaction(output: str) -> Interaction | None:
    """What a running command waits for, judged by its output since the last input; None if it does not seem to wait."""
    lines = _render_lines(output[-WINDOW:])
    spoken = [line for line in lines if line.strip()]
    if not spoken:
        return None
    last = spoken[-1].lower()
    ends = (*_PROMPT_ENDS, *(_OPEN_PROMPT_ENDS if lines[-1] is spoken[-1] else ()))
    choices = sum(1 for line in spoken[-_MENU_LINES:] if _CHOICE.match(line))
    kind: Literal["selection", "prompt"] | None = None
    if choices > 1 or any(words in last for words in _SELECTIONS):
        kind = "selection"
    elif last.endswith(ends) or last.rstrip().endswith(ends) or any(words in last for words in _REQUESTS):
        kind = "prompt"
    return Interaction(kind, spoken[-1].strip()[:_MAX_HINT]) if kind else None


def _render_lines(text: str) -> list[str]:
    """The lines as a terminal shows them: without colors, and only what follows the last carriage return."""
    plain = _ESCAPES.sub("", text).replace("\r\n", "\n")
    return [_CONTROL.sub("", line.rstrip("\r").rpartition("\r")[2]) for line in plain.split("\n")]


_MAX_CHARACTER_BYTES = 4
_MAX_ECHO = 4096
_BEYOND = 1 << 62
_MIN_PAUSE, _MAX_PAUSE = 0.004, 0.1


@dataclass(frozen=True, slots=True)
class ProcessPollResult(ProcessOutput):
    """Output of a process; `more` means that there is unread output.

    `result` is set once the process has exited, in every poll of it from then on.
    """

    more: bool = False
    interaction: Interaction | None = None
    result: CommandResult | None = None

    @property
    def status(self) -> Literal["running", "exited"]:
        """Whether the process is known to have exited."""
        return "running" if self.result is None else "exited"

    @property
    def output(self) -> str:
        """The bytes as text with plain newlines; invalid UTF-8 becomes U+FFFD. Escape sequences are kept."""
        return self.data.decode("utf-8", "replace").replace("\r\n", "\n")


class OutputCursor:
    """A position in the output of one process. Concurrent reads of the next chunk are serialized."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._lock = asyncio.Lock()
        self._offset = 0
        self._written_at = 0
        self._echo = ""

    async def next(self, *, wait: float, settle: float, limit: int) -> ProcessPollResult:
        """The output since the last chunk. A cancelled call consumes nothing. See `read`."""
        async with self._lock:
            piece = await self.read(self._offset, wait=wait, settle=settle, limit=limit)
            self._offset = piece.next_offset
            return piece

    async def read(self, offset: int, *, wait: float, settle: float, limit: int) -> ProcessPollResult:
        """Output from an offset on, collected for up to `wait` seconds, up to `limit` bytes, or up to the end.

        Returns early when the command is blocked in a read of its input, or when it seems to wait for input and has
        printed nothing for `settle` seconds. An incomplete character is left for the next chunk.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + wait
        limit = max(limit, 2 * _MAX_CHARACTER_BYTES)
        data, start, end, missed = bytearray(), offset, offset, 0
        asked: Interaction | None = await self._detect_interaction(end)
        while True:
            left = max(deadline - clock(), 0.0)
            output = await self._read_until_blocked(end, min(left, settle) if asked else left, limit - len(data))
            if output.missed and data:
                # The buffer overflowed while we read. Return what we have; the next chunk reports the gap.
                break
            if output.missed:
                start, missed = output.offset, output.missed
            data += output.data
            end = output.next_offset
            if output.ended or not output.data or len(data) >= limit:
                break
            asked = await self._detect_interaction(end)
        more = len(data) >= limit and not output.ended
        left_out = count_partial_start(data) if missed else 0
        # Half of a line end, too.
        kept_back = 0 if output.ended else 1 if data.endswith(b"\r") else count_partial_end(data)
        return ProcessPollResult(
            bytes(data[left_out : len(data) - kept_back]),
            start + left_out,
            start + len(data) - kept_back,
            missed + left_out,
            output.ended,
            more,
            None if more or output.ended else await self._detect_interaction(end),
        )

    async def _read_until_blocked(self, offset: int, wait: float, limit: int) -> ProcessOutput:
        """Like `Process.read`, but returns as soon as the command is blocked in a read of its input."""
        clock = asyncio.get_running_loop().time
        deadline, pause = clock() + wait, _MIN_PAUSE
        while True:
            left = max(deadline - clock(), 0.0)
            output = await self._process.read(offset, wait=min(left, pause), limit=limit)
            if output.data or output.ended or left <= pause:
                return output
            asked = clock()
            if await self._process.is_waiting():
                # The terminal may not have passed on its last output yet, which takes longer on a busy machine, as the
                # question does.
                return await self._process.read(offset, wait=max(_MIN_PAUSE, clock() - asked), limit=limit)
            pause = min(2 * pause, _MAX_PAUSE)

    async def read_end_offset(self) -> int:
        """How many bytes have been printed so far."""
        return (await self._process.read(_BEYOND, limit=0)).offset

    def record_input(self, data: bytes, at: int) -> None:
        """Record input that was written after `at` bytes of output; earlier prompts and the echo are then ignored."""
        self._written_at = at
        self._echo = data.decode("utf-8", "replace").replace("\r", "\n") if len(data) <= _MAX_ECHO else ""

    async def _detect_interaction(self, end: int) -> Interaction | None:
        begin = max(self._written_at, end - WINDOW)
        if begin >= end:
            return None
        text = (await self._process.read(begin, limit=end - begin)).data.decode("utf-8", "replace")
        if begin == self._written_at and self._echo:
            text = text.replace("\r\n", "\n").removeprefix(self._echo)
        return detect_interaction(text)


FIRST_WAIT = 1.0
WAIT = 0.4
SETTLE = 0.075
LIMIT = 64 * 1024

_WRITE_RETRY_DELAY = 0.01
_NEWLINE, _ENTER = b"\n", b"\r"


@dataclass(frozen=True, slots=True)
class ProcessOwner:
    """The owner of a process, which does not exist for anyone else."""

    app: str
    user: str
    session: str
    agent: str


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """How many processes may run at once, in total and per owner, and for how long, in seconds.

    `idle_timeout` is the time without any call for a process. `max_ended` results are kept, for `ended_ttl` seconds.
    """

    max_running: int = 64
    max_per_owner: int = 64
    idle_timeout: float = 30 * 60.0
    max_lifetime: float = 6 * 3600.0
    max_ended: int = 32
    ended_ttl: float = 30 * 60.0


@dataclass(frozen=True, slots=True)
class ProcessWriteResult:
    """How many of the offered bytes the process took (with the newline of `submit`), and its output after that."""

    taken: int
    offered: int
    poll: ProcessPollResult


def _now() -> float:
    return asyncio.get_running_loop().time()


class _ProcessEntry:
    final: asyncio.Task[CommandResult]
    expiry: asyncio.Task[None]

    def __init__(self, process: Process, owner: ProcessOwner, terminal: TerminalSize | None) -> None:
        self.process = process
        self.owner = owner
        self.cursor = OutputCursor(process)
        self.viewer = ScreenViewer(process, terminal) if terminal else None
        self.enter = _ENTER if terminal else _NEWLINE
        self.write_lock = asyncio.Lock()
        self.started_at = self.used_at = _now()
        self.ended_at: float | None = None
        self.expiry_reason = ""

    async def result(self) -> CommandResult:
        return await asyncio.shield(self.final)

    async def write(self, data: bytes, wait: float) -> int:
        deadline = _now() + wait
        async with self.write_lock:
            printed = await self.cursor.read_end_offset()
            taken = await self.process.write(data)
            while taken < len(data) and _now() < deadline:
                await asyncio.sleep(_WRITE_RETRY_DELAY)
                with suppress(InvalidArgument):
                    taken += await self.process.write(data[taken:])
                if self.ended_at is not None:
                    break
            if taken:
                self.cursor.record_input(data[:taken], printed)
        return taken


class ProcessTable:
    """The interactive processes of a host. It belongs to one event loop."""

    def __init__(self, limits: ProcessLimits | None = None) -> None:
        self._limits = limits or ProcessLimits()
        self._entries: dict[str, _ProcessEntry] = {}
        self._starting: list[ProcessOwner] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    async def start(
        self, begin: Callable[[], Awaitable[Process]], owner: ProcessOwner, terminal: TerminalSize | None = None
    ) -> str:
        """Let `begin` start a command with open input and readable output, and return its id.

        Raises `TooManyRequests` if a limit is reached, and whatever `begin` raises.
        """
        self._check_capacity(owner)
        self._starting.append(owner)
        try:
            process = await begin()
        finally:
            self._starting.remove(owner)
        if self._closed:
            await process.kill()
            raise ExecutorUnavailable("the process table was closed while the command started")
        identity = secrets.token_hex(16)
        entry = _ProcessEntry(process, owner, terminal)
        self._entries[identity] = entry
        entry.final = spawn_task(self._wait_for_end(entry), self._tasks)
        entry.expiry = spawn_task(self._expire(identity, entry), self._tasks)
        return identity

    def has_process(self, identity: str, owner: ProcessOwner) -> bool:
        """Whether this owner has such a process, running or ended."""
        entry = self._entries.get(identity)
        return entry is not None and entry.owner == owner

    def find(self, identity: str, owner: ProcessOwner) -> _ProcessEntry:
        """A process, which is not idle now. Raises `InvalidArgument` if the owner has no such process."""
        # Do not reveal whether another owner has such a process.
        if not self.has_process(identity, owner):
            raise InvalidArgument(
                "process", f"unknown process {identity!r}; it was never started, or its result has expired"
            )
        self._entries[identity].used_at = _now()
        return self._entries[identity]

    def list_running(self, owner: ProcessOwner) -> tuple[str, ...]:
        """The running processes of an owner, oldest first."""
        mine = (pair for pair in self._entries.items() if pair[1].owner == owner)
        return tuple(identity for identity, entry in mine if entry.ended_at is None)

    def count_running(self, app: str, user: str) -> int:
        """How many processes of a user are running or starting, in all sessions."""
        return sum((owner.app, owner.user) == (app, user) for owner in self._list_owners())

    async def close(self) -> None:
        """Kill and forget all processes."""
        self._closed = True
        entries, self._entries = list(self._entries.values()), {}
        for entry in entries:
            entry.expiry.cancel()
        await asyncio.gather(*(entry.process.kill() for entry in entries), return_exceptions=True)
        await asyncio.gather(*(entry.result() for entry in entries), return_exceptions=True)

    def _check_capacity(self, owner: ProcessOwner) -> None:
        if self._closed:
            raise ExecutorUnavailable("the process table is closed")
        owners, limits = self._list_owners(), self._limits
        for count, limit in ((owners.count(owner), limits.max_per_owner), (len(owners), limits.max_running)):
            if count >= limit:
                raise TooManyRequests(f"{count} processes are running, the limit is {limit}; kill one and try again")

    def _list_owners(self) -> list[ProcessOwner]:
        """The owner of each process that is starting or running."""
        return [*self._starting, *(entry.owner for entry in self._entries.values() if entry.ended_at is None)]

    async def _wait_for_end(self, entry: _ProcessEntry) -> CommandResult:
        try:
            ended = await entry.process.wait()
        finally:
            entry.ended_at = _now()
            done = [(one.ended_at, name) for name, one in self._entries.items() if one.ended_at is not None]
            for _, name in sorted(done)[: max(len(done) - self._limits.max_ended, 0)]:
                self._entries.pop(name).expiry.cancel()
        expired = entry.expiry_reason and ended.ending is EndReason.KILLED
        return replace(ended, detail=entry.expiry_reason) if expired else ended

    async def _expire(self, identity: str, entry: _ProcessEntry) -> None:
        """Kill a process that nobody uses any more, and forget its result some time after the end."""
        idle, lifetime = self._limits.idle_timeout, self._limits.max_lifetime
        while not entry.final.done():
            due, why = min(
                (entry.used_at + idle, f"killed after {idle:g} s without a poll or input"),
                (entry.started_at + lifetime, f"killed after {lifetime:g} s, the maximum lifetime"),
            )
            if due <= _now():
                entry.expiry_reason = why
                spawn_task(entry.process.kill(), self._tasks)
                await asyncio.wait([entry.final])
            else:
                await asyncio.wait([entry.final], timeout=due - _now())
        await asyncio.sleep(self._limits.ended_ttl)
        self._entries.pop(identity, None)


class OwnedProcesses:
    """The interactive processes of one owner, in a table that the whole host shares."""

    def __init__(self, processes: ProcessTable, owner: ProcessOwner) -> None:
        self._processes = processes
        self._owner = owner

    async def poll(
        self, identity: str, *, wait: float = WAIT, limit: int = LIMIT, offset: int | None = None
    ) -> ProcessPollResult:
        """The output since the last poll or, with `offset`, from that byte on, without affecting other polls.

        Waits up to `wait` seconds, less when the command exits or waits for input, or when it seems to wait for input
        and has printed nothing for a moment. An offset beyond the end means the end. Raises `InvalidArgument`
        if the owner has no such process.
        """
        entry = self._processes.find(identity, self._owner)
        # Let other tasks run, even if the caller polls in a loop and there is always output.
        await asyncio.sleep(0)
        if offset is None:
            piece = await entry.cursor.next(wait=wait, settle=SETTLE, limit=limit)
        else:
            begin = min(offset, await entry.cursor.read_end_offset())
            piece = await entry.cursor.read(begin, wait=wait, settle=SETTLE, limit=limit)
        entry.used_at = _now()
        if piece.ended or entry.ended_at is not None:
            return replace(piece, more=not piece.ended, interaction=None, result=await entry.result())
        return piece

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
        """Write input, followed by Enter if `submit` is set, and poll. Without input, this is a poll.

        Retries for `wait` seconds; a process that does not read may take only part of the data, and the caller writes
        the rest again. With `close`, its input is closed after everything was taken. A terminal in line mode keeps the
        first 4,095 bytes of a line; the kernel drops the others. Raises `InvalidArgument` if the process has ended or
        its input is closed.
        """
        entry = self._processes.find(identity, self._owner)
        offered = data + entry.enter if submit else data
        taken = await entry.write(offered, wait) if offered else 0
        if close and taken == len(offered):
            await entry.process.close_input()
        poll = await self.poll(identity, wait=wait, limit=limit)
        return ProcessWriteResult(taken, len(offered), poll)

    async def resize(self, identity: str, rows: int, columns: int) -> None:
        """Change the size of its terminal; raises `InvalidArgument` if it has none."""
        entry = self._processes.find(identity, self._owner)
        await entry.process.resize(rows, columns)
        if entry.viewer is not None:
            await entry.viewer.resize(TerminalSize(rows, columns))

    async def view(self, identity: str, poll: ProcessPollResult) -> ScreenView:
        """The output of a poll as plain text, and the current screen of a full-screen program.

        Terminal output is stripped of colors, cursor movements and titles.
        """
        entry = self._processes.find(identity, self._owner)
        if entry.viewer is None:
            return ScreenView(poll.data.decode("utf-8", "replace"))
        return await entry.viewer.view_output(poll.offset, poll.data)

    async def kill(self, identity: str) -> Literal["killed", "exited"]:
        """Kill a process and everything it started. Safe to call twice."""
        entry = self._processes.find(identity, self._owner)
        await entry.process.kill()
        return "killed" if (await entry.result()).ending is EndReason.KILLED else "exited"


ResultFormatter: TypeAlias = Callable[[RunResult], Mapping[str, Any]]
"""Converts a result to plain JSON values."""


@dataclass(frozen=True, slots=True)
class _InteractiveCommand:
    result: asyncio.Task[RunResult]
    format_result: ResultFormatter


@check_arguments
class InteractiveCommands(OwnedProcesses):
    """The interactive commands of one owner, in a process table that the whole host shares."""

    def __init__(self, runner: CommandRunner, processes: ProcessTable, owner: ProcessOwner) -> None:
        super().__init__(processes, owner)
        self._runner = runner
        self._commands: dict[str, _InteractiveCommand] = {}

    def with_runner(self, runner: CommandRunner) -> "InteractiveCommands":
        """The same commands; new ones are started by another runner."""
        other = copy(self)
        other._runner = runner  # noqa: SLF001 - a copy of ourselves
        return other

    async def start(self, request: RunRequest, format_result: ResultFormatter = result_to_json) -> str:
        """Start a command with open input, and return its id. Raises what `CommandRunner.start` raises.

        `format_result` converts the result for `describe`.
        """
        begun: list[ActiveCommand] = []

        async def begin() -> Process:
            begun.append(await self._runner.start(replace(request, input_open=True, readable=True)))
            return begun[0].process

        identity = await self._processes.start(begin, self._owner, request.terminal)
        # Outputs are collected when the command ends, even if nothing awaits the result.
        result = asyncio.get_running_loop().create_task(self._runner.finish(begun[0]))
        result.add_done_callback(retrieve_exception)
        ended = [one for one, command in self._commands.items() if command.result.done() and not self.has_command(one)]
        for one in ended:
            del self._commands[one]
        self._commands[identity] = _InteractiveCommand(result, format_result)
        return identity

    def has_command(self, identity: str) -> bool:
        """Whether such a command was started here and is still known."""
        return identity in self._commands and self._processes.has_process(identity, self._owner)

    def list_running(self) -> tuple[str, ...]:
        """The running commands, oldest first."""
        return tuple(identity for identity in self._processes.list_running(self._owner) if identity in self._commands)

    async def result(self, identity: str) -> RunResult:
        """The result of a command that has ended. Raises `InvalidArgument` for an unknown id."""
        self._processes.find(identity, self._owner)
        return await asyncio.shield(self._commands[identity].result)

    async def describe(self, identity: str) -> Mapping[str, Any]:
        """The result in the format that was chosen at the start."""
        result = await self.result(identity)
        return self._commands[identity].format_result(result)

    async def close(self) -> None:
        """Kill all commands of this owner, and wait until their outputs are collected."""
        await asyncio.gather(*map(self.kill, self.list_running()), return_exceptions=True)
        await asyncio.gather(*(command.result for command in self._commands.values()), return_exceptions=True)
