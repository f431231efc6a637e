"""System calls by name, also those that Python has no function for."""

import ctypes
import errno
import os
import platform

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.syscall.restype = ctypes.c_long

# name: x86_64, aarch64. What came after 2019 has one number everywhere.
_NUMBERS = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "capset": (126, 91),
    "clone": (56, 220),
    "clone3": (435, 435),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_setup": (425, 425),
    "ioprio_set": (251, 30),
    "kcmp": (312, 272),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "memfd_create": (319, 279),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (279, 239),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "mq_timedsend": (242, 182),
    "mq_timedreceive": (243, 183),
    "msgrcv": (70, 188),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424),
    "pivot_root": (155, 41),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "shmat": (30, 196),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
}

NEWNS, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
NEWCGROUP, NEWTIME = 0x2000000, 0x80

Argument = int | bytes | ctypes.Array[ctypes.c_char] | ctypes.Structure | None


def call(name: str, *arguments: Argument) -> int:
    """The result of a system call; raises OSError."""
    number = _NUMBERS[name][platform.machine() == "aarch64"]
    ctypes.set_errno(0)
    result: int = _LIBC.syscall(number, *[_passed(argument) for argument in arguments])
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), name)
    return result


def libc(name: str, *arguments: Argument) -> int:
    """The result of a function of the C library; raises OSError."""
    function = getattr(_LIBC, name)
    function.restype = ctypes.c_long
    ctypes.set_errno(0)
    result: int = function(*[_passed(argument) for argument in arguments])
    # What gives an int leaves the upper half of the register as it is.
    if result in (-1, 0xFFFFFFFF):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), name)
    return result


def gets_past(name: str, *arguments: Argument, then: tuple[int, ...] = ()) -> str:
    """A call that can have no effect is let through, or refused (`then`) only after the check of rights."""
    try:
        return f"{name} returned {call(name, *arguments)}"
    except OSError as error:
        if error.errno not in then:
            raise
        return f"{name} is allowed ({errno.errorcode[error.errno or 0]} comes after the check of rights)"


def become_as_mighty_as_possible(flags: int = NEWNS) -> None:
    """Whoever is not root becomes root of a user namespace of its own, where that is allowed."""
    if os.geteuid() == 0:
        return
    try:
        call("unshare", NEWUSER | flags)
    except OSError:
        return


def _passed(argument: Argument) -> object:
    if isinstance(argument, ctypes.Structure):
        return ctypes.byref(argument)
    return ctypes.c_long(argument) if isinstance(argument, int) else argument
