"""The lock that is a lease: a file in a workspace's directory that one process at a time holds. Blocking.

The system takes it from a process that dies. It is a lock of an open file and not of a process (`F_OFD_SETLK`): two
parts of one process exclude each other, too, and one can look at it without taking it. The directory may be removed and
made anew while somebody waits, so a lock counts only if its file still has its name.
"""

import fcntl
import os
import struct
import time
from dataclasses import dataclass
from pathlib import Path

NAME = "lease"
# Who is about to remove the directory has the lock for a moment.
_TRIES, _PAUSE = 4, 0.005
# struct flock: type, whence, start, length (0 is all), pid.
_FLOCK = struct.Struct("hhqqi0q")


@dataclass(frozen=True, slots=True)
class Sight:
    """What can be seen of a lease from outside: whether somebody has it, who, and when it was used last."""

    held: bool
    holder: int | None
    used: float


def take(directory: Path) -> int | None:
    """A descriptor that has the lock of this directory; None when somebody else has it.

    Raises `FileNotFoundError` when there is no such directory.
    """
    for attempt in range(_TRIES):
        if attempt:
            time.sleep(_PAUSE)
        path = directory / NAME
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _request(fcntl.F_WRLCK))
        except BlockingIOError:
            os.close(descriptor)
            continue
        if _has_its_name(path, descriptor):
            return descriptor
        give_back(descriptor)
    return None


def sign(descriptor: int) -> None:
    """Write down that this process has the lock, for whoever would like to have it, too."""
    # Always as long as it was: cutting a file to nothing and writing it anew makes some file systems wait for the disk.
    os.pwrite(descriptor, b"%-10d\n" % os.getpid(), 0)


def give_back(descriptor: int) -> None:
    """Free the lock."""
    # Said aloud: closing would not free it as long as a forked child has a copy of the descriptor.
    fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _request(fcntl.F_UNLCK))
    os.close(descriptor)


def look(directory: Path) -> Sight:
    """What can be seen of a directory's lease. Raises `FileNotFoundError` when there is no such directory."""
    try:
        descriptor = os.open(directory / NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return Sight(held=False, holder=None, used=directory.stat().st_mtime)
    try:
        used = os.fstat(descriptor).st_mtime
        answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _request(fcntl.F_WRLCK))
        held = _FLOCK.unpack(answer)[0] != fcntl.F_UNLCK
        return Sight(held, _signature(descriptor) if held else None, used)
    finally:
        os.close(descriptor)


def _request(kind: int) -> bytes:
    return _FLOCK.pack(kind, os.SEEK_SET, 0, 0, 0)


def _signature(descriptor: int) -> int | None:
    text = os.pread(descriptor, 20, 0).strip()
    return int(text) if text.isdigit() else None


def _has_its_name(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(descriptor))
    except FileNotFoundError:
        return False
