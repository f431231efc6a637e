"""The `Model` protocol: requests, streamed responses, and normalization of tool calls."""

import re
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

from openskills.arguments import check_arguments
from openskills.errors import InvalidArgument
from openskills.prompt.history import get_field, get_items, get_string, get_tool_calls, parse_json_object


@check_arguments
@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call of the model. `arguments` is the text that it wrote, hopefully JSON."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of a request as counted by the provider; `cached` is the part of `input` from its prompt cache."""

    input: int = 0
    output: int = 0
    cached: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(self.input + other.input, self.output + other.output, self.cached + other.cached)


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More text of an answer."""

    text: str


@check_arguments
@dataclass(frozen=True, slots=True)
class ModelResponse:
    """A complete answer. `stop` is why it ended: `stop`, `tool_calls`, `length`, or the provider's own reason.

    `thinking` must be sent back to the provider with the results, in the provider's format.
    """

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = field(default_factory=Usage)
    stop: str = "stop"
    model: str = ""
    thinking: Mapping[str, Any] | None = field(default=None, repr=False)

    def to_message(self) -> dict[str, Any]:
        """The answer as an OpenAI-style message, with `thinking` as an additional field."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text or None}
        if self.calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in self.calls
            ]
        if self.thinking is not None:
            message["thinking"] = dict(self.thinking)
        return message


ModelEvent: TypeAlias = TextDelta | ModelResponse
"""A model streams any number of deltas, then one complete answer."""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A request: OpenAI-style messages, and tools as returned by `SkillSession.tools("openai")`.

    `json_schema` requests structured output from models that support it. `loaded_skills` are those whose texts are in
    the messages, for `before_model`. Models behind HTTP call `on_send` with the body of each request that they send.
    """

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]] = ()
    max_output_tokens: int | None = None
    temperature: float | None = None
    json_schema: Mapping[str, Any] | None = None
    loaded_skills: tuple[str, ...] = ()
    on_send: Callable[[bytes], None] | None = field(default=None, repr=False, compare=False)


class Model(Protocol):
    """A language model. Many tasks may use it at once, on the event loop that used it first."""

    @property
    def name(self) -> str:
        """The name in logs and results."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Send a request and stream the answer. Closing the generator cancels it.

        Raises `ModelUnavailable` if it cannot be reached or is overloaded, after retries; `Unauthorized` without a
        valid key; `InvalidArgument` if the provider rejects the request.
        """
        ...

    async def close(self) -> None:
        """Close its connections."""
        ...


_PROVIDER_FILE = re.compile(r"file([-_])[A-Za-z0-9]+")
_FILE_PROVIDERS = {"-": "OpenAI", "_": "Anthropic"}


def find_file_provider(file_id: str) -> str:
    """`OpenAI` for `file-…`, `Anthropic` for `file_…`; empty for other ids, such as those of artifacts."""
    found = _PROVIDER_FILE.match(file_id)
    return _FILE_PROVIDERS[found[1]] if found else ""


def iter_file_ids(messages: Iterable[Mapping[str, Any]], provider: str) -> Iterator[str]:
    """The file ids of a provider in the parts of messages. Raises `InvalidArgument` for a file of another one."""
    for message in messages:
        for part in get_items(message.get("content")):
            file_id = get_string(get_field(part, "file"), "file_id")
            owner = find_file_provider(file_id)
            if owner and owner != provider:
                raise InvalidArgument(
                    "messages",
                    f"{file_id} is a file at {owner}, which models of {provider} cannot read; upload it to {provider}, "
                    "or attach its content",
                )
            if owner:
                yield file_id


NO_NAME = "unnamed_tool"
INVALID = "invalid_json"
"""The field in which arguments that are not a JSON object are sent back to the model."""

_INVALID_CHARS = re.compile(r"[^A-Za-z0-9_-]")
_MAX_NAME_CHARS = 64
_MAX_SEQUENTIAL_TRIES = 16


def normalise_calls(calls: Iterable[ToolCall], request: ModelRequest) -> tuple[ToolCall, ...]:
    """Give each call of an answer a name that providers accept and a unique id.

    Servers repeat ids, leave them out, or restart their counter with every answer; models invent names. Names of
    offered tools and arguments stay as they are; empty arguments become `{}`.
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
    """The id itself, or with a number appended if it is taken."""
    own, number = wanted or "call", 1
    while own in taken:
        # Avoid quadratic time if a server gives one id to thousands of calls.
        number = number + 1 if number < _MAX_SEQUENTIAL_TRIES else max(number, len(taken)) + 1
        own = f"{wanted or 'call'}-{number}"
    return own


def clean_name(name: str, max_chars: int = _MAX_NAME_CHARS) -> str:
    """A name that every provider accepts; an invalid one would break all later requests."""
    return _INVALID_CHARS.sub("_", name)[:max_chars] or NO_NAME


def is_json_object(arguments: object) -> bool:
    """Whether the arguments of a call are the text of a JSON object."""
    return isinstance(arguments, str) and (arguments.strip() == "{}" or bool(parse_json_object(arguments)))


def parse_arguments(arguments: object) -> dict[str, Any]:
    """Parse the arguments of a call; text that is not a JSON object is returned under `INVALID`."""
    found = dict(parse_json_object(arguments))
    if found or arguments is None or isinstance(arguments, dict):
        return found
    text = str(arguments).strip()
    return {} if re.fullmatch(r"(?:\{\s*\})?", text) else {INVALID: text}
