"""A way to start processes of hosted skills on this machine: what every one has to bring."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from openskills.executors.processes.keeping import Kept
from openskills.executors.spec import Isolation, Limits
from openskills.host.registration import HostLimits, Registration


class Place(Protocol):
    """A way to start processes of skills on this machine."""

    @property
    def isolation(self) -> Isolation:
        """What stands between them and the machine."""
        ...

    @property
    def alone(self) -> bool:
        """Whether what is started here is ended as a whole, so that each slot of a skill gets a start of its own."""
        ...

    async def check(self) -> None:
        """Raises `ExecutorUnavailable` with the fix when nothing can be started here."""
        ...

    def environment(self, registration: Registration) -> dict[str, str]:
        """The variables that are the same for all calls of a skill."""
        ...

    async def start(
        self, registration: Registration, argv: Sequence[str], env: Mapping[str, str], stdio: tuple[int, int, int]
    ) -> Kept:
        """Start a program of a skill with these descriptors. Everything that it starts ends with it, or with us."""
        ...

    async def close(self) -> None:
        """End everything."""
        ...


def process_limits(limits: HostLimits) -> Limits:
    """What every process of a skill is held to."""
    return Limits(
        memory_bytes=limits.memory_bytes,
        processes=limits.processes,
        file_bytes=limits.file_bytes,
        cpu_seconds=limits.cpu_seconds,
    )
