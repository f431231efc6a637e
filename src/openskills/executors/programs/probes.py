"""Self-test of isolation: a program that tries to escape, without doing harm, and reports the results.

    python -I -S probes.py CONFIG

CONFIG is a JSON object: `host` (its pid), `port` of a listener on its loopback interface, `secrets` (files that must
not be readable), `writable` and `closed` (directories), `skills` (the directory of staged skills), `variables` (that
the environment may contain). It prints a JSON object with the finding of each probe, and imports nothing of ours.
"""

import ctypes
import errno
import io
import json
import os
import socket
import sys
from collections.abc import Callable
from typing import Any

_CLONE_NEWUSER = 0x10000000
_VSOCK = 40
_TINY = 1 << 30
_ENGINES = ("/var/run/docker.sock", "/run/docker.sock", "/run/podman/podman.sock")


def _get_error_name(error: OSError) -> str:
    return errno.errorcode.get(error.errno or 0, str(error.errno))


def _try_action(action: "Callable[..., object]", *arguments: object) -> str:
    """The name of the error that an action fails with, or `done`."""
    try:
        found = action(*arguments)
    except OSError as error:
        return _get_error_name(error)
    if isinstance(found, (socket.socket, io.IOBase)):
        found.close()
    return "done"


def _read_status(field: str) -> str:
    with open("/proc/self/status", encoding="ascii") as file:
        for line in file:
            name, _, value = line.partition(":")
            if name == field:
                return value.strip()
    return ""


def _create_file(directory: str) -> None:
    path = os.path.join(directory, ".openskills-probe")
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    os.unlink(path)


def _connect(port: int, kind: int = socket.SOCK_STREAM) -> None:
    with socket.socket(type=kind) as connection:
        connection.settimeout(2)
        connection.connect(("127.0.0.1", port))


def _create_namespace() -> str:
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWUSER):
        return errno.errorcode.get(ctypes.get_errno(), "")
    return "done"


def _find_strange_variables(known: "list[str]") -> str:
    found: set[str] = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                pairs = file.read().split(b"\0")
        except OSError:
            continue
        found |= {os.fsdecode(pair.partition(b"=")[0]) for pair in pairs if pair}
    return " ".join(sorted(found - set(known)))


def _list_descriptors() -> str:
    # The listing itself uses a descriptor, which is closed afterwards.
    found = [name for name in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{name}")]
    return " ".join(name for name in found if int(name) > 2)


def _list_creatable(directories: "list[str]") -> str:
    return " ".join(directory for directory in directories if _try_action(_create_file, directory) == "done")


def _measure_shared_memory() -> str:
    try:
        found = os.statvfs("/dev/shm")  # noqa: S108
    except OSError as error:
        return _get_error_name(error)
    return "small" if found.f_blocks * found.f_frsize < _TINY else "large"


def _is_read_only(path: str) -> bool:
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)


def _list_interfaces() -> "list[str]":
    try:
        with open("/proc/net/dev", encoding="ascii") as file:
            return [line.partition(":")[0].strip() for line in file.read().splitlines()[2:]]
    except OSError as error:
        return [_get_error_name(error)]


def probe(config: "dict[str, Any]") -> "dict[str, Any]":
    """The result of each probe, mostly as a word."""
    pids = [name for name in os.listdir("/proc") if name.isdigit()]
    capabilities = any(int(_read_status(name), 16) for name in ("CapEff", "CapPrm", "CapInh", "CapAmb"))
    return {
        "uid": str(os.getuid()),
        "capabilities": "some" if capabilities else "none",
        "new privileges": _read_status("NoNewPrivs"),
        "system call filter": _read_status("Seccomp"),
        "strange variables": _find_strange_variables(config["variables"]),
        "open descriptors": _list_descriptors(),
        "readable secrets": " ".join(path for path in config["secrets"] if _try_action(open, path, "rb") == "done"),
        "kernel settings": "writable" if os.access("/proc/sys/kernel/core_pattern", os.W_OK) else "closed",
        "loopback of the host": _try_action(_connect, config["port"]),
        "datagrams": _try_action(_connect, config["port"], socket.SOCK_DGRAM),
        "unix sockets": _try_action(socket.socket, socket.AF_UNIX, socket.SOCK_STREAM),
        "sockets of the hypervisor": _try_action(socket.socket, _VSOCK, socket.SOCK_STREAM),
        "writable places": _list_creatable(config["writable"]),
        "places to keep closed": _list_creatable(config["closed"]),
        "signals to the host": _try_action(os.kill, config["host"], 0),
        "processes": "few" if len(pids) < 8 else "many",
        "shared memory": _measure_shared_memory(),
        "interfaces": _list_interfaces(),
        "read_only": _is_read_only("/"),
        "skills_read_only": _is_read_only(config["skills"]),
        "engines": list(filter(os.path.exists, _ENGINES)),
        # Last, because it changes this process if it succeeds.
        "user namespaces": _create_namespace(),
    }


if __name__ == "__main__":
    json.dump(probe(json.loads(sys.argv[1])), sys.stdout)
