"""What both fork servers need: forks, their descendants, and an exit that does not touch what was loaded before.

Part of the programs in `forkserver.py` and `zygote.py`: it runs in the skill's interpreter, so it imports nothing of
ours.
"""

from __future__ import annotations

import _thread
import atexit
import ctypes
import gc
import os
import signal
import sys
import time
import types
import warnings
import weakref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container
    from typing import Any


_PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 4, 36
_KILL_TIMEOUT = 1.0
# The call does not wait, so the lock of the interpreter is kept.
_prctl = ctypes.PyDLL(None).prctl
_ZERO, _ONE = ctypes.c_ulong(0), ctypes.c_ulong(1)


def adopt_orphans() -> None:
    """Become the parent of descendants whose parents end."""
    _prctl(_PR_SET_CHILD_SUBREAPER, _ONE, _ZERO, _ZERO, _ZERO)


def set_protection(on: bool) -> None:
    """Keep processes of the same user from reading the memory of this one; forks inherit it.

    It is set around each fork, because setting it in the new process takes five times as long.
    """
    _prctl(_PR_SET_DUMPABLE, _ZERO if on else _ONE, _ZERO, _ZERO, _ZERO)


if sys.version_info < (3, 12):
    quiet_fork = os.fork
else:

    def quiet_fork() -> int:
        """Fork without warnings about threads of libraries (BLAS), which handle forks; Python has no other threads."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            return os.fork()


def freeze_memory() -> None:
    """Prepare the memory of this process for forks, so that they copy as little of it as possible."""
    gc.collect()
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):
        # Give free memory back to the system: each page costs time in each fork. Other C libraries than GNU's do not
        # have this function.
        library.malloc_trim(0)
    # Keep the collector from touching every object, which would copy every page into each fork.
    gc.freeze()


def list_children(pid: int) -> list[int]:
    """The children of a process; none if it is gone."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb", buffering=0) as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def kill_children(spared: Container[int]) -> bool:
    """Kill and reap all children except `spared`, including adopted ones; false if some remain."""
    deadline = time.monotonic() + _KILL_TIMEOUT
    while True:
        found = [pid for pid in list_children(os.getpid()) if pid not in spared]
        if not found:
            return True
        for act, argument in ((os.kill, signal.SIGKILL), (os.waitpid, os.WNOHANG)):
            for pid in found:
                try:
                    act(pid, argument)
                except (ProcessLookupError, ChildProcessError, PermissionError):
                    continue
        if time.monotonic() > deadline:
            return False


def on_child_exit(*_: object) -> None:
    """Handle SIGCHLD: the wakeup pipe does the work; the signal must only not be ignored."""


def read_stamp(path: str) -> tuple[int, ...]:
    """What changes when a file is changed or replaced; empty without a file."""
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_ino, found.st_size


def is_standard(file: str) -> bool:
    """Whether a module's file belongs to the standard library."""
    return file.startswith(os.path.dirname(os.__file__)) and "-packages" not in file


_FROM_SIGNAL = 128
_UNSET_AT_EXIT = (
    *("path", "argv", "ps1", "ps2", "last_type", "last_value", "last_traceback", "last_exc"),
    *("path_hooks", "path_importer_cache", "meta_path", "__interactivehook__"),
)
_other_threads: Callable[[], int] = vars(_thread)["_count"]


class FastExit:
    """The last step when a run ends."""

    def __init__(self) -> None:
        self._loaded: frozenset[str] | None = None
        self._work: list[Any] = []
        self._status = 0
        # Registered first, so called last, after the callbacks of the command and its modules.
        atexit.register(self._exit_fast)

    def prepare(self, work: list[Any]) -> None:
        """Remember the work of this run; all modules except `__main__` are loaded."""
        self._work = work
        self._loaded = frozenset(sys.modules) - {"__main__"}

    def record_failure(self) -> None:
        """Record the exception of the command, and remove our frame from its traceback."""
        error = sys.exc_info()[1]
        if error is None:
            return
        if error.__traceback__ is not None:
            error.__traceback__ = error.__traceback__.tb_next
        self._status = _get_exit_status(error)

    def _exit_fast(self) -> None:
        """Called last when the interpreter exits: clean up the command's modules only, and exit.

        A full cleanup would touch, and so copy, all memory that was loaded before. In unusual cases this returns, and
        the interpreter exits on its own.
        """
        if self._loaded is None or _other_threads() or not _flush_streams():
            return
        self._work.clear()
        gc.collect()
        _clear_modules([name for name in sys.modules if name not in self._loaded])
        if not _flush_streams():
            return
        ctypes.CDLL(None).fflush(None)
        if self._status == _FROM_SIGNAL + signal.SIGINT:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        os._exit(self._status)


def _get_exit_status(error: BaseException) -> int:
    if isinstance(error, KeyboardInterrupt):
        return _FROM_SIGNAL + signal.SIGINT
    if not isinstance(error, SystemExit):
        return 1
    code = 0 if error.code is None else error.code
    if not isinstance(code, int):
        return 1
    return int(code) & 0xFF if -(2**63) <= code < 2**63 else 0xFF


class Attempt:
    """A block that may fail in any way, because it runs code of modules and commands."""

    failed, message = False, ""

    def __enter__(self) -> Attempt:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: object) -> bool:
        if kind is not None:
            self.failed, self.message = True, f"{kind.__name__}: {error}"
        return True


def _flush_streams() -> bool:
    """Flush stdout and stderr; false if that fails, which the interpreter then reports."""
    with Attempt() as attempt:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not stream.closed:
                stream.flush()
    return not attempt.failed


def _clear_modules(names: list[str]) -> None:
    """Clear these modules like the interpreter at its end, in the same order."""
    for name in _UNSET_AT_EXIT:
        if hasattr(sys, name):
            setattr(sys, name, None)
    for name in ("stdin", "stdout", "stderr"):
        setattr(sys, name, getattr(sys, f"__{name}__"))
    taken: list[object] = [sys.modules.pop(name) for name in names]
    # A command may have put any object there.
    modules = [weakref.ref(module) for module in taken if isinstance(module, types.ModuleType)]
    taken.clear()
    gc.collect()
    for reference in reversed(modules):
        module = reference()
        if module is not None:
            namespace = vars(module)
            for private in (True, False):
                for name in list(namespace):
                    if (name[:1] == "_" and name[1:2] != "_") is private and name != "__builtins__":
                        namespace[name] = None
    gc.collect()
