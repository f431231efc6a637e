"""Executor backend that runs commands in containers of a local Docker-compatible engine, one per session.

A container connects to this process once, over a socket in a private directory that is mounted read-only. Then the
socket is removed, so that commands cannot connect, and the container lives as long as that connection. Labels identify
the host process, so that containers of dead processes can be removed.
"""

import asyncio
import json
import os
import platform
import resource
import secrets
import shutil
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final, cast

from openskills.concurrency import CrossLoopLock, run_in_thread
from openskills.errors import ExecutorUnavailable, InvalidArgument
from openskills.executors import supervisor as supervisor_module
from openskills.executors.bubblewrap import seccomp
from openskills.executors.container.engine import ContainerEngine
from openskills.executors.container.selftest import run_self_test
from openskills.executors.container.spec import (
    HOME,
    HOST_LABEL,
    PROGRAM,
    ROOT,
    WORKSPACE_LABEL,
    ContainerImage,
    ContainerOptions,
    ContainerSession,
    build_create_request,
    build_etc_files,
)
from openskills.executors.files.descriptors import auto_close, change_owner
from openskills.executors.programs import container as container_program
from openskills.executors.protocol import LINKS, WorkspaceDirectory
from openskills.executors.spec import SKILLS, Command, Isolation, Limits
from openskills.executors.supervisor import (
    LaunchRequest,
    Rlimits,
    SupervisedProcess,
    Supervisor,
    create_marker,
    is_orphaned,
    to_rlimits,
)

PREFIX: Final = "container-"
_LINKS = "bin"
_CALL_TIMEOUT = 20.0
_POLL_INTERVAL = 0.2
_MAX_LINE = 4096
_CREDENTIALS = struct.Struct("3i")
_SHARED = (
    "the engine must run on this machine, see the same files, and use a runtime on this machine's kernel (runc, crun); "
    "engines in a virtual machine, remote engines, runsc and kata are not supported"
)

LivenessCheck = Callable[[], Awaitable[bool]]


class ContainerLink:
    """The private directory and listening socket of one container, below a directory that only we can enter."""

    def __init__(self, parent: Path, uid: int, gid: int) -> None:
        self.directory = parent / f"{PREFIX}{secrets.token_hex(8)}"
        self._uid = uid
        self._listener = socket.socket(socket.AF_UNIX)
        try:
            self._listener.setblocking(False)
            self._fill(gid)
        except BaseException:
            self.close()
            raise

    async def accept(self, alive: LivenessCheck) -> socket.socket:
        """Wait for the connection of the container, which has checked its image.

        Raises `ExecutorUnavailable` if it does not connect, connects as another user, or the image is unsuitable.
        """
        try:
            connection = await self._accept_connection(alive)
        finally:
            self._listener.close()
            (self.directory / container_program.SOCKET).unlink(missing_ok=True)
        try:
            self._check_user(connection)
            async with asyncio.timeout(_CALL_TIMEOUT):
                problem, python = _parse_hello(await _read_line(connection))
        except BaseException:
            connection.close()
            raise
        if problem is None:
            # Links for the commands, which lead to the interpreter inside the container.
            for name in ("python", "python3") if python else ():
                (self.directory / _LINKS / name).symlink_to(python or "")
            return connection
        connection.close()
        raise ExecutorUnavailable(f"unsuitable container image: {problem}")

    def close(self) -> None:
        """Close the socket and remove the directory."""
        self._listener.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _fill(self, gid: int) -> None:
        # Readable for the user inside; other users cannot enter the directory above.
        self.directory.mkdir(mode=0o755)
        self.directory.chmod(0o755)
        files: dict[str, bytes] = {
            PROGRAM: Path(container_program.__file__).read_bytes(),
            container_program.SUPERVISOR: supervisor_module.PROGRAM.read_bytes(),
            container_program.FILTER: seccomp.build_filter(platform.machine()),
        }
        files |= {name: text.encode() for name, text in build_etc_files(self._uid, gid).items()}
        for name, data in files.items():
            (self.directory / name).write_bytes(data)
            (self.directory / name).chmod(0o644)
        (self.directory / _LINKS).mkdir()
        (self.directory / _LINKS).chmod(0o755)
        with auto_close(os.open(self.directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)) as descriptor:
            # Socket paths are limited to 108 bytes, and the directory can be deep.
            self._listener.bind(f"/proc/self/fd/{descriptor}/{container_program.SOCKET}")
        (self.directory / container_program.SOCKET).chmod(0o666)
        self._listener.listen(1)

    async def _accept_connection(self, alive: LivenessCheck) -> socket.socket:
        loop = asyncio.get_running_loop()
        accepting = loop.create_task(loop.sock_accept(self._listener))
        deadline = loop.time() + _CALL_TIMEOUT
        try:
            while not (await asyncio.wait([accepting], timeout=_POLL_INTERVAL))[0]:
                await _check_starting(alive, deadline)
        except BaseException:
            accepting.cancel()
            await asyncio.wait([accepting])
            if not accepting.cancelled() and accepting.exception() is None:
                accepting.result()[0].close()
            raise
        return accepting.result()[0]

    def _check_user(self, connection: socket.socket) -> None:
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        _, uid, _ = _CREDENTIALS.unpack(credentials)
        if uid != self._uid:
            raise ExecutorUnavailable(
                f"the engine maps the container user {self._uid} to {uid} on this machine, so commands could not write "
                "to their workspace; use an engine that does not map users (not rootless, no userns-remap)"
            )


async def _check_starting(alive: LivenessCheck, deadline: float) -> None:
    if not await alive():
        raise ExecutorUnavailable(f"the container ended before it connected; {_SHARED}")
    if asyncio.get_running_loop().time() > deadline:
        raise ExecutorUnavailable(f"the container did not connect within {_CALL_TIMEOUT:g} seconds; {_SHARED}")


async def _read_line(connection: socket.socket) -> bytes:
    loop = asyncio.get_running_loop()
    line = bytearray()
    while not line.endswith(b"\n"):
        # Byte by byte: what follows the line belongs to the supervisor protocol.
        data = await loop.sock_recv(connection, 1)
        line += data
        if not data or len(line) > _MAX_LINE:
            raise ExecutorUnavailable("the container closed the connection without a valid message")
    return bytes(line)


def _parse_hello(line: bytes) -> tuple[str | None, str | None]:
    try:
        hello = cast("dict[str, Any]", json.loads(line))
        problem, python = hello["problem"], hello.get("python")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ExecutorUnavailable("the container sent an invalid message") from None
    return None if problem is None else str(problem), None if python is None else str(python)


def remove_orphaned_containers(engine: ContainerEngine) -> list[str]:
    """Remove the containers of dead hosts, and return their ids. Blocking.

    Running containers end with their host; what is left was created and never started.
    """
    removed: list[str] = []
    for container, labels in engine.list_by_label(HOST_LABEL):
        if is_orphaned(labels.get(HOST_LABEL, "")):
            engine.remove(container)
            removed.append(container)
    return removed


_START_TIMEOUT = 5.0
_MAX_CONTAINERS = 4


class LiveContainer:
    """A running container and its connection; when that is closed, everything in it ends.

    It belongs to the event loop in which it was started.
    """

    def __init__(self, container: str, control: Supervisor, mounted: int | None, resources: ExitStack) -> None:
        self.id = container
        self.mounted = mounted
        self._resources = resources
        self._control = control
        self._users = 0
        self._retired = False
        self._closing: asyncio.Task[None] | None = None
        self._watching: set[asyncio.Task[None]] = set()

    @classmethod
    async def start(
        cls,
        engine: ContainerEngine,
        options: ContainerOptions,
        image: ContainerImage,
        workspace: str,
        tree: Path,
        owner: tuple[int, int],
        skill: str | None,
        packages: tuple[str, ...] = (),
    ) -> "LiveContainer":
        """Create and start it. Raises `ExecutorUnavailable`; then nothing of it is left."""
        mounted = _find_inode(tree, skill)
        resources = ExitStack()
        labels = ((WORKSPACE_LABEL, workspace), (HOST_LABEL, create_marker()))

        def make() -> tuple[str, ContainerLink]:
            link = ContainerLink(tree.absolute().parent, *owner)
            resources.callback(link.close)
            session = ContainerSession(
                str(tree.absolute()), str(link.directory), *owner, skill if mounted else None, labels, packages
            )
            container = engine.create(build_create_request(options, image, session))
            resources.callback(_remove_container, engine, container)
            if options.runtime:
                engine.check_runtime(container, options.runtime)
            engine.start(container)
            return container, link

        try:
            container, link = await run_in_thread(make)
            connection = await link.accept(lambda: run_in_thread(lambda: engine.is_running(container)))
            return cls(container, Supervisor(connection), mounted, resources)
        except BaseException:
            await run_in_thread(resources.close)
            raise

    @property
    def is_usable(self) -> bool:
        """Whether it can run commands."""
        return self._closing is None and not self._retired and self._control.is_usable

    @property
    def is_closed(self) -> bool:
        """Whether it is closed or being closed."""
        return self._closing is not None

    def reserve(self) -> None:
        """Keep it open for a command that is about to start."""
        self._users += 1

    async def run(self, launch: LaunchRequest, limits: Rlimits) -> SupervisedProcess:
        """Start a command, after `reserve`, with its own supervisor, so that its orphans can be identified."""
        supervisor: Supervisor | None = None
        try:
            self._check_alive()
            supervisor = await self._control.fork()
            supervisor.set_limits(limits)
            async with asyncio.timeout(_START_TIMEOUT):
                process = await supervisor.start(launch)
        except (InvalidArgument, ExecutorUnavailable):
            await self._abort_start(supervisor, answered=supervisor is not None and supervisor.is_usable)
            raise
        except TimeoutError:
            await self._abort_start(supervisor, answered=False)
            message = f"the container did not start the command within {_START_TIMEOUT:g} seconds"
            raise ExecutorUnavailable(message) from None
        except BaseException:
            await self._abort_start(supervisor, answered=False)
            raise
        task = asyncio.get_running_loop().create_task(self._watch_exit(supervisor, process))
        self._watching.add(task)
        task.add_done_callback(self._watching.discard)
        return process

    async def retire(self) -> None:
        """Accept no new commands; it is closed when the last one has ended."""
        self._retired = True
        if not self._users:
            await self.close()

    async def close(self) -> None:
        """Kill everything in it, and remove it; safe to call twice."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        await self._control.close()
        await run_in_thread(self._resources.close)

    def _check_alive(self) -> None:
        if not self._control.is_usable:
            raise ExecutorUnavailable("the container has ended; try again")

    async def _watch_exit(self, supervisor: Supervisor, process: SupervisedProcess) -> None:
        end = await process.wait()
        await supervisor.close()
        if end.lost or not end.clean:
            # A script killed its supervisor, or left processes that it could not kill. They end with the container.
            await self.close()
        await self._release()

    async def _abort_start(self, supervisor: Supervisor | None, *, answered: bool) -> None:
        if not answered:
            # The command may be running and may have killed or stopped its supervisor: end the whole container.
            await self.close()
        if supervisor is not None:
            await supervisor.close()
        await self._release()

    async def _release(self) -> None:
        self._users -= 1
        if self._retired and not self._users:
            await self.close()


def _remove_container(engine: ContainerEngine, container: str) -> None:
    # Its first process ends without us; an unreachable engine removes it when it is back.
    with suppress(ExecutorUnavailable):
        engine.remove(container)


class ContainerBackend:
    """Runs commands in containers; it connects to the engine when it is first needed."""

    name = "container"
    own_users = True

    def __init__(self, options: ContainerOptions | None = None) -> None:
        self._options = options or ContainerOptions()
        self._engine: ContainerEngine | None = None
        self._checked = False
        self._checking = CrossLoopLock()
        self._connecting = CrossLoopLock()
        self._launchers: set[ContainerLauncher] = set()

    async def check(self) -> Isolation:
        """Run the self-test unless it has passed already, and remove the containers of dead processes."""
        if platform.system() != "Linux":
            raise ExecutorUnavailable(f"the container executor needs Linux: {_SHARED}")
        async with self._checking:
            if not self._checked:
                engine = await self._connect()
                await run_in_thread(engine.check)
                await self.sweep()
                await run_self_test(self)
                self._checked = True
        return Isolation.CONTAINER

    async def sweep(self) -> int:
        """Remove the containers of dead processes, and return their number."""
        engine = await self._connect()
        return len(await run_in_thread(lambda: remove_orphaned_containers(engine)))

    async def attach(self, place: WorkspaceDirectory) -> "ContainerLauncher":
        """The launcher of this workspace's commands."""
        engine = await self._connect()
        image = await run_in_thread(lambda: engine.find_image(self._options.image))
        await run_in_thread(lambda: _remove_leftovers(place.tree.parent))
        launcher = ContainerLauncher(place, engine, self._options, image, self._launchers.discard)
        self._launchers.add(launcher)
        return launcher

    async def close(self) -> None:
        """Close all containers and the connection to the engine."""
        await asyncio.gather(*(launcher.close() for launcher in list(self._launchers)))
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    async def _connect(self) -> ContainerEngine:
        async with self._connecting:
            if self._engine is None:
                self._engine = await run_in_thread(lambda: ContainerEngine(self._options.engine))
            return self._engine


class ContainerLauncher:
    """Starts the commands of one workspace, in a container for each skill.

    Skills share the workspace, but not processes, home and temporary directories, or `.venv`: one skill can neither
    read the secrets of another nor change its programs.
    """

    root = ROOT
    home = HOME
    # Pids belong to the container's own namespace.
    visible_pids = False

    def __init__(
        self,
        place: WorkspaceDirectory,
        engine: ContainerEngine,
        options: ContainerOptions,
        image: ContainerImage,
        when_closed: Callable[["ContainerLauncher"], None],
    ) -> None:
        self.path = (LINKS, *image.path.split(":"))
        self.interpreter = f"image:{image.id}"
        self._when_closed = when_closed
        self._place = place
        self._owner = _find_owner(place)
        self._engine = engine
        self._options = options
        self._image = image
        self._choosing = asyncio.Lock()
        # The container of each skill and its packages, the one that was used last at the end.
        self._current: dict[tuple[str | None, tuple[str, ...]], LiveContainer] = {}
        self._earlier: list[LiveContainer] = []

    async def launch(self, command: Command, env: Mapping[str, str], stdio: tuple[int, int, int]) -> SupervisedProcess:
        """Start a command with this environment and these descriptors."""
        if command.network:
            raise InvalidArgument(
                "network", "not supported in containers; leave it empty, or use the `sandbox` executor"
            )
        change_owner(stdio, self._place.uid)
        cwd = f"{ROOT}/{command.cwd}" if command.cwd != "." else ROOT
        terminal = 0 if command.terminal else None
        launch = LaunchRequest(command.argv, env, cwd, dict(enumerate(stdio)), terminal=terminal)
        container = await self._reserve_container(command.skill, command.packages.mounts)
        return await container.run(launch, self._build_rlimits(command.limits))

    async def close(self) -> None:
        """Close the containers with everything in them."""
        containers = [*self._earlier, *self._current.values()]
        self._current, self._earlier = {}, []
        await asyncio.gather(*(container.close() for container in containers))
        self._when_closed(self)

    async def _reserve_container(self, skill: str | None, packages: tuple[str, ...]) -> LiveContainer:
        """Reserve the container of this skill, in which its folder is writable and these packages are mounted.

        Mounts are fixed when a container is created: if the skill is staged again, a new one is started. The old one,
        or the one that was used longest ago if there are many, is closed after its last command.
        """
        async with self._choosing:
            current = self._current.pop((skill, packages), None)
            place = self._place
            is_current = current is not None and current.mounted == _find_inode(place.tree, skill)
            if current is None or not current.is_usable or not is_current:
                await self._retire(current)
                current = await LiveContainer.start(
                    self._engine, self._options, self._image, place.id, place.tree, self._owner, skill, packages
                )
            self._current[skill, packages] = current
            current.reserve()
            if len(self._current) > _MAX_CONTAINERS:
                await self._retire(self._current.pop(next(iter(self._current))))
            return current

    async def _retire(self, container: LiveContainer | None) -> None:
        if container is not None and container.is_usable:
            self._earlier = [*(one for one in self._earlier if not one.is_closed), container]
            await container.retire()
        elif container is not None:
            await container.close()

    def _build_rlimits(self, limits: Limits) -> Rlimits:
        # Processes are counted per user of the machine, so this limit needs a user of its own.
        if self._place.uid is None or limits.processes is None:
            return to_rlimits(limits)
        return (*to_rlimits(limits), (resource.RLIMIT_NPROC, limits.processes, limits.processes))


def _find_owner(place: WorkspaceDirectory) -> tuple[int, int]:
    uid, gid = (place.uid, place.uid) if place.uid is not None else (os.getuid(), os.getgid())
    if uid == 0:
        raise ExecutorUnavailable(
            "commands do not run as root; give workspaces their own users, or run as another user"
        )
    return uid, gid


def _find_inode(tree: Path, skill: str | None) -> int | None:
    """The inode of a staged skill's directory, which changes when it is staged again; None if it does not exist."""
    try:
        return (tree / SKILLS / skill).lstat().st_ino if skill is not None else None
    except FileNotFoundError:
        return None


def _remove_leftovers(private: Path) -> None:
    """Remove the private directories of killed processes; the workspace is leased to this process now."""
    for leftover in private.glob(f"{PREFIX}*"):
        shutil.rmtree(leftover, ignore_errors=True)
