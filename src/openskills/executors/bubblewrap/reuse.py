"""Reuse of sandboxes within one workspace, because making one takes longer than most commands.

A sandbox is shared only by commands of the same kind: of one skill, with the same limits, without secrets, network or
terminal. It runs one command at a time. If a command leaves anything behind (a process, a file in memory, a port), the
sandbox is closed. From the second command of a kind on, a reusable sandbox is made in the background; until it is
ready, each command gets its own.
"""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import replace
from functools import cache
from typing import Final

from openskills.errors import ExecutorUnavailable, InvalidArgument
from openskills.executors.direct_start import start_directly
from openskills.executors.spec import Command
from openskills.executors.supervisor import (
    PROGRAM,
    ExitStatus,
    InnerSupervisor,
    LaunchRequest,
    SupervisedProcess,
    spawn_task,
)

IDLE_SECONDS: Final = 60.0
"""Seconds after which an idle sandbox is closed."""

_MIN_COMMANDS = 2
_UNTIDY_COMMANDS = 16
"""After a command left something behind, this many commands of its kind get their own sandbox before the next try."""
_MAX_IDLE = 32
_MAX_KINDS = 64
_EXIT_TIMEOUT = 2.0
_START_TIMEOUT = 10.0
_PROGRAM_NAMES = ("supervisor", "traces", "sandbox")
# Our files are not visible in the sandbox, so the modules of the program are sent over the connection.
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
    """Whether a command may run in a reused sandbox."""
    return not (command.secrets or command.network or command.terminal or command.input_open)


@cache
def load_supervisor_program() -> bytes:
    """The supervisor program, in the format that the command line of `build_supervisor_argv` reads."""
    return json.dumps([(name, PROGRAM.with_name(f"{name}.py").read_text("utf-8")) for name in _PROGRAM_NAMES]).encode()


def build_supervisor_argv() -> tuple[str, ...]:
    """The command line of a process that reads the program from stdin and runs it."""
    return (os.path.realpath(sys.executable), "-I", "-S", "-c", _BOOTSTRAP.format(size=len(load_supervisor_program())))


class _SandboxClient(InnerSupervisor):
    """The connection to the supervisor in a sandbox; if it does not react, the sandbox is killed."""

    def __init__(self, connection: socket.socket, process: SupervisedProcess) -> None:
        super().__init__(connection, process)
        self._serving: asyncio.Future[None] = self._loop.create_future()

    async def load(self, program: bytes) -> None:
        """Send the program, and wait until it can start commands; raises `ExecutorUnavailable` if it ends before."""
        self._unsent.append((bytearray(program), []))
        self._flush()
        async with asyncio.timeout(_START_TIMEOUT):
            await self._serving

    def _on_serving(self, pid: int) -> None:
        del pid
        if not self._serving.done():
            self._serving.set_result(None)

    def close_nowait(self) -> None:
        super().close_nowait()
        if not self._serving.done():
            self._serving.set_exception(ExecutorUnavailable("the supervisor of a sandbox ended before it was ready"))
            # Mark it as retrieved: without a waiter it needs no log message.
            self._serving.exception()


class _ReusableSandbox:
    """A running sandbox, and the kind of commands that it is for."""

    def __init__(self, kind: Hashable, process: SupervisedProcess, line: _SandboxClient) -> None:
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
        """Close the connection, on which the sandbox ends; kill it if it does not."""
        if self.timer is not None:
            self.timer.cancel()
        await self.line.close()
        await self.process.wait_or_kill(_EXIT_TIMEOUT)


class IdleSandboxes:
    """The idle sandboxes of all workspaces. Beyond `max_idle` per event loop, the oldest one of the loop is closed."""

    def __init__(self, max_idle: int = _MAX_IDLE) -> None:
        self._max_idle = max_idle
        self._waiting: dict[_ReusableSandbox, Callable[[], None]] = {}

    def add(self, sandbox: _ReusableSandbox, close: Callable[[], None]) -> None:
        """Add an idle sandbox; `close` closes it."""
        self._waiting[sandbox] = close
        if len(self._waiting) <= self._max_idle:
            return
        # A copy: other event loops change it in their threads.
        everyone = list(self._waiting.items())
        here = [close for other, close in everyone if other.loop is sandbox.loop]
        if len(here) > self._max_idle:
            here[0]()
        for other, _ in everyone:
            if other.loop.is_closed():
                self.discard(other)
                other.line.close_nowait()

    def discard(self, sandbox: _ReusableSandbox) -> None:
        """Remove a sandbox that is not idle any more."""
        self._waiting.pop(sandbox, None)


class SandboxPool:
    """The reusable sandboxes of one workspace: at most one idle one of each kind, `max_idle` in all.

    `root` is the workspace as commands see it; a sandbox is closed after `idle` seconds without a command.
    """

    def __init__(
        self, make: SandboxStarter, root: str, room: IdleSandboxes, *, idle: float = IDLE_SECONDS, max_idle: int = 2
    ) -> None:
        self._make = make
        self._root = root
        self._room = room
        self._idle_for = idle
        self._max_idle = max_idle
        self._idle: dict[Hashable, _ReusableSandbox] = {}
        self._busy: set[_ReusableSandbox] = set()
        self._coming: set[Hashable] = set()
        self._seen: dict[Hashable, int] = {}
        self._making: set[asyncio.Task[None]] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def idle_count(self) -> int:
        """The number of idle sandboxes."""
        return len(self._idle)

    async def start(
        self, kind: Hashable, command: Command, env: Mapping[str, str], stdio: tuple[int, int, int]
    ) -> SupervisedProcess | None:
        """Start a command in an idle sandbox; None if there is none, or it cannot start this command.

        Raises `ExecutorUnavailable` if it is unknown whether the command has begun.
        """
        sandbox = self._take(kind) if command.argv else None
        if sandbox is None:
            return None
        cwd = os.path.normpath(f"{self._root}/{command.cwd}")
        # PWD as set by the shell that starts a command in a new sandbox.
        launch = LaunchRequest(command.argv, {**env, "PWD": cwd}, cwd, dict(enumerate(stdio)), joins=True)
        cgroup = sandbox.process.cgroup
        try:
            if cgroup is not None:
                cgroup.limit(command.limits)
            process = await start_directly(sandbox.line.start, launch)
        except (InvalidArgument, ExecutorUnavailable):
            if sandbox.is_usable:
                # The command did not start. In a new sandbox, the shell reports why.
                self._put_back(sandbox)
                return None
            self._drop(sandbox)
            raise
        except BaseException:
            self._drop(sandbox)
            raise
        process.host_pid, process.cgroup = sandbox.process.pid, cgroup
        process.add_done_callback(lambda end: self._on_exit(sandbox, end))
        return process

    def prepare(self, kind: Hashable, command: Command, env: Mapping[str, str]) -> None:
        """Count a command that ran in its own sandbox; make a reusable one if there were several of this kind."""
        if self._closed or kind in self._coming or kind in self._idle:
            return
        if len(self._seen) >= _MAX_KINDS:
            self._seen.clear()
        self._seen[kind] = self._seen.get(kind, 0) + 1
        if self._seen[kind] >= _MIN_COMMANDS:
            self._coming.add(kind)
            spawn_task(self._prepare_sandbox(kind, command, env), self._making)

    async def close(self) -> None:
        """Close all sandboxes."""
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
            # Commands keep getting their own; tried again after as many of them.
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
        line = _SandboxClient(ours, process)
        try:
            await line.load(load_supervisor_program())
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
        while self.idle_count >= self._max_idle:
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
        spawn_task(sandbox.close(), self._ending)
