"""A TCP relay on loopback between a client and a server: a connection that a test can cut, stall and restore."""

import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress

_CHUNK = 65536


class TcpRelay:
    """Forwards connections from `port` to a server. `received` counts the bytes from clients."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._flows = threading.Event()
        self._flows.set()
        self._cut_after: int | None = None
        self._cut_at: bytes | None = None
        self.received = 0
        self._listener: socket.socket | None = self._listen(0)
        self.port = int(self._listener.getsockname()[1])

    def cut(self) -> None:
        """Reset all connections, and refuse new ones."""
        with self._lock:
            listener, self._listener = self._listener, None
            sockets, self._sockets = self._sockets, set()
            self._cut_after = self._cut_at = None
            # Under the lock, because who sees that it is cut may listen on the same port at once.
            if listener is not None:
                _shut_down(listener)
                listener.close()
        for one in sockets:
            _shut_down(one)

    def cut_after(self, count: int) -> None:
        """Cut as soon as clients have sent so many more bytes: in the middle of a request."""
        with self._lock:
            self._cut_after = self.received + count

    def cut_at(self, answer: bytes) -> None:
        """Cut instead of forwarding the next answer of the server that contains these bytes."""
        with self._lock:
            self._cut_at = answer

    def stall(self) -> None:
        """Forward nothing; connections stay open, as when packets are lost."""
        self._flows.clear()

    def restore(self) -> None:
        """Forward again, and accept new connections."""
        self._flows.set()
        # Under the lock, because connections are only accepted for the listener that is stored.
        with self._lock:
            if self._listener is None:
                self._listener = self._listen(self.port)

    @property
    def is_cut(self) -> bool:
        """Whether connections are refused."""
        with self._lock:
            return self._listener is None

    def _listen(self, port: int) -> socket.socket:
        listener = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        return listener

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                client.close()
                continue
            with self._lock:
                is_open = self._listener is listener
                if is_open:
                    self._sockets |= {client, server}
            if not is_open:
                client.close()
                server.close()
                return
            for source, to in ((client, server), (server, client)):
                threading.Thread(target=self._forward, args=(source, to, source is client), daemon=True).start()

    def _forward(self, source: socket.socket, to: socket.socket, from_client: bool) -> None:
        with suppress(OSError):
            while data := source.recv(_CHUNK):
                self._flows.wait()
                if self._count(len(data)) if from_client else self._is_last(data):
                    self.cut()
                    break
                to.sendall(data)
        with self._lock:
            self._sockets -= {source, to}
        for one in (source, to):
            # The other direction of the same connection closes it, too.
            _shut_down(one)
        source.close()

    def _count(self, size: int) -> bool:
        with self._lock:
            self.received += size
            return self._cut_after is not None and self.received >= self._cut_after

    def _is_last(self, data: bytes) -> bool:
        with self._lock:
            return self._cut_at is not None and self._cut_at in data


def _shut_down(one: socket.socket) -> None:
    """Wake up the thread that waits for this socket, which closes it."""
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)


@contextmanager
def relay_to(port: int) -> Generator[TcpRelay]:
    """A relay to a server on loopback, which ends with the block."""
    relay = TcpRelay(port)
    try:
        yield relay
    finally:
        relay.restore()
        relay.cut()
