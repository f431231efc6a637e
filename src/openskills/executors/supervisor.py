"""Client of programs/supervisor.py; pools; limits.

Commands that run: started, captured, talked to, ended.

The host's side of `keeper.py`: start commands over a connection, and hear how they end.

`Limits` as the numbers that the kernel keeps for each process.

Keepers that run one command at a time, so that what a command leaves behind can be told from another's.

Processes that a killed host or keeper left behind while it was making a sandbox: they run nothing, and wait.

Each has a marker on its command line that says whose it is.

The processes that start sandboxes, one for each key, and a new one where somebody ended the last.
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
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from openskills.concurrency import CrossLoopLock
from openskills.errors import ExecutorUnavailable, InvalidArgument
from openskills.executors.spec import Limits
from openskills.subprocesses import HelperProcess, start_helper

PROGRAM: Final = Path(__file__).parent / "programs" / "supervisor.py"

_HEADER = struct.Struct("!I")
_MAX_EVENT = 64 * 1024
_CHUNK = 64 * 1024
_MISSING_ERRORS = (errno.ENOENT, errno.EACCES, errno.ENOTDIR, errno.ENOEXEC, errno.EINVAL, errno.E2BIG)
_GONE = "the process that starts commands has ended; try again"


class SpawnError(ExecutorUnavailable):
    """The system would not start the command, which has certainly not begun."""


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """What a keeper is to start. `fds` maps numbers in the command to descriptors of ours."""

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


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """How a command ended; a negative `status` is a signal. `lost`: its keeper ended, and the command with it.

    `reusable`: where it ran is as it was before, and may be used for another one.
    """

    status: int
    was_ready: bool = True
    cpu_ms: int = 0
    clean: bool = True
    lost: bool = False
    reusable: bool = False


class SupervisedProcess:
    """A command that a keeper has started.

    `ready_at` is the loop's time at which it was set up; `notes` are sentences for the result, until it has ended.
    `host_pid` is the number under which this machine knows what contains it, where its keeper sees other numbers.
    """

    def __init__(self, keeper: "Supervisor", identity: int) -> None:
        loop = asyncio.get_running_loop()
        self._supervisor = keeper
        self._identity = identity
        self._started: asyncio.Future[int] = loop.create_future()
        self._ready: asyncio.Future[None] = loop.create_future()
        self._exited: asyncio.Future[ExitStatus] = loop.create_future()
        self.ready_at: float | None = None
        self.host_pid: int | None = None
        self.notes: list[str] = []

    @property
    def pid(self) -> int:
        """Its process id, as its keeper sees it; or that of what contains it."""
        return self.host_pid or self._started.result()

    async def wait_ready(self) -> None:
        """Wait until it is set up, which is at once without a handshake, or until it has ended."""
        await asyncio.wait([self._ready, self._exited], return_when=asyncio.FIRST_COMPLETED)

    async def wait(self) -> ExitStatus:
        """How it ended."""
        return await asyncio.shield(self._exited)

    def add_done_callback(self, act: Callable[[ExitStatus], None]) -> None:
        """Call this with how it ended, as soon as it has: sooner than who awaits that."""
        self._exited.add_done_callback(lambda done: act(done.result()))

    def release(self) -> None:
        """Let it begin, after `hold`."""
        self._supervisor.notify({"op": "release", "id": self._identity})

    def signal(self, number: int, *, deep: bool = False) -> None:
        """Send a signal to its process group; `deep`: to the command inside, where it is contained."""
        self._supervisor.notify({"op": "signal", "id": self._identity, "number": number, "deep": deep})

    async def wait_started(self) -> None:
        """Wait until it runs; raises what kept it from running. Only one may wait, and whether it runs is not known to
        anybody when he is cancelled."""
        await self._started

    def handle_event(self, event: Mapping[str, Any]) -> bool:
        """Take in what the keeper says; true when that was the last word."""
        what = event["event"]
        if what == "started" and not self._started.done():
            self._started.set_result(int(event["pid"]))
        elif what == "ready" and not self._ready.done():
            self._ready.set_result(None)
            self.ready_at = self._ready.get_loop().time()
        elif what == "failed":
            self._fail(_build_start_error(int(event["errno"]), str(event["what"])))
            return True
        elif what == "exited":
            self._finish(_parse_exit(event))
            return True
        return False

    def abandon(self) -> None:
        """Stop waiting for its end."""
        self._supervisor.abandon(self)

    def mark_lost(self) -> None:
        """The keeper is gone, and the command with it."""
        self._fail(ExecutorUnavailable(_GONE))
        self._finish(ExitStatus(-9, lost=True))

    def _fail(self, error: Exception) -> None:
        if not self._started.done() and self._has_listener():
            self._started.set_exception(error)
            # Whoever waits hears it; nobody else is to be told that nobody listened.
            self._started.exception()

    def _finish(self, end: ExitStatus) -> None:
        if not self._exited.done() and self._has_listener():
            self._exited.set_result(end)

    def _has_listener(self) -> bool:
        """Whether anybody can be waiting: those of a loop that was closed cannot even be told."""
        return not self._exited.get_loop().is_closed()


class Supervisor:
    """A connection to a keeper. It belongs to the event loop in which it was begun.

    `alone`: it runs on this machine, for one command at a time, so it may be killed when it does not answer.
    """

    def __init__(self, connection: socket.socket, helper: HelperProcess | None = None, *, alone: bool = False) -> None:
        connection.setblocking(False)
        self._is_dedicated = alone
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
        self._loop.add_reader(connection, self._on_readable)

    @classmethod
    async def spawn(cls) -> "Supervisor":
        """Start the program beside this process."""
        helper = start_helper([sys.executable, "-I", "-S", str(PROGRAM)], {})
        return cls(helper.connection, helper)

    @property
    def is_usable(self) -> bool:
        """Whether it can start commands: nobody closed it or ended its program, and its loop is this one."""
        return not self._closed and not self._loop.is_closed() and self._loop is asyncio.get_running_loop()

    async def start(self, launch: LaunchRequest) -> SupervisedProcess:
        """Start a command. The descriptors are copied before this returns; the caller closes its own.

        Raises `InvalidArgument` when its program or directory does not exist, `ExecutorUnavailable` when it cannot be
        started for another reason.
        """
        self._next += 1
        descriptors, message = _encode_launch(launch, self._next)
        kept = self._commands[self._next] = SupervisedProcess(self, self._next)
        if launch.handshake is None:
            kept.handle_event({"event": "ready"})
        self._send_message(message, descriptors)
        try:
            await kept.wait_started()
        except asyncio.CancelledError:
            # It may run by now, and nobody will ever hear of it.
            kept.signal(signal.SIGKILL)
            raise
        return kept

    async def fork(self) -> "Supervisor":
        """A second keeper, in a process of its own."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self._send_message({"op": "fork"}, [theirs.fileno()])
            except ExecutorUnavailable:
                ours.close()
                raise
        return Supervisor(ours, alone=self._helper is not None)

    def set_limits(self, limits: Sequence[tuple[int, int, int]]) -> None:
        """Limit everything that is started from now on: (resource, soft, hard)."""
        self.notify({"op": "limit", "limits": [list(limit) for limit in limits]})

    def notify(self, message: Mapping[str, Any]) -> None:
        """Say something that needs no answer; when the keeper is gone there is nobody to hear it."""
        if not self._closed:
            self._send_message(message, ())

    def close_nowait(self) -> None:
        """Have it end with all its commands, without waiting for that. Safe to call twice."""
        self._disconnect()

    async def close(self) -> None:
        """End it and all its commands."""
        if self._loop.is_closed() or self._loop is asyncio.get_running_loop():
            self._disconnect()
        else:
            # What belongs to a loop that lives is touched in its own thread only.
            self._loop.call_soon_threadsafe(self._disconnect)
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
            self._copy_descriptors()

    def _copy_descriptors(self) -> None:
        """Have descriptors of our own of what was said last: who said it may be cancelled, and closes his."""
        _, descriptors = self._unsent[-1]
        copies: list[int] = []
        try:
            copies.extend(map(os.dup, descriptors))
        except OSError as error:
            self._unsent.pop()
            _close(copies)
            raise SpawnError(f"no more files can be opened: {error.strerror}; end other commands") from None
        descriptors[:] = copies

    def _flush(self) -> None:
        """Send what can be sent now, and the rest when there is room."""
        while self._unsent:
            data, descriptors = self._unsent[0]
            try:
                # The descriptors go with the first byte.
                sent = socket.send_fds(self._connection, [data], descriptors)
            except BlockingIOError:
                self._loop.add_writer(self._connection, self._flush)
                self._is_blocked = True
                return
            except OSError:
                self._disconnect()
                return
            if self._is_blocked:
                # What had to wait has copies.
                _close(descriptors)
            descriptors.clear()
            del data[:sent]
            if not data:
                self._unsent.popleft()
        if self._is_blocked:
            self._loop.remove_writer(self._connection)
            self._is_blocked = False

    def _on_readable(self) -> None:
        try:
            data = self._connection.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._disconnect()
            return
        self._received += data
        # What a container sends was said by somebody that a skill's script may have replaced.
        try:
            self._handle_events()
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            self._disconnect()

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
            kept = self._commands.get(int(event["id"]))
            if kept is not None and kept.handle_event(event):
                del self._commands[int(event["id"])]

    def _on_serving(self, pid: int) -> None:
        # Only of a keeper that we have had forked ourselves does the number mean anything here.
        if self._is_dedicated and self._pidfd < 0 and sys.platform == "linux":
            with suppress(ProcessLookupError):
                self._pidfd = os.pidfd_open(pid)

    def abandon(self, kept: "SupervisedProcess") -> None:
        """Stop waiting for a command that should have ended; a keeper that has no other is ended, too."""
        if self._is_dedicated:
            self._disconnect()
        kept.mark_lost()

    def _disconnect(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._pidfd >= 0:
            # It ends by itself when the connection closes, unless a command has stopped it.
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
        for kept in commands.values():
            kept.mark_lost()


def _close(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _encode_launch(launch: LaunchRequest, identity: int) -> tuple[list[int], dict[str, Any]]:
    descriptors = list(launch.fds.values())
    cwd = launch.cwd
    if isinstance(cwd, int):
        descriptors.append(cwd)
        cwd = len(descriptors) - 1
    return descriptors, {
        "op": "start",
        "id": identity,
        "argv": list(launch.argv),
        "env": dict(launch.env),
        "cwd": cwd,
        "fds": {str(number): index for index, number in enumerate(launch.fds)},
        "terminal": launch.terminal,
        "ignored": [int(number) for number in launch.ignored],
        "handshake": list(launch.handshake) if launch.handshake else None,
        "hold": launch.hold,
        "contained": launch.contained,
        "umask": launch.umask,
        "user": launch.user,
        "joins": launch.joins,
    }


def _parse_exit(event: Mapping[str, Any]) -> ExitStatus:
    return ExitStatus(
        int(event["status"]),
        bool(event["was_ready"]),
        int(event["cpu_ms"]),
        bool(event["clean"]),
        reusable=bool(event.get("reusable")),
    )


def _build_start_error(number: int, what: str) -> Exception:
    if number in _MISSING_ERRORS:
        return InvalidArgument("command", f"cannot be started: {what}")
    return SpawnError(f"the command cannot be started: {what}")


Rlimits = tuple[tuple[int, int, int], ...]
"""(resource, soft, hard), in the order in which they are to be set."""


def to_rlimits(limits: Limits) -> Rlimits:
    """What every process of a command is held to. The number of processes is not among them.

    The kernel counts those for a user, not for a command: who has a user for each command limits them there.
    """
    wanted = (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, limits.open_files),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        # Private writable memory. RLIMIT_AS would also count what is only reserved, as many runtimes do in terabytes.
        (resource.RLIMIT_DATA, limits.memory_bytes),
        (resource.RLIMIT_CPU, limits.cpu_seconds),
    )
    return tuple((kind, value, value) for kind, value in wanted if value is not None)


_MAX_IDLE = 4


@dataclass(slots=True)
class _LoopSupervisors:
    """The keepers of one event loop, which nobody else may use or end while it lives."""

    first: Supervisor | None = None
    idle: dict[Rlimits, list[Supervisor]] = field(default_factory=lambda: defaultdict[Rlimits, list[Supervisor]](list))
    busy: set[Supervisor] = field(default_factory=set[Supervisor])
    spawn_lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def list_all(self) -> list[Supervisor]:
        """Each of them, the first one last: it has forked the others."""
        idle = [keeper for keepers in self.idle.values() for keeper in keepers]
        return [*self.busy, *idle, *([self.first] if self.first else [])]


class SupervisorPool:
    """Hands each command a keeper of its own, with its limits, and keeps a few for the next ones of its event loop."""

    def __init__(self) -> None:
        self._loops: dict[asyncio.AbstractEventLoop, _LoopSupervisors] = {}

    async def start(self, launch: LaunchRequest, limits: Rlimits = ()) -> SupervisedProcess:
        """Start a command, held to `limits` with all its descendants, which end with it."""
        await self._close_orphans()
        here = self._loops.setdefault(asyncio.get_running_loop(), _LoopSupervisors())
        keeper = _take_idle(here, limits) or await _fork_supervisor(here, limits)
        try:
            kept = await keeper.start(launch)
        except BaseException:
            await keeper.close()
            raise
        here.busy.add(keeper)
        kept.add_done_callback(lambda end: _return_to_pool(here, keeper, limits, end))
        return kept

    async def close(self) -> None:
        """End all of them, with all their commands."""
        loops, self._loops = self._loops, {}
        for keeper in [keeper for keepers in loops.values() for keeper in keepers.list_all()]:
            await keeper.close()

    async def _close_orphans(self) -> None:
        """End what runs for an event loop that is closed: nobody else would."""
        orphans = [self._loops.pop(loop) for loop in list(self._loops) if loop.is_closed()]
        for keeper in [keeper for keepers in orphans for keeper in keepers.list_all()]:
            await keeper.close()


def _take_idle(here: _LoopSupervisors, limits: Rlimits) -> Supervisor | None:
    idle = here.idle.get(limits)
    while idle:
        keeper = idle.pop()
        if keeper.is_usable:
            return keeper
    return None


async def _fork_supervisor(here: _LoopSupervisors, limits: Rlimits) -> Supervisor:
    # One program, started once, forks the others: that takes a millisecond and not ten.
    async with here.spawn_lock:
        if here.first is None or not here.first.is_usable:
            if here.first is not None:
                await here.first.close()
            here.first = await Supervisor.spawn()
    keeper = await here.first.fork()
    keeper.set_limits(limits)
    return keeper


def _return_to_pool(here: _LoopSupervisors, keeper: Supervisor, limits: Rlimits, end: ExitStatus) -> None:
    here.busy.discard(keeper)
    if end.clean and keeper.is_usable and len(here.idle[limits]) < _MAX_IDLE:
        here.idle[limits].append(keeper)
    else:
        keeper.close_nowait()


MARKER_VARIABLE = "OPENSKILL_RUN"

_MARKER = re.compile(
    rb"\0--setenv\0" + MARKER_VARIABLE.encode() + rb"\0([0-9a-f]{1,64})\.([0-9]{1,10})\.([0-9]{1,20})\.([0-9a-f]{16})\0"
)
_START_TIME = 19
"""Place of the start time in /proc/PID/stat, counted after the name of the program."""


def create_marker() -> str:
    """A marker of this process that is like no other."""
    return f"{_get_pid_namespace()}.{os.getpid()}.{_read_start_time(os.getpid())}.{secrets.token_hex(8)}"


def is_orphaned(marker: str) -> bool:
    """Whether the process that made this marker is gone; its number may belong to another one by now.

    Of a process in another container, whose number means nothing here, nobody can tell; nor of one that cannot be
    looked at, as when no more files can be opened.
    """
    here, pid, started, _ = marker.split(".")
    try:
        return here == _get_pid_namespace() and _read_start_time(int(pid)) != int(started)
    except OSError:
        return False


def kill_orphans(is_one: Callable[[str], bool]) -> int:
    """Kill the processes on this machine whose marker is one of these; returns how many."""
    return sum(_kill_marked(pid, is_one) for pid in _list_pids())


def _list_pids() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def _kill_marked(pid: int, is_one: Callable[[str], bool]) -> bool:
    marker = _read_marker(pid)
    if marker is None or not is_one(marker):
        return False
    with suppress(ProcessLookupError, PermissionError):
        # By descriptor, and looked at again: meanwhile the number could have become somebody else's.
        descriptor = os.pidfd_open(pid)
        try:
            if _read_marker(pid) == marker:
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                return True
        finally:
            os.close(descriptor)
    return False


def _read_marker(pid: int) -> str | None:
    try:
        match = _MARKER.search(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return None
    return b".".join(match.groups()).decode("ascii") if match else None


def _get_pid_namespace() -> str:
    """Where numbers of processes mean what they mean to us: this boot of the machine, this table of processes."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").replace("-", "").strip()
    return f"{boot}{os.stat('/proc/self/ns/pid').st_ino:x}"


def _read_start_time(pid: int) -> int:
    """When a process has begun; -1 when there is none."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[_START_TIME])
    except (FileNotFoundError, ProcessLookupError):
        return -1


@dataclass(frozen=True, slots=True)
class MarkedSupervisor:
    """A keeper, and what marks the processes that it starts."""

    supervisor: Supervisor
    marker: str


class SupervisorRegistry:
    """Each event loop has its own: what one loop starts, no other could hear of."""

    def __init__(self) -> None:
        self._supervisors: dict[tuple[asyncio.AbstractEventLoop, Hashable], MarkedSupervisor] = {}
        self._spawn_lock = CrossLoopLock()

    async def get(self, key: Hashable, begin: Callable[[], Supervisor]) -> MarkedSupervisor:
        """The keeper of this key. Before a new one begins, what the last one and dead hosts left behind is ended."""
        mine = (asyncio.get_running_loop(), key)
        found = self._supervisors.get(mine)
        if found is not None and found.supervisor.is_usable:
            return found
        async with self._spawn_lock:
            found = self._supervisors.get(mine)
            if found is None or not found.supervisor.is_usable:
                await self._clean_up(self._pop_dead(mine))
                found = self._supervisors[mine] = MarkedSupervisor(begin(), create_marker())
            return found

    async def close_supervisor(self, key: Hashable) -> None:
        """End the keeper of this key, if there is one."""
        found = self._supervisors.pop((asyncio.get_running_loop(), key), None)
        if found is not None:
            await found.supervisor.close()

    async def close(self) -> None:
        """End all of them."""
        everyone, self._supervisors = self._supervisors, {}
        for found in everyone.values():
            await found.supervisor.close()

    def _pop_dead(self, mine: tuple[asyncio.AbstractEventLoop, Hashable]) -> list[MarkedSupervisor]:
        """Those that have ended or whose loop is closed; they are not known any more."""
        keys = [key for key in self._supervisors if key == mine or key[0].is_closed()]
        return [self._supervisors.pop(key) for key in keys]

    async def _clean_up(self, gone: list[MarkedSupervisor]) -> None:
        for found in gone:
            await found.supervisor.close()
        markers = {found.marker for found in gone}
        await asyncio.to_thread(kill_orphans, lambda marker: marker in markers or is_orphaned(marker))
