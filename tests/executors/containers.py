"""Sessions in real containers, for tests."""

import os
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from openskills.executors.container.backend import ContainerBackend, ContainerLauncher
from openskills.executors.container.engine import ContainerEngine
from openskills.executors.container.spec import WORKSPACE_LABEL, ContainerOptions
from openskills.executors.environment import build_environment
from openskills.executors.process import HostProcess
from openskills.executors.protocol import WorkspaceDirectory
from openskills.executors.spec import SKILLS, TOP_DIRECTORIES, VENV, Command, CommandResult
from tests.container_engine import TestEngine

UID = 61234
TIMEOUT = 20.0


class OpenContainer:
    """One workspace, whose commands run in its container."""

    def __init__(self, place: WorkspaceDirectory, launcher: ContainerLauncher, engine: str) -> None:
        self.place = place
        self.launcher = launcher
        self._engine = engine

    async def start(self, command: Command) -> HostProcess:
        """Start a command as a workspace would."""
        env = build_environment(self.launcher.root, command, path=self.launcher.path, home=self.launcher.home)
        return await HostProcess.start(command, lambda stdio: self.launcher.launch(command, env, stdio))

    async def run(self, command: Command) -> CommandResult:
        """Start it and wait for its end."""
        return await (await self.start(command)).wait()

    def containers(self) -> list[str]:
        """The ids of the containers of this workspace, in whatever state they are."""
        return containers_of(self._engine, self.place.id)


@asynccontextmanager
async def session(
    engine: TestEngine, directory: Path, options: ContainerOptions | None = None, *, id_: str | None = None
) -> AsyncGenerator[OpenContainer]:
    """A workspace below a directory, whose containers are gone after the block."""
    options = replace(options or ContainerOptions(), engine=engine.address, image=engine.image)
    backend = ContainerBackend(options)
    uid = UID if os.geteuid() == 0 else None
    place = WorkspaceDirectory(id_ or f"{directory.name}-{os.getpid()}", made_tree(directory, uid), uid)
    try:
        yield OpenContainer(place, await backend.attach(place), engine.address)
    finally:
        await backend.close()


def python(text: str) -> tuple[str, ...]:
    """The argv of a few lines of Python, for the interpreter of the image."""
    return ("python3", "-I", "-c", text)


def made_tree(directory: Path, uid: int | None) -> Path:
    """The directories of a workspace, which belong to this user."""
    tree = directory / "workspace" / "tree"
    tree.mkdir(mode=0o700, parents=True)
    for place in (tree, *(tree / name for name in TOP_DIRECTORIES)):
        place.mkdir(mode=0o700, exist_ok=True)
        if uid is not None and place.name != SKILLS:
            os.chown(place, uid, uid)
    (tree / SKILLS).chmod(0o755)
    return tree


def staged(place: WorkspaceDirectory, name: str, text: str = "data\n") -> None:
    """Put a skill into the workspace as staging does: a folder of the user of its commands."""
    skill = place.tree / SKILLS / name
    (skill / VENV).mkdir(parents=True)
    (skill / "data.txt").write_text(text)
    if place.uid is not None:
        for path in (skill, *skill.iterdir()):
            os.chown(path, place.uid, place.uid)


def containers_of(address: str, workspace: str) -> list[str]:
    """The ids of the containers of a workspace, in whatever state they are."""
    engine = ContainerEngine(address)
    try:
        return [found for found, _ in engine.list_by_label(f"{WORKSPACE_LABEL}={workspace}")]
    finally:
        engine.close()


def vanish(address: str, workspace: str) -> bool:
    """Wait until a workspace has no container any more; false when it keeps one."""
    deadline = time.monotonic() + TIMEOUT
    while containers_of(address, workspace):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
