"""Answers as OpenAI's chat completions API sends them. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from openskills.agent.model import Answer, ToolCall, Usage
from openskills.testing.model_server_replies import Refusal, event, pieces

_KINDS = {401: "invalid_request_error", 429: "rate_limit_exceeded", 500: "server_error"}


def openai_events(answer: Answer, asked: Mapping[str, Any], piece: int) -> Iterator[bytes]:
    """The events of a streamed answer. Usage is sent to those who ask for it."""
    options: Mapping[str, Any] = asked.get("stream_options") or {}
    counts = bool(options.get("include_usage"))
    base = _base(answer, asked, "chat.completion.chunk") | ({"usage": None} if counts else {})

    def chunk(delta: Mapping[str, Any], reason: str | None = None) -> bytes:
        return event({**base, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}]})

    yield chunk({"role": "assistant", "content": ""})
    yield from (chunk({"content": text}) for text in pieces(answer.text, piece))
    for index, call in enumerate(answer.calls):
        yield chunk({"tool_calls": [{"index": index, **_call(call), "function": {"name": call.name, "arguments": ""}}]})
        for text in pieces(call.arguments, piece):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": text}}]})
    yield chunk({}, _reason(answer))
    if counts:
        yield event({**base, "choices": [], "usage": _usage(answer.usage)})
    yield event("[DONE]")


def openai_whole(answer: Answer, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The body of an answer that is not streamed."""
    message = {**answer.message(), "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _reason(answer)}
    return {**_base(answer, asked, "chat.completion"), "choices": [choice], "usage": _usage(answer.usage)}


def openai_error(refusal: Refusal) -> dict[str, Any]:
    """The body of an error."""
    kind = refusal.kind or _KINDS.get(refusal.status, "invalid_request_error")
    return {"error": {"message": refusal.message, "type": kind, "param": None, "code": kind}}


def _base(answer: Answer, asked: Mapping[str, Any], kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-scripted", "object": kind, "created": 0, "model": answer.model or asked.get("model", "")}


def _reason(answer: Answer) -> str:
    return "tool_calls" if answer.calls and answer.stop == "stop" else answer.stop


def _call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function"}


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
    }
