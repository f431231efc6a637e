"""Detect and undo what a command or call leaves in a sandbox, so that the sandbox can be reused.

It runs inside the sandbox, as part of `sandbox.py` and `zygote.py`, so it imports nothing of ours. It is only used when
no process of the command or call is left.
"""

from __future__ import annotations

import os
import resource
import stat

PLACES = ("/tmp", "/dev/shm", "/home/u")  # noqa: S108 - those of the sandbox
"""The in-memory directories that commands may write to."""

_WRITABLE = (*PLACES, "/dev/pts", "/dev/pts/ptmx")
_SOCKETS = ("/proc/net/sockstat", "/proc/net/sockstat6")
_COUNTED = (b"used", b"inuse", b"tw")
_LISTED = ("/proc/sysvipc/sem", "/proc/sysvipc/msg", "/proc/sysvipc/shm", "/proc/net/ip6_flowlabel")
_AUTOGROUP = "/proc/self/autogroup"
_KINDS = [number for name, number in vars(resource).items() if name.startswith("RLIMIT_")]


def surroundings() -> tuple[object, ...]:
    """The state besides files and processes, to compare; raises `OSError` if it is unknown."""
    return (
        # Modes and attributes: a default ACL affects files that are created later.
        *((os.stat(place).st_mode, os.stat(place).st_uid, os.listxattr(place)) for place in _WRITABLE),
        # Ports and sockets stay in use for a while.
        *(_parse_counts(_read_bytes(path)) for path in _SOCKETS),
        *map(_read_bytes, _LISTED),
        # The weight of the session, without its number.
        _read_bytes(_AUTOGROUP).partition(b"nice")[2],
        # Processes can change these for others of the same user.
        tuple(resource.getrlimit(kind) for kind in _KINDS),
        (os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0), os.sched_getaffinity(0)),
    )


def _parse_counts(text: bytes) -> tuple[bytes, ...]:
    """The numbers of open and lingering sockets; the other numbers count the whole machine."""
    words = text.split()
    return tuple(after for word, after in zip(words, words[1:]) if word in _COUNTED)  # noqa: B905, RUF007


def _read_bytes(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except FileNotFoundError:
        # A kernel without IPv6, semaphores or groups.
        return b""


_MAX_REMOVED = 10_000
_MAX_DEPTH = 200


class Traces:
    """The initial state of a sandbox."""

    def __init__(self) -> None:
        self._first = self._scan(frozenset())
        self._others = surroundings()

    def undone(self) -> bool:
        """Remove new files; returns whether everything else is unchanged."""
        try:
            self._scan(self._first)
            return surroundings() == self._others
        except OSError:
            return False

    def _scan(self, known: frozenset[str]) -> frozenset[str]:
        """All files of the sandbox. Files that are not in `known`, unless that is empty, are removed."""
        found: set[str] = set()
        for place in PLACES:
            _scan_directory(place, os.stat(place).st_dev, known, found, _MAX_DEPTH)
        return frozenset(found)


def _scan_directory(directory: str, device: int, known: frozenset[str], found: set[str], depth: int) -> None:
    found.add(directory)
    if len(found) > _MAX_REMOVED or depth == 0:
        raise OSError("too many files or directories")
    for name in os.listdir(directory):
        path = f"{directory}/{name}"
        there = os.lstat(path)
        is_ours = there.st_dev == device
        if stat.S_ISDIR(there.st_mode) and is_ours:
            if known and path not in known:
                os.chmod(path, 0o700)
            _scan_directory(path, device, known, found, depth - 1)
            if known and path not in known:
                os.rmdir(path)
        elif is_ours and known and path not in known:
            os.unlink(path)
        found.add(path)
