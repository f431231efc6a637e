"""A small program that keeps the interpreter of one hosted skill ready, and forks the processes that serve its calls.

It runs in the interpreter of the skill, locally or inside a sandbox, so it imports nothing of ours; its parts (`PARTS`
in `fork_mother.py`) are put into one namespace by the last lines of its command line. On descriptor 0 it has a
connection to the host, on which the host says first what to load, and then

    z SLOT and a descriptor     serve this connection, too: a *zygote* is forked for it (`hostzygote.py`)
    k SLOT                      end that zygote with everything below it

and hears `e SLOT` when a zygote has ended and nothing that it or its calls started is left, and after each `k`. When
the connection ends, everything ends. Nothing of a call ever passes through here: whoever serves one reads it itself, so
that no call can find traces of another in its memory.
"""

from __future__ import annotations

import _socket
import builtins
import gc
import json
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

    # At run time all parts are in one namespace.
    from openskills.executors.inside.forkend import Attempt  # noqa: TC004
    from openskills.executors.inside.hostend import CallEnd
    from openskills.executors.inside.hostzygote import (  # noqa: TC004
        Work,
        Zygote,
        adopt_orphans,
        end_children,
        protect,
        quiet_fork,
    )

_ORDER = struct.Struct("!cI")
_LENGTH = struct.Struct("!I")
_CMSG = _socket.CMSG_SPACE(4)
_MAX_SOURCE = 8 * 1024 * 1024


class Mother:
    """The interpreter with everything loaded; the same object in all processes that are forked from it."""

    def __init__(self, end: CallEnd) -> None:
        self.end = end
        self._control = _socket.socket(fileno=os.dup(0))
        self._zygotes: dict[int, int] = {}
        self.wanted: dict[str, Any] = {}
        self.work: Work = []
        self._stamps: dict[str, tuple[int, ...]] = {}

    def serve(self) -> Work:
        """Work until the host has gone; returns only in the process of a call, with what it is to execute."""
        refused = ""
        with Attempt() as attempt:
            refused = self._prepare()
        self._say(json.dumps({"refused": refused, "failed": attempt.said}).encode())
        if refused or attempt.failed:
            os._exit(0)
        adopt_orphans()
        # Calls share a user: none of them is to look into the memory of what forks the next.
        protect(True)
        gc.collect()
        # The collector would touch every object, and so copy every page into each call.
        gc.freeze()
        return self._work()

    def changed(self) -> bool:
        """Whether what was loaded is no longer what is on the disk."""
        return any(_stamp(path) != stamp for path, stamp in self._stamps.items())

    def _prepare(self) -> str:
        self.wanted = json.loads(self._exactly(_LENGTH.unpack(self._exactly(_LENGTH.size))[0]))
        sys.path[:] = self.wanted["path"]
        # What the module `site` adds to a language that people know; it was left out for what else it does.
        site.setquit()
        site.setcopyright()
        site.sethelper()
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        os.close(null)
        return self._load()

    def _load(self) -> str:
        """Import and compile; why a cold start would do something else, if so."""
        entry = self.wanted["entry"]
        shadows = _shadows(os.path.dirname(entry))
        if shadows:
            return f"{shadows} beside it has the name of a module that is loaded already"
        before = set(os.listdir("/proc/self/fd"))
        for name in self.wanted["preload"]:
            with Attempt() as attempt:
                exec(f"import {name}", {"__name__": "__main__"})  # noqa: S102
            if attempt.failed and name in self.wanted["named"]:
                return f"{name} cannot be imported: {attempt.said}"[:500]
        if len(os.listdir("/proc/self/task")) > 1:
            return "its modules start threads when they are imported"
        if set(os.listdir("/proc/self/fd")) != before:
            return "its modules keep files open when they are imported"
        self._stamps = _stamps(entry)
        source = _source(entry)
        with Attempt() as attempt:
            code = compile(source, entry, "exec", dont_inherit=True)
            self.work = [exec, code, vars(_main_module(entry))]
        if attempt.failed:
            return "it cannot be compiled"
        sys.argv[:] = [entry, *self.wanted["args"]]
        sys.orig_argv[:] = [sys.executable, *sys.argv]
        self.end.prepare(self.work)
        return ""

    def _work(self) -> Work:
        wakeups, waking = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(wakeups, select.POLLIN)
        while True:
            signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
            signal.signal(signal.SIGCHLD, _wake_up)
            for descriptor, _ in poll.poll():
                if descriptor == wakeups:
                    os.read(wakeups, 4096)
                    self._reap()
                    continue
                work = self._act((wakeups, waking))
                if work is not None:
                    return work

    def _act(self, ours: tuple[int, int]) -> Work | None:
        try:
            data, ancillary, _, _ = self._control.recvmsg(_ORDER.size, _CMSG)
        except OSError:
            data, ancillary = b"", []
        if not data:
            end_children(())
            os._exit(0)
        order, slot = _ORDER.unpack(data + self._exactly(_ORDER.size - len(data)))
        if order == b"k":
            pid = next((pid for pid, other in self._zygotes.items() if other == slot), 0)
            if pid:
                os.kill(pid, signal.SIGKILL)
            else:
                # It has ended by itself. That was said before the host asked for it, so nobody may have listened.
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
        return Zygote(self, connection).serve()

    def _reap(self) -> None:
        """A zygote has ended: so must everything that has become our child with its end."""
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
        end_children(self._zygotes)
        for slot in ended:
            self._control.sendall(_ORDER.pack(b"e", slot))

    def _say(self, data: bytes) -> None:
        try:
            self._control.sendall(_LENGTH.pack(len(data)) + data)
        except OSError:
            os._exit(0)

    def _exactly(self, length: int) -> bytes:
        parts = bytearray()
        while len(parts) < length:
            part = self._control.recv(length - len(parts))
            if not part:
                os._exit(0)
            parts += part
        return bytes(parts)


def _wake_up(*_: object) -> None:
    """The pipe does it; the signal must only not be ignored."""


def _main_module(entry: str) -> types.ModuleType:
    """`__main__` as it is for `python entry`."""
    main = types.ModuleType("__main__")
    names = vars(main)
    names.update(
        __loader__=SourceFileLoader("__main__", entry),
        __builtins__=builtins,
        __annotations__={},
        __file__=entry,
        __cached__=None,
    )
    sys.modules["__main__"] = main
    return main


def _source(entry: str) -> bytes:
    with open(entry, "rb") as file:
        return file.read(_MAX_SOURCE)


def _stamps(entry: str) -> dict[str, tuple[int, ...]]:
    """What the script and every module that is no part of Python looked like when they were loaded."""
    standard = os.path.dirname(os.__file__)
    found = {entry}
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file and not (file.startswith(standard) and "-packages" not in file):
            found.add(file)
    return {path: _stamp(path) for path in found}


def _stamp(path: str) -> tuple[int, ...]:
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_ino, found.st_size


def _shadows(directory: str) -> str:
    """The first name in the directory that a cold start would import instead of what is loaded here."""
    loaded = {name.partition(".")[0] for name in sys.modules}
    for found in os.listdir(directory):
        if found.endswith((".py", ".so")) and found.partition(".")[0] in loaded:
            return found
    return ""
