"""What middleware for skills adds to a call of the model."""

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import corpus
from langchain_core.messages import AIMessage, HumanMessage
from langchain_ways import BARE, MARKED, RUNTIME, STABLE, UPSTREAM, Told, agents, few_skills, types, ways
from langgraph.checkpoint.memory import InMemorySaver
from report import Target
from running_part import Part, Surroundings, raw_series, series_table
from sampling import Way, in_turns, timed

_ABOUT = f"""
The model-call hook of each middleware in the second turn of a thread: from the request that it receives to the
request that the model receives, and back. All of them list all skills. "{BARE}" is the baseline: the same agent and
model without skills. The second table is a whole turn with one call of a model that answers immediately: reading the
checkpoint, the middleware, the call, and writing the next checkpoint. It includes that `SkillsMiddleware` checks
whether skills have changed on disk, which deepagents only does at the start of a thread.
"""
_FEWER = 4


async def measure(at: Surroundings) -> Part:
    """Every middleware in a thread of its own."""
    count = max(few_skills(at.extent))
    root = at.scratch / "calls"
    corpus.build(root / "skills", count)
    at.say(f"calling a model with {count:,} skills")
    makers = {BARE: lambda: None, **ways(root)}
    found = await in_turns({name: await _way(make()) for name, make in makers.items()}, at.extent.many)
    whole = {name: await _whole(make()) for name, make in makers.items()}
    turns = await in_turns(whole, max(at.extent.many // _FEWER, 1))
    times = {name: one.median for name, one in found.items()}
    targets = [
        Target(
            f"a model call with {count:,} skills, {name}: relative to {UPSTREAM}",
            times[name] / times[UPSTREAM],
            1,
            at_least=False,
            digits=2,
        )
        for name in (MARKED, STABLE, RUNTIME)
    ]
    tables = {"The hook": series_table(found, base=UPSTREAM), "A whole turn": series_table(turns, base=BARE)}
    return Part(
        "Calling a model",
        _ABOUT,
        targets,
        "\n\n".join(f"**{title}**\n\n{table}" for title, table in tables.items()),
        raw={"hook": raw_series(found), "turn": raw_series(turns)},
    )


async def _way(middleware: Any | None) -> Way:
    """A second turn, with somebody before and behind the middleware who looks."""
    taken: list[float] = []
    turn = await _second_turn(Told(lines=[]), [_looking(taken), *_some(middleware), _answering(taken)])

    async def once() -> float:
        taken.clear()
        await turn()
        began, shown, answered, ended = taken
        return (shown - began) + (ended - answered)

    return once


async def _whole(middleware: Any | None) -> Way:
    """A second turn from its beginning to its end."""
    model = Told(lines=[])
    turn = await _second_turn(model, _some(middleware))

    async def act() -> None:
        # What it was asked before is not needed, and would only fill the memory.
        model.requests.clear()
        await turn()

    return timed(act)


async def _second_turn(model: Told, middleware: Sequence[Any]) -> Callable[[], Awaitable[object]]:
    """Plays a second turn, always from the same checkpoint."""
    graph = agents.create_agent(model, middleware=middleware, checkpointer=InMemorySaver())
    given = {"messages": [HumanMessage("hi")]}
    thread = {"configurable": {"thread_id": "bench"}}
    await graph.ainvoke(given, thread)
    first = (await graph.aget_state(thread)).config
    return lambda: graph.ainvoke(given, first)


def _some(middleware: Any | None) -> list[Any]:
    return [] if middleware is None else [middleware]


def _looking(taken: list[float]) -> Any:
    async def look(_: Any, request: Any, handler: Any) -> Any:
        taken.append(time.perf_counter())
        answer = await handler(request)
        taken.append(time.perf_counter())
        return answer

    return type("Looking", (types.AgentMiddleware,), {"awrap_model_call": look})()


def _answering(taken: list[float]) -> Any:
    async def answer(_: Any, request: Any, handler: Any) -> Any:
        del request, handler
        taken.append(time.perf_counter())
        said = types.ModelResponse(result=[AIMessage("done")])
        taken.append(time.perf_counter())
        return said

    return type("Answering", (types.AgentMiddleware,), {"awrap_model_call": answer})()
