"""Warm interpreters for hosted skills: a fork server per skill, and a pool of workers that serve its calls.

This is the host's side of `programs/zygote.py`, which describes the protocol.
"""

import asyncio
import json
import os
import signal
import socket
import struct
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from openskills.concurrency import shield_until_done
from openskills.errors import DeadlineExceeded, ExecutorUnavailable, LimitExceeded, SkillError
from openskills.executors.spec import Limits
from openskills.executors.supervisor import SupervisedProcess, receive_available, spawn_task
from openskills.executors.warm import exchange_hello, read_programs
from openskills.executors.watchdog import CallWatch, watch

_CALL = struct.Struct("!IBI")
_FRAME = struct.Struct("!cI")
_END = struct.Struct("!iQQQQB")
_MAX_NAMES = 4096
_STALE, _CUT, _UNCLEAN = 1, 2, 4


@dataclass(frozen=True, slots=True)
class WorkerResult:
    """How the process of a call ended, and its output up to the limits.

    `returncode` is negative for a signal. `stale`: it was not begun, because its script has changed. `imported` are
    modules that it has imported and that were not preloaded, as reported by itself.
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
    """A call timed out; with its output so far."""

    def __init__(self, stdout: bytes = b"", stderr: bytes = b"") -> None:
        super().__init__()
        self.stdout = stdout
        self.stderr = stderr


def encode_call(stdin: bytes, variables: Mapping[str, str], *, live: bool) -> bytes:
    """Encode a call for the process that serves it. Raises `ValueError` for an invalid variable."""
    lines = b""
    for name, value in variables.items():
        if "\0" in name or "\0" in value or "=" in name or not name:
            raise ValueError(name)
        lines += f"{name}={value}\0".encode("utf-8", "surrogateescape")
    return b"".join((_CALL.pack(_CALL.size + len(lines) + len(stdin), live, len(lines)), lines, stdin))


OutputCallback = Callable[[str, bytes], None]
"""Called with the name of a stream and its output."""


class FrameParser:
    """Incremental parser for the frames of a response, which passes on output as it arrives."""

    def __init__(self, on_output: OutputCallback | None = None) -> None:
        self._unread = b""
        self._parts: dict[bytes, list[bytes]] = {b"o": [], b"e": []}
        self._on_output = on_output

    def feed(self, data: bytes) -> WorkerResult | None:
        """Parse the next bytes; returns the result at the end.

        Raises `ValueError` for an invalid response.
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
                status, spent, memory, stdout, stderr, flags = _END.unpack_from(data, start)
                names = data[start + _END.size : end].decode("ascii", "replace")
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
            if kind not in self._parts:
                raise ValueError(kind)
            if end > length:
                break
            part = data[start:end]
            self._parts[kind].append(part)
            if self._on_output is not None:
                self._on_output("stdout" if kind == b"o" else "stderr", part)
            place = end
        self._unread = data[place:]
        return None

    def to_timeout(self) -> WorkerTimeout:
        """The error for a response without an end, with the output so far."""
        return WorkerTimeout(b"".join(self._parts[b"o"]), b"".join(self._parts[b"e"]))


_CHUNK = 256 * 1024
_GONE = "the process that served the skill has exited; try again"


class Worker:
    """A connection to a process that serves one call at a time. It belongs to the event loop that created it."""

    server: "ForkServer"
    """The fork server that has opened it."""

    def __init__(self, number: int, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.number = number
        self.idle_since = 0.0
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._answer: asyncio.Future[WorkerResult] | None = None
        self._frames = FrameParser()
        self.is_usable = True
        self._loop.add_reader(connection, self._on_readable)

    async def call(self, message: bytes, deadline: float, on_output: OutputCallback | None = None) -> WorkerResult:
        """Serve one call.

        Raises `WorkerTimeout` at the deadline (in loop time) and `ExecutorUnavailable` if the process exits. After
        either, and after a cancellation, the worker is unusable and its process has to be killed.
        """
        if not self.is_usable:
            raise ExecutorUnavailable(_GONE)
        answer = self._answer = self._loop.create_future()
        self._frames = FrameParser(on_output)

        def on_deadline() -> None:
            if not answer.done():
                answer.set_exception(self._frames.to_timeout())

        timer = self._loop.call_at(deadline, on_deadline)
        try:
            self._send(memoryview(message))
            return await answer
        except BaseException:
            self.is_usable = False
            raise
        finally:
            timer.cancel()
            self._answer = None

    def fail(self, error: SkillError) -> None:
        """Let the running call raise this error."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)

    def close(self) -> None:
        """Close the connection; the process exits unless a call is running. Safe to call twice."""
        self.is_usable = False
        if self._connection.fileno() >= 0:
            self._loop.remove_reader(self._connection)
            self._loop.remove_writer(self._connection)
            self._connection.close()
        self.fail(ExecutorUnavailable(_GONE))

    def _send(self, data: memoryview) -> None:
        try:
            data = data[self._connection.send(data) :]
        except BlockingIOError:
            pass
        except OSError:
            self.close()
            return
        if data:
            self._loop.add_writer(self._connection, self._send_more, data)

    def _send_more(self, data: memoryview) -> None:
        self._loop.remove_writer(self._connection)
        self._send(data)

    def _on_readable(self) -> None:
        data = receive_available(self._connection, _CHUNK)
        if data is None:
            return
        try:
            ended = self._frames.feed(data)
        except ValueError:
            data = b""
            ended = None
        if not data:
            self.close()
            return
        answer = self._answer
        if ended is not None and answer is not None and not answer.done():
            answer.set_result(ended)


PARTS: Final = ("fork_exit", "traces", "call", "zygote")
"""The modules in `programs/` that make up a fork server."""

_ORDER = struct.Struct("!cI")
_LENGTH = struct.Struct("!I")
_EXIT_TIMEOUT = 2.0
_READY_TIMEOUT = 300.0
_EXCERPT = 4000

# The bottom of every call's stack: exceptions and exit codes behave as in a new interpreter.
_BOOTSTRAP = """\
stream = open(0, "rb", 0, closefd=False)
names = {{"__name__": "openskills_zygote"}}
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
"""Starts a command with these descriptors as stdin and stderr, in the isolation of the skill."""


class WarmStartUnsupported(Exception):
    """The skill cannot be served by a warm interpreter; the message says how a cold start would differ."""


@dataclass(frozen=True, slots=True)
class ForkServerConfig:
    """What a fork server loads (and cannot do without, if in `named`), and how much output of calls is kept.

    `tidy`: it has its own sandbox, which must be restored after each call. `reuse`: how many calls one process serves;
    0 for a new process per call.
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
        """As JSON values."""
        return {name: getattr(self, name) for name in self.__slots__}


class ForkServer:
    """A warm interpreter that is ready. It belongs to the event loop that created it."""

    def __init__(self, process: SupervisedProcess, control: socket.socket) -> None:
        self.process = process
        self._control = control
        self._loop = asyncio.get_running_loop()
        self._received = b""
        self._ending: dict[int, asyncio.Future[None]] = {}
        self._next = 0
        self.worker_count = 0
        self.generation = 0
        """Counts the versions of the files that it has loaded; kept by its pool."""
        self.is_usable = True
        self._loop.add_reader(control, self._on_readable)
        process.add_done_callback(lambda _: self._disconnect())

    @classmethod
    async def start(
        cls, launch: ForkServerLauncher, python: str, config: ForkServerConfig, *, timeout: float = _READY_TIMEOUT
    ) -> "ForkServer":
        """Start a fork server, and wait up to `timeout` seconds until everything is loaded.

        Raises `WarmStartUnsupported` if it will not serve, and `ExecutorUnavailable` if it cannot be started.
        """
        parts = read_programs(PARTS)
        boot = _BOOTSTRAP.format(sizes=tuple(map(len, parts)))
        ours, theirs = socket.socketpair()
        stderr = os.memfd_create("stderr", os.MFD_CLOEXEC)
        try:
            with theirs:
                process = await launch((python, "-s", "-S", "-P", "-c", boot), theirs.fileno(), stderr)
            try:
                async with asyncio.timeout(timeout):
                    await _perform_handshake(ours, b"".join(parts), config, stderr)
            except TimeoutError:
                process.signal(signal.SIGKILL)
                raise ExecutorUnavailable(
                    f"starting the interpreter of the skill timed out after {timeout:g} s"
                ) from None
            except BaseException:
                process.signal(signal.SIGKILL)
                raise
        except BaseException:
            ours.close()
            raise
        finally:
            os.close(stderr)
        return cls(process, ours)

    def open_worker(self, limits: Limits | None = None) -> Worker:
        """A new worker, for calls with these limits. Raises `ExecutorUnavailable` if the interpreter has exited."""
        if not self.is_usable:
            raise ExecutorUnavailable("the interpreter of the skill has exited; try again")
        self._next += 1
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(self._control, [_ORDER.pack(b"z", self._next)], [theirs.fileno()])
            except OSError:
                ours.close()
                raise ExecutorUnavailable("the interpreter of the skill takes no more calls; try again") from None
        self.worker_count += 1
        if self.process.cgroup is not None and limits is not None:
            self.process.cgroup.limit(limits.for_calls(self.worker_count), busy=True)
        worker = Worker(self._next, ours)
        worker.server = self
        return worker

    async def kill_worker(self, worker: Worker) -> None:
        """Kill a worker with everything that its call has started; returns when nothing is left."""
        worker.close()
        self.worker_count -= 1
        if not self.is_usable:
            return
        done = self._ending[worker.number] = self._loop.create_future()
        try:
            self._control.send(_ORDER.pack(b"k", worker.number))
            async with asyncio.timeout(_EXIT_TIMEOUT):
                await done
        except (TimeoutError, OSError):
            # A call has stopped it. Terminating it also kills its descendants.
            await self.close()
        finally:
            self._ending.pop(worker.number, None)

    def release_worker(self, worker: Worker) -> None:
        """Close a worker that serves no call."""
        worker.close()
        self.worker_count -= 1

    async def close(self) -> None:
        """Terminate it with all its calls. Safe to call twice."""
        self._disconnect()
        await self.process.wait_or_kill(_EXIT_TIMEOUT)
        await self.process.wait()

    def _on_readable(self) -> None:
        data = receive_available(self._control, 4096)
        if data is None:
            return
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


async def _perform_handshake(control: socket.socket, program: bytes, config: ForkServerConfig, stderr: int) -> None:
    data = json.dumps(config.to_dict()).encode()
    try:
        hello = await exchange_hello(control, program + _LENGTH.pack(len(data)) + data)
    except (OSError, EOFError, ValueError, TypeError):
        lines = os.pread(stderr, _EXCERPT, 0).decode("utf-8", "replace").strip().splitlines()
        detail = f": {lines[-1]}" if lines else ""
        raise ExecutorUnavailable(f"the interpreter of the skill exited before it was ready{detail}") from None
    if hello["failed"]:
        raise ExecutorUnavailable(f"the interpreter cannot load the skill: {hello['failed']}")
    if hello["refused"]:
        raise WarmStartUnsupported(str(hello["refused"]))


_MAX_CHANGES = 3
_CLOSING = "the skill is being closed; try again"


class WorkerPool:
    """Serves the calls of one skill, up to `max_workers` at a time. It belongs to the event loop that uses it first.

    A call that exceeds `limits` (those that the kernel does not enforce) is killed and raises `LimitExceeded`. `begin`
    starts a fork server. `dedicated`: each worker gets its own, and is closed with it. A worker is closed after
    `idle_timeout` seconds without a call, and the fork server with the last worker.
    """

    def __init__(
        self,
        begin: Callable[[], Awaitable[ForkServer]],
        *,
        max_workers: int,
        limits: Limits | None = None,
        dedicated: bool = False,
        idle_timeout: float = 60.0,
    ) -> None:
        self._start_fork_server = begin
        self._max_workers = max_workers
        self._limits = limits or Limits()
        self._dedicated = dedicated
        self._idle_timeout = idle_timeout
        self._server: ForkServer | None = None
        self._servers: set[ForkServer] = set()
        self._start_lock = asyncio.Lock()
        self._idle: deque[Worker] = deque()
        self.worker_count = 0
        """The current number of workers."""
        self._waiters: deque[asyncio.Future[Worker]] = deque()
        self._worker_tasks: set[asyncio.Task[Worker]] = set()
        self._refresh_tasks: set[asyncio.Task[None]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._generation = 0
        self._calls = 0
        self._quiet = asyncio.Event()
        self._quiet.set()

    async def prepare(self) -> None:
        """Start a worker if there is none; raises what starting a fork server raises."""
        if not self.worker_count:
            self._release(await self._acquire(None))

    async def call(
        self,
        message: bytes,
        deadline: float,
        on_output: OutputCallback | None = None,
        on_start: Callable[[], object] | None = None,
    ) -> WorkerResult:
        """Serve one call, with an interpreter that has loaded the current files; `on_start` is called when it has one.

        Raises `WorkerTimeout` at the deadline, `ExecutorUnavailable` if the process exits. After either, and after a
        cancellation, nothing of the call is left when this returns.
        """
        self._calls += 1
        self._quiet.clear()
        try:
            for _ in range(_MAX_CHANGES):
                worker = await self._acquire(deadline)
                watching = self._watch(worker)
                if on_start is not None:
                    on_start()
                try:
                    ended = await worker.call(message, deadline, on_output)
                except BaseException as error:
                    excess = worker.server.process.excess if isinstance(error, ExecutorUnavailable) else ""
                    await self._kill_shielded(worker)
                    if excess:
                        raise LimitExceeded(excess) from None
                    raise
                finally:
                    watching.close()
                if ended.returncode == -signal.SIGKILL and (excess := worker.server.process.excess):
                    # It reported the end of the call before the kernel had killed it, too.
                    await self._kill_shielded(worker)
                    raise LimitExceeded(excess)
                if ended.stale:
                    if worker.server.generation == self._generation:
                        self.renew()
                    self._discard(worker)
                    continue
                if ended.clean:
                    self._release(worker)
                else:
                    # It left changes that cannot be undone.
                    spawn_task(self._kill(worker), self._tasks)
                return ended
            raise ExecutorUnavailable("the script keeps changing; try again")
        finally:
            self._calls -= 1
            if not self._calls:
                self._quiet.set()

    def _watch(self, worker: Worker) -> CallWatch:
        # The calls of a shared fork server can only be measured together.
        calls = 1 if self._dedicated else worker.server.worker_count
        return CallWatch(
            lambda: watch(worker.server.process.pid, self._limits.for_calls(calls)),
            lambda message: worker.fail(LimitExceeded(message)),
        )

    def renew(self) -> None:
        """Start new fork servers for all later calls."""
        self._generation += 1
        old, self._server = self._server, None
        if old is not None and old.worker_count == 0:
            spawn_task(self._close_server(old), self._tasks)

    def refresh(self) -> None:
        """Start a new fork server in the background, and use it as soon as it is ready."""
        if not self._closed:
            spawn_task(self._replace_server(), self._refresh_tasks)

    async def _replace_server(self) -> None:
        with suppress(WarmStartUnsupported, SkillError):
            server = await self._start_server()
            if server.generation != self._generation:
                await self._close_server(server)
                return
            self.renew()
            server.generation = self._generation
            if self._dedicated:
                self.worker_count += 1
                self._release(server.open_worker(self._limits))
            else:
                self._server = server

    async def retire(self) -> None:
        """Close after the calls that have begun."""
        await self._quiet.wait()
        await self.close()

    async def close(self) -> None:
        """Terminate everything. Safe to call twice."""
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
        await asyncio.gather(*map(self._close_server, list(self._servers)), *self._tasks)
        if starting:
            await asyncio.wait(starting)

    async def _acquire(self, deadline: float | None) -> Worker:
        if self._closed:
            raise ExecutorUnavailable(_CLOSING)
        while self._idle:
            # The one that has been idle the longest: its next process is certainly ready.
            worker = self._idle.popleft()
            if worker.is_usable and not self._is_stale(worker):
                return worker
            self._discard(worker)
        if self.worker_count < self._max_workers:
            self._start_worker()
        # Workers are handed over in order: otherwise a caller in a loop could always be first.
        waiter: asyncio.Future[Worker] = asyncio.get_running_loop().create_future()
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
            raise DeadlineExceeded(
                "timed out waiting for a free worker of the skill; the call was not started"
            ) from None

    def _next_waiter(self) -> "asyncio.Future[Worker] | None":
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                return waiter
        return None

    def _free_place(self) -> None:
        self.worker_count -= 1
        if not self._closed and sum(not waiter.done() for waiter in self._waiters) > len(self._worker_tasks):
            self._start_worker()

    def _start_worker(self) -> None:
        """Start a worker for the longest waiting call, or the next one if that has timed out."""
        self.worker_count += 1

        async def open_worker() -> Worker:
            return (await self._get_server()).open_worker(self._limits)

        spawn_task(open_worker(), self._worker_tasks).add_done_callback(self._on_worker_started)

    def _on_worker_started(self, task: asyncio.Task[Worker]) -> None:
        error = ExecutorUnavailable(_CLOSING) if task.cancelled() else task.exception()
        waiter = None if self._closed and error is None else self._next_waiter()
        if error is not None:
            if waiter is not None:
                waiter.set_exception(error)
            self._free_place()
        elif waiter is not None:
            waiter.set_result(task.result())
        else:
            self._release(task.result())

    async def _get_server(self) -> ForkServer:
        if self._dedicated:
            return await self._start_server()
        async with self._start_lock:
            while self._server is None or not self._server.is_usable:
                server = await self._start_server()
                if server.generation == self._generation:
                    self._server = server
                else:
                    # The files have changed in the meantime.
                    spawn_task(self._close_server(server), self._tasks)
            return self._server

    async def _start_server(self) -> ForkServer:
        generation = self._generation
        server = await self._start_fork_server()
        server.generation = generation
        self._servers.add(server)
        return server

    async def _close_server(self, server: ForkServer) -> None:
        self._servers.discard(server)
        await server.close()

    def _is_stale(self, worker: Worker) -> bool:
        return not worker.server.is_usable or worker.server.generation != self._generation

    def _release(self, worker: Worker) -> None:
        if self._closed or self._is_stale(worker):
            self._discard(worker)
            return
        if (waiter := self._next_waiter()) is not None:
            waiter.set_result(worker)
            return
        loop = asyncio.get_running_loop()
        worker.idle_since = loop.time()
        self._idle.append(worker)
        if self._timer is None:
            self._timer = loop.call_later(self._idle_timeout, self._evict_idle)

    def _evict_idle(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        while self._idle and self._idle[0].idle_since <= loop.time() - self._idle_timeout:
            self._discard(self._idle.popleft())
        if self.worker_count:
            self._timer = loop.call_later(self._idle_timeout / 2, self._evict_idle)
        elif self._server is not None:
            server, self._server = self._server, None
            spawn_task(self._close_server(server), self._tasks)

    def _discard(self, worker: Worker) -> None:
        """Close an idle worker, and its fork server if that is unused now."""
        worker.server.release_worker(worker)
        if worker.server.worker_count == 0 and worker.server is not self._server:
            spawn_task(self._close_server(worker.server), self._tasks)
        self._free_place()

    async def _kill(self, worker: Worker) -> None:
        try:
            if self._dedicated:
                worker.close()
                await self._close_server(worker.server)
            else:
                await worker.server.kill_worker(worker)
        finally:
            self._free_place()

    async def _kill_shielded(self, worker: Worker) -> None:
        """Kill a worker completely even if the caller is cancelled meanwhile."""
        await shield_until_done(spawn_task(self._kill(worker), self._tasks))
