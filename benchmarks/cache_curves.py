"""How uncached tokens grow with the length of a conversation, and with the number of skills that are loaded in it."""

from collections.abc import Mapping, Sequence
from itertools import accumulate

import corpus
from cache_modes import raw
from cache_peers import ADK_TURN, PEERS, TRPC, TRPC_AGENT, TRPC_SYSTEM, Peer, playing, requests_of
from charts import Chart, Line
from context_ours import documented
from context_played import Played, counter, ours, theirs
from context_talk import Documented, Turn, in_many_turns
from report import Target
from running_part import NotMeasured, Part, Surroundings, plain_table

SKILLS, TURNS = 134, 24
LOADS = (1, 4, 8, 12)
OURS, OURS_TURN, OURS_SYSTEM = "OpenSkill, session", "OpenSkill, turn", "OpenSkill, system message"
WAYS = {OURS: ("tool_result", "session"), OURS_TURN: ("tool_result", "turn"), OURS_SYSTEM: ("system", "session")}

_ABOUT = f"""
{{turns}} turns of four requests each over {SKILLS} skills. In some turns, evenly distributed, a skill is loaded and one
of its documents selected. The number of requests does not depend on the number of loads or on the library. The curves
are cumulative uncached tokens. "{OURS_TURN}" is our default load mode: texts are removed at the end of their turn,
which makes requests smaller, but invalidates the cache after the gap. Our other variants, and trpc-agent-py, use the
mode `session`. Layout is not the only difference: the first request contains the list of skills and each library's
own instructions, and {ADK_TURN} removes bodies but keeps documents.
"""


async def measure(at: Surroundings) -> Part:
    """All ways, for every number of loads; the longest look at one of them is the curve over the length."""
    skills, missing = at.scratch / "skills", dict[str, str]()
    corpus.build(skills, SKILLS)
    turns = min(TURNS, 4 + 2 * at.extent.few)
    chosen = documented(skills, max(LOADS))
    counts = [number for number in LOADS if number <= min(turns, len(chosen))]
    at.say(f"playing conversations of {turns} turns with {', '.join(map(str, counts))} loads")
    found: dict[int, list[Played]] = {number: [] for number in counts}
    for number in counts:
        for way, (placement, mode) in WAYS.items():
            talk = in_many_turns(chosen[:number], turns)
            found[number].append(await ours(way, talk, skills, at.scratch, counter(), placement=placement, mode=mode))
    for peer in (TRPC_AGENT, *PEERS):
        await _played(peer, chosen, turns, found, at, missing)
    middle = counts[len(counts) // 2]
    return Part(
        "Conversation length and number of loads",
        _ABOUT.format(turns=turns),
        _targets(found, turns, missing),
        _table(found, turns),
        missing=list(dict.fromkeys(missing.values())),
        raw={str(number): [raw(one) for one in played] for number, played in found.items()},
        charts=[_over_length(found[middle], middle), _over_loads(found, turns)],
    )


async def _played(
    peer: Peer,
    skills: Sequence[Documented],
    turns: int,
    found: dict[int, list[Played]],
    at: Surroundings,
    missing: dict[str, str],
) -> None:
    """Add what a library plays to `found`; where it fails, the reason for each of its ways to `missing`."""
    at.say(f"playing them with {peer.name}")
    try:
        async with playing(peer, at.scratch / "skills", at.scratch) as player:
            for number in found:
                talk: Sequence[Turn] = in_many_turns(skills[:number], turns)
                for way, told in peer.ways.items():
                    found[number].append(theirs(way, await requests_of(player, told, talk), counter()))
    except NotMeasured as reason:
        missing |= dict.fromkeys(peer.ways, str(reason))


def _targets(found: dict[int, list[Played]], turns: int, missing: Mapping[str, str]) -> list[Target]:
    most = max(found)
    played = {one.way: one for one in found[most]}
    about = f"{turns} turns, {most} loads: uncached tokens, relative to"
    targets = [
        Target(f"{about} {way}", _ratio(played, way), 1, at_least=False, digits=2, why=missing.get(way, ""))
        for way in (OURS_SYSTEM, TRPC, TRPC_SYSTEM, "deepagents", "google-adk", "pydantic-ai-skills", "FastMCP")
    ]
    least = Target(
        f"{turns} turns, {most} loads: lowest reuse of the previous request", played[OURS].least, 95, unit="%"
    )
    return [least, *targets]


def _ratio(played: dict[str, Played], way: str) -> float | None:
    return played[OURS].uncached / played[way].uncached if way in played else None


def _table(found: dict[int, list[Played]], turns: int) -> str:
    ways = list(dict.fromkeys(one.way for played in found.values() for one in played))
    rows = [[way, *(_cell(way, played) for played in found.values())] for way in ways]
    head = ["uncached tokens", *(f"{number} {'load' if number == 1 else 'loads'}" for number in found)]
    return f"**{turns} turns, {turns * 4} requests**\n\n{plain_table(head, rows)}"


def _cell(way: str, played: Sequence[Played]) -> str:
    by_way = {one.way: one.uncached for one in played}
    return f"{by_way[way]:,} ({by_way[way] / by_way[OURS]:.2f}x)" if way in by_way else "not measured"


def _over_length(played: Sequence[Played], loads: int) -> Chart:
    lines = [
        Line(
            one.way,
            list(enumerate(accumulate(request.total - request.unchanged for request in one.requests), 1)),
            one.way.startswith("OpenSkill"),
        )
        for one in played
    ]
    return Chart("length", f"Uncached tokens, {loads} loads", "requests of the conversation", "tokens", lines)


def _over_loads(found: dict[int, list[Played]], turns: int) -> Chart:
    ways = list(dict.fromkeys(one.way for played in found.values() for one in played))
    lines = [
        Line(
            way,
            [(number, one.uncached) for number, played in found.items() for one in played if one.way == way],
            way.startswith("OpenSkill"),
        )
        for way in ways
    ]
    title = f"Uncached tokens, {turns * 4} requests"
    return Chart("loads", title, "skills loaded in the conversation", "tokens", lines)
