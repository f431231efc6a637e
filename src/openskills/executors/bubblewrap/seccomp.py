"""Seccomp filter for commands, assembled here. Pure.

Denied are calls that reach other processes, kernel internals, new namespaces, sockets that network namespaces do not
confine, and modes with set-id bits; everything else is allowed. Programs for another architecture are killed: their
call numbers differ.
"""

import errno
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from openskills.errors import ExecutorUnavailable

KILL = 0x80000000
REFUSE = 0x00050000
ALLOW = 0x7FFF0000

_DENIED: dict[str, tuple[int | None, int | None]] = {
    # Access to other processes.
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    # Bypasses this filter.
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    # Mounts and namespaces.
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "mount_setattr": (442, 442),
    "unshare": (272, 97),
    "setns": (308, 268),
    # Keys belong to a user, not to a namespace.
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    # Kernel internals.
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "fanotify_init": (300, 262),
    "lookup_dcookie": (212, 18),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "create_module": (174, None),
    "query_module": (178, None),
    "get_kernel_syms": (177, None),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "syslog": (103, 116),
    "modify_ldt": (154, None),
    "iopl": (172, None),
    "ioperm": (173, None),
    "uselib": (134, None),
    "ustat": (136, None),
    "sysfs": (139, None),
    "_sysctl": (156, None),
    "nfsservctl": (180, 42),
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
    # Opens files by handle, bypassing the directories above them.
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    # Settings of the machine.
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "vhangup": (153, 58),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
}
_SHARED: dict[str, tuple[int | None, int | None]] = {
    # Only confined by namespaces; denied for commands without their own.
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "process_mrelease": (448, 448),
}
_ABSENT = {
    # The C library falls back to clone and openat, whose arguments the filter can check.
    "clone3": (435, 435),
    "openat2": (437, 437),
    # Memory that is not charged to any process.
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "msgget": (68, 186),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
}
_INIT_CALLS = {
    # A command that starves the first process of a namespace keeps it from killing the others.
    "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118),
    "sched_setattr": (314, 274),
    "sched_setaffinity": (203, 122),
    "prlimit64": (302, 261),
}
_MODES: dict[str, tuple[int | None, int | None, int]] = {
    # Calls that set the mode of a file, and which argument that is.
    "chmod": (90, None, 1),
    "fchmod": (91, 52, 1),
    "fchmodat": (268, 53, 2),
    "fchmodat2": (452, 452, 2),
    "mkdir": (83, None, 1),
    "mkdirat": (258, 34, 2),
    "mknod": (133, None, 1),
    "mknodat": (259, 33, 2),
    "creat": (85, None, 1),
}
_OPENS: dict[str, tuple[int | None, int | None, int]] = {
    # Calls whose mode counts only if they create a file, and which argument the flags are; the mode comes next.
    "open": (2, None, 1),
    "openat": (257, 56, 2),
}
_SET_ID_BITS = 0o6000
_CREATES = 0o20000100  # O_CREAT, O_TMPFILE
_CLONE, _SETSOCKOPT, _SOCKET, _SOCKETPAIR, _IOCTL = (56, 220), (54, 208), (41, 198), (53, 199), (16, 29)
_PRLIMIT, _FCNTL, _SETPRIORITY, _IOPRIO_SET = (302, 261), (72, 25), (141, 140), (251, 30)

_NEW_NAMESPACES = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
_TIOCSTI, _TIOCLINUX, _TIOCSETD = 0x5412, 0x541C, 0x5423
_FIOSETOWN, _SIOCSPGRP = 0x8901, 0x8902
_F_SETOWN, _F_SETOWN_EX, _NEGATIVE = 8, 15, 0x80000000
_FIRST, _PRIO_PROCESS, _IOPRIO_WHO_PROCESS = 1, 0, 1
_SOL_SOCKET, _BUFFERS = 1, (7, 8, 32, 33)  # SO_SNDBUF, SO_RCVBUF, and both by force
_AF_UNIX, _AF_INET, _AF_INET6 = 1, 2, 10
_STREAM, _DATAGRAM, _SEQUENCED = 1, 2, 5
_TYPE_MASK = 0xF
_PROTOCOLS = (0, 1, 6, 17, 58)  # default, ICMP, TCP, UDP, ICMPv6
_X32 = 0x40000000

_IOCTLS = (_TIOCSTI, _TIOCLINUX, _TIOCSETD, _FIOSETOWN, _SIOCSPGRP)

_LOAD, _MASK, _RETURN = 0x20, 0x54, 0x06
_IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT = 0x15, 0x35, 0x45
_NUMBER, _ARCHITECTURE = 0, 4
_INSTRUCTION = struct.Struct("=HBBI")


@dataclass(frozen=True, slots=True)
class _FilterStep:
    code: int
    value: int
    then: str = ""
    other: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class _FilterMachine:
    audit: int
    column: int
    has_x32: bool = False


_MACHINES = {"x86_64": _FilterMachine(0xC000003E, 0, has_x32=True), "aarch64": _FilterMachine(0xC00000B7, 1)}


def build_filter(machine: str, *, namespaces: bool = True) -> bytes:
    """The filter for a machine (`platform.machine()`), in the format of the kernel and `bwrap --seccomp`.

    `namespaces` means that the command has its own network and IPC namespaces. Without them it gets no network sockets
    and nothing that processes of one user share. Raises `ExecutorUnavailable` for an unsupported machine.
    """
    if machine not in _MACHINES:
        known = " and ".join(_MACHINES)
        raise ExecutorUnavailable(f"no system call filter for {machine}, only for {known}; use a container")
    return _assemble(_build_steps(_MACHINES[machine], namespaces))


def _build_steps(machine: _FilterMachine, namespaces: bool) -> list[_FilterStep]:
    column = machine.column
    steps = [
        _FilterStep(_LOAD, _ARCHITECTURE),
        _FilterStep(_IF_EQUAL, machine.audit, "", "kill"),
        _FilterStep(_LOAD, _NUMBER),
    ]
    if machine.has_x32:
        steps.append(_FilterStep(_IF_AT_LEAST, _X32, "kill"))
    denied = {**_DENIED, **({} if namespaces else _SHARED)}
    numbers = (numbers[column] for numbers in denied.values())
    steps += [_FilterStep(_IF_EQUAL, number, "refuse") for number in numbers if number is not None]
    steps += [
        _FilterStep(_IF_EQUAL, numbers[column], "absent") for name, numbers in _ABSENT.items() if name not in denied
    ]
    steps += _match_call(
        _CLONE[column], [_load_argument(0), _FilterStep(_IF_ANY_BIT, _NEW_NAMESPACES, "refuse", "allow")]
    )
    steps += _match_call(_IOCTL[column], [_load_argument(1), *_match_any(_IOCTLS, "refuse", "allow")])
    steps += _match_call(_FCNTL[column], _OWNER_STEPS)
    steps += _match_call(_SOCKETPAIR[column], _PAIR_STEPS)
    # A program with a set-id bit would run as the owner of the workspace for whoever finds it there.
    mode = _FilterStep(_IF_ANY_BIT, _SET_ID_BITS, "refuse", "allow")
    for *numbers, place in _MODES.values():
        steps += _match_call(numbers[column], [_load_argument(place), mode])
    for *numbers, place in _OPENS.values():
        flags = [_load_argument(place), _FilterStep(_IF_ANY_BIT, _CREATES, "", "allow")]
        steps += _match_call(numbers[column], [*flags, _load_argument(place + 1), mode])
    # Socket buffers are kernel memory, which is not charged to any process.
    options = [_load_argument(1), _FilterStep(_IF_EQUAL, _SOL_SOCKET, "", "allow"), _load_argument(2)]
    steps += _match_call(_SETSOCKOPT[column], [*options, *_match_any(_BUFFERS, "refuse", "allow")])
    if namespaces:
        steps += _match_call(_SOCKET[column], _SOCKET_STEPS)
        for numbers in _INIT_CALLS.values():
            first = _FilterStep(_IF_EQUAL, _FIRST, "refuse", "allow")
            steps += _match_call(numbers[column], [_load_argument(0), first])
        # Only for one process other than the first; groups and users include the first.
        for numbers, kind in ((_SETPRIORITY, _PRIO_PROCESS), (_IOPRIO_SET, _IOPRIO_WHO_PROCESS)):
            one = [_load_argument(0), _FilterStep(_IF_EQUAL, kind, "", "refuse"), _load_argument(1)]
            steps += _match_call(numbers[column], [*one, _FilterStep(_IF_EQUAL, _FIRST, "refuse", "allow")])
    else:
        steps.append(_FilterStep(_IF_EQUAL, _SOCKET[column], "refuse"))
        steps += _match_call(_PRLIMIT[column], [_load_argument(0), _FilterStep(_IF_EQUAL, 0, "allow", "refuse")])
    return [
        *steps,
        _FilterStep(_RETURN, ALLOW, label="allow"),
        _FilterStep(_RETURN, REFUSE | errno.EPERM, label="refuse"),
        _FilterStep(_RETURN, REFUSE | errno.ENOSYS, label="absent"),
        _FilterStep(_RETURN, KILL, label="kill"),
    ]


def _load_argument(place: int) -> _FilterStep:
    # The lower half only: these arguments have 32 bits, and the kernel ignores the rest.
    return _FilterStep(_LOAD, 16 + 8 * place)


def _match_any(values: Sequence[int], inside: str, outside: str) -> list[_FilterStep]:
    *others, last = values
    return [*(_FilterStep(_IF_EQUAL, value, inside) for value in others), _FilterStep(_IF_EQUAL, last, inside, outside)]


def _match_call(number: int | None, body: Sequence[_FilterStep]) -> list[_FilterStep]:
    """Steps for one call only, if the machine has it; each path through them must end in a label."""
    if number is None:
        return []
    after = f"after {number}"
    return [_FilterStep(_IF_EQUAL, number, "", after), *body, _FilterStep(_LOAD, _NUMBER, label=after)]


# Only sockets confined by a network namespace: not AF_UNIX (reaches sockets by path), AF_VSOCK (the hypervisor),
# AF_NETLINK, AF_PACKET, AF_ALG; and no protocol that makes the kernel load a module.
_SOCKET_STEPS = [
    _load_argument(0),
    _FilterStep(_IF_EQUAL, _AF_INET, "type"),
    _FilterStep(_IF_EQUAL, _AF_INET6, "", "refuse"),
    _FilterStep(_LOAD, 16 + 8, label="type"),
    _FilterStep(_MASK, _TYPE_MASK),
    _FilterStep(_IF_EQUAL, _STREAM, "protocol"),
    _FilterStep(_IF_EQUAL, _DATAGRAM, "", "refuse"),
    _FilterStep(_LOAD, 16 + 16, label="protocol"),
    *_match_any(_PROTOCOLS, "allow", "refuse"),
]
# A file can signal its owning process group even after all processes that set it have ended.
_OWNER_STEPS = [
    _load_argument(1),
    _FilterStep(_IF_EQUAL, _F_SETOWN_EX, "refuse"),
    _FilterStep(_IF_EQUAL, _F_SETOWN, "", "allow"),
    _load_argument(2),
    _FilterStep(_IF_ANY_BIT, _NEGATIVE, "refuse", "allow"),
]
# Datagram socket pairs could be reconnected to a socket of the host; RAW is the same as datagram.
_PAIR_STEPS = [
    _load_argument(0),
    _FilterStep(_IF_EQUAL, _AF_UNIX, "", "refuse"),
    _load_argument(1),
    _FilterStep(_MASK, _TYPE_MASK),
    *_match_any((_STREAM, _SEQUENCED), "allow", "refuse"),
]


def _assemble(steps: Sequence[_FilterStep]) -> bytes:
    places = {step.label: place for place, step in enumerate(steps) if step.label}

    def distance(label: str, place: int) -> int:
        return places[label] - place - 1 if label else 0

    return b"".join(
        _INSTRUCTION.pack(step.code, distance(step.then, place), distance(step.other, place), step.value)
        for place, step in enumerate(steps)
    )
