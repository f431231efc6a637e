"""What Claude thought before it called tools. It wants to read that again, word for word, with the results."""

import hashlib
import json
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from openskills.agent.model import Answer, ModelRequest
from openskills.agent.wire.anthropic_content import Block, text_block
from openskills.agent.wire.anthropic_request import Said, conversation
from openskills.prompt.messages import get, json_object, string

_Blocks: TypeAlias = Sequence[Mapping[str, Any]]
_THOUGHTS = {"thinking": ("thinking", "signature"), "redacted_thinking": ("data",)}


class Thoughts:
    """Turns with thoughts in them, remembered by the whole conversation up to there; the oldest are forgotten.

    Messages in OpenAI's style have no place for thoughts. The API takes them back only where system, tools and all
    messages before are as they were; that is the key here, so they never get into another conversation. Where they are
    missing, as after a restart, a model thinks anew.
    """

    def __init__(self, most: int = 1000) -> None:
        self._turns: OrderedDict[str, list[Block]] = OrderedDict()
        self._most = most

    def keep(self, request: ModelRequest, body: Mapping[str, Any], answer: Answer, blocks: _Blocks) -> None:
        """Remember the blocks of an answer to a request, if there are thoughts and calls in it."""
        content = _as_it_was(blocks, answer)
        if not content:
            return
        place = len(body["messages"])
        said = conversation([*request.messages, answer.message()])[: place + 1]
        for number, key in _keys({**body, "messages": said}):
            if number == place:
                self._turns[key] = content
        while len(self._turns) > self._most:
            self._turns.popitem(last=False)

    def put_back(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The request with the thoughts in it that belong to it."""
        messages: list[Said] = list(body["messages"])
        if self._turns:
            for number, key in _keys(body):
                if key in self._turns:
                    self._turns.move_to_end(key)
                    messages[number] = {"role": "assistant", "content": self._turns[key]}
        return {**body, "messages": messages}


def _keys(body: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """For every turn of the assistant, what stands for it and everything before."""
    so_far = hashlib.sha256(_bytes([body["model"], body.get("system"), body.get("tools")]))
    for number, turn in enumerate(body["messages"]):
        so_far.update(_bytes(turn))
        if turn["role"] == "assistant":
            yield number, so_far.hexdigest()


def _bytes(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


def _as_it_was(blocks: _Blocks, answer: Answer) -> list[Block]:
    """The content of a turn to be sent again; empty when nothing in it has to be."""
    calls = iter(answer.calls)
    found: list[Block] = []
    for block in blocks:
        kind = string(block, "type")
        if kind in _THOUGHTS:
            found.append({"type": kind, **{name: get(block, name) for name in _THOUGHTS[kind]}})
        elif kind == "text" and string(block, "text").strip():
            found.append(text_block(string(block, "text")))
        elif kind == "tool_use":
            call = next(calls)
            given = json_object(call.arguments)
            if not given and call.arguments.strip() != "{}":
                # It was cut off, or is no JSON: there is nothing that could be said again.
                return []
            found.append({"type": kind, "id": call.id, "name": call.name, "input": dict(given)})
    thought = any(block["type"] in _THOUGHTS for block in found)
    return found if thought and answer.calls else []
