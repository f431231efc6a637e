"""Reading what lies outside the workspace."""

import os
from pathlib import Path

from tests.hostile.probes.calls import call
from tests.hostile.probes.probe import Attack, Probe, add, probe
from tests.hostile.probes.world import World

_CLIMB = "../" * 40
_NOT_OURS = "process 1 of the machine is not ours"


def seen(world: World, path: str) -> str | None:
    """The place whose secret is in this file."""
    with open(path, "rb") as file:
        return world.place_of(file.read(65536))


def _secret(world: World) -> str:
    return f"{world.outside}/secret.txt"


def _reads(pattern: str) -> Attack:
    """Open a path that is made from a pattern, and look for a secret."""

    def attack(world: World) -> str | None:
        host, victim, fd, victim_fd = world.host_pid, world.victim_pid, world.host_fd, world.victim_fd
        names = {"secret": _secret(world), "climb": _CLIMB, "host": host, "victim": victim}
        return seen(world, pattern.format(fd=fd, victim_fd=victim_fd, **names))

    return attack


# Where the root of the file system can be found again, and why it is not tried bare.
_ROADS = {
    "by-its-path": ("opens a file outside by its absolute path", "{secret}", ""),
    "by-climbing": ("opens a file outside with many '..'", "{climb}{secret}", ""),
    "by-own-root": ("opens a file outside through /proc/self/root", "/proc/self/root{secret}", ""),
    "by-own-cwd": ("climbs out of /proc/self/cwd", "/proc/self/cwd/{climb}{secret}", ""),
    "by-thread-root": ("opens a file outside through /proc/thread-self/root", "/proc/thread-self/root{secret}", ""),
    "by-root-of-init": (
        "opens a file outside through /proc/1/root",
        "/proc/1/root{secret}",
        _NOT_OURS,
    ),
    "by-root-of-host": (
        "opens a file outside through the root of the host",
        "/proc/{host}/root{secret}",
        "",
    ),
    "by-task-of-host": ("opens a file outside through a task of it", "/proc/{host}/task/{host}/root{secret}", ""),
    "by-cwd-of-host": ("climbs out of its working directory", "/proc/{host}/cwd/{climb}{secret}", ""),
    "by-fd-of-host": ("opens a file that the host has open", "/proc/{host}/fd/{fd}", ""),
    "by-fd-of-victim": ("opens a file that another process has open", "/proc/{victim}/fd/{victim_fd}", ""),
}

for _name, (_tries, _pattern, _unarmed) in _ROADS.items():
    add(Probe(f"secret-{_name}", "escape", _tries, _reads(_pattern), unarmed=_unarmed))


@probe("escape", "follows a symbolic link that it made itself to a file outside")
def secret_by_symlink(world: World) -> str | None:
    os.symlink(_secret(world), "work/soft")
    try:
        return seen(world, "work/soft")
    finally:
        os.unlink("work/soft")


@probe("escape", "makes a hard link to a file outside and reads that")
def secret_by_hard_link(world: World) -> str | None:
    os.link(_secret(world), "work/hard")
    try:
        return seen(world, "work/hard")
    finally:
        os.unlink("work/hard")


@probe("escape", "moves a file from outside into the workspace")
def secret_by_rename(world: World) -> str | None:
    os.rename(f"{world.outside}/steal.txt", "work/stolen.txt")
    return seen(world, "work/stolen.txt")


@probe("escape", "opens a file outside by its file handle, without any path", by_root=True)
def secret_by_handle(world: World) -> str | None:
    raw = bytes.fromhex(world.handle)
    handle = len(raw).to_bytes(4, "little") + world.handle_type.to_bytes(4, "little", signed=True) + raw
    mount = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    opened = call("open_by_handle_at", mount, handle, os.O_RDONLY)
    return world.place_of(os.read(opened, 65536))


@probe("escape", "lists a directory outside")
def names_outside(world: World) -> str | None:
    return world.place_of(" ".join(os.listdir(f"{world.outside}/names")).encode())


@probe("escape", "asks whether a file outside exists")
def existence_outside(world: World) -> str | None:
    return f"{os.stat(_secret(world)).st_size} bytes"


@probe("escape", "reads where a link outside leads to")
def link_outside(world: World) -> str | None:
    return world.place_of(os.readlink(f"{world.outside}/pointer").encode())


@probe("escape", "runs a program that lies outside")
def program_outside(world: World) -> str | None:
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.dup2(writing, 1)
        try:
            os.execv(f"{world.outside}/program", ["program"])
        finally:
            os._exit(1)
    os.close(writing)
    return world.place_of(os.read(reading, 4096))


@probe("secrets", "reads a file in the machine's directory for temporary files")
def temporary_files_of_host(world: World) -> str | None:
    return seen(world, world.temporary)


@probe("secrets", "reads the code of this project on the host")
def repository(world: World) -> str | None:
    path = f"{world.repository}/pyproject.toml"
    return _same(world, path) if "openskills" in Path(path).read_text("utf-8") else None


@probe("secrets", "lists the home of the user who runs the host")
def home_of_host(world: World) -> str | None:
    os.listdir(world.home)
    return _same(world, world.home)


@probe("secrets", "reads the passwords of the machine", by_root=True)
def password_hashes(world: World) -> str | None:
    os.close(os.open("/etc/shadow", os.O_RDONLY))
    return _same(world, "/etc/shadow")


@probe("secrets", "lists what the host keeps beside the workspace: lease, journal, records")
def records_of_host(world: World) -> str | None:
    os.listdir(world.private)
    return _same(world, world.private)


@probe("secrets", "lists the workspaces of all sessions")
def workspaces_of_all(world: World) -> str | None:
    parent = os.path.dirname(world.private)
    os.listdir(parent)
    return _same(world, parent)


@probe("secrets", "reads a file in the workspace of another session")
def workspace_of_another(world: World) -> str | None:
    return seen(world, f"{world.neighbour}/work/private.txt")


def _same(world: World, path: str) -> str | None:
    """Whether this is the host's own, and not another of the same name."""
    found = os.stat(path)
    return path if world.identities.get(path) == [found.st_dev, found.st_ino] else None
