"""Make a forked interpreter look like one that was just started with a command line.

Part of the program in `forkserver.py`: it runs in the skill's interpreter, so it imports nothing of ours. The
interpreter was started with the same options and relevant variables, and forked with its main thread only. These
differences remain:

- The stack has one more frame at its bottom. Tracebacks do not show it, `sys._getframe` does.
- `sys.modules` has more modules than a cold start. Strings hash alike in all runs of one server.
- `/proc/self/cmdline` is that of the server. Objects that were loaded before are frozen for the collector.
"""

from __future__ import annotations

import fcntl
import gc
import io
import os
import runpy
import signal
import stat
import sys
import threading
import time
import types
import warnings
from importlib.machinery import EXTENSION_SUFFIXES, SourceFileLoader
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from openskills.executors.programs.fork_exit import Attempt, FastExit, is_standard, read_stamp, set_protection


_MAX_SOURCE = 4 * 1024 * 1024
_TIOCSCTTY = 0x540E
_STDERR = 2
_SUFFIXES = (".py", ".pyc", *EXTENSION_SUFFIXES)


def _has_tty_name(terminal: int) -> bool:
    try:
        return bool(os.ttyname(terminal))
    except OSError:
        return False


class ColdStartRequired(Exception):
    """A cold start would behave differently."""


class ColdStart:
    """The initial state of the interpreter, for this process and all its forks."""

    def __init__(self, first_modules: frozenset[str], options: int) -> None:
        self._end = FastExit()
        self._first_modules = first_modules
        self._options = options
        # Keep a reference: the interpreter borrows it while it executes us.
        self._first_main = sys.modules["__main__"]
        self._names = {name: value for name, value in vars(self._first_main).items() if name.startswith("__")}
        self._signals = {number: signal.getsignal(number) for number in signal.valid_signals()}
        # Commands are started here in the same way as this process.
        self._variables = dict(os.environ)
        self.leads_session = os.getsid(0) == os.getpid()
        self._terminal: int | None = None
        self._stamps: dict[str, tuple[int, ...]] = {}
        self._tops: set[str] = set()

    def load(self, preload: tuple[str, ...]) -> str:
        """Import modules, and remember their files; returns the reason if commands cannot start with them."""
        fault = _import_modules(preload)
        files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
        watched = {path for path in sys.path if os.path.isabs(path)} | {sys.executable, f"{sys.prefix}/pyvenv.cfg"}
        for file in files:
            if file and not is_standard(file):
                directory = os.path.dirname(file)
                # Files in a read-only directory can only be replaced together with it.
                watched.update((directory, file) if os.access(directory, os.W_OK) else (directory,))
        self._stamps = {path: read_stamp(path) for path in watched}
        self._tops = {name.partition(".")[0] for name in sys.modules} - self._first_modules - {"__main__"}
        self._tops.difference_update(sys.builtin_module_names)
        return fault

    def describe_change(self) -> str:
        """The file that has changed since it was loaded, as a sentence; empty if none has."""
        for path, stamp in self._stamps.items():
            if read_stamp(path) != stamp:
                return f"{path} has changed since its modules were loaded"
        return ""

    def warm_up(self) -> None:
        """Before there is a command: initialize and touch memory ahead of time."""
        numpy_random: Any = sys.modules.get("numpy.random")
        if numpy_random is not None:
            numpy_random.seed()
        with open(os.devnull, "w", encoding="utf-8") as null:
            code = _compile_source("def f(a=1, *b):\n    return [a, b]\nprint(f(), file=null)\n", "<warm>")
            exec(code, {"null": null})  # noqa: S102
        gc.collect()

    def become(self, message: dict[str, Any], descriptors: list[int]) -> list[Any] | str:
        """Turn into the process of a command with these descriptors; returns what to execute, or why it cannot."""
        try:
            self._take_descriptors(message, descriptors)
            os.chdir(message["cwd"])
            os.umask(message["umask"])
            os.environ.clear()
            # Variables of the server that the command does not set were added on the way into the sandbox.
            os.environ.update({**self._variables, **message["env"]})
            if "PWD" in self._variables:
                os.environ["PWD"] = message["cwd"]
            work = self._take_command(message["argv"])
        except ColdStartRequired as error:
            return str(error)
        except OSError as error:
            return f"{error.strerror}: {error.filename}"
        _open_streams()
        _refresh_modules()
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        for number, handler in self._signals.items():
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)
        set_protection(False)
        self._end.prepare(work)
        return work

    def begin(self) -> None:
        """Take the terminal, now that the command will run: giving it back would hang it up."""
        if self._terminal is not None:
            fcntl.ioctl(self._terminal, _TIOCSCTTY, 0)

    def record_failure(self) -> None:
        """Record the exception of the command, which the interpreter is about to report."""
        self._end.record_failure()

    def _take_descriptors(self, message: dict[str, Any], descriptors: list[int]) -> None:
        if set(message["fds"]) != {"0", "1", "2"}:
            raise ColdStartRequired("it has more than three descriptors")
        places: dict[str, int] = message["fds"]
        for number, index in places.items():
            os.dup2(descriptors[index], int(number))
        for descriptor in descriptors:
            os.close(descriptor)
        self._terminal = message.get("terminal")
        if self._terminal is not None and not (self.leads_session and _has_tty_name(self._terminal)):
            raise ColdStartRequired("its terminal is not visible in the sandbox")

    def _take_command(self, argv: list[str]) -> list[Any]:
        form, *rest = argv[1 + self._options :]
        main = types.ModuleType("__main__")
        names = vars(main)
        names.clear()
        names.update(self._names)
        sys.modules["__main__"] = main
        sys.orig_argv[:] = argv
        if form == "-m":
            sys.argv[:] = ["-m", *rest[1:]]
            self._prepend_path(os.getcwd(), os.getcwd())
            return [runpy._run_module_as_main, rest[0]]  # type: ignore[attr-defined]  # noqa: SLF001
        sys.argv[:] = argv[1 + self._options :]
        if form == "-c":
            sys.argv[1:] = rest[1:]
            if sys.version_info >= (3, 13):
                raise ColdStartRequired("this Python version shows the code of -c in tracebacks")
            self._prepend_path("", os.getcwd())
            return [exec, _compile_source(rest[0], "<string>"), names]
        return self._prepare_script(form, names)

    def _prepare_script(self, path: str, names: dict[str, Any]) -> list[Any]:
        source = _read_source(path)
        if path.startswith("./") and sys.version_info >= (3, 12):
            raise ColdStartRequired("Python versions differ in their handling of ./")
        absolute = path if path.startswith("/") else f"{os.getcwd()}/{path}"
        directory = os.path.dirname(os.path.realpath(path))
        self._prepend_path(directory, directory)
        names["__loader__"] = SourceFileLoader("__main__", absolute)
        names["__file__"] = absolute
        names["__cached__"] = None
        return [exec, _compile_source(source, absolute), names]

    def _prepend_path(self, entry: str, directory: str) -> None:
        """Put the command's directory first, unless a file there shadows a loaded module."""
        if getattr(sys.flags, "safe_path", False) or sys.flags.isolated:
            return
        for found in os.scandir(directory):
            name = found.name.partition(".")[0]
            if name in self._tops and (found.is_dir() or found.name.endswith(_SUFFIXES)):
                raise ColdStartRequired(f"{found.name} in its directory shadows a module that is loaded already")
        sys.path.insert(0, entry)


def _import_modules(preload: tuple[str, ...]) -> str:
    """Import the modules; returns the reason if a side effect would be missing in the runs."""
    output = os.open(os.environ.get("TMPDIR", "/tmp"), os.O_TMPFILE | os.O_RDWR, 0o600)  # noqa: S108
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    before = set(os.listdir("/proc/self/fd"))
    for name in preload:
        with Attempt() as attempt:
            # As `__main__`, because some libraries warn only the main script.
            exec(f"import {name}", {"__name__": "__main__"})  # noqa: S102
        if attempt.failed:
            return f"{name} cannot be imported: {attempt.message}"[:500]
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    if os.fstat(output).st_size:
        return "its modules print something on import"
    if threading.active_count() > 1:
        return "its modules start threads on import"
    if set(os.listdir("/proc/self/fd")) != before:
        return "its modules keep files open on import"
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)
    os.close(output)
    return ""


def _read_source(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MAX_SOURCE or path.endswith(".pyc"):
            raise ColdStartRequired("not an ordinary script")
        source = file.read()
    if b"\0" in source:
        raise ColdStartRequired("not a text file")
    return source


def _compile_source(source: str | bytes, filename: str) -> types.CodeType:
    """Compile the source; errors and warnings are left to a cold start."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            code = compile(source, filename, "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
            raise ColdStartRequired("it cannot be compiled") from None
    if caught:
        raise ColdStartRequired("the compiler emits warnings")
    return code


def _open_streams() -> None:
    """Open stdin, stdout and stderr like the interpreter, for the current descriptors."""
    unbuffered = _get_main_stream("stdout").write_through
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        first = _get_main_stream(name)
        direct = unbuffered and number > 0
        buffer: Any = open(number, "wb" if number else "rb", 0 if direct else -1, closefd=False)  # noqa: SIM115
        (buffer if direct else buffer.raw).name = f"<{name}>"
        stream: Any = io.TextIOWrapper(
            buffer,
            first.encoding,
            first.errors,
            newline="\n",
            line_buffering=not unbuffered and (number == _STDERR or os.isatty(number)),
            write_through=unbuffered,
        )
        stream.mode = "w" if number else "r"
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
        _kept_alive.append(first)


def _get_main_stream(name: str) -> Any:
    return vars(sys)[f"__{name}__"]


_kept_alive: list[object] = []
"""The streams of the server, which modules may have stored."""


def _refresh_modules() -> None:
    """Update what modules remember about the time or the process in which they were loaded."""
    logging: Any = sys.modules.get("logging")
    if logging is not None:
        now = time.time() if isinstance(vars(logging)["_startTime"], float) else time.time_ns()
        vars(logging)["_startTime"] = now
    multiprocessing: Any = sys.modules.get("multiprocessing.process")
    if multiprocessing is not None:
        multiprocessing.ORIGINAL_DIR = os.getcwd()
    main: Any = threading.main_thread()
    main._set_native_id()  # noqa: SLF001
