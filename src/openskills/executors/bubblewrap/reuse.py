"""Sandboxes of one workspace that are used again, because making one takes longer than most commands do.

Only for commands that could have had the same one anyway: of one skill, with the same limits, without secrets, network
or terminal. One command at a time has it. A command that leaves anything there (a process, a file in memory, a port in
use) has been its last: it is ended as a whole, and the next command gets a new one. What makes it is done behind the
back of the caller, from the second command of a kind on; until one is there, each command gets a sandbox of its own.
"""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any, Final

from openskills.errors import ExecutorUnavailable, InvalidArgument
from openskills.executors.direct_start import start_directly
from openskills.executors.spec import Command
from openskills.executors.supervisor import PROGRAM, ExitStatus, LaunchRequest, SupervisedProcess, Supervisor

IDLE_SECONDS: Final = 60.0
"""Seconds after which a sandbox that nobody uses is ended."""

_MIN_COMMANDS = 2
_UNTIDY_COMMANDS = 16
"""So many commands of a kind that leaves things behind get sandboxes of their own before another one is kept."""
_MAX_IDLE = 32
_MAX_KINDS = 64
_EXIT_TIMEOUT = 2.0
_KILL_TIMEOUT = 0.7
_START_TIMEOUT = 10.0
_PROGRAM_NAMES = ("supervisor", "traces", "sandbox")
# Nothing of ours can be read there: the program comes over the connection, and these are its modules.
_BOOTSTRAP = """\
import json, os, sys, types
program = b""
while len(program) < {size}:
    program += os.read(0, {size} - len(program)) or sys.exit()
for name, code in json.loads(program):
    module = sys.modules["openskills.executors.programs." + name] = types.ModuleType(name)
    exec(compile(code, f"<{{name}}>", "exec"), module.__dict__)
module.serve_sandbox()
"""

SandboxStarter = Callable[[Command, Mapping[str, str], tuple[int, int, int]], Awaitable[SupervisedProcess]]
"""Starts a command as process 1 of a new sandbox."""


def can_share(command: Command) -> bool:
    """Whether a command may have a sandbox that others had before."""
    return not (command.secrets or command.network or command.terminal or command.input_open)


@cache
def load_supervisor_program() -> bytes:
    """The program that serves in such a sandbox, as the command line of `build_supervisor_argv` reads it."""
    return json.dumps([(name, PROGRAM.with_name(f"{name}.py").read_text("utf-8")) for name in _PROGRAM_NAMES]).encode()


def build_supervisor_argv() -> tuple[str, ...]:
    """The command line of the process that reads the program from its input, and becomes it."""
    return (os.path.realpath(sys.executable), "-I", "-S", "-c", _BOOTSTRAP.format(size=len(load_supervisor_program())))


class _SandboxSupervisor(Supervisor):
    """The connection to the keeper of a sandbox; when that does not do what it is told, the sandbox is ended."""

    def __init__(self, connection: socket.socket, process: SupervisedProcess) -> None:
        super().__init__(connection)
        self._sandbox = process
        self._serving: asyncio.Future[None] = self._loop.create_future()

    async def wait_until_ready(self) -> None:
        """Wait until it can start commands; raises `ExecutorUnavailable` when it never will."""
        async with asyncio.timeout(_START_TIMEOUT):
            await self._serving

    def send_program(self, program: bytes) -> None:
        """Give it its program, before anything else is said."""
        self._unsent.append((bytearray(program), []))
        self._flush()

    def notify(self, message: Mapping[str, Any]) -> None:
        """See `Keeper.tell`."""
        super().notify(message)
        if message.get("number") == signal.SIGKILL:
            self._loop.call_later(_KILL_TIMEOUT, self._kill_if_running, message["id"])

    def abandon(self, kept: SupervisedProcess) -> None:
        """See `Keeper.abandon`."""
        self._sandbox.signal(signal.SIGKILL)
        super().abandon(kept)

    def _on_serving(self, pid: int) -> None:
        del pid
        if not self._serving.done():
            self._serving.set_result(None)

    def _kill_if_running(self, identity: int) -> None:
        if identity in self._commands:
            self._sandbox.signal(signal.SIGKILL)

    def _disconnect(self) -> None:
        super()._disconnect()
        if not self._serving.done():
            self._serving.set_exception(ExecutorUnavailable("the keeper of a sandbox ended before it could serve"))
            # Whoever waits hears it; nobody else is to be told that nobody listened.
            self._serving.exception()


class _ReusableSandbox:
    """A sandbox that serves, and the kind of commands that it is for."""

    def __init__(self, kind: Hashable, process: SupervisedProcess, line: _SandboxSupervisor) -> None:
        self.kind = kind
        self.process = process
        self.line = line
        self.loop = asyncio.get_running_loop()
        self.timer: asyncio.TimerHandle | None = None

    @property
    def is_usable(self) -> bool:
        """Whether it can start commands."""
        return self.line.is_usable

    async def close(self) -> None:
        """End it with everything in it. It ends by itself when nobody talks to it any more."""
        if self.timer is not None:
            self.timer.cancel()
        await self.line.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_EXIT_TIMEOUT):
                await self.process.wait()
                return
        self.process.signal(signal.SIGKILL)


class IdleSandboxes:
    """Where the sandboxes of all workspaces wait: when there is none left, the one that has waited longest goes.

    Each event loop has so much of it: nobody else can end one of its sandboxes.
    """

    def __init__(self, most: int = _MAX_IDLE) -> None:
        self._most = most
        self._waiting: dict[_ReusableSandbox, Callable[[], None]] = {}

    def add(self, sandbox: _ReusableSandbox, leave: Callable[[], None]) -> None:
        """It waits from now on; `leave` ends it."""
        self._waiting[sandbox] = leave
        if len(self._waiting) > self._most:
            self._evict(sandbox.loop)

    def discard(self, sandbox: _ReusableSandbox) -> None:
        """It does not wait any more."""
        self._waiting.pop(sandbox, None)

    def _evict(self, loop: asyncio.AbstractEventLoop) -> None:
        # A copy: other loops come and go meanwhile, in their threads.
        everyone = list(self._waiting.items())
        here = [leave for sandbox, leave in everyone if sandbox.loop is loop]
        if len(here) > self._most:
            here[0]()
        for sandbox, _ in everyone:
            if sandbox.loop.is_closed():
                self.discard(sandbox)
                sandbox.line.close_nowait()


class SandboxPool:
    """The sandboxes of one workspace that wait for their next command: at most one of each kind, `most` in all.

    `root` is the workspace as commands see it, `idle` how many seconds one is kept without a command.
    """

    def __init__(
        self, make: SandboxStarter, root: str, room: IdleSandboxes, *, idle: float = IDLE_SECONDS, most: int = 2
    ) -> None:
        self._make = make
        self._root = root
        self._room = room
        self._idle_for = idle
        self._most = most
        self._idle: dict[Hashable, _ReusableSandbox] = {}
        self._busy: set[_ReusableSandbox] = set()
        self._coming: set[Hashable] = set()
        self._seen: dict[Hashable, int] = {}
        self._making: set[asyncio.Task[None]] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def idle_count(self) -> int:
        """How many are ready for a command."""
        return len(self._idle)

    async def start(
        self, kind: Hashable, command: Command, env: Mapping[str, str], stdio: tuple[int, int, int]
    ) -> SupervisedProcess | None:
        """Start a command in one that waits; None when there is none, or when it cannot start this command.

        Raises `ExecutorUnavailable` when the command may have begun, and nobody can tell.
        """
        sandbox = self._take(kind) if command.argv else None
        if sandbox is None:
            return None
        cwd = os.path.normpath(f"{self._root}/{command.cwd}")
        # The shell that a sandbox of its own begins with says where it is.
        launch = LaunchRequest(command.argv, {**env, "PWD": cwd}, cwd, dict(enumerate(stdio)), joins=True)
        try:
            kept = await start_directly(sandbox.line.start, launch)
        except (InvalidArgument, ExecutorUnavailable):
            if sandbox.is_usable:
                # Nothing has begun. How a command that cannot begin ends is the shell's to say.
                self._put_back(sandbox)
                return None
            self._drop(sandbox)
            raise
        except BaseException:
            self._drop(sandbox)
            raise
        kept.host_pid = sandbox.process.pid
        kept.add_done_callback(lambda end: self._on_exit(sandbox, end))
        return kept

    def prepare(self, kind: Hashable, command: Command, env: Mapping[str, str]) -> None:
        """A command of this kind has had a sandbox of its own: have one ready for the next, if there are many."""
        if self._closed or kind in self._coming or kind in self._idle:
            return
        if len(self._seen) >= _MAX_KINDS:
            self._seen.clear()
        self._seen[kind] = self._seen.get(kind, 0) + 1
        if self._seen[kind] >= _MIN_COMMANDS:
            self._coming.add(kind)
            _spawn(self._prepare_sandbox(kind, command, env), self._making)

    async def close(self) -> None:
        """End all of them."""
        self._closed = True
        for task in self._making:
            task.cancel()
        await asyncio.gather(*self._making, return_exceptions=True)
        for sandbox in list(self._idle.values()):
            self._drop_idle(sandbox)
        for sandbox in list(self._busy):
            self._drop(sandbox)
        await asyncio.gather(*self._ending)

    async def _prepare_sandbox(self, kind: Hashable, command: Command, env: Mapping[str, str]) -> None:
        try:
            sandbox = await self._create(kind, command, env)
        except (ExecutorUnavailable, InvalidArgument, OSError):
            # Each command goes on having its own, and it is tried again after as many of them.
            self._seen[kind] = 0
            return
        finally:
            self._coming.discard(kind)
        self._put_back(sandbox)

    async def _create(self, kind: Hashable, command: Command, env: Mapping[str, str]) -> _ReusableSandbox:
        wanted = replace(command, argv=build_supervisor_argv(), cwd=".", stdin=b"", readable=False, env={}, warm=None)
        ours, theirs = socket.socketpair()
        try:
            with theirs, open(os.devnull, "r+b", 0) as null:
                stdio = (theirs.fileno(), null.fileno(), null.fileno())
                process = await self._make(wanted, {"PATH": env.get("PATH", os.defpath)}, stdio)
        except BaseException:
            ours.close()
            raise
        line = _SandboxSupervisor(ours, process)
        try:
            line.send_program(load_supervisor_program())
            await line.wait_until_ready()
        except BaseException:
            await line.close()
            process.signal(signal.SIGKILL)
            raise
        return _ReusableSandbox(kind, process, line)

    def _take(self, kind: Hashable) -> _ReusableSandbox | None:
        sandbox = self._idle.pop(kind, None)
        if sandbox is None:
            return None
        self._room.discard(sandbox)
        if not sandbox.is_usable:
            self._drop(sandbox)
            return None
        if sandbox.timer is not None:
            sandbox.timer.cancel()
        self._busy.add(sandbox)
        return sandbox

    def _on_exit(self, sandbox: _ReusableSandbox, end: ExitStatus) -> None:
        if end.reusable:
            self._put_back(sandbox)
        else:
            self._seen[sandbox.kind] = -_UNTIDY_COMMANDS
            self._drop(sandbox)

    def _put_back(self, sandbox: _ReusableSandbox) -> None:
        self._busy.discard(sandbox)
        if self._closed or not sandbox.is_usable or sandbox.kind in self._idle:
            self._drop(sandbox)
            return
        while len(self._idle) >= self._most:
            self._drop_idle(next(iter(self._idle.values())))
        self._idle[sandbox.kind] = sandbox
        self._room.add(sandbox, lambda: self._drop_idle(sandbox))
        loop = asyncio.get_running_loop()
        sandbox.timer = loop.call_later(self._idle_for, self._drop_idle, sandbox)

    def _drop_idle(self, sandbox: _ReusableSandbox) -> None:
        if self._idle.get(sandbox.kind) is sandbox:
            del self._idle[sandbox.kind]
            self._room.discard(sandbox)
            self._drop(sandbox)

    def _drop(self, sandbox: _ReusableSandbox) -> None:
        self._busy.discard(sandbox)
        _spawn(sandbox.close(), self._ending)


def _spawn(work: Coroutine[Any, Any, None], tasks: set[asyncio.Task[None]]) -> None:
    """Do it beside everything else; a task that nobody refers to may be collected while it runs."""
    task = asyncio.get_running_loop().create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
