"""Agents with scripted models, in tests."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from openskills.agent.agent import Agent
from openskills.agent.models.model import ModelResponse, ToolCall
from openskills.agent.runner import Runner
from openskills.runtime.options import SessionOptions
from openskills.session.events import Event
from openskills.session.store import SessionStore
from openskills.testing.models import ScriptedModel
from tests.runtime.talking import runtime_in
from tests.tools.contexts import write_skill


def calling(*calls: tuple[str, dict[str, Any]], text: str = "") -> ModelResponse:
    """An answer that calls tools."""
    made = tuple(ToolCall(f"c{number}", name, json.dumps(given)) for number, (name, given) in enumerate(calls, 1))
    return ModelResponse(text, made, stop="tool_calls")


def skills_for_agents(directory: Path) -> Path:
    """Two skills whose texts can be told apart."""
    for name in ("alpha", "beta"):
        folder = write_skill(directory, name, {"guide.md": f"GUIDE OF {name}"})
        (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: The skill {name}.\n---\nBODY OF {name}\n")
    return directory


def agent_in(
    directory: Path,
    answers: Sequence[Any],
    *,
    executor: str | None = None,
    store: SessionStore | None = None,
    options: SessionOptions | None = None,
    name: str = "assistant",
    **more: Any,
) -> tuple[Agent, ScriptedModel]:
    """An agent for the skills in a directory, and its model."""
    model = ScriptedModel(answers)
    runtime = runtime_in(directory, executor=executor, store=store, options=options)
    return Agent(name, model, runtime, **more), model


async def heard(agent: Agent, message: str = "hello", *, session: str = "s", **more: Any) -> list[Event]:
    """All events of one run."""
    return [event async for event in Runner("app", agent).run(user="u", session=session, message=message, **more)]


def kinds(events: Sequence[Event]) -> list[str]:
    return [event.kind for event in events]
