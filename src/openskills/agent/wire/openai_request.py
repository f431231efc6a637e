"""A request as the chat completions API of OpenAI, and of the many servers like it, wants it. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from openskills.agent.model import ModelRequest
from openskills.agent.wire.calls import object_of
from openskills.prompt.messages import get, items, json_object


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a server understands. All of them understand less than OpenAI's own."""

    usage: bool = True
    """`stream_options`, which ask for the usage of a streamed answer."""
    max_tokens: str = "max_completion_tokens"
    """The name of the limit of an answer; older servers know `max_tokens` alone."""
    json_schema: bool = True

    def after_refusal(self, body: Mapping[str, Any], said: str) -> "Dialect | None":
        """The dialect without what the server says it does not know; None when its refusal is about something else.

        `body` is what was sent, `said` is the whole text of the refusal.
        """
        if "stream_options" in body and "stream_options" in said:
            return replace(self, usage=False)
        if "max_completion_tokens" in body and "max_completion_tokens" in said:
            return replace(self, max_tokens="max_tokens")
        # A schema that is wrong is told with the same name; the caller must hear of that.
        if "response_format" in body and "response_format" in said and "schema" not in said.lower():
            return replace(self, json_schema=False)
        return None


def request_body(model: str, request: ModelRequest, dialect: Dialect) -> dict[str, Any]:
    """The JSON of the request."""
    body: dict[str, Any] = {"model": model, "messages": [_fit(message) for message in request.messages], "stream": True}
    if dialect.usage:
        body["stream_options"] = {"include_usage": True}
    if request.tools:
        body["tools"] = list(request.tools)
    if request.max_output_tokens is not None:
        body[dialect.max_tokens] = request.max_output_tokens
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.json_schema is not None and dialect.json_schema:
        body["response_format"] = _response_format(request.json_schema)
    return body


def _fit(message: Mapping[str, Any]) -> dict[str, Any]:
    """The message; arguments of calls that are no JSON object are made one, because servers read them with a template.

    What another provider's model thought stays out. The same message becomes the same bytes every time, so it stays in
    the prompt cache.
    """
    kept = {name: value for name, value in message.items() if name != "thinking"}
    calls = items(message.get("tool_calls"))
    if all(_is_object(get(get(call, "function"), "arguments")) for call in calls):
        return kept
    return {**kept, "tool_calls": [_fit_call(call) for call in calls]}


def _fit_call(call: Any) -> object:
    function: Any = get(call, "function")
    if not isinstance(function, Mapping) or _is_object(get(function, "arguments")):
        return call
    mended = {**cast("dict[str, Any]", function), "arguments": json.dumps(object_of(get(function, "arguments")))}
    return {**call, "function": mended}


def _is_object(arguments: object) -> bool:
    return isinstance(arguments, str) and (arguments == "{}" or bool(json_object(arguments)))


def _response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    described = {"name": "answer", "schema": dict(schema), "strict": _is_strict(schema)}
    return {"type": "json_schema", "json_schema": described}


def _is_strict(schema: object) -> bool:
    """Whether a schema is of the kind that OpenAI can promise to keep: objects with all properties, and no others."""
    if isinstance(schema, Mapping):
        found = cast("Mapping[str, Any]", schema)
        if "properties" in found or found.get("type") == "object":
            names: Mapping[str, Any] = found.get("properties") or {}
            if found.get("additionalProperties") is not False or set(names) != set(found.get("required") or ()):
                return False
        return all(map(_is_strict, found.values()))
    if isinstance(schema, Sequence) and not isinstance(schema, str):
        return all(map(_is_strict, cast("Sequence[object]", schema)))
    return True
