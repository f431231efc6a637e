"""The host process of the crash tests: runs commands and keeps artifacts until somebody kills it."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from openskills.artifacts.files import FileArtifactStore
from openskills.artifacts.store import Scope
from openskills.executors.protocol import Workspace
from openskills.executors.spec import Command, Limits
from tests.hostile.opening import opened, run, with_battery

SCOPE = Scope("app", "user", "session")
_LEAVES_PROCESSES = (
    'setsid bash -c \'exec -a "$0" sleep 300\' "$0" & (bash -c \'exec -a "$0" sleep 300\' "$0" &); '
    'mkdir -p out; head -c 20000 /dev/urandom > "out/$1"; cat "out/$1"'
)

Say = Callable[[str], None]


def store_in(directory: Path) -> FileArtifactStore:
    """The artifacts of the crash tests."""
    return FileArtifactStore(directory / "artifacts")


async def work(name: str, directory: Path, marker: str, round_: int, say: Say, *, turns: int) -> None:
    """Run commands that leave processes behind, keep what they made, and say so once that is acknowledged."""
    async with opened(name, directory) as chosen:
        workspace = await with_battery(chosen, "one", directory)
        await run(workspace, "true")
        say("ready")
        await _background(workspace, marker)
        for turn in range(turns):
            await _turn(workspace, directory, marker, f"{round_}-{turn}.bin", say)


async def _background(workspace: Workspace, marker: str) -> None:
    argv = ("bash", "-c", 'exec -a "$0" sleep 300', marker)
    await workspace.start(Command(argv, skill="battery", cwd=".", limits=Limits(timeout=300)))


async def _turn(workspace: Workspace, directory: Path, marker: str, file: str, say: Say) -> None:
    ended = await run(workspace, "bash", "-c", _LEAVES_PROCESSES, marker, file)
    async with workspace.open(f"out/{file}") as reading:
        artifact = await store_in(directory).put(SCOPE, file, reading.chunks)
    digest = hashlib.sha256(ended.stdout.bytes()).hexdigest()
    say(f"kept {file} {artifact.version} {digest}")
    await workspace.remove(f"out/{file}")


def speaker(descriptor: int) -> Say:
    """Writes whole lines to a pipe."""
    return lambda line: (os.write(descriptor, f"{line}\n".encode()), None)[1]
