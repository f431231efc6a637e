"""Answers that a program can use: JSON in the shape that the chosen skill asks for, with one more try if it is not.

    pip install jsonschema-rs
    python examples/structured_output.py

Each skill in `examples/structured_output` brings the schema of its result. Which one counts is known when the model has
loaded a skill, so it is put into the requests from then on: a provider that can promise a shape keeps to it. The answer
is checked all the same, and what is wrong with it goes back to the model, once. A script plays a careless model.
"""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from jsonschema_rs import validator_for

from openskills.agent import Agent, Callbacks, ModelRequest, Runner, ToolCall
from openskills.catalog import Catalog
from openskills.runtime import SessionOptions, SkillRuntime
from openskills.testing import ScriptedModel, call_tools
from openskills.tools import ToolResult

SKILLS = Path(__file__).with_suffix("")
SCRIPT = [
    call_tools(("skill_load", {"skill": "invoice-reader"})),
    '{"total": "19,90", "currency": "Euro"}',
    '{"total": 19.9, "currency": "EUR"}',
    call_tools(("skill_load", {"skill": "contact-reader"})),
    "The invoice is from Ada Lovelace.",
    '{"name": "Ada Lovelace", "mail": "ada@example.org"}',
]


class Shape:
    """The shape of the answer: what the skill that was loaded last asks for."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.schema: dict[str, Any] | None = None

    async def learn(self, _agent: str, call: ToolCall, result: ToolResult) -> None:
        """After a tool: a skill that was loaded says what its result looks like."""
        if call.name == "skill_load" and result.error is None:
            self.schema = json.loads(self._catalog.get(result.data["skill"]).read("assets/schema.json"))

    async def demand(self, _agent: str, request: ModelRequest) -> ModelRequest:
        """Before the model: it is told."""
        return replace(request, json_schema=self.schema)

    def faults(self, text: str) -> list[str]:
        """What is wrong with an answer, in words for the model."""
        try:
            found = json.loads(text)
        except ValueError:
            return ["That is not JSON."]
        errors = validator_for(self.schema or {}).iter_errors(found)
        return [f"/{'/'.join(map(str, error.instance_path))}: {error.message}." for error in errors]


async def asked(runner: Runner, shape: Shape, message: str) -> Any:
    """What a request comes to, as a value. Raises `ValueError` when two tries are not enough."""
    for _ in range(2):
        reply = await runner.reply(user="ada", session="desk", message=message)
        faults = shape.faults(reply.text)
        print(f"  The model says: {reply.text}\n    {' '.join(faults) or 'That is right.'}")
        if not faults:
            return json.loads(reply.text)
        message = f"{' '.join(faults)} Answer again, with nothing but JSON."
    raise ValueError("the answer has not got the right shape")


async def main() -> None:
    """Two requests that need different skills, and so come to different values."""
    catalog = Catalog.from_paths(SKILLS)
    shape = Shape(catalog)
    callbacks = Callbacks(before_model=shape.demand, after_tool=shape.learn)
    runtime = SkillRuntime(catalog, options=SessionOptions(load_mode="session"))
    runner = Runner("desk", Agent("clerk", ScriptedModel(SCRIPT), runtime, callbacks=callbacks))
    for message in ("What do we owe for invoice 7?", "Whom do we pay?"):
        print(message)
        value = await asked(runner, shape, message)
        print(f"  A program has {', '.join(f'{key} = {value[key]!r}' for key in value)}.")


if __name__ == "__main__":
    asyncio.run(main())
