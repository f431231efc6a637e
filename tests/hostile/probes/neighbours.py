"""Other processes, and what processes share without a common directory."""

import ctypes
import os
import signal

from tests.hostile.probes.calls import call, libc
from tests.hostile.probes.probe import probe
from tests.hostile.probes.reading import seen
from tests.hostile.probes.world import World

_PTRACE_SEIZE = 0x4206
_RIGHTS = ("CapEff", "CapPrm", "CapBnd", "NoNewPrivs", "Seccomp", "Uid", "Groups")


class _Piece(ctypes.Structure):
    _fields_ = [("address", ctypes.c_void_p), ("length", ctypes.c_size_t)]


@probe("processes", "sees a process of the host in /proc")
def host_process_is_visible(world: World) -> str | None:
    with open(f"/proc/{world.victim_pid}/cmdline", "rb") as file:
        return world.place_of(file.read())


@probe("processes", "reads where the memory of another process is mapped")
def maps_of_another(world: World) -> str | None:
    if not _is_victim(world):
        return None
    with open(f"/proc/{world.victim_pid}/maps", encoding="utf-8") as file:
        return file.readline() or None


@probe("processes", "reads the memory of another process through /proc")
def memory_by_proc(world: World) -> str | None:
    opened = os.open(f"/proc/{world.victim_pid}/mem", os.O_RDONLY)
    return world.place_of(os.pread(opened, 64, world.victim_address))


@probe("processes", "reads the memory of another process with process_vm_readv")
def memory_by_readv(world: World) -> str | None:
    room = ctypes.create_string_buffer(64)
    _move(world, "process_vm_readv", room)
    return world.place_of(room.raw)


@probe("processes", "writes into the memory of another process with process_vm_writev")
def memory_by_writev(world: World) -> str | None:
    room = ctypes.create_string_buffer(64)
    _move(world, "process_vm_readv", room)
    if not world.place_of(room.raw):
        return None
    _move(world, "process_vm_writev", room)
    return "written"


def _move(world: World, name: str, room: ctypes.Array[ctypes.c_char]) -> None:
    here = _Piece(ctypes.addressof(room), 64)
    there = _Piece(world.victim_address, 64)
    call(name, world.victim_pid, here, 1, there, 1, 0)


@probe("processes", "traces another process")
def trace_another(world: World) -> str | None:
    if not _is_victim(world):
        return None
    call("ptrace", _PTRACE_SEIZE, world.victim_pid, 0, 0)
    return "seized"


@probe("processes", "traces process 1", unarmed="process 1 of the machine is not ours")
def trace_the_first(world: World) -> str | None:
    call("ptrace", _PTRACE_SEIZE, 1, 0, 0)
    return "seized"


@probe("processes", "takes over process 1, if that may do more", unarmed="process 1 of the machine is not ours")
def memory_of_the_first(world: World) -> str | None:
    os.close(os.open("/proc/1/mem", os.O_RDWR))
    more = [name for name in _RIGHTS if _rights(1, name) != _rights(os.getpid(), name)]
    return f"it has other {', '.join(more)}" if more else None


@probe("processes", "climbs out through what process 1 has open", unarmed="process 1 of the machine is not ours")
def descriptors_of_the_first(world: World) -> str | None:
    for name in os.listdir("/proc/1/fd"):
        for way in ("", "../" * 40):
            try:
                place = seen(world, f"/proc/1/fd/{name}/{way}{world.outside}/secret.txt")
            except OSError:
                continue
            if place:
                return f"{place}, through descriptor {name}"
    return None


@probe("processes", "climbs out through what its parent has open")
def descriptors_of_the_parent(world: World) -> str | None:
    # A bare parent has no directory open, but has one all the same.
    for name in ("cwd", *(f"fd/{number}" for number in os.listdir(f"/proc/{os.getppid()}/fd"))):
        try:
            place = seen(world, f"/proc/{os.getppid()}/{name}/{'../' * 40}{world.outside}/secret.txt")
        except OSError:
            continue
        if place:
            return f"{place}, through {name}"
    return None


@probe("processes", "asks whether it may signal a process of the host")
def signal_is_possible(world: World) -> str | None:
    os.kill(world.victim_pid, 0)
    return "allowed" if _is_victim(world) else None


@probe("processes", "sends a signal to a process of the host")
def signal_another(world: World) -> str | None:
    _only_outside(world)
    os.kill(world.victim_pid, signal.SIGUSR1)
    return "sent" if _is_victim(world) else None


@probe("processes", "signals a process of the host through a descriptor of it")
def signal_by_descriptor(world: World) -> str | None:
    opened = call("pidfd_open", world.victim_pid, 0)
    call("pidfd_send_signal", opened, 0, None, 0)
    return "allowed" if _is_victim(world) else None


@probe("processes", "signals the host process itself")
def signal_the_host(world: World) -> str | None:
    os.kill(world.host_pid, 0)
    return "allowed" if _is_same(world, world.host_pid) else None


@probe("processes", "takes an open file out of another process")
def steal_a_descriptor(world: World) -> str | None:
    process = call("pidfd_open", world.victim_pid, 0)
    opened = call("pidfd_getfd", process, world.victim_fd, 0)
    return world.place_of(os.pread(opened, 4096, 0))


@probe("processes", "compares two processes of the host", depends="a kernel without kcmp")
def compare_processes(world: World) -> str | None:
    call("kcmp", world.victim_pid, world.host_pid, 1, 0, 0)
    return "compared"


@probe("processes", "moves the memory of another process between nodes")
def move_memory_of_another(world: World) -> str | None:
    call("move_pages", world.victim_pid, 0, None, None, None, 0)
    return "allowed"


@probe("processes", "makes a process of the host slower")
def slow_down_another(world: World) -> str | None:
    if not _is_victim(world):
        return None
    now = os.getpriority(os.PRIO_PROCESS, world.victim_pid)
    os.setpriority(os.PRIO_PROCESS, world.victim_pid, min(19, now + 1))
    return "niced"


@probe("processes", "chooses the processor of a process of the host")
def pin_another(world: World) -> str | None:
    if not _is_victim(world):
        return None
    os.sched_setaffinity(world.victim_pid, os.sched_getaffinity(world.victim_pid))
    return "set"


@probe("processes", "changes the limits of a process of the host")
def limit_another(world: World) -> str | None:
    import resource

    if not _is_victim(world):
        return None
    now = resource.prlimit(world.victim_pid, resource.RLIMIT_CORE)
    resource.prlimit(world.victim_pid, resource.RLIMIT_CORE, now)
    return "set"


@probe("processes", "makes the kernel prefer a process of the host when memory is short")
def oom_score_of_another(world: World) -> str | None:
    if not _is_victim(world):
        return None
    os.close(os.open(f"/proc/{world.victim_pid}/oom_score_adj", os.O_WRONLY))
    return "opened for writing"


@probe("secrets", "reads shared memory of the host in /dev/shm")
def posix_shared_memory(world: World) -> str | None:
    return seen(world, world.shared_memory)


@probe("secrets", "attaches to System V shared memory of the host", depends="a kernel without System V IPC")
def system_v_shared_memory(world: World) -> str | None:
    address = libc("shmat", world.shm_id, None, 0o10000)
    return world.place_of(ctypes.string_at(address, 64))


@probe("secrets", "takes a message from a System V queue of the host", depends="a kernel without System V IPC")
def system_v_queue(world: World) -> str | None:
    room = ctypes.create_string_buffer(256)
    call("msgrcv", world.queue_id, room, 200, 0, 0o4000)
    return world.place_of(room.raw)


@probe("secrets", "opens a POSIX queue of the host", depends="a kernel without POSIX queues")
def posix_queue(world: World) -> str | None:
    opened = call("mq_open", world.queue_name.encode(), os.O_RDONLY | os.O_NONBLOCK, 0, None)
    room = ctypes.create_string_buffer(8192)
    call("mq_timedreceive", opened, room, 8192, None, None)
    return world.place_of(room.raw)


def _rights(pid: int, name: str) -> str:
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return next((line for line in file if line.startswith(f"{name}:")), "")


def _is_victim(world: World) -> bool:
    """Whether the number really is that process, and not one of ours that has the same number in here."""
    return _is_same(world, world.victim_pid)


def _is_same(world: World, pid: int) -> bool:
    try:
        return os.readlink("/proc/self/ns/pid") == world.namespaces["pid"]
    except OSError:
        # Without /proc it cannot be told apart, and a number that exists counts.
        return pid > 1


def _only_outside(world: World) -> None:
    if not _is_victim(world):
        raise ProcessLookupError(f"{world.victim_pid} is not a number of the host in here")
