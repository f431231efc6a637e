"""pydantic-ai-skills plays conversations: `cache_pydantic.py SKILLS-DIRECTORY`. Runs in an environment of its own.

An agent of Pydantic AI with its capability, and its own model for OpenAI, whose requests go to a function here instead
of over the network: what is counted is the body of every request.
"""

import importlib
import json
import sys
from collections.abc import Sequence
from typing import Any

# A benchmark may have the name of a library: looked for last, it is in nobody's way.
sys.path.append(sys.path.pop(0))

from context_talk import LOOK, LOOKED, SYSTEM, Step, of_data
from trpc_process import serve


def lookup(table: str) -> str:
    """Look something up."""
    del table
    return LOOKED


class Provider:
    """Answers from a script, and remembers what was asked."""

    def __init__(self) -> None:
        self.requests: list[list[dict[str, Any]]] = []
        self.script: list[tuple[str, dict[str, Any]]] = []

    def answer(self, request: Any) -> Any:
        """A response of OpenAI's chat API."""
        self.requests.append(json.loads(request.content)["messages"])
        message: dict[str, Any] = {"role": "assistant", "content": "Done."}
        if self.script:
            name, arguments = self.script.pop(0)
            function = {"name": name, "arguments": json.dumps(arguments)}
            call = {"id": f"call_{len(self.requests)}", "type": "function", "function": function}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
        reason = "tool_calls" if message["content"] is None else "stop"
        choice = {"index": 0, "finish_reason": reason, "message": message}
        body = {"id": "r", "object": "chat.completion", "created": 1, "model": "recording", "choices": [choice]}
        return _http().Response(200, json=body)


def _http() -> Any:
    """The library that the client of OpenAI uses here."""
    client: Any = importlib.import_module("openai._base_client")
    return getattr(client, "httpx2", None) or client.httpx


def model_over(provider: Provider) -> Any:
    http = _http()
    client = importlib.import_module("openai").AsyncOpenAI(
        api_key="none", http_client=http.AsyncClient(transport=http.MockTransport(provider.answer))
    )
    models: Any = importlib.import_module("pydantic_ai.models.openai")
    providers: Any = importlib.import_module("pydantic_ai.providers.openai")
    return models.OpenAIChatModel("recording", provider=providers.OpenAIProvider(openai_client=client))


def calls_of(step: Step) -> list[tuple[str, dict[str, Any]]]:
    if step.kind == LOOK:
        return [("lookup", {"table": "figures"})]
    if not step.docs:
        return [("load_capability", {"id": step.skill})]
    return [("read_skill_resource", {"skill_name": step.skill, "resource_name": path}) for path in step.docs]


async def _played(skills: str, turns: Sequence[dict[str, Any]]) -> list[Any]:
    provider = Provider()
    agent = importlib.import_module("pydantic_ai").Agent(
        model_over(provider),
        instructions=SYSTEM,
        tools=[lookup],
        capabilities=[importlib.import_module("pydantic_ai_skills").SkillsCapability(skills)],
    )
    limits = importlib.import_module("pydantic_ai.usage").UsageLimits(request_limit=None)
    history: list[Any] = []
    for turn in of_data(turns):
        provider.script.extend(call for step in turn.steps for call in calls_of(step))
        result = await agent.run(turn.user, message_history=history, usage_limits=limits)
        history = result.all_messages()
    return provider.requests


async def _answer(request: dict[str, Any]) -> dict[str, Any]:
    return {"requests": await _played(sys.argv[1], request["turns"])}


if __name__ == "__main__":
    serve(lambda: _answer)
