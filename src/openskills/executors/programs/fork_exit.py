"""Ends a forked interpreter as its own end would, without touching everything that was loaded before the fork.

A part of `forkserver.py`: it runs in the interpreter of a skill, so it imports nothing of ours.
"""

from __future__ import annotations

import _thread
import atexit
import ctypes
import gc
import os
import signal
import sys
import types
import weakref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


_FROM_SIGNAL = 128
_UNSET_AT_EXIT = (
    *("path", "argv", "ps1", "ps2", "last_type", "last_value", "last_traceback", "last_exc"),
    *("path_hooks", "path_importer_cache", "meta_path", "__interactivehook__"),
)
_other_threads: Callable[[], int] = vars(_thread)["_count"]


class FastExit:
    """What is done last when a run ends."""

    def __init__(self) -> None:
        self._loaded: frozenset[str] | None = None
        self._work: list[Any] = []
        self._status = 0
        # What is registered first is called last, after everything that a command or its modules register.
        atexit.register(self._exit_fast)

    def prepare(self, work: list[Any]) -> None:
        """From now on this process is a run, and does this work; all modules but the main one were there before."""
        self._work = work
        self._loaded = frozenset(sys.modules) - {"__main__"}

    def record_failure(self) -> None:
        """The command ended with an exception, which the interpreter is about to report: without our frame."""
        error = sys.exc_info()[1]
        if error is None:
            return
        if error.__traceback__ is not None:
            error.__traceback__ = error.__traceback__.tb_next
        self._status = _get_exit_status(error)

    def _exit_fast(self) -> None:
        """Called last when the interpreter ends: do what it would do to the command's modules, and leave out the rest.

        Taking down everything that was loaded before would touch, and so copy, all of it. When something is unusual,
        this does nothing and the interpreter goes its own way.
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
    code = error.code
    if code is None:
        return 0
    if not isinstance(code, int):
        return 1
    return int(code) & 0xFF if -(2**63) <= code < 2**63 else 0xFF


class Attempt:
    """A block that may fail in any way: it does what modules and commands want."""

    failed, message = False, ""

    def __enter__(self) -> Attempt:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: object) -> bool:
        if kind is not None:
            self.failed, self.message = True, f"{kind.__name__}: {error}"
        return True


def _flush_streams() -> bool:
    """Whether everything that was printed is written; when not, the interpreter is to find out and complain."""
    with Attempt() as attempt:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not stream.closed:
                stream.flush()
    return not attempt.failed


def _clear_modules(names: list[str]) -> None:
    """What the interpreter does to modules at its end, in its order, for these only."""
    for name in _UNSET_AT_EXIT:
        if hasattr(sys, name):
            setattr(sys, name, None)
    for name in ("stdin", "stdout", "stderr"):
        setattr(sys, name, getattr(sys, f"__{name}__"))
    taken: list[object] = [sys.modules.pop(name) for name in names]
    # A command may have put anything there.
    modules = [weakref.ref(module) for module in taken if isinstance(module, types.ModuleType)]
    taken.clear()
    gc.collect()
    for reference in reversed(modules):
        module = reference()
        if module is not None:
            _clear_namespace(vars(module))
    gc.collect()


def _clear_namespace(names: dict[str, Any]) -> None:
    for private in (True, False):
        for name in list(names):
            if (name[:1] == "_" and name[1:2] != "_") is private and name != "__builtins__":
                names[name] = None
