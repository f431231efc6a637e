"""A host process that reads, writes, collects and removes in a workspace full of traps.

`python -m tests.hostile.tricks EXECUTOR DIRECTORY` prints one JSON object: what was set, what a naive host
would have got, and what came out of the workspace.
"""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable
from pathlib import Path

from openskills.artifacts.memory import MemoryArtifactStore
from openskills.artifacts.store import Scope, read_artifact
from openskills.errors import SkillError
from openskills.executors.protocol import Workspace
from openskills.executors.spec import MIB
from openskills.executors.staging.outputs import OutputSpec, collect_outputs, save_outputs
from tests.hostile.opening import opened, python, run, with_battery
from tests.hostile.planting import VARIABLE, token
from tests.hostile.probes.tricking import traps

MODULE = "tests.hostile.probes.tricking"
_PATHS = (
    "out/directory/secret.txt",
    "out/directory/drop/x",
    "work/x",
    "runs/x",
    "out/dangling",
    "out/fifo",
    "out/link",
)
_LIMIT = 64 * 1024


async def visit(name: str, directory: Path) -> dict[str, object]:
    """Do everything that a host does with a workspace, after the traps are set."""
    outside = directory / "outside"
    (outside / "drop").mkdir(parents=True)
    secret = token()
    (outside / "secret.txt").write_text(secret, "ascii")
    outside.chmod(0o777)
    (outside / "drop").chmod(0o777)
    async with opened(name, directory) as chosen:
        workspace = await with_battery(chosen, "one", directory)
        ended = await run(workspace, *python(MODULE, str(outside), str(os.getpid())))
        tree = directory / "state" / "workspaces" / workspace.id / "tree"
        naive = [path.name for path in tree.glob("out/*") if _leaks(_naive(path), secret)]
        came = await _everything(workspace)
        written = await _written(workspace)
        await chosen.remove("one")
    left = {path.name: path.read_bytes() for path in outside.rglob("*") if not path.is_dir()}
    return {
        "set": ended.stdout.text().strip().split(","),
        "naive": sorted(naive),
        "leaked": [where for where, data in came.items() if _leaks(data, secret)],
        "came": sorted(came),
        "written": written,
        "outside": sorted(left) if left.get("secret.txt") == secret.encode() else ["changed"],
    }


def _leaks(data: bytes, secret: str) -> bool:
    return secret.encode() in data or os.environ[VARIABLE].encode() in data


def _naive(path: Path) -> bytes:
    """What somebody gets who opens what is there, as long as that does not wait."""
    if path.is_fifo():
        return b""
    target = path / "secret.txt" if path.is_dir() else path
    try:
        with target.open("rb") as file:
            return file.read(_LIMIT)
    except OSError:
        return b""


async def _everything(workspace: Workspace) -> dict[str, bytes]:
    """All that can be brought out: by collecting, by keeping, and by the name of each trap."""
    store, scope = MemoryArtifactStore(), Scope("a", "u", "s")
    spec = OutputSpec(("out/**", "work/**", "runs/**", "**"), max_files=1000, max_file_bytes=_LIMIT)
    collected = await collect_outputs(workspace, spec)
    found = {f"collected {file.path}": file.data for file in collected.files}
    small = [file for file in collected.files if file.size < MIB]
    for artifact in (await save_outputs(workspace, small, store, scope)).artifacts:
        found[f"kept {artifact.name}"] = await read_artifact(store, scope, artifact.name)
    for name in (*(f"out/{trap}" for trap in traps("", "")), *_PATHS):
        data = await _attempted(_opened(workspace, name))
        if isinstance(data, bytes):
            found[f"opened {name}"] = data
    return found


async def _opened(workspace: Workspace, path: str) -> bytes:
    async with workspace.open(path) as reading:
        async for chunk in reading.chunks:
            return chunk[:_LIMIT]
    return b""


async def _written(workspace: Workspace) -> dict[str, str]:
    """What came of writing to each place that may lead out, by the kind of writing."""
    said: dict[str, str] = {}
    for path in _PATHS:
        target = path.replace("secret.txt", "planted")
        for kind, attempt in {
            "write": workspace.write(target, b"planted"),
            "make": workspace.make_directory(f"{target}/made"),
            "link": workspace.link(f"{target}-link", "out/real.txt"),
            "remove": workspace.remove(path),
        }.items():
            answer = await _attempted(attempt)
            said[f"{kind} {target}"] = answer if isinstance(answer, str) else "done"
    return said


async def _attempted(attempt: Awaitable[object]) -> object:
    try:
        return await attempt
    except SkillError as error:
        return type(error).__name__


def main(name: str, directory: str) -> None:
    """Run and report."""
    sys.stdout.write(json.dumps(asyncio.run(visit(name, Path(directory)))))


if __name__ == "__main__":
    main(*sys.argv[1:])
