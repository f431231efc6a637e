"""A running command: pipes or a terminal, captured output, timeout and exit.

Output is captured in bounded memory, and the event loop serves the pipes without blocking.
"""

import asyncio
import errno
import fcntl
import os
import secrets
import signal
import struct
import termios
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Self

from openskills.errors import ExecutorUnavailable, InvalidArgument
from openskills.executors.protocol import Process
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
from openskills.executors.watchdog import CallWatch
from openskills.telemetry.mask import Masker


class HeadTailBuffer:
    """The head and the tail of a stream, `limit` bytes in total."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._head_room = limit - limit // 2
        self._head = bytearray()
        self._tail = RingBuffer(limit // 2)
        self.total = 0

    @property
    def is_full(self) -> bool:
        """Whether bytes are being dropped."""
        return self.total > self._limit

    def add(self, data: bytes) -> None:
        """Append data."""
        self.total += len(data)
        room = self._head_room - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail.add(data)

    def to_captured(self) -> CapturedOutput:
        """The captured output so far."""
        tail = self._tail.read_last()
        return CapturedOutput(bytes(self._head), tail, self.total - len(self._head) - len(tail))


class RingBuffer:
    """The last `capacity` bytes of a stream, addressed by their offset in the whole stream."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._data = bytearray()
        self.total = 0

    def add(self, data: bytes) -> None:
        """Append data."""
        self.total += len(data)
        self._data += data
        # Trim in large steps, because every trim moves the remaining bytes.
        if len(self._data) > 2 * self._capacity:
            del self._data[: len(self._data) - self._capacity]

    def read_last(self) -> bytes:
        """The last `capacity` bytes."""
        return bytes(self._data[max(len(self._data) - self._capacity, 0) :])

    def read(self, offset: int, limit: int, *, ended: bool) -> ProcessOutput:
        """Up to `limit` bytes from `offset` on, or from the first byte that is still available."""
        first = self.total - len(self._data)
        start = min(max(offset, first), self.total)
        data = bytes(self._data[start - first : start - first + limit])
        end = start + len(data)
        return ProcessOutput(data, start, end, missed=max(start - offset, 0), ended=ended and end == self.total)


_CHUNK = 256 * 1024
_READ_PAUSE = 0.002
_MAX_DRAIN = 16 * 1024 * 1024


class PipeReader:
    """Reads a descriptor, which it owns, and passes the data on.

    `on_data` returns whether the stream may be read more slowly, so that a command whose output is dropped anyway
    cannot occupy the event loop. `fault` is the error that ended reading early.
    """

    def __init__(self, descriptor: int, on_data: Callable[[bytes], bool]) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_data = on_data
        self._pause: asyncio.TimerHandle | None = None
        self.descriptor = descriptor
        self.fault: OSError | None = None
        self._loop.add_reader(descriptor, self._on_readable)

    def drain(self) -> None:
        """Read what is available, and close. All writers have been killed."""
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
        """The available data; None if there is none yet, empty at the end. A terminal ends with EIO."""
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
        # A descriptor that cannot be read was closed by other code, and its number may have been reused.
        if self.fault is None:
            os.close(self.descriptor)
        self.descriptor = -1


class PipeWriter:
    """Writes to a descriptor, which it owns, as the other side reads.

    `first` is written before anything else; after it the descriptor is closed unless `keep_open` is set.
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
        """Write as much as fits now, and return how much that was."""
        if self._pending or not data:
            return 0
        return self._write_available(memoryview(data))

    def finish(self) -> None:
        """Close after pending data is written."""
        self._keep_open = False
        if not self._pending:
            self.close()

    def close(self) -> None:
        """Close immediately."""
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
                # The reader is gone. The rest is dropped; the command reports itself how it ended.
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
"""Watches a running command; returns the reason when it has to be killed."""


class CapturedProcess:
    """What every `Process` of this machine does: keep output for readers, and resolve `_ended` with the result."""

    def __init__(self, command: Command) -> None:
        size = command.limits.output_bytes
        interactive = command.readable or command.input_open or command.terminal is not None
        kept = tuple(OutputStream) if command.readable else (OutputStream.BOTH,) if interactive else ()
        self.id = secrets.token_hex(8)
        self._captures = {stream: HeadTailBuffer(size) for stream in (OutputStream.STDOUT, OutputStream.STDERR)}
        self._rings = {stream: RingBuffer(size) for stream in kept}
        self._more = asyncio.Event()
        self._ended: asyncio.Future[CommandResult] = asyncio.get_running_loop().create_future()

    async def read(
        self, offset: int, *, wait: float = 0.0, limit: int = 65536, stream: OutputStream = OutputStream.BOTH
    ) -> ProcessOutput:
        ring = self._rings.get(stream)
        if ring is None:
            raise InvalidArgument("process", "not started with readable output; wait for its result")
        if offset < 0:
            raise InvalidArgument("offset", f"{offset} is negative")
        if wait > 0 and not self._ended.done():
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    while offset >= ring.total and not self._ended.done():
                        await self._more.wait()
        return ring.read(offset, limit, ended=self._ended.done())

    async def wait(self) -> CommandResult:
        return await asyncio.shield(self._ended)

    def add_done_callback(self, act: Callable[[Self], None]) -> None:
        """Call `act` with the process once it has ended."""
        self._ended.add_done_callback(lambda _: act(self))

    def _add_output(self, stream: OutputStream, data: bytes) -> bool:
        """Keep output; returns whether bytes are being dropped."""
        self._captures[stream].add(data)
        for key in (OutputStream.BOTH, stream):
            if key in self._rings:
                self._rings[key].add(data)
        if self._rings:
            self._wake_readers()
        return self._captures[stream].is_full

    def _wake_readers(self) -> None:
        self._more.set()
        self._more = asyncio.Event()


class HostProcess(CapturedProcess):
    """A command that runs on this machine. Implements `Process`."""

    def __init__(
        self,
        command: Command,
        supervised: SupervisedProcess,
        stdio: "Stdio",
        started_at: float,
        watch: WatchFunction | None,
    ) -> None:
        super().__init__(command)
        self._loop = asyncio.get_running_loop()
        self._limits = command.limits
        self._terminal = command.terminal is not None
        self._started_at = started_at
        self._supervised = supervised
        self._ending = EndReason.EXITED
        self._detail = ""
        self._writer: PipeWriter | None = None
        self._readers_before: Mapping[str, int] = {}
        self._stop_task: asyncio.Task[None] | None = None
        try:
            self._readers = [PipeReader(stdio.stdout, partial(self._add_output, OutputStream.STDOUT))]
            if stdio.stderr >= 0:
                self._readers.append(PipeReader(stdio.stderr, partial(self._add_output, OutputStream.STDERR)))
            if stdio.stdin >= 0:
                self._writer = PipeWriter(stdio.stdin, command.stdin, keep_open=command.input_open or self._terminal)
        except OSError as error:
            supervised.signal(signal.SIGKILL)
            raise ExecutorUnavailable(f"cannot read the command's output, so it was killed: {error.strerror}") from None
        stdio.detach()
        found = map(os.fstat, stdio.child_fds)
        self._files = tuple((one.st_dev, one.st_ino) for one in found) if self._writer is not None else ()
        timeout = self._limits.timeout
        timed_out = (EndReason.TIMED_OUT, f"timed out after {timeout:g} s")
        self._deadline = self._loop.call_at(started_at + timeout, self._stop, *timed_out)
        # Most commands end before they need watching.
        on_excess = partial(self._stop, EndReason.LIMIT)
        self._watch = CallWatch(lambda: watch(supervised), on_excess, delay=_WATCH_DELAY) if watch else None
        supervised.add_done_callback(self._on_exit)

    @classmethod
    async def start(cls, command: Command, launch: LaunchFunction, watch: WatchFunction | None = None) -> "HostProcess":
        """Start a command with pipes or its own terminal. The timeout counts from here."""
        started_at = asyncio.get_running_loop().time()
        with Stdio(command) as stdio:
            timeout = min(command.limits.timeout + _KILL_TIMEOUT, _LAUNCH_TIMEOUT)
            clock = asyncio.timeout(timeout)
            try:
                async with clock:
                    supervised = await launch(stdio.child_fds)
            except TimeoutError:
                if not clock.expired():
                    raise
                raise ExecutorUnavailable(f"starting the command timed out after {timeout:g} s") from None
            return cls(command, supervised, stdio, started_at, watch)

    async def write(self, data: bytes) -> int:
        if self._ended.done():
            raise InvalidArgument("process", "has ended and takes no more input")
        if self._writer is None or self._writer.is_closed:
            raise InvalidArgument("input", "closed; start the command with open input")
        if data:
            self._readers_before = await self._supervised.find_readers(self._files)
        return 0 if self._writer.is_closed else self._writer.offer(data)

    async def close_input(self) -> None:
        if self._writer is None or self._writer.is_closed:
            return
        if self._terminal:
            self._writer.offer(_CTRL_D)
        else:
            self._writer.finish()

    async def is_waiting(self) -> bool:
        if self._writer is None or self._writer.is_closed or self._ended.done():
            return False
        readers = await self._supervised.find_readers(self._files)
        # One that was blocked before the last write and has not run since has not seen that input.
        return any(self._readers_before.get(name) != count for name, count in readers.items())

    async def resize(self, rows: int, columns: int) -> None:
        if not self._terminal:
            raise InvalidArgument("process", "has no terminal")
        # It is negative after the end, and after the command has closed its terminal.
        if (descriptor := self._readers[0].descriptor) >= 0:
            fcntl.ioctl(descriptor, termios.TIOCSWINSZ, _pack_size(TerminalSize(rows, columns)))

    async def kill(self) -> None:
        self._stop(EndReason.KILLED, "killed by request")
        await self.wait()

    def _on_exit(self, end: ExitStatus) -> None:
        duration = self._loop.time() - (self._supervised.ready_at or self._started_at)
        self._deadline.cancel()
        if self._stop_task is not None:
            self._stop_task.cancel()
        if self._watch is not None:
            self._watch.close()
        for reader in self._readers:
            reader.drain()
        if self._writer is not None:
            self._writer.close()
        fault = next((reader.fault for reader in self._readers if reader.fault), None)
        if fault is None and (end.was_ready or self._ending is not EndReason.EXITED):
            self._ended.set_result(self._build_result(end, duration))
        else:
            if fault is not None:
                message = f"cannot read the output of the command, which has ended: {fault.strerror}"
            else:
                said = (
                    self._captures[OutputStream.STDERR].to_captured().text().strip()[-_EXCERPT:]
                    or f"exit status {end.status}"
                )
                message = f"the isolation could not be set up, and nothing was run: {said}"
            self._ended.set_exception(ExecutorUnavailable(message))
            # Keep asyncio from logging it if nothing awaits the result.
            self._ended.exception()
        self._wake_readers()

    def _build_result(self, end: ExitStatus, duration: float) -> CommandResult:
        ending, detail = self._ending, self._detail
        excess = self._supervised.excess
        if excess and ending is EndReason.EXITED:
            ending, detail = EndReason.LIMIT, excess
        if end.lost and ending is EndReason.EXITED:
            ending, detail = EndReason.INTERRUPTED, "its supervisor process has ended"
        if not end.clean:
            detail = f"{detail}; some of its processes could not be killed".lstrip("; ")
        code = 128 - end.status if end.status < 0 else end.status
        captured = (capture.to_captured() for capture in self._captures.values())
        notes = tuple(self._supervised.notes)
        return CommandResult(
            code,
            ending,
            round(duration * 1000),
            *captured,
            cpu_ms=end.cpu_ms,
            detail=detail,
            notes=notes,
            memory_bytes=end.memory_kib * 1024,
        )

    def _stop(self, ending: EndReason, detail: str) -> None:
        if self._stop_task is None and not self._ended.done():
            self._ending, self._detail = ending, detail
            self._stop_task = self._loop.create_task(self._terminate())

    async def _terminate(self) -> None:
        if self._limits.grace > 0:
            self._supervised.signal(signal.SIGTERM, deep=True)
            # A stopped process would not handle the signal.
            self._supervised.signal(signal.SIGCONT, deep=True)
            await asyncio.sleep(self._limits.grace)
        # Repeatedly, because a process that forks while it is killed may leave new children.
        for _ in range(round(_KILL_TIMEOUT / _KILL_INTERVAL)):
            self._supervised.signal(signal.SIGKILL)
            await asyncio.sleep(_KILL_INTERVAL)
        self._supervised.abandon()


class Stdio:
    """The descriptors between us and a command, closed at the end of the block except for detached ones.

    For a terminal, `stdin` and `stdout` are the same side, and there is no `stderr`.
    """

    def __init__(self, command: Command) -> None:
        self.stdin = self.stdout = self.stderr = -1
        self.child_fds = (-1, -1, -1)
        self._is_detached = False
        try:
            if command.terminal is not None:
                size = _pack_size(command.terminal)
                self.stdout, slave = os.openpty()
                self.child_fds = (slave, slave, slave)
                self.stdin = os.dup(self.stdout)
                os.set_blocking(self.stdout, False)
                fcntl.ioctl(self.stdout, termios.TIOCSWINSZ, size)
                return
            if command.stdin or command.input_open:
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
        except OSError as error:
            self.__exit__()
            raise ExecutorUnavailable(f"cannot open more files: {error.strerror}; kill other commands") from None

    def detach(self) -> None:
        """Keep our side open: another object owns it now."""
        self._is_detached = True

    def __enter__(self) -> "Stdio":
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in set(self.child_fds) - {-1}:
            os.close(descriptor)
        if not self._is_detached:
            for descriptor in (self.stdin, self.stdout, self.stderr):
                if descriptor >= 0:
                    # The event loop must not confuse it with the next descriptor of the same number.
                    loop = asyncio.get_running_loop()
                    loop.remove_reader(descriptor)
                    loop.remove_writer(descriptor)
                    os.close(descriptor)


def _pack_size(size: TerminalSize) -> bytes:
    if not (0 < size.rows < 1 << 16 and 0 < size.columns < 1 << 16):
        raise InvalidArgument(
            "terminal", f"invalid size {size.rows}x{size.columns}; use rows and columns such as 24x80"
        )
    return struct.pack("HHHH", size.rows, size.columns, 0, 0)


class StartCounter:
    """Counts commands that are being started; each start is a `with` block."""

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


class MaskedProcess:
    """A process whose output is read with secrets replaced by asterisks, so that offsets count the same bytes."""

    def __init__(self, process: Process, masker: Masker) -> None:
        self._process = process
        self._masker = masker
        self.id = process.id
        self.write = process.write
        self.close_input = process.close_input
        self.is_waiting = process.is_waiting
        self.resize = process.resize
        self.kill = process.kill

    async def read(
        self, offset: int, *, wait: float = 0.0, limit: int = 65536, stream: OutputStream = OutputStream.BOTH
    ) -> ProcessOutput:
        """See `Process.read`. What may be the beginning of a secret is returned when the rest is known."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + wait
        output = await self._process.read(offset, wait=wait, limit=limit, stream=stream)
        while output.data:
            shown, end = await self._mask(output, stream)
            left = deadline - clock()
            if shown.data or left <= 0:
                return shown
            more = await self._process.read(end, wait=left, limit=1, stream=stream)
            if not more.data and not more.ended:
                return shown
            output = await self._process.read(offset, limit=limit, stream=stream)
        return output

    async def wait(self) -> CommandResult:
        ended = await self._process.wait()
        return replace(ended, stdout=self._mask_captured(ended.stdout), stderr=self._mask_captured(ended.stderr))

    async def _mask(self, output: ProcessOutput, stream: OutputStream) -> tuple[ProcessOutput, int]:
        """The output, masked in the context of the bytes around it, and how far the output is known."""
        begin = max(0, output.offset - self._masker.context)
        size = output.next_offset + self._masker.context - begin
        around = await self._process.read(begin, limit=size, stream=stream)
        if around.offset > output.offset:
            # The buffer has dropped these bytes in the meantime.
            return replace(output, data=self._masker.blank(output.data, cut_start=True, cut_end=True)), output.offset
        data = self._masker.blank(around.data, cut_start=around.missed > 0)
        end = output.next_offset - around.offset
        if not around.ended:
            end = min(end, self._masker.find_partial_end(around.data))
        data = data[output.offset - around.offset : end]
        next_offset = output.offset + len(data)
        ended = output.ended and next_offset == output.next_offset
        return replace(output, data=data, next_offset=next_offset, ended=ended), around.next_offset

    def _mask_captured(self, output: CapturedOutput) -> CapturedOutput:
        if output.cut:
            head, tail = self._masker.blank(output.head, cut_end=True), self._masker.blank(output.tail, cut_start=True)
            return replace(output, head=head, tail=tail)
        both = self._masker.blank(output.head + output.tail)
        return replace(output, head=both[: len(output.head)], tail=both[len(output.head) :])
