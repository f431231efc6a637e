"""How much of each request is an unchanged prefix of the one before it, so that a prompt cache has it already."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import corpus
from context_played import Played, theirs
from langchain_core.messages import HumanMessage, convert_to_openai_messages
from langchain_steps import Call, agent_of, check, load, unload
from langchain_ways import BARE, MARKED, RUNTIME, STABLE, UPSTREAM, Told, calls
from langgraph.checkpoint.memory import InMemorySaver
from report import Target
from running_part import Part, Surroundings, plain_table

from openskills.tokens import estimate_tokens

SKILLS, MIN_REUSE = 100, 95

_ABOUT = f"""
Three turns over {SKILLS} skills: five skills are loaded and two unloaded, one in each step. "Reuse" is the share of
the previous request that is an unchanged prefix of this one; a model has to process the rest again. The marked list,
which is the default, shows `[Loaded]` in the middle of the prompt, so each load changes everything after it. The
stable list does not change. With `SkillRuntimeMiddleware` a load changes nothing, and unloading removes the text from
the request, which makes it smaller but invalidates the cache after the gap. deepagents reads `SKILL.md` as a file and
cannot unload; it lists the skill's folder in those steps. "{BARE}" is the baseline: a tool that reads a skill's text,
without a list of skills.
"""


async def measure(at: Surroundings) -> Part:
    """The same conversation with every list; nothing here depends on time."""
    root = at.scratch / "prefix"
    corpus.build(root / "skills", SKILLS)
    at.say("playing a conversation with every list")
    played = [await _play(name, root) for name in (BARE, UPSTREAM, MARKED, STABLE, RUNTIME)]
    new = {one.way: one.uncached for one in played}
    targets = [
        Target(f"{one.way}: lowest reuse of the previous request", one.least, MIN_REUSE, unit="%")
        for one in played
        if one.way == STABLE
    ]
    head = [
        "",
        "requests",
        "tokens sent",
        "lowest reuse",
        "cached of all",
        "new tokens",
        f"vs. {BARE}",
        f"vs. {UPSTREAM}",
    ]
    rows = [
        [
            one.way,
            str(len(one.requests)),
            f"{one.sent:,}",
            f"{one.least:.1f} %",
            f"{one.cached / one.sent:.1%}",
            f"{one.uncached:,}",
            *(f"{one.uncached / new[base]:.2f}x" for base in (BARE, UPSTREAM)),
        ]
        for one in played
    ]
    raw: Mapping[str, object] = {
        one.way: {
            "least": one.least,
            "cached": one.cached / one.sent,
            "sent": one.sent,
            "new": one.uncached,
            "requests": len(one.requests),
        }
        for one in played
    }
    return Part("Prompt cache reuse", _ABOUT, targets, plain_table(head, rows), raw=raw)


async def _play(name: str, root: Path) -> Played:
    skills = sorted(path.name for path in (root / "skills").iterdir())
    chosen = [skills[place] for place in (5, 30, 50, 70, 95)]
    model = Told(lines=_lines(name, chosen))
    graph = agent_of(name, root, model, system_prompt="You are helpful.", checkpointer=InMemorySaver())
    for turn in range(3):
        given = {"messages": [HumanMessage(f"Task {turn}.")]}
        check(await graph.ainvoke(given, {"configurable": {"thread_id": "bench"}}))
    sent: list[Any] = [convert_to_openai_messages(request) for request in model.requests]
    return theirs(name, sent, estimate_tokens)


def _lines(name: str, skills: Sequence[str]) -> list[Any]:
    """What the model says: loads and unloads, and an answer at the end of each turn."""

    def one(step: Callable[[str, str], Call], place: int) -> Any:
        return calls((f"{step.__name__}-{place}", *step(name, skills[place])))

    # A message of its own each time: one that comes again takes the place of the first.
    first = [one(load, 2), one(load, 0), one(load, 4), calls()]
    return [*first, one(unload, 2), one(load, 1), calls(), one(unload, 0), one(load, 3), calls()]
