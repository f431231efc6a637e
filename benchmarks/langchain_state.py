"""How much of a checkpoint is about skills."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import corpus
from langchain_core.messages import HumanMessage
from langchain_steps import agent_of, check, load
from langchain_ways import BARE, MARKED, RUNTIME, STABLE, UPSTREAM, Told, calls, few_skills
from langgraph.checkpoint.memory import InMemorySaver
from report import Target
from running_part import Part, Surroundings, plain_table

MIN_RATIO = 5
TURNS = 50
FEW = 16
"""The most skills that `SkillsMiddleware` keeps in checkpoints."""

_ABOUT = f"""
Bytes of the state channels about skills in a checkpoint after one turn in which a skill was loaded. The conversation
is not counted: in ours it contains the text of a loaded skill once, as deepagents' contains the result of
`read_file`; with `SkillRuntimeMiddleware` it only contains the line `loaded: NAME`. The last row is a longer thread
with all its checkpoints. The second table counts the same checkpoints including the conversation, compared with
"{BARE}": an agent that only has a tool which reads the skill's text.
"""
WAYS = (UPSTREAM, MARKED, STABLE, RUNTIME)


@dataclass(frozen=True)
class Kept:
    """Bytes of a thread: what is about skills, and everything."""

    skills: int
    everything: int


async def measure(at: Surroundings) -> Part:
    """Threads over ever more skills."""
    found: dict[int, Mapping[str, Kept]] = {}
    for count in few_skills(at.extent):
        at.say(f"keeping threads with {count:,} skills")
        found[count] = await _kept(at.scratch / f"state-{count}", count)
    at.say(f"keeping threads of {TURNS} turns")
    grown = await _kept(at.scratch / "state-turns", FEW, TURNS)
    most = max(found)
    targets = [
        Target(
            f"state in a checkpoint at {most:,} skills, {name}: smaller than {UPSTREAM}",
            found[most][UPSTREAM].skills / found[most][name].skills,
            MIN_RATIO,
        )
        for name in (MARKED, STABLE, RUNTIME)
    ]
    named = {**{f"{count:,}": sizes for count, sizes in found.items()}, f"{FEW}, {TURNS} turns": grown}
    tables = [
        plain_table(
            ["skills", *(f"{name}, bytes" for name in WAYS)],
            [[title, *(f"{sizes[name].skills:,}" for name in WAYS)] for title, sizes in named.items()],
        ),
        plain_table(
            ["skills", *(f"{name}, all bytes" for name in (BARE, *WAYS))],
            [[title, *(_cell(sizes, name) for name in (BARE, *WAYS))] for title, sizes in named.items()],
        ),
    ]
    raw = {
        **{title: {name: sizes[name].skills for name in WAYS} for title, sizes in named.items()},
        "everything": {title: {name: one.everything for name, one in sizes.items()} for title, sizes in named.items()},
    }
    return Part("Checkpoint size", _ABOUT, targets, "\n\n".join(tables), raw=raw)


def _cell(sizes: Mapping[str, Kept], name: str) -> str:
    times = "" if name == BARE else f" ({sizes[name].everything / sizes[BARE].everything:.2f}x)"
    return f"{sizes[name].everything:,}{times}"


async def _kept(root: Path, count: int, turns: int = 1) -> Mapping[str, Kept]:
    """The bytes of a thread over so many skills, for each middleware and for none."""
    corpus.build(root / "skills", count)
    skill = sorted(path.name for path in (root / "skills").iterdir())[0]
    return {name: await _bytes(name, root, skill, turns) for name in (BARE, *WAYS)}


async def _bytes(name: str, root: Path, skill: str, turns: int) -> Kept:
    """What the last checkpoint has after one turn, or all of them after several."""
    saver = InMemorySaver()
    graph = agent_of(name, root, Told(lines=[calls(("1", *load(name, skill)))]), checkpointer=saver)
    for _ in range(turns):
        given = {"messages": [HumanMessage("hi")]}
        check(await graph.ainvoke(given, {"configurable": {"thread_id": "bench"}}))
    written: dict[str, list[int]] = {}
    for (_, _, channel, _), (_, data) in sorted(saver.blobs.items(), key=lambda item: str(item[0][3])):
        if not channel.startswith(("__", "branch:")):
            written.setdefault(channel, []).append(len(data))
    sizes = {channel: sum(each) if turns > 1 else each[-1] for channel, each in written.items()}
    # The conversation itself is something that everybody has.
    return Kept(sum(size for channel, size in sizes.items() if channel != "messages"), sum(sizes.values()))
