"""Warm interpreters: pool, slots, protocol (sessions and host).

What the host and the processes that serve the calls of a skill say to each other. Pure.

The other side is `executors/inside/hostzygote.py`, which describes the messages.

One connection to a process that serves the calls of a skill, one at a time: one write and mostly one read a call.

The host's side of `executors/inside/hostmother.py`: the warm interpreter of one skill, and the slots it serves.

The slots of one skill: made on demand, lent to one call at a time, ended when a call goes wrong or nobody calls.
"""

import asyncio
import json
import os
import signal
import socket
import struct
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from openskills.errors import DeadlineExceeded, ExecutorUnavailable, SkillError
from openskills.executors.supervisor import SupervisedProcess

_CALL = struct.Struct("!IBI")
_FRAME = struct.Struct("!cI")
_END = struct.Struct("!iQQQQB")
_MAX_NAMES = 4096
_STALE, _CUT, _UNCLEAN = 1, 2, 4


@dataclass(frozen=True, slots=True)
class WorkerResult:
    """How the process of a call ended, and all that it wrote, up to what may be kept.

    `returncode` is negative for a signal. `stale`: it was not begun, because what it was to execute has changed.
    `imported` are modules that it has imported and that were not there, as it says itself.
    """

    returncode: int
    stdout: bytes
    stderr: bytes
    stdout_bytes: int
    stderr_bytes: int
    cut: bool
    stale: bool
    clean: bool
    cpu_ms: float
    memory_kib: int
    imported: tuple[str, ...] = ()


class WorkerTimeout(TimeoutError):
    """A call did not end in time; what it had written until then."""

    def __init__(self, stdout: bytes = b"", stderr: bytes = b"") -> None:
        super().__init__()
        self.stdout = stdout
        self.stderr = stderr


def encode_call(stdin: bytes, variables: Mapping[str, str], *, live: bool) -> bytes:
    """A call as the process that serves it reads it. Raises `ValueError` for a variable that cannot be one."""
    lines = b"".join(_encode_variable(name, value) for name, value in variables.items())
    return b"".join((_CALL.pack(_CALL.size + len(lines) + len(stdin), live, len(lines)), lines, stdin))


def _encode_variable(name: str, value: str) -> bytes:
    if "\0" in name or "\0" in value or "=" in name or not name:
        raise ValueError(name)
    return b"%b=%b\0" % (name.encode("utf-8", "surrogateescape"), value.encode("utf-8", "surrogateescape"))


class FrameParser:
    """Takes in an answer as it arrives, in pieces of any size."""

    def __init__(self) -> None:
        self._unread = b""
        self._parts: dict[bytes, list[bytes]] = {b"o": [], b"e": []}
        self.new_output: list[tuple[str, bytes]] = []

    def feed(self, data: bytes) -> WorkerResult | None:
        """Take in the next piece; returns the end when that was in it. What came before it is added to `fresh`.

        Raises `ValueError` for what is no answer.
        """
        data = self._unread + data if self._unread else data
        place, length = 0, len(data)
        while place + _FRAME.size <= length:
            kind, size = _FRAME.unpack_from(data, place)
            start, end = place + _FRAME.size, place + _FRAME.size + size
            if kind == b"x":
                if not _END.size <= size <= _END.size + _MAX_NAMES:
                    raise ValueError(kind)
                if end > length:
                    break
                return self._parse_result(data[start:end])
            if kind not in self._parts:
                raise ValueError(kind)
            if end > length:
                break
            part = data[start:end]
            self._parts[kind].append(part)
            self.new_output.append(("stdout" if kind == b"o" else "stderr", part))
            place = end
        self._unread = data[place:]
        return None

    def to_timeout(self) -> WorkerTimeout:
        """What has come, of an answer that has no end."""
        return WorkerTimeout(b"".join(self._parts[b"o"]), b"".join(self._parts[b"e"]))

    def _parse_result(self, data: bytes) -> WorkerResult:
        status, spent, memory, stdout, stderr, flags = _END.unpack_from(data)
        names = data[_END.size :].decode("ascii", "replace")
        return WorkerResult(
            returncode=-(status & 0x7F) if status & 0x7F else (status >> 8) & 0xFF,
            stdout=b"".join(self._parts[b"o"]),
            stderr=b"".join(self._parts[b"e"]),
            stdout_bytes=stdout,
            stderr_bytes=stderr,
            cut=bool(flags & _CUT),
            stale=bool(flags & _STALE),
            clean=not flags & _UNCLEAN,
            cpu_ms=spent / 1000,
            memory_kib=memory,
            imported=tuple(names.split(",")) if names else (),
        )


OutputCallback = Callable[[str, bytes], None]
"""Told the name of a stream and what came on it."""

_CHUNK = 256 * 1024
_GONE = "the process that served the skill has ended; try again"


class Worker:
    """Serves one call at a time. It belongs to the event loop in which it was made."""

    def __init__(self, number: int, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.number = number
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._answer: asyncio.Future[WorkerResult] | None = None
        self._frames = FrameParser()
        self._on_output: OutputCallback | None = None
        self._unsent = memoryview(b"")
        self.is_usable = True
        self._loop.add_reader(connection, self._on_readable)

    async def call(self, message: bytes, deadline: float, heard: OutputCallback | None = None) -> WorkerResult:
        """Have one call served.

        Raises `WorkerTimeout` at the deadline (the loop's time) and `ExecutorUnavailable` when the other side ends. The
        slot cannot be used again after either, nor after a cancellation: what serves it has to be ended.
        """
        if not self.is_usable:
            raise ExecutorUnavailable(_GONE)
        answer = self._answer = self._loop.create_future()
        self._frames, self._on_output = FrameParser(), heard
        timer = self._loop.call_at(deadline, self._on_deadline, answer)
        try:
            self._send(memoryview(message))
            return await answer
        except BaseException:
            self.is_usable = False
            raise
        finally:
            timer.cancel()
            self._answer = None

    def close(self) -> None:
        """Let go of the connection: what serves it ends by itself, unless a call is running. Safe to call twice."""
        self.is_usable = False
        if self._connection.fileno() >= 0:
            self._loop.remove_reader(self._connection)
            self._loop.remove_writer(self._connection)
            self._connection.close()
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ExecutorUnavailable(_GONE))

    def _on_deadline(self, answer: "asyncio.Future[WorkerResult]") -> None:
        if not answer.done():
            answer.set_exception(self._frames.to_timeout())

    def _send(self, data: memoryview) -> None:
        try:
            data = data[self._connection.send(data) :]
        except BlockingIOError:
            pass
        except OSError:
            self.close()
            return
        self._unsent = data
        if data:
            self._loop.add_writer(self._connection, self._send_more)

    def _send_more(self) -> None:
        self._loop.remove_writer(self._connection)
        self._send(self._unsent)

    def _on_readable(self) -> None:
        try:
            data = self._connection.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        try:
            ended = self._frames.feed(data)
        except ValueError:
            data = b""
            ended = None
        if not data:
            self.close()
            return
        if self._on_output is not None:
            for stream, part in self._frames.new_output:
                self._on_output(stream, part)
        self._frames.new_output.clear()
        answer = self._answer
        if ended is not None and answer is not None and not answer.done():
            answer.set_result(ended)


PARTS: Final = ("fork_exit", "traces", "call", "zygote")
"""The modules in `executors/inside` that are the program of a mother."""

_ORDER = struct.Struct("!cI")
_LENGTH = struct.Struct("!I")
_MAX_HELLO = 64 * 1024
_EXIT_TIMEOUT = 2.0
_READY_TIMEOUT = 300.0
_EXCERPT = 4000

# The bottom of every call's stack. What is executed there ends as if the interpreter had been started with it.
_BOOTSTRAP = """\
stream = open(0, "rb", 0, closefd=False)
names = {{"__name__": "openskills_mother"}}
for size in {sizes!r}:
    part = b""
    while len(part) < size:
        part += stream.read(size - len(part))
    exec(compile(part, "<openskills>", "exec"), names)
end = names["CallExit"]()
work = names["ZygoteServer"](end).serve()
try:
    work[0](*work[1:])
except SystemExit as error:
    end.leave(error)
    raise
except BaseException:
    end.record_failure()
    raise
else:
    end.leave(None)
"""

ForkServerLauncher = Callable[[Sequence[str], int, int], Awaitable[SupervisedProcess]]
"""Starts a command with these descriptors as stdin and stderr, and all else as the place of the skill wants it."""


class WarmStartUnsupported(Exception):
    """The skill cannot be served by a warm interpreter; the message says why a cold start would be different."""


@dataclass(frozen=True, slots=True)
class ForkServerConfig:
    """What a mother is to load (`named`: and cannot do without), and how much of what its calls write is kept.

    `tidy`: it has a sandbox for itself, which must be as before after each call. `reuse`: one process serves so many
    calls, and not one.
    """

    entry: str
    args: tuple[str, ...]
    path: tuple[str, ...]
    preload: tuple[str, ...]
    named: tuple[str, ...]
    stdout: int
    stderr: int
    tidy: bool = False
    reuse: int = 0

    def to_dict(self) -> dict[str, Any]:
        """As the other side reads it."""
        return {name: getattr(self, name) for name in self.__slots__}


class ForkServer:
    """A warm interpreter that has said hello. It belongs to the event loop in which it was begun."""

    def __init__(self, process: SupervisedProcess, control: socket.socket) -> None:
        self._process = process
        self._control = control
        self._loop = asyncio.get_running_loop()
        self._received = b""
        self._ending: dict[int, asyncio.Future[None]] = {}
        self._next = 0
        self.worker_count = 0
        self.is_usable = True
        self._loop.add_reader(control, self._on_readable)
        process.add_done_callback(lambda _: self._disconnect())

    @classmethod
    async def start(
        cls, launch: ForkServerLauncher, python: str, wanted: ForkServerConfig, *, within: float = _READY_TIMEOUT
    ) -> "ForkServer":
        """Start one, and wait until it has loaded everything, which may take so many seconds.

        Raises `Refused` when it will not serve, and `ExecutorUnavailable` when it cannot be started.
        """
        program = _read_program()
        boot = _BOOTSTRAP.format(sizes=tuple(map(len, program)))
        ours, theirs = socket.socketpair()
        complaints = os.memfd_create("complaints", os.MFD_CLOEXEC)
        try:
            with theirs:
                process = await launch((python, "-s", "-S", "-P", "-c", boot), theirs.fileno(), complaints)
            try:
                async with asyncio.timeout(within):
                    await _perform_handshake(ours, b"".join(program), wanted.to_dict(), complaints)
            except TimeoutError:
                process.signal(signal.SIGKILL)
                raise ExecutorUnavailable(f"the interpreter of the skill was not ready within {within:g} s") from None
            except BaseException:
                process.signal(signal.SIGKILL)
                raise
        except BaseException:
            ours.close()
            raise
        finally:
            os.close(complaints)
        return cls(process, ours)

    def open_worker(self) -> Worker:
        """A new slot, which can be called at once. Raises `ExecutorUnavailable` when the interpreter is gone."""
        if not self.is_usable:
            raise ExecutorUnavailable("the interpreter of the skill has ended; try again")
        self._next += 1
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(self._control, [_ORDER.pack(b"z", self._next)], [theirs.fileno()])
            except OSError:
                ours.close()
                raise ExecutorUnavailable("the interpreter of the skill takes no more calls; try again") from None
        self.worker_count += 1
        return Worker(self._next, ours)

    async def kill_worker(self, slot: Worker) -> None:
        """End what serves a slot, with everything that its call has started; returns when nothing of it is left."""
        slot.close()
        self.worker_count -= 1
        if not self.is_usable:
            return
        done = self._ending[slot.number] = self._loop.create_future()
        try:
            self._control.send(_ORDER.pack(b"k", slot.number))
            async with asyncio.timeout(_EXIT_TIMEOUT):
                await done
        except (TimeoutError, OSError):
            # Somebody has stopped it. Whoever started it ends all that it leaves.
            await self.close()
        finally:
            self._ending.pop(slot.number, None)

    def release_worker(self, slot: Worker) -> None:
        """Close a slot that serves no call."""
        slot.close()
        self.worker_count -= 1

    async def close(self) -> None:
        """End it with all its calls. Safe to call twice."""
        self._disconnect()
        with suppress(TimeoutError):
            async with asyncio.timeout(_EXIT_TIMEOUT):
                await self._process.wait()
                return
        self._process.signal(signal.SIGKILL)
        await self._process.wait()

    def _on_readable(self) -> None:
        try:
            data = self._control.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._disconnect()
            return
        self._received += data
        while len(self._received) >= _ORDER.size:
            _, number = _ORDER.unpack_from(self._received)
            self._received = self._received[_ORDER.size :]
            done = self._ending.get(number)
            if done is not None and not done.done():
                done.set_result(None)

    def _disconnect(self) -> None:
        if not self.is_usable:
            return
        self.is_usable = False
        if not self._loop.is_closed():
            self._loop.remove_reader(self._control)
        self._control.close()


@cache
def _read_program() -> tuple[bytes, ...]:
    programs = Path(__file__).parent / "programs"
    return tuple((programs / f"{name}.py").read_bytes() for name in PARTS)


async def _perform_handshake(
    control: socket.socket, program: bytes, wanted: Mapping[str, Any], complaints: int
) -> None:
    loop = asyncio.get_running_loop()
    control.setblocking(False)
    config = json.dumps(wanted).encode()
    try:
        await loop.sock_sendall(control, program + _LENGTH.pack(len(config)) + config)
        (length,) = _LENGTH.unpack(await _read_exactly(control, _LENGTH.size))
        hello = json.loads(await _read_exactly(control, min(length, _MAX_HELLO)))
    except (OSError, EOFError, ValueError):
        said = os.pread(complaints, _EXCERPT, 0).decode("utf-8", "replace").strip().splitlines()
        why = f": {said[-1]}" if said else ""
        raise ExecutorUnavailable(f"the interpreter of the skill ended before it was ready{why}") from None
    if hello["failed"]:
        raise ExecutorUnavailable(f"the interpreter of the skill cannot load it: {hello['failed']}")
    if hello["refused"]:
        raise WarmStartUnsupported(str(hello["refused"]))


async def _read_exactly(connection: socket.socket, length: int) -> bytes:
    parts = bytearray()
    while len(parts) < length:
        part = await asyncio.get_running_loop().sock_recv(connection, length - len(parts))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)


_MAX_CHANGES = 3
_CLOSING = "the skill is being closed; try again"


@dataclass(slots=True)
class _WorkerLease:
    """A slot with the interpreter that serves it."""

    server: ForkServer
    worker: Worker
    generation: int
    idle_since: float = 0.0


class WorkerPool:
    """Serves the calls of one skill, `most` at a time. It belongs to the event loop that uses it first.

    `begin` starts an interpreter. `alone`: each slot gets one of its own, and is ended with it. After `idle` seconds
    without a call a slot is ended, and with the last one the interpreter.
    """

    def __init__(
        self, begin: Callable[[], Awaitable[ForkServer]], *, most: int, alone: bool = False, idle: float = 60.0
    ) -> None:
        self._start_fork_server = begin
        self._max_workers = most
        self._alone = alone
        self._idle_timeout = idle
        self._server: ForkServer | None = None
        self._servers: set[ForkServer] = set()
        self._start_lock = asyncio.Lock()
        self._idle: deque[_WorkerLease] = deque()
        self._worker_count = 0
        self._waiters: deque[asyncio.Future[_WorkerLease]] = deque()
        self._worker_tasks: set[asyncio.Task[_WorkerLease]] = set()
        self._refresh_tasks: set[asyncio.Task[None]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._generation = 0
        self._calls = 0
        self._quiet = asyncio.Event()
        self._quiet.set()

    @property
    def worker_count(self) -> int:
        """How many calls can be served now without making another slot."""
        return self._worker_count

    async def prepare(self) -> None:
        """Have a slot ready; raises what starting an interpreter raises."""
        if not self._worker_count:
            self._release(await self._acquire(None))

    async def call(self, message: bytes, deadline: float, heard: OutputCallback | None = None) -> WorkerResult:
        """Have one call served, by an interpreter that has loaded what is on the disk now.

        Raises `WorkerTimeout` at the deadline, `ExecutorUnavailable` when what serves it ends. After either, and after
        a cancellation, nothing of the call is left when this returns.
        """
        self._calls += 1
        self._quiet.clear()
        try:
            return await self._call(message, deadline, heard)
        finally:
            self._calls -= 1
            if not self._calls:
                self._quiet.set()

    async def _call(self, message: bytes, deadline: float, heard: OutputCallback | None) -> WorkerResult:
        for _ in range(_MAX_CHANGES):
            lane = await self._acquire(deadline)
            try:
                ended = await lane.worker.call(message, deadline, heard)
            except BaseException:
                await self._run_shielded(self._kill(lane))
                raise
            if ended.stale:
                if lane.generation == self._generation:
                    self.renew()
                self._discard(lane)
                continue
            if ended.clean:
                self._release(lane)
            else:
                # What cannot be undone ends with where it was done.
                self._create_task(self._kill(lane))
            return ended
        raise ExecutorUnavailable("the script changes again and again; try again")

    def renew(self) -> None:
        """Begin new interpreters for all calls that begin from now on."""
        self._generation += 1
        old, self._server = self._server, None
        if old is not None and old.worker_count == 0:
            self._create_task(self._close_server(old))

    def refresh(self) -> None:
        """Begin a new interpreter behind the back of everybody, and use it as soon as it is ready, if it ever is."""
        if not self._closed:
            task = asyncio.get_running_loop().create_task(self._replace_server())
            self._refresh_tasks.add(task)
            task.add_done_callback(self._refresh_tasks.discard)

    async def _replace_server(self) -> None:
        generation = self._generation
        with suppress(WarmStartUnsupported, SkillError):
            mother = await self._start_server()
            if generation != self._generation:
                await self._close_server(mother)
                return
            self.renew()
            if self._alone:
                self._worker_count += 1
                self._release(_WorkerLease(mother, mother.open_worker(), self._generation))
            else:
                self._server = mother

    async def retire(self) -> None:
        """End everything behind the last of the calls that have begun."""
        await self._quiet.wait()
        await self.close()

    async def close(self) -> None:
        """End everything. Safe to call twice."""
        self._closed = True
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(ExecutorUnavailable(_CLOSING))
        starting = (*self._worker_tasks, *self._refresh_tasks)
        for task in starting:
            task.cancel()
        if self._timer is not None:
            self._timer.cancel()
        self._idle.clear()
        self._server = None
        await asyncio.gather(*(self._close_server(mother) for mother in list(self._servers)), *self._tasks)
        if starting:
            await asyncio.wait(starting)

    async def _acquire(self, deadline: float | None) -> _WorkerLease:
        if self._closed:
            raise ExecutorUnavailable(_CLOSING)
        while self._idle:
            # The one that has waited for the longest time: its next process is ready for certain.
            lane = self._idle.popleft()
            if lane.worker.is_usable and not self._is_stale(lane):
                return lane
            self._discard(lane)
        if self._worker_count < self._max_workers:
            self._start_worker()
        return await self._wait_for_worker(deadline)

    async def _wait_for_worker(self, deadline: float | None) -> _WorkerLease:
        """Wait for a slot."""
        # Handed over, and not left for whoever comes first: somebody who calls again and again would always be first.
        waiter: asyncio.Future[_WorkerLease] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout_at(deadline):
                try:
                    return await waiter
                except asyncio.CancelledError:
                    if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                        self._release(waiter.result())
                    raise
        except TimeoutError:
            message = "the skill was busy or not ready until the deadline of the call; it was not begun"
            raise DeadlineExceeded(message) from None

    def _next_waiter(self) -> "asyncio.Future[_WorkerLease] | None":
        """Who has waited for the longest time, if anybody has."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                return waiter
        return None

    def _hand_over(self, lane: _WorkerLease) -> bool:
        waiter = self._next_waiter()
        if waiter is not None:
            waiter.set_result(lane)
        return waiter is not None

    def _free_place(self) -> None:
        """There may be one slot more."""
        self._worker_count -= 1
        if not self._closed and sum(not waiter.done() for waiter in self._waiters) > len(self._worker_tasks):
            self._start_worker()

    def _start_worker(self) -> None:
        """Make a slot for who has waited for the longest time. If that was too long, the next call has it."""
        self._worker_count += 1
        making = asyncio.get_running_loop().create_task(self._create_worker())
        self._worker_tasks.add(making)
        making.add_done_callback(self._on_worker_started)

    def _on_worker_started(self, making: asyncio.Task[_WorkerLease]) -> None:
        self._worker_tasks.discard(making)
        error = ExecutorUnavailable(_CLOSING) if making.cancelled() else making.exception()
        if error is not None:
            waiter = self._next_waiter()
            if waiter is not None:
                waiter.set_exception(error)
            self._free_place()
        elif self._closed or not self._hand_over(making.result()):
            self._release(making.result())

    async def _create_worker(self) -> _WorkerLease:
        """A slot that is counted already."""
        generation = self._generation
        mother = await self._get_server()
        return _WorkerLease(mother, mother.open_worker(), generation)

    async def _get_server(self) -> ForkServer:
        if self._alone:
            return await self._start_server()
        async with self._start_lock:
            while self._server is None or not self._server.is_usable:
                generation = self._generation
                mother = await self._start_server()
                if generation == self._generation:
                    self._server = mother
                else:
                    # What it has loaded has changed meanwhile.
                    self._create_task(self._close_server(mother))
            return self._server

    async def _start_server(self) -> ForkServer:
        mother = await self._start_fork_server()
        self._servers.add(mother)
        return mother

    async def _close_server(self, mother: ForkServer) -> None:
        self._servers.discard(mother)
        await mother.close()

    def _is_stale(self, lane: _WorkerLease) -> bool:
        return not lane.server.is_usable or lane.generation != self._generation

    def _release(self, lane: _WorkerLease) -> None:
        if self._closed or self._is_stale(lane):
            self._discard(lane)
            return
        if self._hand_over(lane):
            return
        loop = asyncio.get_running_loop()
        lane.idle_since = loop.time()
        self._idle.append(lane)
        if self._timer is None:
            self._timer = loop.call_later(self._idle_timeout, self._evict_idle)

    def _evict_idle(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        while self._idle and self._idle[0].idle_since <= loop.time() - self._idle_timeout:
            self._discard(self._idle.popleft())
        if self._worker_count:
            self._timer = loop.call_later(self._idle_timeout / 2, self._evict_idle)
        elif self._server is not None:
            mother, self._server = self._server, None
            self._create_task(self._close_server(mother))

    def _discard(self, lane: _WorkerLease) -> None:
        """Let go of a slot that serves no call, and of its interpreter when that was its last and is not needed."""
        lane.server.release_worker(lane.worker)
        if lane.server.worker_count == 0 and lane.server is not self._server:
            self._create_task(self._close_server(lane.server))
        self._free_place()

    async def _kill(self, lane: _WorkerLease) -> None:
        try:
            if self._alone:
                lane.worker.close()
                await self._close_server(lane.server)
            else:
                await lane.server.kill_worker(lane.worker)
        finally:
            self._free_place()

    async def _run_shielded(self, work: Coroutine[Any, Any, None]) -> None:
        """Do this even if whoever waits for it is cancelled meanwhile, and not before it is done."""
        task = self._create_task(work)
        while not task.done():
            try:
                await asyncio.shield(task)
            except asyncio.CancelledError:
                if task.cancelled():
                    return

    def _create_task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        # A task that nobody refers to may be collected while it runs.
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
