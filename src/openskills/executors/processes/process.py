"""One command with its pipes or its terminal: captured in bounded memory, ended in time."""

import asyncio
import fcntl
import os
import secrets
import signal
import struct
import termios
from collections.abc import Awaitable, Callable
from contextlib import suppress

from openskills.errors import ExecutorUnavailable, InvalidArgument
from openskills.executors.processes.capture import Capture, Ring
from openskills.executors.processes.keeping import Exit, Kept
from openskills.executors.processes.streams import Reader, Writer
from openskills.executors.spec import Command, Ended, Ending, Output, Stream, Terminal

_CTRL_D = b"\x04"
_GIVE_UP = 3.0
_KILL_AGAIN = 0.1
_BEGIN_TO_WATCH = 0.05
_LAUNCH_MAY_TAKE = 30
_EXCERPT = 500

Launch = Callable[[tuple[int, int, int]], Awaitable[Kept]]
"""Starts the command with these descriptors as its stdin, stdout and stderr."""


Watch = Callable[[Kept], Awaitable[str]]
"""Looks after a running command; returns a sentence when the command has to be ended."""


class HostProcess:
    """A command that runs on this machine. Implements `Process`."""

    def __init__(self, command: Command) -> None:
        self._loop = asyncio.get_running_loop()
        self._limits = command.limits
        self._terminal = command.terminal is not None
        self._begun = self._loop.time()
        self._stdout = Capture(self._limits.output_bytes)
        self._stderr = Capture(self._limits.output_bytes)
        interactive = command.readable or command.input_open or self._terminal
        self._rings = _rings(self._limits.output_bytes, both=interactive, each=command.readable)
        self._more = asyncio.Event()
        self._ended: asyncio.Future[Ended] = self._loop.create_future()
        self._ending = Ending.EXITED
        self._detail = ""
        self._readers: list[Reader] = []
        self._writer: Writer | None = None
        self._kept: Kept | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._first_look: asyncio.TimerHandle | None = None
        self.id = secrets.token_hex(8)

    @classmethod
    async def begin(cls, command: Command, launch: Launch, watch: Watch | None = None) -> "HostProcess":
        """Start a command, with pipes or with a terminal of its own. The deadline counts from here."""
        process = cls(command)
        with Stdio(command) as stdio:
            process._kept = kept = await _in_time(launch(stdio.theirs), command.limits.timeout + _GIVE_UP)
            try:
                process._connect(stdio, command)
            except OSError as error:
                kept.signal(signal.SIGKILL)
                raise ExecutorUnavailable(f"the command was ended, it cannot be followed: {error.strerror}") from None
        process._deadline = process._loop.call_at(process._begun + command.limits.timeout, process._time_is_up)
        process._follow(kept, watch)
        return process

    async def write(self, data: bytes) -> int:
        """See `Process.write`."""
        if self._ended.done():
            raise InvalidArgument("process", "has ended, and reads no more input")
        if self._writer is None or self._writer.closed:
            raise InvalidArgument("input", "is closed; start the command with its input left open")
        return self._writer.offer(data)

    async def close_input(self) -> None:
        """See `Process.close_input`."""
        if self._writer is None or self._writer.closed:
            return
        if self._terminal:
            self._writer.offer(_CTRL_D)
        else:
            self._writer.finish()

    async def read(self, offset: int, *, wait: float = 0.0, limit: int = 65536, stream: Stream = Stream.BOTH) -> Output:
        """See `Process.read`."""
        ring = self._rings.get(stream)
        if ring is None:
            raise InvalidArgument("process", "was not started to be read while it runs; wait for its result")
        if offset < 0:
            raise InvalidArgument("offset", f"{offset} is negative")
        if wait > 0 and not self._ended.done():
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    while offset >= ring.total and not self._ended.done():
                        await self._more.wait()
        return ring.read(offset, limit, ended=self._ended.done())

    async def resize(self, rows: int, columns: int) -> None:
        """See `Process.resize`."""
        if not self._terminal:
            raise InvalidArgument("process", "has no terminal")
        if not self._ended.done():
            fcntl.ioctl(self._readers[0].descriptor, termios.TIOCSWINSZ, _packed(Terminal(rows, columns)))

    async def kill(self) -> None:
        """See `Process.kill`."""
        self._stop(Ending.KILLED, "it was ended by request")
        await self.wait()

    async def wait(self) -> Ended:
        """See `Process.wait`."""
        return await asyncio.shield(self._ended)

    def when_ended(self, act: Callable[["HostProcess"], None]) -> None:
        """Call this with the process once it has ended."""
        self._ended.add_done_callback(lambda _: act(self))

    def _connect(self, stdio: "Stdio", command: Command) -> None:
        self._readers = [Reader(stdio.stdout, self._hear_stdout)]
        if stdio.stderr >= 0:
            self._readers.append(Reader(stdio.stderr, self._hear_stderr))
        if stdio.stdin >= 0:
            self._writer = Writer(stdio.stdin, command.stdin, keep_open=command.input_open or self._terminal)
        stdio.keep()

    def _hear_stdout(self, data: bytes) -> bool:
        return self._hear(self._stdout, Stream.STDOUT, data)

    def _hear_stderr(self, data: bytes) -> bool:
        return self._hear(self._stderr, Stream.STDERR, data)

    def _hear(self, capture: Capture, stream: Stream, data: bytes) -> bool:
        """Take in output; true when the stream may be read more slowly, because nothing of it is kept any more."""
        capture.add(data)
        for kept in (Stream.BOTH, stream):
            if kept in self._rings:
                self._rings[kept].add(data)
        if self._rings:
            self._wake()
        return capture.full

    def _wake(self) -> None:
        self._more.set()
        self._more = asyncio.Event()

    def _follow(self, kept: Kept, watch: Watch | None) -> None:
        kept.then(lambda end: self._see_it_end(kept, end))
        if watch is not None:
            # Most commands end before somebody has to begin to look after them.
            self._first_look = self._loop.call_later(_BEGIN_TO_WATCH, self._begin_to_watch, kept, watch)

    def _begin_to_watch(self, kept: Kept, watch: Watch) -> None:
        self._watching = self._loop.create_task(self._see_it_behave(kept, watch))

    def _see_it_end(self, kept: Kept, end: Exit) -> None:
        duration = self._loop.time() - (kept.ready_at or self._begun)
        for going_on in (self._deadline, self._first_look, self._watching, self._stopping):
            if going_on is not None:
                going_on.cancel()
        for reader in self._readers:
            reader.drain()
        if self._writer is not None:
            self._writer.close()
        fault = next((reader.fault for reader in self._readers if reader.fault), None)
        if fault is not None:
            self._fail(ExecutorUnavailable(f"the command has ended, and its output cannot be read: {fault.strerror}"))
        elif end.was_ready or self._ending is not Ending.EXITED:
            self._ended.set_result(self._result(end, duration))
        else:
            self._fail(_not_set_up(end, self._stderr))
        self._wake()

    def _fail(self, error: ExecutorUnavailable) -> None:
        self._ended.set_exception(error)
        # Whoever waits hears it; asyncio need not complain when nobody does.
        self._ended.exception()

    def _result(self, end: Exit, duration: float) -> Ended:
        ending, detail = self._ending, self._detail
        if end.lost and ending is Ending.EXITED:
            ending, detail = Ending.INTERRUPTED, "the process that looked after it has ended"
        if not end.clean:
            detail = f"{detail}; some of its processes could not be ended".lstrip("; ")
        code = 128 - end.status if end.status < 0 else end.status
        captured = (self._stdout.captured(), self._stderr.captured())
        notes = tuple(self._kept.notes) if self._kept else ()
        return Ended(code, ending, round(duration * 1000), *captured, cpu_ms=end.cpu_ms, detail=detail, notes=notes)

    async def _see_it_behave(self, kept: Kept, watch: Watch) -> None:
        self._stop(Ending.LIMIT, await watch(kept))

    def _time_is_up(self) -> None:
        self._stop(Ending.TIMED_OUT, f"it did not end within {self._limits.timeout:g} seconds")

    def _stop(self, ending: Ending, detail: str) -> None:
        if self._stopping is None and not self._ended.done():
            self._ending, self._detail = ending, detail
            self._stopping = self._loop.create_task(self._end_it())

    async def _end_it(self) -> None:
        kept = self._kept
        if kept is None:
            return
        if self._limits.grace > 0:
            kept.signal(signal.SIGTERM, deep=True)
            # A stopped process would not notice.
            kept.signal(signal.SIGCONT, deep=True)
            await asyncio.sleep(self._limits.grace)
        # Again and again: what forks while it is being killed leaves some that were not there to be killed.
        for _ in range(round(_GIVE_UP / _KILL_AGAIN)):
            kept.signal(signal.SIGKILL)
            await asyncio.sleep(_KILL_AGAIN)
        kept.give_up()


def _rings(size: int, *, both: bool, each: bool) -> dict[Stream, Ring]:
    wanted = ((Stream.BOTH, both), (Stream.STDOUT, each), (Stream.STDERR, each))
    return {stream: Ring(size) for stream, is_wanted in wanted if is_wanted}


async def _in_time(launching: Awaitable[Kept], seconds: float) -> Kept:
    most = min(seconds, _LAUNCH_MAY_TAKE)
    clock = asyncio.timeout(most)
    try:
        async with clock:
            return await launching
    except TimeoutError:
        if not clock.expired():
            raise
        raise ExecutorUnavailable(f"the command could not be started within {most:g} seconds") from None


def _not_set_up(end: Exit, stderr: Capture) -> ExecutorUnavailable:
    said = stderr.captured().text().strip()[-_EXCERPT:] or f"exit status {end.status}"
    return ExecutorUnavailable(f"the isolation could not be set up, and nothing was run: {said}")


class Stdio:
    """The descriptors between us and a command; closed at the end, but for those that are kept.

    Of a terminal, `stdin` and `stdout` are the same side, and there is no `stderr`.
    """

    def __init__(self, command: Command) -> None:
        self.stdin = self.stdout = self.stderr = -1
        self.theirs = (-1, -1, -1)
        self._kept = False
        try:
            if command.terminal is not None:
                self._open_terminal(command.terminal)
            else:
                self._open_pipes(with_input=bool(command.stdin) or command.input_open)
        except OSError as error:
            self._close_all()
            raise ExecutorUnavailable(f"no more files can be opened: {error.strerror}; end other commands") from None

    def keep(self) -> None:
        """Our side belongs to somebody else now."""
        self._kept = True

    def __enter__(self) -> "Stdio":
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in set(self.theirs):
            _close(descriptor)
        if not self._kept:
            for descriptor in (self.stdin, self.stdout, self.stderr):
                _unwatch(descriptor)
                _close(descriptor)

    def _open_terminal(self, size: Terminal) -> None:
        wanted = _packed(size)
        self.stdout, slave = os.openpty()
        self.theirs = (slave, slave, slave)
        self.stdin = os.dup(self.stdout)
        os.set_blocking(self.stdout, False)
        fcntl.ioctl(self.stdout, termios.TIOCSWINSZ, wanted)

    def _open_pipes(self, *, with_input: bool) -> None:
        if with_input:
            their_in, self.stdin = os.pipe()
            os.set_blocking(self.stdin, False)
        else:
            their_in = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self.theirs = (their_in, -1, -1)
        self.stdout, their_out = os.pipe()
        self.theirs = (their_in, their_out, -1)
        self.stderr, their_err = os.pipe()
        self.theirs = (their_in, their_out, their_err)
        os.set_blocking(self.stdout, False)
        os.set_blocking(self.stderr, False)

    def _close_all(self) -> None:
        self.__exit__()


def _packed(size: Terminal) -> bytes:
    """As the system wants it."""
    if not (0 < size.rows < 1 << 16 and 0 < size.columns < 1 << 16):
        raise InvalidArgument("terminal", f"{size.rows} by {size.columns} is no size; use something like 24 by 80")
    return struct.pack("HHHH", size.rows, size.columns, 0, 0)


def _unwatch(descriptor: int) -> None:
    """The loop would take what has its number next for this one."""
    if descriptor >= 0:
        loop = asyncio.get_running_loop()
        loop.remove_reader(descriptor)
        loop.remove_writer(descriptor)


def _close(descriptor: int) -> None:
    if descriptor >= 0:
        os.close(descriptor)
