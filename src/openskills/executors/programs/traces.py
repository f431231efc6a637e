"""Detect and undo what a command or call leaves in a sandbox, so that the sandbox can be reused.

It runs inside the sandbox, as part of `sandbox.py` and `zygote.py`, so it imports nothing of ours. It is only used when
no process of the command or call is left.
"""

from __future__ import annotations

import ctypes
import os
import stat
import time
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container

    _FileState = tuple[int, int, int, list[str], int]

PLACES = ("/tmp", "/dev/shm", "/home/u")  # noqa: S108 - those of the sandbox
"""The in-memory directories that commands may write to."""

_WRITABLE = (*PLACES, "/dev/pts", "/dev/pts/ptmx")
_SOCKETS = ("/proc/net/sockstat", "/proc/net/sockstat6")
_COUNTED = (b"used", b"inuse", b"tw")
_LISTED = ("/proc/sysvipc/sem", "/proc/sysvipc/msg", "/proc/sysvipc/shm", "/proc/net/ip6_flowlabel")
_AUTOGROUP = "/proc/self/autogroup"
_LIMITS = "/proc/self/limits"
_IOPRIO_GET, _SCHED_GETATTR = (31, 275) if os.uname().machine == "aarch64" else (252, 315)
_IOPRIO_WHO_PROCESS = 1
_ATTRIBUTES_SIZE = 56
_syscall = ctypes.CDLL(None, use_errno=True).syscall


def surroundings() -> tuple[object, ...]:
    """The state besides files and processes, to compare; raises `OSError` if it is unknown."""
    return (_read_access(), *_read_system(_read_bytes))


def _read_access() -> list[tuple[int, int, list[str]]]:
    """Modes, owners and attributes: a default ACL affects files that are created later."""
    return [(there.st_mode, there.st_uid, os.listxattr(path)) for path in _WRITABLE for there in [os.stat(path)]]


def _read_system(read: Callable[[str], bytes]) -> tuple[object, ...]:
    """The state of the kernel; `read` reads files of /proc."""
    return (
        # Ports and sockets stay in use for a while.
        *(_parse_counts(read(path)) for path in _SOCKETS),
        *map(read, _LISTED),
        # The weight of the session, without its number.
        read(_AUTOGROUP).partition(b"nice")[2],
        # Processes can change these for others of the same user, and forks inherit them.
        read(_LIMITS),
        os.sched_getaffinity(0),
        _syscall(_IOPRIO_GET, _IOPRIO_WHO_PROCESS, 0),
        _read_schedule(),
    )


def _read_schedule() -> bytes:
    """Policy, priority, niceness and utilisation clamps of this process."""
    attributes = ctypes.create_string_buffer(_ATTRIBUTES_SIZE)
    if _syscall(_SCHED_GETATTR, 0, attributes, _ATTRIBUTES_SIZE, 0):
        raise OSError(ctypes.get_errno(), "sched_getattr")
    return attributes.raw


def record_times() -> dict[str, tuple[int, int]]:
    """The times of the directories that commands may write to."""
    return {place: _read_times(os.stat(place)) for place in _WRITABLE}


def restore_times(times: dict[str, tuple[int, int]]) -> None:
    """Set the times of directories to these; a command can set them to any value."""
    for path, ns in times.items():
        if _read_times(os.stat(path)) != ns:
            with suppress(PermissionError):
                # Where we are not allowed to, neither was the command, which has the same user.
                os.utime(path, ns=ns)


def _read_times(found: os.stat_result) -> tuple[int, int]:
    return found.st_atime_ns, found.st_mtime_ns


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
_MAX_READ = 64 * 1024
# Two changes within one tick of the kernel's clock have the same time.
_TICK_NS = 20_000_000


class Traces:
    """The initial state of a sandbox. `fork` forks this process, which is to keep nothing of a call in its memory."""

    def __init__(self, fork: Callable[[], int] = os.fork) -> None:
        self._fork = fork
        self._first: dict[str, _FileState] = {}
        for place in PLACES:
            there = os.stat(place)
            self._first[place] = _read_state(place, there)
            _collect_files(place, there.st_dev, self._first)
        newest = max((changed for *_, changed in self._first.values()), default=0)
        if time.time_ns() - newest < _TICK_NS:
            time.sleep(_TICK_NS / 1e9)
        directories = [path for path, (mode, *_) in self._first.items() if stat.S_ISDIR(mode)]
        self._times = record_times() | {path: _read_times(os.stat(path)) for path in directories}
        self._stamped = tuple(dict.fromkeys((*self._times, *self._first)))
        self._files: dict[str, int] = {}
        for path in (*_SOCKETS, *_LISTED, _AUTOGROUP, _LIMITS):
            with suppress(FileNotFoundError):
                self._files[path] = os.open(path, os.O_RDONLY)
        self._access = _read_access()
        self._system = _read_system(self._read)
        self._stamps = self._read_stamps()
        self._restored = 0

    @property
    def descriptors(self) -> list[int]:
        """Open files, which the process of a call has to close."""
        return list(self._files.values())

    def undone(self) -> bool:
        """Remove new files; returns whether everything else is unchanged."""
        try:
            is_changed = self._read_stamps() != self._stamps
            if is_changed:
                if not self._remove_in_child():
                    return False
                restore_times(self._times)
                self._stamps = self._read_stamps()
            # Equal stamps mean equal files, unless they were taken within the tick of a change.
            if is_changed or self._restored:
                self._restored = time.time_ns() if is_changed else self._restored
                if time.time_ns() - self._restored > _TICK_NS:
                    self._restored = 0
                if _read_access() != self._access:
                    return False
                if not all(_read_state(path, os.lstat(path)) == state for path, state in self._first.items()):
                    return False
            return _read_system(self._read) == self._system
        except OSError:
            return False

    def _read(self, path: str) -> bytes:
        # Reading an open file again takes a fifth of the time of opening it.
        return os.pread(self._files[path], _MAX_READ, 0) if path in self._files else b""

    def _read_stamps(self) -> list[tuple[int, ...]]:
        """What shows that a file has changed, or that a directory has new files.

        Nobody can set the time of the last change, and the size of a directory, to which each name adds.
        """
        found = map(os.lstat, self._stamped)
        return [(there.st_size, there.st_atime_ns, there.st_mtime_ns, there.st_ctime_ns) for there in found]

    def _remove_in_child(self) -> bool:
        """Remove new files in another process, because their names would stay in the memory of this one."""
        pid = self._fork()
        if pid == 0:
            failed = True
            try:
                remover = _Remover(self._first)
                for place in PLACES:
                    remover.remove_new(place, os.stat(place).st_dev, _MAX_DEPTH)
                failed = False
            finally:
                os._exit(failed)
        _, status = os.waitpid(pid, 0)
        return status == 0


def _collect_files(directory: str, device: int, found: dict[str, _FileState]) -> None:
    for name in os.listdir(directory):
        path = f"{directory}/{name}"
        there = os.lstat(path)
        # Another device is a mount of the sandbox itself.
        if there.st_dev == device:
            found[path] = _read_state(path, there)
            if stat.S_ISDIR(there.st_mode):
                _collect_files(path, device, found)


class _Remover:
    """Removes files that are not in `known`. Raises `OSError` if there are too many."""

    def __init__(self, known: Container[str]) -> None:
        self._known = known
        self._count = 0

    def remove_new(self, directory: str, device: int, depth: int) -> None:
        """Remove new files below a directory."""
        for name in os.listdir(directory):
            self._count += 1
            if self._count > _MAX_REMOVED or depth == 0:
                raise OSError("too many files or directories")
            path = f"{directory}/{name}"
            there = os.lstat(path)
            if there.st_dev != device:
                continue
            is_new = path not in self._known
            if not stat.S_ISDIR(there.st_mode):
                if is_new:
                    os.unlink(path)
                continue
            if is_new:
                os.chmod(path, 0o700)
            self.remove_new(path, device, depth - 1)
            if is_new:
                os.rmdir(path)


def _read_state(path: str, there: os.stat_result) -> _FileState:
    """What shows a change of a file. Nobody can set the time of the last change; directories change in normal use."""
    changed = 0 if stat.S_ISDIR(there.st_mode) else there.st_ctime_ns
    return there.st_mode, there.st_uid, there.st_ino, os.listxattr(path, follow_symlinks=False), changed
