"""Namespaces and rights: whose they are, and whether others can be had."""

import ctypes
import errno
import os
import signal
from pathlib import Path

from tests.hostile.probes import calls
from tests.hostile.probes.calls import call
from tests.hostile.probes.inheriting import output_of
from tests.hostile.probes.probe import Attack, Probe, add, probe
from tests.hostile.probes.world import World

_USER_NAMESPACES = "who is not root needs user namespaces"


def _shares(name: str) -> Attack:
    def attack(world: World) -> str | None:
        mine = os.readlink(f"/proc/self/ns/{name}")
        return mine if mine == world.namespaces[name] else None

    return attack


for _name in ("net", "mnt", "pid", "ipc", "uts"):
    add(Probe(f"{_name}-namespace", "escape", f"is in the {_name} namespace of the host", _shares(_name)))


def _unshares(flag: int) -> Attack:
    """Make a new namespace, with the help of a user namespace where that is needed."""

    def attack(world: World) -> str | None:
        try:
            call("unshare", flag)
        except OSError:
            call("unshare", flag | calls.NEWUSER)
        return "made"

    return attack


_NAMESPACES = {
    "user": calls.NEWUSER,
    "mount": calls.NEWNS,
    "pid": calls.NEWPID,
    "net": calls.NEWNET,
    "ipc": calls.NEWIPC,
    "uts": calls.NEWUTS,
    "cgroup": calls.NEWCGROUP,
    "time": calls.NEWTIME,
}

for _name, _flag in _NAMESPACES.items():
    _tries = f"makes a new {_name} namespace"
    add(Probe(f"unshare-{_name}", "escape", _tries, _unshares(_flag), depends=_USER_NAMESPACES))


@probe("escape", "makes a user namespace with clone", depends=_USER_NAMESPACES)
def clone_user(world: World) -> str | None:
    return _made(call("clone", calls.NEWUSER | signal.SIGCHLD, 0, 0, 0, 0))


@probe("escape", "makes a user namespace with clone3, whose flags no filter can read", depends=_USER_NAMESPACES)
def clone3_user(world: World) -> str | None:
    request = ctypes.create_string_buffer(88)
    request[0:8] = calls.NEWUSER.to_bytes(8, "little")
    request[32:40] = int(signal.SIGCHLD).to_bytes(8, "little")
    return _made(call("clone3", request, 88))


def _made(pid: int) -> str:
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return "made"


def _enters(name: str) -> Attack:
    def attack(world: World) -> str | None:
        opened = os.open(f"/proc/{world.host_pid}/ns/{name}", os.O_RDONLY)
        if os.readlink(f"/proc/self/fd/{opened}") != world.namespaces[name]:
            return None
        call("setns", opened, 0)
        return "entered"

    return attack


for _name in ("net", "mnt", "pid", "ipc"):
    add(Probe(f"setns-{_name}", "escape", f"enters the {_name} namespace of the host", _enters(_name), by_root=True))


@probe("escape", "enters namespaces of the host through a descriptor of its process", by_root=True)
def setns_by_process(world: World) -> str | None:
    call("setns", call("pidfd_open", world.host_pid, 0), calls.NEWNET | calls.NEWIPC)
    return "entered"


def _status(name: str) -> str:
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    return next(line.split()[1] for line in lines if line.startswith(f"{name}:"))


def _has_capabilities(name: str) -> Attack:
    def attack(world: World) -> str | None:
        return _status(name) if int(_status(name), 16) else None

    return attack


for _name, _by_root in {"CapEff": True, "CapPrm": True, "CapBnd": False}.items():
    _attack = _has_capabilities(_name)
    add(Probe(f"capabilities-{_name}", "escape", f"has something in {_name}", _attack, by_root=_by_root))


@probe("escape", "may gain rights by running a set-uid program")
def new_privileges(world: World) -> str | None:
    return "no_new_privs is not set" if _status("NoNewPrivs") == "0" else None


@probe("escape", "runs without a filter of system calls")
def no_filter(world: World) -> str | None:
    return "no filter" if _status("Seccomp") == "0" else None


@probe("escape", "is root of the machine under another name", by_root=True)
def root_outside(world: World) -> str | None:
    # Whatever root is called in here, the system belongs to it.
    return "the system is ours" if os.stat("/usr/bin").st_uid == os.getuid() else None


@probe("escape", "becomes root", by_root=True)
def become_root(world: World) -> str | None:
    os.setresuid(0, 0, 0)
    return f"uid {os.geteuid()}"


@probe("escape", "becomes another user", by_root=True)
def become_another(world: World) -> str | None:
    os.setuid(4242)
    return f"uid {os.getuid()}"


@probe("escape", "joins the group of root", by_root=True)
def join_groups(world: World) -> str | None:
    os.setgroups([0])
    return f"groups {os.getgroups()}"


@probe("escape", "is in the group of root", by_root=True)
def group_of_root(world: World) -> str | None:
    return "group 0" if 0 in {os.getgid(), *os.getgroups()} else None


@probe("escape", "gives itself capabilities", by_root=True)
def raise_capabilities(world: World) -> str | None:
    header = (0x20080522).to_bytes(4, "little") + bytes(4)
    # CAP_SYS_ADMIN, effective and permitted.
    call("capset", header, (1 << 21).to_bytes(4, "little") * 2 + bytes(16))
    return "CAP_SYS_ADMIN"


@probe("escape", "gains root by a set-uid program of root", depends="only root can plant such a program")
def set_uid_program(world: World) -> str | None:
    if not world.suid:
        raise OSError(errno.ENOENT, "there is none")
    if os.getuid() == 0:
        os.setresuid(4242, 4242, 4242)
    return "uid 0" if output_of(world.suid, "-u").strip() == b"0" else None
