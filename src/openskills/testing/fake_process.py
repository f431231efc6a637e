"""A command that is only told: what it writes, how it ends, what it answers."""

import asyncio
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from openskills.errors import InvalidArgument
from openskills.executors.processes.capture import Capture, Ring
from openskills.executors.spec import Command, Ended, Ending, Output, Stream, Terminal

_TERMINATED = 143


@dataclass(frozen=True, slots=True)
class FakeRun:
    """What a command does. `files` are put into the workspace when it starts, by their paths in it.

    After each line that it is given it writes the next of the `replies` to its stdout, and ends after the last one, or
    at the end of its input. With `forever` it does not end by itself: its deadline or a kill ends it. `ending` and
    `detail` are for a run that an executor has ended, by a limit for example.
    """

    stdout: bytes = b""
    stderr: bytes = b""
    exit_code: int = 0
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    replies: tuple[bytes, ...] = ()
    forever: bool = False
    ending: Ending = Ending.EXITED
    detail: str = ""
    duration_ms: int = 1


class FakeProcess:
    """Plays a `FakeRun`; implements `Process`. `written` is all input that it was given. Nothing is echoed."""

    def __init__(self, command: Command, run: FakeRun) -> None:
        loop = asyncio.get_running_loop()
        size = command.limits.output_bytes
        self._run = run
        self._replies = list(run.replies)
        self._captures = {Stream.STDOUT: Capture(size), Stream.STDERR: Capture(size)}
        interactive = command.readable or command.input_open or command.terminal is not None
        kept = tuple(Stream) if command.readable else (Stream.BOTH,) if interactive else ()
        self._rings = {stream: Ring(size) for stream in kept}
        self._input = command.input_open or command.terminal is not None
        self._ended: asyncio.Future[Ended] = loop.create_future()
        self._more = asyncio.Event()
        self._deadline = loop.call_later(command.limits.timeout, self._time_is_up, command.limits.timeout)
        self.terminal = command.terminal
        self.written = b""
        self.id = secrets.token_hex(8)
        self._say(Stream.STDOUT, run.stdout)
        self._say(Stream.STDERR, run.stderr)
        self._hear(command.stdin)
        if not self._input:
            self._see_end_of_input()
        self._end_when_done()

    async def write(self, data: bytes) -> int:
        """See `Process.write`; everything is taken."""
        if self._ended.done():
            raise InvalidArgument("process", "has ended, and reads no more input")
        if not self._input:
            raise InvalidArgument("input", "is closed; start the command with its input left open")
        self._hear(data)
        self._end_when_done()
        return len(data)

    async def close_input(self) -> None:
        """See `Process.close_input`."""
        if self._input:
            self._input = self.terminal is not None
            self._see_end_of_input()
            self._end_when_done()

    async def read(self, offset: int, *, wait: float = 0.0, limit: int = 65536, stream: Stream = Stream.BOTH) -> Output:
        """See `Process.read`."""
        ring = self._rings.get(stream)
        if ring is None:
            raise InvalidArgument("process", "was not started to be read while it runs; wait for its result")
        if offset < 0:
            raise InvalidArgument("offset", f"{offset} is negative")
        with suppress(TimeoutError):
            async with asyncio.timeout(wait):
                while wait > 0 and offset >= ring.total and not self._ended.done():
                    await self._more.wait()
        return ring.read(offset, limit, ended=self._ended.done())

    async def resize(self, rows: int, columns: int) -> None:
        """See `Process.resize`."""
        if self.terminal is None:
            raise InvalidArgument("process", "has no terminal")
        if rows < 1 or columns < 1:
            raise InvalidArgument("terminal", f"{rows} by {columns} is no size; use something like 24 by 80")
        self.terminal = Terminal(rows, columns)

    async def kill(self) -> None:
        """See `Process.kill`."""
        self._end(_TERMINATED, Ending.KILLED, "it was ended by request")

    async def wait(self) -> Ended:
        """See `Process.wait`."""
        return await asyncio.shield(self._ended)

    def when_ended(self, act: Callable[["FakeProcess"], None]) -> None:
        """Call this with the process once it has ended."""
        self._ended.add_done_callback(lambda _: act(self))

    def _hear(self, data: bytes) -> None:
        self.written += data
        for _ in range(data.count(b"\n") + data.count(b"\r")):
            if self._replies:
                self._say(Stream.STDOUT, self._replies.pop(0))

    def _say(self, stream: Stream, data: bytes) -> None:
        captured = Stream.STDOUT if self.terminal else stream
        self._captures[captured].add(data)
        for one in {Stream.BOTH, captured} & self._rings.keys():
            self._rings[one].add(data)
        self._more.set()
        self._more = asyncio.Event()

    def _see_end_of_input(self) -> None:
        self._replies.clear()

    def _end_when_done(self) -> None:
        if not self._replies and not self._run.forever:
            self._end(self._run.exit_code, self._run.ending, self._run.detail)

    def _time_is_up(self, timeout: float) -> None:
        self._end(_TERMINATED, Ending.TIMED_OUT, f"it did not end within {timeout:g} seconds")

    def _end(self, code: int, ending: Ending, detail: str) -> None:
        if self._ended.done():
            return
        self._deadline.cancel()
        stdout, stderr = (capture.captured() for capture in self._captures.values())
        self._ended.set_result(Ended(code, ending, self._run.duration_ms, stdout, stderr, detail=detail))
        self._more.set()
