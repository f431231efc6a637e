"""A hook of the session store that keeps the three skills that were loaded last.

    python examples/session_hook.py

`SessionOptions(max_loaded_skills=3)` does the same, and `evict` takes a policy. A hook can do more: it sees every event
before it is stored, with the state that it will change, whoever made it, and may change what it carries. What it takes
away is not loaded, and the model is told. Every store takes one:
`open_session_store(address, settings, hook=...)`.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from openskills.agent import Agent, Runner
from openskills.catalog import Catalog
from openskills.runtime import SessionOptions, SkillRuntime
from openskills.session import (
    Event,
    MemorySessionStore,
    apply_delta,
    docs_key,
    format_array,
    loaded_key,
    loaded_prefix,
    order_key,
    parse_array,
)
from openskills.testing import ScriptedModel, call_tools

SKILLS = Path(__file__).parent.parent / "skills"
KEPT = 3


def keep_latest(event: Event, state: Mapping[str, str]) -> Event:
    """The same event; when an agent loads one skill too many, it unloads the oldest of them, too."""
    agent = event.author
    if not any(key.startswith(loaded_prefix(agent)) and value for key, value in event.delta.items()):
        return event
    loaded = parse_array(apply_delta(state, event.delta).get(order_key(agent)))
    old, kept = loaded[:-KEPT], loaded[-KEPT:]
    if not old:
        return event
    # None takes a key out of the state.
    gone = dict.fromkeys([key(agent, skill) for key in (loaded_key, docs_key) for skill in old])
    delta = {**event.delta, **gone, order_key(agent): format_array(kept)}
    # The model is told by itself; the log should say the same.
    told = "\n".join([event.payload.get("content", ""), *(f"evicted: {skill}" for skill in old)])
    return replace(event, delta=delta, payload={**event.payload, "content": told})


async def main() -> None:
    """A model that loads one skill after the other, and what it is told."""
    wanted = ("csv-report", "log-triage", "math", "markdown-links", "csv-report", "text-tools")
    model = ScriptedModel([*(call_tools(("skill_load", {"skill": skill})) for skill in wanted), "I have read enough."])
    store = MemorySessionStore(hook=keep_latest)
    runtime = SkillRuntime(Catalog.from_paths(SKILLS), store=store, options=SessionOptions(load_mode="session"))
    agent = Agent("reader", model, runtime)
    async for event in Runner("library", agent).run(user="ada", session="reading", message="Read some skills."):
        if event.kind == "tool.response":
            print(event.payload["content"].replace("\n", ", "))

    print("\nThe model sees:")
    for message in model.requests[-1].messages:
        for line in str(message["content"]).splitlines():
            if line.startswith("[Loaded] "):
                print(f"  {line}")
    async with runtime.session("reading", app="library", user="ada", agent="reader") as session:
        print("\nThe session remembers:")
        for key, value in sorted(session.state().items()):
            print(f"  {key} = {value}")
    await runtime.close()


if __name__ == "__main__":
    asyncio.run(main())
