"""How much of each request is an unchanged prefix of the one before it, so that a prompt cache has it already."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import corpus
from langchain_core.messages import HumanMessage, convert_to_openai_messages
from langchain_ways import MARKED, RUNTIME, STABLE, Told, agents, calls, ways
from langgraph.checkpoint.memory import InMemorySaver
from report import Target
from running_part import Part, Surroundings, plain_table

from openskills.prompt.ledger import Ledger, RequestTokens

SKILLS, LEAST = 100, 95

_ABOUT = f"""
Three turns over {SKILLS} skills: five skills are loaded and two unloaded, one in each step. "Kept" is how much of the
request before stands unchanged at the beginning of this one; what is not kept has to be read again by the model, and
paid for. The marked list, which is the default because the mission says so, shows `[Loaded]` in the middle of the
prompt, so everything behind it changes with every load. The stable list never changes anything. With
`SkillRuntimeMiddleware` a load changes nothing, and what is unloaded leaves the request: it is smaller, and what stands
behind the gap has to be read again.
"""


@dataclass(frozen=True)
class Played:
    """A conversation: what every request cost."""

    way: str
    requests: Sequence[RequestTokens]

    @property
    def least(self) -> float:
        """The smallest share of a request that the next one kept, in percent."""
        return min(request.share for request in self.requests) * 100

    @property
    def sent(self) -> int:
        """The tokens of all requests."""
        return sum(request.total for request in self.requests)

    @property
    def cached(self) -> int:
        """Those of them that a prompt cache may have had."""
        return sum(request.unchanged for request in self.requests)


async def measure(at: Surroundings) -> Part:
    """The same conversation with every list; nothing here depends on time."""
    root = at.scratch / "prefix"
    corpus.build(root / "skills", SKILLS)
    at.say("playing a conversation with every list")
    made = ways(root)
    played = [await _play(name, made[name](), root) for name in (MARKED, STABLE, RUNTIME)]
    targets = [
        Target(f"{one.way}: the least that is kept of the request before", one.least, LEAST, unit="%")
        for one in played
        if one.way == STABLE
    ]
    head = ["", "requests", "tokens sent", "least kept", "cached of all", "new tokens"]
    rows = [
        [
            one.way,
            str(len(one.requests)),
            f"{one.sent:,}",
            f"{one.least:.1f} %",
            f"{one.cached / one.sent:.1%}",
            f"{one.sent - one.cached:,}",
        ]
        for one in played
    ]
    raw: Mapping[str, object] = {
        one.way: {"least": one.least, "cached": one.cached / one.sent, "sent": one.sent} for one in played
    }
    return Part("What a prompt cache keeps", _ABOUT, targets, plain_table(head, rows), raw=raw)


async def _play(name: str, middleware: Any, root: Path) -> Played:
    skills = sorted(path.name for path in (root / "skills").iterdir())
    chosen = [skills[place] for place in (5, 30, 50, 70, 95)]
    model = Told(lines=_lines(name, chosen))
    graph = agents.create_agent(
        model, system_prompt="You are helpful.", middleware=[middleware], checkpointer=InMemorySaver()
    )
    for turn in range(3):
        await graph.ainvoke({"messages": [HumanMessage(f"Task {turn}.")]}, {"configurable": {"thread_id": "bench"}})
    ledger = Ledger()
    sent: list[Any] = [convert_to_openai_messages(request) for request in model.requests]
    return Played(name, [ledger.record(request, ()) for request in sent])


def _lines(name: str, skills: Sequence[str]) -> list[Any]:
    """What the model says: loads and unloads, and an answer at the end of each turn."""
    runtime = name == RUNTIME
    load, unload = ("skill_load", "skill_unload") if runtime else ("load_skill", "unload_skill")
    argument = "skill" if runtime else "skill_name"

    def one(tool: str, place: int) -> Any:
        return calls((f"{tool}-{place}", tool, {argument: skills[place]}))

    done = calls()
    first = [one(load, 2), one(load, 0), one(load, 4), done]
    return [*first, one(unload, 2), one(load, 1), done, one(unload, 0), one(load, 3), done]
