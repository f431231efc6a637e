"""`OpenAIModel`: OpenAI's chat completions API, and servers that are compatible with it."""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, cast

from openskills.agent.models.http import (
    AttemptError,
    ClientModel,
    ModelTimeouts,
    ResponseParser,
    Retrier,
    find_secrets,
    join_surrogates,
    parse_api_key,
    parse_base_url,
)
from openskills.agent.models.model import (
    ModelEvent,
    ModelRequest,
    ModelResponse,
    ToolCall,
    Usage,
    is_json_object,
    iter_file_ids,
    normalise_calls,
    parse_arguments,
)
from openskills.arguments import check_arguments
from openskills.errors import MissingExtra, Unauthorized
from openskills.prompt.history import get_field, get_items, get_part_texts, get_string

_STOPS = {
    "": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "function_call": "tool_calls",
    "tool_use": "tool_calls",
    "tool_call": "tool_calls",
    "max_tokens": "length",
    "model_length": "length",
}


@dataclass(slots=True)
class _PartialToolCall:
    """A tool call that is still being streamed."""

    index: object
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list[str])

    def is_another(self, id_: str, name: str) -> bool:
        """Whether a chunk with the same index begins another call: some servers use one index for all."""
        return bool(id_ and self.id and id_ != self.id and name)

    def add(self, id_: str, name: str, arguments: object) -> None:
        self.id = self.id or id_
        # The name comes at once, or repeated with every chunk, or in pieces.
        if name != self.name:
            self.name += name
        if isinstance(arguments, str):
            self.pieces.append(arguments)
        elif arguments is not None:
            self.pieces.append(json.dumps(arguments, ensure_ascii=False))


class OpenAIResponseParser(ResponseParser):
    """Assembles a response from chunks."""

    def __init__(self, model: str = "") -> None:
        super().__init__(model)
        self._calls: list[_PartialToolCall] = []
        self._usage = Usage()
        self._reason: str | None = None
        self._refused = False

    @property
    def is_complete(self) -> bool:
        """Whether a finish reason was received."""
        return self._reason is not None

    def _parse_event(self, event: object) -> str:
        self._model = get_string(event, "model") or self._model
        self._usage = _parse_usage(get_field(event, "usage")) or self._usage
        # Only one choice was requested.
        choices = (one for one in get_items(get_field(event, "choices")) if get_field(one, "index") in (0, None))
        return "".join(map(self._add_choice, choices))

    def build_response(self, request: ModelRequest) -> ModelResponse:
        """Build the complete response."""
        written = [ToolCall(call.id, call.name, join_surrogates("".join(call.pieces))) for call in self._calls]
        calls = normalise_calls(written, request)
        return ModelResponse("".join(self._text), calls, self._usage, self._find_stop_reason(), self._model)

    def _find_stop_reason(self) -> str:
        reason = (self._reason or "").lower()
        stop = _STOPS.get(reason, reason)
        if stop == "stop" and self._calls:
            return "tool_calls"
        return "refusal" if stop == "stop" and self._refused else stop

    def _add_choice(self, choice: object) -> str:
        reason = get_field(choice, "finish_reason")
        self._reason = reason if isinstance(reason, str) else self._reason
        delta = get_field(choice, "delta") or get_field(choice, "message")
        content = get_field(delta, "content")
        refusal = get_string(delta, "refusal")
        self._refused = self._refused or bool(refusal)
        calls = get_items(get_field(delta, "tool_calls"))
        for position, call in enumerate(calls):
            self._add_call(call, position if len(calls) > 1 else None)
        # Content is text, or parts of which only some are text.
        return (content if isinstance(content, str) else "".join(get_part_texts(content))) + refusal

    def _add_call(self, piece: object, position: int | None) -> None:
        function = get_field(piece, "function")
        id_, name = get_string(piece, "id"), get_string(function, "name")
        given = get_field(piece, "index")
        index = given if isinstance(given, int) else position
        call = self._find_open_call(index, id_, name)
        if call is None:
            call = _PartialToolCall(index)
            self._calls.append(call)
        call.add(id_, name, get_field(function, "arguments"))

    def _find_open_call(self, index: object, id_: str, name: str) -> _PartialToolCall | None:
        """The call that a chunk continues; None if it begins a new one."""
        if index is None:
            last = self._calls[-1] if self._calls else None
            begins = bool(name) and last is not None and bool(last.name) and (not id_ or id_ != last.id)
            return None if last is None or begins or last.is_another(id_, name) else last
        same = [call for call in self._calls if call.index == index]
        return None if not same or same[-1].is_another(id_, name) else same[-1]


def _parse_usage(usage: object) -> Usage | None:
    counted = _get_count(usage, "prompt_tokens"), _get_count(usage, "completion_tokens")
    details = get_field(usage, "prompt_tokens_details")
    cached = _get_count(details, "cached_tokens") or _get_count(usage, "prompt_cache_hit_tokens")
    return Usage(*counted, cached) if any(counted) else None


def _get_count(value: object, name: str) -> int:
    found = get_field(value, name)
    return found if isinstance(found, int) and found > 0 else 0


@dataclass(frozen=True, slots=True)
class ApiDialect:
    """The parameters that a server supports: `stream_options` for usage, the name of the token limit, JSON schemas."""

    usage: bool = True
    max_tokens: str = "max_completion_tokens"
    json_schema: bool = True

    def simplify(self, body: Mapping[str, Any], said: str) -> "ApiDialect | None":
        """The dialect without the parameter of `body` that the error text `said` rejects; None for other errors."""
        if "stream_options" in body and "stream_options" in said:
            return replace(self, usage=False)
        if "max_completion_tokens" in body and "max_completion_tokens" in said:
            return replace(self, max_tokens="max_tokens")
        # Errors in the schema itself also name the parameter; those are for the caller.
        if "response_format" in body and "response_format" in said and "schema" not in said.lower():
            return replace(self, json_schema=False)
        return None


def build_request_body(model: str, request: ModelRequest, dialect: ApiDialect) -> dict[str, Any]:
    """Build the JSON body of a request. Raises `InvalidArgument` for a file of another provider."""
    list(iter_file_ids(request.messages, "OpenAI"))
    body: dict[str, Any] = {
        "model": model,
        "messages": [_clean_message(message) for message in request.messages],
        "stream": True,
    }
    if dialect.usage:
        body["stream_options"] = {"include_usage": True}
    if request.tools:
        body["tools"] = list(request.tools)
    if request.max_output_tokens is not None:
        body[dialect.max_tokens] = request.max_output_tokens
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.json_schema is not None and dialect.json_schema:
        schema = {"name": "answer", "schema": dict(request.json_schema), "strict": _is_strict(request.json_schema)}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return body


def _clean_message(message: Mapping[str, Any]) -> dict[str, Any]:
    """Remove `thinking` of other providers, and turn invalid arguments of calls into JSON objects, which chat templates
    require. Deterministic, so that prompt caches stay valid."""
    kept = {name: value for name, value in message.items() if name != "thinking"}
    calls = get_items(message.get("tool_calls"))
    if all(is_json_object(get_field(get_field(call, "function"), "arguments")) for call in calls):
        return kept
    return {**kept, "tool_calls": [_clean_call(call) for call in calls]}


def _clean_call(call: Any) -> object:
    function: Any = get_field(call, "function")
    if not isinstance(function, Mapping) or is_json_object(get_field(function, "arguments")):
        return call
    arguments = json.dumps(parse_arguments(get_field(function, "arguments")))
    return {**call, "function": {**cast("dict[str, Any]", function), "arguments": arguments}}


def _is_strict(schema: object) -> bool:
    """Whether OpenAI's strict mode supports a schema: all properties required, no additional ones."""
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


BASE_URL = "https://api.openai.com/v1"
_KEYLESS = "no-key"


@check_arguments
class OpenAIModel(ClientModel):
    """A model at OpenAI, or at a compatible server with `base_url`; implements `Model`.

    OpenAI needs a key, other servers may not. `extra` is added to the body of every request
    (`{"reasoning_effort": "low"}`), `headers` to its headers; `provider` is the first part of its name. Parameters that
    a server rejects (`stream_options`, `max_completion_tokens`, `response_format`) are left out from then on.

    Raises `MissingExtra` without the package `openai`, `Unauthorized` without a required key, `InvalidArgument` for an
    invalid URL.
    """

    _variables: ClassVar[Mapping[str, str]] = {
        "api_key": "OPENAI_API_KEY",
        "base_url": "OPENAI_BASE_URL",
        "organization": "OPENAI_ORG_ID",
        "project": "OPENAI_PROJECT_ID",
    }

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        organization: str | None = None,
        project: str | None = None,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
        limits: ModelTimeouts | None = None,
        retrying: Retrier | None = None,
        provider: str = "openai",
    ) -> None:
        try:
            import openai
        except ImportError:
            raise MissingExtra("openai", "a model behind OpenAI's API") from None
        url = parse_base_url(base_url or BASE_URL)
        key = parse_api_key(api_key, "OPENAI_API_KEY")
        if not key and not base_url:
            raise Unauthorized(f"openai/{model} needs a key; set OPENAI_API_KEY, or OPENAI_BASE_URL for another server")
        secrets = [key, *find_secrets(headers or {})]
        super().__init__(f"{provider}/{model}", url, secrets, extra=extra, limits=limits, retrying=retrying)
        self._dialect = ApiDialect()
        self._errors = openai.OpenAIError
        self._events = openai.AsyncStream[object]
        self._client = openai.AsyncOpenAI(
            api_key=key or _KEYLESS,
            base_url=str(url),
            organization=organization,
            project=project,
            default_headers=headers,
            timeout=self._limits.to_httpx_timeout(),
            max_retries=0,
        )
        # Accessed now, because the client imports this lazily and slowly.
        self._create = self._client.chat.completions.with_streaming_response.create

    async def _attempt(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        while True:
            dialect = self._dialect
            body = build_request_body(self._model, request, dialect)
            try:
                answer = OpenAIResponseParser(self._model)
                texts = self._stream_text(body, self._extra, answer, may_end_early=True, on_send=request.on_send)
                async with aclosing(texts):
                    async for text in texts:
                        yield text
            except AttemptError as failure:
                simpler = dialect.simplify(body, failure.response_text)
                if simpler is None or simpler == dialect:
                    raise
                self._dialect = simpler
            else:
                yield answer.build_response(request)
                return
