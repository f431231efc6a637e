"""The host's side of `keeper.py`: start commands over a connection, and hear how they end."""

import asyncio
import errno
import json
import os
import signal
import socket
import struct
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from openskills.child import Helper, begin
from openskills.errors import ExecutorUnavailable, InvalidArgument

PROGRAM: Final = Path(__file__).parents[1] / "inside" / "keeper.py"

_HEADER = struct.Struct("!I")
_MAX_EVENT = 64 * 1024
_CHUNK = 64 * 1024
_NOT_THERE = (errno.ENOENT, errno.EACCES, errno.ENOTDIR, errno.ENOEXEC, errno.EINVAL, errno.E2BIG)
_GONE = "the process that starts commands has ended; try again"


class NotBegun(ExecutorUnavailable):
    """The system would not start the command, which has certainly not begun."""


@dataclass(frozen=True, slots=True)
class Launch:
    """What a keeper is to start. `fds` maps numbers in the command to descriptors of ours."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str | int
    fds: Mapping[int, int]
    terminal: int | None = None
    ignored: Sequence[int] = ()
    handshake: tuple[int, int] | None = None
    hold: bool = False
    contained: bool = False
    umask: int = 0o077
    user: int | None = None
    joins: bool = False


@dataclass(frozen=True, slots=True)
class Exit:
    """How a command ended; a negative `status` is a signal. `lost`: its keeper ended, and the command with it.

    `reusable`: where it ran is as it was before, and may be used for another one.
    """

    status: int
    was_ready: bool = True
    cpu_ms: int = 0
    clean: bool = True
    lost: bool = False
    reusable: bool = False


class Kept:
    """A command that a keeper has started.

    `ready_at` is the loop's time at which it was set up; `notes` are sentences for the result, until it has ended.
    `seen_as` is the number under which this machine knows what contains it, where its keeper sees other numbers.
    """

    def __init__(self, keeper: "Keeper", identity: int) -> None:
        loop = asyncio.get_running_loop()
        self._keeper = keeper
        self._identity = identity
        self._started: asyncio.Future[int] = loop.create_future()
        self._ready: asyncio.Future[None] = loop.create_future()
        self._exited: asyncio.Future[Exit] = loop.create_future()
        self.ready_at: float | None = None
        self.seen_as: int | None = None
        self.notes: list[str] = []

    @property
    def pid(self) -> int:
        """Its process id, as its keeper sees it; or that of what contains it."""
        return self.seen_as or self._started.result()

    async def ready(self) -> None:
        """Wait until it is set up, which is at once without a handshake, or until it has ended."""
        await asyncio.wait([self._ready, self._exited], return_when=asyncio.FIRST_COMPLETED)

    async def exited(self) -> Exit:
        """How it ended."""
        return await asyncio.shield(self._exited)

    def then(self, act: Callable[[Exit], None]) -> None:
        """Call this with how it ended, as soon as it has: sooner than who awaits that."""
        self._exited.add_done_callback(lambda done: act(done.result()))

    def release(self) -> None:
        """Let it begin, after `hold`."""
        self._keeper.tell({"op": "release", "id": self._identity})

    def signal(self, number: int, *, deep: bool = False) -> None:
        """Send a signal to its process group; `deep`: to the command inside, where it is contained."""
        self._keeper.tell({"op": "signal", "id": self._identity, "number": number, "deep": deep})

    async def started(self) -> None:
        """Wait until it runs; raises what kept it from running. Only one may wait, and whether it runs is not known to
        anybody when he is cancelled."""
        await self._started

    def hear(self, event: Mapping[str, Any]) -> bool:
        """Take in what the keeper says; true when that was the last word."""
        what = event["event"]
        if what == "started" and not self._started.done():
            self._started.set_result(int(event["pid"]))
        elif what == "ready" and not self._ready.done():
            self._ready.set_result(None)
            self.ready_at = self._ready.get_loop().time()
        elif what == "failed":
            self._fail(_not_started(int(event["errno"]), str(event["what"])))
            return True
        elif what == "exited":
            self._end(_exit(event))
            return True
        return False

    def give_up(self) -> None:
        """Stop waiting for its end."""
        self._keeper.give_up(self)

    def lose(self) -> None:
        """The keeper is gone, and the command with it."""
        self._fail(ExecutorUnavailable(_GONE))
        self._end(Exit(-9, lost=True))

    def _fail(self, error: Exception) -> None:
        if not self._started.done() and self._is_heard():
            self._started.set_exception(error)
            # Whoever waits hears it; nobody else is to be told that nobody listened.
            self._started.exception()

    def _end(self, end: Exit) -> None:
        if not self._exited.done() and self._is_heard():
            self._exited.set_result(end)

    def _is_heard(self) -> bool:
        """Whether anybody can be waiting: those of a loop that was closed cannot even be told."""
        return not self._exited.get_loop().is_closed()


class Keeper:
    """A connection to a keeper. It belongs to the event loop in which it was begun.

    `alone`: it runs on this machine, for one command at a time, so it may be killed when it does not answer.
    """

    def __init__(self, connection: socket.socket, helper: Helper | None = None, *, alone: bool = False) -> None:
        connection.setblocking(False)
        self._alone = alone
        self._process = -1
        self._connection = connection
        self._helper = helper
        self._loop = asyncio.get_running_loop()
        self._heard = bytearray()
        self._unsent: deque[tuple[bytearray, list[int]]] = deque()
        self._commands: dict[int, Kept] = {}
        self._is_full = False
        self._next = 0
        self._closed = False
        self._loop.add_reader(connection, self._listen)

    @classmethod
    async def begin(cls) -> "Keeper":
        """Start the program beside this process."""
        helper = begin([sys.executable, "-I", "-S", str(PROGRAM)], {})
        return cls(helper.connection, helper)

    @property
    def usable(self) -> bool:
        """Whether it can start commands: nobody closed it or ended its program, and its loop is this one."""
        return not self._closed and not self._loop.is_closed() and self._loop is asyncio.get_running_loop()

    async def start(self, launch: Launch) -> Kept:
        """Start a command. The descriptors are copied before this returns; the caller closes its own.

        Raises `InvalidArgument` when its program or directory does not exist, `ExecutorUnavailable` when it cannot be
        started for another reason.
        """
        self._next += 1
        descriptors, message = _described(launch, self._next)
        kept = self._commands[self._next] = Kept(self, self._next)
        if launch.handshake is None:
            kept.hear({"event": "ready"})
        self._say(message, descriptors)
        try:
            await kept.started()
        except asyncio.CancelledError:
            # It may run by now, and nobody will ever hear of it.
            kept.signal(signal.SIGKILL)
            raise
        return kept

    async def fork(self) -> "Keeper":
        """A second keeper, in a process of its own."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self._say({"op": "fork"}, [theirs.fileno()])
            except ExecutorUnavailable:
                ours.close()
                raise
        return Keeper(ours, alone=self._helper is not None)

    def limit(self, limits: Sequence[tuple[int, int, int]]) -> None:
        """Limit everything that is started from now on: (resource, soft, hard)."""
        self.tell({"op": "limit", "limits": [list(limit) for limit in limits]})

    def tell(self, message: Mapping[str, Any]) -> None:
        """Say something that needs no answer; when the keeper is gone there is nobody to hear it."""
        if not self._closed:
            self._say(message, ())

    def let_go(self) -> None:
        """Have it end with all its commands, without waiting for that. Safe to call twice."""
        self._lose()

    async def close(self) -> None:
        """End it and all its commands."""
        if self._loop.is_closed() or self._loop is asyncio.get_running_loop():
            self._lose()
        else:
            # What belongs to a loop that lives is touched in its own thread only.
            self._loop.call_soon_threadsafe(self._lose)
        if self._helper is not None:
            await asyncio.to_thread(self._helper.see_it_end)

    def _say(self, message: Mapping[str, Any], descriptors: Sequence[int]) -> None:
        if self._closed:
            raise ExecutorUnavailable(_GONE)
        data = json.dumps(message).encode()
        self._unsent.append((bytearray(_HEADER.pack(len(data)) + data), list(descriptors)))
        if len(self._unsent) == 1:
            self._send()
        if self._unsent:
            self._copy()

    def _copy(self) -> None:
        """Have descriptors of our own of what was said last: who said it may be cancelled, and closes his."""
        _, descriptors = self._unsent[-1]
        copies: list[int] = []
        try:
            copies.extend(map(os.dup, descriptors))
        except OSError as error:
            self._unsent.pop()
            _close(copies)
            raise NotBegun(f"no more files can be opened: {error.strerror}; end other commands") from None
        descriptors[:] = copies

    def _send(self) -> None:
        """Send what can be sent now, and the rest when there is room."""
        while self._unsent:
            data, descriptors = self._unsent[0]
            try:
                # The descriptors go with the first byte.
                sent = socket.send_fds(self._connection, [data], descriptors)
            except BlockingIOError:
                self._loop.add_writer(self._connection, self._send)
                self._is_full = True
                return
            except OSError:
                self._lose()
                return
            if self._is_full:
                # What had to wait has copies.
                _close(descriptors)
            descriptors.clear()
            del data[:sent]
            if not data:
                self._unsent.popleft()
        if self._is_full:
            self._loop.remove_writer(self._connection)
            self._is_full = False

    def _listen(self) -> None:
        try:
            data = self._connection.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lose()
            return
        self._heard += data
        # What a container sends was said by somebody that a skill's script may have replaced.
        try:
            self._understand()
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            self._lose()

    def _understand(self) -> None:
        while len(self._heard) >= _HEADER.size:
            (length,) = _HEADER.unpack_from(self._heard)
            if length > _MAX_EVENT:
                raise ValueError(length)
            end = _HEADER.size + length
            if len(self._heard) < end:
                return
            event = cast("Mapping[str, Any]", json.loads(self._heard[_HEADER.size : end]))
            del self._heard[:end]
            if event["event"] == "serving":
                self._know(int(event["pid"]))
                continue
            kept = self._commands.get(int(event["id"]))
            if kept is not None and kept.hear(event):
                del self._commands[int(event["id"])]

    def _know(self, pid: int) -> None:
        # Only of a keeper that we have had forked ourselves does the number mean anything here.
        if self._alone and self._process < 0 and sys.platform == "linux":
            with suppress(ProcessLookupError):
                self._process = os.pidfd_open(pid)

    def give_up(self, kept: "Kept") -> None:
        """Stop waiting for a command that should have ended; a keeper that has no other is ended, too."""
        if self._alone:
            self._lose()
        kept.lose()

    def _lose(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._process >= 0:
            # It ends by itself when the connection closes, unless a command has stopped it.
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._process, signal.SIGKILL)
            os.close(self._process)
            self._process = -1
        if not self._loop.is_closed():
            self._loop.remove_reader(self._connection)
            self._loop.remove_writer(self._connection)
        self._connection.close()
        if self._is_full:
            for _, descriptors in self._unsent:
                _close(descriptors)
        self._unsent.clear()
        commands, self._commands = self._commands, {}
        for kept in commands.values():
            kept.lose()


def _close(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _described(launch: Launch, identity: int) -> tuple[list[int], dict[str, Any]]:
    descriptors = list(launch.fds.values())
    cwd = launch.cwd
    if isinstance(cwd, int):
        descriptors.append(cwd)
        cwd = len(descriptors) - 1
    return descriptors, {
        "op": "start",
        "id": identity,
        "argv": list(launch.argv),
        "env": dict(launch.env),
        "cwd": cwd,
        "fds": {str(number): index for index, number in enumerate(launch.fds)},
        "terminal": launch.terminal,
        "ignored": [int(number) for number in launch.ignored],
        "handshake": list(launch.handshake) if launch.handshake else None,
        "hold": launch.hold,
        "contained": launch.contained,
        "umask": launch.umask,
        "user": launch.user,
        "joins": launch.joins,
    }


def _exit(event: Mapping[str, Any]) -> Exit:
    return Exit(
        int(event["status"]),
        bool(event["was_ready"]),
        int(event["cpu_ms"]),
        bool(event["clean"]),
        reusable=bool(event.get("reusable")),
    )


def _not_started(number: int, what: str) -> Exception:
    if number in _NOT_THERE:
        return InvalidArgument("command", f"cannot be started: {what}")
    return NotBegun(f"the command cannot be started: {what}")
