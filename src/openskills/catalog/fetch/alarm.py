"""A bound on the time of a whole exchange with a server."""

import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from weakref import WeakSet


class Alarm:
    """Cuts the connections when time is over.

    The timeouts of an HTTP client count from one piece to the next, so a server that drips bytes would hold us for
    ever. `watch` is for httpx2's `trace` extension; `sockets` are those of the client, old ones included, because a
    connection may be used again.
    """

    def __init__(self, seconds: float, sockets: WeakSet[socket.socket]) -> None:
        self.rang = False
        self._sockets = sockets
        self._lock = threading.Lock()
        self._timer = threading.Timer(seconds, self._ring)
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def watch(self, event: str, info: Mapping[str, Any]) -> None:
        """Remember a connection that was made."""
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            with self._lock:
                self._sockets.add(info["return_value"].get_extra_info("socket"))
                if self.rang:
                    self._cut()

    def _ring(self) -> None:
        with self._lock:
            self.rang = True
            self._cut()

    def _cut(self) -> None:
        for connection in list(self._sockets):
            # Not SSLSocket's own method: that would take its state away from the thread that is reading.
            with suppress(OSError):
                socket.socket.shutdown(connection, socket.SHUT_RDWR)
