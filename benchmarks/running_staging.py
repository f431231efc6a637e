"""A new workspace: made, with a skill of 20 files staged, and a first command run in it."""

import itertools
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

from peer_turns import in_turns_or_why
from reasons import one_line
from report import Target
from running_bench import Ground, ground, run_of, write_skill
from running_part import NotMeasured, Part, Surroundings, raw_series, series_table
from running_peers import trpc_agent
from sampling import Way

from openskills.errors import ExecutorUnavailable

FILES, BOUND = 20, 5
RUN, STAGE, FIRST = "`true` run", "staged only", "never seen before"
PEER_RUN, PEER_STAGE = "trpc-agent-py, local, `true` run", "trpc-agent-py, staged only"

_ABOUT = f"""
A new session with its own workspace, in which a skill of {FILES} files is staged. trpc-agent-py runs `skill_run` in a
new session, and `skill_load` for "{STAGE}"; it links the skill's folder, so that commands can change it, while staged
skills of OpenSkill are read-only. "{FIRST}" is a skill whose content was never staged on this machine: it is read,
hashed and stored.
"""


async def measure(at: Surroundings) -> Part:
    """Staging with and without a command, for every executor that keeps workspaces here."""
    missing: dict[str, str] = {}
    async with AsyncExitStack() as stack:
        ways = _ours("local", await stack.enter_async_context(ground("local", at.scratch)), at.scratch)
        try:
            place = await stack.enter_async_context(ground("sandbox", at.scratch))
            ways |= _ours("sandbox", place, at.scratch)
        except ExecutorUnavailable as error:
            missing[f"sandbox, {STAGE}"] = one_line(f"the sandbox: {error.message}")
        try:
            skill = write_skill(at.scratch / "peer", FILES)
            peer = await stack.enter_async_context(trpc_agent(at.scratch, skill.parent, skill.name))
            ways |= {PEER_RUN: peer.way("new", command="true"), PEER_STAGE: peer.way("load")}
        except NotMeasured as reason:
            missing |= dict.fromkeys((PEER_RUN, PEER_STAGE), str(reason))
        at.say("staging a skill in new workspaces")
        found = await in_turns_or_why(ways, at.extent.few, missing)
    medians = {name: one.median for name, one in found.items()}
    return Part(
        "A new workspace",
        _ABOUT,
        [
            _target(f"new workspace, {FILES} files staged, local", f"local, {STAGE}", medians, missing),
            _target(f"new workspace, {FILES} files staged, sandbox", f"sandbox, {STAGE}", medians, missing),
        ],
        series_table(found),
        missing=list(dict.fromkeys(missing.values())),
        raw=raw_series(found),
    )


def _target(promise: str, ours: str, medians: Mapping[str, float], missing: Mapping[str, str]) -> Target:
    why = "; ".join(dict.fromkeys(missing[name] for name in (ours, PEER_STAGE) if name in missing))
    value = None if why else medians[PEER_STAGE] / medians[ours]
    return Target(f"{promise}: faster than trpc-agent-py", value, BOUND, why=why)


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
        # It is not removed: many file systems take long to give away what was freed a moment ago.
        await bench.close()
        return seconds

    return once


def _unknown(place: Ground, scratch: Path) -> Way:
    numbers = itertools.count()

    async def once() -> float:
        directory = scratch / str(next(numbers))
        return await _new(place, write_skill(directory, FILES, marker=directory.name), run=False)()

    return once
