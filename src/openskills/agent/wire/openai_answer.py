"""The pieces of an answer of the chat completions API, put together. Nothing that a server sends can break it. Pure."""

import json
from dataclasses import dataclass, field

from openskills.agent.model import Answer, ModelRequest, ToolCall, Usage
from openskills.agent.wire.calls import settled
from openskills.agent.wire.characters import WholeCharacters, whole
from openskills.prompt.messages import get, items, string, texts_of

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
class _Call:
    """A call that is still being written."""

    index: object
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list[str])

    def is_another(self, id_: str, name: str) -> bool:
        """Whether a piece with the same index begins another call: some servers give all of them the same."""
        return bool(id_ and self.id and id_ != self.id and name)

    def add(self, id_: str, name: str, arguments: object) -> None:
        self.id = self.id or id_
        # The name comes whole, or once more with every piece, or in pieces.
        if name != self.name:
            self.name += name
        if isinstance(arguments, str):
            self.pieces.append(arguments)
        elif arguments is not None:
            self.pieces.append(json.dumps(arguments, ensure_ascii=False))


class OpenAIAnswer:
    """Takes chunks as they come. `add` gives the text in one, `end` what is left of it, `answer` the whole.

    `model` is the name that is told when the server does not say its own.
    """

    def __init__(self, model: str = "") -> None:
        self._text: list[str] = []
        self._characters = WholeCharacters()
        self._calls: list[_Call] = []
        self._usage = Usage()
        self._reason: str | None = None
        self._refused = False
        self._model = model

    @property
    def is_complete(self) -> bool:
        """Whether the server said why the answer ended."""
        return self._reason is not None

    def add(self, chunk: object) -> str:
        """Take one chunk, or a whole completion from a server that does not stream; gives the text in it."""
        self._model = string(chunk, "model") or self._model
        self._usage = _usage(get(chunk, "usage")) or self._usage
        text = ""
        for choice in items(get(chunk, "choices")):
            # Of several answers only the first was asked for.
            if get(choice, "index") in (0, None):
                text += self._add_choice(choice)
        return self._say(self._characters.add(text))

    def end(self) -> str:
        """The text that was held back, when nothing more comes."""
        return self._say(self._characters.end())

    def answer(self, request: ModelRequest) -> Answer:
        """All of it."""
        written = [ToolCall(call.id, call.name, whole("".join(call.pieces))) for call in self._calls]
        calls = settled(written, request)
        return Answer("".join(self._text), calls, self._usage, self._stop(), self._model)

    def _stop(self) -> str:
        reason = (self._reason or "").lower()
        stop = _STOPS.get(reason, reason)
        if stop == "stop" and self._calls:
            return "tool_calls"
        return "refusal" if stop == "stop" and self._refused else stop

    def _say(self, text: str) -> str:
        self._text.append(text)
        return text

    def _add_choice(self, choice: object) -> str:
        reason = get(choice, "finish_reason")
        self._reason = reason if isinstance(reason, str) else self._reason
        delta = get(choice, "delta") or get(choice, "message")
        content = get(delta, "content")
        refusal = string(delta, "refusal")
        self._refused = self._refused or bool(refusal)
        calls = items(get(delta, "tool_calls"))
        for position, call in enumerate(calls):
            self._add_call(call, position if len(calls) > 1 else None)
        # Text comes as text, or as parts of which only some are for the user.
        return (content if isinstance(content, str) else "".join(texts_of(content))) + refusal

    def _add_call(self, piece: object, position: int | None) -> None:
        function = get(piece, "function")
        id_, name = string(piece, "id"), string(function, "name")
        given = get(piece, "index")
        index = given if isinstance(given, int) else position
        call = self._open(index, id_, name)
        if call is None:
            call = _Call(index)
            self._calls.append(call)
        call.add(id_, name, get(function, "arguments"))

    def _open(self, index: object, id_: str, name: str) -> _Call | None:
        """The call that a piece goes on with; None when it begins a new one."""
        if index is None:
            last = self._calls[-1] if self._calls else None
            begins = bool(name) and last is not None and bool(last.name) and (not id_ or id_ != last.id)
            return None if last is None or begins or last.is_another(id_, name) else last
        same = [call for call in self._calls if call.index == index]
        return None if not same or same[-1].is_another(id_, name) else same[-1]


def _usage(usage: object) -> Usage | None:
    counted = _number(usage, "prompt_tokens"), _number(usage, "completion_tokens")
    details = get(usage, "prompt_tokens_details")
    cached = _number(details, "cached_tokens") or _number(usage, "prompt_cache_hit_tokens")
    return Usage(*counted, cached) if any(counted) else None


def _number(value: object, name: str) -> int:
    found = get(value, name)
    return found if isinstance(found, int) and found > 0 else 0
