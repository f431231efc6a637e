"""A host process: plants things around a workspace, runs the battery in it, and says what the probes got hold of.

`python -m tests.hostile.host EXECUTOR DIRECTORY [terminal] [warm] [used] [harmless]` prints one JSON object. `bare` is
no executor at all, `used` waits for a sandbox that others had before, `harmless` runs the probes that can be tried
without protection, whatever the executor promises. It is a process of its own so that it can have an environment with
secrets, and another user.
"""

import asyncio
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

from openskills.executors.protocol import Workspace
from openskills.executors.spec import MIB, Command, CommandResult, Limits, TerminalSize
from tests.hostile import bare
from tests.hostile.opening import opened
from tests.hostile.planting import LIMITS, Place, planted, results_in
from tests.hostile.probes.battery import PROBES
from tests.hostile.promises import WATCHED, asked_of
from tests.hostile.skill import COMMAND, write_battery

# Process 1 is bwrap in a sandbox of a command's own, and an interpreter in one that is kept.
FIRST_PROCESS = ("cat", "/proc/1/comm")
REPOSITORY = Path(__file__).resolve().parents[2]
BATTERY_LIMITS = Limits(
    timeout=200,
    memory_bytes=LIMITS["memory_bytes"],
    total_memory_bytes=2048 * MIB,
    processes=LIMITS["processes"],
    open_files=LIMITS["open_files"],
    file_bytes=LIMITS["file_bytes"],
    output_bytes=4 * MIB,
)


def harmless(*, terminal: bool) -> list[str]:
    """The probes that touch nothing that is not ours, even when nothing holds them back."""
    return [one.id for one in PROBES.values() if not one.unarmed and one.on_terminal == terminal]


def run_bare(directory: Path, *, terminal: bool) -> dict[str, object]:
    """The battery in a plain child process, without the probes that would touch what is not ours."""
    place = bare.make_place(directory, write_battery(directory))
    with planted(place, directory, REPOSITORY) as things:
        world = replace(things.world, only=harmless(terminal=terminal))
        (place.tree / "work" / "world.json").write_text(world.dump(), "utf-8")
        argv = [bare.python(), *COMMAND[1:]]
        output = bare.run(argv, place, things, os.environ, terminal=terminal)
        return {"results": results_in(output), "touched": things.touched(), "isolation": "nothing at all"}


async def run_under(
    name: str, directory: Path, *, terminal: bool, warm: bool, used: bool = False, only: list[str] | None = None
) -> dict[str, object]:
    """The battery as a skill under an executor: what is asked of that one, or `only` some."""
    state = directory / "state"
    skill = write_battery(directory)
    async with opened(name, directory) as chosen:
        snapshot = await chosen.snapshot("battery", skill)
        workspace, neighbour = await chosen.open("one"), await chosen.open("two")
        for one in (workspace, neighbour):
            await one.stage(snapshot)
            await one.stage(replace(snapshot, name="other"))
        with planted(_place(state, workspace, neighbour, snapshot.digest), directory, REPOSITORY) as things:
            world = replace(things.world, only=only or asked_of(name, root=os.geteuid() == 0))
            await workspace.write("work/world.json", world.dump().encode())
            if used:
                await _have_one_used(workspace)
            ended = await _run(workspace, terminal=terminal, warm=warm)
            return {
                "results": results_in(_output(ended)),
                "touched": things.touched(),
                "isolation": workspace.isolation.value,
                "notes": ended.notes,
            }


def _place(state: Path, workspace: Workspace, neighbour: Workspace, digest: str) -> Place:
    trees = [state / "workspaces" / one.id / "tree" for one in (workspace, neighbour)]
    stored = next(path for path in (state / "snapshots").rglob("SKILL.md") if digest in str(path))
    return Place(trees[0], trees[0].parent, trees[1], stored)


async def _run(workspace: Workspace, *, terminal: bool, warm: bool) -> CommandResult:
    size = TerminalSize(columns=4000) if terminal else None
    loaded = ("json", "ctypes") if warm else None
    command = Command(COMMAND, skill="battery", cwd=".", limits=BATTERY_LIMITS, terminal=size, warm=loaded)
    return await (await workspace.start(command)).wait()


async def _have_one_used(workspace: Workspace) -> None:
    command = Command(FIRST_PROCESS, skill="battery", cwd=".", limits=BATTERY_LIMITS)
    for _ in range(500):
        ended = await (await workspace.start(command)).wait()
        if ended.stdout.text().startswith("python"):
            return
    raise AssertionError("no sandbox is ever used a second time")


def _output(ended: CommandResult) -> str:
    text = ended.stdout.text()
    return text if '"done"' in text else f"{ended.ending} {ended.detail}\n{ended.stderr.text()}\n{text}"


def main(name: str, directory: str, *more: str) -> None:
    """Run and report."""
    terminal = "terminal" in more
    if name == "bare":
        report = run_bare(Path(directory), terminal=terminal)
    else:
        used, warm = "used" in more, "warm" in more
        only = [one for one in harmless(terminal=terminal) if one not in WATCHED] if "harmless" in more else None
        report = asyncio.run(run_under(name, Path(directory), terminal=terminal, warm=warm, used=used, only=only))
    sys.stdout.write(json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
