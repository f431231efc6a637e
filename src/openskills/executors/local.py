"""Executor backend that runs commands as plain child processes of this user. NOT a sandbox.

It provides a clean environment, limits for each process, the timeout, and cleanup of all descendants. It does not
restrict what a command can read, write or connect to.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from openskills.arguments import check_arguments
from openskills.executors.direct_start import start_directly
from openskills.executors.protocol import Interpreter, WorkspaceDirectory
from openskills.executors.spec import SKILLS, SYSTEM_PATH, Command, Isolation
from openskills.executors.supervisor import LaunchRequest, SupervisedProcess, SupervisorPool, to_rlimits

_LINKS = "bin"


@check_arguments
class LocalBackend:
    """Runs commands without isolation.

    They find the interpreter `python`, by default the one that we run on, as `python` and `python3`.
    """

    name = "local"
    own_users = False

    def __init__(self, *, python: Path | None = None) -> None:
        self._pool = SupervisorPool()
        self._python = Interpreter.choose(python) or Interpreter.ours()

    async def check(self) -> Isolation:
        """Always available."""
        return Isolation.NONE

    async def attach(self, place: WorkspaceDirectory) -> "LocalLauncher":
        """The launcher for a workspace."""
        (place.tree.parent / "home").mkdir(mode=0o700, exist_ok=True)
        self._python.link_in(place.tree.parent / _LINKS)
        return LocalLauncher(place, self._pool, self._python)

    async def close(self) -> None:
        """Kill all commands."""
        await self._pool.close()


class LocalLauncher:
    """Starts the commands of one workspace."""

    visible_pids = True

    def __init__(self, place: WorkspaceDirectory, pool: SupervisorPool, python: Interpreter) -> None:
        self._pool = pool
        self.root = os.path.realpath(place.tree)
        # Outside of the workspace: caches and settings of programs are not results of a skill.
        self.home = str(place.tree.parent / "home")
        self.interpreter = python.identity
        self.path = (*python.search_path(str(place.tree.parent / _LINKS)), *SYSTEM_PATH)

    async def launch(self, command: Command, env: Mapping[str, str], stdio: tuple[int, int, int]) -> SupervisedProcess:
        """Start a command with this environment and these descriptors."""
        cwd = self.root if command.cwd == "." else f"{self.root}/{command.cwd}"
        # A shell reports the real path. Only directories that commands can write to may contain links.
        if command.cwd not in (".", f"{SKILLS}/{command.skill}", command.run_dir):
            cwd = os.path.realpath(cwd)
        terminal = 0 if command.terminal else None
        launch = LaunchRequest(command.argv, env, cwd, dict(enumerate(stdio)), terminal, limits=command.limits)
        limits = to_rlimits(command.limits)
        return await start_directly(lambda one: self._pool.start(one, limits), launch)

    async def close(self) -> None:
        """Does nothing: a launcher holds no resources."""
