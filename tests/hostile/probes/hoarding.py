"""Takes a lot of something and keeps it: `python -m tests.hostile.probes.hoarding WHAT AMOUNT`.

Says `got everything` when nobody kept it from taking all; that it was refused ends it.
"""

import ctypes
import mmap
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.hostile.probes.calls import libc

_MIB = 1024 * 1024
_KEEP = 25.0
_held: list[object] = []


def _touched(memory: mmap.mmap) -> mmap.mmap:
    for page in range(0, len(memory), mmap.PAGESIZE):
        memory[page] = 1
    return memory


def _anonymous(flags: int, size: int) -> mmap.mmap:
    return _touched(mmap.mmap(-1, size, flags | mmap.MAP_ANONYMOUS))


def private(amount: int) -> None:
    """Memory of one process."""
    _held.append(_anonymous(mmap.MAP_PRIVATE, amount))


def shared(amount: int) -> None:
    """Shared memory of one process, which is not its private memory."""
    _held.append(_anonymous(mmap.MAP_SHARED, amount))


def many_processes(amount: int) -> None:
    """Memory of many processes, each with little."""
    for _ in range(10):
        if os.fork() == 0:
            private(amount // 10)
            time.sleep(_KEEP)
            os._exit(0)


def memory_files(amount: int) -> None:
    """Files in memory that are mapped nowhere."""
    for _ in range(amount // (16 * _MIB)):
        opened = os.memfd_create("hoard")
        os.posix_fallocate(opened, 0, 16 * _MIB)
        _held.append(opened)


def segments(amount: int) -> None:
    """System V memory that is attached nowhere."""
    for _ in range(amount // (16 * _MIB)):
        number = libc("shmget", 0, 16 * _MIB, 0o1600)
        address = libc("shmat", number, None, 0)
        ctypes.memset(address, 1, 16 * _MIB)
        libc("shmdt", address)


def deleted_files(amount: int) -> None:
    """Files of the workspace that have no name any more."""
    for number in range(amount // (16 * _MIB)):
        path = f"work/hoard-{number}"
        opened = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.unlink(path)
        os.posix_fallocate(opened, 0, 16 * _MIB)
        _held.append(opened)


def files(amount: int) -> None:
    """Files of the workspace."""
    for number in range(amount // (16 * _MIB)):
        with open(f"work/hoard-{number}", "wb") as file:
            os.posix_fallocate(file.fileno(), 0, 16 * _MIB)


def names(amount: int) -> None:
    """Empty files of the workspace, one for each 16 KiB that are asked for."""
    os.mkdir("work/names")
    for number in range(amount // 16384):
        Path(f"work/names/{number}").touch()


def processes(amount: int) -> None:
    """Processes that do nothing, one for each MiB that is asked for."""
    for _ in range(amount // _MIB):
        if os.fork() == 0:
            time.sleep(_KEEP)
            os._exit(0)


def computing(amount: int) -> None:
    """The processor, for a second for each 16 MiB that are asked for."""
    while time.process_time() < amount / (16 * _MIB):
        pass


WAYS: dict[str, Callable[[int], None]] = {
    way.__name__: way
    for way in (
        *(private, shared, many_processes, memory_files, segments),
        *(files, deleted_files, names, processes, computing),
    )
}


def main(what: str, amount: str) -> None:
    """Take it and keep it."""
    WAYS[what](int(amount))
    sys.stdout.write("got everything\n")
    sys.stdout.flush()
    if what != "computing":
        time.sleep(_KEEP)


if __name__ == "__main__":
    main(*sys.argv[1:])
