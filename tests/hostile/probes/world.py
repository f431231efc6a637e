"""What was planted around the place where probes run: written outside, read inside.

Secrets themselves are not in it, only their digests, so that a probe which finds one has really been outside.
"""

import hashlib
import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path

TOKEN = re.compile(rb"osk-[0-9a-f]{32}")
TEXT = "osk-"


@dataclass(frozen=True)
class World:
    """Every path, number and name is one of ours: nothing here belongs to the machine or to somebody else."""

    digests: dict[str, str]
    """From the sha256 of a token to the place where it was planted."""
    outside: str
    """A directory beside the workspace: `secret.txt`, `victim.txt`, `steal.txt`, `names/`, `drop/`."""
    shared_memory: str
    temporary: str
    """A file of ours in the machine's directory for temporary files."""
    variable: str
    loaders: list[str]
    host_pid: int
    victim_pid: int
    victim_address: int
    victim_fd: int
    host_fd: int
    port: int
    port6: int
    udp_port: int
    address: str
    """An address of this machine that is not loopback; empty when it has none."""
    unix_path: str
    unix_datagram: str
    abstract: str
    abstract_datagram: str
    inner_socket: str
    """Our socket in the workspace itself, relative to it."""
    terminal: str
    shm_id: int
    queue_id: int
    queue_name: str
    key_id: int
    neighbour: str
    """The tree of another session's workspace, as a path of the host."""
    private: str
    """The directory around the workspace's own tree, which is for the host only."""
    store: str
    """A file in the store of snapshots; empty where there is none."""
    repository: str
    home: str
    identities: dict[str, list[int]]
    """Device and inode of directories and files of the host, to tell them from others of the same name."""
    namespaces: dict[str, str]
    handle: str
    handle_type: int
    limits: dict[str, int]
    skill: str = "skills/other"
    suid: str = ""
    marker: str = ""
    only: list[str] = field(default_factory=list[str])

    def place_of(self, data: bytes) -> str | None:
        """Where a secret in these bytes was planted."""
        for token in TOKEN.findall(data):
            if place := self.digests.get(digest(token)):
                return place
        return None

    def dump(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self))


def load(path: str) -> World:
    """From a file with JSON."""
    return World(**json.loads(Path(path).read_text("utf-8")))


def digest(token: bytes) -> str:
    """What stands for a token inside."""
    return hashlib.sha256(token).hexdigest()
