"""How long a query takes, with more and more skills."""

import random
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from report import Bar, Target, time_text
from running_part import NotMeasured, Part, Surroundings, plain_table, raw_series, series_table
from sampling import Series, Way, in_turns
from selection_data import SEED, LabelledSkill, load
from selection_ways import EMBEDDING, KEYWORDS, OURS, Finder, embedding, ours, shared_words

QUERIES = 20

_ABOUT = f"""
Time of a query: {QUERIES} requests of the set one after the other, divided by {QUERIES}. Additional skills are
generated from the set: the description of one, the first sentence of another and a unique word. The time to build the
index is listed separately; ours is built at the first search and kept until the catalog changes. wordllama runs in
its own process and measures itself.
"""


async def measure(at: Surroundings) -> Part:
    """All ways, for both numbers of skills, in turns."""
    labelled = load()
    requests = labelled.of("test")
    texts = [request.text for request in requests[:: max(len(requests) // QUERIES, 1)]][:QUERIES]
    finders: dict[int, dict[str, Finder]] = {}
    missing: dict[str, None] = {}
    async with AsyncExitStack() as stack:
        for count in (at.extent.skills[1], 2 * at.extent.skills[-1]):
            at.say(f"searching {count:,} skills")
            skills = grown(labelled.skills, count)
            finders[count] = await _finders(skills, at.scratch / str(count), stack, missing)
        ways = {
            f"{name} {count}": _per_query(one, texts) for count, some in finders.items() for name, one in some.items()
        }
        series = await in_turns(ways, max(at.extent.few // 3, 1), before=1)
    found = {count: {name: series[f"{name} {count}"] for name in some} for count, some in finders.items()}
    return Part(
        "Query time",
        _ABOUT,
        _targets(found),
        "\n\n".join(_table(count, found[count], finders[count]) for count in found),
        [Bar(name, one.median, ours=name == OURS) for name, one in found[max(found)].items()],
        list(missing),
        {str(count): raw_series(series) for count, series in found.items()},
    )


def _table(count: int, series: Mapping[str, Series], finders: Mapping[str, Finder]) -> str:
    made = plain_table(["", "making the index"], [[name, time_text(one.indexed)] for name, one in finders.items()])
    return f"**{count:,} skills**\n\n{series_table(series, base=OURS)}\n\n{made}"


def grown(skills: Sequence[LabelledSkill], count: int) -> list[LabelledSkill]:
    """So many skills, made of pieces of these; the same every time."""
    dice = random.Random(SEED)
    return [_mixed(dice.choice(skills), dice.choice(skills), number) for number in range(count)]


def _mixed(one: LabelledSkill, other: LabelledSkill, number: int) -> LabelledSkill:
    sentence = other.description.replace("。", ".").split(".")[0]
    text = f"{one.description} {sentence}, {number:05d}x."
    return LabelledSkill(f"{one.name}-{number:05d}", one.family, text)


async def _finders(
    skills: Sequence[LabelledSkill], scratch: Path, stack: AsyncExitStack, missing: dict[str, None]
) -> dict[str, Finder]:
    finders = {OURS: ours(skills, scratch), KEYWORDS: shared_words(skills)}
    try:
        finders[EMBEDDING] = await stack.enter_async_context(embedding(skills))
    except NotMeasured as reason:
        missing[str(reason)] = None
    return finders


def _per_query(finder: Finder, texts: Sequence[str]) -> Way:
    async def once() -> float:
        return (await finder.find(texts))[1] / len(texts)

    return once


def _targets(found: Mapping[int, Mapping[str, Series]]) -> list[Target]:
    few, many = sorted(found)
    return [
        Target(f"{count:,} skills: a query, faster than shared words", series[KEYWORDS].median / series[OURS].median, 1)
        for count, series in found.items()
    ] + [
        Target(
            f"a query with {many:,} skills, relative to {few:,}",
            found[many][OURS].median / found[few][OURS].median,
            many / few,
            at_least=False,
        )
    ]
