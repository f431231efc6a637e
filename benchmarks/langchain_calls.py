"""What middleware for skills adds to a call of the model."""

import time
from typing import Any

import corpus
from langchain_core.messages import AIMessage, HumanMessage
from langchain_ways import MARKED, RUNTIME, STABLE, UPSTREAM, Told, agents, few_skills, types, ways
from langgraph.checkpoint.memory import InMemorySaver
from report import Target
from running_part import Part, Surroundings, raw_series, series_table
from sampling import Way, in_turns

_ABOUT = """
The hook of each middleware around a call of the model, in the second turn of a thread, from the request that it gets to
the request that the model gets, and back with the answer. Everybody lists every skill.
"""


async def measure(at: Surroundings) -> Part:
    """Every middleware in a thread of its own."""
    count = max(few_skills(at.extent))
    root = at.scratch / "calls"
    corpus.build(root / "skills", count)
    at.say(f"calling a model with {count:,} skills")
    found = await in_turns({name: await _way(make()) for name, make in ways(root).items()}, at.extent.many)
    times = {name: one.median for name, one in found.items()}
    targets = [
        Target(
            f"a model call with {count:,} skills, {name}: times of {UPSTREAM}",
            times[name] / times[UPSTREAM],
            1,
            at_least=False,
            digits=2,
        )
        for name in (MARKED, STABLE, RUNTIME)
    ]
    return Part("Calling a model", _ABOUT, targets, series_table(found, base=UPSTREAM), raw=raw_series(found))


async def _way(middleware: Any) -> Way:
    """A second turn, always from the same checkpoint, with somebody before and behind the middleware who looks."""
    taken: list[float] = []
    around = [_looking(taken), middleware, _answering(taken)]
    graph = agents.create_agent(Told(lines=[]), middleware=around, checkpointer=InMemorySaver())
    given = {"messages": [HumanMessage("hi")]}
    thread = {"configurable": {"thread_id": "bench"}}
    await graph.ainvoke(given, thread)
    first = (await graph.aget_state(thread)).config

    async def once() -> float:
        taken.clear()
        await graph.ainvoke(given, first)
        began, shown, answered, ended = taken
        return (shown - began) + (ended - answered)

    return once


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
