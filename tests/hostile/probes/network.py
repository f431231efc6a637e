"""Reaching anything over the network. Whoever listens is ours, and answers every greeting with a secret."""

import errno
import socket
from collections.abc import Callable
from pathlib import Path

from tests.hostile.probes.inheriting import output_of
from tests.hostile.probes.probe import Attack, Probe, add, probe
from tests.hostile.probes.world import World

HELLO = b"hello"
_WAIT = 0.7
_IN, _IN6 = socket.AF_INET, socket.AF_INET6
_MPTCP, _SCTP = 262, 132
_METADATA = ("169.254.169.254", "100.100.100.200", "fd00:ec2::254")

_Address = Callable[[World], tuple[str, int]]


def _stream(family: int, address: _Address, protocol: int = 0) -> Attack:
    def attack(world: World) -> str | None:
        with socket.socket(family, socket.SOCK_STREAM, protocol) as link:
            link.settimeout(_WAIT)
            link.connect(_existing(address(world)))
            link.sendall(HELLO)
            return world.place_of(link.recv(4096))

    return attack


def _datagram(address: _Address) -> Attack:
    def attack(world: World) -> str | None:
        with socket.socket(_IN, socket.SOCK_DGRAM) as link:
            link.settimeout(_WAIT)
            link.sendto(HELLO, _existing(address(world)))
            return world.place_of(link.recv(4096))

    return attack


def _existing(address: tuple[str, int]) -> tuple[str, int]:
    if not address[0]:
        raise OSError(errno.EADDRNOTAVAIL, "this machine has no such address")
    return address


def _loopback(world: World) -> tuple[str, int]:
    return "127.0.0.1", world.port


_NO_ADDRESS = "the machine has no address but loopback"
_NO_PROTOCOL = "the kernel does not speak this protocol"
_NO_IPV6 = "the machine has no IPv6"

_CONNECTIONS: dict[str, tuple[str, Attack, str]] = {
    "tcp-loopback": ("connects to a listener of the host on 127.0.0.1", _stream(_IN, _loopback), ""),
    "tcp-loopback6": ("connects to it on ::1", _stream(_IN6, lambda world: ("::1", world.port6)), _NO_IPV6),
    "tcp-mapped": (
        "connects to 127.0.0.1 written as an IPv6 address",
        _stream(_IN6, lambda world: ("::ffff:127.0.0.1", world.port)),
        _NO_IPV6,
    ),
    "tcp-other-loopback": ("uses another loopback address", _stream(_IN, lambda world: ("127.8.8.8", world.port)), ""),
    "tcp-any": ("connects to 0.0.0.0, which is this machine", _stream(_IN, lambda world: ("0.0.0.0", world.port)), ""),
    "tcp-own-address": (
        "connects to the machine by its own address",
        _stream(_IN, lambda world: (world.address, world.port)),
        _NO_ADDRESS,
    ),
    "tcp-multipath": ("connects with multipath TCP", _stream(_IN, _loopback, _MPTCP), _NO_PROTOCOL),
    "sctp": ("connects with SCTP", _stream(_IN, _loopback, _SCTP), _NO_PROTOCOL),
    "udp-loopback": ("sends to 127.0.0.1", _datagram(lambda world: ("127.0.0.1", world.udp_port)), ""),
    "udp-own-address": ("sends to the machine", _datagram(lambda world: (world.address, world.udp_port)), _NO_ADDRESS),
}

for _name, (_tries, _attack, _depends) in _CONNECTIONS.items():
    add(Probe(_name, "network", _tries, _attack, depends=_depends))


@probe("network", "connects a datagram socket to 127.0.0.1")
def udp_connected(world: World) -> str | None:
    with socket.socket(_IN, socket.SOCK_DGRAM) as link:
        link.settimeout(_WAIT)
        link.connect(("127.0.0.1", world.udp_port))
        link.send(HELLO)
        return world.place_of(link.recv(4096))


@probe("network", "sends its greeting along with the connection (TCP fast open)", depends="fast open is switched off")
def tcp_fast_open(world: World) -> str | None:
    with socket.socket() as link:
        link.sendto(HELLO, socket.MSG_FASTOPEN, ("127.0.0.1", world.port))
        link.settimeout(_WAIT)
        return world.place_of(link.recv(4096))


@probe("network", "connects with bash and nothing else")
def tcp_by_bash(world: World) -> str | None:
    script = f"exec 9<>/dev/tcp/127.0.0.1/{world.port}; echo hello >&9; head -c 36 <&9"
    return world.place_of(output_of("bash", "-c", script))


@probe("network", "sends a datagram with bash and nothing else")
def udp_by_bash(world: World) -> str | None:
    script = f"exec 9<>/dev/udp/127.0.0.1/{world.udp_port}; echo hello >&9; timeout 0.7 head -c 36 <&9"
    return world.place_of(output_of("bash", "-c", script))


@probe("network", "finds the listener of the host in /proc/net/tcp")
def list_of_connections(world: World) -> str | None:
    return "listed" if f":{world.port:04X} " in Path("/proc/net/tcp").read_text("ascii") else None


@probe("network", "shares its ports with the host")
def port_of_host(world: World) -> str | None:
    with socket.socket() as link:
        try:
            link.bind(("127.0.0.1", world.port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return "the port is in use in here"
    return None


@probe("network", "has a way to the rest of the world", depends="the machine has no network")
def route_to_the_world(world: World) -> str | None:
    # Connecting a datagram socket looks up the way and sends nothing.
    with socket.socket(_IN, socket.SOCK_DGRAM) as link:
        link.connect(("192.0.2.1", 9))
        return str(link.getsockname()[0])


def _metadata(address: str) -> Attack:
    def attack(world: World) -> str | None:
        with socket.socket(_IN6 if ":" in address else _IN, socket.SOCK_STREAM) as link:
            link.settimeout(0.3)
            link.connect((address, 80))
            return "connected"

    return attack


for _place in _METADATA:
    _tries = f"connects to {_place}, where a cloud hands out credentials"
    add(Probe(f"metadata-{_place}", "network", _tries, _metadata(_place), unarmed="that service is not ours"))


@probe("network", "resolves a name", unarmed="a resolver of the network is not ours, and may be absent")
def resolve_a_name(world: World) -> str | None:
    return output_of("timeout", "2", "getent", "hosts", "example.org").decode() or None


def _open_socket(family: int, kind: int, protocol: int) -> Attack:
    def attack(world: World) -> str | None:
        with socket.socket(family, kind, protocol) as link:
            return f"descriptor {link.fileno()}"

    return attack


# Family, kind, protocol, and whether it takes root.
_FAMILIES = {
    "vsock": ("a socket to the hypervisor", 40, socket.SOCK_STREAM, 0, False),
    "netlink-route": ("a socket to the kernel's network settings", 16, socket.SOCK_RAW, 0, False),
    "netlink-audit": ("a socket to the kernel's audit", 16, socket.SOCK_RAW, 9, False),
    "netlink-events": ("a socket to the kernel's device events", 16, socket.SOCK_DGRAM, 15, False),
    "packet": ("a socket that sees every packet", 17, socket.SOCK_RAW, socket.htons(3), True),
    "crypto": ("a socket to the kernel's ciphers", 38, socket.SOCK_SEQPACKET, 0, False),
    "xdp": ("a socket below the network stack", 44, socket.SOCK_RAW, 0, True),
    "ipsec": ("a socket to the kernel's IPsec keys", 15, socket.SOCK_RAW, 2, True),
    "raw": ("a raw IPv4 socket", _IN, socket.SOCK_RAW, socket.IPPROTO_ICMP, True),
    "raw6": ("a raw IPv6 socket", _IN6, socket.SOCK_RAW, 58, True),
}

for _name, (_what, _family, _kind, _protocol, _by_root) in _FAMILIES.items():
    _attack = _open_socket(_family, _kind, _protocol)
    _depends = "the kernel has no such sockets"
    add(Probe(f"socket-{_name}", "network", f"opens {_what}", _attack, by_root=_by_root, depends=_depends))
