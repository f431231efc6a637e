"""The process of a call: it waits for the call, takes its shape, and executes the script at the bottom of its stack.

A part of `hostmother.py`: it runs in the interpreter of a skill, so it imports nothing of ours.

Where a skill allows it (`warm: reuse`), one process serves many calls. Each gets fresh globals, streams and variables;
what it changed in modules stays. It ends after so many calls, or after one that fails, starts threads or forks.
"""

from __future__ import annotations

import _socket
import _thread
import gc
import os
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import mmap
    from collections.abc import Callable
    from typing import Any, Protocol

    # At run time all parts are in one namespace.
    from openskills.executors.inside.hostend import CallEnd

    Work = list[Any]
    """What a call does at the bottom of its stack: a function and its arguments."""

    class Loaded(Protocol):
        """What a call needs of `hostmother.Mother`."""

        wanted: dict[str, Any]
        work: Work
        end: CallEnd

        def changed(self) -> bool: ...


TAKEN, LIVE, CHANGED = range(3)
"""Places in the page that is shared with the process above: what has become of a call."""
TOLD = 16
"""Where the names of modules stand that a call has imported: a length, and names with commas."""
_MOST_TOLD = 2048
_CALL = struct.Struct("!IBI")
_FIRST_READ = 16 * 1024
_running_threads: Callable[[], int] = vars(_thread)["_count"]


def told_names(flags: mmap.mmap) -> bytes:
    """The names that the process of a call has told."""
    length = int.from_bytes(flags[TOLD : TOLD + 2], "big")
    return flags[TOLD + 2 : TOLD + 2 + min(length, _MOST_TOLD)]


class CallProcess:
    """This process, from its fork to the script."""

    def __init__(self, mother: Loaded, connection: _socket.socket, flags: mmap.mmap, doing: int) -> None:
        self._mother = mother
        self._connection = connection
        self._flags = flags
        self._doing = doing

    def begin(self, not_ours: list[int]) -> Work:
        """Wait for a call, and say what is to be executed."""
        os.setsid()
        for descriptor in not_ours:
            os.close(descriptor)
        self._mother.end.tell = self._tell
        most = self._mother.wanted["reuse"]
        if not most:
            self._take()
            self._connection.close()
            return self._mother.work
        return [self._serve_many, self._mother.work, most]

    def _take(self) -> None:
        """Wait for a call, and take its shape."""
        data = self._connection.recv(_FIRST_READ)
        if not data:
            os._exit(0)
        if len(data) < _CALL.size:
            data = self._rest(bytearray(data), _CALL.size)
        total, live, length = _CALL.unpack_from(data)
        if len(data) < total:
            data = self._rest(bytearray(data), total)
        if self._mother.changed():
            self._flags[CHANGED] = 1
            os._exit(0)
        start = _CALL.size + length
        stdin = _in_pipe(memoryview(data)[start:])
        if stdin < 0:
            stdin = _in_file(memoryview(data)[start:])
        os.dup2(stdin, 0)
        os.close(stdin)
        for variable in bytes(data[_CALL.size : start]).split(b"\0")[:-1]:
            name, _, value = variable.partition(b"=")
            os.environb[name] = value
        self._flags[LIVE] = live
        self._flags[TAKEN] = 1

    def _rest(self, data: bytearray, total: int) -> bytearray:
        while len(data) < total:
            part = self._connection.recv(total - len(data))
            if not part:
                os._exit(0)
            data += part
        return data

    def _tell(self, names: list[str]) -> None:
        told = ",".join(names).encode("ascii", "replace")[:_MOST_TOLD]
        self._flags[TOLD : TOLD + 2 + len(told)] = len(told).to_bytes(2, "big") + told

    def _serve_many(self, work: Work, most: int) -> None:
        """Do the same work for one call after the other. Returns after the last, whose end is that of the process."""
        _, code, names = work
        first, variables, directory, argv = dict(names), dict(os.environb), os.getcwd(), list(sys.argv)
        for number in range(most):
            self._take()
            try:
                exec(code, names)  # noqa: S102 - the skill
            except SystemExit as error:
                if error.code not in (None, 0):
                    raise
                error.__traceback__ = None
            except BaseException as error:
                if error.__traceback__ is not None:
                    error.__traceback__ = error.__traceback__.tb_next
                raise
            if _running_threads() or number == most - 1:
                return
            names.clear()
            names.update(first)
            sys.argv[:] = argv
            _as_at_first(variables, directory)
            os.write(self._doing, b".")


def _as_at_first(variables: dict[bytes, bytes], directory: str) -> None:
    """Undo what a call did to the process, as far as that is known."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    gc.collect()
    if dict(os.environb) != variables:
        os.environb.clear()
        os.environb.update(variables)
    os.chdir(directory)
    sys.stdin = sys.__stdin__ = open(0, closefd=False)  # noqa: SIM115 - for the next call
    sys.stdout, sys.stderr = vars(sys)["__stdout__"], vars(sys)["__stderr__"]


def _in_pipe(view: memoryview) -> int:
    """The end of a pipe that holds all of this and nothing more will come; -1 when there is no room for it."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        written = os.write(writing, view) if view else 0
    except BlockingIOError:
        written = -1
    os.close(writing)
    if written == len(view):
        return reading
    os.close(reading)
    return -1


def _in_file(view: memoryview) -> int:
    """A file without a name that holds this, to be read from its beginning."""
    try:
        descriptor = os.memfd_create("stdin", 0)
    except OSError:
        # A sandbox has no memory that belongs to nobody.
        descriptor = os.open("/tmp", os.O_TMPFILE | os.O_RDWR, 0o600)  # noqa: S108 - that of the sandbox
    while view:
        view = view[os.write(descriptor, view) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
