"""The first process of a container: connects to the host, and is a supervisor until the host disconnects.

It runs standalone (`python3 -I -S container.py DIRECTORY`) in a foreign image, so it imports nothing of ours. The
read-only DIRECTORY contains the host's socket, the supervisor program and a system call filter.

    sends   one line of JSON: problem (a sentence, or null); python (the interpreter that both `python` and `python3`
            have to link to, or null if they are the same already)

As process 1 it cannot be signalled from inside, and when it exits the kernel kills everything else in the container.
"""

import importlib.machinery
import importlib.util
import json
import os
import shutil
import socket
import sys
import types

SOCKET, FILTER, SUPERVISOR = "host", "filter", "supervisor.py"

_MIN_VERSION = (3, 9)
_PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 4, 22, 38
_SECCOMP_MODE_FILTER = 2
_INSTRUCTION_BYTES = 8


def main(directory: str) -> None:
    """Connect to the host, report what the image lacks, and serve."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(os.path.join(directory, SOCKET))
    problem = _find_missing() or _install_filter(directory)
    found = {os.path.realpath(shutil.which(name) or name) for name in ("python", "python3")}
    python = {} if problem else {"python": None if len(found) == 1 else sys.executable}
    connection.sendall(json.dumps({"problem": problem, **python}).encode() + b"\n")
    if problem is None:
        module = types.ModuleType("supervisor")
        importlib.machinery.SourceFileLoader("supervisor", os.path.join(directory, SUPERVISOR)).exec_module(module)
        module.serve(connection.detach())


def _find_missing():
    if sys.version_info < _MIN_VERSION:
        return f"its python3 is {sys.version.split()[0]}, but {_MIN_VERSION[0]}.{_MIN_VERSION[1]} or newer is needed"
    if shutil.which("bash") is None:
        return "it has no bash"
    if importlib.util.find_spec("_ctypes") is None:
        return "its python3 has no ctypes; install the whole standard library"
    return None


def _install_filter(directory: str):
    """Protect this process from commands of the same user, and block system calls that commands do not need."""
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
            return f"prctl({number}) failed: {os.strerror(ctypes.get_errno())}"
    return None


if __name__ == "__main__":
    main(sys.argv[1])
