"""Reaching somebody over a Unix socket. Whoever listens is ours, and answers every greeting with a secret."""

import os
import socket
from collections.abc import Callable

from tests.hostile.probes.network import HELLO
from tests.hostile.probes.probe import Attack, Probe, add
from tests.hostile.probes.world import World

_STREAM, _DATAGRAM = socket.SOCK_STREAM, socket.SOCK_DGRAM
_WAIT = 2.0

_Path = Callable[[World], str]


def _greet(link: socket.socket, path: str, world: World) -> str | None:
    link.settimeout(_WAIT)
    link.connect(path)
    link.send(HELLO)
    # A datagram cannot be answered to somebody without a name; it was sent, and the host counts it.
    return f"sent to {path!r}" if link.type == _DATAGRAM else world.place_of(link.recv(4096))


def _connects(kind: int, path: _Path) -> Attack:
    def attack(world: World) -> str | None:
        with socket.socket(socket.AF_UNIX, kind) as link:
            return _greet(link, path(world), world)

    return attack


def _connects_half_of_a_pair(path: _Path) -> Attack:
    def attack(world: World) -> str | None:
        one, other = socket.socketpair(socket.AF_UNIX, _DATAGRAM)
        with one, other:
            return _greet(one, path(world), world)

    return attack


def _through_link(world: World) -> str:
    os.symlink(world.unix_path, "work/socket-link")
    return "work/socket-link"


def _through_host(world: World) -> str:
    return f"/proc/{world.host_pid}/root{world.unix_path}"


_SOCKETS: dict[str, tuple[str, Attack]] = {
    "unix-socket": ("connects to a Unix socket outside", _connects(_STREAM, lambda world: world.unix_path)),
    "unix-socket-by-link": ("connects to it through a link of its own", _connects(_STREAM, _through_link)),
    "unix-socket-by-host": ("connects to it through the root of the host", _connects(_STREAM, _through_host)),
    "unix-socket-in-workspace": (
        "connects to a socket that somebody outside listens on in the workspace",
        _connects(_STREAM, lambda world: world.inner_socket),
    ),
    "unix-datagram": ("sends to a datagram socket outside", _connects(_DATAGRAM, lambda world: world.unix_datagram)),
    "unix-datagram-by-pair": (
        "connects half of a datagram pair to it, for which no socket is opened",
        _connects_half_of_a_pair(lambda world: world.unix_datagram),
    ),
    "abstract-socket": (
        "connects to an abstract socket of the host",
        _connects(_STREAM, lambda world: f"\0{world.abstract}"),
    ),
    "abstract-datagram": (
        "sends to an abstract datagram socket of the host",
        _connects(_DATAGRAM, lambda world: f"\0{world.abstract_datagram}"),
    ),
    "abstract-datagram-by-pair": (
        "connects half of a datagram pair to that",
        _connects_half_of_a_pair(lambda world: f"\0{world.abstract_datagram}"),
    ),
}

for _name, (_tries, _attack) in _SOCKETS.items():
    add(Probe(_name, "network", _tries, _attack))
