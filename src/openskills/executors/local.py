"""Commands as plain child processes of this machine, with this user's rights. NOT a sandbox.

What it does: a clean environment, limits for each process, the deadline, and an end for every descendant. What it does
not do: keep a command from reading, writing or connecting to anything that this user can.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from openskills.executors.direct_start import start_directly
from openskills.executors.protocol import Interpreter, WorkspaceDirectory
from openskills.executors.spec import SKILLS, Command, Isolation
from openskills.executors.supervisor import LaunchRequest, SupervisedProcess, SupervisorPool, to_rlimits

SYSTEM_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_LINKS = "bin"


class LocalBackend:
    """Runs commands with nothing between them and the machine.

    They find `python` as `python` and `python3`; without it, the interpreter that we run on.
    """

    name = "local"
    isolates = False
    own_users = False

    def __init__(self, *, python: Path | None = None) -> None:
        self._pool = SupervisorPool()
        self._python = Interpreter.chosen(python) or Interpreter.ours()

    async def check(self) -> Isolation:
        """It works wherever a process can be started."""
        return Isolation.NONE

    async def attach(self, place: WorkspaceDirectory) -> "LocalLauncher":
        """What starts the commands of this workspace."""
        (place.tree.parent / "home").mkdir(mode=0o700, exist_ok=True)
        self._python.link_in(place.tree.parent / _LINKS)
        return LocalLauncher(place, self._pool, self._python)

    async def close(self) -> None:
        """End everything."""
        await self._pool.close()


class LocalLauncher:
    """Starts the commands of one workspace."""

    visible_pids = True

    def __init__(self, place: WorkspaceDirectory, pool: SupervisorPool, python: Interpreter) -> None:
        self._pool = pool
        self.root = os.path.realpath(place.tree)
        # Beside the workspace: caches and settings of programs are no work of a skill.
        self.home = str(place.tree.parent / "home")
        self.path = (*python.search_path(str(place.tree.parent / _LINKS)), *SYSTEM_PATH)

    async def launch(self, command: Command, env: Mapping[str, str], stdio: tuple[int, int, int]) -> SupervisedProcess:
        """Start a command with this environment and these descriptors."""
        launch = LaunchRequest(
            command.argv,
            env,
            self._resolve_cwd(command),
            dict(enumerate(stdio)),
            terminal=0 if command.terminal else None,
        )
        limits = to_rlimits(command.limits)
        return await start_directly(lambda one: self._pool.start(one, limits), launch)

    def _resolve_cwd(self, command: Command) -> str:
        """Where it starts, by the name that a shell there would give it."""
        place = f"{self.root}/{command.cwd}"
        # A skill's own directory is ours and no link, and so is a run's; links are in those that commands write to.
        ours = command.cwd in (f"{SKILLS}/{command.skill}", command.run_dir)
        return place if ours else self.root if command.cwd == "." else os.path.realpath(place)

    async def close(self) -> None:
        """Nothing is held for a workspace."""
