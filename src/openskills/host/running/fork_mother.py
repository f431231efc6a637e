"""The host's side of `executors/inside/hostmother.py`: the warm interpreter of one skill, and the slots it serves."""

import asyncio
import json
import os
import signal
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from openskills.errors import ExecutorUnavailable
from openskills.executors.processes.keeping import Kept
from openskills.host.running.fork_slot import Slot

PARTS: Final = ("forkend", "hostend", "sandbox_traces", "hosttraces", "hostcall", "hostzygote", "hostmother")
"""The modules in `executors/inside` that are the program of a mother."""

_ORDER = struct.Struct("!cI")
_LENGTH = struct.Struct("!I")
_MAX_HELLO = 64 * 1024
_ENDS_WITHIN = 2.0
_READY_WITHIN = 300.0
_EXCERPT = 4000

# The bottom of every call's stack. What is executed there ends as if the interpreter had been started with it.
_BOOTSTRAP = """\
stream = open(0, "rb", 0, closefd=False)
names = {{"__name__": "openskills_mother"}}
for size in {sizes!r}:
    part = b""
    while len(part) < size:
        part += stream.read(size - len(part))
    exec(compile(part, "<openskills>", "exec"), names)
end = names["CallEnd"]()
work = names["Mother"](end).serve()
try:
    work[0](*work[1:])
except SystemExit as error:
    end.leave(error)
    raise
except BaseException:
    end.failed()
    raise
else:
    end.leave(None)
"""

Launch = Callable[[Sequence[str], int, int], Awaitable[Kept]]
"""Starts a command with these descriptors as stdin and stderr, and all else as the place of the skill wants it."""


class Refused(Exception):
    """The skill cannot be served by a warm interpreter; the message says why a cold start would be different."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a mother is to load (`named`: and cannot do without), and how much of what its calls write is kept.

    `tidy`: it has a sandbox for itself, which must be as before after each call. `reuse`: one process serves so many
    calls, and not one.
    """

    entry: str
    args: tuple[str, ...]
    path: tuple[str, ...]
    preload: tuple[str, ...]
    named: tuple[str, ...]
    stdout: int
    stderr: int
    tidy: bool = False
    reuse: int = 0

    def plain(self) -> dict[str, Any]:
        """As the other side reads it."""
        return {name: getattr(self, name) for name in self.__slots__}


class Mother:
    """A warm interpreter that has said hello. It belongs to the event loop in which it was begun."""

    def __init__(self, process: Kept, control: socket.socket) -> None:
        self._process = process
        self._control = control
        self._loop = asyncio.get_running_loop()
        self._heard = b""
        self._ending: dict[int, asyncio.Future[None]] = {}
        self._next = 0
        self.slots = 0
        self.usable = True
        self._loop.add_reader(control, self._listen)
        process.then(lambda _: self._lose())

    @classmethod
    async def begin(cls, launch: Launch, python: str, wanted: Wanted, *, within: float = _READY_WITHIN) -> "Mother":
        """Start one, and wait until it has loaded everything, which may take so many seconds.

        Raises `Refused` when it will not serve, and `ExecutorUnavailable` when it cannot be started.
        """
        program = _program()
        boot = _BOOTSTRAP.format(sizes=tuple(map(len, program)))
        ours, theirs = socket.socketpair()
        complaints = os.memfd_create("complaints", os.MFD_CLOEXEC)
        try:
            with theirs:
                process = await launch((python, "-s", "-S", "-P", "-c", boot), theirs.fileno(), complaints)
            try:
                async with asyncio.timeout(within):
                    await _greeted(ours, b"".join(program), wanted.plain(), complaints)
            except TimeoutError:
                process.signal(signal.SIGKILL)
                raise ExecutorUnavailable(f"the interpreter of the skill was not ready within {within:g} s") from None
            except BaseException:
                process.signal(signal.SIGKILL)
                raise
        except BaseException:
            ours.close()
            raise
        finally:
            os.close(complaints)
        return cls(process, ours)

    def open(self) -> Slot:
        """A new slot, which can be called at once. Raises `ExecutorUnavailable` when the interpreter is gone."""
        if not self.usable:
            raise ExecutorUnavailable("the interpreter of the skill has ended; try again")
        self._next += 1
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(self._control, [_ORDER.pack(b"z", self._next)], [theirs.fileno()])
            except OSError:
                ours.close()
                raise ExecutorUnavailable("the interpreter of the skill takes no more calls; try again") from None
        self.slots += 1
        return Slot(self._next, ours)

    async def end(self, slot: Slot) -> None:
        """End what serves a slot, with everything that its call has started; returns when nothing of it is left."""
        slot.close()
        self.slots -= 1
        if not self.usable:
            return
        done = self._ending[slot.number] = self._loop.create_future()
        try:
            self._control.send(_ORDER.pack(b"k", slot.number))
            async with asyncio.timeout(_ENDS_WITHIN):
                await done
        except (TimeoutError, OSError):
            # Somebody has stopped it. Whoever started it ends all that it leaves.
            await self.close()
        finally:
            self._ending.pop(slot.number, None)

    def let_go(self, slot: Slot) -> None:
        """Close a slot that serves no call."""
        slot.close()
        self.slots -= 1

    async def close(self) -> None:
        """End it with all its calls. Safe to call twice."""
        self._lose()
        with suppress(TimeoutError):
            async with asyncio.timeout(_ENDS_WITHIN):
                await self._process.exited()
                return
        self._process.signal(signal.SIGKILL)
        await self._process.exited()

    def _listen(self) -> None:
        try:
            data = self._control.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lose()
            return
        self._heard += data
        while len(self._heard) >= _ORDER.size:
            _, number = _ORDER.unpack_from(self._heard)
            self._heard = self._heard[_ORDER.size :]
            done = self._ending.get(number)
            if done is not None and not done.done():
                done.set_result(None)

    def _lose(self) -> None:
        if not self.usable:
            return
        self.usable = False
        if not self._loop.is_closed():
            self._loop.remove_reader(self._control)
        self._control.close()


@cache
def _program() -> tuple[bytes, ...]:
    inside = Path(__file__).parents[2] / "executors" / "inside"
    return tuple((inside / f"{name}.py").read_bytes() for name in PARTS)


async def _greeted(control: socket.socket, program: bytes, wanted: Mapping[str, Any], complaints: int) -> None:
    loop = asyncio.get_running_loop()
    control.setblocking(False)
    config = json.dumps(wanted).encode()
    try:
        await loop.sock_sendall(control, program + _LENGTH.pack(len(config)) + config)
        (length,) = _LENGTH.unpack(await _exactly(control, _LENGTH.size))
        hello = json.loads(await _exactly(control, min(length, _MAX_HELLO)))
    except (OSError, EOFError, ValueError):
        said = os.pread(complaints, _EXCERPT, 0).decode("utf-8", "replace").strip().splitlines()
        why = f": {said[-1]}" if said else ""
        raise ExecutorUnavailable(f"the interpreter of the skill ended before it was ready{why}") from None
    if hello["failed"]:
        raise ExecutorUnavailable(f"the interpreter of the skill cannot load it: {hello['failed']}")
    if hello["refused"]:
        raise Refused(str(hello["refused"]))


async def _exactly(connection: socket.socket, length: int) -> bytes:
    parts = bytearray()
    while len(parts) < length:
        part = await asyncio.get_running_loop().sock_recv(connection, length - len(parts))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)
