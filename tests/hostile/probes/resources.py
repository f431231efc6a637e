"""Taking more than the limits of the run allow. What is tried is bounded, so that it does no harm where it succeeds."""

import ctypes
import fcntl
import mmap
import os
import resource
import signal
import threading
import time

from tests.hostile.probes.calls import call
from tests.hostile.probes.probe import Attack, Probe, add, probe
from tests.hostile.probes.world import World

_MIB = 1024 * 1024
_STEP = 16 * _MIB
_F_SETPIPE_SZ = 1031


@probe("resources", "forks far more processes than it may have")
def fork_bomb(world: World) -> str | None:
    children: list[int] = []
    try:
        for _ in range(world.limits["processes"] * 3):
            pid = os.fork()
            if pid == 0:
                while True:
                    signal.pause()
            children.append(pid)
    finally:
        _end(children)
    return f"{len(children)} processes"


def _end(children: list[int]) -> None:
    for pid in children:
        os.kill(pid, signal.SIGKILL)
    for pid in children:
        os.waitpid(pid, 0)


@probe("resources", "starts far more threads than it may have")
def thread_bomb(world: World) -> str | None:
    enough = threading.Event()
    threads = [threading.Thread(target=enough.wait, daemon=True) for _ in range(world.limits["processes"] * 3)]
    threading.stack_size(64 * 1024)
    try:
        for thread in threads:
            thread.start()
    except RuntimeError:
        # "can't start new thread" is how Python says EAGAIN.
        return None
    finally:
        enough.set()
    return f"{len(threads)} threads"


@probe("resources", "touches more private memory than it may have")
def private_memory(world: World) -> str | None:
    pieces: list[mmap.mmap] = []
    for _ in range(world.limits["memory_bytes"] * 2 // _STEP):
        piece = mmap.mmap(-1, _STEP, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        for page in range(0, _STEP, mmap.PAGESIZE):
            piece[page] = 1
        pieces.append(piece)
    return f"{len(pieces) * _STEP // _MIB} MiB"


@probe("resources", "asks for one block of memory that is larger than it may have")
def one_large_block(world: World) -> str | None:
    return f"{len(bytearray(world.limits['memory_bytes'] * 2)) // _MIB} MiB"


@probe("resources", "holds memory that cannot be paged out", by_root=True)
def locked_memory(world: World) -> str | None:
    piece = mmap.mmap(-1, 64 * _MIB, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    address = ctypes.addressof(ctypes.c_char.from_buffer(piece))
    if ctypes.CDLL(None, use_errno=True).mlock(ctypes.c_void_p(address), ctypes.c_size_t(64 * _MIB)):
        raise OSError(ctypes.get_errno(), "mlock")
    return "64 MiB"


@probe("resources", "opens far more files than it may")
def descriptor_bomb(world: World) -> str | None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    opened = [os.open("/dev/null", os.O_RDONLY) for _ in range(world.limits["open_files"] * 2)]
    return f"{len(opened)} files"


@probe("resources", "writes a file that is longer than it may be")
def large_file(world: World) -> str | None:
    opened = os.open("work/large", os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        # A hole takes no room; the limit is about the length.
        os.pwrite(opened, b"x", world.limits["file_bytes"] * 2)
    finally:
        os.unlink("work/large")
    return f"{world.limits['file_bytes'] * 2 // _MIB} MiB"


@probe("resources", "makes a file longer than it may be")
def long_file(world: World) -> str | None:
    opened = os.open("work/long", os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        os.ftruncate(opened, world.limits["file_bytes"] * 2)
    finally:
        os.unlink("work/long")
    return "made"


@probe("resources", "keeps a large file in memory")
def large_memory_file(world: World) -> str | None:
    os.ftruncate(os.memfd_create("probe"), world.limits["file_bytes"] * 2)
    return "made"


def _fills(place: str) -> Attack:
    """Fill a directory outside the workspace up to a bound, with files that are small enough."""

    def attack(world: World) -> str | None:
        directory = f"{os.path.expandvars(place)}/openskill-probe-{world.marker}-{os.getpid()}"
        os.mkdir(directory)
        try:
            _fill(directory, world.limits["file_bytes"] // 2, world.limits["scratch_bytes"])
        finally:
            for name in os.listdir(directory):
                os.unlink(f"{directory}/{name}")
            os.rmdir(directory)
        return f"more than {world.limits['scratch_bytes'] // _MIB} MiB"

    return attack


def _fill(directory: str, size: int, total: int) -> None:
    for number in range(total // size + 1):
        opened = os.open(f"{directory}/{number}", os.O_WRONLY | os.O_CREAT, 0o600)
        os.posix_fallocate(opened, 0, size)
        os.close(opened)


_NO_PLACE = "the machine may have no such directory, or not for this user"
for _name, _place in {"shared-memory": "/dev/shm", "tmp": "/tmp", "home": "$HOME"}.items():
    add(Probe(f"fill-{_name}", "resources", f"fills {_place}", _fills(_place), depends=_NO_PLACE))


_WEAK_ROOT = "without CAP_SYS_RESOURCE nobody can, where the machine has such a limit"


def _raises(kind: int) -> Attack:
    def attack(world: World) -> str | None:
        _, hard = resource.getrlimit(kind)
        more = resource.RLIM_INFINITY if hard == resource.RLIM_INFINITY else hard + 1
        try:
            resource.setrlimit(kind, (more, more))
        except ValueError:
            # "not allowed to raise maximum limit" is how Python says EPERM.
            return None
        return f"{hard} raised to {more}"

    return attack


_LIMITS = {
    "processes": resource.RLIMIT_NPROC,
    "open-files": resource.RLIMIT_NOFILE,
    "file-size": resource.RLIMIT_FSIZE,
    "memory": resource.RLIMIT_DATA,
    "core": resource.RLIMIT_CORE,
}

for _name, _kind in _LIMITS.items():
    add(Probe(f"raise-{_name}", "resources", f"raises its limit of {_name}", _raises(_kind), depends=_WEAK_ROOT))


@probe("resources", "leaves a core dump", depends="the machine may hand core dumps to a program, or make none")
def core_dump(world: World) -> str | None:
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    pid = os.fork()
    if pid == 0:
        os.chdir("work")
        resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
        os.kill(os.getpid(), signal.SIGSEGV)
        time.sleep(5)
    _, status = os.waitpid(pid, 0)
    left = [name for name in os.listdir("work") if name.startswith("core")]
    for name in left:
        os.unlink(f"work/{name}")
    return f"dumped: {left}" if os.WCOREDUMP(status) or left else None


@probe("resources", "runs before everybody else (real time)", by_root=True)
def real_time(world: World) -> str | None:
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    return "SCHED_RR"


@probe("resources", "raises its own priority", by_root=True)
def raise_priority(world: World) -> str | None:
    return f"nice {os.nice(-1)}"


@probe("resources", "reads and writes before everybody else", by_root=True)
def raise_io_priority(world: World) -> str | None:
    call("ioprio_set", 1, 0, 1 << 13)
    return "real time"


@probe("resources", "makes a pipe that is larger than allowed", by_root=True, depends=_WEAK_ROOT)
def large_pipe(world: World) -> str | None:
    reading, _ = os.pipe()
    return f"{fcntl.fcntl(reading, _F_SETPIPE_SZ, 8 * _MIB)} bytes"
