"""A small program that gives up what it may do, for ever, and then becomes a command.

    python -I -S landlock_enter.py ABOUT COMMAND ARGUMENTS…

ABOUT is a JSON object: `uid` (to become, or null), `limits` ([resource, soft, hard]), `read` and `write` (paths, with
all that is below), `devices` (files to read and write), `filter` (the system call filter, in base 64), `cwd`, and
`handshake`, two descriptors: on the first it says that everything is set up, on the second it waits for the word; and
`variables`, a descriptor of a JSON object with the environment of the command: nobody else may read it.

It runs by itself, so it imports nothing of ours. When anything fails it says so and ends with 125, and nothing was run.
"""

import base64
import ctypes
import json
import os
import resource
import struct
import sys
from typing import Any

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION = 1
_PATH_BENEATH = 1
_SET_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2
MIN_VERSION = 3
"""Before it, files could be cut short wherever this user may write."""

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIRECTORY = 1, 2, 4, 8
_TRUNCATE, _DEVICE_CONTROL = 1 << 14, 1 << 15
_READ = _EXECUTE | _READ_FILE | _READ_DIRECTORY
_NO_CONNECTIONS = 3  # TCP, both to bind and to connect
_SCOPED = 3  # abstract sockets and signals
_NOT_SET_UP, _NOT_EXECUTABLE, _NOT_FOUND = 125, 126, 127

_libc = ctypes.CDLL(None, use_errno=True)


class _SeccompFilter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_char_p)]


def _check_result(result: int, what: str) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")
    return result


def get_version() -> int:
    """Which version of Landlock the kernel has; 0 for none."""
    return max(0, _libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _ASK_VERSION))


def get_rights(abi: int) -> int:
    """All rights on files that this version knows; what is not granted somewhere is denied everywhere."""
    return (1 << (13 if abi < 2 else 14 if abi < 3 else 15 if abi < 5 else 16)) - 1


def _restrict(read: "list[str]", write: "list[str]", devices: "list[str]") -> None:
    abi = get_version()
    if abi < MIN_VERSION:
        raise OSError(0, f"Landlock {MIN_VERSION} is needed (Linux 6.2), this kernel has {abi or 'none'}")
    known = get_rights(abi)
    words = (known,) if abi < 4 else (known, _NO_CONNECTIONS) if abi < 6 else (known, _NO_CONNECTIONS, _SCOPED)
    about = struct.pack(f"={len(words)}Q", *words)
    rules = _check_result(_libc.syscall(_CREATE_RULESET, about, ctypes.c_size_t(len(about)), 0), "a set of rules")
    for path in read:
        _allow(rules, path, _READ)
    for path in write:
        _allow(rules, path, known & ~_DEVICE_CONTROL)
    for path in devices:
        _allow(rules, path, (_READ_FILE | _WRITE_FILE | _TRUNCATE | _DEVICE_CONTROL) & known)
    _check_result(_libc.syscall(_RESTRICT_SELF, rules, 0), "the rules")
    os.close(rules)


def _allow(rules: int, path: str, allowed: int) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not os.path.isdir(path):
            allowed &= _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _DEVICE_CONTROL
        rule = struct.pack("=Qi", allowed, opened)
        _check_result(_libc.syscall(_ADD_RULE, rules, _PATH_BENEATH, rule, 0), path)
    finally:
        os.close(opened)


def _switch_user(uid: int) -> None:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def _close_above(last: int) -> None:
    # What is open already is not asked about again: a directory that somebody forgot would be a way out.
    numbers = [int(name) for name in os.listdir("/proc/self/fd")]
    os.closerange(last + 1, max(numbers) + 1)


def _set_limits(limits: "list[tuple[int, int, int]]") -> None:
    for kind, soft, hard in limits:
        _, most = resource.getrlimit(kind)
        if most != resource.RLIM_INFINITY:
            soft, hard = min(soft, most), min(hard, most)  # noqa: PLW2901 - never above what we have
        resource.setrlimit(kind, (soft, hard))


def _install_filter(steps: bytes) -> None:
    program = _SeccompFilter(len(steps) // 8, steps)
    _check_result(_libc.prctl(_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0), "the system call filter")


def enter(about: "dict[str, Any]") -> None:
    """Give everything up that is not granted; raises OSError when it cannot be."""
    if about["uid"] is not None:
        _switch_user(about["uid"])
    os.chdir(about["cwd"])
    _close_above(max(about["handshake"]))
    _set_limits(about["limits"])
    _check_result(_libc.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "no new privileges")
    _restrict(about["read"], about["write"], about["devices"])
    _install_filter(base64.b64decode(about["filter"]))


def _wait_for_go(ready: int, go: int) -> None:
    os.write(ready, b"\n")
    os.close(ready)
    if not os.read(go, 1):
        raise OSError(0, "nobody is there any more")
    os.close(go)


def _main(about: "dict[str, Any]", argv: "list[str]") -> int:
    try:
        with open(about["variables"], "rb") as file:
            env = json.load(file)
        enter(about)
        _wait_for_go(*about["handshake"])
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{error.strerror if isinstance(error, OSError) else error}\n")
        return _NOT_SET_UP
    try:
        os.execvpe(argv[0], argv, env)  # noqa: S606 - the command
    except FileNotFoundError:
        sys.stderr.write(f"{argv[0]}: command not found\n")
        return _NOT_FOUND
    except OSError as error:
        sys.stderr.write(f"{argv[0]}: {error.strerror}\n")
        return _NOT_EXECUTABLE


if __name__ == "__main__":
    sys.exit(_main(json.loads(sys.argv[1]), sys.argv[2:]))
