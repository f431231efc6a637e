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

SKILLS, MIN_REUSE = 60, 95
TURN, KEPT = "mode `turn`", "mode `session`, or texts that stay until they are removed"
MODES = {"turn": TURN, "once": "mode `once`", "session": KEPT}
PLACEMENTS = {"OpenSkill, tool results": "tool_result", "OpenSkill, system message": "system"}
OURS = next(iter(PLACEMENTS))

_ABOUT = f"""
Twelve requests in three turns over {SKILLS} skills, with three loads and two selections of documents; the steps are
the same for all libraries. Each library plays the conversation with its own code against a scripted model that
records its requests. Tokens are counted by our ledger, {{counted}}, without tool definitions. "Uncached" tokens are
those after the longest common prefix with the previous request: a prompt cache cannot contain them. "Lowest reuse" is
the smallest share of a request that is a prefix of the next one.

trpc-agent-py 1.2.0 has the same modes and placements as OpenSkill. In the others a loaded text stays in the history:
deepagents 0.7.32 lets the model read `SKILL.md` as a file, google-adk 2.13.0 has a tool for it and lists skills in
its instruction (`EAGER`), and pydantic-ai-skills 2.1.0 puts the text into a system message after the result.
google-adk's experimental option `ephemeral` removes bodies at the end of the turn. FastMCP 4.1.2 is a server; its
messages are those of a minimal host with the list of resources in the system message. In the mode `once` a text is
removed after the model has answered, which makes requests smaller, but invalidates the cache after the gap.
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
        Target(f"{about}: lowest reuse of the previous request", mine.least, MIN_REUSE, unit="%"),
        Target(
            f"{about}: uncached tokens, relative to the best other library",
            mine.uncached / peers[near] if near else None,
            1.1,
            at_least=False,
            digits=2,
            why=one_line("; ".join(missing)),
        ),
    ]


def _table(played: Sequence[Played]) -> str:
    head = ["", "requests", "first request", "sent", "uncached", f"vs. {OURS}", "lowest reuse"]
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
