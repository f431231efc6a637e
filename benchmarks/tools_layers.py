"""Where the time of a call of `skill_run` goes: the same command by ever less of ours."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from running_bench import command_of, ground, write_skill
from running_part import NotMeasured, Part, Surroundings, raw_series, series_table
from running_peers import bare, bubblewrap
from sampling import Series, Way, in_turns, timed
from tools_session import benched, called, loaded_session
from tools_ways import BARE

from openskills.errors import ExecutorUnavailable

CALL, BENCH, STARTED, STAGE = "skill_run", "CommandRunner.run", "the executor", "checking the skill for changes"
BWRAP = "bwrap alone"
COMMAND = ("true",)

_ABOUT = f"""
`true`, layer by layer: the tool, the `CommandRunner` that it calls, and the executor below that. The tool and the
`CommandRunner` receive the command as text for bash; since bash would only start a program, it is started directly,
so each layer runs the same thing. "{STAGE}" is the check before each run whether the skill's folder has changed: it
looks at each of its 20 files. "{BWRAP}" is the time of the kernel for new namespaces.
"""


async def measure(at: Surroundings) -> Part:
    """Every layer, for the executors that keep workspaces here."""
    found: dict[str, dict[str, Series]] = {}
    missing: list[str] = []
    skill = write_skill(at.scratch / "skills", 20)
    for name in ("local", "sandbox"):
        at.say(f"{name}: layer by layer")
        async with AsyncExitStack() as stack:
            try:
                ways = await _ways(name, skill, at.scratch, stack)
            except ExecutorUnavailable as error:
                missing.append(f"the {name}: {error.message}")
                continue
            if name == "sandbox":
                ways |= _bubblewrap(missing)
            found[name] = await in_turns(ways, at.extent.many)
    tables = [f"**{name}**\n\n{series_table(series, base=BARE)}" for name, series in found.items()]
    return Part("Where the time goes", _ABOUT, [], "\n\n".join(tables), missing=missing, raw=_raw(found))


async def _ways(name: str, skill: Path, scratch: Path, stack: AsyncExitStack) -> dict[str, Way]:
    place = await stack.enter_async_context(ground(name, scratch))
    session = await stack.enter_async_context(loaded_session(place, skill.parent))
    bench = await place.bench(skill)
    return {
        BARE: bare(COMMAND),
        CALL: called(session, COMMAND),
        BENCH: benched(bench, COMMAND),
        STARTED: command_of(bench, COMMAND),
        STAGE: timed(partial(bench.stage, skill.name, skill)),
    }


def _bubblewrap(missing: list[str]) -> dict[str, Way]:
    try:
        return {BWRAP: bubblewrap()(COMMAND)}
    except NotMeasured as reason:
        missing.append(str(reason))
        return {}


def _raw(found: Mapping[str, Mapping[str, Series]]) -> dict[str, object]:
    return {name: raw_series(series) for name, series in found.items()}
