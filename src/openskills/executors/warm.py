"""Warm interpreters: pool, slots, protocol (sessions and host).

Which commands a warm interpreter can run, and how one is started for them. Pure.

Python scripts that start from an interpreter which has their modules loaded already, in the session's own sandbox.

A server (`forkserver.py`) is an ordinary command of the workspace, started in the same way and as isolated as all
others, and never shared between workspaces. Whatever it cannot do exactly as a cold start would, is started cold. A
command that may have begun is never started again.
"""

import asyncio
import json
import os
import re
import signal
import socket
import struct
from collections.abc import Collection, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from keyword import iskeyword
from pathlib import Path
from typing import Any, Final, Protocol

from openskills.errors import ExecutorUnavailable, InvalidArgument
from openskills.executors.direct_start import strip_shell, to_direct_launch
from openskills.executors.spec import Command, Limits
from openskills.executors.supervisor import LaunchRequest, SupervisedProcess, Supervisor

METADATA_KEY = "openskills-warm"
"""The key of a skill's metadata that names the modules its scripts import: `openskills-warm: pandas numpy`."""

_MAX_MODULES = 32
_MODULE = re.compile(r"[A-Za-z_]\w{0,99}(\.[A-Za-z_]\w{0,99}){0,9}", re.ASCII)
# From the directory of a command, a relative path would lead elsewhere than from that of its server.
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

# The bottom of every run's stack. What is executed there ends as if the interpreter had been started with it.
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
    """A command line `program options… (script | -c code | -m module) arguments…`."""

    program: str
    options: tuple[str, ...]


def parse_python_command(argv: Sequence[str], env: Mapping[str, str]) -> PythonCommand | str:
    """The command line, taken apart; or the reason why it has to be started cold."""
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
            return _check_form(PythonCommand(argv[0], tuple(options)), word, next(words, None))
    return "it reads its program from stdin"


def _check_form(found: PythonCommand, form: str, argument: str | None) -> PythonCommand | str:
    if form in ("-c", "-m"):
        return found if argument is not None else f"{form} has no argument"
    if form.startswith("-") or not form:
        return "it reads its program from stdin" if form in ("-", "") else f"{form} is an unusual option"
    return found


def build_server_environment(env: Mapping[str, str], added: Collection[str]) -> dict[str, str]:
    """What a server sees of a command's variables: not those of one run, and of `added` only what libraries look at.

    Secrets are among those that are added, and a server outlives the command they are for.
    """
    return {
        name: value
        for name, value in env.items()
        if name not in _RUN_VARIABLES and (name not in added or _INFLUENTIAL.fullmatch(name))
    }


def build_server_argv(command: PythonCommand, preload: Sequence[str], parts: Sequence[bytes]) -> tuple[str, ...]:
    """The command line of a server, which reads the parts of its program from its stdin, and then serves it."""
    sizes = tuple(len(part) for part in parts)
    bootstrap = _BOOTSTRAP.format(sizes=sizes, options=len(command.options), preload=tuple(preload))
    return (command.program, *command.options, "-c", bootstrap)


def is_module_name(name: str) -> bool:
    """Whether this can be imported by that name, and does nothing else when it stands after `import`."""
    return bool(_MODULE.fullmatch(name)) and not any(iskeyword(part) for part in name.split("."))


def get_refusal(hello: Mapping[str, Any]) -> str:
    """Why a server that has said hello will not serve; nothing when it will."""
    return str(hello.get("refused") or "")


PARTS: Final = ("fork_exit", "coldstart", "forkserver")
"""The modules beside this one that are the program of a server."""

_HEADER = struct.Struct("!I")
_MAX_HELLO = 64 * 1024
_EXIT_TIMEOUT = 2.0
_KILL_TIMEOUT = 0.7
_RETRY_DELAY = 60.0
_CLOSING = "the workspace is closing"


class CommandLauncher(Protocol):
    """Starts the commands of one workspace: a `Launcher`."""

    @property
    def root(self) -> str: ...
    async def launch(
        self, command: Command, env: Mapping[str, str], stdio: tuple[int, int, int]
    ) -> SupervisedProcess: ...


@dataclass(frozen=True, slots=True)
class PreloadSpec:
    """What is to be loaded ahead. `version` changes when the skill does, so that nothing of the old one is used."""

    preload: tuple[str, ...]
    version: str = ""


@dataclass(frozen=True, slots=True)
class WarmLaunchResult:
    """A command that was started; `reason` says why it is not warm when it could have been asked to be."""

    process: SupervisedProcess
    warm: bool
    reason: str = ""


class _WarmServer:
    """A server that has said hello."""

    def __init__(self, process: SupervisedProcess, keeper: Supervisor) -> None:
        self.process = process
        self.supervisor = keeper
        self.running = 0
        self.timer: asyncio.TimerHandle | None = None

    async def close(self, *, patience: float = _EXIT_TIMEOUT) -> None:
        """End it with everything that it runs."""
        if self.timer is not None:
            self.timer.cancel()
        await self.supervisor.close()
        await _stop_process(self.process, patience)


class _WarmSupervisor(Supervisor):
    """The connection to a server. Commands share its user, and could stop it: then all of them are killed."""

    def __init__(self, connection: socket.socket, process: SupervisedProcess) -> None:
        super().__init__(connection)
        self._server = process

    def notify(self, message: Mapping[str, Any]) -> None:
        """See `Keeper.tell`."""
        super().notify(message)
        if message.get("number") == signal.SIGKILL:
            self._loop.call_later(_KILL_TIMEOUT, self._kill_if_running, message["id"])

    def abandon(self, kept: SupervisedProcess) -> None:
        """See `Keeper.abandon`."""
        self._server.signal(signal.SIGKILL)
        super().abandon(kept)

    def _kill_if_running(self, identity: int) -> None:
        if identity in self._commands:
            self._server.signal(signal.SIGKILL)


class WarmInterpreterPool:
    """The servers of one workspace: at most `most`, each ended after `idle` seconds without a command.

    `patience` bounds how long a command waits for a new server; then it starts cold, and the next one has the server.
    """

    def __init__(
        self, launcher: CommandLauncher, *, most: int = 2, idle: float = 300.0, patience: float = 10.0
    ) -> None:
        self._launcher = launcher
        self._max_servers = most
        self._idle_timeout = idle
        self._start_timeout = patience
        # The one that was used last is the last.
        self._servers: dict[Hashable, asyncio.Task[_WarmServer]] = {}
        self._failures: dict[Hashable, tuple[float, str]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    @property
    def server_count(self) -> int:
        """How many there are now."""
        return len(self._servers)

    async def launch(
        self, command: Command, env: Mapping[str, str], stdio: tuple[int, int, int], warmth: PreloadSpec
    ) -> WarmLaunchResult:
        """Start a command, warm if that makes no difference to it but the time, cold otherwise.

        Raises what starting it cold raises.
        """
        found = await self._find_server(command, env, warmth)
        if isinstance(found, str):
            return await self._launch_cold(command, env, stdio, found)
        key, server = found
        server.running += 1
        try:
            kept = await self._start_command(server, command, env, stdio)
        except BaseException:
            self._release_server(key, server)
            raise
        if isinstance(kept, str):
            self._release_server(key, server)
            if not server.supervisor.is_usable or "has changed" in kept:
                await self._close_server(key)
            return await self._launch_cold(command, env, stdio, kept)
        self._create_task(self._wait_for_exit(key, server, kept))
        return WarmLaunchResult(kept, warm=True)

    async def close(self) -> None:
        """End all servers."""
        self._closed = True
        for key in list(self._servers):
            await self._close_server(key)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _launch_cold(
        self, command: Command, env: Mapping[str, str], stdio: tuple[int, int, int], why: str
    ) -> WarmLaunchResult:
        return WarmLaunchResult(await self._launcher.launch(command, env, stdio), warm=False, reason=why)

    async def _find_server(
        self, command: Command, env: Mapping[str, str], warmth: PreloadSpec
    ) -> tuple[Hashable, _WarmServer] | str:
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
        python = parse_python_command(strip_shell(command.argv) or command.argv, env)
        if isinstance(python, str):
            return python
        visible = build_server_environment(env, {*command.env, *command.secrets})
        key = (python, warmth, command.skill, _select_inherited_limits(command.limits), tuple(sorted(visible.items())))
        why_not = self._find_failure(key) or await self._evict_idle(key)
        if why_not:
            return why_not
        if key not in self._servers:
            self._servers[key] = self._create_task(self._start_server(command, python, visible, warmth))
        server = await self._wait_for_server(key, min(self._start_timeout, command.limits.timeout / 2))
        return server if isinstance(server, str) else (key, server)

    def _find_failure(self, key: Hashable) -> str:
        until, why = self._failures.get(key, (0.0, ""))
        if until > _now():
            return why
        self._failures.pop(key, None)
        return ""

    async def _evict_idle(self, key: Hashable) -> str:
        """Take the place of the server that was not used for the longest time, if there is no place."""
        if key in self._servers:
            self._servers[key] = self._servers.pop(key)
            return ""
        while len(self._servers) >= self._max_servers:
            for other, task in self._servers.items():
                if _is_idle(task):
                    await self._close_server(other)
                    break
            else:
                return f"{self._max_servers} interpreters are busy, and that is the most"
        return ""

    async def _wait_for_server(self, key: Hashable, patience: float) -> _WarmServer | str:
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
            self._failures[key] = (_now() + _RETRY_DELAY, str(error))
            self._servers.pop(key, None)
            return str(error)
        if not server.supervisor.is_usable:
            await self._close_server(key)
            return "its interpreter has ended; the next command gets a new one"
        if server.timer is not None:
            server.timer.cancel()
        return server

    async def _start_server(
        self, command: Command, python: PythonCommand, env: dict[str, str], warmth: PreloadSpec
    ) -> _WarmServer:
        parts = [(Path(__file__).parent / "programs" / f"{name}.py").read_bytes() for name in PARTS]
        wanted = replace(
            command,
            argv=build_server_argv(python, warmth.preload, parts),
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
            await _perform_handshake(ours, b"".join(parts))
        except BaseException:
            ours.close()
            await asyncio.shield(_stop_process(process))
            raise
        line = _WarmSupervisor(ours, process)
        # In a namespace of its own it does not know the number by which we find it and its children.
        line.notify({"op": "known_as", "pid": process.pid})
        return _WarmServer(process, line)

    async def _start_command(
        self, server: _WarmServer, command: Command, env: Mapping[str, str], stdio: tuple[int, int, int]
    ) -> SupervisedProcess | str:
        """Let the server begin a command; a sentence when it has certainly not begun."""
        launch = LaunchRequest(
            command.argv,
            env,
            self._launcher.root if command.cwd == "." else f"{self._launcher.root}/{command.cwd}",
            dict(enumerate(stdio)),
            terminal=0 if command.terminal else None,
            hold=True,
        )
        starting = self._create_task(server.supervisor.start(to_direct_launch(launch) or launch))
        try:
            kept = await asyncio.shield(starting)
        except (ExecutorUnavailable, InvalidArgument) as error:
            return str(error)
        except asyncio.CancelledError:
            # Nobody will ever let it begin.
            starting.add_done_callback(_kill_when_started)
            raise
        if not server.supervisor.is_usable:
            return "its interpreter has ended"
        kept.release()
        return kept

    async def _wait_for_exit(self, key: Hashable, server: _WarmServer, kept: SupervisedProcess) -> None:
        try:
            end = await kept.wait()
        finally:
            self._release_server(key, server)
        if end.lost or not end.clean:
            await self._close_server(key, server, patience=0)

    def _release_server(self, key: Hashable, server: _WarmServer) -> None:
        server.running -= 1
        if server.running == 0 and not self._closed:
            loop = asyncio.get_running_loop()
            server.timer = loop.call_later(self._idle_timeout, lambda: self._create_task(self._close_idle(key, server)))

    async def _close_idle(self, key: Hashable, server: _WarmServer) -> None:
        if server.running == 0:
            await self._close_server(key, server)

    async def _close_server(
        self, key: Hashable, only: _WarmServer | None = None, *, patience: float = _EXIT_TIMEOUT
    ) -> None:
        """End the server of this key, or only this one if it still is."""
        task = self._servers.get(key)
        if task is None or (only is not None and not (task.done() and task.result() is only)):
            return
        del self._servers[key]
        # Who is cancelled meanwhile does not break it off.
        await asyncio.shield(self._create_task(_stop_server(task, patience)))

    def _create_task(self, work: Any) -> asyncio.Task[Any]:
        """A task that nobody refers to may be collected while it runs."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(_retrieve_exception)
        return task


async def _perform_handshake(connection: socket.socket, program: bytes) -> None:
    """Give the server its program, and wait until it says that it can serve."""
    loop = asyncio.get_running_loop()
    connection.setblocking(False)
    try:
        await loop.sock_sendall(connection, program)
        (length,) = _HEADER.unpack(await _read_exactly(connection, _HEADER.size))
        hello = json.loads(await _read_exactly(connection, min(length, _MAX_HELLO)))
        why_not = get_refusal(hello)
    except (OSError, EOFError, ValueError, AttributeError):
        raise ExecutorUnavailable("its interpreter cannot be kept warm: it ended before it said anything") from None
    if why_not:
        raise ExecutorUnavailable(why_not)


async def _read_exactly(connection: socket.socket, length: int) -> bytes:
    parts = bytearray()
    while len(parts) < length:
        part = await asyncio.get_running_loop().sock_recv(connection, length - len(parts))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)


async def _stop_process(process: SupervisedProcess, patience: float = _EXIT_TIMEOUT) -> None:
    """It ends by itself when its connection is closed; when it does not, it is killed."""
    with suppress(TimeoutError):
        async with asyncio.timeout(patience):
            await process.wait()
            return
    process.signal(signal.SIGKILL)


async def _stop_server(server: "asyncio.Task[_WarmServer]", patience: float) -> None:
    """End a server, also one that does not serve yet."""
    server.cancel()
    await asyncio.wait([server])
    if not server.cancelled() and server.exception() is None:
        await server.result().close(patience=patience)


def _is_idle(task: "asyncio.Task[_WarmServer]") -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None or task.result().running == 0)


def _select_inherited_limits(limits: Limits) -> Sequence[int | None]:
    """The limits that are set when a process begins, and that all its children have."""
    return (limits.memory_bytes, limits.processes, limits.open_files, limits.file_bytes, limits.cpu_seconds)


def _kill_when_started(starting: "asyncio.Task[SupervisedProcess]") -> None:
    if not starting.cancelled() and starting.exception() is None:
        starting.result().signal(signal.SIGKILL)


def _retrieve_exception(task: "asyncio.Task[Any]") -> None:
    if not task.cancelled():
        task.exception()


def _now() -> float:
    return asyncio.get_running_loop().time()
