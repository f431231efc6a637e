"""Warm starts: Python scripts start from an interpreter that has their modules loaded, in the session's own sandbox.

A server (`programs/forkserver.py`) is an ordinary command of the workspace with the same isolation as all others, and
is never shared between workspaces. A command that would behave differently is started cold. A command that may have
begun is never started again.
"""

import asyncio
import json
import os
import re
import signal
import socket
import struct
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from keyword import iskeyword
from pathlib import Path
from typing import Any, Final, cast

from openskills.errors import ExecutorUnavailable, InvalidArgument
from openskills.executors.direct_start import strip_shell, to_direct_launch
from openskills.executors.protocol import Launcher
from openskills.executors.spec import Command
from openskills.executors.supervisor import InnerSupervisor, LaunchRequest, SupervisedProcess, Supervisor, spawn_task
from openskills.telemetry.metrics import count

_MAX_MODULES = 32
_MODULE = re.compile(r"[A-Za-z_]\w{0,99}(\.[A-Za-z_]\w{0,99}){0,9}", re.ASCII)
# A relative path would mean something else in the server's directory.
_PROGRAM = re.compile(r"(?:/.*/)?python(?:3(?:\.\d+)?)?")
_PLAIN_OPTIONS = re.compile(r"-[uBEsIPO]+")
_PYTHON_VARIABLES = frozenset(
    {
        *("PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONIOENCODING", "PYTHONUTF8", "PYTHONHASHSEED", "PYTHONOPTIMIZE"),
        *("PYTHONDONTWRITEBYTECODE", "PYTHONNOUSERSITE", "PYTHONSAFEPATH", "PYTHONWARNINGS", "PYTHONPYCACHEPREFIX"),
    }
)
_RUN_VARIABLES = frozenset({"RUN_DIR", "TERM", "PWD", "OLDPWD"})
_INFLUENTIAL = re.compile(
    r"PYTHON.*|LC_.*|LANG|LANGUAGE|LD_.*|TZ|TZDIR|PATH|HOME|TMPDIR|VIRTUAL_ENV|.*_NUM_THREADS"
    r"|(?:OMP|MKL|OPENBLAS|GOTO|BLIS|NUMPY|NPY|NUMBA|ARROW|MPL|MATPLOTLIB|XDG|MALLOC|GLIBC|OPENSSL|CUDA)_?.*|MPLBACKEND"
)

# The bottom of every run's stack: exceptions and exit codes behave as in a new interpreter.
_BOOTSTRAP = """\
import sys
first = frozenset(sys.modules)
if sys.path[:1] == [""]:
    del sys.path[0]
stream = open(0, "rb", closefd=False)
names = {{"__name__": "openskills_forkserver"}}
for size in {sizes!r}:
    exec(compile(stream.read(size), "<forkserver>", "exec"), names)
start = names["ColdStart"](first, {options})
work = names["serve"]({preload!r}, start)
try:
    work[0](*work[1:])
except BaseException:
    start.record_failure()
    raise
"""


@dataclass(frozen=True, slots=True)
class PythonCommand:
    """The start of a command line `program options… (script | -c code | -m module) arguments…`."""

    program: str
    options: tuple[str, ...]


def parse_python_command(argv: Sequence[str], env: Mapping[str, str]) -> PythonCommand | str:
    """Parse the command line of a Python interpreter; returns the reason if it must be started cold."""
    if not _PROGRAM.fullmatch(argv[0]):
        return "it does not start python"
    for name in env:
        if name.startswith("PYTHON") and name not in _PYTHON_VARIABLES:
            return f"{name} is set"
    if any(not path.startswith("/") for path in env.get("PYTHONPATH", "/").split(":")):
        return "PYTHONPATH has a relative directory"
    options: list[str] = []
    words = iter(argv[1:])
    for word in words:
        if word == "-W":
            options += [word, next(words, "")]
        elif _PLAIN_OPTIONS.fullmatch(word):
            options.append(word)
        else:
            break
    else:
        word = ""
    if word in ("-c", "-m") and next(words, None) is None:
        return f"{word} has no argument"
    if word in ("-", ""):
        return "it reads its program from stdin"
    if word.startswith("-") and word not in ("-c", "-m"):
        return f"{word} is an unusual option"
    return PythonCommand(argv[0], tuple(options))


def build_server_environment(env: Mapping[str, str], added: Collection[str]) -> dict[str, str]:
    """The variables for a server: without those of one run and, of `added`, only ones that libraries read.

    Secrets are among the added variables, and a server outlives the command that they are for.
    """
    return {
        name: value
        for name, value in env.items()
        if name not in _RUN_VARIABLES and (name not in added or _INFLUENTIAL.fullmatch(name))
    }


def build_server_argv(command: PythonCommand, preload: Sequence[str], parts: Sequence[bytes]) -> tuple[str, ...]:
    """The command line of a server, which reads the parts of its program from stdin and runs it."""
    sizes = tuple(len(part) for part in parts)
    bootstrap = _BOOTSTRAP.format(sizes=sizes, options=len(command.options), preload=tuple(preload))
    return (command.program, *command.options, "-c", bootstrap)


def is_module_name(name: str) -> bool:
    """Whether this is the name of a module that is safe to put after `import`."""
    return bool(_MODULE.fullmatch(name)) and not any(iskeyword(part) for part in name.split("."))


PARTS: Final = ("fork_exit", "coldstart", "forkserver")
"""The modules in `programs/` that make up a server."""

_HEADER = struct.Struct("!I")
_MAX_HELLO = 64 * 1024
_EXIT_TIMEOUT = 2.0
_RETRY_DELAY = 60.0
_CLOSING = "the workspace is closing"


@dataclass(frozen=True, slots=True)
class PreloadSpec:
    """The modules to preload. `version` changes with the skill, so that nothing of an old version is used."""

    preload: tuple[str, ...]
    version: str = ""


class _WarmServer:
    """A server that is ready."""

    def __init__(self, process: SupervisedProcess, supervisor: Supervisor) -> None:
        self.process = process
        self.supervisor = supervisor
        self.running = 0
        self.timer: asyncio.TimerHandle | None = None


class WarmInterpreterPool:
    """The servers of one workspace: at most `max_servers`, each closed after `idle_timeout` seconds without a command.

    A command waits up to `start_timeout` seconds for a new server; then it starts cold, and the next one gets the
    server.
    """

    def __init__(
        self,
        launcher: Launcher,
        *,
        max_servers: int = 2,
        idle_timeout: float = 300.0,
        start_timeout: float = 10.0,
    ) -> None:
        self._launcher = launcher
        self._max_servers = max_servers
        self._idle_timeout = idle_timeout
        self._start_timeout = start_timeout
        # In order of their last use.
        self._servers: dict[Hashable, asyncio.Task[_WarmServer]] = {}
        self._failures: dict[Hashable, tuple[float, str]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    @property
    def server_count(self) -> int:
        """The current number of servers."""
        return len(self._servers)

    async def launch(
        self, command: Command, env: Mapping[str, str], stdio: tuple[int, int, int], warmth: PreloadSpec
    ) -> SupervisedProcess:
        """Start a command, warm if it behaves the same, cold otherwise, with a note that says why.

        Raises what a cold start raises.
        """
        found = await self._find_server(command, env, warmth)
        if isinstance(found, str):
            return await self._launch_cold(command, env, stdio, found)
        key, server = found
        server.running += 1
        try:
            process = await self._start_command(server, command, env, stdio)
        except BaseException:
            self._release_server(key, server)
            raise
        if isinstance(process, str):
            self._release_server(key, server)
            if not server.supervisor.is_usable or "has changed" in process:
                await self._close_server(key)
            return await self._launch_cold(command, env, stdio, process)

        async def release_at_exit() -> None:
            try:
                end = await process.wait()
            finally:
                self._release_server(key, server)
            if end.lost or not end.clean:
                await self._close_server(key, server, timeout=0)

        spawn_task(release_at_exit(), self._tasks)
        return process

    async def close(self) -> None:
        """Close all servers."""
        self._closed = True
        for key in list(self._servers):
            await self._close_server(key)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _launch_cold(
        self, command: Command, env: Mapping[str, str], stdio: tuple[int, int, int], reason: str
    ) -> SupervisedProcess:
        process = await self._launcher.launch(command, env, stdio)
        count("openskills.run.cold_starts")
        process.notes.append(f"started cold: {reason}")
        return process

    async def _find_server(
        self, command: Command, env: Mapping[str, str], warmth: PreloadSpec
    ) -> tuple[Hashable, _WarmServer] | str:
        """A server that can run the command, or the reason for a cold start."""
        if self._closed:
            return _CLOSING
        if command.network:
            return "it may use the network"
        if command.secrets:
            # Warm commands of a skill share a user and a process table, and could inspect each other.
            return "it has secrets"
        invalid = next((name for name in warmth.preload if not is_module_name(name)), None)
        if invalid is not None:
            return f"invalid module name {invalid[:80]!r}"
        python = parse_python_command(strip_shell(command.argv) or command.argv, env)
        if isinstance(python, str):
            return python
        visible = build_server_environment(env, {*command.env, *command.secrets})
        limits = command.limits
        # These limits are set when a process starts, and all its children inherit them.
        inherited = (limits.memory_bytes, limits.processes, limits.open_files, limits.file_bytes, limits.cpu_seconds)
        key = (python, warmth, command.skill, inherited, tuple(sorted(visible.items())))
        until, reason = self._failures.get(key, (0.0, ""))
        if until > _now():
            return reason
        self._failures.pop(key, None)
        if reason := await self._evict_idle(key):
            return reason
        if key not in self._servers:
            self._servers[key] = spawn_task(self._start_server(command, python, visible, warmth), self._tasks)
        server = await self._wait_for_server(key, min(self._start_timeout, limits.timeout / 2))
        return server if isinstance(server, str) else (key, server)

    async def _evict_idle(self, key: Hashable) -> str:
        """Make room for a server by closing the least recently used idle one; returns the reason if there is none."""
        if key in self._servers:
            self._servers[key] = self._servers.pop(key)
            return ""
        while self.server_count >= self._max_servers:
            for other, task in self._servers.items():
                if task.done() and (task.cancelled() or task.exception() is not None or task.result().running == 0):
                    await self._close_server(other)
                    break
            else:
                return f"all {self._max_servers} warm interpreters are busy"
        return ""

    async def _wait_for_server(self, key: Hashable, timeout: float) -> _WarmServer | str:
        task = self._servers[key]
        if not task.done():
            # Not for its result: cancelling the task must not look like a cancellation of this call.
            await asyncio.wait([task], timeout=timeout)
        if not task.done():
            return "its modules are still being loaded"
        if task.cancelled():
            return _CLOSING
        try:
            server = task.result()
        except (ExecutorUnavailable, InvalidArgument) as error:
            self._failures[key] = (_now() + _RETRY_DELAY, str(error))
            self._servers.pop(key, None)
            return str(error)
        if not server.supervisor.is_usable:
            await self._close_server(key)
            return "its interpreter has exited; the next command gets a new one"
        if server.timer is not None:
            server.timer.cancel()
        return server

    async def _start_server(
        self, command: Command, python: PythonCommand, env: dict[str, str], warmth: PreloadSpec
    ) -> _WarmServer:
        parts = read_programs(PARTS)
        argv = build_server_argv(python, warmth.preload, parts)
        wanted = replace(command, argv=argv, cwd=".", stdin=b"", input_open=False, readable=False, terminal=None)
        ours, theirs = socket.socketpair()
        try:
            with theirs, open(os.devnull, "r+b", 0) as null:
                process = await self._launcher.launch(wanted, env, (theirs.fileno(), null.fileno(), null.fileno()))
        except BaseException:
            ours.close()
            raise
        try:
            await _perform_handshake(ours, b"".join(parts))
        except BaseException:
            ours.close()
            await asyncio.shield(process.wait_or_kill(_EXIT_TIMEOUT))
            raise
        supervisor = InnerSupervisor(ours, process)
        # In its own namespace it does not know the pid by which we find it and its children.
        supervisor.notify({"op": "known_as", "pid": process.pid})
        return _WarmServer(process, supervisor)

    async def _start_command(
        self, server: _WarmServer, command: Command, env: Mapping[str, str], stdio: tuple[int, int, int]
    ) -> SupervisedProcess | str:
        """Start a command in the server; returns the reason if it has certainly not begun."""
        launch = LaunchRequest(
            command.argv,
            env,
            self._launcher.root if command.cwd == "." else f"{self._launcher.root}/{command.cwd}",
            dict(enumerate(stdio)),
            terminal=0 if command.terminal else None,
            hold=True,
        )
        cgroup = server.process.cgroup
        if cgroup is not None:
            cgroup.limit(command.limits, busy=server.running > 1)
        starting = spawn_task(server.supervisor.start(to_direct_launch(launch) or launch), self._tasks)
        try:
            process = await asyncio.shield(starting)
        except (ExecutorUnavailable, InvalidArgument) as error:
            return str(error)
        except asyncio.CancelledError:

            def kill_when_started(task: asyncio.Task[SupervisedProcess]) -> None:
                if not task.cancelled() and task.exception() is None:
                    task.result().signal(signal.SIGKILL)

            starting.add_done_callback(kill_when_started)
            raise
        if not server.supervisor.is_usable:
            return "its interpreter has exited"
        process.server, process.cgroup = server.process, cgroup
        process.release()
        return process

    def _release_server(self, key: Hashable, server: _WarmServer) -> None:
        server.running -= 1
        if server.running == 0 and not self._closed:
            loop = asyncio.get_running_loop()
            server.timer = loop.call_later(self._idle_timeout, self._close_idle, key, server)

    def _close_idle(self, key: Hashable, server: _WarmServer) -> None:
        if server.running == 0:
            spawn_task(self._close_server(key, server), self._tasks)

    async def _close_server(
        self, key: Hashable, only: _WarmServer | None = None, *, timeout: float = _EXIT_TIMEOUT
    ) -> None:
        """Close the server of this key, or only `only` if that is still its server."""
        task = self._servers.get(key)
        if task is None or (only is not None and not (task.done() and task.result() is only)):
            return
        del self._servers[key]

        async def stop() -> None:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled() and task.exception() is None:
                server = task.result()
                if server.timer is not None:
                    server.timer.cancel()
                await server.supervisor.close()
                await server.process.wait_or_kill(timeout)

        await asyncio.shield(spawn_task(stop(), self._tasks))


async def _perform_handshake(connection: socket.socket, program: bytes) -> None:
    try:
        hello = await exchange_hello(connection, program)
    except (OSError, EOFError, ValueError, TypeError):
        raise ExecutorUnavailable("its interpreter cannot be kept warm: it exited during startup") from None
    if hello.get("refused"):
        raise ExecutorUnavailable(str(hello["refused"]))


@cache
def read_programs(names: tuple[str, ...]) -> tuple[bytes, ...]:
    """The modules of `programs/` with these names, as bytes."""
    return tuple((Path(__file__).parent / "programs" / f"{name}.py").read_bytes() for name in names)


async def exchange_hello(connection: socket.socket, data: bytes) -> dict[str, Any]:
    """Send a new server its program, and receive its hello. Raises `EOFError`, `OSError` or `ValueError`."""
    connection.setblocking(False)
    await asyncio.get_running_loop().sock_sendall(connection, data)
    (length,) = _HEADER.unpack(await _read_exactly(connection, _HEADER.size))
    hello = json.loads(await _read_exactly(connection, min(length, _MAX_HELLO)))
    if not isinstance(hello, dict):
        raise TypeError("not a JSON object")
    return cast("dict[str, Any]", hello)


async def _read_exactly(connection: socket.socket, length: int) -> bytes:
    parts = bytearray()
    while len(parts) < length:
        part = await asyncio.get_running_loop().sock_recv(connection, length - len(parts))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)


def _now() -> float:
    return asyncio.get_running_loop().time()
