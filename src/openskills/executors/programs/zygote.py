"""Zygote: keeps the interpreter of one hosted skill ready, and forks the processes that serve its calls.

It runs in the skill's interpreter, locally or inside a sandbox, so it imports nothing of ours; its parts
(`zygote.PARTS` on the host's side) share one namespace. On descriptor 0 it has a connection to the host, which first
sends what to load, and then

    z SLOT and a descriptor     fork a zygote that serves this connection
    k SLOT                      kill that zygote with everything below it

It sends `e SLOT` when a zygote has ended and nothing that it or its calls started is left, and after each `k`. When the
connection ends, everything ends. Calls never pass through this process, so that no call can find traces of another in
its memory.

A zygote serves the calls of one connection, one after the other, each in a new process that is forked ahead of time and
reads the call itself. A call, with a length prefix:

    flags (1: send output immediately), length of the variables, the variables (NAME=value, each followed by NUL), and
    the script's stdin

The response is a series of frames: `o` and `e` with output on stdout and stderr, then `x` with the result:

    wait status, CPU time in microseconds, memory in KiB, total bytes on stdout and stderr, flags (1: not begun, because
    the script has changed; 2: stdout was cut; 4: it left something that cannot be undone, so this zygote exits), and
    the names of the modules that it has imported, separated by commas
"""

from __future__ import annotations

import _socket
import builtins
import ctypes
import json
import mmap
import os
import select
import signal
import site
import struct
import sys
import types
from _frozen_importlib_external import SourceFileLoader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from openskills.executors.programs.call import (
        CHANGED,
        LIVE,
        PROTECTED,
        TAKEN,
        CallExit,
        CallProcess,
        CallServer,
        read_imported_names,
        rehearse_calls,
    )
    from openskills.executors.programs.fork_exit import (
        Attempt,
        adopt_orphans,
        freeze_memory,
        is_standard,
        kill_children,
        list_children,
        on_child_exit,
        quiet_fork,
        read_stamp,
        set_protection,
    )
    from openskills.executors.programs.traces import Traces, create_unshared_memory

    Work = list[Any]
    """A function and its arguments, called at the bottom of the stack."""


_ORDER = struct.Struct("!cI")
_LENGTH = struct.Struct("!I")
_CMSG = _socket.CMSG_SPACE(4)
_MAX_SOURCE = 8 * 1024 * 1024


class ZygoteServer:
    """The interpreter with everything loaded; the same object in all forked processes."""

    def __init__(self, end: CallExit) -> None:
        self.end = end
        self._control = _socket.socket(fileno=os.dup(0))
        self._zygotes: dict[int, int] = {}
        self.wanted: dict[str, Any] = {}
        self.work: Work = []
        self._stamps: dict[str, tuple[int, ...]] = {}
        # Kept in the process of a call too, where freeing its memory would copy it.
        self._zygote: Zygote | None = None

    def serve(self) -> Work:
        """Serve until the host disconnects; returns only in the process of a call, with its work."""
        refused = ""
        with Attempt() as attempt:
            refused = self._prepare()
        self._send(json.dumps({"refused": refused, "failed": attempt.message}).encode())
        if refused or attempt.failed:
            os._exit(0)
        adopt_orphans()
        # Calls share a user: they must not be able to read the memory of this process.
        set_protection(True)
        freeze_memory()
        return self._serve_orders()

    def has_changed(self) -> bool:
        """Whether a loaded file has changed on disk."""
        for path, stamp in self._stamps.items():  # noqa: SIM110 - a generator would be one more object for each call
            if read_stamp(path) != stamp:
                return True
        return False

    def _prepare(self) -> str:
        self.wanted = json.loads(self._receive_exactly(_LENGTH.unpack(self._receive_exactly(_LENGTH.size))[0]))
        sys.path[:] = self.wanted["path"]
        # The builtins that `site` adds; it was not imported because of its other effects.
        site.setquit()
        site.setcopyright()
        site.sethelper()
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        os.close(null)
        return self._load()

    def _load(self) -> str:
        """Import and compile; returns the reason if a cold start would behave differently."""
        entry = self.wanted["entry"]
        loaded = {name.partition(".")[0] for name in sys.modules}
        names = (name for name in os.listdir(os.path.dirname(entry)) if name.endswith((".py", ".so")))
        shadow = next((name for name in names if name.partition(".")[0] in loaded), None)
        if shadow is not None:
            return f"{shadow} in its directory shadows a module that is loaded already"
        self._stamps = {entry: read_stamp(entry)}
        rehearse_calls(self)
        before = set(os.listdir("/proc/self/fd"))
        for name in self.wanted["preload"]:
            with Attempt() as attempt:
                exec(f"import {name}", {"__name__": "__main__"})  # noqa: S102
            if attempt.failed and name in self.wanted["named"]:
                return f"{name} cannot be imported: {attempt.message}"[:500]
        if len(os.listdir("/proc/self/task")) > 1:
            return "its modules start threads on import"
        if set(os.listdir("/proc/self/fd")) != before:
            return "its modules keep files open on import"
        files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
        self._stamps = {file: read_stamp(file) for file in (*files, entry) if file and not is_standard(file)}
        self._stamps[entry] = read_stamp(entry)
        with open(entry, "rb") as file:
            source = file.read(_MAX_SOURCE)
        with Attempt() as attempt:
            code = compile(source, entry, "exec", dont_inherit=True)
            # `__main__` as for `python entry`.
            main = sys.modules["__main__"] = types.ModuleType("__main__")
            loader = SourceFileLoader("__main__", entry)
            vars(main).update(
                __loader__=loader, __builtins__=builtins, __annotations__={}, __file__=entry, __cached__=None
            )
            self.work = [exec, code, vars(main)]
        if attempt.failed:
            return "it cannot be compiled"
        sys.argv[:] = [entry, *self.wanted["args"]]
        sys.orig_argv[:] = [sys.executable, *sys.argv]
        self.end.prepare(self.work)
        return ""

    def _serve_orders(self) -> Work:
        wakeups, waking = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(wakeups, select.POLLIN)
        while True:
            signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
            signal.signal(signal.SIGCHLD, on_child_exit)
            for descriptor, _ in poll.poll():
                if descriptor == wakeups:
                    os.read(wakeups, 4096)
                    self._reap()
                    continue
                work = self._handle_order((wakeups, waking))
                if work is not None:
                    return work

    def _handle_order(self, ours: tuple[int, int]) -> Work | None:
        try:
            data, ancillary, _, _ = self._control.recvmsg(_ORDER.size, _CMSG)
        except OSError:
            data, ancillary = b"", []
        if not data:
            kill_children(())
            os._exit(0)
        order, slot = _ORDER.unpack(data + self._receive_exactly(_ORDER.size - len(data)))
        if order == b"k":
            pid = next((pid for pid, other in self._zygotes.items() if other == slot), 0)
            if pid:
                os.kill(pid, signal.SIGKILL)
            else:
                # It has ended already, perhaps before the host started to wait for it.
                self._control.sendall(_ORDER.pack(b"e", slot))
            return None
        connection = int.from_bytes(ancillary[0][2][:4], sys.byteorder)
        pid = quiet_fork()
        if pid:
            os.close(connection)
            self._zygotes[pid] = slot
            return None
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        for descriptor in (*ours, self._control.detach()):
            os.close(descriptor)
        self._zygote = Zygote(self, connection)
        return self._zygote.serve()

    def _reap(self) -> None:
        """Reap zygotes that have ended, and kill the processes that they leave to us."""
        ended: list[int] = []
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if pid in self._zygotes:
                ended.append(self._zygotes.pop(pid))
        kill_children(self._zygotes)
        for slot in ended:
            self._control.sendall(_ORDER.pack(b"e", slot))

    def _send(self, data: bytes) -> None:
        try:
            self._control.sendall(_LENGTH.pack(len(data)) + data)
        except OSError:
            os._exit(0)

    def _receive_exactly(self, length: int) -> bytes:
        parts = bytearray()
        while len(parts) < length:
            part = self._control.recv(length - len(parts))
            if not part:
                os._exit(0)
            parts += part
        return bytes(parts)


_FRAME = struct.Struct("!cI")
_END = struct.Struct("!cIiQQQQB")
_BUFFER = 256 * 1024
_ROOM = _BUFFER - 4096
_LITTLE = 4096
_EXIT_WAIT_MS = 5
_STALE, _CUT, _UNCLEAN = 1, 2, 4
_STDOUT, _STDERR = 1, 2
_NO_FLAGS = bytes(mmap.PAGESIZE - TAKEN)
# Unlike `os.wait4`, it creates no objects. It never waits here, so the lock of the interpreter is kept.
_wait4 = ctypes.PyDLL(None).wait4
_STATUS = struct.Struct("@i5q")
"""A wait status, and the beginning of `struct rusage`: two CPU times (seconds, microseconds), and the memory in KiB."""
_USAGE_OFFSET, _STATUS_SIZE = 8, 256


class Zygote:
    """Serves one connection until the host closes it."""

    def __init__(self, server: CallServer, connection: int) -> None:
        self._server = server
        # Under the lowest number that is free, below everything that the process of a call has to close.
        self._connection = _socket.socket(fileno=os.dup(connection))
        os.close(connection)
        # Shared with the process of a call, which reports its state here.
        self._flags = memoryview(mmap.mmap(-1, mmap.PAGESIZE))
        self._done, self._doing = os.pipe() if server.wanted["reuse"] else (-1, -1)
        self._max_bytes = {_STDOUT: server.wanted["stdout"], _STDERR: server.wanted["stderr"]}
        self._numbers: dict[int, int] = {}
        # The next call must not get a copy of the output of this one.
        self._buffer = create_unshared_memory(_BUFFER)
        self._view = memoryview(self._buffer)
        self._status = create_unshared_memory(_STATUS_SIZE)
        status = ctypes.c_char.from_buffer(self._status)
        self._status_places = ctypes.byref(status), ctypes.byref(status, _USAGE_OFFSET)
        self._traces: Traces | None = None
        self._poll = select.poll()
        self._ending = select.poll()
        self._filled = 0
        self._is_settled = False
        self._counts = {_STDOUT: 0, _STDERR: 0}

    def serve(self) -> Work:
        """Serve until the host disconnects; returns only in the process of a call, with its work."""
        os.setsid()
        adopt_orphans()
        if self._server.wanted["tidy"]:
            # In the new session, whose weight it records.
            self._traces = Traces(quiet_fork)
        if self._done >= 0:
            self._poll.register(self._done, select.POLLIN)
        call = CallProcess(self._server, self._connection, self._flags, self._doing)
        kept = self._connection.fileno(), self._doing
        ours = max(*kept, self._done, *(self._traces.descriptors if self._traces is not None else ()))
        # As in `ZygoteServer.serve`, for the objects of this zygote.
        freeze_memory()
        while True:
            self._renew_pipes()
            unneeded = _find_gaps(max(ours, *self._numbers), kept)
            self._flags[PROTECTED] = 0
            set_protection(False)
            pid = quiet_fork()
            if pid == 0:
                return call.begin(unneeded)
            set_protection(True)
            self._flags[PROTECTED] = 1
            self._supervise_call(pid)

    def _renew_pipes(self) -> None:
        """Make new pipes our own stdout and stderr, which the next process inherits.

        The process of a call can change the mode and size of its pipes, and leave data in them.
        """
        for reading in self._numbers:
            self._poll.unregister(reading)
            os.close(reading)
        self._numbers.clear()
        for number in (_STDOUT, _STDERR):
            reading, writing = os.pipe()
            os.set_blocking(reading, False)
            os.dup2(writing, number)
            os.close(writing)
            self._numbers[reading] = number
            self._poll.register(reading, select.POLLIN)

    def _reset(self) -> None:
        self._is_settled = False
        self._flags[TAKEN:] = _NO_FLAGS
        self._counts[_STDOUT] = self._counts[_STDERR] = 0

    def _supervise_call(self, pid: int) -> None:
        handle = os.pidfd_open(pid)
        self._poll.register(handle, select.POLLIN)
        self._ending.register(handle, select.POLLIN)
        if self._done >= 0:
            self._ending.register(self._done, select.POLLIN)
        self._relay_until_exit(pid, handle)
        self._poll.unregister(handle)
        self._ending.unregister(handle)
        os.close(handle)
        if _wait4(pid, self._status_places[0], 0, self._status_places[1]) != pid:
            raise ChildProcessError(pid)
        status, user_s, user_us, system_s, system_us, memory = _STATUS.unpack_from(self._status)
        if self._is_settled:
            # The call had finished; only its leftover processes were killed.
            status = 0
        clean = _has_no_children() or kill_children(())
        if not self._flags[TAKEN]:
            self._report_stale()
            return
        if self._traces is not None:
            clean = clean and self._traces.undone()
        self._drain_all()
        # Parts of cut output are left in our memory, of which the next call would get a copy.
        clean = clean and not self._has_cut_output()
        spent = (user_s + system_s) * 1_000_000 + user_us + system_us
        self._finish(status, spent, memory, 0 if clean else _UNCLEAN)
        if not clean:
            os._exit(0)

    def _relay_until_exit(self, pid: int, handle: int) -> None:
        timeout_ms = _EXIT_WAIT_MS
        while True:
            ready = self._poll.poll()
            # Most scripts print right before they end.
            ended = self._ending.poll(0 if self._flags[LIVE] else timeout_ms)
            if (handle, select.POLLIN) in ended:
                return
            if ended:
                timeout_ms = _EXIT_WAIT_MS
                self._finish_reused_call(pid)
                continue
            timeout_ms = 0
            self._drain(ready)
            self._send()
            if self._counts[_STDOUT] > self._max_bytes[_STDOUT]:
                os.kill(pid, signal.SIGKILL)

    def _finish_reused_call(self, pid: int) -> None:
        """A process that serves many calls has finished one. If that left processes, it was the last."""
        os.read(self._done, 1)
        if list_children(pid) or not kill_children((pid,)):
            self._is_settled = True
            os.kill(pid, signal.SIGKILL)
            return
        self._drain_all()
        if self._has_cut_output():
            self._is_settled = True
            os.kill(pid, signal.SIGKILL)
            return
        self._finish(0, 0, 0, 0)

    def _has_cut_output(self) -> bool:
        counts, limits = self._counts, self._max_bytes
        return counts[_STDOUT] > limits[_STDOUT] or counts[_STDERR] > limits[_STDERR]

    def _finish(self, status: int, spent_us: int, memory_kib: int, flags: int) -> None:
        counts = self._counts[_STDOUT], self._counts[_STDERR]
        if counts[0] > self._max_bytes[_STDOUT]:
            flags |= _CUT
        # A view, because a copy would stay in our memory.
        names = read_imported_names(self._flags)
        body = _END.size - _FRAME.size + len(names)
        _END.pack_into(self._buffer, self._filled, b"x", body, status, spent_us, memory_kib, *counts, flags)
        self._filled += _END.size
        if names:
            self._view[self._filled : self._filled + len(names)] = names
            self._filled += len(names)
        # Before sending, because the next call may arrive right after.
        self._reset()
        self._send()

    def _report_stale(self) -> None:
        """The process has ended without a call: the host is gone, or a file has changed."""
        if not self._flags[CHANGED]:
            os._exit(0)
        _END.pack_into(self._buffer, 0, b"x", _END.size - _FRAME.size, 0, 0, 0, 0, 0, _STALE)
        self._filled = _END.size
        self._send()
        os._exit(0)

    def _drain(self, ready: list[tuple[int, int]]) -> None:
        """Read once from each of these pipes."""
        for descriptor, _ in ready:
            self._read_pipe(descriptor)

    def _drain_all(self) -> None:
        """Read the pipes until they are empty. A short read does not mean that: a pipe may contain packets."""
        is_empty = False
        while not is_empty:
            is_empty = True
            for descriptor, _ in self._poll.poll(0):
                # Anything else that is ready is not a pipe of the call.
                if descriptor in self._numbers and self._read_pipe(descriptor):
                    is_empty = False

    def _read_pipe(self, descriptor: int) -> bool:
        """Read part of a call's output; false if there was none. What exceeds the limit is only counted."""
        number = self._numbers[descriptor]
        if self._filled + _LITTLE >= _ROOM:
            self._send()
        start = self._filled + _FRAME.size
        try:
            count = os.readv(descriptor, [self._view[start:_ROOM]])
        except BlockingIOError:
            return False
        kept = min(count, max(self._max_bytes[number] - self._counts[number], 0))
        self._counts[number] += count
        if kept:
            _FRAME.pack_into(self._buffer, self._filled, b"o" if number == _STDOUT else b"e", kept)
            self._filled = start + kept
        return True

    def _send(self) -> None:
        if self._filled:
            try:
                self._connection.sendall(self._view[: self._filled])
            except OSError:
                kill_children(())
                os._exit(0)
            self._filled = 0


def _find_gaps(highest: int, kept: tuple[int, ...]) -> list[tuple[int, int]]:
    """The ranges of descriptors from 3 to `highest` without those that are kept."""
    gaps: list[tuple[int, int]] = []
    low = 3
    for number in (*sorted(kept), highest + 1):
        if number > low:
            gaps.append((low, number))
        low = max(low, number + 1)
    return gaps


def _has_no_children() -> bool:
    """Whether all children have ended. One of them is reaped."""
    return _wait4(-1, None, os.WNOHANG, None) < 0
