"""Devices and the files of the kernel. They are opened, at most; nothing is written to any of them."""

import glob
import os
import stat
from pathlib import Path

from tests.hostile.probes.probe import Attack, Probe, add, probe
from tests.hostile.probes.world import World

_ABSENT = "the machine does not have it, or not for this user"
_READ, _WRITE, _SEE = os.O_RDONLY, os.O_WRONLY, os.O_PATH


def _opens(pattern: str, flags: int) -> Attack:
    """Open the first of the paths that lets itself be opened."""

    def attack(world: World) -> str | None:
        refused: OSError | None = None
        for path in sorted(glob.glob(pattern)):
            try:
                os.close(os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY))
            except OSError as error:
                refused = error
            else:
                return path
        if refused:
            raise refused
        return None

    return attack


_FILES: dict[str, tuple[str, str, int]] = {
    "dev-kmsg": ("opens the log of the kernel", "/dev/kmsg", _READ),
    "dev-mem": ("opens the memory of the machine", "/dev/mem", _READ),
    "dev-port": ("opens the ports of the machine", "/dev/port", _READ),
    "dev-kvm": ("opens the hypervisor", "/dev/kvm", _READ),
    "dev-fuse": ("opens FUSE", "/dev/fuse", os.O_RDWR),
    "dev-vsock": ("opens the way to the hypervisor", "/dev/*vsock", _READ),
    "dev-loop": ("opens a loop device", "/dev/loop*", _READ),
    "dev-tun": ("opens a tunnel", "/dev/net/tun", os.O_RDWR),
    "dev-userfaultfd": ("opens the device for page faults", "/dev/userfaultfd", _READ),
    "dev-screen": ("reads what is on the screen of the machine", "/dev/vcs*", _READ),
    "dev-btrfs": ("opens the control of a file system", "/dev/btrfs-control", _READ),
    "kcore": ("opens the memory of the kernel", "/proc/kcore", _READ),
    "kpagecount": ("opens the counts of physical pages", "/proc/kpage*", _READ),
    "core-pattern": ("would set the program for core dumps", "/proc/sys/kernel/core_pattern", _WRITE),
    "modprobe-path": ("would set the program that loads modules", "/proc/sys/kernel/modprobe", _WRITE),
    "sysctl-host-name": ("would set the name of the host", "/proc/sys/kernel/hostname", _WRITE),
    "sysctl-ip-forward": ("would make it a router", "/proc/sys/net/ipv4/ip_forward", _WRITE),
    "sysctl-overcommit": ("would change how memory is given", "/proc/sys/vm/overcommit_memory", _WRITE),
    "sysctl-binfmt": ("would register an interpreter", "/proc/sys/fs/binfmt_misc/*", _WRITE),
    "sysrq": ("would press the system request key", "/proc/sysrq-trigger", _WRITE),
    "irq": ("would move interrupts", "/proc/irq/*/smp_affinity", _WRITE),
    "sys-power": ("would put the machine to sleep", "/sys/power/state", _WRITE),
    "sys-uevent": ("would make device events", "/sys/class/mem/*/uevent", _WRITE),
    "sys-helper": ("would set the helper for device events", "/sys/kernel/uevent_helper", _WRITE),
    "sys-huge-pages": ("would change huge pages", "/sys/kernel/mm/transparent_hugepage/enabled", _WRITE),
    "sys-debug": ("opens debug files of the kernel", "/sys/kernel/debug/*", _READ),
    "sys-security": ("opens files of security modules", "/sys/kernel/security/*", _READ),
    "cgroup-processes": ("would leave its group of processes", "/sys/fs/cgroup/*/cgroup.procs", _WRITE),
    "cgroup-root": ("would leave its group of processes (v2)", "/sys/fs/cgroup/cgroup.procs", _WRITE),
    "cgroup-release": ("would set a program that root runs", "/sys/fs/cgroup/*/release_agent", _WRITE),
    "firmware": ("opens variables of the firmware", "/sys/firmware/efi/efivars/*", _READ),
    "engine-socket": ("sees the socket of a container engine", "/run/*.sock", _SEE),
    "engine-socket-below": ("sees the socket of another engine", "/run/*/*.sock", _SEE),
    "bus-socket": ("sees the system bus", "/run/dbus/system_bus_socket", _SEE),
}

for _name, (_tries, _pattern, _flags) in _FILES.items():
    add(Probe(_name, "escape", _tries, _opens(_pattern, _flags), by_root=True, depends=_ABSENT))


@probe("escape", "opens a disk of the machine", by_root=True, depends=_ABSENT)
def disk(world: World) -> str | None:
    for name in os.listdir("/dev"):
        if stat.S_ISBLK(os.lstat(f"/dev/{name}").st_mode):
            os.close(os.open(f"/dev/{name}", os.O_RDONLY | os.O_NONBLOCK))
            return name
    return None


@probe("escape", "learns where the kernel is in memory", by_root=True, depends=_ABSENT)
def kernel_addresses(world: World) -> str | None:
    with open("/proc/kallsyms", encoding="ascii") as file:
        first = [file.readline().split()[0] for _ in range(10)]
    return first[-1] if any(int(address, 16) for address in first) else None


@probe("escape", "sees more devices than a program needs")
def too_many_devices(world: World) -> str | None:
    needed = {"null", "zero", "full", "random", "urandom", "tty", "console", "ptmx"}
    kinds = {name: stat.S_IFMT(os.lstat(f"/dev/{name}").st_mode) for name in os.listdir("/dev") if name not in needed}
    return ", ".join(name for name, kind in kinds.items() if kind in (stat.S_IFCHR, stat.S_IFBLK)) or None


@probe("escape", "makes itself the last one that the kernel ends when memory is short", by_root=True, depends=_ABSENT)
def never_out_of_memory(world: World) -> str | None:
    score = Path("/proc/self/oom_score_adj")
    score.write_text(str(max(-1000, int(score.read_text("ascii")) - 1)), "ascii")
    return "lowered"


@probe("processes", "writes to the terminal of somebody else")
def terminal_of_another(world: World) -> str | None:
    found = os.fstat(os.open(world.terminal, os.O_WRONLY | os.O_NOCTTY))
    return world.terminal if world.identities[world.terminal] == [found.st_dev, found.st_ino] else None
