"""The process of a call to a hosted skill: waits for the call, sets up its environment, runs the script, and exits.

Part of the program in `zygote.py`: it runs in the skill's interpreter, so it imports nothing of ours.

With `warm: reuse`, one process serves many calls. Each gets fresh globals, streams and variables; changes to modules
stay. The process ends after a number of calls, or after one that fails, starts threads or forks.
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
    from collections.abc import Callable
    from typing import Any, Protocol

    from openskills.executors.programs.fork_exit import Attempt, FastExit

    Work = list[Any]
    """A function and its arguments, called at the bottom of the stack."""

    class CallServer(Protocol):
        """What a call needs of `ZygoteServer`."""

        wanted: dict[str, Any]
        work: Work
        end: CallExit

        def has_changed(self) -> bool: ...


PROTECTED, TAKEN, LIVE, CHANGED = range(4)
"""Indexes in the memory page shared with the parent: whether it is protected, and the state of a call."""
NAMES_OFFSET = 16
"""Offset of the names of imported modules: a length, and names separated by commas."""
_MAX_NAME_BYTES = 2048
_CALL = struct.Struct("!IBI")
_FIRST_READ = 16 * 1024
_running_threads: Callable[[], int] = vars(_thread)["_count"]


def read_imported_names(flags: memoryview) -> memoryview:
    """The module names that the process of a call has reported."""
    length = int.from_bytes(flags[NAMES_OFFSET : NAMES_OFFSET + 2], "big")
    return flags[NAMES_OFFSET + 2 : NAMES_OFFSET + 2 + min(length, _MAX_NAME_BYTES)]


class CallProcess:
    """The process of a call, from its fork to the script. The object is created before the fork."""

    def __init__(self, server: CallServer, connection: _socket.socket, flags: memoryview, doing: int) -> None:
        self._server = server
        self._connection = connection
        self._flags = flags
        self._doing = doing
        self._max_calls: int = server.wanted["reuse"]
        server.end.report_imports = self._report_imports

    def begin(self, unneeded: list[tuple[int, int]]) -> Work:
        """Wait for a call, and return what to execute. `unneeded` are ranges of descriptors to close."""
        os.setsid()
        self.close_descriptors(unneeded)
        if self._max_calls:
            return [self._serve_many, self._server.work, self._max_calls]
        self._wait_for_call()
        self._connection.close()
        return self._server.work

    def close_descriptors(self, ranges: list[tuple[int, int]]) -> None:
        """Close what belongs to the parent only."""
        for low, high in ranges:
            os.closerange(low, high)

    def _wait_for_call(self) -> None:
        """Wait for a call, and set up its stdin and variables. Exits if a loaded file has changed."""
        if not self.receive_call():
            self._flags[CHANGED] = 1
            os._exit(0)

    def receive_call(self) -> bool:
        """Wait for a call, and set up its stdin and variables; false if a loaded file has changed."""
        data = self._connection.recv(_FIRST_READ)
        if not data:
            os._exit(0)
        if len(data) < _CALL.size:
            data = self._receive_rest(bytearray(data), _CALL.size)
        total, live, length = _CALL.unpack_from(data)
        if len(data) < total:
            data = self._receive_rest(bytearray(data), total)
        if self._server.has_changed():
            return False
        while not self._flags[PROTECTED]:
            # The script could write to the memory of the parent.
            os.sched_yield()
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
        return True

    def _receive_rest(self, data: bytearray, total: int) -> bytearray:
        while len(data) < total:
            part = self._connection.recv(total - len(data))
            if not part:
                os._exit(0)
            data += part
        return data

    def _report_imports(self, names: list[str]) -> None:
        data = ",".join(names).encode("ascii", "replace")[:_MAX_NAME_BYTES]
        self._flags[NAMES_OFFSET : NAMES_OFFSET + 2 + len(data)] = len(data).to_bytes(2, "big") + data

    def _serve_many(self, work: Work, max_calls: int) -> None:
        """Run the script for one call after the other. Returns after the last one, which ends the process."""
        _, code, names = work
        first, variables, directory, argv = dict(names), dict(os.environb), os.getcwd(), list(sys.argv)
        for number in range(max_calls):
            self._wait_for_call()
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
            if _running_threads() or number == max_calls - 1:
                return
            names.clear()
            names.update(first)
            sys.argv[:] = argv
            _restore_state(variables, directory)
            os.write(self._doing, b".")


_REHEARSALS = 20
"""More often than the interpreter runs code before it adapts it."""
_NO_RANGES = [(1, 1)]
_REHEARSED_INPUT = b'{"input": {"text": "", "numbers": [1, 2.5], "flags": [true, null]}}'
_REHEARSED_VARIABLE = b"OPENSKILL_REHEARSAL"
_REHEARSED_SCRIPT = """\
import json
import sys

print(json.dumps(json.load(sys.stdin)))
"""


def rehearse_calls(server: CallServer) -> None:
    """Serve a few calls with a script of ours in this process, from which the processes of calls are forked.

    Running code for the first times changes memory: the interpreter adapts bytecode, and remembers where it has found
    attributes. Processes of calls that had to do this would copy those pages, each of them again. No module of the
    skill may be loaded, as it could notice. Output must go to /dev/null; stdin and variables are restored.
    """
    stdin = sys.stdin
    null = os.dup(0)
    near, far = _socket.socketpair()
    flags = memoryview(bytearray(NAMES_OFFSET))
    flags[PROTECTED] = 1
    call = CallProcess(server, near, flags, -1)
    line = _REHEARSED_VARIABLE + b"=\0"
    size = _CALL.size + len(line) + len(_REHEARSED_INPUT)
    code = compile(_REHEARSED_SCRIPT, "<openskills>", "exec", dont_inherit=True)
    for _ in range(_REHEARSALS):
        far.sendall(_CALL.pack(size, 0, len(line)) + line + _REHEARSED_INPUT)
        call.close_descriptors(_NO_RANGES)
        if not call.receive_call():
            break
        with open(0, closefd=False) as sys.stdin:
            names: dict[str, Any] = {"__name__": "__main__"}
            server.end.prepare([exec, code, names])
            exec(code, names)  # noqa: S102 - ours
            server.end.clean_up()
        os.environb.pop(_REHEARSED_VARIABLE)
    sys.stdin = stdin
    os.dup2(null, 0)
    os.close(null)
    near.close()
    far.close()


def _restore_state(variables: dict[bytes, bytes], directory: str) -> None:
    """Undo a call's changes to the process, as far as they are known."""
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
    """The read end of a pipe that contains exactly this data; -1 if it does not fit."""
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
    """An unnamed file with this data, positioned at its start."""
    try:
        descriptor = os.memfd_create("stdin", 0)
    except OSError:
        # A sandbox does not allow memfd_create.
        descriptor = os.open("/tmp", os.O_TMPFILE | os.O_RDWR, 0o600)  # noqa: S108 - that of the sandbox
    while view:
        view = view[os.write(descriptor, view) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


_callbacks: Callable[[], int] = vars(atexit)["_ncallbacks"]
_YOUNG, _ALL = 0, 2


class CallExit(FastExit):
    """The end of a call's process: exits like the interpreter, but ten times faster in ordinary cases."""

    def __init__(self) -> None:
        super().__init__()
        self._modules = 0
        self._registered = 0
        self.report_imports: Callable[[list[str]], None] | None = None

    def prepare(self, work: list[Any]) -> None:
        """Remember the work; all modules except `__main__` are loaded."""
        super().prepare(work)
        self._modules = len(sys.modules)
        self._registered = _callbacks()

    def leave(self, error: SystemExit | None) -> None:
        """The script has ended. Returns if the interpreter has to exit on its own."""
        if error is not None:
            self.record_failure()
            if not (error.code is None or isinstance(error.code, int)):
                # A message to be printed.
                return
            error.__traceback__ = None
        if self.clean_up():
            os._exit(self._status)

    def clean_up(self) -> bool:
        """Do what the end of the interpreter does for an ordinary script; false if the script is not one."""
        if _running_threads() or self._has_foreign_imports() or _callbacks() != self._registered or not _flush_output():
            return False
        names: dict[str, Any] = self._work[2]
        self._work.clear()
        # This flushes unclosed files, like the end of an interpreter.
        names.clear()
        # If the collector has never run here, all objects of this call are young.
        _, middle, old = gc.get_count()
        gc.collect(_ALL if middle or old else _YOUNG)
        return _flush_output()

    def _has_foreign_imports(self) -> bool:
        """Whether modules were imported that may need cleanup; those of Python itself do not.

        New modules are reported, so that later calls can have them preloaded.
        """
        if len(sys.modules) == self._modules or self._loaded is None:
            return False
        new = [name for name in sys.modules if name not in self._loaded and name != "__main__"]
        if self.report_imports is not None:
            self.report_imports(new)
        return any(name.partition(".")[0] not in sys.stdlib_module_names for name in new)


def _flush_output() -> bool:
    """Flush stdout and stderr; false if that fails, which the interpreter then reports."""
    with Attempt() as attempt:
        sys.stdout.flush()
        sys.stderr.flush()
    return not attempt.failed
