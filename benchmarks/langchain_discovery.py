"""How long a thread takes to find its skills when it begins."""

import time
from collections.abc import Callable
from typing import Any

import corpus
from langchain_ways import MARKED, UPSTREAM, few_skills, ways
from report import Bar, Target, time_text
from running_part import Part, Surroundings, plain_table, raw_series
from sampling import Series, Way, in_turns

LEAST = 4
FIRST, LATER = "OpenSkill, the first thread", "OpenSkill, every other thread"

_ABOUT = f"""
`before_agent` of deepagents' middleware and of ours in a thread that has no list of skills yet, through the same
`FilesystemBackend`. "{FIRST}" has nothing to remember; in the others whatever did not change on disk is not read again.
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
            UPSTREAM: _finding(made[UPSTREAM]),
            FIRST: _finding(made[MARKED]),
            LATER: _finding(lambda ours=ours: ours),
        }
        found[count] = await in_turns(turns, at.extent.few)
    most = max(found)
    times = {name: series.median for name, series in found[most].items()}
    targets = [
        Target(f"{most:,} skills, {name}: times faster than deepagents", times[UPSTREAM] / times[name], LEAST)
        for name in (FIRST, LATER)
    ]
    bars = [Bar(name, seconds, ours=name != UPSTREAM) for name, seconds in times.items()]
    rows = [[f"{count:,}", *(time_text(one.median) for one in series.values())] for count, series in found.items()]
    table = plain_table(["skills", UPSTREAM, FIRST, LATER], rows)
    raw = {str(count): raw_series(series) for count, series in found.items()}
    return Part("Finding skills", _ABOUT, targets, table, bars, raw=raw)


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
