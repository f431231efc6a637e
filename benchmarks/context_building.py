"""How long the next request takes when nothing has changed, with more and more skills."""

import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import corpus
from context_ours import Talk, names_of, talk_over
from context_talk import as_data, long_turn
from report import Bar, Target
from running_part import NotMeasured, Part, Surroundings, raw_series, series_table
from running_peers import trpc_agent
from sampling import Series, Way, in_turns

from openskills.runtime.options import SessionOptions

LOADED, MESSAGES = 10, 40
MOST_MS, FASTER = 1, 37
OURS, GROWN, SYSTEM = "OpenSkill", "OpenSkill, another message at the end", "OpenSkill, texts in the system message"
REFRESHED = "OpenSkill, the catalog looked through first"
PLAIN, CACHED = "trpc-agent-py, its default", "trpc-agent-py, cached"
WATCHING, WHOLE = "trpc-agent-py, cached and watched", "trpc-agent-py, cached, the whole request"

_ABOUT = f"""
The next request of a conversation of {MESSAGES} messages in which {LOADED} skills are loaded, built again. Ours is
`session.context(messages)`, with everything that it does: the list of skills, the loaded texts in their tool results,
the ledger. "{REFRESHED}" is `catalog.refresh()` before it, which looks at every skill's file; without that, or
`catalog.watch()`, we do not look at the disk. trpc-agent-py 1.2.0 plays the same conversation with its own runner,
and texts in tool results; of its work only the two processors for skills are timed, "{WHOLE}" aside. "{PLAIN}" is
what `SkillToolSet(paths=...)` makes, the cached ones are what `create_default_skill_repository` makes. Its list of
skills has no limit; ours has 8,000 tokens, and a tool for searching beside it when that is not enough. The first row
of ours comes after a peer's and finds nothing in the caches of the processors, as a request after a model's answer
does.
"""


async def measure(at: Surroundings) -> Part:
    """All ways, for every number of skills."""
    found: dict[int, dict[str, Series]] = {}
    missing: dict[str, None] = {}
    for count in at.extent.skills:
        at.say(f"building requests with {count:,} skills")
        async with AsyncExitStack() as stack:
            ways = await _ways(count, at.scratch, stack, missing)
            rounds = at.extent.few if count <= at.extent.skills[1] else max(at.extent.few // 3, 1)
            found[count] = await in_turns(ways, rounds)
    promised = at.extent.skills[1]
    return Part(
        "Building a request",
        _ABOUT,
        _targets(promised, found[promised], "; ".join(missing)),
        "\n\n".join(f"**{count:,} skills**\n\n{series_table(series, base=OURS)}" for count, series in found.items()),
        [Bar(name, one.median, ours=name.startswith(OURS)) for name, one in found[promised].items()],
        list(missing),
        {str(count): raw_series(series) for count, series in found.items()},
    )


def _targets(count: int, series: Mapping[str, Series], why: str) -> list[Target]:
    ours = series[OURS].median
    ratio = series[CACHED].median / ours if CACHED in series else None
    about = f"{count:,} skills, {LOADED} loaded: building a request"
    return [
        Target(about, ours * 1000, MOST_MS, at_least=False, unit="ms", digits=2),
        Target(f"{about}, faster than trpc-agent-py at its quickest", ratio, FASTER, why=why),
    ]


async def _ways(count: int, scratch: Path, stack: AsyncExitStack, missing: dict[str, None]) -> dict[str, Way]:
    skills, watched = scratch / f"skills-{count}", scratch / f"watched-{count}"
    corpus.build(skills, count)
    (turn,) = long_turn(names_of(skills, LOADED))
    talk = await stack.enter_async_context(talk_over(skills, scratch))
    system = await stack.enter_async_context(talk_over(skills, scratch, SessionOptions(placement="system")))
    for one in (talk, system):
        await one.hold(turn)
        if len(one.request()) != MESSAGES or len(one.session.loaded_skills()) != LOADED:
            raise RuntimeError("the conversation is not the one that is written about")
    ways = {
        OURS: _timed(talk.request),
        GROWN: _timed(_alternating(talk)),
        REFRESHED: _timed(lambda: (talk.catalog.refresh(), talk.request())),
        SYSTEM: _timed(system.request),
    }
    try:
        peer = await stack.enter_async_context(trpc_agent(scratch, skills, watched, script="context_trpc.py"))
        corpus.build(watched, count)
        held = await peer.ask({"do": "hold", "turns": as_data([turn])})
        if held != {"messages": MESSAGES, "loaded": LOADED}:
            raise RuntimeError(f"trpc-agent-py's conversation is another one: {held}")
    except NotMeasured as reason:
        missing[str(reason)] = None
        return ways
    for name, repository in ((CACHED, "cached"), (WATCHING, "watching"), (PLAIN, "plain")):
        ways[name] = peer.way("build", repository=repository, whole=False)
    return {**ways, WHOLE: peer.way("build", repository="cached", whole=True)}


def _alternating(talk: Talk) -> Callable[[], object]:
    """Requests that are never like the one before: the last message of each is one that the other has not."""
    both = [[*talk.messages, {"role": "assistant", "content": f"Nearly done: {number}."}] for number in range(2)]

    def build() -> object:
        both.reverse()
        return talk.session.context(both[0])

    return build


def _timed(build: Callable[[], object]) -> Way:
    async def once() -> float:
        begin = time.perf_counter()
        build()
        return time.perf_counter() - begin

    return once
