"""Answers as Anthropic's Messages API sends them. Pure."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from openskills.agent.model import Answer, ToolCall, Usage
from openskills.testing.model_server_replies import Refusal, event, pieces

_STOPS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}
_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def anthropic_events(answer: Answer, asked: Mapping[str, Any], piece: int) -> Iterator[bytes]:
    """The events of a streamed answer."""
    message: dict[str, Any] = {
        **_message(answer, asked),
        "content": [],
        "stop_reason": None,
        "usage": _usage(answer.usage, 1),
    }
    yield _event({"type": "message_start", "message": message})
    yield _event({"type": "ping"})
    blocks = ([_text(answer.text)] if answer.text else []) + [_call(call, {}) for call in answer.calls]
    written = ([answer.text] if answer.text else []) + [call.arguments for call in answer.calls]
    for index, (block, text) in enumerate(zip(blocks, written, strict=True)):
        empty = _text("") if block["type"] == "text" else block
        yield _event({"type": "content_block_start", "index": index, "content_block": empty})
        for part in pieces(text, piece):
            yield _event({"type": "content_block_delta", "index": index, "delta": _delta(block["type"], part)})
        yield _event({"type": "content_block_stop", "index": index})
    ended = {"stop_reason": _stop(answer), "stop_sequence": None}
    yield _event({"type": "message_delta", "delta": ended, "usage": {"output_tokens": answer.usage.output}})
    yield _event({"type": "message_stop"})


def anthropic_whole(answer: Answer, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The body of an answer that is not streamed."""
    text = [_text(answer.text)] if answer.text else []
    content = text + [_call(call, json.loads(call.arguments)) for call in answer.calls]
    usage = _usage(answer.usage, answer.usage.output)
    return {**_message(answer, asked), "content": content, "stop_reason": _stop(answer), "usage": usage}


def anthropic_error(refusal: Refusal) -> dict[str, Any]:
    """The body of an error."""
    kind = refusal.kind or _KINDS.get(refusal.status, "api_error")
    return {"type": "error", "error": {"type": kind, "message": refusal.message}, "request_id": "req_scripted"}


def _event(data: Mapping[str, Any]) -> bytes:
    return event(data, data["type"])


def _message(answer: Answer, asked: Mapping[str, Any]) -> dict[str, Any]:
    model = answer.model or asked.get("model", "")
    return {"id": "msg_scripted", "type": "message", "role": "assistant", "model": model, "stop_sequence": None}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _call(call: ToolCall, given: object) -> dict[str, Any]:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": given}


def _delta(kind: str, part: str) -> dict[str, Any]:
    if kind == "text":
        return {"type": "text_delta", "text": part}
    return {"type": "input_json_delta", "partial_json": part}


def _stop(answer: Answer) -> str:
    return "tool_use" if answer.calls and answer.stop == "stop" else _STOPS.get(answer.stop, answer.stop)


def _usage(usage: Usage, output: int) -> dict[str, Any]:
    return {
        "input_tokens": usage.input - usage.cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": output,
    }
