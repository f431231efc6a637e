"""Scripts that must do the same warm as cold."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from openskills.executors.spec import TerminalSize


@dataclass(frozen=True)
class Case:
    """A script, and what it is started with. `cold`: words of the reason why it is not started warm."""

    text: str | bytes = ""
    arguments: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    stdin: bytes = b""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    argv: tuple[str, ...] = ()
    cwd: str = "."
    terminal: TerminalSize | None = None
    cold: str = ""


_CODE = "shows the code of -c" if sys.version_info >= (3, 13) else ""
"""Why code on the command line is not started warm."""


def _lines(*lines: str) -> str:
    return "\n".join(lines) + "\n"


FILES: Mapping[str, str] = {
    "sibling.py": "NAME = 'sibling'\n",
    "shadow/decimal.py": "NAME = 'not the real one'\n",
    "shadow/case.py": "import decimal; print(decimal.NAME)\n",
    "package/__init__.py": "",
    "package/__main__.py": "import sys; print('main of', __package__, sys.argv, __spec__.name, __file__)\n",
    "package/near.py": "WORD = 'near'\n",
    "package/tool.py": "import sys\nfrom .near import WORD\nprint(WORD, __name__, sys.argv, sys.path[0], __spec__)\n",
    "package/bad.py": "def f():\n    raise ValueError('in a module')\n\nf()\n",
}
"""What lies in `work` beside the script, which is `work/case.py`."""

ENDINGS: Mapping[str, Case] = {
    "prints": Case("print('hello', 'wörld')"),
    "no end of line": Case("import sys; sys.stdout.write('a'); sys.stderr.write('b')"),
    "exception": Case(_lines("def f():", "    raise ValueError('no')", "", "f()")),
    "chained exception": Case(
        _lines("try:", "    1 / 0", "except ZeroDivisionError as e:", "    raise KeyError('x') from e")
    ),
    "exception in context": Case(_lines("try:", "    {}['a']", "except KeyError:", "    int('b')")),
    "exception group": Case("raise ExceptionGroup('two', [ValueError(1), TypeError(2)])"),
    "notes": Case("e = ValueError('x'); e.add_note('a note'); raise e"),
    "assertion": Case("assert 1 == 2, 'one is not two'"),
    "import error": Case("import no_such_module_here"),
    "unraisable": Case(
        _lines("class C:", "    def __del__(self): raise ValueError('in del')", "c = C()", "del c", "print('on')")
    ),
    "exit": Case("import sys; sys.exit(3)"),
    "exit none": Case("raise SystemExit"),
    "exit words": Case("import sys; print('out'); sys.exit('words')"),
    "exit float": Case("raise SystemExit(1.5)"),
    "exit true": Case("raise SystemExit(True)"),
    "exit negative": Case("raise SystemExit(-1)"),
    "exit large": Case("raise SystemExit(256 + 7)"),
    # What newer versions complain about then is a fault of their own.
    "exit huge": Case("import os; os.dup2(os.open(os.devnull, os.O_WRONLY), 2); raise SystemExit(2 ** 70)"),
    "exit at once": Case("import os; print('never seen'); os._exit(9)"),
    "exit by name": Case("exit(4)"),
    "signal": Case("import os, signal; print('lost'); os.kill(os.getpid(), signal.SIGTERM)"),
    "abort": Case("import os; os.abort()"),
    "interrupt": Case("print('x'); raise KeyboardInterrupt"),
    "interrupted": Case("import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(10)"),
    "stdout that was closed below": Case(_lines("import os", "os.close(1)", "print('x')")),
    "closed stdout": Case("import sys; sys.stdout.close()"),
    "stdout that fails": Case(
        _lines(
            "import sys",
            "class Bad:",
            "    closed = False",
            "    def write(self, s): return len(s)",
            "    def flush(self): raise OSError('full')",
            "sys.stdout = Bad()",
        )
    ),
    "full device": Case("import sys; sys.stdout = open('/dev/full', 'w'); print('x')"),
    "no stderr": Case("import sys; sys.stderr = None; 1 / 0"),
    "exit handlers": Case(
        _lines(
            "import atexit",
            "atexit.register(print, 'first')",
            "atexit.register(print, 'second')",
            "@atexit.register",
            "def bad(): raise ValueError('in a handler')",
            "raise SystemExit(5)",
        )
    ),
    "exit in an exit handler": Case(_lines("import atexit, sys", "atexit.register(sys.exit, 7)", "print('x')")),
    "logging at the end": Case(
        _lines(
            "import logging, atexit",
            "logging.basicConfig(level='INFO', format='%(name)s %(message)s')",
            "atexit.register(logging.info, 'bye')",
            "logging.getLogger('x').warning('w')",
        )
    ),
    "destructors": Case(
        _lines(
            "class C:",
            "    def __init__(self, n): self.n = n",
            "    def __del__(self): print('del', self.n)",
            "a = C('a'); b = C('b'); _p = C('private')",
            "cycle = C('cycle'); cycle.me = cycle",
            "import sibling",
            "sibling.thing = C('in a module')",
            "def f(x=C('default')): pass",
        )
    ),
    "finalizers": Case(_lines("import weakref", "class C: pass", "c = C()", "weakref.finalize(c, print, 'finalized')")),
    "excepthook": Case(
        _lines(
            "import sys, traceback",
            "def hook(kind, value, tb):",
            "    print('hook', kind, value, traceback.format_tb(tb), value.__traceback__ is tb)",
            "sys.excepthook = hook",
            "1 / 0",
        )
    ),
    "last traceback": Case(
        _lines(
            "import sys, atexit, traceback",
            "atexit.register(lambda: print(sys.last_type, traceback.format_tb(sys.last_traceback)))",
            "1 / 0",
        )
    ),
}

_SOURCES: Mapping[str, Case] = {
    "syntax error": Case("print('a')\nx = = 1\n", cold="cannot be compiled"),
    "indentation": Case("if 1:\nprint()\n", cold="cannot be compiled"),
    "compiler warning": Case("x = '\\d'\nprint(x is 'a')\n", cold="the compiler emits warnings"),
    "null bytes": Case(b"print(1)\n\0\n", cold="not a text file"),
    "missing file": Case(argv=("python", "work/none.py"), cold="No such file"),
    "directory": Case(argv=("python", "work"), cold="Is a directory"),
    "latin-1": Case("# coding: latin-1\nprint(ascii('é'))\n".encode("latin-1")),
    "not utf-8": Case(b"print('\xff')\n", cold="cannot be compiled"),
    "byte order mark": Case(b"\xef\xbb\xbfprint('x')\n"),
    "empty": Case(""),
    "arguments": Case("import sys; print(sys.argv, sys.orig_argv[1:])", ("a", "-b", "--", "ü")),
    "main": Case(
        _lines(
            "print(list(globals()))",
            "print(__name__, __file__, __spec__, __package__, __doc__, __builtins__)",
            "print(type(__loader__), __loader__.path, __loader__.name, __cached__, __annotations__)",
            "import sys",
            "print(sys.modules['__main__'].__dict__ is globals(), __import__('__main__').__file__)",
        )
    ),
    "doc and annotations": Case(_lines("'''Words.'''", "x: int = 1", "print(__doc__, __annotations__)")),
    "path": Case("import sys; print(sys.path, sys.executable, sys.prefix, sys.flags, sys.warnoptions)"),
    "script by a dot": Case(
        "print(__file__); import sys; print(sys.path[0], sys.argv)",
        argv=("python", "./work/case.py"),
        cold="versions differ" if sys.version_info >= (3, 12) else "",
    ),
    "script by two dots": Case("print(__file__)", argv=("python", "../work/case.py"), cwd="work"),
    "script from its directory": Case(
        "print(__file__, __import__('sys').argv)", argv=("python", "case.py"), cwd="work"
    ),
    "siblings": Case("import sibling; print(sibling.NAME, sibling.__file__)"),
    "sibling of the same name": Case(argv=("python", "work/shadow/case.py"), cold="decimal.py in its directory"),
    "module": Case(argv=("python", "-m", "package.tool", "a", "-x"), cwd="work"),
    "package": Case(argv=("python", "-m", "package"), cwd="work"),
    "module that raises": Case(argv=("python", "-m", "package.bad"), cwd="work"),
    "no module": Case(argv=("python", "-m", "no_such_module_at_all")),
    "no module in a package": Case(argv=("python", "-m", "package.none"), cwd="work"),
    "standard module": Case(argv=("python", "-m", "json.tool"), stdin=b'{"a": 1}'),
    "code": Case(
        argv=("python", "-c", "import sys; print(sys.argv, sys.path[0] == '', list(globals()))", "x", "-y"), cold=_CODE
    ),
    "code that raises": Case(argv=("python", "-c", "def f():\n  1/0\nf()"), cold=_CODE),
    "code with a fault": Case(argv=("python", "-c", "1 +"), cold=_CODE or "cannot be compiled"),
    "option u": Case(
        "import sys; print(sys.stdout.write_through, type(sys.stdout.buffer), sys.flags)", options=("-u",)
    ),
    "option B": Case("import sys; print(sys.dont_write_bytecode, sys.flags)", options=("-B",)),
    "option O": Case("assert False\nprint(__debug__)", options=("-O",)),
    "option I": Case("import sys; print(sys.path, sys.flags.isolated); import sibling", options=("-I",)),
    "option W": Case("import warnings; warnings.warn('w', DeprecationWarning)", options=("-W", "error")),
    "option X": Case("import sys; print(sys._xoptions)", options=("-X", "dev"), cold="unusual option"),
    "version": Case(argv=("python", "-V"), cold="unusual option"),
    "program from stdin": Case(argv=("python", "-"), stdin=b"print('from stdin')", cold="from stdin"),
    "another program": Case(argv=("bash", "-c", "echo $0"), cold="does not start python"),
}

_STREAMS: Mapping[str, Case] = {
    "bytes out": Case("import sys; sys.stdout.buffer.write(bytes(range(256)))"),
    "surrogates": Case("import sys; print('\\udcff'); print('\\ud800')"),
    "reads stdin": Case("import sys; print(sys.stdin.read().upper())", stdin="zeile\r\nzwei ü".encode()),
    "reads bytes": Case("import sys; print(sys.stdin.buffer.read())", stdin=b"\xff\r\n\0"),
    "input": Case("print([input('a? '), input('b? ')])", stdin=b"one\ntwo\n"),
    "input at the end": Case("input('more? ')"),
    "streams": Case(
        _lines(
            "import sys",
            "for s in (sys.stdin, sys.stdout, sys.stderr, sys.__stdout__):",
            "    print(s.name, s.mode, s.encoding, s.errors, s.line_buffering, s.write_through, s.fileno())",
            "    print(type(s.buffer).__name__, s.buffer.name, s.isatty(), s.closed)",
            "print(sys.stdout is sys.__stdout__)",
        )
    ),
    "buffers": Case(_lines("import os", "for i in range(5000): print(i)", "os._exit(0)")),
    "terminal": Case(  # where the server has a session of its own; elsewhere it starts cold
        _lines(
            "import os, sys",
            "print(sys.stdin.isatty(), sys.stdout.line_buffering, os.get_terminal_size())",
            "print(os.ttyname(0) == os.ttyname(1), os.tcgetpgrp(0) == os.getpid(), open('/dev/tty').isatty())",
            "print(repr(input('name? ')))",
        ),
        terminal=TerminalSize(30, 99),
        stdin=b"Bob\n",
    ),
    "encoding by a variable": Case("import sys; print('ü', sys.stdout.encoding)", env={"PYTHONIOENCODING": "latin-1"}),
    "unbuffered by a variable": Case("import sys; print(sys.stdout.write_through)", env={"PYTHONUNBUFFERED": "1"}),
}

_SURROUNDINGS: Mapping[str, Case] = {
    "hash seed": Case("print(hash('a'), {'a', 'b', 'c', 'd'})", env={"PYTHONHASHSEED": "7"}),
    "unusual variable": Case("print(1)", env={"PYTHONVERBOSE": ""}, cold="PYTHONVERBOSE is set"),
    "variables": Case(
        _lines(
            "import os, subprocess",
            "print(sorted(os.environ.items()))",
            "print(sorted(subprocess.run(['env'], capture_output=True, text=True).stdout.split('\\n')))",
        ),
        env={"WORD": "a=b\nc", "UMLAUT": "ü"},
    ),
    "time zone": Case("import time; print(time.tzname, time.localtime(0).tm_hour)", env={"TZ": "Asia/Tokyo"}),
    "locale": Case("import locale, sys; print(locale.getlocale(), sys.getfilesystemencoding())", env={"LC_ALL": "C"}),
    "surroundings": Case(
        "import os; print(os.getcwd(), oct(os.umask(0)), os.getsid(0) == os.getpid(), os.getpgrp() == os.getpid())"
    ),
    "signals": Case(
        _lines(
            "import signal",
            "for n in sorted(signal.valid_signals()): print(n, signal.getsignal(n))",
            "print(signal.pthread_sigmask(signal.SIG_BLOCK, ()), signal.set_wakeup_fd(-1))",
        )
    ),
    "signals of a child": Case("import subprocess; subprocess.run(['grep', '^Sig[^Q]', '/proc/self/status'])"),
    "descriptors": Case("import os; print(sorted(os.listdir('/proc/self/fd')))"),
    "limits": Case("import resource as r; print([r.getrlimit(getattr(r, n)) for n in dir(r) if n[:7] == 'RLIMIT_'])"),
    "memory can be looked at": Case("print(open('/proc/self/maps').read(1) != '', open('/proc/self/environ').read(0))"),
    "threads": Case(
        _lines(
            "import threading",
            "print(threading.main_thread().name, threading.active_count())",
            "print(threading.current_thread() is threading.main_thread(), threading.main_thread().is_alive())",
            "print(threading.main_thread().native_id == threading.get_native_id())",
            "def f():",
            "    threading.main_thread().join(); print('thread done')",
            "threading.Thread(target=f).start()",
            "print('main done')",
        )
    ),
    "thread that raises": Case(
        _lines("import threading", "t = threading.Thread(target=lambda: 1 / 0, name='T')", "t.start(); t.join()")
    ),
    "daemon threads": Case(
        _lines(
            "import threading, time", "threading.Thread(target=time.sleep, args=(99,), daemon=True).start()", "print(1)"
        )
    ),
    "main thread gets signals": Case(
        _lines(
            "import os, signal",
            "signal.signal(signal.SIGUSR1, lambda n, f: print('got', n))",
            "os.kill(os.getpid(), signal.SIGUSR1)",
        )
    ),
    "warnings": Case(
        _lines(
            "import warnings",
            "warnings.warn('plain')",
            "warnings.warn('old', DeprecationWarning)",
            "def f(): warnings.warn('from f', stacklevel=2)",
            "f(); f()",
            "open(__file__)",
        )
    ),
    "fork": Case(
        _lines(
            "import os, sys",
            "pid = os.fork()",
            "if not pid:",
            "    print('child'); sys.exit(6)",
            "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))",
        )
    ),
    "subprocess": Case(
        _lines(
            "import subprocess, sys",
            "code = 'import sys; print(sys.argv, sys.flags)'",
            "print(subprocess.run([sys.executable, '-c', code, 'x'], capture_output=True))",
        )
    ),
    "multiprocessing by fork": Case(
        _lines(
            "import multiprocessing as m",
            "def f(x): return x * x",
            "if __name__ == '__main__':",
            "    with m.get_context('fork').Pool(2) as p: print(p.map(f, range(5)))",
        )
    ),
    "multiprocessing by spawn": Case(
        _lines(
            "import multiprocessing as m",
            "print('is main:', __name__ == '__main__')",
            "def f(x): print('child', x, flush=True)",
            "if __name__ == '__main__':",
            "    p = m.get_context('spawn').Process(target=f, args=(1,))",
            "    p.start(); p.join(); print(p.exitcode)",
        )
    ),
    "futures": Case(
        _lines(
            "from concurrent.futures import ThreadPoolExecutor as T",
            "with T(2) as t: print(list(t.map(str.upper, 'abc')))",
        )
    ),
    "asyncio": Case(
        _lines("import asyncio", "async def f():", "    await asyncio.sleep(0); print('awaited')", "asyncio.run(f())")
    ),
    "pickling": Case(
        _lines(
            "import pickle",
            "class C: pass",
            "print(C, type(pickle.loads(pickle.dumps(C()))) is C, b'__main__' in pickle.dumps(C()))",
        )
    ),
    "collector": Case("import gc; print(gc.isenabled(), gc.get_threshold(), gc.get_debug(), gc.callbacks, gc.garbage)"),
    "inspection": Case(_lines("import inspect", "def f(): pass", "print(inspect.getsource(f), inspect.getfile(f))")),
    "recursion": Case(
        _lines(
            "import sys; print(sys.getrecursionlimit())",
            "def f(): f()",
            "try: f()",
            "except RecursionError as e: print(e)",
        )
    ),
}

BEGINNINGS: Mapping[str, Case] = {**_SOURCES, **_STREAMS, **_SURROUNDINGS}
