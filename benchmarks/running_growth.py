"""Whether a run costs more in a skill of many files, or in an old workspace. It must not."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from report import Target
from running_bench import SKILL, Ground, ground, run_of, write_skill
from running_part import Part, Surroundings, raw_series, series_table
from sampling import Series, Way, growth, in_turns, timed

from openskills.errors import ExecutorUnavailable
from openskills.executors.requests import RunRequest

FLAT = 1.25
_YOUNG = 10

_ABOUT = f"""
`true` in workspaces whose skill has more and more files, and in workspaces in which more and more commands have run,
each of which left a file in its run directory. Growth is that of a power law fitted to the medians, from the smallest
to the largest: 1 is constant, and values up to {FLAT} can be noise. "Staged again" stages the unchanged skill before
each run, which checks every file and is not part of a run.
"""


async def measure(at: Surroundings) -> Part:
    """Both, for the executors that keep workspaces here."""
    targets: list[Target] = []
    tables: list[str] = []
    missing: list[str] = []
    raw: dict[str, object] = {}
    for name in ("local", "sandbox"):
        async with AsyncExitStack() as stack:
            try:
                place = await stack.enter_async_context(ground(name, at.scratch))
            except ExecutorUnavailable as error:
                missing.append(f"the {name}: {error.message}")
                continue
            for kind, found in (("files", await _by_files(place, name, at)), ("age", await _by_age(place, name, at))):
                sizes = sorted(found)
                series = {_label(kind, size): one for size, one in found.items()}
                targets.append(_target(name, kind, sizes, found))
                if kind == "files":
                    series |= await _staged_again(place, at.scratch / f"{name}-{sizes[-1]}" / SKILL, sizes[-1])
                tables.append(f"**{name}**\n\n{series_table(series, base=_label(kind, sizes[0]))}")
                raw[f"{name}, {kind}"] = raw_series(series)
    return Part("Growth", _ABOUT, targets, "\n\n".join(tables), missing=missing, raw=raw)


def _target(name: str, kind: str, sizes: Sequence[int], found: dict[int, Series]) -> Target:
    ends = f"{sizes[0]:,} to {sizes[-1]:,} {'files in the skill' if kind == 'files' else 'earlier runs'}"
    value = growth([(size, found[size].median) for size in sizes])
    return Target(f"growth of the cost of a run, {name}, from {ends}", value, FLAT, at_least=False, digits=2)


def _label(kind: str, size: int) -> str:
    return f"a skill of {size:,} files" if kind == "files" else f"after {size:,} runs"


async def _by_files(place: Ground, name: str, at: Surroundings) -> dict[int, Series]:
    ways: dict[str, Way] = {}
    for size in at.extent.skill_files:
        bench = await place.bench(write_skill(at.scratch / f"{name}-{size}", size))
        ways[str(size)] = run_of(bench, ["true"])
    at.say(f"{name}: skills of {' and '.join(ways)} files")
    return {int(size): series for size, series in (await in_turns(ways, at.extent.many)).items()}


async def _by_age(place: Ground, name: str, at: Surroundings) -> dict[int, Series]:
    ways: dict[str, Way] = {}
    skill = at.scratch / f"{name}-{at.extent.skill_files[0]}" / SKILL
    for age in (min(_YOUNG, at.extent.old // 2), at.extent.old):
        at.say(f"{name}: making a workspace in which {age} commands were run")
        bench = await place.bench(skill)
        request = RunRequest(("bash", "-c", "echo something >$RUN_DIR/left-behind"), skill=SKILL)
        for _ in range(age):
            await bench.run(request)
        ways[str(age)] = run_of(bench, ["true"])
    return {int(age): series for age, series in (await in_turns(ways, at.extent.many)).items()}


async def _staged_again(place: Ground, skill: Path, files: int) -> dict[str, Series]:
    bench = await place.bench(skill)
    run = run_of(bench, ["true"])

    async def act() -> None:
        await bench.stage(skill.name, skill)
        await run()

    return await in_turns({f"{_label('files', files)}, staged again": timed(act)}, 10)
