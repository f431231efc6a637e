"""Scripts that must do the same in a warm interpreter and in a cold one, by what is special about them."""

BOTH_WAYS = {
    "prints": "print('{\"a\": 1}')",
    "no answer": "pass",
    "exit 3": "import sys; sys.exit(3)",
    "exit with a message": "import sys; sys.exit('no such thing')",
    "exit of the prompt": "exit(4)",
    "exit True": "import sys; sys.exit(True)",
    # What newer versions complain about then is a fault of their own.
    "huge exit status": "import os, sys; os.dup2(os.open(os.devnull, os.O_WRONLY), 2); sys.exit(2**70)",
    "exit inside os._exit": "import os; print('lost', end=''); os._exit(5)",
    "exception": ("def f():\n    raise ValueError('böse')\nf()"),
    "exception in a chain": ("try:\n    1/0\nexcept ZeroDivisionError as e:\n    raise KeyError('x') from e"),
    "syntax error": "def (",
    "killed": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "terminated": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "interrupted": "raise KeyboardInterrupt",
    "aborted": "import os; os.abort()",
    "at exit": ("import atexit, sys\natexit.register(print, '{\"late\": 1}')\nsys.exit(0)"),
    "at exit that fails": ("import atexit\natexit.register(lambda: 1/0)\nprint('{}')"),
    "thread that goes on": (
        "import threading, time\n"
        "def f():\n"
        "    time.sleep(.05)\n"
        "    print('{\"a\": 1}')\n"
        "threading.Thread(target=f).start()"
    ),
    "daemon thread": (
        "import threading, time\nthreading.Thread(target=time.sleep, args=(9,), daemon=True).start()\nprint('{}')"
    ),
    "object that ends late": ("class A:\n    def __del__(self):\n        print('{\"gone\": true}')\na = A()"),
    "cycle that ends late": ("class A:\n    def __del__(self):\n        print('{\"gone\": true}')\na = A(); a.b = a"),
    "main": (
        "import sys\nprint({n: type(v).__name__ for n, v in sorted(globals().items())}, sys.argv, __name__, __file__)"
    ),
    "main module": ("import sys, __main__\nprint(__main__.__dict__ is globals(), sys.modules['__main__'] is __main__)"),
    "streams": (
        "import sys\n"
        "for s in (sys.stdin, sys.stdout, sys.stderr):\n"
        "    print(s.name, s.mode, s.encoding, s.errors, s.line_buffering, s.isatty())"
    ),
    "stdin by name": "print(open('/dev/stdin').read())",
    "stdin by number": "import os; print(os.read(0, 100), os.read(0, 1))",
    "stdout by name": ("print('{\"a\":', flush=True)\nopen('/dev/stdout', 'w').write('1}')"),
    "stdout of a child": ("import subprocess\nsubprocess.run(['/bin/echo', '{\"a\": 2}'])"),
    "stderr and stdout": ("import sys\nprint('x', file=sys.stderr)\nprint('{}')"),
    "warning": ("import warnings\nwarnings.warn('careful')\nprint('{}')"),
    "not UTF-8": ("import sys\nsys.stdout.buffer.write(b'\\xff\\xfe')"),
    "variables": ("import os\nprint(sorted(os.environ), os.environ['OPENSKILL_TRACE_ID'], os.getenv('TOKEN'))"),
    "working directory": ("import os\nprint(os.getcwd(), oct(os.umask(0)))"),
    "descriptors": ("import os\nprint(sorted(int(n) for n in os.listdir('/proc/self/fd'))[:4])"),
    "signals": (
        "import signal\n"
        "print([signal.getsignal(n) for n in (signal.SIGINT, signal.SIGCHLD, signal.SIGPIPE)])\n"
        "print(signal.pthread_sigmask(0, []))"
    ),
    "limits": ("import resource as r\nprint([r.getrlimit(k) for k in (r.RLIMIT_DATA, r.RLIMIT_FSIZE, r.RLIMIT_CORE)])"),
    "session": ("import os\nprint(os.getsid(0) == os.getpid(), os.getpgrp() == os.getpid())"),
    "multiprocessing": (
        "import multiprocessing as m\n"
        "def f(x):\n"
        "    return x * x\n"
        "if __name__ == '__main__':\n"
        "    with m.get_context('fork').Pool(2) as p:\n"
        "        print(p.map(f, [1, 2, 3]))"
    ),
    "helper module": ("import beside\nprint(beside.VALUE)"),
    "closed stdout": ("import sys\nsys.stdout.close()"),
    "replaced stdout": ("import sys, io\nsys.stdout = io.StringIO()\nprint('x')"),
}
