"""How long a process takes to find its skills: for the first time, again, and with the index of an earlier one."""

from pathlib import Path

import corpus
from discovery_peers import DEEPAGENTS, FINDERS, SKILLS_REF, in_new_process, measured
from readings import Turns, raw_turns, take_turns, turns_table
from report import Bar, Target
from running_part import Part, Surroundings
from sampling import Series

FILES, BARE = "only reading the files", "a bare interpreter"
FIRST, REFRESH = "OpenSkill, first discovery", "OpenSkill, unchanged refresh"
INDEXED = "OpenSkill, new process with index"
SLOW = 3
"""How often skills-ref is taken, which needs longer than all others together."""
_OWN = {FILES: "files_read", BARE: "bare", FIRST: "openskills_first", INDEXED: "openskills_indexed"}

_ABOUT = f"""
{{count:,}} synthetic skills with the sizes of real ones (`benchmarks/corpus.py`): a median of 300 bytes of front
matter, and bodies with a median of 1.6 KB and up to 73 KB. All are valid, so that no library can stop early. Each
measurement is a new process, timed after its imports; skills-ref runs at most {SLOW} times. The first discovery
neither reads nor writes an index. OpenSkill runs `Catalog.from_paths`, which also validates each skill against the
specification, reports problems, and resolves precedence and requirements. deepagents 0.7.32 runs
{FINDERS[DEEPAGENTS].does}; it looks one level deep and reports nothing. skills-ref 0.1.1 runs
{FINDERS[SKILLS_REF].does}.
"""


async def measure(at: Surroundings) -> Part:
    """Our ways, both libraries, and the floor."""
    count = at.extent.skills[-1]
    at.say(f"finding {count:,} skills, each time in a new process")
    skills, cache = at.scratch / "skills", at.scratch / "cache"
    corpus.build(skills, count)
    cache.mkdir()
    measured("openskills_indexed", skills, cache=cache)  # writes the index that later processes find
    turns = await taken(skills, cache, rounds=max(at.extent.few // 6, 1))
    series = times(turns)
    return Part(
        "Finding skills in a new process",
        _ABOUT.format(count=count),
        targets(turns),
        turns_table(series, FIRST),
        [Bar(name, one.median, ours=name.startswith("OpenSkill")) for name, one in series.items()],
        list(turns.missing.values()),
        {**raw_turns(series), "peak_kb": {name: turns.median(name, "peak_kb") for name in turns.readings}},
    )


async def taken(skills: Path, cache: Path, *, rounds: int) -> Turns:
    """Everybody in turns."""
    ours = {
        name: in_new_process(probe, skills, cache=cache if name == INDEXED else None) for name, probe in _OWN.items()
    }
    theirs = {
        name: in_new_process(FINDERS[name].probe, skills, FINDERS[name].library) for name in (DEEPAGENTS, SKILLS_REF)
    }
    return await take_turns({**ours, **theirs}, rounds, at_most={SKILLS_REF: SLOW})


def times(turns: Turns) -> dict[str, Series]:
    """What was measured, in the order in which it is shown."""
    found = {
        name: turns.series(name) for name in (FILES, INDEXED, FIRST, DEEPAGENTS, SKILLS_REF) if name in turns.readings
    }
    again = {REFRESH: turns.series(FIRST, "refresh")}
    return {FILES: found[FILES], **again, **found}


def targets(turns: Turns) -> list[Target]:
    """What we promise, and what was measured."""
    again = turns.series(FIRST).median / turns.series(FIRST, "refresh").median
    memory = (turns.series(FIRST, "peak_kb").median - turns.series(BARE, "peak_kb").median) / 1024
    return [
        Target("first discovery, faster than deepagents", turns.ratio(DEEPAGENTS, FIRST), 5, why=turns.why(DEEPAGENTS)),
        Target(
            "first discovery, faster than skills-ref validates",
            turns.ratio(SKILLS_REF, FIRST),
            20,
            why=turns.why(SKILLS_REF),
        ),
        Target("unchanged refresh, faster than the first discovery", again, 10),
        Target(
            "new process with the index, faster than deepagents",
            turns.ratio(DEEPAGENTS, INDEXED),
            20,
            why=turns.why(DEEPAGENTS),
        ),
        Target("first discovery, relative to only reading the files", turns.ratio(FIRST, FILES), 8, at_least=False),
        Target("peak memory over a bare interpreter", memory, 60, at_least=False, unit="MB"),
    ]
