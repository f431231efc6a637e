"""What a way to run commands on this machine has to bring, so that `directory.py` can do the rest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from openskills.executors.processes.keeping import Kept
from openskills.executors.spec import Command, Isolation


@dataclass(frozen=True, slots=True)
class Place:
    """Where a workspace lies: its directory, and the user that its commands run as (None: ours)."""

    id: str
    tree: Path
    uid: int | None


class Launcher(Protocol):
    """Starts the commands of one workspace."""

    @property
    def root(self) -> str:
        """The workspace as its commands see it."""
        ...

    @property
    def path(self) -> Sequence[str]:
        """Where its commands look for programs."""
        ...

    @property
    def home(self) -> str:
        """The home directory of its commands."""
        ...

    @property
    def visible_pids(self) -> bool:
        """Whether the pid of a started command means something in this process's /proc."""
        ...

    async def launch(self, command: Command, env: Mapping[str, str], stdio: tuple[int, int, int]) -> Kept:
        """Start a command with this environment and these descriptors."""
        ...

    async def close(self) -> None:
        """Give back what it holds. Its commands have ended."""
        ...


class Backend(Protocol):
    """A way to run commands on this machine."""

    @property
    def name(self) -> str:
        """How it is called in settings."""
        ...

    @property
    def isolates(self) -> bool:
        """Whether commands cannot write to a staged skill, whatever its modes are."""
        ...

    @property
    def own_users(self) -> bool:
        """Whether each workspace gets a user of its own, where the host is root."""
        ...

    async def check(self) -> Isolation:
        """See `Executor.check`."""
        ...

    async def attach(self, place: Place) -> Launcher:
        """What starts the commands of this workspace."""
        ...

    async def close(self) -> None:
        """End everything."""
        ...
