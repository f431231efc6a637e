"""A process that serves the calls of one connection, one after the other, each in a fresh process that it forks.

A part of `hostmother.py`: it runs in the interpreter of a skill, so it imports nothing of ours. The process of the next
call is forked ahead of time and waits for the call itself; this one only looks after it. The call, behind its length:

    flags (1: tell the output as it comes), length of the variables, the variables (NAME=value, each with a NUL behind),
    and what the skill reads from its stdin

The answer is a row of frames: `o` and `e` with what came on stdout and stderr, then `x` with how it ended:

    wait status, processor time in microseconds, memory in KiB, bytes on stdout and stderr in all, flags
    (1: it was never begun, because the script has changed; 2: stdout was cut; 4: it left something that cannot be
    undone, so this was the last call here), and the names of the modules that it has imported, with commas
"""

from __future__ import annotations

import _socket
import ctypes
import mmap
import os
import select
import signal
import struct
import sys
import time
import warnings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container
    from typing import Any

    # At run time all parts are in one namespace.
    from openskills.executors.inside.hostcall import CHANGED, LIVE, TAKEN, TOLD, CallProcess, Loaded, told_names  # noqa: TC004
    from openskills.executors.inside.hosttraces import Traces  # noqa: TC004

    Work = list[Any]
    """What a call does at the bottom of its stack: a function and its arguments."""

_FRAME = struct.Struct("!cI")
_END = struct.Struct("!cIiQQQQB")
_BUFFER = 256 * 1024
_ROOM = _BUFFER - 4096
_LITTLE = 4096
_SOON = 5  # milliseconds
_LEFTOVERS_MAY_TAKE = 1.0
_PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 4, 36
_STALE, _CUT, _UNCLEAN = 1, 2, 4
_STDOUT, _STDERR = 1, 2


class Zygote:
    """Serves one connection until the host closes it."""

    def __init__(self, mother: Loaded, connection: int) -> None:
        self._mother = mother
        self._connection = _socket.socket(fileno=connection)
        # Shared with the process of a call, which says here what has become of it.
        self._flags = mmap.mmap(-1, mmap.PAGESIZE)
        self._done, self._doing = os.pipe() if mother.wanted["reuse"] else (-1, -1)
        self._most = {_STDOUT: mother.wanted["stdout"], _STDERR: mother.wanted["stderr"]}
        self._numbers: dict[int, int] = {}
        self._buffer = bytearray(_BUFFER)
        self._view = memoryview(self._buffer)
        self._traces = Traces() if mother.wanted["tidy"] else None
        self._poll = select.poll()
        self._ending = select.poll()
        self._filled = 0
        self._settled = False
        self._counts = {_STDOUT: 0, _STDERR: 0}

    def serve(self) -> Work:
        """Work until the host has gone; returns only in the process of a call, with what it is to execute."""
        os.setsid()
        adopt_orphans()
        # Its own stdout and stderr are the pipes of its calls, which inherit them.
        for number in (_STDOUT, _STDERR):
            reading, writing = os.pipe()
            os.set_blocking(reading, False)
            os.dup2(writing, number)
            os.close(writing)
            self._numbers[reading] = number
            self._poll.register(reading, select.POLLIN)
        if self._done >= 0:
            self._poll.register(self._done, select.POLLIN)
        while True:
            self._forget()
            # A call may have changed what it shares with the next one.
            os.set_blocking(_STDOUT, True)
            os.set_blocking(_STDERR, True)
            protect(False)
            pid = quiet_fork()
            if pid == 0:
                return CallProcess(self._mother, self._connection, self._flags, self._doing).begin(self._ours())
            protect(True)
            self._look_after(pid)

    def _ours(self) -> list[int]:
        """Descriptors that are not for the process of a call."""
        return [*self._numbers, self._done] if self._done >= 0 else list(self._numbers)

    def _forget(self) -> None:
        self._settled = False
        self._flags[: TOLD + 2] = bytes(TOLD + 2)
        self._counts[_STDOUT] = self._counts[_STDERR] = 0

    def _look_after(self, pid: int) -> None:
        handle = os.pidfd_open(pid)
        self._poll.register(handle, select.POLLIN)
        self._ending.register(handle, select.POLLIN)
        if self._done >= 0:
            self._ending.register(self._done, select.POLLIN)
        self._until_it_ends(pid, handle)
        self._poll.unregister(handle)
        self._ending.unregister(handle)
        os.close(handle)
        _, status, usage = os.wait4(pid, 0)
        if self._settled:
            # It was done, and only what it left behind was too much.
            status = 0
        clean = _has_none() or end_children(())
        if not self._flags[TAKEN]:
            self._not_begun()
            return
        if self._traces is not None:
            clean = clean and self._traces.undone()
        self._drain(self._poll.poll(0))
        self._finish(status, usage, 0 if clean else _UNCLEAN)
        if not clean:
            os._exit(0)

    def _until_it_ends(self, pid: int, handle: int) -> None:
        patience = _SOON
        while True:
            ready = self._poll.poll()
            # What a script prints it mostly prints right before it ends.
            ended = self._ending.poll(0 if self._flags[LIVE] else patience)
            if (handle, select.POLLIN) in ended:
                return
            if ended:
                patience = _SOON
                self._answer_for(pid)
                continue
            patience = 0
            self._drain(ready)
            self._send()
            if self._counts[_STDOUT] > self._most[_STDOUT]:
                os.kill(pid, signal.SIGKILL)

    def _answer_for(self, pid: int) -> None:
        """A process that serves many calls is done with one. When that left others behind, it was its last."""
        os.read(self._done, 1)
        if children_of(pid) or not end_children((pid,)):
            self._settled = True
            os.kill(pid, signal.SIGKILL)
            return
        self._drain([one for one in self._poll.poll(0) if one[0] in self._numbers])
        self._finish(0, None, 0)

    def _finish(self, status: int, usage: Any, flags: int) -> None:
        spent = int((usage.ru_utime + usage.ru_stime) * 1_000_000) if usage else 0
        memory = usage.ru_maxrss if usage else 0
        counts = self._counts[_STDOUT], self._counts[_STDERR]
        if counts[0] > self._most[_STDOUT]:
            flags |= _CUT
        names = told_names(self._flags)
        body = _END.size - _FRAME.size + len(names)
        _END.pack_into(self._buffer, self._filled, b"x", body, status, spent, memory, *counts, flags)
        self._filled += _END.size
        if names:
            self._view[self._filled : self._filled + len(names)] = names
            self._filled += len(names)
        # Before it is sent: the next call may come right after.
        self._forget()
        self._send()

    def _not_begun(self) -> None:
        """The process has ended without a call: the host has gone, or what it was to execute has changed."""
        if not self._flags[CHANGED]:
            os._exit(0)
        _END.pack_into(self._buffer, 0, b"x", _END.size - _FRAME.size, 0, 0, 0, 0, 0, _STALE)
        self._filled = _END.size
        self._send()
        os._exit(0)

    def _drain(self, ready: list[tuple[int, int]]) -> None:
        """Take what is in the pipes; of what is more than there may be, only how much it was."""
        for descriptor, _ in ready:
            number = self._numbers[descriptor]
            while True:
                if self._filled + _LITTLE >= _ROOM:
                    self._send()
                start = self._filled + _FRAME.size
                try:
                    count = os.readv(descriptor, [self._view[start:_ROOM]])
                except BlockingIOError:
                    break
                kept = min(count, max(self._most[number] - self._counts[number], 0))
                self._counts[number] += count
                if kept:
                    _FRAME.pack_into(self._buffer, self._filled, b"o" if number == _STDOUT else b"e", kept)
                    self._filled = start + kept
                # Less than there was room for is all that there was. One that is to be killed may write quicker than
                # this reads.
                if start + count < _ROOM or self._counts[_STDOUT] > self._most[_STDOUT]:
                    break

    def _send(self) -> None:
        if self._filled:
            try:
                self._connection.sendall(self._view[: self._filled])
            except OSError:
                end_children(())
                os._exit(0)
            # The next call gets a copy of this memory, and nothing of this one in it.
            self._view[: self._filled] = bytes(self._filled)
            self._filled = 0


_prctl = ctypes.CDLL(None).prctl
_prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]


def adopt_orphans() -> None:
    """Become the parent of descendants whose parents end."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def protect(on: bool) -> None:
    """Keep others of the same user from looking into the memory of this process; a process that is forked inherits it.

    Set here around each fork, because to set it in the new process would take five times as long.
    """
    _prctl(_PR_SET_DUMPABLE, 0 if on else 1, 0, 0, 0)


def quiet_fork() -> int:
    """Fork, without a word about threads of libraries, which are ready for it; threads of Python there are none."""
    if sys.version_info < (3, 12):
        return os.fork()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _has_none() -> bool:
    """Whether there is no child left. One that has ended is reaped on the way."""
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return True
    return False


def end_children(spared: Container[int]) -> bool:
    """Kill and reap every child but `spared`, and the children that these leave to us; false when some remain."""
    deadline = time.monotonic() + _LEFTOVERS_MAY_TAKE
    while True:
        found = [pid for pid in children_of(os.getpid()) if pid not in spared]
        if not found:
            return True
        for pid in found:
            _signal(pid)
        for pid in found:
            _reap(pid)
        if time.monotonic() > deadline:
            return False


def children_of(pid: int) -> list[int]:
    """The processes whose parent this is."""
    with open(f"/proc/{pid}/task/{pid}/children", "rb", buffering=0) as file:
        return [int(word) for word in file.read().split()]


def _signal(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return
