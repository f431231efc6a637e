"""A new workspace: made, with a skill of 20 files staged, and a first command run in it."""

import itertools
import shutil
import time
from contextlib import AsyncExitStack
from pathlib import Path

from report import Target
from running_bench import Ground, ground, run_of, write_skill
from running_part import NotMeasured, Part, Surroundings, raw_series, series_table
from running_peers import trpc_agent
from sampling import Way, in_turns

from openskills.errors import ExecutorUnavailable

FILES, BOUND = 20, 5
RUN, STAGE, FIRST = "`true` run", "staged only", "never seen before"
PEER_RUN, PEER_STAGE = "trpc-agent-py, local, `true` run", "trpc-agent-py, staged only"

_ABOUT = f"""
A new session with a workspace of its own, in which a skill of {FILES} files is staged: for trpc-agent-py,
`skill_run` in a new session, and `skill_load` for "{STAGE}". It puts a link to the skill's folder there, which
commands can write through; ours is read-only and stays what it was. "{FIRST}" is a skill whose content was never
staged on this machine: it is read, hashed and kept.
"""


async def measure(at: Surroundings) -> Part:
    """Staging with and without a command, for every executor that keeps workspaces here."""
    missing: list[str] = []
    async with AsyncExitStack() as stack:
        ways = _ours("local", await stack.enter_async_context(ground("local", at.scratch)), at.scratch)
        try:
            place = await stack.enter_async_context(ground("sandbox", at.scratch))
            ways |= _ours("sandbox", place, at.scratch)
        except ExecutorUnavailable as error:
            missing.append(f"the sandbox: {error.message}")
        try:
            skill = write_skill(at.scratch / "peer", FILES)
            peer = await stack.enter_async_context(trpc_agent(at.scratch, skill.parent, skill.name))
            ways |= {PEER_RUN: peer.way("new", command="true"), PEER_STAGE: peer.way("load")}
        except NotMeasured as reason:
            missing.append(str(reason))
        at.say("staging a skill in new workspaces")
        found = await in_turns(ways, at.extent.few)
    medians = {name: one.median for name, one in found.items()}
    return Part(
        "A new workspace",
        _ABOUT,
        [
            _target(f"new workspace, {FILES} files staged, local", f"local, {STAGE}", PEER_STAGE, medians),
            _target(f"new workspace, {FILES} files staged, sandbox", f"sandbox, {STAGE}", PEER_STAGE, medians),
        ],
        series_table(found),
        missing=missing,
        raw=raw_series(found),
    )


def _target(promise: str, ours: str, theirs: str, medians: dict[str, float]) -> Target:
    lacking = [name for name in (ours, theirs) if name not in medians]
    value = None if lacking else medians[theirs] / medians[ours]
    return Target(
        f"{promise}: faster than trpc-agent-py", value, BOUND, why=f"{' and '.join(lacking)} could not be run"
    )


def _ours(name: str, place: Ground, scratch: Path) -> dict[str, Way]:
    skill = write_skill(scratch / f"known-{name}", FILES)
    return {
        f"{name}, {RUN}": _new(place, skill, run=True),
        f"{name}, {STAGE}": _new(place, skill, run=False),
        f"{name}, {FIRST}, {STAGE}": _unknown(place, scratch / f"unknown-{name}"),
    }


def _new(place: Ground, skill: Path, *, run: bool) -> Way:
    async def once() -> float:
        begin = time.perf_counter()
        bench = await place.bench(skill)
        if run:
            await run_of(bench, ["true"])()
        seconds = time.perf_counter() - begin
        await bench.close()
        await place.executor.remove(bench.key)
        return seconds

    return once


def _unknown(place: Ground, scratch: Path) -> Way:
    numbers = itertools.count()

    async def once() -> float:
        directory = scratch / str(next(numbers))
        seconds = await _new(place, write_skill(directory, FILES, marker=directory.name), run=False)()
        shutil.rmtree(directory)
        return seconds

    return once
