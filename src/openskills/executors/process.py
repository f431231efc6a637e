"""One child: streams, deadline, end.

What is kept of a stream of bytes that may never end. Pure.

Our ends of a command's pipes, served by the event loop without ever waiting.

One command with its pipes or its terminal: captured in bounded memory, ended in time.

How many commands are being started, for whoever has to wait until none is.
"""

import asyncio
import errno
import fcntl
import os
import secrets
import signal
import struct
import termios
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress

from openskills.errors import ExecutorUnavailable, InvalidArgument
from openskills.executors.spec import (
    CapturedOutput,
    Command,
    CommandResult,
    EndReason,
    OutputStream,
    ProcessOutput,
    TerminalSize,
)
from openskills.executors.supervisor import ExitStatus, SupervisedProcess


class HeadTailBuffer:
    """The head and the tail of a stream, `limit` bytes in all, however much comes."""

    def __init__(self, limit: int) -> None:
        self._head_room = limit - limit // 2
        self._tail_room = limit // 2
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self.total = 0

    @property
    def is_full(self) -> bool:
        """Whether bytes are being left out."""
        return self.total > self._head_room + self._tail_room

    def add(self, data: bytes) -> None:
        """Take in what came next."""
        self.total += len(data)
        room = self._head_room - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if not data or not self._tail_room:
            return
        self._tail.append(data[-self._tail_room :])
        self._tail_size += len(self._tail[-1])
        while self._tail_size - len(self._tail[0]) >= self._tail_room:
            self._tail_size -= len(self._tail.popleft())

    def to_captured(self) -> CapturedOutput:
        """What is kept until now."""
        tail = b"".join(self._tail)[-self._tail_room :] if self._tail else b""
        return CapturedOutput(bytes(self._head), tail, self.total - len(self._head) - len(tail))


class RingBuffer:
    """The last `capacity` bytes of a stream, addressed by their offset in the whole stream."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._data = bytearray()
        self.total = 0

    def add(self, data: bytes) -> None:
        """Take in what came next."""
        self.total += len(data)
        self._data += data
        # Cut in large steps: a cut for every byte that comes would move all the others each time.
        if len(self._data) > 2 * self._capacity:
            del self._data[: len(self._data) - self._capacity]

    def read(self, offset: int, limit: int, *, ended: bool) -> ProcessOutput:
        """Up to `limit` bytes from `offset` on; an offset that is no longer kept moves to the first byte that is."""
        first = self.total - len(self._data)
        start = min(max(offset, first), self.total)
        data = bytes(self._data[start - first : start - first + limit])
        end = start + len(data)
        return ProcessOutput(data, start, end, missed=max(start - offset, 0), ended=ended and end == self.total)


_CHUNK = 256 * 1024
_READ_PAUSE = 0.002
_MAX_DRAIN = 16 * 1024 * 1024


class PipeReader:
    """Reads a descriptor as long as something comes, and hands it on. The descriptor is its own.

    `hear` says whether the stream may be read more slowly: a command that floods us then waits for us instead of
    taking the whole loop for output that nobody keeps. `fault` is what kept it from reading to the end.
    """

    def __init__(self, descriptor: int, hear: Callable[[bytes], bool]) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_data = hear
        self._pause: asyncio.TimerHandle | None = None
        self.descriptor = descriptor
        self.fault: OSError | None = None
        self._loop.add_reader(descriptor, self._on_readable)

    def drain(self) -> None:
        """Take what is there now, and close: whoever still holds the other end has been ended."""
        if self.descriptor >= 0:
            for _ in range(_MAX_DRAIN // _CHUNK):
                data = self._read_available()
                if not data:
                    break
                self._on_data(data)
            self._close()

    def _on_readable(self) -> None:
        data = self._read_available()
        if data is None:
            return
        if not data:
            self._close()
        elif self._on_data(data):
            self._loop.remove_reader(self.descriptor)
            self._pause = self._loop.call_later(_READ_PAUSE, self._loop.add_reader, self.descriptor, self._on_readable)

    def _read_available(self) -> bytes | None:
        """What has come; None when nothing has, nothing at the end. A terminal ends with an error (EIO)."""
        try:
            return os.read(self.descriptor, _CHUNK)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno != errno.EIO:
                self.fault = error
            return b""

    def _close(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self.descriptor)
        # One that cannot be read is not the one that it was: somebody has closed it, and others have its number.
        if self.fault is None:
            os.close(self.descriptor)
        self.descriptor = -1


class PipeWriter:
    """Writes to a descriptor as the other side reads. The descriptor is its own.

    `first` is written whole before anything else; after it the descriptor is closed unless it is to be kept open.
    """

    def __init__(self, descriptor: int, first: bytes, *, keep_open: bool) -> None:
        self._loop = asyncio.get_running_loop()
        self._descriptor = descriptor
        self._pending = memoryview(first)
        self._keep_open = keep_open
        self._on_writable()

    @property
    def is_closed(self) -> bool:
        """Whether nothing more can be written."""
        return self._descriptor < 0

    def offer(self, data: bytes) -> int:
        """Write as much as the other side has room for now, and say how much that was."""
        if self._pending or not data:
            return 0
        return self._write_available(memoryview(data))

    def finish(self) -> None:
        """Close as soon as everything that was taken is written."""
        self._keep_open = False
        if not self._pending:
            self.close()

    def close(self) -> None:
        """Close now."""
        if self._descriptor >= 0:
            self._loop.remove_writer(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    def _on_writable(self) -> None:
        self._pending = self._pending[self._write_available(self._pending) :]
        if self._descriptor < 0:
            return
        if self._pending:
            self._loop.add_writer(self._descriptor, self._on_writable)
            return
        self._loop.remove_writer(self._descriptor)
        if not self._keep_open:
            self.close()

    def _write_available(self, data: memoryview) -> int:
        taken = 0
        while taken < len(data):
            try:
                taken += os.write(self._descriptor, data[taken:])
            except BlockingIOError:
                break
            except OSError:
                # Nobody reads any more; what is left has no reader, and the command says itself how it ended.
                self.close()
                return len(data)
        return taken


_CTRL_D = b"\x04"
_KILL_TIMEOUT = 3.0
_KILL_INTERVAL = 0.1
_WATCH_DELAY = 0.05
_LAUNCH_TIMEOUT = 30
_EXCERPT = 500

LaunchFunction = Callable[[tuple[int, int, int]], Awaitable[SupervisedProcess]]
"""Starts the command with these descriptors as its stdin, stdout and stderr."""


WatchFunction = Callable[[SupervisedProcess], Awaitable[str]]
"""Looks after a running command; returns a sentence when the command has to be ended."""


class HostProcess:
    """A command that runs on this machine. Implements `Process`."""

    def __init__(self, command: Command) -> None:
        self._loop = asyncio.get_running_loop()
        self._limits = command.limits
        self._terminal = command.terminal is not None
        self._started_at = self._loop.time()
        self._stdout = HeadTailBuffer(self._limits.output_bytes)
        self._stderr = HeadTailBuffer(self._limits.output_bytes)
        interactive = command.readable or command.input_open or self._terminal
        self._rings = _create_rings(self._limits.output_bytes, both=interactive, each=command.readable)
        self._more = asyncio.Event()
        self._ended: asyncio.Future[CommandResult] = self._loop.create_future()
        self._ending = EndReason.EXITED
        self._detail = ""
        self._readers: list[PipeReader] = []
        self._writer: PipeWriter | None = None
        self._supervised: SupervisedProcess | None = None
        self._stop_task: asyncio.Task[None] | None = None
        self._watch_task: asyncio.Task[None] | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._watch_timer: asyncio.TimerHandle | None = None
        self.id = secrets.token_hex(8)

    @classmethod
    async def start(cls, command: Command, launch: LaunchFunction, watch: WatchFunction | None = None) -> "HostProcess":
        """Start a command, with pipes or with a terminal of its own. The deadline counts from here."""
        process = cls(command)
        with Stdio(command) as stdio:
            process._supervised = kept = await _launch_in_time(
                launch(stdio.child_fds), command.limits.timeout + _KILL_TIMEOUT
            )
            try:
                process._connect(stdio, command)
            except OSError as error:
                kept.signal(signal.SIGKILL)
                raise ExecutorUnavailable(f"the command was ended, it cannot be followed: {error.strerror}") from None
        process._deadline = process._loop.call_at(process._started_at + command.limits.timeout, process._on_timeout)
        process._follow_process(kept, watch)
        return process

    async def write(self, data: bytes) -> int:
        """See `Process.write`."""
        if self._ended.done():
            raise InvalidArgument("process", "has ended, and reads no more input")
        if self._writer is None or self._writer.is_closed:
            raise InvalidArgument("input", "is closed; start the command with its input left open")
        return self._writer.offer(data)

    async def close_input(self) -> None:
        """See `Process.close_input`."""
        if self._writer is None or self._writer.is_closed:
            return
        if self._terminal:
            self._writer.offer(_CTRL_D)
        else:
            self._writer.finish()

    async def read(
        self, offset: int, *, wait: float = 0.0, limit: int = 65536, stream: OutputStream = OutputStream.BOTH
    ) -> ProcessOutput:
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
            fcntl.ioctl(self._readers[0].descriptor, termios.TIOCSWINSZ, _pack_size(TerminalSize(rows, columns)))

    async def kill(self) -> None:
        """See `Process.kill`."""
        self._stop(EndReason.KILLED, "it was ended by request")
        await self.wait()

    async def wait(self) -> CommandResult:
        """See `Process.wait`."""
        return await asyncio.shield(self._ended)

    def add_done_callback(self, act: Callable[["HostProcess"], None]) -> None:
        """Call this with the process once it has ended."""
        self._ended.add_done_callback(lambda _: act(self))

    def _connect(self, stdio: "Stdio", command: Command) -> None:
        self._readers = [PipeReader(stdio.stdout, self._on_stdout)]
        if stdio.stderr >= 0:
            self._readers.append(PipeReader(stdio.stderr, self._on_stderr))
        if stdio.stdin >= 0:
            self._writer = PipeWriter(stdio.stdin, command.stdin, keep_open=command.input_open or self._terminal)
        stdio.detach()

    def _on_stdout(self, data: bytes) -> bool:
        return self._on_output(self._stdout, OutputStream.STDOUT, data)

    def _on_stderr(self, data: bytes) -> bool:
        return self._on_output(self._stderr, OutputStream.STDERR, data)

    def _on_output(self, capture: HeadTailBuffer, stream: OutputStream, data: bytes) -> bool:
        """Take in output; true when the stream may be read more slowly, because nothing of it is kept any more."""
        capture.add(data)
        for kept in (OutputStream.BOTH, stream):
            if kept in self._rings:
                self._rings[kept].add(data)
        if self._rings:
            self._wake_readers()
        return capture.is_full

    def _wake_readers(self) -> None:
        self._more.set()
        self._more = asyncio.Event()

    def _follow_process(self, kept: SupervisedProcess, watch: WatchFunction | None) -> None:
        kept.add_done_callback(lambda end: self._on_exit(kept, end))
        if watch is not None:
            # Most commands end before somebody has to begin to look after them.
            self._watch_timer = self._loop.call_later(_WATCH_DELAY, self._start_watch, kept, watch)

    def _start_watch(self, kept: SupervisedProcess, watch: WatchFunction) -> None:
        self._watch_task = self._loop.create_task(self._enforce_limits(kept, watch))

    def _on_exit(self, kept: SupervisedProcess, end: ExitStatus) -> None:
        duration = self._loop.time() - (kept.ready_at or self._started_at)
        for going_on in (self._deadline, self._watch_timer, self._watch_task, self._stop_task):
            if going_on is not None:
                going_on.cancel()
        for reader in self._readers:
            reader.drain()
        if self._writer is not None:
            self._writer.close()
        fault = next((reader.fault for reader in self._readers if reader.fault), None)
        if fault is not None:
            self._fail(ExecutorUnavailable(f"the command has ended, and its output cannot be read: {fault.strerror}"))
        elif end.was_ready or self._ending is not EndReason.EXITED:
            self._ended.set_result(self._build_result(end, duration))
        else:
            self._fail(_build_setup_error(end, self._stderr))
        self._wake_readers()

    def _fail(self, error: ExecutorUnavailable) -> None:
        self._ended.set_exception(error)
        # Whoever waits hears it; asyncio need not complain when nobody does.
        self._ended.exception()

    def _build_result(self, end: ExitStatus, duration: float) -> CommandResult:
        ending, detail = self._ending, self._detail
        if end.lost and ending is EndReason.EXITED:
            ending, detail = EndReason.INTERRUPTED, "the process that looked after it has ended"
        if not end.clean:
            detail = f"{detail}; some of its processes could not be ended".lstrip("; ")
        code = 128 - end.status if end.status < 0 else end.status
        captured = (self._stdout.to_captured(), self._stderr.to_captured())
        notes = tuple(self._supervised.notes) if self._supervised else ()
        return CommandResult(
            code, ending, round(duration * 1000), *captured, cpu_ms=end.cpu_ms, detail=detail, notes=notes
        )

    async def _enforce_limits(self, kept: SupervisedProcess, watch: WatchFunction) -> None:
        self._stop(EndReason.LIMIT, await watch(kept))

    def _on_timeout(self) -> None:
        self._stop(EndReason.TIMED_OUT, f"it did not end within {self._limits.timeout:g} seconds")

    def _stop(self, ending: EndReason, detail: str) -> None:
        if self._stop_task is None and not self._ended.done():
            self._ending, self._detail = ending, detail
            self._stop_task = self._loop.create_task(self._terminate())

    async def _terminate(self) -> None:
        kept = self._supervised
        if kept is None:
            return
        if self._limits.grace > 0:
            kept.signal(signal.SIGTERM, deep=True)
            # A stopped process would not notice.
            kept.signal(signal.SIGCONT, deep=True)
            await asyncio.sleep(self._limits.grace)
        # Again and again: what forks while it is being killed leaves some that were not there to be killed.
        for _ in range(round(_KILL_TIMEOUT / _KILL_INTERVAL)):
            kept.signal(signal.SIGKILL)
            await asyncio.sleep(_KILL_INTERVAL)
        kept.abandon()


def _create_rings(size: int, *, both: bool, each: bool) -> dict[OutputStream, RingBuffer]:
    wanted = ((OutputStream.BOTH, both), (OutputStream.STDOUT, each), (OutputStream.STDERR, each))
    return {stream: RingBuffer(size) for stream, is_wanted in wanted if is_wanted}


async def _launch_in_time(launching: Awaitable[SupervisedProcess], seconds: float) -> SupervisedProcess:
    most = min(seconds, _LAUNCH_TIMEOUT)
    clock = asyncio.timeout(most)
    try:
        async with clock:
            return await launching
    except TimeoutError:
        if not clock.expired():
            raise
        raise ExecutorUnavailable(f"the command could not be started within {most:g} seconds") from None


def _build_setup_error(end: ExitStatus, stderr: HeadTailBuffer) -> ExecutorUnavailable:
    said = stderr.to_captured().text().strip()[-_EXCERPT:] or f"exit status {end.status}"
    return ExecutorUnavailable(f"the isolation could not be set up, and nothing was run: {said}")


class Stdio:
    """The descriptors between us and a command; closed at the end, but for those that are kept.

    Of a terminal, `stdin` and `stdout` are the same side, and there is no `stderr`.
    """

    def __init__(self, command: Command) -> None:
        self.stdin = self.stdout = self.stderr = -1
        self.child_fds = (-1, -1, -1)
        self._is_detached = False
        try:
            if command.terminal is not None:
                self._open_terminal(command.terminal)
            else:
                self._open_pipes(with_input=bool(command.stdin) or command.input_open)
        except OSError as error:
            self._close_all()
            raise ExecutorUnavailable(f"no more files can be opened: {error.strerror}; end other commands") from None

    def detach(self) -> None:
        """Our side belongs to somebody else now."""
        self._is_detached = True

    def __enter__(self) -> "Stdio":
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in set(self.child_fds):
            _close(descriptor)
        if not self._is_detached:
            for descriptor in (self.stdin, self.stdout, self.stderr):
                _unwatch(descriptor)
                _close(descriptor)

    def _open_terminal(self, size: TerminalSize) -> None:
        wanted = _pack_size(size)
        self.stdout, slave = os.openpty()
        self.child_fds = (slave, slave, slave)
        self.stdin = os.dup(self.stdout)
        os.set_blocking(self.stdout, False)
        fcntl.ioctl(self.stdout, termios.TIOCSWINSZ, wanted)

    def _open_pipes(self, *, with_input: bool) -> None:
        if with_input:
            their_in, self.stdin = os.pipe()
            os.set_blocking(self.stdin, False)
        else:
            their_in = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self.child_fds = (their_in, -1, -1)
        self.stdout, their_out = os.pipe()
        self.child_fds = (their_in, their_out, -1)
        self.stderr, their_err = os.pipe()
        self.child_fds = (their_in, their_out, their_err)
        os.set_blocking(self.stdout, False)
        os.set_blocking(self.stderr, False)

    def _close_all(self) -> None:
        self.__exit__()


def _pack_size(size: TerminalSize) -> bytes:
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


class StartCounter:
    """Every start is a `with` block."""

    def __init__(self) -> None:
        self._count = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def __enter__(self) -> None:
        self._count += 1
        self._idle.clear()

    def __exit__(self, *_: object) -> None:
        self._count -= 1
        if not self._count:
            self._idle.set()

    async def wait_idle(self) -> None:
        """Wait until no command is being started."""
        await self._idle.wait()
