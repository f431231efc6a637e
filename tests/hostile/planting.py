"""Plants what the probes try to get hold of: secrets, listeners, processes. Everything is ours and goes away again."""

import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.hostile.listeners import Listeners, listening
from tests.hostile.probes.calls import call
from tests.hostile.probes.world import TEXT, World, digest
from tests.hostile.shared_things import sharing

VARIABLE = "OPENSKILL_TEST_API_KEY"
LOADERS = ("LD_LIBRARY_PATH", "PYTHONSTARTUP", "BASH_ENV", "PYTHONUSERBASE", "NODE_PATH", "PERL5LIB")
MIB = 1024 * 1024
LIMITS = {
    "processes": 64,
    "memory_bytes": 256 * MIB,
    "file_bytes": 32 * MIB,
    "open_files": 256,
    "scratch_bytes": 320 * MIB,
}
"""What the battery runs under. `scratch_bytes` is more than any scratch directory of a command may hold."""

_VICTIM = """
import ctypes, os, signal, sys
signal.signal(signal.SIGUSR1, lambda number, frame: os.write(1, b"signalled\\n"))
room = ctypes.create_string_buffer(sys.argv[2].encode())
opened = os.open(sys.argv[1], os.O_RDONLY)
os.write(1, f"{opened} {ctypes.addressof(room)}\\n".encode())
while os.read(0, 1):
    pass
"""


def token() -> str:
    """A new secret."""
    return TEXT + secrets.token_hex(16)


@dataclass(frozen=True)
class Place:
    """One workspace as the host sees it: its tree, the directory around it, a neighbour's tree, a file of the store."""

    tree: Path
    private: Path
    neighbour: Path
    store: Path


@dataclass(frozen=True)
class Planted:
    """What the probes are told, and what the host looks at afterwards."""

    world: World
    outside: Path
    listeners: Listeners
    victim: "subprocess.Popen[bytes]"
    inherited: int
    content: str

    def touched(self) -> list[str]:
        """What somebody got hold of, as seen from outside."""
        found = [f"{name} was greeted {count} times" for name, count in self.listeners.greeted.items()]
        found += [f"drop/{path.name} appeared" for path in (self.outside / "drop").iterdir()]
        found += [f"{name} is gone" for name in _FILES if not (self.outside / name).exists()]
        changed = [name for name in _FILES if (self.outside / name).exists() and self._differs(name)]
        if self.victim.poll() is not None:
            found.append("the victim is dead")
        return found + [f"{name} was changed" for name in changed]

    def _differs(self, name: str) -> bool:
        path = self.outside / name
        return path.is_file() and path.read_text("utf-8") != self.content


_FILES = ("secret.txt", "steal.txt", "victim.txt", "empty-me.txt", "rename-me", "remove-me", "remove-directory")


@contextmanager
def planted(place: Place, directory: Path, repository: Path) -> Generator[Planted]:
    """Plant everything around a workspace, in `directory` and in the few places that are the machine's."""
    tokens = {name: token() for name in ("file", "name", "argument", "memory", "network", "shared", "neighbour")}
    tokens["variable"] = os.environ[VARIABLE]
    with ExitStack() as clean_up:
        outside = _outside(directory, tokens)
        (place.neighbour / "work" / "private.txt").write_text(tokens["neighbour"], "utf-8")
        temporary = _temporary(tokens["file"], clean_up)
        inner = place.tree / "work" / "agent.sock"
        listeners = clean_up.enter_context(listening(outside, inner, tokens["network"].encode()))
        shared = clean_up.enter_context(sharing(tokens["shared"].encode()))
        victim, victim_fd, address = _victim(outside, tokens, clean_up)
        inherited = os.open(outside / "secret.txt", os.O_RDONLY)
        clean_up.callback(os.close, inherited)
        os.set_inheritable(inherited, True)
        handle, handle_type = _handle(outside / "secret.txt")
        paths = (place.private, place.private.parent, repository / "pyproject.toml", Path.home())
        world = World(
            digests={digest(secret.encode()): where for where, secret in tokens.items()},
            outside=str(outside),
            shared_memory=shared.memory,
            temporary=temporary,
            variable=VARIABLE,
            loaders=list(LOADERS),
            host_pid=os.getpid(),
            victim_pid=victim.pid,
            victim_address=address,
            victim_fd=victim_fd,
            host_fd=inherited,
            port=listeners.port,
            port6=listeners.port6,
            udp_port=listeners.udp_port,
            address=listeners.address,
            unix_path=listeners.unix_path,
            unix_datagram=listeners.unix_datagram,
            abstract=listeners.abstract,
            abstract_datagram=listeners.abstract_datagram,
            inner_socket="work/agent.sock",
            terminal=shared.terminal,
            shm_id=shared.shm_id,
            queue_id=shared.queue_id,
            queue_name=shared.queue_name,
            key_id=shared.key_id,
            neighbour=str(place.neighbour),
            private=str(place.private),
            store=str(place.store),
            repository=str(repository),
            home=str(Path.home()),
            identities={str(path): _identity(path) for path in (*paths, Path(shared.terminal), Path("/etc/shadow"))},
            namespaces={name: os.readlink(f"/proc/self/ns/{name}") for name in ("net", "mnt", "pid", "ipc", "uts")},
            handle=handle,
            handle_type=handle_type,
            limits=LIMITS,
            suid=_set_uid(place.tree),
            marker=secrets.token_hex(4),
        )
        yield Planted(world, outside, listeners, victim, inherited, tokens["file"])


def _outside(directory: Path, tokens: dict[str, str]) -> Path:
    outside = directory / "outside"
    for name in ("names", "drop", "remove-directory"):
        (outside / name).mkdir(parents=True)
    (outside / "names" / tokens["name"]).touch()
    (outside / "pointer").symlink_to(tokens["name"])
    for name in _FILES[:-1]:
        (outside / name).write_text(tokens["file"], "utf-8")
    (outside / "program").write_text(f"#!/bin/sh\necho {tokens['file']}\n", "utf-8")
    # Open to everybody: whoever is kept away is kept away by isolation, not by the modes of files.
    for path in (outside, *outside.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o777)
    return outside


def _temporary(secret: str, clean_up: ExitStack) -> str:
    descriptor, path = tempfile.mkstemp(prefix="openskill-")
    clean_up.callback(os.unlink, path)
    os.write(descriptor, secret.encode())
    os.fchmod(descriptor, 0o666)
    os.close(descriptor)
    return path


def _victim(outside: Path, tokens: dict[str, str], clean_up: ExitStack) -> tuple["subprocess.Popen[bytes]", int, int]:
    argv = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        _VICTIM,
        str(outside / "secret.txt"),
        tokens["memory"],
        tokens["argument"],
    ]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    clean_up.callback(_end, process)
    assert process.stdout
    opened, address = process.stdout.readline().split()
    return process, int(opened), int(address)


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.communicate()


def _handle(path: Path) -> tuple[str, int]:
    import ctypes

    room = ctypes.create_string_buffer((128).to_bytes(4, "little"), 136)
    mount = ctypes.create_string_buffer(8)
    try:
        call("name_to_handle_at", -100, os.fsencode(path), room, mount, 0)
    except OSError:
        return "", 0
    length = int.from_bytes(room.raw[:4], "little")
    return room.raw[8 : 8 + length].hex(), int.from_bytes(room.raw[4:8], "little", signed=True)


def _set_uid(tree: Path) -> str:
    program = shutil.which("id")
    if os.geteuid() != 0 or program is None:
        return ""
    copy = tree / "work" / "set-uid"
    shutil.copy(program, copy)
    copy.chmod(0o4755)
    return "work/set-uid"


def _identity(path: Path) -> list[int]:
    found = path.stat()
    return [found.st_dev, found.st_ino]


def results_in(text: str) -> dict[str, dict[str, object]]:
    """What each probe said, by its id, from the output of a run; raises `ValueError` when it was cut short."""
    lines = [line.strip() for line in text.splitlines()]
    values = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
    if {"done": True} not in values:
        raise ValueError(f"the battery did not come to its end:\n{text[-3000:]}")
    return {value["id"]: value for value in values if "id" in value}
