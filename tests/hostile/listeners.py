"""Listeners of our own on every kind of socket. Each answers a greeting with a secret, and counts."""

import os
import selectors
import socket
import threading
from collections import Counter
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Listeners:
    """Where they are, and who was greeted how often."""

    port: int
    port6: int
    udp_port: int
    address: str
    unix_path: str
    unix_datagram: str
    abstract: str
    abstract_datagram: str
    greeted: Counter[str]


@contextmanager
def listening(directory: Path, inner: Path, secret: bytes) -> Generator[Listeners]:
    """Listen until the end of the block: on the network, in `directory`, and at `inner` in a workspace."""
    greeted: Counter[str] = Counter()
    with ExitStack() as open_ones:
        selector = open_ones.enter_context(selectors.DefaultSelector())

        def listen(name: str, family: int, kind: int, address: object) -> socket.socket:
            link = open_ones.enter_context(socket.socket(family, kind))
            link.bind(address)  # type: ignore[arg-type]
            if kind == socket.SOCK_STREAM:
                link.listen(16)
            if isinstance(address, str) and not address.startswith("\0"):
                # Whoever is kept away is not kept away by the modes of files.
                os.chmod(address, 0o777)
            selector.register(link, selectors.EVENT_READ, name)
            return link

        stream, datagram, unix = socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.AF_UNIX
        abstract = f"openskill-{os.getpid()}-{directory.name}"
        tcp = listen("tcp", socket.AF_INET, stream, ("0.0.0.0", 0))
        port6 = listen("tcp6", socket.AF_INET6, stream, ("::1", 0)).getsockname()[1] if _has_ipv6() else 0
        udp = listen("udp", socket.AF_INET, datagram, ("0.0.0.0", 0))
        listen("unix", unix, stream, f"{directory}/stream.sock")
        listen("unix datagram", unix, datagram, f"{directory}/datagram.sock")
        # An address has room for about a hundred characters, a path for more.
        parent = os.open(inner.parent, os.O_RDONLY | os.O_CLOEXEC)
        open_ones.callback(os.close, parent)
        listen("in the workspace", unix, stream, f"/proc/self/fd/{parent}/{inner.name}")
        listen("abstract", unix, stream, f"\0{abstract}")
        listen("abstract datagram", unix, datagram, f"\0{abstract}-d")
        stop, stopping = socket.socketpair()
        open_ones.enter_context(stop)
        open_ones.enter_context(stopping)
        selector.register(stop, selectors.EVENT_READ, "")
        thread = threading.Thread(target=_serve, args=(selector, secret, greeted))
        thread.start()
        try:
            yield Listeners(
                tcp.getsockname()[1],
                port6,
                udp.getsockname()[1],
                own_address(),
                f"{directory}/stream.sock",
                f"{directory}/datagram.sock",
                abstract,
                f"{abstract}-d",
                greeted,
            )
        finally:
            stopping.send(b"x")
            thread.join()


def own_address() -> str:
    """An address of this machine that is not loopback; empty when it has none. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        try:
            link.connect(("192.0.2.1", 9))
        except OSError:
            return ""
        return str(link.getsockname()[0])


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as link:
            link.bind(("::1", 0))
    except OSError:
        return False
    return True


def _serve(selector: selectors.BaseSelector, secret: bytes, greeted: Counter[str]) -> None:
    while True:
        for key, _ in selector.select():
            if not key.data:
                return
            link = key.fileobj
            assert isinstance(link, socket.socket)
            greeted[key.data] += 1
            try:
                _answer(link, secret)
            except OSError:
                # Whoever asked has gone; it is counted.
                continue


def _answer(link: socket.socket, secret: bytes) -> None:
    if link.type == socket.SOCK_DGRAM:
        _, sender = link.recvfrom(4096)
        if sender:
            link.sendto(secret, sender)
        return
    connection, _ = link.accept()
    with connection:
        connection.settimeout(2)
        connection.recv(4096)
        connection.sendall(secret)
