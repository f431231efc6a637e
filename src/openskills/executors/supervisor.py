"""Client of `programs/supervisor.py`: start commands over a connection and learn how they end.

A `SupervisorPool` gives each command its own supervisor, so that leftover processes of different commands can be told
apart. A `SupervisorRegistry` has one supervisor per key for sandboxes, and kills orphaned processes of dead hosts,
which carry a marker of their host on the command line.
"""

import asyncio
import errno
import json
import os
import re
import resource
import secrets
import signal
import socket
import struct
import sys
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from openskills.concurrency import CrossLoopLock, run_in_thread
from openskills.errors import ExecutorUnavailable, InvalidArgument
from openskills.executors.cgroup import FOUND, Cgroup, find_cgroups
from openskills.executors.spec import Limits
from openskills.subprocesses import HelperProcess, start_helper

T = TypeVar("T")

PROGRAM: Final = Path(__file__).parent / "programs" / "supervisor.py"

_HEADER = struct.Struct("!I")
_MAX_EVENT = 64 * 1024
_CHUNK = 64 * 1024
_READERS_TIMEOUT = 0.2
_INNER_KILL_TIMEOUT = 0.7
_MISSING_ERRORS = (errno.ENOENT, errno.EACCES, errno.ENOTDIR, errno.ENOEXEC, errno.EINVAL, errno.E2BIG)
_GONE = "the supervisor process has ended; try again"


class SpawnError(ExecutorUnavailable):
    """The system could not start the command, which has certainly not run."""


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """What a supervisor is to start. `fds` maps descriptor numbers in the command to descriptors of ours.

    With `limits` it gets a cgroup of its own with them, where this process may make cgroups.
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str | int
    fds: Mapping[int, int]
    terminal: int | None = None
    ignored: Sequence[int] = ()
    handshake: tuple[int, int] | None = None
    hold: bool = False
    contained: bool = False
    umask: int = 0o077
    user: int | None = None
    joins: bool = False
    limits: Limits | None = None


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """How a command ended; a negative `status` is a signal. `lost`: its supervisor died, and the command with it.

    `memory_kib` is the largest resident size of one of its processes. `reusable`: the sandbox is unchanged and can run
    another command.
    """

    status: int
    was_ready: bool = True
    cpu_ms: int = 0
    clean: bool = True
    lost: bool = False
    reusable: bool = False
    memory_kib: int = 0


class SupervisedProcess:
    """A command that a supervisor has started.

    `ready_at` is the loop's time when its setup was done; `notes` are added to the result. `host_pid` is the pid of its
    container on this machine, if the supervisor sees other pids. `server` is the process that has forked it, if any.
    `cgroup` has the limits of its process tree, if the kernel enforces them.
    """

    def __init__(self, supervisor: "Supervisor", identity: int) -> None:
        loop = asyncio.get_running_loop()
        self._supervisor = supervisor
        self._identity = identity
        self._started: asyncio.Future[int] = loop.create_future()
        self._ready: asyncio.Future[None] = loop.create_future()
        self._exited: asyncio.Future[ExitStatus] = loop.create_future()
        self._readers: deque[asyncio.Future[dict[str, int]]] = deque()
        self.ready_at: float | None = None
        self.host_pid: int | None = None
        self.server: SupervisedProcess | None = None
        self.notes: list[str] = []
        self.cgroup: Cgroup | None = None

    @property
    def excess(self) -> str:
        """A sentence about the limit for which the kernel killed it; empty if it did not."""
        return "" if self.cgroup is None else self.cgroup.describe_excess()

    @property
    def pid(self) -> int:
        """Its pid as the supervisor sees it, or that of its container."""
        return self.host_pid or self._started.result()

    async def wait_ready(self) -> None:
        """Wait until its setup is done (at once without a handshake) or it has ended. Cancelling the wait kills it."""
        try:
            await asyncio.wait([self._ready, self._exited], return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            self.signal(signal.SIGKILL)
            raise

    async def wait(self) -> ExitStatus:
        """Wait for its end."""
        return await asyncio.shield(self._exited)

    async def wait_or_kill(self, timeout: float) -> None:
        """Wait for its end, and kill it after the timeout."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self.wait()
                return
        self.signal(signal.SIGKILL)

    def add_done_callback(self, act: Callable[[ExitStatus], None]) -> None:
        """Call `act` as soon as it has ended, before tasks that await the end continue."""
        self._exited.add_done_callback(lambda done: act(done.result()))

    def release(self) -> None:
        """Let it begin, after `hold`."""
        self._supervisor.notify({"op": "release", "id": self._identity})

    def signal(self, number: int, *, deep: bool = False) -> None:
        """Send a signal to its process group, or with `deep` to the command inside its container."""
        self._supervisor.notify({"op": "signal", "id": self._identity, "number": number, "deep": deep})

    async def find_readers(self, files: Sequence[tuple[int, int]]) -> Mapping[str, int]:
        """The threads that wait for input, with the number of times they were blocked, if nothing else may print.

        `files` are the device and inode of its stdin, stdout and stderr. Empty if unknown.
        """
        if self.server is not None:
            return await self.server.find_readers(files)
        self._supervisor.notify({"op": "readers", "id": self._identity, "files": files})
        answer: asyncio.Future[dict[str, int]] = asyncio.get_running_loop().create_future()
        self._readers.append(answer)
        await asyncio.wait([answer, self._exited], timeout=_READERS_TIMEOUT, return_when=asyncio.FIRST_COMPLETED)
        return answer.result() if answer.done() else {}

    async def wait_started(self) -> None:
        """Wait until it runs; raises the error if it cannot be started.

        Only one task may wait. If that is cancelled, it is unknown whether the command runs.
        """
        await self._started

    def handle_event(self, event: Mapping[str, Any]) -> bool:
        """Handle an event of the supervisor; true for the last one."""
        what = event["event"]
        if what == "started" and not self._started.done():
            self._settle_cgroup(bool(event.get("cgroup")))
            self._started.set_result(int(event["pid"]))
        elif what == "ready" and not self._ready.done():
            self._ready.set_result(None)
            self.ready_at = self._ready.get_loop().time()
        elif what == "readers":
            if self._readers and self._has_listener():
                self._readers.popleft().set_result({str(name): int(count) for name, count in event["readers"].items()})
        elif what == "failed":
            number, what = int(event["errno"]), str(event["what"])
            missing = number in _MISSING_ERRORS
            error = InvalidArgument("command", f"cannot be started: {what}") if missing else None
            self._fail(error or SpawnError(f"the command cannot be started: {what}"))
            return True
        elif what == "exited":
            status, was_ready, cpu_ms = int(event["status"]), bool(event["was_ready"]), int(event["cpu_ms"])
            reusable = bool(event.get("reusable"))
            memory = int(event["memory_kib"])
            self._finish(ExitStatus(status, was_ready, cpu_ms, bool(event["clean"]), False, reusable, memory))
            return True
        return False

    def _settle_cgroup(self, begins_there: bool) -> None:
        if self.cgroup is None:
            return
        if begins_there:
            self._exited.add_done_callback(lambda _, cgroup=self.cgroup: cgroup.close())
            return
        self.cgroup.close()
        self.cgroup = None
        for cgroups in FOUND:
            cgroups.reason = "this kernel or container does not start processes in a cgroup (clone3)"

    def abandon(self) -> None:
        """Stop waiting for its end."""
        self._supervisor.abandon(self)

    def mark_lost(self) -> None:
        """The supervisor is gone, and the command with it."""
        self._fail(ExecutorUnavailable(_GONE))
        self._finish(ExitStatus(-9, lost=True))

    def _fail(self, error: Exception) -> None:
        if self.cgroup is not None and not self._started.done():
            self.cgroup.close()
        if not self._started.done() and self._has_listener():
            self._started.set_exception(error)
            # Keep asyncio from logging it if nothing awaits it.
            self._started.exception()

    def _finish(self, end: ExitStatus) -> None:
        if not self._exited.done() and self._has_listener():
            self._exited.set_result(end)

    def _has_listener(self) -> bool:
        # A future of a closed loop cannot be resolved.
        return not self._exited.get_loop().is_closed()


class Supervisor:
    """A connection to a supervisor process. It belongs to the event loop that created it.

    `dedicated`: it runs on this machine, one command at a time, so it may be killed if it does not respond.
    """

    def __init__(
        self, connection: socket.socket, helper: HelperProcess | None = None, *, dedicated: bool = False
    ) -> None:
        connection.setblocking(False)
        self._is_dedicated = dedicated
        self._pidfd = -1
        self._connection = connection
        self._helper = helper
        self._loop = asyncio.get_running_loop()
        self._received = bytearray()
        self._unsent: deque[tuple[bytearray, list[int]]] = deque()
        self._commands: dict[int, SupervisedProcess] = {}
        self._is_blocked = False
        self._next = 0
        self._closed = False
        self.marker = ""
        """The marker of the processes that it starts, if they have one."""
        self._loop.add_reader(connection, self._on_readable)

    @classmethod
    async def spawn(cls) -> "Supervisor":
        """Start a supervisor process on this machine."""
        helper = start_helper([sys.executable, "-I", "-S", str(PROGRAM)], {})
        return cls(helper.connection, helper)

    @property
    def is_usable(self) -> bool:
        """Whether it is connected and belongs to the running event loop."""
        return not self._closed and not self._loop.is_closed() and self._loop is asyncio.get_running_loop()

    async def start(self, launch: LaunchRequest) -> SupervisedProcess:
        """Start a command. The descriptors are copied; the caller closes its own.

        Raises `InvalidArgument` if its program or directory does not exist, `ExecutorUnavailable` if it cannot be
        started for another reason.
        """
        cgroup = None if launch.limits is None else await _create_cgroup(launch.limits)
        self._next += 1
        descriptors, cwd = list(launch.fds.values()), launch.cwd
        if isinstance(cwd, int):
            descriptors.append(cwd)
            cwd = len(descriptors) - 1
        if cgroup is not None:
            descriptors.append(cgroup.descriptor)
        plain = ("terminal", "handshake", "hold", "contained", "umask", "user", "joins")
        message = {
            "op": "start",
            "id": self._next,
            "argv": list(launch.argv),
            "env": dict(launch.env),
            "cwd": cwd,
            "fds": {str(number): index for index, number in enumerate(launch.fds)},
            "ignored": [int(number) for number in launch.ignored],
            "cgroup": None if cgroup is None else len(descriptors) - 1,
            **{name: getattr(launch, name) for name in plain},
        }
        process = self._commands[self._next] = SupervisedProcess(self, self._next)
        process.cgroup = cgroup
        if launch.handshake is None:
            process.handle_event({"event": "ready"})
        try:
            self._send_message(message, descriptors)
        except ExecutorUnavailable:
            if cgroup is not None:
                cgroup.close()
            raise
        try:
            await process.wait_started()
        except asyncio.CancelledError:
            # It may be running already.
            process.signal(signal.SIGKILL)
            raise
        return process

    async def fork(self) -> "Supervisor":
        """A second supervisor, in its own process."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self._send_message({"op": "fork"}, [theirs.fileno()])
            except ExecutorUnavailable:
                ours.close()
                raise
        return Supervisor(ours, dedicated=self._helper is not None)

    def set_limits(self, limits: Sequence[tuple[int, int, int]]) -> None:
        """Limit everything that is started from now on: (resource, soft, hard)."""
        self.notify({"op": "limit", "limits": [list(limit) for limit in limits]})

    def notify(self, message: Mapping[str, Any]) -> None:
        """Send a message without a reply; ignored if the supervisor is gone."""
        if not self._closed:
            self._send_message(message, ())

    async def close(self) -> None:
        """Terminate it with all its commands."""
        if self._loop.is_closed() or self._loop is asyncio.get_running_loop():
            self.close_nowait()
        else:
            # The connection of another running loop may only be touched in that loop's thread.
            self._loop.call_soon_threadsafe(self.close_nowait)
        if self._helper is not None:
            await asyncio.to_thread(self._helper.wait_or_kill)

    def _send_message(self, message: Mapping[str, Any], descriptors: Sequence[int]) -> None:
        if self._closed:
            raise ExecutorUnavailable(_GONE)
        data = json.dumps(message).encode()
        self._unsent.append((bytearray(_HEADER.pack(len(data)) + data), list(descriptors)))
        if len(self._unsent) == 1:
            self._flush()
        if self._unsent:
            # Copy the descriptors of an unsent message: its sender may be cancelled and close its own.
            unsent = self._unsent[-1][1]
            copies: list[int] = []
            try:
                copies.extend(map(os.dup, unsent))
            except OSError as error:
                self._unsent.pop()
                _close(copies)
                raise SpawnError(f"cannot open more files: {error.strerror}; kill other commands") from None
            unsent[:] = copies

    def _flush(self) -> None:
        while self._unsent:
            data, descriptors = self._unsent[0]
            try:
                # The descriptors are sent with the first byte.
                sent = socket.send_fds(self._connection, [data], descriptors)
            except BlockingIOError:
                self._loop.add_writer(self._connection, self._flush)
                self._is_blocked = True
                return
            except OSError:
                self.close_nowait()
                return
            if self._is_blocked:
                # Delayed messages own copies of their descriptors.
                _close(descriptors)
            descriptors.clear()
            del data[:sent]
            if not data:
                self._unsent.popleft()
        if self._is_blocked:
            self._loop.remove_writer(self._connection)
            self._is_blocked = False

    def _on_readable(self) -> None:
        data = receive_available(self._connection, _CHUNK)
        if data is None:
            return
        if not data:
            self.close_nowait()
            return
        self._received += data
        # Do not trust a container: a skill's script may have replaced the supervisor there.
        try:
            self._handle_events()
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            self.close_nowait()

    def _handle_events(self) -> None:
        while len(self._received) >= _HEADER.size:
            (length,) = _HEADER.unpack_from(self._received)
            if length > _MAX_EVENT:
                raise ValueError(length)
            end = _HEADER.size + length
            if len(self._received) < end:
                return
            event = cast("Mapping[str, Any]", json.loads(self._received[_HEADER.size : end]))
            del self._received[:end]
            if event["event"] == "serving":
                self._on_serving(int(event["pid"]))
                continue
            process = self._commands.get(int(event["id"]))
            if process is not None and process.handle_event(event):
                del self._commands[int(event["id"])]

    def _on_serving(self, pid: int) -> None:
        # The pid is only valid here for a supervisor that we have forked ourselves.
        if self._is_dedicated and self._pidfd < 0 and sys.platform == "linux":
            with suppress(ProcessLookupError):
                self._pidfd = os.pidfd_open(pid)

    def abandon(self, kept: "SupervisedProcess") -> None:
        """Stop waiting for a command that should have ended; a dedicated supervisor is terminated."""
        if self._is_dedicated:
            self.close_nowait()
        kept.mark_lost()

    def close_nowait(self) -> None:
        """Make it exit with all its commands, without waiting. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        if self._pidfd >= 0:
            # It exits when the connection closes, unless a command has stopped it.
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            os.close(self._pidfd)
            self._pidfd = -1
        if not self._loop.is_closed():
            self._loop.remove_reader(self._connection)
            self._loop.remove_writer(self._connection)
        self._connection.close()
        if self._is_blocked:
            for _, descriptors in self._unsent:
                _close(descriptors)
        self._unsent.clear()
        commands, self._commands = self._commands, {}
        for process in commands.values():
            process.mark_lost()


class InnerSupervisor(Supervisor):
    """The connection to a supervisor inside `process`. Commands could stop it; then all of them are killed."""

    def __init__(self, connection: socket.socket, process: SupervisedProcess) -> None:
        super().__init__(connection)
        self._process = process

    def notify(self, message: Mapping[str, Any]) -> None:
        super().notify(message)
        if message.get("number") == signal.SIGKILL:

            def kill_if_running() -> None:
                if message["id"] in self._commands:
                    self._process.signal(signal.SIGKILL)

            self._loop.call_later(_INNER_KILL_TIMEOUT, kill_if_running)

    def abandon(self, kept: SupervisedProcess) -> None:
        self._process.signal(signal.SIGKILL)
        super().abandon(kept)


def receive_available(connection: socket.socket, size: int) -> bytes | None:
    """The next bytes of a non-blocking connection; None if there are none yet, empty at its end."""
    try:
        return connection.recv(size)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def spawn_task(work: Coroutine[Any, Any, T], tasks: set[asyncio.Task[Any]]) -> asyncio.Task[T]:
    """Run a background task, and keep it in `tasks` until its end: otherwise it may be garbage-collected."""
    task = asyncio.get_running_loop().create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    task.add_done_callback(retrieve_exception)
    return task


def retrieve_exception(task: asyncio.Task[Any]) -> None:
    """Keep asyncio from logging an exception of a task that nothing awaits."""
    if not task.cancelled():
        task.exception()


def _close(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


async def _create_cgroup(limits: Limits) -> Cgroup | None:
    """A cgroup for a command with these limits; None where there are none, which only the first command checks."""
    cgroups = FOUND[0] if FOUND else await run_in_thread(lambda: find_cgroups(is_orphaned))
    if cgroups.reason:
        return None
    return await run_in_thread(
        lambda: cgroups.create(create_marker(), limits), undo=lambda cgroup: cgroup and cgroup.close()
    )


Rlimits = tuple[tuple[int, int, int], ...]
"""(resource, soft, hard), in the order in which to set them."""


def to_rlimits(limits: Limits) -> Rlimits:
    """The kernel limits for every process of a command, without the number of processes.

    The kernel counts processes per user, so only backends with a user per workspace can limit them.
    """
    wanted = (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, limits.open_files),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        # Private writable memory. RLIMIT_AS would also count reserved memory, of which many runtimes have terabytes.
        (resource.RLIMIT_DATA, limits.memory_bytes),
        (resource.RLIMIT_CPU, limits.cpu_seconds),
    )
    return tuple((kind, value, value) for kind, value in wanted if value is not None)


_MAX_IDLE = 4


@dataclass(slots=True)
class _LoopSupervisors:
    """The supervisors of one event loop."""

    first: Supervisor | None = None
    idle: dict[Rlimits, list[Supervisor]] = field(default_factory=lambda: defaultdict[Rlimits, list[Supervisor]](list))
    busy: set[Supervisor] = field(default_factory=set[Supervisor])
    spawn_lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def list_all(self) -> list[Supervisor]:
        """All of them; the first one comes last, because it has forked the others."""
        idle = [one for supervisors in self.idle.values() for one in supervisors]
        return [*self.busy, *idle, *([self.first] if self.first else [])]


class SupervisorPool:
    """Gives each command its own supervisor with its limits, and keeps a few idle ones per event loop."""

    def __init__(self) -> None:
        self._loops: dict[asyncio.AbstractEventLoop, _LoopSupervisors] = {}

    async def start(self, launch: LaunchRequest, limits: Rlimits = ()) -> SupervisedProcess:
        """Start a command with `limits`, which apply to all its descendants. They are killed when it ends."""
        # Nothing else would terminate the supervisors of a closed event loop.
        await _close_all([self._loops.pop(loop) for loop in list(self._loops) if loop.is_closed()])
        here = self._loops.setdefault(asyncio.get_running_loop(), _LoopSupervisors())
        idle = here.idle[limits]
        while idle and not idle[-1].is_usable:
            idle.pop()
        supervisor = idle.pop() if idle else await _fork_supervisor(here, limits)
        try:
            process = await supervisor.start(launch)
        except BaseException:
            await supervisor.close()
            raise
        here.busy.add(supervisor)

        def return_to_pool(end: ExitStatus) -> None:
            here.busy.discard(supervisor)
            if end.clean and supervisor.is_usable and len(idle) < _MAX_IDLE:
                idle.append(supervisor)
            else:
                supervisor.close_nowait()

        process.add_done_callback(return_to_pool)
        return process

    async def close(self) -> None:
        """Terminate all supervisors with their commands."""
        loops, self._loops = self._loops, {}
        await _close_all(loops.values())


async def _close_all(loops: Iterable[_LoopSupervisors]) -> None:
    for supervisor in [one for supervisors in loops for one in supervisors.list_all()]:
        await supervisor.close()


async def _fork_supervisor(here: _LoopSupervisors, limits: Rlimits) -> Supervisor:
    # Forking an existing supervisor takes a millisecond; starting a program takes ten.
    async with here.spawn_lock:
        if here.first is None or not here.first.is_usable:
            if here.first is not None:
                await here.first.close()
            here.first = await Supervisor.spawn()
    supervisor = await here.first.fork()
    supervisor.set_limits(limits)
    return supervisor


MARKER_VARIABLE = "OPENSKILL_RUN"

_TEXT = r"([0-9a-f]{32})([0-9a-f]{1,32})\.([0-9]{1,10})\.([0-9]{1,20})\.[0-9a-f]{16}"
_MARKER = re.compile(rf"\0--setenv\0{MARKER_VARIABLE}\0({_TEXT})\0".encode())
_STATE, _START_TIME = 0, 19
"""Indexes of the fields of /proc/PID/stat after the program name."""


def create_marker() -> str:
    """A unique marker of this process: the boot of the machine, the pid namespace, the pid, the start time."""
    return f"{''.join(read_boot_and_namespace())}.{os.getpid()}.{_read_start_time(os.getpid())}.{secrets.token_hex(8)}"


def is_orphaned(marker: str) -> bool:
    """Whether the process that created this marker is certainly gone, even if its pid was reused.

    False for processes in other containers, for those that cannot be inspected, and for other text.
    """
    match = re.fullmatch(_TEXT, marker)
    if match is None:
        return False
    try:
        boot, namespace = read_boot_and_namespace()
        return match[1] != boot or (match[2] == namespace and _read_start_time(int(match[3])) != int(match[4]))
    except OSError:
        return False


def kill_orphans(is_orphan: Callable[[str], bool]) -> int:
    """Kill the processes on this machine whose marker matches; returns how many."""
    killed = 0
    for pid in [int(name) for name in os.listdir("/proc") if name.isdigit()]:
        marker = _read_marker(pid)
        if marker is None or not is_orphan(marker):
            continue
        with suppress(ProcessLookupError, PermissionError):
            # By descriptor, and checked again, because the pid may have been reused.
            descriptor = os.pidfd_open(pid)
            try:
                if _read_marker(pid) == marker:
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                    killed += 1
            finally:
                os.close(descriptor)
    return killed


def _read_marker(pid: int) -> str | None:
    try:
        match = _MARKER.search(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return None
    return match[1].decode("ascii") if match else None


def read_boot_and_namespace() -> tuple[str, str]:
    """The ids of this boot of the machine and of our pid namespace. Raises `OSError` where there is no `/proc`."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").replace("-", "").strip()
    return boot, f"{os.stat('/proc/self/ns/pid').st_ino:x}"


def _read_start_time(pid: int) -> int:
    """The start time of a process; -1 if it does not exist or has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return -1
    return -1 if fields[_STATE] in "ZX" else int(fields[_START_TIME])


class SupervisorRegistry:
    """One supervisor per key and event loop."""

    def __init__(self) -> None:
        self._supervisors: dict[tuple[asyncio.AbstractEventLoop, Hashable], Supervisor] = {}
        self._spawn_lock = CrossLoopLock()

    async def get(self, key: Hashable, begin: Callable[[], Supervisor]) -> Supervisor:
        """The supervisor of this key. Before a new one is created, orphaned processes are killed."""
        mine = (asyncio.get_running_loop(), key)
        found = self._supervisors.get(mine)
        if found is not None and found.is_usable:
            return found
        async with self._spawn_lock:
            found = self._supervisors.get(mine)
            if found is None or not found.is_usable:
                dead = [one for one in self._supervisors if one == mine or one[0].is_closed()]
                gone = [self._supervisors.pop(one) for one in dead]
                for one in gone:
                    await one.close()
                markers = {one.marker for one in gone}
                await asyncio.to_thread(kill_orphans, lambda marker: marker in markers or is_orphaned(marker))
                found = self._supervisors[mine] = begin()
                found.marker = create_marker()
            return found

    async def close_supervisor(self, key: Hashable) -> None:
        """Terminate the supervisor of this key, if there is one."""
        found = self._supervisors.pop((asyncio.get_running_loop(), key), None)
        if found is not None:
            await found.close()

    async def close(self) -> None:
        """Terminate all of them."""
        everyone, self._supervisors = self._supervisors, {}
        for found in everyone.values():
            await found.close()
