"""Python scripts that start from an interpreter which has their modules loaded already, in the session's own sandbox.

A server (`forkserver.py`) is an ordinary command of the workspace, started in the same way and as isolated as all
others, and never shared between workspaces. Whatever it cannot do exactly as a cold start would, is started cold. A
command that may have begun is never started again.
"""

import asyncio
import json
import os
import signal
import socket
import struct
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol

from openskills.errors import ExecutorUnavailable, InvalidArgument
from openskills.executors.processes.keeping import Keeper, Kept, Launch
from openskills.executors.processes.starting import directly
from openskills.executors.processes.warm_protocol import (
    PythonCommand,
    is_module_name,
    python_command,
    refusal,
    server_argv,
    server_environment,
)
from openskills.executors.rules.without_shell import without_shell
from openskills.executors.spec import Command, Limits

PARTS: Final = ("forkleader", "forkend", "coldstart", "forkserver")
"""The modules beside this one that are the program of a server."""

_HEADER = struct.Struct("!I")
_MAX_HELLO = 64 * 1024
_GOODBYE = 2.0
_STUBBORN = 0.7
_BROKEN_FOR = 60.0
_CLOSING = "the workspace is closing"


class Launching(Protocol):
    """Starts the commands of one workspace: a `Launcher`."""

    @property
    def root(self) -> str: ...
    async def launch(self, command: Command, env: Mapping[str, str], stdio: tuple[int, int, int]) -> Kept: ...


@dataclass(frozen=True, slots=True)
class Warmth:
    """What is to be loaded ahead. `version` changes when the skill does, so that nothing of the old one is used."""

    preload: tuple[str, ...]
    version: str = ""


@dataclass(frozen=True, slots=True)
class Started:
    """A command that was started; `reason` says why it is not warm when it could have been asked to be."""

    kept: Kept
    warm: bool
    reason: str = ""


class _Server:
    """A server that has said hello."""

    def __init__(self, process: Kept, keeper: Keeper) -> None:
        self.process = process
        self.keeper = keeper
        self.running = 0
        self.timer: asyncio.TimerHandle | None = None

    async def end(self, *, patience: float = _GOODBYE) -> None:
        """End it with everything that it runs."""
        if self.timer is not None:
            self.timer.cancel()
        await self.keeper.close()
        await _end(self.process, patience)


class _Line(Keeper):
    """The connection to a server. Commands share its user, and could stop it: then all of them are killed."""

    def __init__(self, connection: socket.socket, process: Kept) -> None:
        super().__init__(connection)
        self._server = process

    def tell(self, message: Mapping[str, Any]) -> None:
        """See `Keeper.tell`."""
        super().tell(message)
        if message.get("number") == signal.SIGKILL:
            self._loop.call_later(_STUBBORN, self._insist, message["id"])

    def give_up(self, kept: Kept) -> None:
        """See `Keeper.give_up`."""
        self._server.signal(signal.SIGKILL)
        super().give_up(kept)

    def _insist(self, identity: int) -> None:
        if identity in self._commands:
            self._server.signal(signal.SIGKILL)


class WarmInterpreters:
    """The servers of one workspace: at most `most`, each ended after `idle` seconds without a command.

    `patience` bounds how long a command waits for a new server; then it starts cold, and the next one has the server.
    """

    def __init__(self, launcher: Launching, *, most: int = 2, idle: float = 300.0, patience: float = 10.0) -> None:
        self._launcher = launcher
        self._most = most
        self._idle = idle
        self._patience = patience
        # The one that was used last is the last.
        self._servers: dict[Hashable, asyncio.Task[_Server]] = {}
        self._broken: dict[Hashable, tuple[float, str]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    @property
    def servers(self) -> int:
        """How many there are now."""
        return len(self._servers)

    async def launch(
        self, command: Command, env: Mapping[str, str], stdio: tuple[int, int, int], warmth: Warmth
    ) -> Started:
        """Start a command, warm if that makes no difference to it but the time, cold otherwise.

        Raises what starting it cold raises.
        """
        found = await self._server_for(command, env, warmth)
        if isinstance(found, str):
            return await self._cold(command, env, stdio, found)
        key, server = found
        server.running += 1
        try:
            kept = await self._begin(server, command, env, stdio)
        except BaseException:
            self._has_ended(key, server)
            raise
        if isinstance(kept, str):
            self._has_ended(key, server)
            if not server.keeper.usable or "has changed" in kept:
                await self._drop(key)
            return await self._cold(command, env, stdio, kept)
        self._follow(self._see_it_end(key, server, kept))
        return Started(kept, warm=True)

    async def close(self) -> None:
        """End all servers."""
        self._closed = True
        for key in list(self._servers):
            await self._drop(key)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _cold(self, command: Command, env: Mapping[str, str], stdio: tuple[int, int, int], why: str) -> Started:
        return Started(await self._launcher.launch(command, env, stdio), warm=False, reason=why)

    async def _server_for(
        self, command: Command, env: Mapping[str, str], warmth: Warmth
    ) -> tuple[Hashable, _Server] | str:
        """A server that can run the command, or why there is none."""
        if self._closed:
            return _CLOSING
        if command.network:
            return "it may use the network"
        if command.secrets:
            # Warm commands of a skill share a user and a process table, and could look into each other.
            return "it has secrets"
        strange = next((name for name in warmth.preload if not is_module_name(name)), None)
        if strange is not None:
            return f"{strange[:80]!r} is no name of a module"
        python = python_command(without_shell(command.argv) or command.argv, env)
        if isinstance(python, str):
            return python
        visible = server_environment(env, {*command.env, *command.secrets})
        key = (python, warmth, command.skill, _held(command.limits), tuple(sorted(visible.items())))
        why_not = self._known_fault(key) or await self._make_room(key)
        if why_not:
            return why_not
        if key not in self._servers:
            self._servers[key] = self._follow(self._start(command, python, visible, warmth))
        server = await self._awaited(key, min(self._patience, command.limits.timeout / 2))
        return server if isinstance(server, str) else (key, server)

    def _known_fault(self, key: Hashable) -> str:
        until, why = self._broken.get(key, (0.0, ""))
        if until > _now():
            return why
        self._broken.pop(key, None)
        return ""

    async def _make_room(self, key: Hashable) -> str:
        """Take the place of the server that was not used for the longest time, if there is no place."""
        if key in self._servers:
            self._servers[key] = self._servers.pop(key)
            return ""
        while len(self._servers) >= self._most:
            for other, task in self._servers.items():
                if _is_idle(task):
                    await self._drop(other)
                    break
            else:
                return f"{self._most} interpreters are busy, and that is the most"
        return ""

    async def _awaited(self, key: Hashable, patience: float) -> _Server | str:
        task = self._servers[key]
        if not task.done():
            # Not for its result: when it is cancelled, nobody has cancelled who waits.
            await asyncio.wait([task], timeout=patience)
        if not task.done():
            return "its modules are still being loaded"
        if task.cancelled():
            return _CLOSING
        try:
            server = task.result()
        except (ExecutorUnavailable, InvalidArgument) as error:
            self._broken[key] = (_now() + _BROKEN_FOR, str(error))
            self._servers.pop(key, None)
            return str(error)
        if not server.keeper.usable:
            await self._drop(key)
            return "its interpreter has ended; the next command gets a new one"
        if server.timer is not None:
            server.timer.cancel()
        return server

    async def _start(self, command: Command, python: PythonCommand, env: dict[str, str], warmth: Warmth) -> _Server:
        parts = [(Path(__file__).parents[1] / "inside" / f"{name}.py").read_bytes() for name in PARTS]
        wanted = replace(
            command,
            argv=server_argv(python, warmth.preload, parts),
            cwd=".",
            stdin=b"",
            input_open=False,
            readable=False,
            terminal=None,
        )
        ours, theirs = socket.socketpair()
        try:
            with theirs, open(os.devnull, "r+b", 0) as null:
                process = await self._launcher.launch(wanted, env, (theirs.fileno(), null.fileno(), null.fileno()))
        except BaseException:
            ours.close()
            raise
        try:
            await _greeted(ours, b"".join(parts))
        except BaseException:
            ours.close()
            await asyncio.shield(_end(process))
            raise
        line = _Line(ours, process)
        # In a namespace of its own it does not know the number by which we find it and its children.
        line.tell({"op": "known_as", "pid": process.pid})
        return _Server(process, line)

    async def _begin(
        self, server: _Server, command: Command, env: Mapping[str, str], stdio: tuple[int, int, int]
    ) -> Kept | str:
        """Let the server begin a command; a sentence when it has certainly not begun."""
        launch = Launch(
            command.argv,
            env,
            self._launcher.root if command.cwd == "." else f"{self._launcher.root}/{command.cwd}",
            dict(enumerate(stdio)),
            terminal=0 if command.terminal else None,
            hold=True,
        )
        starting = self._follow(server.keeper.start(directly(launch) or launch))
        try:
            kept = await asyncio.shield(starting)
        except (ExecutorUnavailable, InvalidArgument) as error:
            return str(error)
        except asyncio.CancelledError:
            # Nobody will ever let it begin.
            starting.add_done_callback(_kill)
            raise
        if not server.keeper.usable:
            return "its interpreter has ended"
        kept.release()
        return kept

    async def _see_it_end(self, key: Hashable, server: _Server, kept: Kept) -> None:
        try:
            end = await kept.exited()
        finally:
            self._has_ended(key, server)
        if end.lost or not end.clean:
            await self._drop(key, server, patience=0)

    def _has_ended(self, key: Hashable, server: _Server) -> None:
        server.running -= 1
        if server.running == 0 and not self._closed:
            loop = asyncio.get_running_loop()
            server.timer = loop.call_later(self._idle, lambda: self._follow(self._drop_idle(key, server)))

    async def _drop_idle(self, key: Hashable, server: _Server) -> None:
        if server.running == 0:
            await self._drop(key, server)

    async def _drop(self, key: Hashable, only: _Server | None = None, *, patience: float = _GOODBYE) -> None:
        """End the server of this key, or only this one if it still is."""
        task = self._servers.get(key)
        if task is None or (only is not None and not (task.done() and task.result() is only)):
            return
        del self._servers[key]
        # Who is cancelled meanwhile does not break it off.
        await asyncio.shield(self._follow(_ended(task, patience)))

    def _follow(self, work: Any) -> asyncio.Task[Any]:
        """A task that nobody refers to may be collected while it runs."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(_heard)
        return task


async def _greeted(connection: socket.socket, program: bytes) -> None:
    """Give the server its program, and wait until it says that it can serve."""
    loop = asyncio.get_running_loop()
    connection.setblocking(False)
    try:
        await loop.sock_sendall(connection, program)
        (length,) = _HEADER.unpack(await _exactly(connection, _HEADER.size))
        hello = json.loads(await _exactly(connection, min(length, _MAX_HELLO)))
        why_not = refusal(hello)
    except (OSError, EOFError, ValueError, AttributeError):
        raise ExecutorUnavailable("its interpreter cannot be kept warm: it ended before it said anything") from None
    if why_not:
        raise ExecutorUnavailable(why_not)


async def _exactly(connection: socket.socket, length: int) -> bytes:
    parts = bytearray()
    while len(parts) < length:
        part = await asyncio.get_running_loop().sock_recv(connection, length - len(parts))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)


async def _end(process: Kept, patience: float = _GOODBYE) -> None:
    """It ends by itself when its connection is closed; when it does not, it is killed."""
    with suppress(TimeoutError):
        async with asyncio.timeout(patience):
            await process.exited()
            return
    process.signal(signal.SIGKILL)


async def _ended(server: "asyncio.Task[_Server]", patience: float) -> None:
    """End a server, also one that does not serve yet."""
    server.cancel()
    await asyncio.wait([server])
    if not server.cancelled() and server.exception() is None:
        await server.result().end(patience=patience)


def _is_idle(task: "asyncio.Task[_Server]") -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None or task.result().running == 0)


def _held(limits: Limits) -> Sequence[int | None]:
    """The limits that are set when a process begins, and that all its children have."""
    return (limits.memory_bytes, limits.processes, limits.open_files, limits.file_bytes, limits.cpu_seconds)


def _kill(starting: "asyncio.Task[Kept]") -> None:
    if not starting.cancelled() and starting.exception() is None:
        starting.result().signal(signal.SIGKILL)


def _heard(task: "asyncio.Task[Any]") -> None:
    if not task.cancelled():
        task.exception()


def _now() -> float:
    return asyncio.get_running_loop().time()
