"""Calls that reach deep into the kernel.

None of them can have an effect: each has arguments that are refused after the check of rights (`then`), and that
refusal is the sign that the call was let through.
"""

import ctypes
import errno
import os
import stat
from collections.abc import Callable

from tests.hostile.probes.calls import NEWUSER, Argument, become_as_mighty_as_possible, call, gets_past
from tests.hostile.probes.probe import Attack, Probe, add, probe
from tests.hostile.probes.world import World

_ABSENT = b"/openskill/no/such/file"
_NOT_BUILT = "a kernel that was built without it"
_USER_NAMESPACES = "who is not root needs user namespaces"
_Room = ctypes.Array[ctypes.c_char]


def _numbers(*values: int, size: int) -> _Room:
    return ctypes.create_string_buffer(b"".join(value.to_bytes(4, "little") for value in values), size)


def _calls(name: str, arguments: Callable[[], tuple[Argument, ...]], then: tuple[int, ...]) -> Attack:
    def attack(world: World) -> str | None:
        return gets_past(name, *arguments(), then=then)

    return attack


# What it tries, the call, its arguments, what comes after the check of rights, and whether it takes root.
_CALLS: dict[str, tuple[str, str, Callable[[], tuple[Argument, ...]], tuple[int, ...], bool]] = {
    "io-uring": ("makes an io_uring", "io_uring_setup", lambda: (4, _numbers(size=120)), (), False),
    # BPF_MAP_CREATE of an array: keys and values of four bytes, one entry.
    "bpf": ("makes a map for kernel programs", "bpf", lambda: (0, _numbers(2, 4, 4, 1, size=128), 128), (), True),
    # PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, of all that runs on processor 0.
    "perf": ("watches", "perf_event_open", lambda: (_numbers(1, 128, size=128), -1, 0, -1, 0), (), True),
    "userfaultfd": ("handles page faults of the kernel", "userfaultfd", lambda: (0,), (), True),
    "userfaultfd-own": ("handles page faults of its own", "userfaultfd", lambda: (1,), (), False),
    "fanotify": ("watches every file", "fanotify_init", lambda: (0x4, os.O_RDONLY), (), True),
    "load-module": ("loads a module", "init_module", lambda: (None, 0, b""), (errno.ENOEXEC, errno.EFAULT), True),
    "load-module-file": ("loads a module file", "finit_module", lambda: (-1, b"", 0), (errno.EBADF,), True),
    "unload-module": ("unloads a module", "delete_module", lambda: (b"openskill_none", 0), (errno.ENOENT,), True),
    "kexec": ("starts another kernel", "kexec_load", lambda: (0, 99999, None, 0xFFF0), (errno.EINVAL,), True),
    "reboot": ("reboots", "reboot", lambda: (0, 0, 0, None), (errno.EINVAL,), True),
    "swapon": ("adds swap", "swapon", lambda: (_ABSENT, 0), (errno.ENOENT,), True),
    "swapoff": ("removes swap", "swapoff", lambda: (_ABSENT,), (errno.ENOENT,), True),
    "accounting": ("records all processes", "acct", lambda: (_ABSENT,), (errno.ENOENT,), True),
    # ADJ_TICK with a tick of zero, which no clock has.
    "clock": ("changes the clock", "adjtimex", lambda: (_numbers(0x4000, size=256),), (errno.EINVAL,), True),
    "host-name": ("changes the host's name", "sethostname", lambda: (None, -1), (errno.EINVAL,), True),
    "domain-name": ("changes the domain's name", "setdomainname", lambda: (None, -1), (errno.EINVAL,), True),
    "kernel-log": ("reads the kernel's log", "syslog", lambda: (3, _numbers(size=4096), 4096), (), True),
}

for _id, (_tries, _call, _with, _then, _by_root) in _CALLS.items():
    add(Probe(_id, "escape", _tries, _calls(_call, _with, _then), by_root=_by_root, depends=_NOT_BUILT))


def _on_mounts(name: str, arguments: Callable[[bytes], tuple[Argument, ...]], then: tuple[int, ...]) -> Attack:
    """A call about mounts with a directory that is none, as root of a namespace of its own where that can be had."""

    def attack(world: World) -> str | None:
        place = os.path.realpath("work").encode()
        become_as_mighty_as_possible()
        return gets_past(name, *arguments(place), then=then)

    return attack


_HERE = -100
_MOUNTS: dict[str, tuple[str, Callable[[bytes], tuple[Argument, ...]], tuple[int, ...]]] = {
    "mount": ("mounts", lambda place: (b"none", place, b"openskill-none", 0, None), (errno.ENODEV,)),
    "umount2": ("unmounts", lambda place: (place, 0), (errno.EINVAL,)),
    "pivot_root": ("changes the root of all", lambda place: (place, place), (errno.EINVAL, errno.EBUSY)),
    "fsopen": ("opens a file system", lambda _: (b"tmpfs", 1), ()),
    "open_tree": ("copies a mount", lambda place: (_HERE, place, 1), (errno.EINVAL,)),
    "move_mount": ("moves a mount", lambda _: (-1, b"", -1, b"", 0x44), (errno.EBADF,)),
    "mount_setattr": ("changes a mount", lambda place: (_HERE, place, 0, _numbers(size=32), 32), ()),
    "fspick": ("changes a file system", lambda place: (_HERE, place, 1), (errno.EINVAL,)),
}

for _name, (_tries, _of, _then) in _MOUNTS.items():
    _attack = _on_mounts(_name, _of, _then)
    _id = _name.replace("_", "-")
    add(Probe(_id, "escape", f"{_tries}, with {_name}", _attack, depends=_USER_NAMESPACES))


@probe("escape", "changes its root directory", depends=_USER_NAMESPACES)
def chroot(world: World) -> str | None:
    become_as_mighty_as_possible()
    os.chroot("work")
    return "changed"


@probe("escape", "makes a device node", by_root=True)
def device_node(world: World) -> str | None:
    # 1:3 is /dev/null, the most harmless device there is.
    os.mknod("work/null", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    try:
        os.close(os.open("work/null", os.O_WRONLY))
    finally:
        os.unlink("work/null")
    return "made and opened"


class _Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("rules", ctypes.c_void_p)]


@probe("escape", "adds a filter that allows everything, to be rid of the first one", depends=_USER_NAMESPACES)
def filter_is_undone(world: World) -> str | None:
    rule = (6).to_bytes(2, "little") + b"\0\0" + (0x7FFF0000).to_bytes(4, "little")
    room = ctypes.create_string_buffer(rule, 8)
    process = ctypes.CDLL(None)
    process.prctl(38, 1, 0, 0, 0)
    process.prctl(22, 2, ctypes.byref(_Filter(1, ctypes.addressof(room))))
    call("unshare", NEWUSER)
    return "a user namespace"
