"""A container for one call: made, spoken with over its three streams, and removed. Blocking."""

import socket
import struct
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, cast

from openskills.errors import ExecutorUnavailable
from openskills.executors.container.engine import Engine

_HEADER = struct.Struct(">BxxxI")
_NAMES = {1: "stdout", 2: "stderr"}
_CHUNK = 64 * 1024

Hear = Callable[[str, bytes], bool]
"""Told the name of a stream and what came on it; says whether to go on."""


class _Attaching(Protocol):
    def attach_socket(self, container: str, params: Mapping[str, Any]) -> Any: ...
    def wait(self, container: str, timeout: int) -> Mapping[str, Any]: ...


class CallEngine(Engine):
    """An engine that runs containers to their end."""

    def run(self, request: Mapping[str, Any], stdin: bytes, hear: Hear, began: Callable[[str], None]) -> int:
        """Run a container to its end; its exit status, -1 when it was removed before. `began` is told its id.

        Raises `ExecutorUnavailable` when it cannot be made or started.
        """
        container = self.create(request)
        try:
            began(container)
            with self._attached(container) as stream:
                self.start(container)
                writer = threading.Thread(target=_written, args=(stream, stdin), daemon=True)
                writer.start()
                if not _heard(stream, hear):
                    return -1
            return self._status(container)
        finally:
            self.remove(container)

    @contextmanager
    def _attached(self, container: str) -> Generator[socket.socket]:
        api = cast("_Attaching", self._api)
        with self._asking("cannot attach to a container"):
            found = api.attach_socket(container, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
        # The package hands out a part of a part of what has to be closed.
        stream = cast("socket.socket", getattr(found, "_sock", found))
        response = getattr(stream, "_response", None) or getattr(found, "_response", None)
        try:
            stream.settimeout(None)
            yield stream
        finally:
            if response is not None:
                response.close()
            found.close()
            stream.close()

    def _status(self, container: str) -> int:
        api = cast("_Attaching", self._api)
        try:
            with self._asking("cannot be asked how a container ended"):
                return int(api.wait(container, timeout=10)["StatusCode"])
        except ExecutorUnavailable:
            return -1


def _written(stream: socket.socket, data: bytes) -> None:
    try:
        stream.sendall(data)
        stream.shutdown(socket.SHUT_WR)
    except OSError:
        # It ended without reading all of it.
        return


def _heard(stream: socket.socket, hear: Hear) -> bool:
    """Tell what comes until the container has ended; false when nobody wants more before that."""
    unread = bytearray()
    while True:
        try:
            data = stream.recv(_CHUNK)
        except OSError:
            return True
        if not data:
            return True
        unread += data
        while len(unread) >= _HEADER.size:
            number, length = _HEADER.unpack_from(unread)
            end = _HEADER.size + length
            if len(unread) < end:
                break
            if number in _NAMES and not hear(_NAMES[number], bytes(unread[_HEADER.size : end])):
                return False
            del unread[:end]
