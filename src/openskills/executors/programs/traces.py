"""Detect and undo what a command or call leaves in a sandbox, so that the sandbox can be reused.

It runs inside the sandbox, as part of `sandbox.py` and `zygote.py`, so it imports nothing of ours. It is only used when
no process of the command or call is left.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import stat
import time
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container
    from typing import Any

    _FileState = tuple[int, int, int, list[str], int]

PLACES = ("/tmp", "/dev/shm", "/home/u")  # noqa: S108 - those of the sandbox
"""The in-memory directories that commands may write to."""

_WRITABLE = (*PLACES, "/dev/pts", "/dev/pts/ptmx")
_SOCKETS = ("/proc/net/sockstat", "/proc/net/sockstat6")
_COUNTED = (b"used", b"inuse", b"tw")
_LISTED = (
    *("/proc/sysvipc/sem", "/proc/sysvipc/msg", "/proc/sysvipc/shm", "/proc/net/ip6_flowlabel"),
    # What was sent over the loopback interface is counted.
    "/proc/net/dev",
)
_AUTOGROUP = "/proc/self/autogroup"
_LIMITS = "/proc/self/limits"
_IOPRIO_GET, _SCHED_GETATTR, _SCHED_GETAFFINITY, _STATX, _PREAD = (
    (31, 275, 123, 291, 67) if os.uname().machine == "aarch64" else (252, 315, 204, 332, 17)
)
_IOPRIO_WHO_PROCESS = 1
_ATTRIBUTES_SIZE = 56
# None of these calls waits, so the lock of the interpreter is kept.
_syscall = ctypes.PyDLL(None).syscall
_memcmp = ctypes.PyDLL(None).memcmp
_MADV_WIPEONFORK = 18


def create_unshared_memory(size: int) -> mmap.mmap:
    """Memory that is empty in forked processes: they cannot read it, and writing to it here costs no page fault."""
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(_MADV_WIPEONFORK)
    return memory


def _read_access() -> list[tuple[int, int, list[str]]]:
    """Modes, owners and attributes: a default ACL affects files that are created later."""
    return [(there.st_mode, there.st_uid, os.listxattr(path)) for path in _WRITABLE for there in [os.stat(path)]]


def _read_times(found: os.stat_result) -> tuple[int, int]:
    return found.st_atime_ns, found.st_mtime_ns


_CPU_MASK_SIZE = 1024
_STATX_SIZE = 256
_STATX_ALL = 0xFFF
_AT_FDCWD, _AT_SYMLINK_NOFOLLOW = -100, 0x100


class _StateQueries:
    """System calls whose results are recorded, to see later whether they would be the same.

    All results are in memory that is not shared with forks, and as few objects as possible are used: this process forks
    before each call, after which every page that it touches costs a page fault.
    """

    def __init__(self) -> None:
        self._planned: list[tuple[int, list[object]]] = []
        self._size = 0
        self._calls: list[tuple[int, tuple[object, ...]]] = []
        self._comparison: tuple[Any, ...] = ()

    def add_path(self, path: str) -> None:
        """Everything that `lstat` says, with its times in nanoseconds."""
        self._add(_STATX_SIZE, _STATX, _AT_FDCWD, os.fsencode(path), _AT_SYMLINK_NOFOLLOW, _STATX_ALL, None)

    def add_file(self, descriptor: int) -> None:
        """The text of a file of /proc, up to `_MAX_READ` bytes."""
        # A longer text does not have the same length.
        size = len(os.pread(descriptor, _MAX_READ, 0)) + 1
        self._add(size, _PREAD, descriptor, None, size, 0)

    def add_schedule(self) -> None:
        """Processors, and priorities of input and output; policy, priority, niceness and utilisation clamps."""
        self._add(_CPU_MASK_SIZE, _SCHED_GETAFFINITY, 0, _CPU_MASK_SIZE, None)
        self._add(0, _IOPRIO_GET, _IOPRIO_WHO_PROCESS, 0)
        self._add(_ATTRIBUTES_SIZE, _SCHED_GETATTR, 0, None, _ATTRIBUTES_SIZE, 0)

    def _add(self, size: int, *arguments: object) -> None:
        """Add a call; None is the place of its result."""
        self._planned.append((self._size, list(arguments)))
        self._size += size

    def record(self) -> None:
        """Make the calls, all of which were added before. Raises `OSError` if one fails."""
        if not self._calls:
            memory = ctypes.c_char.from_buffer(create_unshared_memory(2 * self._size))
            for place, arguments in self._planned:
                result = ctypes.byref(memory, place)
                self._calls.append((0, tuple(result if argument is None else argument for argument in arguments)))
            self._comparison = (ctypes.byref(memory, self._size), ctypes.byref(memory), self._size)
        for number, (_, call) in enumerate(self._calls):
            returned = _syscall(*call)
            if returned < 0:
                raise OSError(f"system call {call[0]} failed")
            self._calls[number] = (returned, call)
        ctypes.memmove(*self._comparison)

    def are_equal(self) -> bool:
        """Whether the results are the same as recorded."""
        for returned, call in self._calls:
            if _syscall(*call) != returned:
                return False
        return _memcmp(*self._comparison) == 0


class _SocketCounts:
    """The files `_SOCKETS` and the numbers in them that count, to see later whether they are the same.

    Like `_StateQueries`, it touches as little memory as possible.
    """

    def __init__(self, descriptors: list[int]) -> None:
        self._buffer = create_unshared_memory(_MAX_COUNTS)
        memory = ctypes.byref(ctypes.c_char.from_buffer(self._buffer))
        self._calls = [
            ((_PREAD, descriptor, memory, _MAX_COUNTS, 0), _split_counts(os.pread(descriptor, _MAX_COUNTS, 0)))
            for descriptor in descriptors
        ]

    def are_equal(self) -> bool:
        """Whether the texts are the same, apart from the numbers that count the whole machine."""
        buffer = self._buffer
        for call, parts in self._calls:
            length = _syscall(*call)
            place = 0
            for part in parts:
                place = buffer.find(part, place)
                if place < 0:
                    return False
                place += len(part)
            if place != length:
                return False
        return True


def _split_counts(text: bytes) -> list[bytes]:
    """The text around the numbers that count the whole machine, not the open and lingering sockets of a sandbox."""
    lines = [line.split(b" ") for line in text.splitlines()]
    for words in lines:
        for at in range(1, len(words)):
            if words[at].isdigit() and words[at - 1] not in _COUNTED:
                words[at] = b"\0"
    return b"".join(b" ".join(words) + b"\n" for words in lines).split(b"\0")


_MAX_REMOVED = 10_000
_MAX_DEPTH = 200
_MAX_READ = 64 * 1024
_MAX_COUNTS = 512
# Two changes within one tick of the kernel's clock have the same time.
_TICK_NS = 20_000_000


class Traces:
    """The initial state of a sandbox. Raises `OSError` if it is unknown.

    `fork` forks this process, which is to keep nothing of a call in its memory, to remove new files; with None, new
    files cannot be undone.
    """

    def __init__(self, fork: Callable[[], int] | None = os.fork) -> None:
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
        self._times = {path: _read_times(os.stat(path)) for path in (*_WRITABLE, *directories)}
        self._files: dict[str, int] = {}
        for path in (*_SOCKETS, *_LISTED, _AUTOGROUP, _LIMITS):
            # A kernel without IPv6, semaphores or groups.
            with suppress(FileNotFoundError):
                self._files[path] = os.open(path, os.O_RDONLY)
        self._access = _read_access()
        # What shows that a file has changed, or that a directory has new files: nobody can set the time of the last
        # change, and the size of a directory, to which each name adds.
        self._stamps = _StateQueries()
        for path in dict.fromkeys((*self._times, *self._first)):
            self._stamps.add_path(path)
        self._system = _StateQueries()
        # Processes can change limits and scheduling for others of the same user, and forks inherit them.
        for path in (*_LISTED, _AUTOGROUP, _LIMITS):
            if path in self._files:
                self._system.add_file(self._files[path])
        self._system.add_schedule()
        self._sockets = _SocketCounts([self._files[path] for path in _SOCKETS if path in self._files])
        self._system.record()
        self._stamps.record()
        self._restored = 0

    @property
    def descriptors(self) -> list[int]:
        """Open files, which the process of a call has to close."""
        return list(self._files.values())

    def undone(self) -> bool:
        """Remove new files; returns whether everything else is unchanged."""
        try:
            is_changed = not self._stamps.are_equal()
            if is_changed:
                if self._fork is None:
                    if any(_has_new(place, self._first) for place in PLACES):
                        return False
                elif not self._remove_in_child(self._fork):
                    return False
                self._restore_times()
                self._stamps.record()
            # Equal stamps mean equal files, unless they were taken within the tick of a change.
            if is_changed or self._restored:
                self._restored = time.time_ns() if is_changed else self._restored
                if time.time_ns() - self._restored > _TICK_NS:
                    self._restored = 0
                if _read_access() != self._access:
                    return False
                if not all(_read_state(path, os.lstat(path)) == state for path, state in self._first.items()):
                    return False
            return self._system.are_equal() and self._sockets.are_equal()
        except (OSError, MemoryError):
            return False

    def _restore_times(self) -> None:
        """Set the times of directories to the first ones; a command can set them to any value."""
        for path, ns in self._times.items():
            if _read_times(os.stat(path)) != ns:
                with suppress(PermissionError):
                    # Where we are not allowed to, neither was the command, which has the same user.
                    os.utime(path, ns=ns)

    def _remove_in_child(self, fork: Callable[[], int]) -> bool:
        """Remove new files in another process, because their names would stay in the memory of this one."""
        pid = fork()
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


def _has_new(directory: str, known: Container[str]) -> bool:
    """Whether there is a file below a directory that is not in `known`. One is enough: there may be very many."""
    device = os.stat(directory).st_dev
    with os.scandir(directory) as entries:
        for entry in entries:
            there = entry.stat(follow_symlinks=False)
            if there.st_dev == device and entry.path not in known:
                return True
            if there.st_dev == device and stat.S_ISDIR(there.st_mode) and _has_new(entry.path, known):
                return True
    return False


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
