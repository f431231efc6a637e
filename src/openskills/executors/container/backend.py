"""Container per session.

How a container and this process find each other: a private directory with a socket that the container calls once.

The directory is mounted read-only into the container. One call is taken; then the socket is gone, so that no command
can call, and nothing connects the container with this machine but the connection that we hold.

Containers whose host process is gone: who made one is written on it, and can be looked up.

One container from its creation to its removal.

Commands in containers of a Docker-compatible engine on this machine: one for each session, made when it is needed.

`container_spec` says what a container is made of, `container_life` runs one, `container_link` is how it is reached.
"""

import asyncio
import json
import os
import platform
import resource
import secrets
import shutil
import socket
import stat
import struct
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from openskills.concurrency import CrossLoopLock, run_in_thread
from openskills.errors import ExecutorUnavailable, InvalidArgument
from openskills.executors import supervisor
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
from openskills.executors.programs import container as container_program
from openskills.executors.protocol import LINKS, WorkspaceDirectory
from openskills.executors.spec import SKILLS, VENV, Command, Isolation, Limits
from openskills.executors.supervisor import LaunchRequest, Rlimits, SupervisedProcess, Supervisor, to_rlimits
from openskills.filesystem import TEMPORARY_PREFIX

PREFIX: Final = "container-"
_LINKS = "bin"
_CALL_TIMEOUT = 20.0
_POLL_INTERVAL = 0.2
_MAX_LINE = 4096
_CREDENTIALS = struct.Struct("3i")
_SHARED = (
    "it must be an engine on this machine that sees the same files, with a runtime that uses this machine's kernel "
    "(runc, crun); engines in a virtual machine, remote ones, runsc and kata cannot be used"
)

LivenessCheck = Callable[[], Awaitable[bool]]


class ContainerLink:
    """The private directory of one container, in a directory that only we can enter."""

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
        """The call of the container, which has said that its image will do.

        Raises `ExecutorUnavailable` with the reason when it does not call, calls as another user, or lacks something.
        """
        try:
            connection = await self._accept_connection(alive)
        finally:
            self._listener.close()
            (self.directory / container_program.SOCKET).unlink(missing_ok=True)
        try:
            self._check_user(connection)
            async with asyncio.timeout(_CALL_TIMEOUT):
                problem, python = _said_in(await _read_line(connection))
        except BaseException:
            connection.close()
            raise
        if problem is None:
            self._link(python)
            return connection
        connection.close()
        raise ExecutorUnavailable(f"the image of the container cannot be used: {problem}")

    def close(self) -> None:
        """Remove the directory."""
        self._listener.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _fill(self, gid: int) -> None:
        # Readable for the user inside; nobody else of this machine gets past the directory above.
        self.directory.mkdir(mode=0o755)
        self.directory.chmod(0o755)
        files: dict[str, bytes] = {
            PROGRAM: Path(container_program.__file__).read_bytes(),
            container_program.SUPERVISOR: supervisor.PROGRAM.read_bytes(),
            container_program.FILTER: seccomp.build_filter(platform.machine()),
        }
        files |= {name: text.encode() for name, text in build_etc_files(self._uid, gid).items()}
        for name, data in files.items():
            (self.directory / name).write_bytes(data)
            (self.directory / name).chmod(0o644)
        (self.directory / _LINKS).mkdir()
        (self.directory / _LINKS).chmod(0o755)
        self._listen()

    def _link(self, python: str | None) -> None:
        """Give the commands both names of the interpreter; they are links inside the container, and lead there."""
        for name in ("python", "python3") if python else ():
            (self.directory / _LINKS / name).symlink_to(python or "")

    def _listen(self) -> None:
        descriptor = os.open(self.directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # The name of a socket may have 108 bytes, and the directory can lie deep.
            self._listener.bind(f"/proc/self/fd/{descriptor}/{container_program.SOCKET}")
        finally:
            os.close(descriptor)
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
            await _cancel_accept(accepting)
            raise
        return accepting.result()[0]

    def _check_user(self, connection: socket.socket) -> None:
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        _, uid, _ = _CREDENTIALS.unpack(credentials)
        if uid != self._uid:
            raise ExecutorUnavailable(
                f"the engine runs the user {self._uid} of a container as {uid} of this machine, so its commands could "
                "not write to their workspace; use an engine that does not map users (not rootless, no userns-remap)"
            )


async def _check_starting(alive: LivenessCheck, deadline: float) -> None:
    if not await alive():
        raise ExecutorUnavailable(f"the container ended before it called; {_SHARED}")
    if asyncio.get_running_loop().time() > deadline:
        raise ExecutorUnavailable(f"the container did not call within {_CALL_TIMEOUT:g} seconds; {_SHARED}")


async def _cancel_accept(accepting: "asyncio.Task[tuple[socket.socket, Any]]") -> None:
    accepting.cancel()
    await asyncio.wait([accepting])
    if not accepting.cancelled() and accepting.exception() is None:
        accepting.result()[0].close()


async def _read_line(connection: socket.socket) -> bytes:
    loop = asyncio.get_running_loop()
    line = bytearray()
    while not line.endswith(b"\n"):
        # What comes after the line is for somebody else.
        data = await loop.sock_recv(connection, 1)
        line += data
        if not data or len(line) > _MAX_LINE:
            raise ExecutorUnavailable("the container hung up before it said anything that can be understood")
    return bytes(line)


def _said_in(line: bytes) -> tuple[str | None, str | None]:
    try:
        said = cast("dict[str, Any]", json.loads(line))
        problem, python = said["problem"], said.get("python")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ExecutorUnavailable("the container said something that cannot be understood") from None
    return None if problem is None else str(problem), None if python is None else str(python)


_STATE, _STARTED = 0, 19
"""Places among the fields of /proc/PID/stat that follow the name."""


@dataclass(frozen=True, slots=True)
class HostIdentity:
    """A process that makes containers: its id, when it was started, and in which boot and pid namespace it lives."""

    pid: int
    started: int
    boot: str
    namespace: str

    @classmethod
    def of_this_process(cls) -> "HostIdentity":
        """The mark of this process."""
        pid = os.getpid()
        return cls(pid, _read_start_time(pid) or 0, *_read_boot_and_namespace())

    @classmethod
    def parse(cls, text: str) -> "HostIdentity | None":
        """The mark in a label; None when that is something else."""
        words = text.split(" ")
        if len(words) != 4 or not (words[0].isdecimal() and words[1].isdecimal()):
            return None
        return cls(int(words[0]), int(words[1]), words[2], words[3])

    def __str__(self) -> str:
        return f"{self.pid} {self.started} {self.boot} {self.namespace}"

    def is_dead(self) -> bool:
        """Whether that process is gone for sure. One that cannot be seen from here, in another namespace, is not."""
        boot, namespace = _read_boot_and_namespace()
        if self.boot != boot:
            return True
        return self.namespace == namespace and _read_start_time(self.pid) != self.started


def remove_orphaned_containers(engine: ContainerEngine) -> list[str]:
    """Remove the containers whose host is dead; their ids. Blocking.

    They end by themselves when their host dies; what is left is what was made and never started.
    """
    removed: list[str] = []
    for container, labels in engine.list_by_label(HOST_LABEL):
        mark = HostIdentity.parse(labels.get(HOST_LABEL, ""))
        if mark is not None and mark.is_dead():
            engine.remove(container)
            removed.append(container)
    return removed


def _read_boot_and_namespace() -> tuple[str, str]:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return boot, os.readlink("/proc/self/ns/pid")


def _read_start_time(pid: int) -> int | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name of the program stands in parentheses and may contain anything.
    fields = text[text.rindex(")") + 1 :].split()
    return None if fields[_STATE] in "ZX" else int(fields[_STARTED])


_START_TIMEOUT = 5.0


class LiveContainer:
    """A container that runs, and the connection that it lives by: when that is closed, everything in it ends.

    It belongs to the event loop in which it was begun.
    """

    def __init__(self, made: "_ContainerResources", control: Supervisor, skills: Sequence[str]) -> None:
        self.id = made.container
        self.skills = frozenset(skills)
        self._made = made
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
        skills: Sequence[str],
    ) -> "LiveContainer":
        """Make it and start it. Raises `ExecutorUnavailable` with the reason, and then nothing of it is left."""
        made = _ContainerResources(engine)
        labels = ((WORKSPACE_LABEL, workspace), (HOST_LABEL, str(HostIdentity.of_this_process())))

        def make() -> ContainerLink:
            link = made.link = ContainerLink(tree.absolute().parent, *owner)
            session = ContainerSession(str(tree.absolute()), str(link.directory), *owner, tuple(skills), labels)
            made.container = engine.create(build_create_request(options, image, session))
            if options.runtime:
                engine.check_runtime(made.container, options.runtime)
            engine.start(made.container)
            return link

        try:
            link = await run_in_thread(make)
            connection = await link.accept(lambda: run_in_thread(lambda: engine.is_running(made.container)))
            return cls(made, Supervisor(connection), skills)
        except BaseException:
            await run_in_thread(made.remove)
            raise

    @property
    def is_usable(self) -> bool:
        """Whether it can run commands."""
        return self._closing is None and not self._retired and self._control.is_usable

    @property
    def is_closed(self) -> bool:
        """Whether it is being closed, or is."""
        return self._closing is not None

    def reserve(self) -> None:
        """Somebody is about to run something: it stays until that has ended."""
        self._users += 1

    async def run(self, launch: LaunchRequest, limits: Rlimits) -> SupervisedProcess:
        """Start a command, after `reserve`, with a keeper of its own, so that its orphans can be told from others'."""
        keeper: Supervisor | None = None
        try:
            self._check_alive()
            keeper = await self._control.fork()
            keeper.set_limits(limits)
            async with asyncio.timeout(_START_TIMEOUT):
                kept = await keeper.start(launch)
        except (InvalidArgument, ExecutorUnavailable):
            await self._abort_start(keeper, answered=keeper is not None and keeper.is_usable)
            raise
        except TimeoutError:
            await self._abort_start(keeper, answered=False)
            raise ExecutorUnavailable(
                f"the container did not start the command in {_START_TIMEOUT:g} seconds"
            ) from None
        except BaseException:
            await self._abort_start(keeper, answered=False)
            raise
        task = asyncio.get_running_loop().create_task(self._watch_exit(keeper, kept))
        self._watching.add(task)
        task.add_done_callback(self._watching.discard)
        return kept

    async def retire(self) -> None:
        """Let no new command begin; it is closed when the last one has ended."""
        self._retired = True
        if not self._users:
            await self.close()

    async def close(self) -> None:
        """End everything in it, and remove it; safe to call twice."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        await self._control.close()
        await run_in_thread(self._made.remove)

    def _check_alive(self) -> None:
        if not self._control.is_usable:
            raise ExecutorUnavailable("the container has ended; try again")

    async def _watch_exit(self, keeper: Supervisor, kept: SupervisedProcess) -> None:
        end = await kept.wait()
        await keeper.close()
        if end.lost or not end.clean:
            # A script has ended its keeper, or left what the keeper could not end. The kernel ends it with the rest.
            await self.close()
        await self._release()

    async def _abort_start(self, keeper: Supervisor | None, *, answered: bool) -> None:
        if not answered:
            # A command may run by now that has ended or stopped its keeper. Only the end of everything ends it surely.
            await self.close()
        if keeper is not None:
            await keeper.close()
        await self._release()

    async def _release(self) -> None:
        self._users -= 1
        if self._retired and not self._users:
            await self.close()


class _ContainerResources:
    """What there is of a container so far, so that it can be removed whenever something goes wrong."""

    def __init__(self, engine: ContainerEngine) -> None:
        self.container = ""
        self.link: ContainerLink | None = None
        self._engine = engine

    def remove(self) -> None:
        """Remove all of it."""
        try:
            if self.container:
                # Its first process ends without us; an engine that cannot be reached removes it when it is back.
                with suppress(ExecutorUnavailable):
                    self._engine.remove(self.container)
        finally:
            if self.link:
                self.link.close()


class ContainerBackend:
    """Runs commands in containers; the engine is first asked when something is to be done."""

    name = "container"
    isolates = True
    own_users = True

    def __init__(self, options: ContainerOptions | None = None) -> None:
        self._options = options or ContainerOptions()
        self._engine: ContainerEngine | None = None
        self._checked = False
        self._checking = CrossLoopLock()
        self._connecting = CrossLoopLock()
        self._launchers: set[ContainerLauncher] = set()

    async def check(self) -> Isolation:
        """Make sure that containers confine what runs in them, and remove those of processes that are gone."""
        async with self._checking:
            if not self._checked:
                engine = await self._connect()
                await run_in_thread(engine.check)
                await self.sweep()
                await run_self_test(self)
                self._checked = True
        return Isolation.CONTAINER

    async def sweep(self) -> int:
        """Remove the containers of processes that are gone; how many there were."""
        engine = await self._connect()
        return len(await run_in_thread(lambda: remove_orphaned_containers(engine)))

    async def attach(self, place: WorkspaceDirectory) -> "ContainerLauncher":
        """What starts the commands of this workspace."""
        engine = await self._connect()
        image = await run_in_thread(lambda: engine.find_image(self._options.image))
        await run_in_thread(lambda: _remove_leftovers(place.tree.parent))
        launcher = ContainerLauncher(place, engine, self._options, image, self._launchers.discard)
        self._launchers.add(launcher)
        return launcher

    async def close(self) -> None:
        """End everything, and hang up."""
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
    """Starts the commands of one workspace in its container."""

    root = ROOT
    home = HOME
    # They are numbers of the container's own namespace.
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
        self._when_closed = when_closed
        self._place = place
        self._owner = _find_owner(place)
        self._engine = engine
        self._options = options
        self._image = image
        self._choosing = asyncio.Lock()
        self._current: LiveContainer | None = None
        self._earlier: list[LiveContainer] = []

    async def launch(self, command: Command, env: Mapping[str, str], stdio: tuple[int, int, int]) -> SupervisedProcess:
        """Start a command with this environment and these descriptors."""
        if command.network:
            raise InvalidArgument(
                "network", "commands in containers have none; leave it empty, or use the executor `sandbox`"
            )
        for descriptor in stdio:
            _change_owner(descriptor, self._place.uid)
        cwd = f"{ROOT}/{command.cwd}" if command.cwd != "." else ROOT
        terminal = 0 if command.terminal else None
        launch = LaunchRequest(command.argv, env, cwd, dict(enumerate(stdio)), terminal=terminal)
        container = await self._reserve_container(command.skill)
        return await container.run(launch, self._build_rlimits(command.limits))

    async def close(self) -> None:
        """End the container with everything in it."""
        containers = [*self._earlier, *([self._current] if self._current else [])]
        self._current, self._earlier = None, []
        await asyncio.gather(*(container.close() for container in containers))
        self._when_closed(self)

    async def _reserve_container(self, skill: str | None) -> LiveContainer:
        """The container, in which this skill's `.venv` can be written to.

        What is mounted is decided when a container is made. For a skill that was staged later a new one is made; the
        old one ends with its last command.
        """
        async with self._choosing:
            current = self._current
            if current is None or not current.is_usable or self._is_new(skill, current):
                await self._retire(current)
                current = self._current = await self._start_container()
            current.reserve()
            return current

    async def _retire(self, container: LiveContainer | None) -> None:
        self._current = None
        if container is not None and container.is_usable:
            self._earlier = [*(one for one in self._earlier if not one.is_closed), container]
            await container.retire()
        elif container is not None:
            await container.close()

    async def _start_container(self) -> LiveContainer:
        place = self._place
        skills = await run_in_thread(lambda: sorted(_list_staged_skills(place.tree)))
        return await LiveContainer.start(
            self._engine, self._options, self._image, place.id, place.tree, self._owner, skills
        )

    def _is_new(self, skill: str | None, container: LiveContainer) -> bool:
        return skill is not None and skill not in container.skills and _has_venv(self._place.tree / SKILLS / skill)

    def _build_rlimits(self, limits: Limits) -> Rlimits:
        # Processes are counted for a user of the machine: it is their own limit where the workspace has its own user.
        if self._place.uid is None or limits.processes is None:
            return to_rlimits(limits)
        return (*to_rlimits(limits), (resource.RLIMIT_NPROC, limits.processes, limits.processes))


def _find_owner(place: WorkspaceDirectory) -> tuple[int, int]:
    uid, gid = (place.uid, place.uid) if place.uid is not None else (os.getuid(), os.getgid())
    if uid == 0:
        raise ExecutorUnavailable(
            "commands never run as root; give workspaces users of their own, or run as another user"
        )
    return uid, gid


def _list_staged_skills(tree: Path) -> list[str]:
    with os.scandir(tree / SKILLS) as entries:
        return [
            entry.name
            for entry in entries
            if not entry.name.startswith(TEMPORARY_PREFIX)
            and entry.is_dir(follow_symlinks=False)
            and _has_venv(Path(entry.path))
        ]


def _has_venv(skill: Path) -> bool:
    try:
        return stat.S_ISDIR((skill / VENV).lstat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def _remove_leftovers(private: Path) -> None:
    """Remove what a process left that was killed; the workspace is leased to this one now."""
    for leftover in private.glob(f"{PREFIX}*"):
        shutil.rmtree(leftover, ignore_errors=True)


def _change_owner(descriptor: int, uid: int | None) -> None:
    # Commands open these again by name (/dev/stdout, the controlling terminal), and that asks who owns them. Pipes and
    # terminals are made for this command; a device such as /dev/null is everybody's.
    if uid is not None and (stat.S_ISFIFO(os.fstat(descriptor).st_mode) or os.isatty(descriptor)):
        os.fchown(descriptor, uid, -1)
