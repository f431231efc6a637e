"""What Claude thought before it called tools. It wants to read that again, word for word, with the results. Pure.

An answer carries its thoughts in its message, under `thinking`, so they are in the log of a session and outlive the
process:

    {"model": "claude-…", "prefix": "…", "blocks": [{"type": "thinking", …}, {"type": "text", …}, {"type": "tool_use"}]}

The API takes thoughts back only from the model that had them, and only where system, tools and all messages before are
as they were; `prefix` stands for these. Anywhere else they are left out, and the model thinks anew.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from openskills.agent.model import Answer
from openskills.agent.wire.anthropic_content import Block, text_block
from openskills.agent.wire.anthropic_request import THINKING, Said
from openskills.prompt.messages import get, items, json_object, string

_Blocks: TypeAlias = Sequence[Mapping[str, Any]]
_THOUGHTS = {"thinking": ("thinking", "signature"), "redacted_thinking": ("data",)}


def thoughts(body: Mapping[str, Any], answer: Answer, blocks: _Blocks) -> dict[str, Any] | None:
    """What an answer to a request has to carry; None when there are no thoughts, or no calls that they led to.

    `body` is the request as it was sent, with the thoughts in it that belong to it.
    """
    found = list(_kept(blocks))
    thought = any(block["type"] in _THOUGHTS for block in found)
    # A call that was cut off, or is no JSON, cannot be said again as it was.
    if not thought or not answer.calls or not all(_is_whole(call.arguments) for call in answer.calls):
        return None
    prefix = hashlib.sha256(_beginning(body))
    for turn in body["messages"]:
        prefix.update(_bytes(turn))
    return {"model": body["model"], "prefix": prefix.hexdigest(), "blocks": found}


def with_thoughts(body: Mapping[str, Any]) -> dict[str, Any]:
    """The request with the thoughts in it that its messages carry and that belong to it, and no others."""
    turns: list[Said] = list(body["messages"])
    if not any(THINKING in turn for turn in turns):
        return dict(body)
    prefix = hashlib.sha256(_beginning(body))
    said: list[Said] = []
    for turn in turns:
        said.append(_turn(turn, body["model"], prefix.hexdigest() if THINKING in turn else ""))
        prefix.update(_bytes(said[-1]))
    return {**body, "messages": said}


def _turn(turn: Said, model: str, prefix: str) -> Said:
    said = {name: value for name, value in turn.items() if name != THINKING}
    carried = turn.get(THINKING)
    if carried is None or string(carried, "model") != model or string(carried, "prefix") != prefix:
        return said
    content = _content(said["content"], items(get(carried, "blocks")))
    return {**said, "content": content} if content else said


def _content(plain: _Blocks, blocks: Sequence[object]) -> list[Block]:
    """The turn as it was; empty when the turn has become another one, by a callback or by what follows it."""
    uses = [dict(block) for block in plain if block["type"] == "tool_use"]
    kept = [block for block in blocks if string(block, "type") in (*_THOUGHTS, "text", "tool_use")]
    calls = sum(string(block, "type") == "tool_use" for block in kept)
    if calls != len(uses) or _words(plain) != _words(kept):
        return []
    used = iter(uses)
    return [next(used) if string(block, "type") == "tool_use" else _copied(block) for block in kept]


def _kept(blocks: _Blocks) -> Iterator[Block]:
    for block in blocks:
        kind = string(block, "type")
        if kind in _THOUGHTS or (kind == "text" and string(block, "text").strip()):
            yield _copied(block)
        elif kind == "tool_use":
            # The call itself stands in the message.
            yield {"type": kind}


def _copied(block: object) -> Block:
    kind = string(block, "type")
    if kind == "text":
        return text_block(string(block, "text"))
    return {"type": kind, **{name: get(block, name) for name in _THOUGHTS[kind]}}


def _words(blocks: Sequence[object]) -> str:
    text = "".join(string(block, "text") for block in blocks if string(block, "type") == "text")
    return "".join(text.split())


def _is_whole(arguments: str) -> bool:
    return bool(json_object(arguments)) or arguments.strip() == "{}"


def _beginning(body: Mapping[str, Any]) -> bytes:
    return _bytes([body["model"], body.get("system"), body.get("tools")])


def _bytes(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()
