"""Model protocol.

What a language model is to us: messages and tools go in, text and tool calls come out as they are made.

Tool calls as models make them, made fit to be kept in a conversation.
"""

import re
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias, runtime_checkable

from openskills.catalog.catalog import Catalog
from openskills.prompt.history import get_field, get_string, get_tool_calls, parse_json_object


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
class ModelResponse:
    """A whole answer. `stop` is why it ended: `stop`, `tool_calls`, `length`, or what the provider says.

    `thinking` is what its provider wants to read again with the results of the calls, in the provider's own form.
    """

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = field(default_factory=Usage)
    stop: str = "stop"
    model: str = ""
    thinking: Mapping[str, Any] | None = field(default=None, repr=False)

    def to_message(self) -> dict[str, Any]:
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


ModelEvent: TypeAlias = TextDelta | ModelResponse
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
class CatalogModel(Protocol):
    """A model that chooses from a catalog by itself, and not from what it is told."""

    def with_catalog(self, catalog: Catalog) -> Model:
        """The same for other skills: those of a run in another runtime."""
        ...


NO_NAME = "unnamed_tool"
INVALID = "invalid_json"
"""Under this name the arguments of a call that are no JSON object are shown to models that take nothing else."""

_INVALID_CHARS = re.compile(r"[^A-Za-z0-9_-]")
_MAX_NAME_CHARS = 64
_MAX_SEQUENTIAL_TRIES = 16


def normalise_calls(calls: Iterable[ToolCall], request: ModelRequest) -> tuple[ToolCall, ...]:
    """The calls of an answer, each with a name that providers take back and an id that no other call has.

    Servers repeat ids, leave them out, or begin to count anew with every answer; models invent names. A name that is
    offered stays as it is. Arguments stay what the model wrote; none at all is `{}`.
    """
    offered = {get_string(get_field(tool, "function"), "name") for tool in request.tools}
    taken = {call.id for message in request.messages for call in get_tool_calls(message)}
    found: list[ToolCall] = []
    for call in calls:
        own = make_unique_id(call.id, taken)
        taken.add(own)
        name = call.name if call.name in offered else clean_name(call.name)
        found.append(replace(call, id=own, name=name, arguments=call.arguments or "{}"))
    return tuple(found)


def make_unique_id(wanted: str, taken: set[str]) -> str:
    """The id itself, or one with a number at its end that is not taken: the first, unless many are."""
    own, number = wanted or "call", 1
    while own in taken:
        # A server that gives one id to thousands of calls must not make each look at all the others.
        number = number + 1 if number < _MAX_SEQUENTIAL_TRIES else max(number, len(taken)) + 1
        own = f"{wanted or 'call'}-{number}"
    return own


def clean_name(name: str) -> str:
    """A name that every provider takes back: one with dots or spaces in it would spoil all later requests."""
    return _INVALID_CHARS.sub("_", name)[:_MAX_NAME_CHARS] or NO_NAME


def parse_arguments(arguments: object) -> dict[str, Any]:
    """The arguments of a call as an object; what is none is shown as it is, under one name."""
    found = dict(parse_json_object(arguments))
    if found or arguments is None or isinstance(arguments, dict):
        return found
    text = str(arguments).strip()
    return {} if text in {"", "{}"} or _is_empty_object(text) else {INVALID: text}


def _is_empty_object(text: str) -> bool:
    return re.fullmatch(r"\{\s*\}", text) is not None
