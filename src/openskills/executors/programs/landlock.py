"""Standalone program that restricts itself with Landlock and a system call filter, and then becomes a command.

    python -I -S landlock.py CONFIG COMMAND ARGUMENTS…

CONFIG is a JSON object: `uid` (to switch to, or null), `limits` ([resource, soft, hard]), `read` and `write` (paths,
with everything below), `tree` (a directory to read, except below `private`, a list of names in which `*` is any name),
`devices` (files to read and write), `filter` (the system call filter, hexadecimal), `cwd`,
`handshake` (two descriptors: on the first it reports that everything is set up, on the second it waits for permission),
and `variables` (a descriptor of a JSON object with the command's environment, which may be secret).

It imports nothing of ours, and no `base64` and `typing`, because it starts with every command. If anything fails, it
reports that and exits with 125 without running the command.
"""

import ctypes
import json
import os
import resource
import stat
import struct
import sys
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION = 1
_PATH_BENEATH = 1
_SET_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2
MIN_VERSION = 3
"""Older versions cannot prevent truncation of files."""

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIRECTORY = 1, 2, 4, 8
_TRUNCATE, _DEVICE_CONTROL = 1 << 14, 1 << 15
_READ = _EXECUTE | _READ_FILE | _READ_DIRECTORY
_NO_CONNECTIONS = 3  # TCP, both to bind and to connect
_SCOPED = 3  # abstract sockets and signals
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NOT_SET_UP, _NOT_EXECUTABLE, _NOT_FOUND = 125, 126, 127

_libc = ctypes.CDLL(None, use_errno=True)


class _SeccompFilter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_char_p)]


def _check_result(result: int, what: str) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")
    return result


def get_version() -> int:
    """The Landlock version of the kernel; 0 if it is not available."""
    return max(0, _libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _ASK_VERSION))


def get_rights(abi: int) -> int:
    """All file rights that this version knows; rights that are not granted somewhere are denied."""
    return (1 << (13 if abi < 2 else 14 if abi < 3 else 15 if abi < 5 else 16)) - 1


def _restrict(read: "list[str]", write: "list[str]", devices: "list[str]", tree: str, private: "list[str]") -> None:
    abi = get_version()
    if abi < MIN_VERSION:
        raise OSError(0, f"Landlock {MIN_VERSION} (Linux 6.2) is required, this kernel has {abi or 'none'}")
    known = get_rights(abi)
    words = (known,) if abi < 4 else (known, _NO_CONNECTIONS) if abi < 6 else (known, _NO_CONNECTIONS, _SCOPED)
    attributes = struct.pack(f"={len(words)}Q", *words)
    rules = _check_result(
        _libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0), "Landlock ruleset"
    )
    for path in read:
        _allow(rules, path, _READ)
    # Only names, which the command may list everywhere in its workspace.
    _allow(rules, tree, _READ_DIRECTORY)
    _allow_below(rules, os.open(tree, _DIRECTORY), private)
    for path in write:
        _allow(rules, path, known & ~_DEVICE_CONTROL)
    for path in devices:
        _allow(rules, path, (_READ_FILE | _WRITE_FILE | _TRUNCATE | _DEVICE_CONTROL) & known)
    _check_result(_libc.syscall(_RESTRICT_SELF, rules, 0), "Landlock rules")
    os.close(rules)


def _allow(rules: int, path: str, allowed: int) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        _add_rule(rules, opened, allowed, path)
    finally:
        os.close(opened)


def _allow_below(rules: int, directory: int, private: "list[str]") -> None:
    """Allow reading what is in a directory, except below `private`, a path in which `*` is any name; closes it.

    Follows no links, which commands can create anywhere in their workspace, also while this runs.
    """
    try:
        for name in os.listdir(directory):
            with suppress(OSError):
                opened = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
                try:
                    mode = os.fstat(opened).st_mode
                    if private[0] not in ("*", name) or not stat.S_ISDIR(mode):
                        if not stat.S_ISLNK(mode):
                            _add_rule(rules, opened, _READ, name)
                    elif private[1:]:
                        _allow_below(rules, os.open(name, _DIRECTORY, dir_fd=directory), private[1:])
                finally:
                    os.close(opened)
    finally:
        os.close(directory)


def _add_rule(rules: int, opened: int, allowed: int, what: str) -> None:
    if not stat.S_ISDIR(os.fstat(opened).st_mode):
        allowed &= _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _DEVICE_CONTROL
    rule = struct.pack("=Qi", allowed, opened)
    _check_result(_libc.syscall(_ADD_RULE, rules, _PATH_BENEATH, rule, 0), what)


def enter(config: "dict[str, Any]") -> None:
    """Drop all rights that are not granted; raises OSError if that fails."""
    uid = config["uid"]
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    os.chdir(config["cwd"])
    # Landlock does not restrict open descriptors: an inherited directory would be a way out.
    os.closerange(max(config["handshake"]) + 1, max(map(int, os.listdir("/proc/self/fd"))) + 1)
    for kind, soft, hard in config["limits"]:
        _, current = resource.getrlimit(kind)
        unlimited = current == resource.RLIM_INFINITY
        resource.setrlimit(kind, (soft, hard) if unlimited else (min(soft, current), min(hard, current)))
    _check_result(_libc.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "no new privileges")
    _restrict(config["read"], config["write"], config["devices"], config["tree"], config["private"])
    steps = bytes.fromhex(config["filter"])
    program = _SeccompFilter(len(steps) // 8, steps)
    _check_result(_libc.prctl(_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0), "system call filter")


def _wait_for_go(ready: int, go: int) -> None:
    os.write(ready, b"\n")
    os.close(ready)
    if not os.read(go, 1):
        raise OSError(0, "the supervisor is gone")
    os.close(go)


def _main(config: "dict[str, Any]", argv: "list[str]") -> int:
    try:
        with open(config["variables"], "rb") as file:
            env = json.load(file)
        enter(config)
        _wait_for_go(*config["handshake"])
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
