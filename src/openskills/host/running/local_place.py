"""Hosted skills as plain processes of this machine."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from openskills.executors.backend import Interpreter
from openskills.executors.local import SYSTEM_PATH
from openskills.executors.processes.keeping import Kept, Launch
from openskills.executors.processes.pool import KeeperPool
from openskills.executors.processes.rlimits import rlimits
from openskills.executors.spec import Isolation
from openskills.host.own_directory import OwnDirectory
from openskills.host.registration import Registration
from openskills.host.running.place import process_limits
from openskills.host.running.skill_environment import skill_environment


class LocalPlace:
    """Plain processes of this machine, with this user's rights. NOT a sandbox.

    They begin in `directory`, and have a home of their own that ends with us.
    """

    isolation = Isolation.NONE
    alone = False

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._keepers = KeeperPool()
        self._home: OwnDirectory | None = None
        self._python = Interpreter.ours()

    async def check(self) -> None:
        """It works wherever a process can be started."""

    def environment(self, registration: Registration) -> dict[str, str]:
        """See `Place.environment`."""
        if self._home is None:
            self._home = OwnDirectory()
            self._python.link_in(_links(self._home))
        path = (*self._python.search_path(str(_links(self._home))), *SYSTEM_PATH)
        return skill_environment(registration, path=path, home=str(self._home.path))

    async def start(
        self, registration: Registration, argv: Sequence[str], env: Mapping[str, str], stdio: tuple[int, int, int]
    ) -> Kept:
        """See `Place.start`."""
        launch = Launch(argv, env, str(self._directory), dict(enumerate(stdio)))
        return await self._keepers.start(launch, rlimits(process_limits(registration.limits)))

    async def close(self) -> None:
        """See `Place.close`."""
        await self._keepers.close()
        if self._home is not None:
            await asyncio.to_thread(self._home.remove)
            self._home = None


def _links(home: OwnDirectory) -> Path:
    """Beside the home, where a skill that clears it does not get."""
    return home.path.with_name("bin")
