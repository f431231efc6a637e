import ctypes
import errno
import os
import platform
import re
import struct
from pathlib import Path

import pytest

from openskills.errors import ExecutorUnavailable
from openskills.executors.bubblewrap.seccomp import ALLOW, KILL, REFUSE, build_filter

X86_64, AARCH64 = (0xC000003E, "x86_64"), (0xC00000B7, "aarch64")
EPERM, ENOSYS = REFUSE | errno.EPERM, REFUSE | errno.ENOSYS
NEWUSER, NEWNET, VM = 0x10000000, 0x40000000, 0x100
NUMBERS = {
    "x86_64": {"read": 0, "clone": 56, "clone3": 435, "socket": 41, "socketpair": 53, "ioctl": 16, "ptrace": 101}
    | {"mount": 165, "unshare": 272, "bpf": 321, "io_uring_setup": 425, "execve": 59, "shmget": 29, "prlimit64": 302}
    | {"memfd_create": 319, "fchmod": 91, "fchmodat": 268, "fchmodat2": 452, "mkdirat": 258, "mknodat": 259}
    | {"openat": 257, "openat2": 437},
    "aarch64": {"read": 63, "clone": 220, "clone3": 435, "socket": 198, "socketpair": 199, "ioctl": 29, "ptrace": 117}
    | {"mount": 40, "unshare": 97, "bpf": 280, "io_uring_setup": 425, "execve": 221, "shmget": 194, "prlimit64": 261}
    | {"memfd_create": 279, "fchmod": 52, "fchmodat": 53, "fchmodat2": 452, "mkdirat": 34, "mknodat": 33}
    | {"openat": 56, "openat2": 437},
}
MACHINES = pytest.mark.parametrize("machine", ["x86_64", "aarch64"])


def judged(filter_: bytes, audit: int, number: int, *arguments: int) -> int:
    """What the kernel would do: a small interpreter of its filter language."""
    data = struct.pack("=IIQ6Q", number & 0xFFFFFFFF, audit, 0, *(*arguments, 0, 0, 0, 0, 0, 0)[:6])
    steps = list(struct.iter_unpack("=HBBI", filter_))
    place = value = 0
    while True:
        code, then, other, constant = steps[place]
        place += 1
        match code:
            case 0x20:
                (value,) = struct.unpack_from("=I", data, constant)
            case 0x54:
                value &= constant
            case 0x06:
                return constant
            case 0x15 | 0x35 | 0x45:
                holds = {0x15: value == constant, 0x35: value >= constant, 0x45: bool(value & constant)}[code]
                place += then if holds else other
            case _:
                raise AssertionError(f"unknown step {code:#x}")


def verdict(machine: str, call: str, *arguments: int, namespaces: bool = True) -> int:
    audit = X86_64[0] if machine == "x86_64" else AARCH64[0]
    return judged(build_filter(machine, namespaces=namespaces), audit, NUMBERS[machine][call], *arguments)


@MACHINES
@pytest.mark.parametrize("call", ["ptrace", "mount", "unshare", "bpf", "io_uring_setup"])
def test_ways_into_other_processes_and_the_kernel_are_refused(machine: str, call: str) -> None:
    assert verdict(machine, call) == EPERM


@MACHINES
@pytest.mark.parametrize("call", ["read", "execve"])
def test_ordinary_calls_are_allowed(machine: str, call: str) -> None:
    assert verdict(machine, call) == ALLOW


@MACHINES
def test_a_new_process_is_allowed_and_a_new_namespace_is_not(machine: str) -> None:
    assert verdict(machine, "clone", VM | 17) == ALLOW
    assert verdict(machine, "clone", NEWUSER | 17) == EPERM
    assert verdict(machine, "clone", NEWNET | VM) == EPERM
    assert verdict(machine, "clone3") == ENOSYS


@MACHINES
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((2, 1, 0), ALLOW),  # AF_INET, stream
        ((10, 2 | 0o2000000, 17), ALLOW),  # AF_INET6, datagram, close on exec, UDP
        ((2, 3, 1), EPERM),  # raw
        ((2, 1, 132), EPERM),  # SCTP makes the kernel load a module
        ((1, 1, 0), EPERM),  # AF_UNIX
        ((40, 1, 0), EPERM),  # AF_VSOCK
        ((16, 3, 0), EPERM),  # AF_NETLINK
        ((17, 3, 0), EPERM),  # AF_PACKET
        ((38, 5, 0), EPERM),  # AF_ALG
        ((1 | 1 << 32, 1, 0), EPERM),  # the kernel ignores the upper half, and so must the filter
    ],
)
def test_only_sockets_that_stay_in_a_network_namespace_are_allowed(
    machine: str, arguments: tuple[int, ...], expected: int
) -> None:
    assert verdict(machine, "socket", *arguments) == expected
    assert verdict(machine, "socket", *arguments, namespaces=False) == EPERM


@MACHINES
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [((1, 1), ALLOW), ((1, 5 | 0o4000), ALLOW), ((1, 2), EPERM), ((1, 3), EPERM), ((2, 1), EPERM)],
)
def test_pairs_of_sockets_that_can_be_connected_elsewhere_are_refused(
    machine: str, arguments: tuple[int, ...], expected: int
) -> None:
    assert verdict(machine, "socketpair", *arguments) == expected


@MACHINES
@pytest.mark.parametrize(
    ("request_", "expected"),
    [(0x5412, EPERM), (0x541C, EPERM), (0x5423, EPERM), (0x5412 | 1 << 32, EPERM), (0x5413, ALLOW), (0x5401, ALLOW)],
)
def test_a_terminal_cannot_be_typed_into(machine: str, request_: int, expected: int) -> None:
    assert verdict(machine, "ioctl", 0, request_) == expected


@MACHINES
def test_what_only_a_namespace_keeps_apart_is_refused_without_one(machine: str) -> None:
    assert verdict(machine, "shmget", namespaces=False) == EPERM
    assert verdict(machine, "prlimit64", 0, namespaces=False) == ALLOW
    assert verdict(machine, "prlimit64", 1, namespaces=False) == EPERM


@MACHINES
def test_memory_that_counts_for_nobody_cannot_be_had(machine: str) -> None:
    assert verdict(machine, "shmget") == ENOSYS
    assert verdict(machine, "memfd_create") == ENOSYS


@MACHINES
@pytest.mark.parametrize("namespaces", [True, False])
def test_no_file_gets_a_set_id_bit(machine: str, namespaces: bool) -> None:
    create, temporary = 0o101, 0o20200002
    for bits, expected in ((0o4755, EPERM), (0o2755, EPERM), (0o755, ALLOW), (0o1777, ALLOW)):
        assert verdict(machine, "fchmod", 3, bits, namespaces=namespaces) == expected
        assert verdict(machine, "fchmodat", 3, 0, bits, namespaces=namespaces) == expected
        assert verdict(machine, "fchmodat2", 3, 0, bits, namespaces=namespaces) == expected
        assert verdict(machine, "mkdirat", 3, 0, bits, namespaces=namespaces) == expected
        assert verdict(machine, "mknodat", 3, 0, 0o100000 | bits, namespaces=namespaces) == expected
        for flags in (create, temporary):
            assert verdict(machine, "openat", 3, 0, flags, bits, namespaces=namespaces) == expected
        # Without a new file the mode does not count, and may be anything.
        assert verdict(machine, "openat", 3, 0, 0, bits, namespaces=namespaces) == ALLOW
    assert verdict(machine, "openat2", namespaces=namespaces) == ENOSYS


def test_calls_of_another_architecture_kill() -> None:
    assert judged(build_filter("x86_64"), AARCH64[0], 63) == KILL
    assert judged(build_filter("aarch64"), X86_64[0], 0) == KILL
    assert judged(build_filter("x86_64"), 0x40000003, 3) == KILL  # 32 bits
    assert judged(build_filter("x86_64"), X86_64[0], 0x40000000 | 101) == KILL  # x32


@MACHINES
def test_every_jump_of_the_filter_ends_inside_it(machine: str) -> None:
    for namespaces in (True, False):
        steps = list(struct.iter_unpack("=HBBI", build_filter(machine, namespaces=namespaces)))
        for place, (code, then, other, _) in enumerate(steps):
            if code & 7 == 5:
                assert place + 1 + max(then, other) < len(steps)
        assert steps[-1][0] == 0x06


def test_an_unknown_machine_has_no_filter_and_so_no_sandbox() -> None:
    with pytest.raises(ExecutorUnavailable, match="riscv64"):
        build_filter("riscv64")


def test_the_numbers_are_those_of_the_system_headers() -> None:
    header = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
    if not header.exists():
        pytest.skip("the kernel's headers are not installed")
    numbers = {name: int(number) for name, number in re.findall(r"__NR_(\w+) (\d+)", header.read_text())}
    wanted = ["ptrace", "pidfd_getfd", "move_mount", "setns", "keyctl", "userfaultfd", "kexec_load", "reboot", "semop"]
    for name in [*wanted, "open_by_handle_at", "perf_event_open", "init_module", "swapon", "acct", "msgsnd"]:
        assert judged(build_filter("x86_64", namespaces=False), X86_64[0], numbers[name]) == EPERM, name


def test_the_kernel_takes_the_filter_and_does_what_it_says() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    steps = build_filter(platform.machine())

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_char_p)]

    child = os.fork()
    if child == 0:
        libc.prctl(38, 1, 0, 0, 0)
        if libc.prctl(22, 2, ctypes.byref(Program(len(steps) // 8, steps)), 0, 0):
            os._exit(1)
        refused = libc.unshare(NEWUSER) == -1 and ctypes.get_errno() == errno.EPERM
        os._exit(0 if refused and os.getpid() else 2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
