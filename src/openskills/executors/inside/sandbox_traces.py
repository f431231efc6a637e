"""What a command could have left in a sandbox for the next one to find, besides files and processes.

It runs inside, so it imports nothing of ours. Taken before the first command and after each one, it must be the same.
"""

import os
import resource

PLACES = ("/tmp", "/dev/shm", "/home/u")  # noqa: S108 - those of the sandbox
"""The directories in memory that commands may write to."""

_WRITABLE = (*PLACES, "/dev/pts", "/dev/pts/ptmx")
_SOCKETS = ("/proc/net/sockstat", "/proc/net/sockstat6")
_COUNTED = (b"used", b"inuse", b"tw")
_LISTED = ("/proc/sysvipc/sem", "/proc/sysvipc/msg", "/proc/sysvipc/shm", "/proc/net/ip6_flowlabel")
_AUTOGROUP = "/proc/self/autogroup"
_KINDS = [number for name, number in vars(resource).items() if name.startswith("RLIMIT_")]


def surroundings() -> "tuple[object, ...]":
    """How it is now; raises `OSError` where that can no longer be told."""
    return (
        # Modes, and attributes: a default ACL changes every file that is made later.
        *((os.stat(place).st_mode, os.stat(place).st_uid, os.listxattr(place)) for place in _WRITABLE),
        # A port that was served stays taken for a while, and so does what was sent with a socket.
        *(_counts(_bytes_of(path)) for path in _SOCKETS),
        *map(_bytes_of, _LISTED),
        # The weight of a session among others, without its number.
        _bytes_of(_AUTOGROUP).partition(b"nice")[2],
        # Processes of one user may change these of each other.
        tuple(resource.getrlimit(kind) for kind in _KINDS),
        (os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0), os.sched_getaffinity(0)),
    )


def _counts(text: bytes) -> "tuple[bytes, ...]":
    """The numbers of sockets in use and of those that linger; others on these lines count the whole machine."""
    words = text.split()
    return tuple(after for word, after in zip(words, words[1:]) if word in _COUNTED)  # noqa: B905, RUF007


def _bytes_of(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except FileNotFoundError:
        # A kernel without IPv6, semaphores or groups: nothing can be left there.
        return b""
