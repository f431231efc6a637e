"""Process 1 of a reused sandbox.

What a command could have left in a sandbox for the next one to find, besides files and processes.

It runs inside, so it imports nothing of ours. Taken before the first command and after each one, it must be the same.

What a call could have left in a sandbox for the next one to find, and how files that it left are removed.

A part of `hostmother.py`: it runs in the interpreter of a skill, so it imports nothing of ours. Only the process that
serves one slot uses it, in a sandbox that no other slot has, when no process of the call is left.
"""

from __future__ import annotations

import os
import resource
import stat

PLACES = ("/tmp", "/dev/shm", "/home/u")  # noqa: S108 - those of the sandbox
"""The directories in memory that commands may write to."""

_WRITABLE = (*PLACES, "/dev/pts", "/dev/pts/ptmx")
_SOCKETS = ("/proc/net/sockstat", "/proc/net/sockstat6")
_COUNTED = (b"used", b"inuse", b"tw")
_LISTED = ("/proc/sysvipc/sem", "/proc/sysvipc/msg", "/proc/sysvipc/shm", "/proc/net/ip6_flowlabel")
_AUTOGROUP = "/proc/self/autogroup"
_KINDS = [number for name, number in vars(resource).items() if name.startswith("RLIMIT_")]


def surroundings() -> tuple[object, ...]:
    """How it is now; raises `OSError` where that can no longer be told."""
    return (
        # Modes, and attributes: a default ACL changes every file that is made later.
        *((os.stat(place).st_mode, os.stat(place).st_uid, os.listxattr(place)) for place in _WRITABLE),
        # A port that was served stays taken for a while, and so does what was sent with a socket.
        *(_parse_counts(_read_bytes(path)) for path in _SOCKETS),
        *map(_read_bytes, _LISTED),
        # The weight of a session among others, without its number.
        _read_bytes(_AUTOGROUP).partition(b"nice")[2],
        # Processes of one user may change these of each other.
        tuple(resource.getrlimit(kind) for kind in _KINDS),
        (os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0), os.sched_getaffinity(0)),
    )


def _parse_counts(text: bytes) -> tuple[bytes, ...]:
    """The numbers of sockets in use and of those that linger; others on these lines count the whole machine."""
    words = text.split()
    return tuple(after for word, after in zip(words, words[1:]) if word in _COUNTED)  # noqa: B905, RUF007


def _read_bytes(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except FileNotFoundError:
        # A kernel without IPv6, semaphores or groups: nothing can be left there.
        return b""


_MAX_REMOVED = 10_000
_MAX_DEPTH = 200


class Traces:
    """Remembers how a sandbox was before its first call."""

    def __init__(self) -> None:
        self._first = self._scan(frozenset())
        self._others = surroundings()

    def undone(self) -> bool:
        """Remove the files that were not there at first; whether nothing else is different, either."""
        try:
            self._scan(self._first)
            return surroundings() == self._others
        except OSError:
            return False

    def _scan(self, known: frozenset[str]) -> frozenset[str]:
        """All that is in the file systems of the sandbox; with something `known`, what is not known is removed."""
        found: set[str] = set()
        for place in PLACES:
            _scan_directory(place, os.stat(place).st_dev, known, found, _MAX_DEPTH)
        return frozenset(found)


def _scan_directory(directory: str, device: int, known: frozenset[str], found: set[str], depth: int) -> None:
    found.add(directory)
    if len(found) > _MAX_REMOVED or depth == 0:
        raise OSError("too much to look at")
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
