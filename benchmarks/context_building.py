"""How long the next request takes when nothing has changed, with more and more skills."""

import copy
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import corpus
from context_ours import Talk, names_of, talk_over
from context_peers import ADK, DEEPAGENTS, NOT_TRIED, PYDANTIC, holding
from context_talk import WARM_UPS, Turn, as_data, long_turn
from readings import take_turns, timed_takes
from report import Bar, Target
from running_part import NotMeasured, Part, Surroundings, raw_series, series_table
from running_peers import trpc_agent
from sampling import Series, Way

from openskills.runtime.options import SessionOptions

LOADED, MESSAGES = 10, 40
MAX_MS, FASTER = 0.5, 37
MANY = 1000
SLOW = 3
"""How often pydantic-ai-skills is taken, which needs the longest."""
OURS, GROWN, SYSTEM = "OpenSkill", "OpenSkill, another message at the end", "OpenSkill, texts in the system message"
REFRESHED = "OpenSkill, with catalog.refresh()"
PLAIN, CACHED = "trpc-agent-py, its default", "trpc-agent-py, cached"
FLOOR, COPIED = "only joining the messages", "only copying the messages"
WATCHING, WHOLE = "trpc-agent-py, cached and watched", "trpc-agent-py, cached, the whole request"

_ABOUT = f"""
The next request of a conversation with {MESSAGES} messages in which {LOADED} skills are loaded. OpenSkill is
`session.context(messages)` with everything that it does: the list of skills, loaded texts in their tool results, the
token ledger. "{REFRESHED}" calls `catalog.refresh()` first, which checks every skill's file; without that, or
`catalog.watch()`, building a request does not access the disk. trpc-agent-py 1.2.0 plays the same conversation with
its own runner and texts in tool results; only its two request processors for skills are timed, except in "{WHOLE}".
"{PLAIN}" is what `SkillToolSet(paths=...)` creates, the cached variants are `create_default_skill_repository`. Its
list of skills is unlimited; ours is limited to 8,000 tokens, with a search tool for larger catalogs. OpenSkill,
deepagents and google-adk build each request {WARM_UPS} times before the one that is measured, so that all of them find
the processor at its speed and their data in its caches. OpenSkill only reads what is new in a request: "{GROWN}" has
one new message.

"{FLOOR}" is the baseline: append the list of skills to the system message and build a list of messages. "{COPIED}" is
`copy.deepcopy` of them. deepagents 0.7.32, google-adk 2.13.0 and pydantic-ai-skills 2.1.0 play the same conversation
with their own agents. Loaded texts are part of their history, so that only the (unlimited) list of skills is built
for a request: less work than ours with few skills, more with many. Timed are the skills middleware of deepagents, the
toolset (`EAGER`) of google-adk, and everything up to the model call of pydantic-ai-skills (at most {SLOW} times).
"""


async def measure(at: Surroundings) -> Part:
    """All ways, for every number of skills."""
    found: dict[int, dict[str, Series]] = {}
    missing: dict[int, dict[str, str]] = {}
    promised = at.extent.skills[1]
    # With still more skills there is nothing new to see, and other libraries take minutes.
    for count in [LOADED, *(min(count, 2 * promised) for count in at.extent.skills)]:
        at.say(f"building requests with {count:,} skills")
        async with AsyncExitStack() as stack:
            ways, missing[count] = await _ways(count, at.scratch, stack)
            rounds = at.extent.few if count <= promised else max(at.extent.few // 6, 1)
            turns = await take_turns(timed_takes(ways), rounds, before=2, at_most=_at_most(count, rounds))
        missing[count] |= turns.missing
        found[count] = {name: turns.series(name) for name in turns.readings}
    reasons = dict.fromkeys(reason for one in missing.values() for reason in one.values())
    return Part(
        "Building a request",
        _ABOUT,
        [
            *targets(promised, found[promised], missing[promised]),
            *(compared(count, found[count], missing[count]) for count in found if count <= promised),
        ],
        "\n\n".join(f"**{count:,} skills**\n\n{series_table(series, base=OURS)}" for count, series in found.items()),
        [Bar(name, one.median, ours=name.startswith(OURS)) for name, one in found[promised].items()],
        [*reasons, *(f"{name}: {why}" for name, why in NOT_TRIED.items())],
        {str(count): raw_series(series) for count, series in found.items()},
    )


def targets(count: int, series: Mapping[str, Series], missing: Mapping[str, str]) -> list[Target]:
    """What we promise, and what was measured."""
    ours = series[OURS].median
    ratio = series[CACHED].median / ours if CACHED in series else None
    about = f"{count:,} skills, {LOADED} loaded: building a request"
    return [
        Target(about, ours * 1000, MAX_MS, at_least=False, unit="ms", digits=2),
        Target(
            f"{about}, faster than the fastest variant of trpc-agent-py", ratio, FASTER, why=missing.get(CACHED, "")
        ),
    ]


def compared(count: int, series: Mapping[str, Series], missing: Mapping[str, str]) -> Target:
    """We are faster than the quick ones, with the same work: the last request, built again."""
    ours = series[OURS].median
    quick = (DEEPAGENTS, ADK)
    others = [series[name].median / ours for name in quick if name in series]
    return Target(
        f"{count:,} skills, {LOADED} loaded: building a request, faster than deepagents and google-adk",
        min(others) if others else None,
        1,
        why="; ".join(missing[name] for name in quick if name in missing),
    )


def _at_most(count: int, rounds: int) -> dict[str, int]:
    """How often those are taken that need long, and that no promise is about."""
    slow = rounds if count < MANY else max(rounds // 4, 1)
    return {PYDANTIC: SLOW, PLAIN: slow, WATCHING: slow, WHOLE: slow}


async def _ways(count: int, scratch: Path, stack: AsyncExitStack) -> tuple[dict[str, Way], dict[str, str]]:
    """Everything that is compared, and why something is not. The last is a peer, after which ours is the first."""
    skills = scratch / f"skills-{count}"
    corpus.build(skills, count)
    (turn,) = long_turn(names_of(skills, LOADED))
    talk = await stack.enter_async_context(talk_over(skills, scratch))
    system = await stack.enter_async_context(talk_over(skills, scratch, SessionOptions(placement="system")))
    for one in (talk, system):
        await one.hold(turn)
        if len(one.request()) != MESSAGES or len(one.session.loaded_skills()) != LOADED:
            raise RuntimeError("the conversation is not the one that is written about")
    ours = {
        OURS: _timed(talk.request),
        GROWN: _timed(_alternating(talk)),
        REFRESHED: _timed(lambda: (talk.catalog.refresh(), talk.request())),
        SYSTEM: _timed(system.request),
        FLOOR: _timed(_joining(talk)),
        COPIED: _timed(lambda: copy.deepcopy(talk.messages)),
    }
    others, missing = await holding(turn, LOADED, skills, count, scratch, stack)
    try:
        return {**ours, **others, **await _trpc(turn, skills, scratch / f"watched-{count}", scratch, stack)}, missing
    except NotMeasured as reason:
        return {**ours, **others}, {**missing, CACHED: str(reason)}


async def _trpc(turn: Turn, skills: Path, watched: Path, scratch: Path, stack: AsyncExitStack) -> dict[str, Way]:
    peer = await stack.enter_async_context(trpc_agent(scratch, skills, watched, script="context_trpc.py"))
    corpus.build(watched, len(list(skills.iterdir())))
    held = await peer.ask({"do": "hold", "turns": as_data([turn])})
    if held != {"messages": MESSAGES, "loaded": LOADED}:
        raise NotMeasured(f"trpc-agent-py: its conversation is another one: {held}")
    repositories = {CACHED: "cached", WATCHING: "watching", PLAIN: "plain"}
    ways = {name: peer.way("build", repository=one, whole=False) for name, one in repositories.items()}
    return {**ways, WHOLE: peer.way("build", repository="cached", whole=True)}


def _joining(talk: Talk) -> Callable[[], object]:
    """The least that anybody does who shows skills: a text appended to the first message, before all others."""
    listed = str(talk.request()[0]["content"])

    def build() -> list[dict[str, Any]]:
        first, *others = talk.messages
        return [{**first, "content": f"{first['content']}\n\n{listed}"}, *others]

    return build


def _alternating(talk: Talk) -> Callable[[], object]:
    """Requests that are never like the one before: the last message of each is one that the other has not."""
    both = [[*talk.messages, {"role": "assistant", "content": f"Nearly done: {number}."}] for number in range(2)]

    def build() -> object:
        both.reverse()
        return talk.session.context(both[0])

    return build


def _timed(build: Callable[[], object]) -> Way:
    async def once() -> float:
        for _ in range(WARM_UPS):
            build()
        begin = time.perf_counter()
        build()
        return time.perf_counter() - begin

    return once
