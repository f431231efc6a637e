"""Where Anthropic's API may cut a request, to keep what stands before in its prompt cache. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

_MARK: Mapping[str, Any] = {"cache_control": {"type": "ephemeral"}}


def marked(body: Mapping[str, Any], stable: int) -> dict[str, Any]:
    """A copy of a request with all four marks that the API allows, each at the end of something that is sent again.

    The tools, the first `stable` blocks of the system, and the last two turns of the user. Our requests grow at their
    end alone, so the next one begins with everything up to the last mark. The one before is there because the API looks
    for what it has only twenty blocks back, and one turn may be longer than that.
    """
    made = dict(body)
    if tools := made.get("tools"):
        made["tools"] = _marked_at(tools, len(tools) - 1)
    if system := made.get("system"):
        made["system"] = _marked_at(system, min(stable, len(system)) - 1)
    messages = cast("list[dict[str, Any]]", made["messages"])
    turns = [number for number, turn in enumerate(messages) if turn["role"] == "user"][-2:]
    made["messages"] = [_marked_turn(turn) if number in turns else turn for number, turn in enumerate(messages)]
    return made


def _marked_turn(turn: Mapping[str, Any]) -> dict[str, Any]:
    return {**turn, "content": _marked_at(turn["content"], len(turn["content"]) - 1)}


def _marked_at(blocks: Sequence[Mapping[str, Any]], place: int) -> list[Mapping[str, Any]]:
    return [{**block, **_MARK} if number == place else block for number, block in enumerate(blocks)]
