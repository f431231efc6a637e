"""One connection to a process that serves the calls of a skill, one at a time: one write and mostly one read a call."""

import asyncio
import socket
from collections.abc import Callable

from openskills.errors import ExecutorUnavailable
from openskills.host.running.fork_protocol import Ended, Frames

Heard = Callable[[str, bytes], None]
"""Told the name of a stream and what came on it."""

_CHUNK = 256 * 1024
_GONE = "the process that served the skill has ended; try again"


class Slot:
    """Serves one call at a time. It belongs to the event loop in which it was made."""

    def __init__(self, number: int, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.number = number
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._answer: asyncio.Future[Ended] | None = None
        self._frames = Frames()
        self._heard: Heard | None = None
        self._unsent = memoryview(b"")
        self.usable = True
        self._loop.add_reader(connection, self._listen)

    async def call(self, message: bytes, deadline: float, heard: Heard | None = None) -> Ended:
        """Have one call served.

        Raises `Late` at the deadline (the loop's time) and `ExecutorUnavailable` when the other side ends. The
        slot cannot be used again after either, nor after a cancellation: what serves it has to be ended.
        """
        if not self.usable:
            raise ExecutorUnavailable(_GONE)
        answer = self._answer = self._loop.create_future()
        self._frames, self._heard = Frames(), heard
        timer = self._loop.call_at(deadline, self._too_late, answer)
        try:
            self._send(memoryview(message))
            return await answer
        except BaseException:
            self.usable = False
            raise
        finally:
            timer.cancel()
            self._answer = None

    def close(self) -> None:
        """Let go of the connection: what serves it ends by itself, unless a call is running. Safe to call twice."""
        self.usable = False
        if self._connection.fileno() >= 0:
            self._loop.remove_reader(self._connection)
            self._loop.remove_writer(self._connection)
            self._connection.close()
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ExecutorUnavailable(_GONE))

    def _too_late(self, answer: "asyncio.Future[Ended]") -> None:
        if not answer.done():
            answer.set_exception(self._frames.late())

    def _send(self, data: memoryview) -> None:
        try:
            data = data[self._connection.send(data) :]
        except BlockingIOError:
            pass
        except OSError:
            self.close()
            return
        self._unsent = data
        if data:
            self._loop.add_writer(self._connection, self._send_more)

    def _send_more(self) -> None:
        self._loop.remove_writer(self._connection)
        self._send(self._unsent)

    def _listen(self) -> None:
        try:
            data = self._connection.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        try:
            ended = self._frames.feed(data)
        except ValueError:
            data = b""
            ended = None
        if not data:
            self.close()
            return
        if self._heard is not None:
            for stream, part in self._frames.fresh:
                self._heard(stream, part)
        self._frames.fresh.clear()
        answer = self._answer
        if ended is not None and answer is not None and not answer.done():
            answer.set_result(ended)
