"""Makes a forked interpreter look as if it had just been started with a command line.

A part of `forkserver.py`: it runs in the interpreter of a skill, so it imports nothing of ours. The interpreter was
started with the same options and the same variables that matter to it, and forked with its main thread only. What
remains different:

- The stack has one more frame at its bottom. Tracebacks do not show it, `sys._getframe` does.
- `sys.modules` has more modules than a cold start. Strings hash alike in all runs of one server.
- `/proc/self/cmdline` is that of the server. Objects that were loaded before are frozen for the collector.
"""

from __future__ import annotations

import ctypes
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
    from openskills.executors.programs.fork_exit import Attempt, FastExit


_MAX_SOURCE = 4 * 1024 * 1024
_PR_SET_DUMPABLE = 4
_TIOCSCTTY = 0x540E
_STDERR = 2
_SUFFIXES = (".py", ".pyc", *EXTENSION_SUFFIXES)


class ColdStartRequired(Exception):
    """A cold start would do something else."""


class ColdStart:
    """The interpreter as it was when it came up, in this process and in all that are forked from it."""

    def __init__(self, first_modules: frozenset[str], options: int) -> None:
        self._end = FastExit()
        self._first_modules = first_modules
        self._options = options
        # Borrowed by the interpreter while it executes us.
        self._first_main = sys.modules["__main__"]
        self._names = {name: value for name, value in vars(self._first_main).items() if name.startswith("__")}
        self._signals = {number: signal.getsignal(number) for number in signal.valid_signals()}
        # How this process was started is how commands are started here.
        self._variables = dict(os.environ)
        self.leads_session = os.getsid(0) == os.getpid()
        self._terminal: int | None = None
        self._stamps: dict[str, tuple[int, ...]] = {}
        self._tops: set[str] = set()

    def load(self, preload: tuple[str, ...]) -> str:
        """Import modules, and remember what they came from; returns why no command can start with them, if so."""
        fault = _import_modules(preload)
        files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
        watched = {path for path in sys.path if os.path.isabs(path)} | {sys.executable, f"{sys.prefix}/pyvenv.cfg"}
        for file in files:
            if file and not _is_standard(file):
                directory = os.path.dirname(file)
                # What no command can write to is replaced as a whole, if at all.
                watched.update((directory, file) if os.access(directory, os.W_OK) else (directory,))
        self._stamps = {path: _read_stamp(path) for path in watched}
        self._tops = {name.partition(".")[0] for name in sys.modules} - self._first_modules - {"__main__"}
        self._tops.difference_update(sys.builtin_module_names)
        return fault

    def describe_change(self) -> str:
        """What a cold start would load otherwise, because it is not what it was; nothing when all is as it was."""
        for path, stamp in self._stamps.items():
            if _read_stamp(path) != stamp:
                return f"{path} has changed since its modules were loaded"
        return ""

    def warm_up(self) -> None:
        """In a run that has no command yet: do what can be done, and touch what will be touched, ahead of time."""
        numpy_random: Any = sys.modules.get("numpy.random")
        if numpy_random is not None:
            numpy_random.seed()
        with open(os.devnull, "w", encoding="utf-8") as null:
            code = _compile_source("def f(a=1, *b):\n    return [a, b]\nprint(f(), file=null)\n", "<warm>")
            exec(code, {"null": null})  # noqa: S102
        gc.collect()

    def become(self, message: dict[str, Any], descriptors: list[int]) -> list[Any] | str:
        """Take the shape of a command that is to start with these descriptors; returns what it executes, or why not."""
        try:
            self._take_descriptors(message, descriptors)
            self._take_environment(message)
            work = self._take_command(message["argv"])
        except ColdStartRequired as error:
            return str(error)
        except OSError as error:
            return f"{error.strerror}: {error.filename}"
        _open_streams()
        _refresh_modules()
        self._take_signals()
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
        self._end.prepare(work)
        return work

    def begin(self) -> None:
        """Nothing can be refused any more: take the terminal, which would be hung up if this process gave it back."""
        if self._terminal is not None:
            fcntl.ioctl(self._terminal, _TIOCSCTTY, 0)

    def record_failure(self) -> None:
        """The command ended with an exception, which the interpreter is about to report."""
        self._end.record_failure()

    def _take_descriptors(self, message: dict[str, Any], descriptors: list[int]) -> None:
        if set(message["fds"]) != {"0", "1", "2"}:
            raise ColdStartRequired("it has more descriptors than three")
        places: dict[str, int] = message["fds"]
        for number, index in places.items():
            os.dup2(descriptors[index], int(number))
        for descriptor in descriptors:
            os.close(descriptor)
        self._terminal = message.get("terminal")
        if self._terminal is not None and not (self.leads_session and _has_tty_name(self._terminal)):
            raise ColdStartRequired("its terminal cannot be seen in there")

    def _take_environment(self, message: dict[str, Any]) -> None:
        os.chdir(message["cwd"])
        os.umask(message["umask"])
        os.environ.clear()
        # What neither is for this command nor was for the server, was added on the way in here.
        os.environ.update({**self._variables, **message["env"]})
        if "PWD" in self._variables:
            os.environ["PWD"] = message["cwd"]

    def _take_signals(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        for number, handler in self._signals.items():
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)

    def _take_command(self, argv: list[str]) -> list[Any]:
        form, *rest = argv[1 + self._options :]
        main = types.ModuleType("__main__")
        names = vars(main)
        names.clear()
        names.update(self._names)
        sys.modules["__main__"] = main
        sys.orig_argv[:] = argv
        if form == "-m":
            return self._prepare_module(rest)
        sys.argv[:] = argv[1 + self._options :]
        if form == "-c":
            sys.argv[1:] = rest[1:]
            return self._prepare_code(rest[0], names)
        return self._prepare_script(form, names)

    def _prepare_module(self, rest: list[str]) -> list[Any]:
        sys.argv[:] = ["-m", *rest[1:]]
        self._prepend_path(os.getcwd(), os.getcwd())
        return [runpy._run_module_as_main, rest[0]]  # type: ignore[attr-defined]  # noqa: SLF001

    def _prepare_code(self, text: str, names: dict[str, Any]) -> list[Any]:
        if sys.version_info >= (3, 13):
            raise ColdStartRequired("this version shows lines of -c in tracebacks")
        self._prepend_path("", os.getcwd())
        return [exec, _compile_source(text, "<string>"), names]

    def _prepare_script(self, path: str, names: dict[str, Any]) -> list[Any]:
        source = _read_source(path)
        if path.startswith("./") and sys.version_info >= (3, 12):
            raise ColdStartRequired("versions differ in what they make of ./")
        absolute = path if path.startswith("/") else f"{os.getcwd()}/{path}"
        directory = os.path.dirname(os.path.realpath(path))
        self._prepend_path(directory, directory)
        names["__loader__"] = SourceFileLoader("__main__", absolute)
        names["__file__"] = absolute
        names["__cached__"] = None
        return [exec, _compile_source(source, absolute), names]

    def _prepend_path(self, entry: str, directory: str) -> None:
        """Put the command's own directory first, which must not have other modules of the names that are loaded."""
        if getattr(sys.flags, "safe_path", False) or sys.flags.isolated:
            return
        for found in os.scandir(directory):
            name = found.name.partition(".")[0]
            if name in self._tops and (found.is_dir() or found.name.endswith(_SUFFIXES)):
                raise ColdStartRequired(f"{found.name} beside it has the name of a module that is loaded already")
        sys.path.insert(0, entry)


def _import_modules(preload: tuple[str, ...]) -> str:
    """Import the modules; a sentence when what that does would be missing in the runs."""
    said = os.open(os.environ.get("TMPDIR", "/tmp"), os.O_TMPFILE | os.O_RDWR, 0o600)  # noqa: S108
    for descriptor in (1, 2):
        os.dup2(said, descriptor)
    before = set(os.listdir("/proc/self/fd"))
    for name in preload:
        with Attempt() as attempt:
            # As the script itself would: some libraries warn only the one that is started.
            exec(f"import {name}", {"__name__": "__main__"})  # noqa: S102
        if attempt.failed:
            return f"{name} cannot be imported: {attempt.message}"[:500]
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    if os.fstat(said).st_size:
        return "its modules print something when they are imported"
    if threading.active_count() > 1:
        return "its modules start threads when they are imported"
    if set(os.listdir("/proc/self/fd")) != before:
        return "its modules keep files open when they are imported"
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)
    os.close(said)
    return ""


def _has_tty_name(terminal: int) -> bool:
    try:
        return bool(os.ttyname(terminal))
    except OSError:
        return False


def _is_standard(file: str) -> bool:
    below = file.startswith(os.path.dirname(os.__file__))
    return below and "site-packages" not in file and "dist-packages" not in file


def _read_stamp(path: str) -> tuple[int, ...]:
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_ino, found.st_size


def _read_source(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MAX_SOURCE or path.endswith(".pyc"):
            raise ColdStartRequired("it is no ordinary script")
        source = file.read()
    if b"\0" in source:
        raise ColdStartRequired("it is no text")
    return source


def _compile_source(source: str | bytes, filename: str) -> types.CodeType:
    """The code; what the compiler has to say about it, a cold start is to say."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            code = compile(source, filename, "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
            raise ColdStartRequired("it cannot be compiled") from None
    if said:
        raise ColdStartRequired("the compiler warns of it")
    return code


def _open_streams() -> None:
    """stdin, stdout and stderr as the interpreter opens them, for the descriptors that are there now."""
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
"""The streams of the server: a module that remembers one of them can still use it."""


def _refresh_modules() -> None:
    """What modules remember of the moment or the process in which they were loaded."""
    logging: Any = sys.modules.get("logging")
    if logging is not None:
        now = time.time() if isinstance(vars(logging)["_startTime"], float) else time.time_ns()
        vars(logging)["_startTime"] = now
    multiprocessing: Any = sys.modules.get("multiprocessing.process")
    if multiprocessing is not None:
        multiprocessing.ORIGINAL_DIR = os.getcwd()
    main: Any = threading.main_thread()
    main._set_native_id()  # noqa: SLF001
