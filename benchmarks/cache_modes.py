"""The same conversation under every placement and every load mode, ours and theirs, at equal steps."""

from collections.abc import Mapping, Sequence
from typing import Any

import corpus
from cache_peers import ADK_TURN, PEERS, TRPC_AGENT, Peer, playing, requests_of, trpc_ways
from context_ours import documented
from context_played import Played, counted_as, counter, ours, theirs
from context_talk import in_three_turns
from reasons import one_line
from report import Target
from running_part import NotMeasured, Part, Surroundings, plain_table

SKILLS, LEAST = 60, 95
TURN, KEPT = "mode `turn`", "mode `session`, or whatever stays until it is taken away"
MODES = {"turn": TURN, "once": "mode `once`", "session": KEPT}
PLACEMENTS = {"OpenSkill, tool results": "tool_result", "OpenSkill, system message": "system"}
OURS = next(iter(PLACEMENTS))

_ABOUT = f"""
Twelve requests in three turns, with three loads and two selections of documents, over {SKILLS} skills, the same steps
for everybody. Each library plays the conversation with its own code, with a model that writes down what it is asked
and answers from the script; what it would send is counted by our ledger, {{counted}}. Descriptions of tools are not
counted. "Uncached" is what is not an unchanged beginning of the request before: what a prompt cache cannot have.
"Least kept" is the smallest share of a request that stands at the beginning of the next one.

trpc-agent-py 1.2.0 has our modes and placements. deepagents 0.7.32 lets the model read `SKILL.md` as a file,
google-adk 2.13.0 has a tool for it and a list of skills in its instruction (`EAGER`), pydantic-ai-skills 2.1.0 puts
the text into a system message after the result: with all of them it stays. google-adk's `ephemeral`, an experiment
that has to be switched on, takes bodies away when the turn ends. FastMCP 4.1.2 is a server; its messages are those of
the plainest host, with the list of resources in the system message. In the mode `once` a text leaves the request as
soon as the model has answered to it: requests stay small, and what stands behind the gap is read again.
"""


async def measure(at: Surroundings) -> Part:
    """Every way; nothing here depends on time."""
    skills, missing = at.scratch / "skills", list[str]()
    corpus.build(skills, SKILLS)
    turns = in_three_turns(documented(skills, 3))
    count = counter()
    found = {title: list[Played]() for title in MODES.values()}
    for mode, title in MODES.items():
        at.say(f"playing a conversation in the load mode {mode}")
        for way, placement in PLACEMENTS.items():
            found[title].append(await ours(way, turns, skills, at.scratch, count, placement=placement, mode=mode))
    for peer in (TRPC_AGENT, *PEERS):
        at.say(f"playing it with {peer.name}")
        try:
            async with playing(peer, skills, at.scratch) as player:
                for title, way, told in _ways(peer):
                    found[title].append(theirs(way, await requests_of(player, told, turns), count))
        except NotMeasured as reason:
            missing.append(str(reason))
    return Part(
        "Placements and load modes",
        _ABOUT.format(counted=counted_as(count)),
        _targets(found[KEPT], missing),
        "\n\n".join(f"**{title[0].upper()}{title[1:]}**\n\n{_table(played)}" for title, played in found.items()),
        missing=missing,
        raw={title: [raw(one) for one in played] for title, played in found.items()},
    )


def _ways(peer: Peer) -> list[tuple[str, str, dict[str, Any]]]:
    """Everything that a library can be told, what we call it, and where it is shown."""
    if peer is TRPC_AGENT:
        return [(title, way, told) for mode, title in MODES.items() for way, told in trpc_ways(mode).items()]
    return [(TURN if way == ADK_TURN else KEPT, way, told) for way, told in peer.ways.items()]


def _targets(kept: Sequence[Played], missing: Sequence[str]) -> list[Target]:
    mine = {one.way: one for one in kept}[OURS]
    peers = {one.way: one.uncached for one in kept if one.way not in PLACEMENTS}
    near = min(peers, key=lambda way: peers[way]) if peers else ""
    about = "twelve requests in three turns, mode `session`"
    return [
        Target(f"{about}: the least that is kept of the request before", mine.least, LEAST, unit="%"),
        Target(
            f"{about}: uncached tokens, times of the peer with the fewest",
            mine.uncached / peers[near] if near else None,
            1.1,
            at_least=False,
            digits=2,
            why=one_line("; ".join(missing)),
        ),
    ]


def _table(played: Sequence[Played]) -> str:
    head = ["", "requests", "first request", "sent", "uncached", f"against {OURS}", "least kept"]
    base = played[0].uncached
    rows = [
        [
            one.way,
            str(len(one.requests)),
            f"{one.requests[0].total:,}",
            f"{one.sent:,}",
            f"{one.uncached:,}",
            f"{one.uncached / base:.2f}x",
            f"{one.least:.1f} %",
        ]
        for one in played
    ]
    return plain_table(head, rows)


def raw(played: Played) -> Mapping[str, object]:
    """The numbers of a conversation, for programs."""
    return {
        "way": played.way,
        "tokens": [request.total for request in played.requests],
        "prefix": [request.unchanged for request in played.requests],
        "sent": played.sent,
        "uncached": played.uncached,
        "least_kept": played.least,
    }
