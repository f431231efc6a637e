"""What a language model is to us: messages and tools go in, text and tool calls come out as they are made."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, runtime_checkable

from openskills.catalog.catalog import Catalog


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that the model wants to have called. `arguments` is text as the model wrote it, JSON if it did well."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Usage:
    """What a request cost, as the provider counted it; `cached` of `input` came from its prompt cache."""

    input: int = 0
    output: int = 0
    cached: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(self.input + other.input, self.output + other.output, self.cached + other.cached)


@dataclass(frozen=True, slots=True)
class TextDelta:
    """Some more of the text of an answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer. `stop` is why it ended: `stop`, `tool_calls`, `length`, or what the provider says.

    `thinking` is what its provider wants to read again with the results of the calls, in the provider's own form.
    """

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = field(default_factory=Usage)
    stop: str = "stop"
    model: str = ""
    thinking: Mapping[str, Any] | None = field(default=None, repr=False)

    def message(self) -> dict[str, Any]:
        """The answer as an OpenAI-style message, with `thinking` beside its content where there is some."""
        said: dict[str, Any] = {"role": "assistant", "content": self.text or None}
        if self.calls:
            said["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in self.calls
            ]
        if self.thinking is not None:
            said["thinking"] = dict(self.thinking)
        return said


ModelEvent: TypeAlias = TextDelta | Answer
"""What a model streams: any number of deltas, then the whole answer, once."""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What is asked of a model: OpenAI-style messages, and tools as `SkillSession.tools("openai")` gives them.

    `json_schema` asks for an answer that is JSON of this shape, from models that can promise it.
    """

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]] = ()
    max_output_tokens: int | None = None
    temperature: float | None = None
    json_schema: Mapping[str, Any] | None = None


class Model(Protocol):
    """A language model. It may be used by many tasks at once, on the event loop that used it first."""

    @property
    def name(self) -> str:
        """How it is called in logs and results."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Ask, and get the answer as it is made. Closing the generator gives up the request.

        Raises `ModelUnavailable` when it cannot be reached or is overloaded, after the retries it has made;
        `Unauthorized` without a valid key; `InvalidArgument` when it refuses the request as it is.
        """
        ...

    async def close(self) -> None:
        """Give back its connections."""
        ...


@runtime_checkable
class ChoosesSkills(Protocol):
    """A model that chooses from a catalog by itself, and not from what it is told."""

    def among(self, catalog: Catalog) -> Model:
        """The same for other skills: those of a run in another runtime."""
        ...
