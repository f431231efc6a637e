"""The process above each command of a warm interpreter, and how processes here speak with each other.

A part of `forkserver.py`: it runs in the interpreter of a skill, so it imports nothing of ours.
"""

from __future__ import annotations

import ctypes
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

Work = list[Any]
"""What a run does at the bottom of its stack: a function and its arguments."""

_HEADER = struct.Struct("!I")
_MAX_FDS = 8
_LEFTOVERS_MAY_TAKE = 1.0
_PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None)


class Start(Protocol):
    """What `coldstart.ColdStart` does. Where a sentence is returned, it says why a command has to be started cold."""

    leads_session: bool

    def load(self, preload: tuple[str, ...]) -> str: ...
    def changed(self) -> str: ...
    def warm_up(self) -> None: ...
    def become(self, message: dict[str, Any], descriptors: list[int]) -> Work | str: ...
    def begin(self) -> None: ...


def receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    header, descriptors, _, _ = socket.recv_fds(connection, _HEADER.size, _MAX_FDS)
    if not header:
        raise EOFError
    (length,) = _HEADER.unpack(header + _exactly(connection, _HEADER.size - len(header)))
    return json.loads(_exactly(connection, length)), descriptors


def _exactly(connection: socket.socket, length: int) -> bytes:
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


def lead(watch: socket.socket, talk: socket.socket, start: Start) -> Work:
    """In a new process: fork the run and look after it to the end. Returns only in the run."""
    _close_all_but({0, 1, 2, watch.fileno(), talk.fileno()})
    adopt_orphans()
    if not start.leads_session:
        os.setsid()
    run = fork()
    if run == 0:
        watch.close()
        if start.leads_session:
            os.setsid()
        return _work(talk, start)
    try:
        talk.close()
        _look_after(run, watch)
    finally:
        os._exit(0)


def _work(talk: socket.socket, start: Start) -> Any:
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


def _look_after(run: int, watch: socket.socket) -> None:
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
        # What a command sends to its whole group is not for us.
        signal.signal(number, signal.SIG_IGN)
    wakeups, waking = os.pipe()
    os.set_blocking(waking, False)
    signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _wake_up)
    poll = select.poll()
    poll.register(watch, select.POLLIN)
    poll.register(wakeups, select.POLLIN)
    # Touched now, and not when the command has ended and somebody waits.
    _children(os.getpid())
    json.dumps({"status": 0, "clean": True})
    ended = _reaped(run)
    while ended is None:
        for descriptor, _ in poll.poll():
            if descriptor == wakeups:
                os.read(wakeups, 4096)
                continue
            numbers = watch.recv(64)
            for number in numbers or (signal.SIGKILL,):
                _signal(os.killpg, run, number)
                _signal(os.kill, run, number)
            if not numbers:
                end_children([])
                return
        ended = _reaped(run)
    _signal(os.killpg, run, signal.SIGKILL)
    send(watch, {"status": ended[0], "cpu_ms": ended[1], "clean": end_children([])})


def _wake_up(*_: object) -> None:
    """The pipe does it; the signal must only not be ignored."""


def _reaped(run: int) -> tuple[int, int] | None:
    """How the run ended and what it used; orphans that ended are reaped on the way."""
    while True:
        pid, status, usage = os.wait4(-1, os.WNOHANG)
        if pid == run:
            return os.waitstatus_to_exitcode(status), round((usage.ru_utime + usage.ru_stime) * 1000)
        if pid == 0:
            return None


def _signal(send: Callable[[int, int], None], pid: int, number: int) -> None:
    try:
        send(pid, number)
    except (ProcessLookupError, PermissionError, ValueError):
        return


def _children(pid: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def end_children(spared: list[int]) -> bool:
    """Kill and reap every child but `spared`, and the children that these leave to us; false when some remain."""
    deadline = time.monotonic() + _LEFTOVERS_MAY_TAKE
    while True:
        found = [pid for pid in _children(os.getpid()) if pid not in spared]
        if not found:
            return True
        for pid in found:
            _signal(os.kill, pid, signal.SIGKILL)
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


def _close_all_but(kept: set[int]) -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in kept:
            try:
                os.close(int(name))
            except OSError:
                continue
