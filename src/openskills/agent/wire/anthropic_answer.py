"""The events of an answer of Anthropic's Messages API, put together. Nothing that a server sends can break it. Pure."""

import json
from collections.abc import Mapping
from typing import Any, cast

from openskills.agent.model import Answer, ModelRequest, ToolCall, Usage
from openskills.agent.wire.calls import settled
from openskills.agent.wire.characters import WholeCharacters, whole
from openskills.prompt.messages import get, items, string

_STOPS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}
_COUNTED = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_PIECES = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
}


class AnthropicAnswer:
    """Takes events as they come. `add` gives the text in one, `end` what is left of it, `answer` the whole.

    `model` is the name that is told when the server does not say its own.
    """

    def __init__(self, model: str = "") -> None:
        self._text: list[str] = []
        self._characters = WholeCharacters()
        self._blocks: list[dict[str, Any]] = []
        self._numbered: dict[int, dict[str, Any]] = {}
        self._counted: dict[str, int] = {}
        self._reason = ""
        self._explanation = ""
        self._model = model
        self._stopped = False

    @property
    def is_complete(self) -> bool:
        """Whether the server said that or why the answer ended."""
        return self._stopped or bool(self._reason)

    def add(self, event: object) -> str:
        """Take one event, or a whole message from a server that does not stream; gives the text in it."""
        kind = string(event, "type")
        text = ""
        if kind == "message_start":
            text = self._add_message(get(event, "message"))
        elif kind == "message":
            text = self._add_message(event)
        elif kind == "content_block_start":
            text = self._begin(get(event, "index"), get(event, "content_block"))
        elif kind == "content_block_delta":
            text = self._add_piece(get(event, "index"), get(event, "delta"))
        elif kind == "message_delta":
            self._add_end(get(event, "delta"), get(event, "usage"))
        elif kind == "message_stop":
            self._stopped = True
        return self._say(self._characters.add(text))

    def end(self) -> str:
        """The text that was held back, when nothing more comes; of a refusal without a word, its explanation."""
        text = self._characters.end()
        if not text and self._reason == "refusal" and not any(self._text):
            text = whole(self._explanation)
        return self._say(text)

    def answer(self, request: ModelRequest) -> Answer:
        """All of it."""
        calls = settled((call for block in self._blocks if (call := _call(block))), request)
        stop = _STOPS.get(self._reason, self._reason) or ("tool_calls" if calls else "stop")
        return Answer("".join(self._text), calls, self._usage(), stop, self._model)

    @property
    def blocks(self) -> tuple[Mapping[str, Any], ...]:
        """The blocks of the content as they came, with `partial_json` of calls that were written in pieces."""
        return tuple(self._blocks)

    def _usage(self) -> Usage:
        new, output, written, cached = (self._counted.get(name, 0) for name in _COUNTED)
        return Usage(new + written + cached, output, cached)

    def _say(self, text: str) -> str:
        self._text.append(text)
        return text

    def _count(self, usage: object) -> None:
        for name in _COUNTED:
            value = get(usage, name)
            if isinstance(value, int) and value >= 0:
                self._counted[name] = value

    def _add_message(self, message: object) -> str:
        self._model = string(message, "model") or self._model
        self._count(get(message, "usage"))
        self._reason = string(message, "stop_reason")
        self._explanation = string(get(message, "stop_details"), "explanation")
        return "".join(self._begin(place, block) for place, block in enumerate(items(get(message, "content"))))

    def _begin(self, index: object, block: object) -> str:
        begun = dict(cast("dict[str, Any]", block)) if isinstance(block, dict) else {}
        if not string(begun, "type"):
            return ""
        self._blocks.append(begun)
        if isinstance(index, int):
            self._numbered[index] = begun
        return string(begun, "text")

    def _add_piece(self, index: object, delta: object) -> str:
        name = _PIECES.get(string(delta, "type"))
        if name is None:
            return ""
        block = self._numbered.get(index) if isinstance(index, int) else None
        if block is None:
            # A piece of nothing that was begun belongs to what was begun last; text needs no beginning.
            if not self._blocks:
                self._begin(index, {"type": "text" if name == "text" else ""})
            block = self._blocks[-1] if self._blocks else {}
        piece = string(delta, name)
        block[name] = string(block, name) + piece
        return piece if name == "text" else ""

    def _add_end(self, delta: object, usage: object) -> None:
        self._reason = string(delta, "stop_reason") or self._reason
        self._explanation = string(get(delta, "stop_details"), "explanation") or self._explanation
        self._count(usage)


def _call(block: Mapping[str, Any]) -> ToolCall | None:
    if block["type"] != "tool_use":
        return None
    written = string(block, "partial_json")
    given = get(block, "input")
    arguments = written or (json.dumps(given, ensure_ascii=False) if given else "")
    return ToolCall(string(block, "id"), string(block, "name"), whole(arguments))
