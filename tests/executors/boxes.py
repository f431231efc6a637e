"""Workspaces for tests of backends, and commands in them, without an executor around."""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from openskills.executors.environment import build_environment
from openskills.executors.process import HostProcess
from openskills.executors.protocol import Backend, Launcher, WorkspaceDirectory
from openskills.executors.spec import Command, CommandResult, Limits
from tests.workers import get_worker

SKILL = "demo"
QUICK = Limits(timeout=30.0)


def get_uid() -> int:
    """A user whom no machine has, as whom commands of tests run if root runs the tests.

    Processes are counted by user, so each worker has its own.
    """
    return 65002 + get_worker() % 16


def new_place(directory: Path, name: str = "one") -> WorkspaceDirectory:
    """A workspace as an executor would make it, with a skill of one script."""
    place = WorkspaceDirectory(name, directory / "workspaces" / name / "tree", get_uid() if os.geteuid() == 0 else None)
    skill = place.tree / "skills" / SKILL
    for path in (skill / ".venv", place.tree / "work", place.tree / "runs" / "run", place.tree / "out"):
        path.mkdir(parents=True)
    (skill / "SKILL.md").write_text("original")
    writable = (skill, skill / ".venv", skill / "SKILL.md")
    for path in (place.tree, place.tree / "work", *place.tree.glob("runs/**"), place.tree / "out", *writable):
        path.chmod(0o700 if path.is_dir() else 0o600)
        if place.uid is not None:
            os.chown(path, place.uid, place.uid)
    return place


@dataclass(frozen=True)
class Box:
    """One workspace and what starts commands in it."""

    place: WorkspaceDirectory
    launcher: Launcher

    async def start(self, command: Command) -> HostProcess:
        """Start a command as an executor would."""
        launcher = self.launcher
        env = build_environment(launcher.root, command, path=launcher.path, home=launcher.home)
        return await HostProcess.start(command, lambda stdio: launcher.launch(command, env, stdio))

    async def run(self, *argv: str, limits: Limits = QUICK, skill: str | None = None, cwd: str = ".") -> CommandResult:
        """Run a command to its end."""
        return await (await self.start(Command(argv, limits=limits, skill=skill, cwd=cwd))).wait()

    async def shell(self, text: str, **options: object) -> CommandResult:
        """Run a line of shell to its end."""
        command = replace(Command(("bash", "-c", text), limits=QUICK), **options)
        return await (await self.start(command)).wait()


@asynccontextmanager
async def box(backend: Backend, directory: Path) -> AsyncGenerator[Box]:
    """A new workspace of a backend; both end with the block."""
    place = new_place(directory)
    launcher = await backend.attach(place)
    try:
        yield Box(place, launcher)
    finally:
        await launcher.close()
        await backend.close()
