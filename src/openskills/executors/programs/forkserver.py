"""Make a fork look like a cold start.

A small program that keeps an interpreter with modules loaded, and gives every command a copy of it.

It runs inside the sandbox of one session, in the interpreter of a skill (`build_server_argv`), so it imports
nothing of ours; its parts (`warm.PARTS`) are put into one namespace. On descriptor 0 it has a connection on which it
speaks the protocol of `keeper.py` (start, signal, release; started, failed, exited), after a `hello` that says whether
it can serve.

For each command there are two processes. The *leader* adopts orphans, so that all descendants of a command are below
it, and ends them when the command ends or when this program is gone. The *run* makes itself look like a cold start
(`coldstart.py`) and returns to the bottom of the stack, where the command's code is executed. Both are made ahead of
time.

What would not be the same as a cold start is refused before it has begun (`failed`), and can be started cold.

The process above each command of a warm interpreter, and how processes here speak with each other.

A part of `forkserver.py`: it runs in the interpreter of a skill, so it imports nothing of ours.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import select
import signal
import socket
import struct
import time
import warnings
from collections.abc import Callable
from typing import Any, Protocol

_PR_SET_DUMPABLE = 4
_QUIET_MS = 20  # milliseconds
_REFUSED = 125  # ECANCELED
_IGNORED = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP)


def serve(preload: tuple[str, ...], start: StartProtocol) -> Work:
    """Load the modules, say hello, and work until the host has gone; returns only in a run, with what it is to do."""
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
    # Commands of one session share a user: none of them is to look into the memory of what forks the next.
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    adopt_orphans()
    gc.collect()
    # The collector would touch every object, and so copy every page into each run.
    gc.freeze()
    return _CommandServer(control, start).serve()


class _ProcessPair:
    """A leader and the run below it; `watch` leads to the one, `talk` to the other."""

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
        """Work until the host has gone, and end the process; returns only in a run, with what it is to do."""
        try:
            while True:
                # The next command gets its process ahead of time, but not while the last one needs the processor.
                if self._spare is None and not self._poll.poll(_QUIET_MS if self._pairs else 0):
                    work = self._make_spare()
                    if work is not None:
                        return work
                # One at a time: what it leads to may close others, and give their numbers to new ones.
                descriptor, _ = self._poll.poll()[0]
                if descriptor != self._control.fileno():
                    self._on_readable(descriptor)
                    continue
                work = self._handle_message(*receive(self._control))
                if work is not None:
                    return work
        except (EOFError, OSError):
            # What a leader looks after becomes ours when it is killed.
            kill_children([])
            os._exit(0)

    def _make_spare(self) -> Work | None:
        watch, their_watch = socket.socketpair()
        talk, their_talk = socket.socketpair()
        with their_watch, their_talk:
            try:
                leader = fork()
            except OSError:
                # There are as many processes as there may be; the next command starts cold.
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
        """In a leader: these belong to somebody else, and are not to be closed when others have their numbers."""
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
                    self._forward(pair, message)
        for descriptor in descriptors:
            os.close(descriptor)
        return None

    def _start(self, message: dict[str, Any], descriptors: list[int]) -> None:
        pair, self._spare = self._spare, None
        if pair is None or pair.talk is None:
            self._refuse(message["id"], "there can be no more processes")
            return
        try:
            send(pair.talk, message, descriptors)
        except OSError:
            self._refuse(message["id"], "its process was ended")
            return
        # While the run takes its shape.
        changed = self._cold.describe_change()
        if changed:
            self._refuse(message["id"], changed)
            self._close_talk(pair)
        else:
            pair.identity = message["id"]

    def _refuse(self, identity: Any, why: str) -> None:
        send(self._control, {"event": "failed", "id": identity, "errno": _REFUSED, "what": why})

    def _forward(self, pair: _ProcessPair, message: dict[str, Any]) -> None:
        try:
            if message["op"] == "signal":
                pair.watch.send(bytes([message["number"]]))
            elif message["op"] == "release" and pair.talk is not None:
                pair.talk.send(b"!")
        except OSError:
            return  # It has ended; its leader says so, or its death does.

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
            answer = {"refused": "its process was ended"}
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
            # Somebody killed it; what it looked after has become ours.
            report = {"status": -signal.SIGKILL, "cpu_ms": 0, "clean": False}
        if report["clean"] is False:
            self._remove_pair(pair)
            report["clean"] = kill_children([other.leader for other in self._pairs])
        if pair.identity is not None and not pair.started:
            self._refuse(pair.identity, "its process was ended")
        elif pair.identity is not None:
            send(self._control, {"event": "exited", "id": pair.identity, "was_ready": True, **report})
        # Last, because the end of a process takes its time.
        self._remove_pair(pair)

    def _close_talk(self, pair: _ProcessPair) -> None:
        """A run that is not told to begin ends when nobody can tell it."""
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
"""What a run does at the bottom of its stack: a function and its arguments."""

_HEADER = struct.Struct("!I")
_MAX_FDS = 8
_KILL_TIMEOUT = 1.0
_PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None)


class StartProtocol(Protocol):
    """What `coldstart.ColdStart` does. Where a sentence is returned, it says why a command has to be started cold."""

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


def adopt_orphans() -> None:
    """Become the parent of descendants whose parents end."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def run_leader(watch: socket.socket, talk: socket.socket, start: StartProtocol) -> Work:
    """In a new process: fork the run and look after it to the end. Returns only in the run."""
    _close_other_fds({0, 1, 2, watch.fileno(), talk.fileno()})
    adopt_orphans()
    if not start.leads_session:
        os.setsid()
    run = fork()
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
    """In the run: wait for a command and for the word to begin it."""
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
        # Whatever went wrong, nothing has begun, and nothing may be said on the command's stderr.
        if not begins:
            os._exit(0)
    talk.close()
    return work


def _supervise_run(run: int, watch: socket.socket) -> None:
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
        # What a command sends to its whole group is not for us.
        signal.signal(number, signal.SIG_IGN)
    wakeups, waking = os.pipe()
    os.set_blocking(waking, False)
    signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _on_child_exit)
    poll = select.poll()
    poll.register(watch, select.POLLIN)
    poll.register(wakeups, select.POLLIN)
    # Touched now, and not when the command has ended and somebody waits.
    _list_children(os.getpid())
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
    send(watch, {"status": ended[0], "cpu_ms": ended[1], "clean": kill_children([])})


def _on_child_exit(*_: object) -> None:
    """The pipe does it; the signal must only not be ignored."""


def _reap_run(run: int) -> tuple[int, int] | None:
    """How the run ended and what it used; orphans that ended are reaped on the way."""
    while True:
        pid, status, usage = os.wait4(-1, os.WNOHANG)
        if pid == run:
            return os.waitstatus_to_exitcode(status), round((usage.ru_utime + usage.ru_stime) * 1000)
        if pid == 0:
            return None


def _send_signal(send: Callable[[int, int], None], pid: int, number: int) -> None:
    try:
        send(pid, number)
    except (ProcessLookupError, PermissionError, ValueError):
        return


def _list_children(pid: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def kill_children(spared: list[int]) -> bool:
    """Kill and reap every child but `spared`, and the children that these leave to us; false when some remain."""
    deadline = time.monotonic() + _KILL_TIMEOUT
    while True:
        found = [pid for pid in _list_children(os.getpid()) if pid not in spared]
        if not found:
            return True
        for pid in found:
            _send_signal(os.kill, pid, signal.SIGKILL)
        for pid in found:
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                continue
        if time.monotonic() > deadline:
            return False


def fork() -> int:
    with warnings.catch_warnings():
        # Threads of libraries (BLAS) are ready for it; threads of Python there are none.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _close_other_fds(kept: set[int]) -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in kept:
            try:
                os.close(int(name))
            except OSError:
                continue
