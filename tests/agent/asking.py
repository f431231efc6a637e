"""Models asked in tests: both kinds, at a scripted server, with waits that take no time."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from openskills.agent.models.anthropic import AnthropicModel
from openskills.agent.models.http import Retrier, RetryPolicy
from openskills.agent.models.model import ModelEvent, ModelRequest, ModelResponse, TextDelta
from openskills.agent.models.openai import OpenAIModel
from openskills.testing.model_server import ModelServer

KEY = "sk-test-0123456789abcdef"
HELLO = ModelRequest([{"role": "user", "content": "Hello"}])
TOOL: Mapping[str, Any] = {
    "type": "function",
    "function": {
        "name": "skill_load",
        "description": "Load a skill",
        "parameters": {"type": "object", "properties": {"skill": {"type": "string"}}, "required": ["skill"]},
    },
}

AnyModel = OpenAIModel | AnthropicModel
Make = Callable[..., AnyModel]


@dataclass
class Waits:
    """Waits without waiting, and remembers for how long."""

    seconds: list[float] = field(default_factory=list[float])

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)

    def retrying(self, **policy: Any) -> Retrier:
        """Retries that wait here, and never shorten a pause by chance."""
        return Retrier(RetryPolicy(**policy), wait=self, chance=lambda: 0.0)


def make_openai(server: ModelServer, **options: Any) -> OpenAIModel:
    """A model that speaks OpenAI's protocol with the server."""
    options = {"api_key": KEY, "retrying": Waits().retrying(), **options}
    return OpenAIModel("gpt-test", base_url=server.openai_url, **options)


def make_anthropic(server: ModelServer, **options: Any) -> AnthropicModel:
    """A model that speaks Anthropic's protocol with the server."""
    options = {"api_key": KEY, "retrying": Waits().retrying(), **options}
    return AnthropicModel("claude-test", base_url=server.anthropic_url, **options)


@asynccontextmanager
async def using(model: AnyModel) -> AsyncGenerator[AnyModel]:
    """The model, closed in the end."""
    try:
        yield model
    finally:
        await model.close()


async def heard(model: AnyModel, request: ModelRequest = HELLO) -> list[ModelEvent]:
    """Everything that a model streams; it is closed then."""
    async with using(model):
        return [event async for event in model.stream(request)]


async def answer(model: AnyModel, request: ModelRequest = HELLO) -> ModelResponse:
    """The whole answer of a model, which is closed then."""
    last = (await heard(model, request))[-1]
    assert isinstance(last, ModelResponse)
    return last


def texts(events: Sequence[ModelEvent]) -> list[str]:
    """The pieces of text among events."""
    return [event.text for event in events if isinstance(event, TextDelta)]
