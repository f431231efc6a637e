"""Mother, zygote, call.

The process of a call: it waits for the call, takes its shape, and executes the script at the bottom of its stack.

A part of `hostmother.py`: it runs in the interpreter of a skill, so it imports nothing of ours.

Where a skill allows it (`warm: reuse`), one process serves many calls. Each gets fresh globals, streams and variables;
what it changed in modules stays. It ends after so many calls, or after one that fails, starts threads or forks.

Ends the process of a call as the interpreter would, at a tenth of the price when there is nothing unusual about it.

A part of `hostmother.py`: it runs in the interpreter of a skill, so it imports nothing of ours.
"""

from __future__ import annotations

import _socket
import _thread
import atexit
import gc
import os
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import mmap
    from collections.abc import Callable
    from typing import Any, Protocol

    from openskills.executors.programs.fork_exit import Attempt, FastExit

    Work = list[Any]
    """What a call does at the bottom of its stack: a function and its arguments."""

    class CallServer(Protocol):
        """What a call needs of `hostmother.Mother`."""

        wanted: dict[str, Any]
        work: Work
        end: CallExit

        def has_changed(self) -> bool: ...


TAKEN, LIVE, CHANGED = range(3)
"""Places in the page that is shared with the process above: what has become of a call."""
NAMES_OFFSET = 16
"""Where the names of modules stand that a call has imported: a length, and names with commas."""
_MAX_NAME_BYTES = 2048
_CALL = struct.Struct("!IBI")
_FIRST_READ = 16 * 1024
_running_threads: Callable[[], int] = vars(_thread)["_count"]


def read_imported_names(flags: mmap.mmap) -> bytes:
    """The names that the process of a call has told."""
    length = int.from_bytes(flags[NAMES_OFFSET : NAMES_OFFSET + 2], "big")
    return flags[NAMES_OFFSET + 2 : NAMES_OFFSET + 2 + min(length, _MAX_NAME_BYTES)]


class CallProcess:
    """This process, from its fork to the script."""

    def __init__(self, mother: CallServer, connection: _socket.socket, flags: mmap.mmap, doing: int) -> None:
        self._server = mother
        self._connection = connection
        self._flags = flags
        self._doing = doing

    def begin(self, not_ours: list[int]) -> Work:
        """Wait for a call, and say what is to be executed."""
        os.setsid()
        for descriptor in not_ours:
            os.close(descriptor)
        self._server.end.report_imports = self._report_imports
        most = self._server.wanted["reuse"]
        if not most:
            self._receive_call()
            self._connection.close()
            return self._server.work
        return [self._serve_many, self._server.work, most]

    def _receive_call(self) -> None:
        """Wait for a call, and take its shape."""
        data = self._connection.recv(_FIRST_READ)
        if not data:
            os._exit(0)
        if len(data) < _CALL.size:
            data = self._receive_rest(bytearray(data), _CALL.size)
        total, live, length = _CALL.unpack_from(data)
        if len(data) < total:
            data = self._receive_rest(bytearray(data), total)
        if self._server.has_changed():
            self._flags[CHANGED] = 1
            os._exit(0)
        start = _CALL.size + length
        stdin = _create_pipe(memoryview(data)[start:])
        if stdin < 0:
            stdin = _create_file(memoryview(data)[start:])
        os.dup2(stdin, 0)
        os.close(stdin)
        for variable in bytes(data[_CALL.size : start]).split(b"\0")[:-1]:
            name, _, value = variable.partition(b"=")
            os.environb[name] = value
        self._flags[LIVE] = live
        self._flags[TAKEN] = 1

    def _receive_rest(self, data: bytearray, total: int) -> bytearray:
        while len(data) < total:
            part = self._connection.recv(total - len(data))
            if not part:
                os._exit(0)
            data += part
        return data

    def _report_imports(self, names: list[str]) -> None:
        told = ",".join(names).encode("ascii", "replace")[:_MAX_NAME_BYTES]
        self._flags[NAMES_OFFSET : NAMES_OFFSET + 2 + len(told)] = len(told).to_bytes(2, "big") + told

    def _serve_many(self, work: Work, most: int) -> None:
        """Do the same work for one call after the other. Returns after the last, whose end is that of the process."""
        _, code, names = work
        first, variables, directory, argv = dict(names), dict(os.environb), os.getcwd(), list(sys.argv)
        for number in range(most):
            self._receive_call()
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
            _restore_state(variables, directory)
            os.write(self._doing, b".")


def _restore_state(variables: dict[bytes, bytes], directory: str) -> None:
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


def _create_pipe(view: memoryview) -> int:
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


def _create_file(view: memoryview) -> int:
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


_threads: Callable[[], int] = vars(_thread)["_count"]
_callbacks: Callable[[], int] = vars(atexit)["_ncallbacks"]
_YOUNG, _ALL = 0, 2


class CallExit(FastExit):
    """What is done last in the process of a call."""

    def __init__(self) -> None:
        super().__init__()
        self._modules = 0
        self._registered = 0
        self.report_imports: Callable[[list[str]], None] | None = None

    def prepare(self, work: list[Any]) -> None:
        """This work will be done; all modules but the main one are loaded."""
        super().prepare(work)
        self._modules = len(sys.modules)
        self._registered = _callbacks()

    def leave(self, error: SystemExit | None) -> None:
        """The script has come to its end, or asked for it. Returns when the interpreter has to see to it itself."""
        if error is not None:
            self.record_failure()
            if not (error.code is None or isinstance(error.code, int)):
                # It is a message, to be printed.
                return
            error.__traceback__ = None
        if _threads() or self._has_foreign_imports() or _callbacks() != self._registered or not _flush_output():
            return
        names: dict[str, Any] = self._work[2]
        self._work.clear()
        # Files that nobody closed are written now, as at the end of an interpreter.
        names.clear()
        # When the collector has never run here, all that this call has made is young.
        gc.collect(_ALL if any(gc.get_count()[1:]) else _YOUNG)
        if _flush_output():
            os._exit(self._status)

    def _has_foreign_imports(self) -> bool:
        """Whether modules were imported that may want to be taken down; those of Python itself do not.

        Which those were is told: the next calls can have them ready.
        """
        if len(sys.modules) == self._modules or self._loaded is None:
            return False
        new = [name for name in sys.modules if name not in self._loaded and name != "__main__"]
        if self.report_imports is not None:
            self.report_imports(new)
        return any(name.partition(".")[0] not in sys.stdlib_module_names for name in new)


def _flush_output() -> bool:
    """Whether everything that was printed is written; when not, the interpreter is to find out and complain."""
    with Attempt() as attempt:
        sys.stdout.flush()
        sys.stderr.flush()
    return not attempt.failed
