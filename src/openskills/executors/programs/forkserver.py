"""Fork server: keeps an interpreter with modules loaded, and gives every command a copy of it.

It runs inside the sandbox of one session, in the skill's interpreter (see `warm.build_server_argv`), so it imports
nothing of ours; its parts (`warm.PARTS`) share one namespace. On descriptor 0 it has a connection with the protocol of
`supervisor.py` (start, signal, release; started, failed, exited), after a `hello` that says whether it can serve.

Each command has two processes, both created ahead of time. The *leader* adopts orphans, so that all descendants of a
command are below it, and kills them when the command or this program ends. The *run* makes itself look like a cold
start (`coldstart.py`) and returns to the bottom of the stack, where the command's code is executed.

A command that would behave differently from a cold start is refused before it begins (`failed`).
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from openskills.executors.programs.fork_exit import (
        adopt_orphans,
        freeze_memory,
        kill_children,
        list_children,
        on_child_exit,
        quiet_fork,
        set_protection,
    )

_QUIET_MS = 20
_REFUSED = 125  # ECANCELED
_IGNORED = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP)


def serve(preload: tuple[str, ...], start: StartProtocol) -> Work:
    """Load the modules, say hello, and serve until the host disconnects; returns only in a run, with its work."""
    control = socket.socket(fileno=os.dup(0))
    refused = start.load(preload)
    try:
        send(control, {"event": "hello", "refused": refused})
    except OSError:
        os._exit(0)
    if refused:
        os._exit(0)
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    # Commands of one session share a user: they must not be able to read the memory of this process.
    set_protection(True)
    adopt_orphans()
    freeze_memory()
    return _CommandServer(control, start).serve()


class _ProcessPair:
    """A leader and its run; `watch` is connected to the leader, `talk` to the run."""

    def __init__(self, leader: int, watch: socket.socket, talk: socket.socket) -> None:
        self.leader = leader
        self.watch = watch
        self.talk: socket.socket | None = talk
        self.identity: Any = None
        self.started = False


class _CommandServer:
    def __init__(self, control: socket.socket, start: StartProtocol) -> None:
        self._control = control
        self._cold = start
        self._pairs: list[_ProcessPair] = []
        self._spare: _ProcessPair | None = None
        self._host_pid: int | None = None
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)

    def serve(self) -> Work:
        """Serve until the host disconnects, and exit; returns only in a run, with its work."""
        try:
            while True:
                # Create the next pair ahead of time, but not while the last command needs the CPU.
                if self._spare is None and not self._poll.poll(_QUIET_MS if self._pairs else 0):
                    work = self._make_spare()
                    if work is not None:
                        return work
                # One at a time: handling it may close other descriptors and reuse their numbers.
                descriptor, _ = self._poll.poll()[0]
                if descriptor != self._control.fileno():
                    self._on_readable(descriptor)
                    continue
                work = self._handle_message(*receive(self._control))
                if work is not None:
                    return work
        except (EOFError, OSError):
            # We adopt the processes of a leader that is killed.
            kill_children([])
            os._exit(0)

    def _make_spare(self) -> Work | None:
        watch, their_watch = socket.socketpair()
        talk, their_talk = socket.socketpair()
        with their_watch, their_talk:
            try:
                leader = quiet_fork()
            except OSError:
                # The process limit is reached; the next command starts cold.
                watch.close()
                talk.close()
                return None
            pair = self._spare = _ProcessPair(leader, watch, talk)
            self._pairs.append(pair)
            if leader == 0:
                self._detach_sockets()
                theirs = (socket.socket(fileno=their_watch.detach()), socket.socket(fileno=their_talk.detach()))
                return run_leader(*theirs, self._cold)
        self._poll.register(watch, select.POLLIN)
        self._poll.register(talk, select.POLLIN)
        return None

    def _detach_sockets(self) -> None:
        """In a leader: keep these objects from closing descriptors whose numbers are reused."""
        self._control.detach()
        for pair in self._pairs:
            pair.watch.detach()
            if pair.talk is not None:
                pair.talk.detach()
        self._pairs.clear()

    def _handle_message(self, message: dict[str, Any], descriptors: list[int]) -> Work | None:
        if message["op"] == "known_as":
            self._host_pid = None if message["pid"] == os.getpid() else message["pid"]
        elif message["op"] == "start":
            if self._spare is None:
                work = self._make_spare()
                if work is not None:
                    return work
            self._start(message, descriptors)
        else:
            for pair in self._pairs:
                if pair.identity == message["id"]:
                    try:
                        if message["op"] == "signal":
                            pair.watch.send(bytes([message["number"]]))
                        elif message["op"] == "release" and pair.talk is not None:
                            pair.talk.send(b"!")
                    except OSError:
                        continue  # It has ended, which its leader reports.
        for descriptor in descriptors:
            os.close(descriptor)
        return None

    def _start(self, message: dict[str, Any], descriptors: list[int]) -> None:
        pair, self._spare = self._spare, None
        if pair is None or pair.talk is None:
            self._refuse(message["id"], "the process limit is reached")
            return
        try:
            send(pair.talk, message, descriptors)
        except OSError:
            self._refuse(message["id"], "its process was killed")
            return
        # Check while the run is preparing itself.
        changed = self._cold.describe_change()
        if changed:
            self._refuse(message["id"], changed)
            self._close_talk(pair)
        else:
            pair.identity = message["id"]

    def _refuse(self, identity: Any, why: str) -> None:
        send(self._control, {"event": "failed", "id": identity, "errno": _REFUSED, "what": why})

    def _on_readable(self, descriptor: int) -> None:
        for pair in self._pairs:
            if descriptor == pair.watch.fileno():
                self._on_leader_report(pair)
                return
            if pair.talk is not None and descriptor == pair.talk.fileno():
                self._on_run_answer(pair, pair.talk)
                return

    def _on_run_answer(self, pair: _ProcessPair, talk: socket.socket) -> None:
        try:
            answer, _ = receive(talk)
        except (EOFError, OSError):
            self._close_talk(pair)
            answer = {"refused": "its process was killed"}
        if pair.identity is None or pair.started:
            return
        if "refused" in answer:
            self._refuse(pair.identity, str(answer["refused"]))
            pair.identity = None
            return
        pair.started = True
        send(self._control, {"event": "started", "id": pair.identity, "pid": self._host_pid or pair.leader})

    def _on_leader_report(self, pair: _ProcessPair) -> None:
        try:
            report, _ = receive(pair.watch)
        except (EOFError, OSError):
            # It was killed, and we have adopted its processes.
            report = {"status": -signal.SIGKILL, "cpu_ms": 0, "memory_kib": 0, "clean": False}
        if report["clean"] is False:
            self._remove_pair(pair)
            report["clean"] = kill_children([other.leader for other in self._pairs])
        if pair.identity is not None and not pair.started:
            self._refuse(pair.identity, "its process was killed")
        elif pair.identity is not None:
            send(self._control, {"event": "exited", "id": pair.identity, "was_ready": True, **report})
        # Last, because waiting for a process takes time.
        self._remove_pair(pair)

    def _close_talk(self, pair: _ProcessPair) -> None:
        """Close the connection to a run, which exits if it has not begun."""
        if pair.talk is not None:
            self._poll.unregister(pair.talk)
            pair.talk.close()
            pair.talk = None

    def _remove_pair(self, pair: _ProcessPair) -> None:
        if pair not in self._pairs:
            return
        self._pairs.remove(pair)
        if self._spare is pair:
            self._spare = None
        self._close_talk(pair)
        self._poll.unregister(pair.watch)
        pair.watch.close()
        os.waitpid(pair.leader, 0)


Work = list[Any]
"""A function and its arguments, called at the bottom of the stack."""

_HEADER = struct.Struct("!I")
_MAX_FDS = 8


class StartProtocol(Protocol):
    """The interface of `coldstart.ColdStart`. A returned string is the reason for a cold start."""

    leads_session: bool

    def load(self, preload: tuple[str, ...]) -> str: ...
    def describe_change(self) -> str: ...
    def warm_up(self) -> None: ...
    def become(self, message: dict[str, Any], descriptors: list[int]) -> Work | str: ...
    def begin(self) -> None: ...


def receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    header, descriptors, _, _ = socket.recv_fds(connection, _HEADER.size, _MAX_FDS)
    if not header:
        raise EOFError
    (length,) = _HEADER.unpack(header + _receive_exactly(connection, _HEADER.size - len(header)))
    return json.loads(_receive_exactly(connection, length)), descriptors


def _receive_exactly(connection: socket.socket, length: int) -> bytes:
    parts = bytearray()
    while len(parts) < length:
        part = connection.recv(length - len(parts))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)


def send(connection: socket.socket, message: dict[str, Any], descriptors: list[int] | None = None) -> None:
    data = json.dumps(message).encode()
    data = _HEADER.pack(len(data)) + data
    sent = socket.send_fds(connection, [data], descriptors) if descriptors else 0
    connection.sendall(data[sent:])


def run_leader(watch: socket.socket, talk: socket.socket, start: StartProtocol) -> Work:
    """In a new process: fork the run and supervise it to its end. Returns only in the run."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in (0, 1, 2, watch.fileno(), talk.fileno()):
            try:
                os.close(int(name))
            except OSError:
                continue
    adopt_orphans()
    if not start.leads_session:
        os.setsid()
    run = quiet_fork()
    if run == 0:
        watch.close()
        if start.leads_session:
            os.setsid()
        return _wait_for_command(talk, start)
    try:
        talk.close()
        _supervise_run(run, watch)
    finally:
        os._exit(0)


def _wait_for_command(talk: socket.socket, start: StartProtocol) -> Any:
    """In the run: wait for a command, and for permission to begin."""
    begins = False
    try:
        start.warm_up()
        message, descriptors = receive(talk)
        work = start.become(message, descriptors)
        send(talk, {"refused": work} if isinstance(work, str) else {})
        if talk.recv(1):
            start.begin()
            begins = True
    finally:
        # On any error, nothing has begun, and nothing must be written to the command's stderr.
        if not begins:
            os._exit(0)
    talk.close()
    return work


def _supervise_run(run: int, watch: socket.socket) -> None:
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
        # Ignore signals that a command sends to its whole group.
        signal.signal(number, signal.SIG_IGN)
    wakeups, waking = os.pipe()
    os.set_blocking(waking, False)
    signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, on_child_exit)
    poll = select.poll()
    poll.register(watch, select.POLLIN)
    poll.register(wakeups, select.POLLIN)
    # Touch this code now, not when the command has ended and the host waits.
    list_children(os.getpid())
    json.dumps({"status": 0, "clean": True})
    ended = _reap_run(run)
    while ended is None:
        for descriptor, _ in poll.poll():
            if descriptor == wakeups:
                os.read(wakeups, 4096)
                continue
            numbers = watch.recv(64)
            for number in numbers or (signal.SIGKILL,):
                _send_signal(os.killpg, run, number)
                _send_signal(os.kill, run, number)
            if not numbers:
                kill_children([])
                return
        ended = _reap_run(run)
    _send_signal(os.killpg, run, signal.SIGKILL)
    send(watch, {"status": ended[0], "cpu_ms": ended[1], "memory_kib": ended[2], "clean": kill_children([])})


def _reap_run(run: int) -> tuple[int, int, int] | None:
    """The exit code, CPU time and memory of the run; also reaps orphans."""
    while True:
        pid, status, usage = os.wait4(-1, os.WNOHANG)
        if pid == run:
            cpu_ms = round((usage.ru_utime + usage.ru_stime) * 1000)
            return os.waitstatus_to_exitcode(status), cpu_ms, usage.ru_maxrss
        if pid == 0:
            return None


def _send_signal(send: Callable[[int, int], None], pid: int, number: int) -> None:
    try:
        send(pid, number)
    except (ProcessLookupError, PermissionError, ValueError):
        return
