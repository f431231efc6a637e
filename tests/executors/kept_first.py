"""A sandbox that is put to the test in its second life: every command gets one that others have had before."""

from collections.abc import Mapping
from dataclasses import replace

from openskills.executors.bubblewrap.backend import SandboxBackend
from openskills.executors.bubblewrap.reuse import can_share
from openskills.executors.process import HostProcess
from openskills.executors.protocol import Launcher, WorkspaceDirectory
from openskills.executors.spec import Command, Isolation
from openskills.executors.supervisor import SupervisedProcess

FIRST_PROCESS = ("cat", "/proc/1/comm")
"""Says who is process 1: `bwrap` in a sandbox of the command's own, an interpreter in one that is kept."""
_TRIES = 200


class KeptFirstBackend:
    """A `SandboxBackend` whose commands wait for a sandbox that was used before, where they may have one."""

    name = "sandbox"
    isolates = True
    own_users = True

    def __init__(self) -> None:
        self._backend = SandboxBackend()

    async def check(self) -> Isolation:
        return await self._backend.check()

    async def attach(self, place: WorkspaceDirectory) -> "KeptFirst":
        return KeptFirst(await self._backend.attach(place))

    async def close(self) -> None:
        await self._backend.close()


class KeptFirst:
    """Starts the commands of one workspace; `shared` counts those that had a sandbox that was used before."""

    visible_pids = True

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher
        self.interpreter = launcher.interpreter
        self.root, self.path, self.home = launcher.root, launcher.path, launcher.home
        self.shared = 0

    async def launch(self, command: Command, env: Mapping[str, str], stdio: tuple[int, int, int]) -> SupervisedProcess:
        if can_share(command) and await self._is_there(command, env):
            self.shared += 1
        return await self._launcher.launch(command, env, stdio)

    async def close(self) -> None:
        await self._launcher.close()

    async def _is_there(self, command: Command, env: Mapping[str, str]) -> bool:
        quiet = replace(command, argv=FIRST_PROCESS, stdin=b"", readable=False)
        for _ in range(_TRIES):
            process = await HostProcess.start(quiet, lambda stdio: self._launcher.launch(quiet, env, stdio))
            ended = await process.wait()
            if ended.stdout.text().startswith("python"):
                return True
            if ended.exit_code != 0:
                # A limit that not even this command can live with.
                return False
        raise AssertionError("no sandbox is ever used a second time")
