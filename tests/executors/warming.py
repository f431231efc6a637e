"""A workspace for tests with warm interpreters, and the same commands cold."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from openskills.executors.environment import build_environment
from openskills.executors.local import LocalBackend
from openskills.executors.process import HostProcess
from openskills.executors.protocol import Backend, Launcher
from openskills.executors.spec import Command, CommandResult
from openskills.executors.supervisor import SupervisedProcess
from openskills.executors.warm import PreloadSpec, WarmInterpreterPool
from tests.executors.boxes import box

PRELOAD = ("json", "logging", "decimal", "random", "subprocess", "multiprocessing.pool", "threading", "asyncio")


_COLD = "started cold: "


@dataclass(frozen=True)
class Outcome:
    """How a command was started; `reason` says why it was started cold."""

    warm: bool
    reason: str


@dataclass
class Bench:
    """Starts commands in one workspace, warm or cold."""

    tree: Path
    launcher: Launcher
    warm: WarmInterpreterPool
    warmth: PreloadSpec
    started: SupervisedProcess | None = None

    @property
    def outcome(self) -> Outcome:
        """How the last command that was to be warm was started."""
        assert self.started is not None
        cold = [note.removeprefix(_COLD) for note in self.started.notes if note.startswith(_COLD)]
        return Outcome(not cold, "".join(cold))

    def write(self, name: str, text: str | bytes) -> str:
        """A file in `work`; returns its path in the workspace."""
        path = self.tree / "work" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return f"work/{name}"

    async def start(self, command: Command, *, warm: bool = True) -> HostProcess:
        """Start a command."""
        env = build_environment(self.launcher.root, command, path=self.launcher.path, home=self.launcher.home)

        async def launch(stdio: tuple[int, int, int]) -> SupervisedProcess:
            if not warm:
                return await self.launcher.launch(command, env, stdio)
            self.started = await self.warm.launch(command, env, stdio, self.warmth)
            return self.started

        return await HostProcess.start(command, launch)

    async def run(self, command: Command, *, warm: bool = True) -> CommandResult:
        """Start a command and wait for its end."""
        return await (await self.start(command, warm=warm)).wait()

    async def script(self, text: str, *arguments: str, warm: bool = True) -> CommandResult:
        """Run the text as a script."""
        return await self.run(Command(("python", self.write("script.py", text), *arguments)), warm=warm)


@asynccontextmanager
async def bench(
    directory: Path,
    preload: Sequence[str] = PRELOAD,
    *,
    backend: Backend | None = None,
    max_servers: int = 2,
    idle_timeout: float = 300.0,
    start_timeout: float = 60.0,
) -> AsyncGenerator[Bench]:
    """A workspace of the local executor, or of another; its servers end with the block."""
    async with box(backend or LocalBackend(), directory) as one:
        warm = WarmInterpreterPool(
            one.launcher, max_servers=max_servers, idle_timeout=idle_timeout, start_timeout=start_timeout
        )
        try:
            yield Bench(one.place.tree, one.launcher, warm, PreloadSpec(tuple(preload)))
        finally:
            await warm.close()
