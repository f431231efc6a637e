"""How much of a checkpoint is about skills."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import corpus
from langchain_core.messages import HumanMessage
from langchain_ways import MARKED, RUNTIME, STABLE, UPSTREAM, Told, agents, calls, few_skills, ways
from langgraph.checkpoint.memory import InMemorySaver
from report import Target
from running_part import Part, Surroundings, plain_table

LEAST = 5
TURNS = 50
FEW = 16
"""The most skills that `SkillsMiddleware` keeps in checkpoints."""

_ABOUT = """
The bytes of the channels about skills that a checkpointer has to keep after one turn in which a skill was loaded. The
conversation itself is not counted; in ours it has the text of a loaded skill once, as in deepagents' the result of
`read_file`, and with `SkillRuntimeMiddleware` only the line `loaded: NAME`. The last row is a longer thread with
all its earlier checkpoints: everything that was ever written about skills.
"""


async def measure(at: Surroundings) -> Part:
    """Threads over ever more skills."""
    found: dict[int, Mapping[str, int]] = {}
    for count in few_skills(at.extent):
        at.say(f"keeping threads with {count:,} skills")
        found[count] = await _kept(at.scratch / f"state-{count}", count)
    at.say(f"keeping threads of {TURNS} turns")
    grown = await _kept(at.scratch / "state-turns", FEW, TURNS)
    most = max(found)
    targets = [
        Target(
            f"state in a checkpoint at {most:,} skills, {name}: times smaller than {UPSTREAM}",
            found[most][UPSTREAM] / found[most][name],
            LEAST,
        )
        for name in (MARKED, STABLE, RUNTIME)
    ]
    named = {**{f"{count:,}": sizes for count, sizes in found.items()}, f"{FEW}, {TURNS} turns": grown}
    rows = [[name, *(f"{size:,}" for size in sizes.values())] for name, sizes in named.items()]
    table = plain_table(["skills", *(f"{name}, bytes" for name in found[most])], rows)
    return Part("Keeping a thread", _ABOUT, targets, table, raw={name: dict(one) for name, one in named.items()})


async def _kept(root: Path, count: int, turns: int = 1) -> Mapping[str, int]:
    """The bytes of a thread over so many skills, for each middleware."""
    corpus.build(root / "skills", count)
    skill = sorted(path.name for path in (root / "skills").iterdir())[0]
    return {name: await _bytes(make(), name, skill, turns) for name, make in ways(root).items()}


async def _bytes(middleware: Any, name: str, skill: str, turns: int) -> int:
    """What the last checkpoint has after one turn, or all of them after several."""
    saver = InMemorySaver()
    graph = agents.create_agent(Told(lines=[_loading(name, skill)]), middleware=[middleware], checkpointer=saver)
    for _ in range(turns):
        await graph.ainvoke({"messages": [HumanMessage("hi")]}, {"configurable": {"thread_id": "bench"}})
    # Everything but the conversation itself, which everybody has.
    written: dict[str, list[int]] = {}
    for (_, _, channel, _), (_, data) in sorted(saver.blobs.items(), key=lambda item: str(item[0][3])):
        if channel != "messages" and not channel.startswith(("__", "branch:")):
            written.setdefault(channel, []).append(len(data))
    return sum(sum(sizes) if turns > 1 else sizes[-1] for sizes in written.values())


def _loading(name: str, skill: str) -> Any:
    if name == UPSTREAM:
        return calls(("1", "read_file", {"file_path": f"/skills/{skill}/SKILL.md"}))
    if name == RUNTIME:
        return calls(("1", "skill_load", {"skill": skill}))
    return calls(("1", "load_skill", {"skill_name": skill}))
