"""`AnthropicModel`: Anthropic's Messages API.

The API is strict: roles alternate and a user begins; every `tool_use` is answered in the next message, once; text is
never empty. Cut, merged or interrupted conversations are repaired.

Thinking before tool calls must be sent back verbatim with the results. A response carries it in its message, so that
it is in the session's log:

    {"model": "claude-…", "prefix": "…", "blocks": [{"type": "thinking", …}, {"type": "text", …}, {"type": "tool_use"}]}

The API accepts thinking only from the same model after the same system, tools and messages, of which `prefix` is a
hash. Otherwise it is left out.
"""

import base64
import binascii
import hashlib
import json
import re
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from mimetypes import guess_type
from typing import Any, ClassVar, TypeAlias, cast
from urllib.parse import unquote_to_bytes

from openskills.agent.models.http import (
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
    clean_name,
    find_file_provider,
    is_json_object,
    iter_file_ids,
    make_unique_id,
    normalise_calls,
    parse_arguments,
)
from openskills.arguments import check_arguments
from openskills.errors import InvalidArgument, MissingExtra, Unauthorized
from openskills.prompt.history import (
    SYSTEM_ROLES,
    TOOL_ROLES,
    count_system_messages,
    get_field,
    get_items,
    get_string,
    get_tool_calls,
)

_STOPS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}
_USAGE_FIELDS = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_DELTA_FIELDS = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
}


class AnthropicResponseParser(ResponseParser):
    """Assembles a response from events of the Messages API."""

    def __init__(self, model: str = "") -> None:
        super().__init__(model)
        self._blocks: list[dict[str, Any]] = []
        self._numbered: dict[int, dict[str, Any]] = {}
        self._counted: dict[str, int] = {}
        self._reason = ""
        self._explanation = ""
        self._stopped = False

    @property
    def is_complete(self) -> bool:
        """Whether a stop event or stop reason was received."""
        return self._stopped or bool(self._reason)

    def _parse_event(self, event: object) -> str:
        match get_string(event, "type"):
            case "message_start":
                return self._add_message(get_field(event, "message"))
            case "message":
                return self._add_message(event)
            case "content_block_start":
                return self._begin_block(get_field(event, "index"), get_field(event, "content_block"))
            case "content_block_delta":
                return self._add_delta(get_field(event, "index"), get_field(event, "delta"))
            case "message_delta":
                self._add_stop(get_field(event, "delta"), get_field(event, "usage"))
            case "message_stop":
                self._stopped = True
            case _:
                pass
        return ""

    def flush(self) -> str:
        """Return held-back text at the end, or the explanation of a refusal without text."""
        text = super().flush()
        if self._reason == "refusal" and not any(self._text):
            return self._append_text(join_surrogates(self._explanation))
        return text

    def build_response(self, request: ModelRequest) -> ModelResponse:
        """Build the complete response."""
        calls = normalise_calls((call for block in self._blocks if (call := _block_to_call(block))), request)
        stop = _STOPS.get(self._reason, self._reason) or ("tool_calls" if calls else "stop")
        new, output, written, cached = (self._counted.get(name, 0) for name in _USAGE_FIELDS)
        usage = Usage(new + written + cached, output, cached)
        return ModelResponse("".join(self._text), calls, usage, stop, self._model)

    @property
    def blocks(self) -> tuple[Mapping[str, Any], ...]:
        """The content blocks as received, with `partial_json` of streamed calls."""
        return tuple(self._blocks)

    def _update_usage(self, usage: object) -> None:
        for name in _USAGE_FIELDS:
            value = get_field(usage, name)
            if isinstance(value, int) and value >= 0:
                self._counted[name] = value

    def _add_message(self, message: object) -> str:
        self._model = get_string(message, "model") or self._model
        self._update_usage(get_field(message, "usage"))
        self._reason = get_string(message, "stop_reason")
        self._explanation = get_string(get_field(message, "stop_details"), "explanation")
        return "".join(
            self._begin_block(place, block) for place, block in enumerate(get_items(get_field(message, "content")))
        )

    def _begin_block(self, index: object, block: object) -> str:
        begun = dict(cast("dict[str, Any]", block)) if isinstance(block, dict) else {}
        if not get_string(begun, "type"):
            return ""
        self._blocks.append(begun)
        if isinstance(index, int):
            self._numbered[index] = begun
        return get_string(begun, "text")

    def _add_delta(self, index: object, delta: object) -> str:
        name = _DELTA_FIELDS.get(get_string(delta, "type"))
        if name is None:
            return ""
        block = self._numbered.get(index) if isinstance(index, int) else None
        if block is None:
            # A delta without its block belongs to the last block; text may start without one.
            if not self._blocks:
                self._begin_block(index, {"type": "text" if name == "text" else ""})
            block = self._blocks[-1] if self._blocks else {}
        piece = get_string(delta, name)
        block[name] = get_string(block, name) + piece
        return piece if name == "text" else ""

    def _add_stop(self, delta: object, usage: object) -> None:
        self._reason = get_string(delta, "stop_reason") or self._reason
        self._explanation = get_string(get_field(delta, "stop_details"), "explanation") or self._explanation
        self._update_usage(usage)


def _block_to_call(block: Mapping[str, Any]) -> ToolCall | None:
    if block["type"] != "tool_use":
        return None
    written = get_string(block, "partial_json")
    given = get_field(block, "input")
    arguments = written or (json.dumps(given, ensure_ascii=False) if given else "")
    return ToolCall(get_string(block, "id"), get_string(block, "name"), join_surrogates(arguments))


_CACHE_MARK: Mapping[str, Any] = {"cache_control": {"type": "ephemeral"}}


def add_cache_marks(body: Mapping[str, Any], stable: int) -> dict[str, Any]:
    """Return a copy of a request with the four cache breakpoints that the API allows.

    They are after the tools, the first `stable` blocks of the system, and the last two user turns. Requests only grow
    at the end, so the next one starts with everything up to the last breakpoint. The one before is needed because the
    API looks back only twenty blocks, and a turn may be longer.
    """
    made = dict(body)
    if tools := made.get("tools"):
        made["tools"] = _mark_block(tools, len(tools) - 1)
    if system := made.get("system"):
        made["system"] = _mark_block(system, min(stable, len(system)) - 1)
    messages = cast("list[dict[str, Any]]", made["messages"])
    turns = [number for number, turn in enumerate(messages) if turn["role"] == "user"][-2:]
    made["messages"] = [
        {**turn, "content": _mark_block(turn["content"], len(turn["content"]) - 1)} if number in turns else turn
        for number, turn in enumerate(messages)
    ]
    return made


def _mark_block(blocks: Sequence[Mapping[str, Any]], place: int) -> list[Mapping[str, Any]]:
    return [{**block, **_CACHE_MARK} if number == place else block for number, block in enumerate(blocks)]


ContentBlock: TypeAlias = dict[str, Any]

_DATA_URL = re.compile(r"data:(?P<mime>[\w.+/-]*)(?:;[\w=.+-]+)*?(?P<base64>;base64)?,(?P<data>.*)", re.DOTALL)
_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")


def content_to_blocks(content: object) -> list[ContentBlock]:
    """Convert a message's content, text or parts, to blocks. Empty text is left out, because the API rejects it.

    Unsupported parts become a line of text that says so.
    """
    if isinstance(content, str):
        return [build_text_block(content)] if content.strip() else []
    return [block for part in get_items(content) for block in _part_to_blocks(part)]


def build_text_block(text: str) -> ContentBlock:
    """A text block."""
    return {"type": "text", "text": text}


def _part_to_blocks(part: object) -> Iterator[ContentBlock]:
    kind = "text" if isinstance(part, str) else get_string(part, "type")
    if kind in {"text", "input_text", "output_text", "refusal"}:
        text = part if isinstance(part, str) else get_string(part, "text") or get_string(part, "refusal")
        if text.strip():
            yield build_text_block(text)
    elif kind == "image_url":
        link = get_field(part, "image_url")
        yield _build_image_block(link if isinstance(link, str) else get_string(link, "url"))
    elif kind == "file":
        yield _build_file_block(get_field(part, "file"))
    else:
        yield _build_placeholder(kind or "part of a message")


def _build_image_block(url: str) -> ContentBlock:
    if url.startswith(("https://", "http://")):
        return {"type": "image", "source": {"type": "url", "url": url}}
    mime, data = _decode_data_url(url)
    if mime not in _IMAGES or data is None:
        return _build_placeholder(f"image of the type {mime or 'unknown'}")
    return {"type": "image", "source": {"type": "base64", "media_type": mime, "data": _encode_base64(data)}}


def _build_file_block(file: object) -> ContentBlock:
    name = get_string(file, "filename")
    mime, data = _decode_data_url(get_string(file, "file_data"))
    titled = {"title": name} if name else {}
    file_id = get_string(file, "file_id")
    if data is None and find_file_provider(file_id) == "Anthropic":
        kind = "image" if guess_type(name)[0] in _IMAGES else "document"
        return {"type": kind, "source": {"type": "file", "file_id": file_id}, **(titled if kind == "document" else {})}
    if data is None:
        return _build_placeholder(f"file {name or file_id}".strip())
    if mime in _IMAGES:
        return _build_image_block(get_string(file, "file_data"))
    if mime == "application/pdf":
        source = {"type": "base64", "media_type": mime, "data": _encode_base64(data)}
        return {"type": "document", "source": source, **titled}
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = ""
    if not text.strip():
        return _build_placeholder(f"file {name} of the type {mime or 'unknown'}")
    return {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": text}, **titled}


def _decode_data_url(url: str) -> tuple[str, bytes | None]:
    """The MIME type and the content of a data URL; the content is None if it is invalid."""
    match = _DATA_URL.fullmatch(url)
    if match is None:
        return "", None
    try:
        data = base64.b64decode(match["data"]) if match["base64"] else unquote_to_bytes(match["data"])
    except (binascii.Error, ValueError):
        return match["mime"], None
    return match["mime"].lower(), data


def _encode_base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _build_placeholder(what: str) -> ContentBlock:
    return build_text_block(f"[{what}: not shown, because this model cannot read it]")


AnthropicMessage: TypeAlias = dict[str, Any]
"""A message of the API: `role`, and `content` as a list of blocks."""

THINKING = "thinking"
"""The field of an assistant's message that carries its thinking."""
EARLIER = "(This conversation began earlier.)"
NO_RESULT = "This call was interrupted and has no result."
NOTHING = "(nothing)"
_INVALID_CHARS = re.compile(r"[^A-Za-z0-9_-]")
_MAX_NAME_CHARS = 128


def build_request_body(model: str, request: ModelRequest, max_tokens: int) -> dict[str, Any]:
    """Build the JSON body of a request. Raises `InvalidArgument` without messages, and for a file of another provider.

    All system messages become blocks of `system`. The temperature is left out, because the API rejects it.
    """
    list(iter_file_ids(request.messages, "Anthropic"))
    body: dict[str, Any] = {"model": model, "max_tokens": request.max_output_tokens or max_tokens, "stream": True}
    if system := _build_system(request.messages):
        body["system"] = system
    if request.tools:
        body["tools"] = [_translate_tool(tool) for tool in request.tools]
    body["messages"] = translate_messages(request.messages)
    return body


def translate_messages(messages: Iterable[Mapping[str, Any]]) -> list[AnthropicMessage]:
    """Translate all but system messages. Raises `InvalidArgument` if there are none."""
    translated = _MessageTranslator()
    for message in messages:
        translated.add(message)
    return translated.finish()


def count_stable_blocks(messages: Sequence[Mapping[str, Any]]) -> int:
    """The number of system blocks that do not change: those of the first message."""
    return len(_build_system(messages[: count_system_messages(messages) and 1]))


class _MessageTranslator:
    def __init__(self) -> None:
        self._said: list[AnthropicMessage] = []
        self._taken: set[str] = set()
        # Calls of the last assistant turn without a result: original id, and id in the request.
        self._open: list[tuple[str, str]] = []

    def add(self, message: Mapping[str, Any]) -> None:
        role = get_string(message, "role")
        if role in SYSTEM_ROLES:
            return
        if role == "assistant":
            self._add_assistant(message)
        elif role in TOOL_ROLES:
            self._add_result(message)
        elif blocks := content_to_blocks(message.get("content")):
            self._get_turn("user").extend(blocks)

    def finish(self) -> list[AnthropicMessage]:
        self._close_calls()
        said = self._said
        if not said:
            raise InvalidArgument("messages", "the request has no user or assistant message")
        if said[0]["role"] == "assistant":
            said.insert(0, {"role": "user", "content": [build_text_block(EARLIER)]})
        return [{**turn, "content": sorted(turn["content"], key=_follows_results)} for turn in said]

    def _get_turn(self, role: str) -> list[ContentBlock]:
        if not self._said or self._said[-1]["role"] != role:
            self._said.append({"role": role, "content": []})
        return self._said[-1]["content"]

    def _add_assistant(self, message: Mapping[str, Any]) -> None:
        calls = get_tool_calls(message)
        written = content_to_blocks(message.get("content") or message.get("refusal"))
        # The API allows only text in assistant turns.
        blocks = [block for block in written if block["type"] == "text"]
        if not calls and not blocks:
            return
        self._close_calls()
        turn = self._get_turn("assistant")
        if not turn and get_field(message, THINKING) is not None:
            self._said[-1][THINKING] = message[THINKING]
        turn.extend(blocks)
        for call in calls:
            own = make_unique_id(_INVALID_CHARS.sub("_", call.id), self._taken)
            self._taken.add(own)
            self._open.append((call.id, own))
            name = clean_name(call.name, _MAX_NAME_CHARS)
            turn.append({"type": "tool_use", "id": own, "name": name, "input": parse_arguments(call.arguments)})

    def _add_result(self, message: Mapping[str, Any]) -> None:
        blocks = content_to_blocks(message.get("content")) or [build_text_block(NOTHING)]
        wanted = get_string(message, "tool_call_id")
        call = next((call for call in self._open if call[0] == wanted), None)
        if call is not None:
            self._open.remove(call)
            self._get_turn("user").append({"type": "tool_result", "tool_use_id": call[1], "content": blocks})
        else:
            # Its call left the conversation or was answered already.
            self._get_turn("user").extend([build_text_block("[result of an earlier call]"), *blocks])

    def _close_calls(self) -> None:
        for _, own in self._open:
            result = {"type": "tool_result", "tool_use_id": own, "is_error": True}
            self._get_turn("user").append({**result, "content": [build_text_block(NO_RESULT)]})
        self._open.clear()


def _follows_results(block: ContentBlock) -> bool:
    return block["type"] != "tool_result"


def _build_system(messages: Sequence[Mapping[str, Any]]) -> list[ContentBlock]:
    return [
        block
        for message in messages
        if get_field(message, "role") in SYSTEM_ROLES
        for block in content_to_blocks(message.get("content"))
        if block["type"] == "text"
    ]


def _translate_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    function = get_field(tool, "function")
    parameters = cast("dict[str, Any]", get_field(function, "parameters") or {"properties": {}})
    described: dict[str, Any] = {"name": get_string(function, "name"), "input_schema": {"type": "object", **parameters}}
    if text := get_string(function, "description"):
        described["description"] = text
    return described


_ContentBlocks: TypeAlias = Sequence[Mapping[str, Any]]
_THINKING_FIELDS = {"thinking": ("thinking", "signature"), "redacted_thinking": ("data",)}


def extract_thinking(body: Mapping[str, Any], answer: ModelResponse, blocks: _ContentBlocks) -> dict[str, Any] | None:
    """The thinking that an answer must carry; None without thinking or tool calls. `body` is the request as sent."""
    found = list(_select_blocks(blocks))
    thought = any(block["type"] in _THINKING_FIELDS for block in found)
    # A call that was cut off or is not JSON cannot be repeated verbatim.
    if not thought or not answer.calls or not all(is_json_object(call.arguments) for call in answer.calls):
        return None
    prefix = hashlib.sha256(_serialise_prefix(body))
    for turn in body["messages"]:
        prefix.update(_serialise(turn))
    return {"model": body["model"], "prefix": prefix.hexdigest(), "blocks": found}


def restore_thinking(body: Mapping[str, Any]) -> dict[str, Any]:
    """Restore the thinking that the messages carry, where model and prefix match."""
    turns: list[AnthropicMessage] = list(body["messages"])
    if not any(THINKING in turn for turn in turns):
        return dict(body)
    prefix = hashlib.sha256(_serialise_prefix(body))
    said: list[AnthropicMessage] = []
    for turn in turns:
        said.append(_restore_turn(turn, body["model"], prefix.hexdigest() if THINKING in turn else ""))
        prefix.update(_serialise(said[-1]))
    return {**body, "messages": said}


def _restore_turn(turn: AnthropicMessage, model: str, prefix: str) -> AnthropicMessage:
    said = {name: value for name, value in turn.items() if name != THINKING}
    carried = turn.get(THINKING)
    if carried is None or get_string(carried, "model") != model or get_string(carried, "prefix") != prefix:
        return said
    content = _restore_content(said["content"], get_items(get_field(carried, "blocks")))
    return {**said, "content": content} if content else said


def _restore_content(plain: _ContentBlocks, blocks: Sequence[object]) -> list[ContentBlock]:
    """The original content; empty if the turn was changed by a callback or merged."""
    uses = [dict(block) for block in plain if block["type"] == "tool_use"]
    kept = [block for block in blocks if get_string(block, "type") in (*_THINKING_FIELDS, "text", "tool_use")]
    calls = sum(get_string(block, "type") == "tool_use" for block in kept)
    if calls != len(uses) or _normalise_text(plain) != _normalise_text(kept):
        return []
    used = iter(uses)
    return [next(used) if get_string(block, "type") == "tool_use" else _copy_block(block) for block in kept]


def _select_blocks(blocks: _ContentBlocks) -> Iterator[ContentBlock]:
    for block in blocks:
        kind = get_string(block, "type")
        if kind in _THINKING_FIELDS or (kind == "text" and get_string(block, "text").strip()):
            yield _copy_block(block)
        elif kind == "tool_use":
            yield {"type": kind}  # the call itself is in the message


def _copy_block(block: object) -> ContentBlock:
    kind = get_string(block, "type")
    if kind == "text":
        return build_text_block(get_string(block, "text"))
    return {"type": kind, **{name: get_field(block, name) for name in _THINKING_FIELDS[kind]}}


def _normalise_text(blocks: Sequence[object]) -> str:
    text = "".join(get_string(block, "text") for block in blocks if get_string(block, "type") == "text")
    return "".join(text.split())


def _serialise_prefix(body: Mapping[str, Any]) -> bytes:
    return _serialise([body["model"], body.get("system"), body.get("tools")])


def _serialise(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


BASE_URL = "https://api.anthropic.com"
_FILES_BETA = "files-api-2025-04-14"


@check_arguments
class AnthropicModel(ClientModel):
    """A model at Anthropic, or at a compatible server with `base_url`; implements `Model`.

    `max_output_tokens` is the default limit, which the API requires. `cache` adds cache breakpoints. `extra` is added
    to the body of every request (`{"output_config": {"effort": "low"}}`), `headers` to its headers. The temperature is
    not sent, because the API rejects it.

    Raises `MissingExtra` without the package `anthropic`, `Unauthorized` without a required key, `InvalidArgument` for
    an invalid URL.
    """

    _variables: ClassVar[Mapping[str, str]] = {
        "api_key": "ANTHROPIC_API_KEY",
        "auth_token": "ANTHROPIC_AUTH_TOKEN",
        "base_url": "ANTHROPIC_BASE_URL",
    }

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        auth_token: str | None = None,
        base_url: str | None = None,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
        max_output_tokens: int = 16_384,
        cache: bool = True,
        limits: ModelTimeouts | None = None,
        retrying: Retrier | None = None,
    ) -> None:
        try:
            import anthropic
        except ImportError:
            raise MissingExtra("anthropic", "a model behind Anthropic's API") from None
        url = parse_base_url(base_url or BASE_URL)
        key = parse_api_key(api_key, "ANTHROPIC_API_KEY")
        token = parse_api_key(auth_token, "ANTHROPIC_AUTH_TOKEN")
        if not key and not token and not base_url:
            raise Unauthorized(f"anthropic/{model} needs a key; set ANTHROPIC_API_KEY")
        secrets = [key, token, *find_secrets(headers or {})]
        super().__init__(f"anthropic/{model}", url, secrets, extra=extra, limits=limits, retrying=retrying)
        self._max_output_tokens = max_output_tokens
        self._cache = cache
        self._schema = anthropic.transform_schema
        self._errors = anthropic.AnthropicError
        self._events = anthropic.AsyncStream[object]
        self._client = anthropic.AsyncAnthropic(
            api_key=key or (None if token else "no-key"),
            auth_token=None if key else token or None,
            base_url=str(url),
            default_headers=headers,
            timeout=self._limits.to_httpx_timeout(),
            max_retries=0,
            # We make our own spans, with what the settings allow in them.
            open_telemetry=False,
        )
        # Accessed now, because the client imports this lazily and slowly.
        self._create = self._client.messages.with_streaming_response.create

    async def _attempt(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        answer = AnthropicResponseParser(self._model)
        body = restore_thinking(build_request_body(self._model, request, self._max_output_tokens))
        marked = add_cache_marks(body, count_stable_blocks(request.messages)) if self._cache else body
        if any(iter_file_ids(request.messages, "Anthropic")):
            marked = {**marked, "extra_headers": {"anthropic-beta": _FILES_BETA}}
        texts = self._stream_text(marked, self._build_extra_body(request), answer, on_send=request.on_send)
        async with aclosing(texts):
            async for text in texts:
                yield text
        whole = answer.build_response(request)
        yield replace(whole, thinking=extract_thinking(body, whole, answer.blocks))

    def _build_extra_body(self, request: ModelRequest) -> dict[str, Any]:
        if request.json_schema is None:
            return self._extra
        schema = dict(request.json_schema)
        with suppress(ValueError, TypeError, AttributeError, AssertionError):
            # If the client cannot convert a schema, it is sent as it is and the API decides.
            schema = self._schema(schema)
        wanted = {"type": "json_schema", "schema": schema}
        return {**self._extra, "output_config": {**self._extra.get("output_config", {}), "format": wanted}}
