"""The first process of a container: it calls the host, and then is a keeper until the host hangs up.

It runs by itself (`python3 -I -S container_keeper.py DIRECTORY`) in an image that we did not make, so it imports
nothing of ours. In DIRECTORY, which it cannot change, are the host's socket, `keeper.py` and a filter of system calls.

    says    one line of JSON: problem (a sentence, or null); python (what `python` and `python3` are both to lead to,
            or null when they are the same already)

As process 1 it cannot be signalled from inside, and when it ends the kernel ends everything else in the container.
"""

import importlib.machinery
import importlib.util
import json
import os
import shutil
import socket
import sys
import types

SOCKET, FILTER, SUPERVISOR = "host", "filter", "keeper.py"

_MIN_VERSION = (3, 9)
_PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 4, 22, 38
_SECCOMP_MODE_FILTER = 2
_INSTRUCTION_BYTES = 8


def main(directory: str) -> None:
    """Call the host, say what this image lacks, and serve."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(os.path.join(directory, SOCKET))
    problem = _find_missing() or _install_filter(directory)
    said = {"problem": problem} if problem else {"problem": None, "python": _python()}
    connection.sendall(json.dumps(said).encode() + b"\n")
    if problem is None:
        _load_module(os.path.join(directory, SUPERVISOR)).serve(connection.detach())


def _find_missing():
    if sys.version_info < _MIN_VERSION:
        return f"its python3 is {sys.version.split()[0]}, and at least {_MIN_VERSION[0]}.{_MIN_VERSION[1]} is needed"
    if shutil.which("bash") is None:
        return "it has no bash"
    if importlib.util.find_spec("_ctypes") is None:
        return "its python3 has no ctypes; install the whole standard library"
    return None


def _python():
    """The interpreter that both names have to lead to; None when they are the same already."""
    found = {os.path.realpath(shutil.which(name) or name) for name in ("python", "python3")}
    return None if len(found) == 1 else sys.executable


def _install_filter(directory: str):
    """Hide this process and its forks from commands of the same user, and refuse what no command needs."""
    import ctypes

    class SeccompProgram(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_void_p))

    with open(os.path.join(directory, FILTER), "rb") as file:
        steps = file.read()
    buffer = ctypes.create_string_buffer(steps, len(steps))
    program = SeccompProgram(len(steps) // _INSTRUCTION_BYTES, ctypes.addressof(buffer))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    for number, what, more in (
        (_PR_SET_DUMPABLE, 0, 0),
        (_PR_SET_NO_NEW_PRIVS, 1, 0),
        (_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program)),
    ):
        if prctl(number, what, more, 0, 0):
            return f"prctl({number}) fails in it: {os.strerror(ctypes.get_errno())}"
    return None


def _load_module(path: str):
    module = types.ModuleType("keeper")
    importlib.machinery.SourceFileLoader("keeper", path).exec_module(module)
    return module


if __name__ == "__main__":
    main(sys.argv[1])
