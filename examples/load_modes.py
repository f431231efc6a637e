"""How long a loaded skill stays before the model's eyes: the load modes `turn`, `once` and `session`.

    python examples/load_modes.py

The same conversation is held three times. The model loads a skill, calls another tool, answers; then the user goes on.
Each time we look whether the request to the model has the instructions of the skill in it. No model takes part: we
write its messages ourselves.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

from openskills.catalog import Catalog
from openskills.runtime import SessionOptions, SkillRuntime, SkillSession

SKILLS = Path(__file__).parent.parent / "skills"
SKILL = "csv-report"


async def main() -> None:
    """Hold the conversation in each mode."""
    catalog = Catalog.from_paths(SKILLS)
    instructions = catalog.get(SKILL).body().strip()
    runtime = SkillRuntime(catalog)

    for mode in ("turn", "once", "session"):
        print(f'SessionOptions(load_mode="{mode}")')
        async with runtime.session(f"in-mode-{mode}", options=SessionOptions(load_mode=mode)) as session:
            await converse(session, instructions)


async def converse(session: SkillSession, instructions: str) -> None:
    """Two turns of a user and a model, and three requests after the load."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "What is in sales.csv?"}]
    session.context(messages)  # the first request: the model sees the list of skills, and decides to load one

    await call(session, messages, "skill_load", {"skill": SKILL})
    tell("After skill_load", session.context(messages), instructions)

    await call(session, messages, "skill_list_docs", {"skill": SKILL})
    tell("After one more tool", session.context(messages), instructions)

    messages.append({"role": "assistant", "content": "Twelve months of sales."})
    messages.append({"role": "user", "content": "And what is in costs.csv?"})
    tell("In the next turn", session.context(messages), instructions)

    # Whatever the mode, the long text never gets into the messages that you keep.
    print(f"  The transcript keeps {messages[2]['content']!r} and no more.\n")


async def call(session: SkillSession, messages: list[dict[str, Any]], tool: str, arguments: dict[str, Any]) -> None:
    """What every agent loop does with a tool call: keep the call, do it, keep the result."""
    call_id = f"call-{len(messages)}"
    function = {"name": tool, "arguments": json.dumps(arguments)}
    tool_call = {"id": call_id, "type": "function", "function": function}
    messages.append({"role": "assistant", "content": None, "tool_calls": [tool_call]})
    result = await session.call(tool, arguments)
    messages.append({"role": "tool", "tool_call_id": call_id, "content": result.text})


def tell(when: str, request: list[dict[str, Any]], instructions: str) -> None:
    """Say whether a request has the instructions of the skill in it."""
    is_shown = any(instructions in (message["content"] or "") for message in request)
    print(f"  {when} the model {'reads' if is_shown else 'does not read'} the instructions.")


if __name__ == "__main__":
    asyncio.run(main())
