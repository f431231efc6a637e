"""What comes along from the host without being asked for: variables, descriptors, arguments, keys."""

import ctypes
import os
import stat
import subprocess
from pathlib import Path

from tests.hostile.probes.calls import call
from tests.hostile.probes.probe import Attack, Probe, add, probe
from tests.hostile.probes.world import World

_SESSION_KEYRING = -3
_KEYCTL_READ = 11
_ENOKEY = 126
_NO_KEYRINGS = "a kernel without keyrings"
_PLAIN = ("pipe:", "/dev/pts/", "/dev/null", "/dev/tty")


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(1 << 20)


def output_of(*argv: str) -> bytes:
    """What a program prints; its complaints are dropped."""
    return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False).stdout


@probe("secrets", "looks for the host's secrets in its own environment")
def own_environment(world: World) -> str | None:
    return world.place_of("\n".join(f"{name}={value}" for name, value in os.environ.items()).encode())


@probe("secrets", "looks for a variable of the host by its name")
def variable_by_name(world: World) -> str | None:
    return os.environ.get(world.variable)


@probe("secrets", "is led by variables of the host for loaders and interpreters")
def loader_variables(world: World) -> str | None:
    return ", ".join(name for name in world.loaders if world.outside in os.environ.get(name, "")) or None


@probe("secrets", "asks a shell for its variables")
def environment_of_a_shell(world: World) -> str | None:
    return world.place_of(output_of("bash", "-c", "export -p; set; env"))


def _reads_of_process(pattern: str) -> Attack:
    def attack(world: World) -> str | None:
        numbers = {"host": world.host_pid, "victim": world.victim_pid, "parent": os.getppid()}
        return world.place_of(_read(pattern.format(**numbers)))

    return attack


_ENVIRONS = {
    "self": ("reads /proc/self/environ", "/proc/self/environ", ""),
    "init": ("reads the environment of process 1", "/proc/1/environ", "process 1 of the machine is not ours"),
    "parent": ("reads the environment of its parent", "/proc/{parent}/environ", ""),
    "host": ("reads the environment of the host process", "/proc/{host}/environ", ""),
    "victim": ("reads the environment of another process of ours", "/proc/{victim}/environ", ""),
}

for _name, (_tries, _pattern, _unarmed) in _ENVIRONS.items():
    add(Probe(f"environ-of-{_name}", "secrets", _tries, _reads_of_process(_pattern), unarmed=_unarmed))


def _everywhere(world: World, file: str) -> str | None:
    # Ours first: bare, nobody else's are read.
    ours = (str(world.victim_pid), str(world.host_pid))
    names = filter(str.isdigit, os.listdir("/proc"))
    for name in sorted(names, key=lambda name: name not in ours):
        try:
            place = world.place_of(_read(f"/proc/{name}/{file}"))
        except OSError:
            continue
        if place:
            return f"{place}, in process {name}"
    return None


@probe("secrets", "reads the environment of every process that it sees")
def environ_of_all(world: World) -> str | None:
    return _everywhere(world, "environ")


@probe("secrets", "reads the arguments of every process that it sees")
def arguments_of_all(world: World) -> str | None:
    return _everywhere(world, "cmdline")


@probe("secrets", "prints the arguments of every process with a shell")
def arguments_by_shell(world: World) -> str | None:
    return world.place_of(output_of("bash", "-c", "cat /proc/[0-9]*/cmdline"))


@probe("secrets", "reads descriptors that the host left open")
def inherited_descriptors(world: World) -> str | None:
    for name in os.listdir("/proc/self/fd"):
        try:
            data = os.pread(int(name), 4096, 0) if int(name) > 2 else b""
        except OSError:
            continue
        if place := world.place_of(data):
            return f"{place}, in descriptor {name}"
    return None


@probe("secrets", "has anything open beyond 0, 1 and 2")
def more_than_three_descriptors(world: World) -> str | None:
    extra: list[str] = []
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            # That was the descriptor of the listing itself.
            continue
        # The answer goes into a pipe.
        if int(name) > 2 and not target.startswith("pipe:"):
            extra.append(f"{name} ({target})")
    return ", ".join(extra) or None


@probe("secrets", "reads back what its standard streams are written to")
def streams_lead_to_files(world: World) -> str | None:
    for number in (0, 1, 2):
        if stat.S_ISREG(os.fstat(number).st_mode):
            again = os.open(f"/proc/self/fd/{number}", os.O_RDONLY)
            if place := world.place_of(os.pread(again, 65536, 0)):
                return f"{place}, in descriptor {number}"
    return None


@probe("secrets", "finds something else than pipes or a terminal at its standard streams")
def odd_streams(world: World) -> str | None:
    targets = [os.readlink(f"/proc/self/fd/{number}") for number in (0, 1, 2)]
    return ", ".join(target for target in targets if not target.startswith(_PLAIN)) or None


@probe("secrets", "reads a key from the session keyring of the host", depends=_NO_KEYRINGS)
def key_of_host(world: World) -> str | None:
    room = ctypes.create_string_buffer(4096)
    call("keyctl", _KEYCTL_READ, world.key_id, room, 4096)
    return world.place_of(room.raw)


@probe("secrets", "finds its session keyring", depends=_NO_KEYRINGS)
def session_keyring(world: World) -> str | None:
    return f"keyring {call('keyctl', 0, _SESSION_KEYRING, 1)}"


@probe("secrets", "puts a key into a keyring", depends=_NO_KEYRINGS)
def add_a_key(world: World) -> str | None:
    return f"key {call('add_key', b'user', b'openskill-probe', b'x', 1, -1)}"


@probe("secrets", "searches the keyrings", depends=_NO_KEYRINGS)
def search_for_a_key(world: World) -> str | None:
    try:
        return f"key {call('request_key', b'user', b'openskill-absent', None, 0)}"
    except OSError as error:
        if error.errno != _ENOKEY:
            raise
        return "the search is allowed"


@probe("secrets", "finds a key of the host in /proc/keys", depends=_NO_KEYRINGS)
def list_of_keys(world: World) -> str | None:
    return "listed" if f"{world.key_id & 0xFFFFFFFF:08x}" in Path("/proc/keys").read_text("utf-8") else None
