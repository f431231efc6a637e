"""Talking to a command that runs already: one line written, and its answer read."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from peer_turns import in_turns_or_why
from reasons import one_line
from report import Target, time_text
from running_bench import Ground, ground, write_skill
from running_container import container_engine
from running_part import NotMeasured, Part, Surroundings, plain_table, raw_series, series_table
from running_peers import trpc_agent
from running_trips import ASKING, SILENT, bare_pipe, bare_terminal, of_peer, of_process, of_tool
from sampling import Series, Way
from tools_session import loaded_session

from openskills.errors import ExecutorUnavailable
from openskills.executors.interactive import WAIT

PIPE, TERMINAL = "asyncio, bare pipe", "asyncio, bare terminal"
OURS = {"local": "OpenSkill, local", "sandbox": "OpenSkill, sandbox", "container": "OpenSkill, container"}
PEER = "trpc-agent-py, local"
ON_TERMINAL, NO_PROMPT = ", on a terminal", ", no prompt"
PROMISED, BOUND = ("local", "sandbox"), 0.5
NO_PROMPT_BOUND = 0.1
_FEWER = 6

_ABOUT = f"""
A running shell loop reads a line, and answers with a line and a prompt. The first two tables are round trips of
processes: a line is written, and time is taken when the answer and the prompt have been read. The baseline is bash on
a bare pipe or terminal with asyncio, in the same event loop; OpenSkill is `Process.write` and `Process.read`. The
third table is a call of `skill_write_stdin` of OpenSkill and trpc-agent-py 1.2.0 (with its local executor; its
container executor does not support it), until the result for the model, with the default waiting times of each.
OpenSkill returns when the program is blocked reading its input; where that cannot be detected, 75 ms after output
that looks like a prompt, otherwise after 400 ms. trpc-agent-py polls 20 times per second and returns when there was
no new output for 75 ms; an unfinished line, such as a prompt, counts as new output each time, so it returns after 400
ms there. "{NO_PROMPT[2:]}" is a loop that answers without a prompt.
"""


@dataclass
class _Ways:
    """Ways by table, and why some are not to be had."""

    pipes: dict[str, Way] = field(default_factory=dict[str, Way])
    terminals: dict[str, Way] = field(default_factory=dict[str, Way])
    tools: dict[str, Way] = field(default_factory=dict[str, Way])
    missing: dict[str, str] = field(default_factory=dict[str, str])


async def measure(at: Surroundings) -> Part:
    """Processes and tools, for every executor that this machine has."""
    async with AsyncExitStack() as stack:
        ways = await _opened(at, stack)
        at.say(f"talking to commands in {len(ways.pipes) + len(ways.terminals) + len(ways.tools)} ways")
        pipes = await in_turns_or_why(ways.pipes, at.extent.many, ways.missing)
        terminals = await in_turns_or_why(ways.terminals, at.extent.many, ways.missing)
        # Each takes up to half a second, nearly all of it by waiting, which varies little.
        tools = await in_turns_or_why(ways.tools, max(at.extent.few // _FEWER, 1), ways.missing, before=1)
    tables = {
        "Processes, on pipes": series_table(pipes, base=PIPE),
        "Processes, on a terminal": series_table(terminals, base=TERMINAL),
        "A call of skill_write_stdin": _against_both(tools),
    }
    return Part(
        "An interactive round trip",
        _ABOUT,
        [*(_target(name, tools, ways.missing) for name in PROMISED), _no_prompt_target(tools, ways.missing)],
        "\n\n".join(f"**{title}**\n\n{table}" for title, table in tables.items()),
        missing=list(dict.fromkeys(ways.missing.values())),
        raw={"pipes": raw_series(pipes), "terminals": raw_series(terminals), "tools": raw_series(tools)},
    )


def _target(name: str, tools: Mapping[str, Series], missing: Mapping[str, str]) -> Target:
    why = "; ".join(dict.fromkeys(missing[way] for way in (OURS[name], PEER) if way in missing))
    value = None if why else tools[OURS[name]].median / tools[PEER].median
    promise = f"a line answered with a prompt, `skill_write_stdin`, {name}: relative to trpc-agent-py"
    return Target(promise, value, BOUND, at_least=False, digits=2, why=why)


def _no_prompt_target(tools: Mapping[str, Series], missing: Mapping[str, str]) -> Target:
    way = f"{OURS['local']}{NO_PROMPT}"
    value = None if OURS["local"] in missing else tools[way].median / WAIT
    promise = "a line answered without a prompt, `skill_write_stdin`, local: relative to waiting for more output"
    return Target(promise, value, NO_PROMPT_BOUND, at_least=False, digits=2, why=missing.get(OURS["local"], ""))


def _against_both(tools: Mapping[str, Series]) -> str:
    def against(one: Series, base: str) -> str:
        return f"{one.median / tools[base].median:.2f}x" if base in tools else "not measured"

    rows = [
        [
            name,
            time_text(one.median),
            " to ".join(map(time_text, one.quartiles)),
            against(one, PIPE),
            against(one, f"{PEER}{NO_PROMPT}" if name.endswith(NO_PROMPT) else PEER),
        ]
        for name, one in tools.items()
    ]
    return plain_table(["", "median", "interquartile range", f"vs. {PIPE}", "vs. trpc-agent-py"], rows)


async def _opened(at: Surroundings, stack: AsyncExitStack) -> _Ways:
    floor = await stack.enter_async_context(bare_pipe())
    ways = _Ways({PIPE: floor}, {TERMINAL: await stack.enter_async_context(bare_terminal())}, {PIPE: floor})
    skill = write_skill(at.scratch / "skills", 20)
    for name, way in OURS.items():
        try:
            place = await _ground(name, at, stack)
            ways.pipes[way] = await of_process(place, terminal=False)
            ways.terminals[way] = await of_process(place, terminal=True)
            session = await stack.enter_async_context(loaded_session(place, skill.parent))
            ways.tools[way] = await of_tool(session, ASKING, terminal=False)
            if name == "local":
                ways.tools[f"{way}{ON_TERMINAL}"] = await of_tool(session, ASKING, terminal=True)
                ways.tools[f"{way}{NO_PROMPT}"] = await of_tool(session, SILENT, terminal=False)
        except NotMeasured as reason:
            ways.missing[way] = str(reason)
    try:
        opening = trpc_agent(at.scratch, skill.parent, skill.name, script="running_trpc_typing.py")
        peer = await stack.enter_async_context(opening)
        ways.tools[PEER] = of_peer(peer, ASKING, terminal=False)
        ways.tools[f"{PEER}{ON_TERMINAL}"] = of_peer(peer, ASKING, terminal=True)
        ways.tools[f"{PEER}{NO_PROMPT}"] = of_peer(peer, SILENT, terminal=False)
    except NotMeasured as reason:
        ways.missing[PEER] = str(reason)
    return ways


async def _ground(name: str, at: Surroundings, stack: AsyncExitStack) -> Ground:
    options: dict[str, Any] = {}
    if name == "container":
        options["options"] = stack.enter_context(container_engine()).options
    try:
        return await stack.enter_async_context(ground(name, at.scratch, **options))
    except ExecutorUnavailable as error:
        raise NotMeasured(one_line(f"the {name}: {error.message}")) from error
