"""How much of each request is an unchanged prefix of the one before it, so that a prompt cache has it already."""

from collections.abc import Mapping, Sequence

import corpus
from context_ours import documented
from context_played import Played, counted_as, counter, ours, theirs
from context_talk import as_data, in_one_turn, in_three_turns
from report import Target
from running_part import NotMeasured, Part, Surroundings, plain_table
from running_peers import trpc_agent

from openskills.prompt.usage import RequestTokens

SKILLS, MIN_REUSE = 60, 95
OURS, OURS_SYSTEM = "OpenSkill", "OpenSkill, system message"
PEER, PEER_SYSTEM = "trpc-agent-py, tool results", "trpc-agent-py, its default"
PLACEMENTS = {OURS: "tool_result", OURS_SYSTEM: "system"}

_ABOUT = f"""
Twelve requests over {SKILLS} skills, with three loads and two selections of documents. Tokens are counted by our
ledger for all libraries, {{counted}}. "Reuse" is the share of the previous request that is an unchanged prefix of this
one: 100 % means that the request was only appended to. trpc-agent-py plays the same conversation with its own runner;
its requests are those that its model class for OpenAI would send. The load mode `turn`, the default of both
libraries, removes loaded texts when the next turn starts, which changes the request; the mode `session` keeps them.
"""


async def measure(at: Surroundings) -> Part:
    """Every conversation in every way; nothing here depends on time."""
    skills, missing = at.scratch / "skills", list[str]()
    corpus.build(skills, SKILLS)
    chosen = documented(skills, 3)
    conversations = {
        "one turn": (in_one_turn(chosen), "turn"),
        "three turns, load mode `session`": (in_three_turns(chosen), "session"),
        "three turns, load mode `turn`": (in_three_turns(chosen), "turn"),
    }
    count = counter()
    found: dict[str, list[Played]] = {}
    at.say("playing conversations of twelve requests")
    for title, (turns, mode) in conversations.items():
        found[title] = [
            await ours(way, turns, skills, at.scratch, count, placement=placement, mode=mode)
            for way, placement in PLACEMENTS.items()
        ]
    try:
        async with trpc_agent(at.scratch, skills, skills, script="context_trpc.py") as peer:
            for title, (turns, mode) in conversations.items():
                for way in (PEER, PEER_SYSTEM):
                    wanted = {"do": "talk", "turns": as_data(turns), "tool_result": way == PEER, "load_mode": mode}
                    found[title].append(theirs(way, (await peer.ask(wanted))["requests"], count))
    except NotMeasured as reason:
        missing.append(str(reason))
    return Part(
        "Prompt cache reuse",
        _ABOUT.format(counted=counted_as(count)),
        _targets(found),
        "\n\n".join([*(_summary(title, played) for title, played in found.items()), _by_request(found["one turn"])]),
        missing=missing,
        raw={title: [_raw(one) for one in played] for title, played in found.items()},
    )


def _targets(found: Mapping[str, Sequence[Played]]) -> list[Target]:
    """The mode `turn` has no bound where turns end: taking something away is what it is for."""
    titles = [title for title in found if "`turn`" not in title]
    about = "twelve requests in {}: lowest reuse of the previous request"
    return [Target(about.format(title), found[title][0].least, MIN_REUSE, unit="%") for title in titles]


def _summary(title: str, played: Sequence[Played]) -> str:
    head = ["", "requests", "lowest reuse", "tokens sent", "of them cached", "new"]
    rows = [
        [
            one.way,
            str(len(one.requests)),
            f"{one.least:.1f} %",
            f"{one.sent:,}",
            f"{one.cached:,} ({one.cached / one.sent:.0%})",
            f"{one.uncached:,}",
        ]
        for one in played
    ]
    return f"**Twelve requests in {title}**\n\n{plain_table(head, rows)}"


def _by_request(played: Sequence[Played]) -> str:
    """The requests of one turn: their size, and what each kept of the one before."""
    head = ["request", *(one.way for one in played)]
    rows = [
        [str(number + 1), *(_cell(one.requests[number]) for one in played)] for number in range(len(played[0].requests))
    ]
    return f"**Each request of one turn: tokens and reuse of the previous request**\n\n{plain_table(head, rows)}"


def _cell(request: RequestTokens) -> str:
    return f"{request.total:,}, {request.unchanged_share:.1%}" if request.before else f"{request.total:,}"


def _raw(played: Played) -> dict[str, object]:
    return {
        "way": played.way,
        "kept": [request.unchanged_share for request in played.requests],
        "tokens": [request.total for request in played.requests],
        "cached": played.cached,
    }
