"""How much of a checkpoint is about skills."""

from collections.abc import Mapping
from typing import Any

import corpus
from langchain_core.messages import HumanMessage
from langchain_ways import MARKED, RUNTIME, STABLE, UPSTREAM, Told, agents, calls, few_skills, ways
from langgraph.checkpoint.memory import InMemorySaver
from report import Target
from running_part import Part, Surroundings, plain_table

LEAST = 5

_ABOUT = """
The bytes of the channels about skills that a checkpointer has to keep after one turn in which a skill was loaded. The
conversation itself is not counted; in ours it has the text of a loaded skill once, as in deepagents' the result of
`read_file`, and with `SkillRuntimeMiddleware` only the line `loaded: NAME`.
"""


async def measure(at: Surroundings) -> Part:
    """Threads over ever more skills."""
    found: dict[int, Mapping[str, int]] = {}
    for count in few_skills(at.extent):
        at.say(f"keeping threads with {count:,} skills")
        root = at.scratch / f"state-{count}"
        corpus.build(root / "skills", count)
        skill = sorted(path.name for path in (root / "skills").iterdir())[0]
        found[count] = {name: await _bytes(make(), name, skill) for name, make in ways(root).items()}
    most = max(found)
    targets = [
        Target(
            f"state in a checkpoint at {most:,} skills, {name}: times smaller than {UPSTREAM}",
            found[most][UPSTREAM] / found[most][name],
            LEAST,
        )
        for name in (MARKED, STABLE, RUNTIME)
    ]
    rows = [[f"{count:,}", *(f"{size:,}" for size in sizes.values())] for count, sizes in found.items()]
    table = plain_table(["skills", *(f"{name}, bytes" for name in found[most])], rows)
    return Part("Keeping a thread", _ABOUT, targets, table, raw={str(count): dict(one) for count, one in found.items()})


async def _bytes(middleware: Any, name: str, skill: str) -> int:
    saver = InMemorySaver()
    graph = agents.create_agent(Told(lines=[_loading(name, skill)]), middleware=[middleware], checkpointer=saver)
    await graph.ainvoke({"messages": [HumanMessage("hi")]}, {"configurable": {"thread_id": "bench"}})
    # Everything but the conversation itself, which everybody has.
    latest: dict[str, int] = {}
    for (_, _, channel, version), (_, data) in sorted(saver.blobs.items(), key=lambda item: str(item[0][3])):
        del version
        if channel != "messages" and not channel.startswith(("__", "branch:")):
            latest[channel] = len(data)
    return sum(latest.values())


def _loading(name: str, skill: str) -> Any:
    if name == UPSTREAM:
        return calls(("1", "read_file", {"file_path": f"/skills/{skill}/SKILL.md"}))
    if name == RUNTIME:
        return calls(("1", "skill_load", {"skill": skill}))
    return calls(("1", "load_skill", {"skill_name": skill}))
