"""How long other libraries take to find the same skills, in processes that stay, so that all can be taken often."""

from contextlib import AsyncExitStack
from pathlib import Path

import corpus
from discovery_peers import DEEPAGENTS, FINDERS, OURS, Finder
from discovery_staying import Staying
from readings import Take, Turns, raw_turns, take_turns, turns_table
from report import Target
from running_part import Part, Surroundings

FIRST, FILES = "OpenSkill", "only reading the files"
JSON_STYLE = ", JSON-style metadata"
QUICKER = 3

_DOES = "\n".join(f"- {name}: {finder.does}" for name, finder in FINDERS.items())
_ABOUT = f"""
{{count:,}} skills of the same kind, found by each library that discovers skills in a folder, in a long-running process
for each library. Every run creates new objects, after one warm-up round. OpenSkill is `Catalog.from_paths` without an
index. In the rows on JSON-style metadata two of five skills have nested JSON metadata, as in one large public
collection; skills-ref rejects such files. The others run:

{_DOES}
"""
_OWN = {FIRST: Finder(OURS, "openskills_first", ""), FILES: Finder(OURS, "files_read", "")}


async def measure(at: Surroundings) -> Part:
    """All libraries over plain skills; deepagents and we also over the others."""
    count = at.extent.skills[1]
    at.say(f"finding {count:,} skills with {len(FINDERS)} ways of others")
    skills, json_style = at.scratch / "skills", at.scratch / "json-style"
    corpus.build(skills, count)
    corpus.build(json_style, count, json_style=True)
    turns = await _taken(at, skills, json_style)
    series = {name: turns.series(name) for name in turns.readings}
    return Part(
        "Other libraries",
        _ABOUT.format(count=count),
        targets(turns, count),
        turns_table(series, FIRST, {name: int(taken[0]["found"]) for name, taken in turns.readings.items()}),
        missing=list(dict.fromkeys(turns.missing.values())),
        raw=raw_turns(series),
    )


async def _taken(at: Surroundings, skills: Path, json_style: Path) -> Turns:
    everybody = {**_OWN, **FINDERS}
    async with AsyncExitStack() as stack:
        staying = Staying(at.scratch, stack)

        def found(name: str, where: Path) -> Take:
            return staying.take(everybody[name].library, do=everybody[name].probe, skills=str(where))

        plain = {name: found(name, skills) for name in everybody}
        nested = {name + JSON_STYLE: found(name, json_style) for name in (FIRST, DEEPAGENTS)}
        return await take_turns({**plain, **nested}, max(at.extent.few // 6, 1), before=1)


def targets(turns: Turns, count: int) -> list[Target]:
    """What we promise, and what was measured."""
    others = {name: turns.series(name).median for name in FINDERS if name in turns.readings}
    ours = turns.series(FIRST).median
    return [
        Target(
            f"{count:,} skills: first discovery, faster than the fastest other library",
            min(others.values()) / ours if others else None,
            QUICKER,
            why=turns.why(*FINDERS),
        ),
        Target(
            "JSON-style metadata in two of five: faster than deepagents",
            turns.ratio(DEEPAGENTS + JSON_STYLE, FIRST + JSON_STYLE),
            5,
            why=turns.why(DEEPAGENTS + JSON_STYLE),
        ),
    ]
