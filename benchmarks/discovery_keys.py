"""How the time to read front matter grows with its keys."""

from contextlib import AsyncExitStack

from discovery_peers import FINDERS, OURS, SKILLS_REF
from discovery_staying import Staying
from readings import Turns, raw_turns, take_turns, turns_table
from report import Target
from running_part import TINY, Part, Surroundings

FEW, MANY, SLOW = 80, 4000, 3
_ABOUT = f"""
Front matter whose metadata has {FEW} and {{many:,}} keys, read by `parse` and by `parse_frontmatter` of skills-ref
0.1.1, each in a long-running process. Runs that take seconds are repeated at most {SLOW} times.
"""


def way(name: str, keys: int) -> str:
    """What a row is called."""
    return f"{name}, {keys:,} keys"


async def measure(at: Surroundings) -> Part:
    """Both libraries with few keys and with many."""
    many = MANY if at.extent != TINY else 5 * FEW
    at.say(f"reading front matter with {many:,} keys")
    libraries = {"OpenSkill": (OURS, "openskills_keys"), "skills-ref": (FINDERS[SKILLS_REF].library, "skills_ref_keys")}
    async with AsyncExitStack() as stack:
        staying = Staying(at.scratch, stack)
        ways = {
            way(name, keys): staying.take(library, do=probe, keys=keys)
            for name, (library, probe) in libraries.items()
            for keys in (FEW, many)
        }
        await staying.take(OURS, do="openskills_keys", keys=FEW)()  # what is imported when it is first needed
        fewer = {way("skills-ref", FEW): at.extent.few, way("skills-ref", many): SLOW}
        turns = await take_turns(ways, at.extent.many, at_most=fewer)
    series = {name: turns.series(name) for name in turns.readings}
    return Part(
        "Front matter with many keys",
        _ABOUT.format(many=many),
        [target(turns, many)],
        turns_table(series, way("OpenSkill", FEW)),
        missing=list(dict.fromkeys(turns.missing.values())),
        raw=raw_turns(series),
    )


def target(turns: Turns, many: int) -> Target:
    """What we promise, and what was measured."""
    times = turns.ratio(way("OpenSkill", many), way("OpenSkill", FEW))
    return Target(f"{many:,} keys, relative to {FEW}", times, 50, at_least=False)
