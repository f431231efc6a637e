"""How long a thread takes to find its skills when it begins."""

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import corpus
from langchain_ways import MARKED, UPSTREAM, few_skills, ways
from report import Bar, Target, time_text
from running_part import Part, Surroundings, plain_table, raw_series
from sampling import Series, Way, in_turns, timed

MIN_RATIO = 4
FLOOR = "only reading the files"
FIRST, LATER = "OpenSkill, the first thread", "OpenSkill, every other thread"

_ABOUT = f"""
`before_agent` of deepagents' middleware and of ours in a thread without a list of skills, using the same
`FilesystemBackend`. "{FIRST}" has an empty cache; later threads do not read unchanged files again. "{FLOOR}" is the
baseline: open, read and close each `SKILL.md`.
"""


async def measure(at: Surroundings) -> Part:
    """Finding ever more skills."""
    found: dict[int, dict[str, Series]] = {}
    for count in few_skills(at.extent):
        at.say(f"finding {count:,} skills")
        root = at.scratch / str(count)
        corpus.build(root / "skills", count)
        made = ways(root)
        ours = made[MARKED]()
        turns: dict[str, Way] = {
            FLOOR: timed(partial(_reading, root / "skills")),
            UPSTREAM: _finding(made[UPSTREAM]),
            FIRST: _finding(made[MARKED]),
            LATER: _finding(lambda ours=ours: ours),
        }
        found[count] = await in_turns(turns, at.extent.few)
    most = max(found)
    times = {name: series.median for name, series in found[most].items()}
    targets = [
        Target(f"{most:,} skills, {name}: faster than deepagents", times[UPSTREAM] / times[name], MIN_RATIO)
        for name in (FIRST, LATER)
    ]
    bars = [Bar(name, seconds, ours=name not in (FLOOR, UPSTREAM)) for name, seconds in times.items()]
    rows = [[f"{count:,}", *(_cell(one, series[FLOOR]) for one in series.values())] for count, series in found.items()]
    table = plain_table(["skills", *found[most]], rows)
    raw = {str(count): raw_series(series) for count, series in found.items()}
    return Part("Finding skills", _ABOUT, targets, table, bars, raw=raw)


def _cell(one: Series, floor: Series) -> str:
    times = f", {one.median / floor.median:.2f}x" if one is not floor else ""
    return f"{time_text(one.median)}{times}"


async def _reading(skills: Path) -> None:
    for folder in os.scandir(skills):
        Path(folder.path, "SKILL.md").read_bytes()


def _finding(make: Callable[[], Any]) -> Way:
    async def once() -> float:
        middleware = make()
        begin = time.perf_counter()
        found = middleware.before_agent({"messages": []}, None, {})
        seconds = time.perf_counter() - begin
        if not found["skills_metadata"]:
            raise RuntimeError("no skills were found")
        return seconds

    return once
