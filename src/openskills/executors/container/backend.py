"""Commands in containers of a Docker-compatible engine on this machine: one for each session, made when it is needed.

`container_spec` says what a container is made of, `container_life` runs one, `container_link` is how it is reached.
"""

import asyncio
import os
import resource
import shutil
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

from openskills.artifacts.threads import to_the_end
from openskills.errors import ExecutorUnavailable, InvalidArgument
from openskills.executors.across_loops import AcrossLoops
from openskills.executors.backend import LINKS, Place
from openskills.executors.container.engine import Engine
from openskills.executors.container.life import LiveContainer
from openskills.executors.container.link import PREFIX
from openskills.executors.container.probe import self_test
from openskills.executors.container.spec import HOME, ROOT, ContainerOptions, Image
from openskills.executors.container.sweep import sweep
from openskills.executors.layout import SKILLS, VENV
from openskills.executors.processes.keeping import Kept, Launch
from openskills.executors.processes.rlimits import Rlimits, rlimits
from openskills.executors.spec import Command, Isolation, Limits
from openskills.files import ARRIVING


class ContainerBackend:
    """Runs commands in containers; the engine is first asked when something is to be done."""

    name = "container"
    isolates = True
    own_users = True

    def __init__(self, options: ContainerOptions | None = None) -> None:
        self._options = options or ContainerOptions()
        self._engine: Engine | None = None
        self._checked = False
        self._checking = AcrossLoops()
        self._connecting = AcrossLoops()
        self._launchers: set[ContainerLauncher] = set()

    async def check(self) -> Isolation:
        """Make sure that containers confine what runs in them, and remove those of processes that are gone."""
        async with self._checking:
            if not self._checked:
                engine = await self._connected()
                await to_the_end(engine.check)
                await self.sweep()
                await self_test(self)
                self._checked = True
        return Isolation.CONTAINER

    async def sweep(self) -> int:
        """Remove the containers of processes that are gone; how many there were."""
        engine = await self._connected()
        return len(await to_the_end(lambda: sweep(engine)))

    async def attach(self, place: Place) -> "ContainerLauncher":
        """What starts the commands of this workspace."""
        engine = await self._connected()
        image = await to_the_end(lambda: engine.image(self._options.image))
        await to_the_end(lambda: _tidy(place.tree.parent))
        launcher = ContainerLauncher(place, engine, self._options, image, self._launchers.discard)
        self._launchers.add(launcher)
        return launcher

    async def close(self) -> None:
        """End everything, and hang up."""
        await asyncio.gather(*(launcher.close() for launcher in list(self._launchers)))
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    async def _connected(self) -> Engine:
        async with self._connecting:
            if self._engine is None:
                self._engine = await to_the_end(lambda: Engine(self._options.engine))
            return self._engine


class ContainerLauncher:
    """Starts the commands of one workspace in its container."""

    root = ROOT
    home = HOME
    # They are numbers of the container's own namespace.
    visible_pids = False

    def __init__(
        self,
        place: Place,
        engine: Engine,
        options: ContainerOptions,
        image: Image,
        when_closed: Callable[["ContainerLauncher"], None],
    ) -> None:
        self.path = (LINKS, *image.path.split(":"))
        self._when_closed = when_closed
        self._place = place
        self._owner = _owner(place)
        self._engine = engine
        self._options = options
        self._image = image
        self._choosing = asyncio.Lock()
        self._current: LiveContainer | None = None
        self._earlier: list[LiveContainer] = []

    async def launch(self, command: Command, env: Mapping[str, str], stdio: tuple[int, int, int]) -> Kept:
        """Start a command with this environment and these descriptors."""
        if command.network:
            raise InvalidArgument(
                "network", "commands in containers have none; leave it empty, or use the executor `sandbox`"
            )
        for descriptor in stdio:
            _give(descriptor, self._place.uid)
        cwd = f"{ROOT}/{command.cwd}" if command.cwd != "." else ROOT
        terminal = 0 if command.terminal else None
        launch = Launch(command.argv, env, cwd, dict(enumerate(stdio)), terminal=terminal)
        container = await self._reserved(command.skill)
        return await container.run(launch, self._limits(command.limits))

    async def close(self) -> None:
        """End the container with everything in it."""
        containers = [*self._earlier, *([self._current] if self._current else [])]
        self._current, self._earlier = None, []
        await asyncio.gather(*(container.close() for container in containers))
        self._when_closed(self)

    async def _reserved(self, skill: str | None) -> LiveContainer:
        """The container, in which this skill's `.venv` can be written to.

        What is mounted is decided when a container is made. For a skill that was staged later a new one is made; the
        old one ends with its last command.
        """
        async with self._choosing:
            current = self._current
            if current is None or not current.usable or self._is_new(skill, current):
                await self._retire(current)
                current = self._current = await self._begun()
            current.reserve()
            return current

    async def _retire(self, container: LiveContainer | None) -> None:
        self._current = None
        if container is not None and container.usable:
            self._earlier = [*(one for one in self._earlier if not one.closed), container]
            await container.retire()
        elif container is not None:
            await container.close()

    async def _begun(self) -> LiveContainer:
        place = self._place
        skills = await to_the_end(lambda: sorted(_staged(place.tree)))
        return await LiveContainer.begin(
            self._engine, self._options, self._image, place.id, place.tree, self._owner, skills
        )

    def _is_new(self, skill: str | None, container: LiveContainer) -> bool:
        return skill is not None and skill not in container.skills and _has_venv(self._place.tree / SKILLS / skill)

    def _limits(self, limits: Limits) -> Rlimits:
        # Processes are counted for a user of the machine: it is their own limit where the workspace has its own user.
        if self._place.uid is None or limits.processes is None:
            return rlimits(limits)
        return (*rlimits(limits), (resource.RLIMIT_NPROC, limits.processes, limits.processes))


def _owner(place: Place) -> tuple[int, int]:
    uid, gid = (place.uid, place.uid) if place.uid is not None else (os.getuid(), os.getgid())
    if uid == 0:
        raise ExecutorUnavailable(
            "commands never run as root; give workspaces users of their own, or run as another user"
        )
    return uid, gid


def _staged(tree: Path) -> list[str]:
    with os.scandir(tree / SKILLS) as entries:
        return [
            entry.name
            for entry in entries
            if not entry.name.startswith(ARRIVING)
            and entry.is_dir(follow_symlinks=False)
            and _has_venv(Path(entry.path))
        ]


def _has_venv(skill: Path) -> bool:
    try:
        return stat.S_ISDIR((skill / VENV).lstat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def _tidy(private: Path) -> None:
    """Remove what a process left that was killed; the workspace is leased to this one now."""
    for leftover in private.glob(f"{PREFIX}*"):
        shutil.rmtree(leftover, ignore_errors=True)


def _give(descriptor: int, uid: int | None) -> None:
    # Commands open these again by name (/dev/stdout, the controlling terminal), and that asks who owns them. Pipes and
    # terminals are made for this command; a device such as /dev/null is everybody's.
    if uid is not None and (stat.S_ISFIFO(os.fstat(descriptor).st_mode) or os.isatty(descriptor)):
        os.fchown(descriptor, uid, -1)
