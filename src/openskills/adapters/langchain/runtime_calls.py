"""A call of a tool in a graph: its place among those of the same message, and its result as a message. Pure."""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, ToolCall, ToolMessage

from openskills.tools.profiles import LOAD, SELECT, UNLOAD
from openskills.tools.result import ToolResult

_FILES = "artifact_files"
_CHANGING = (LOAD, SELECT, UNLOAD)


def place_of(call_id: str, messages: Sequence[Any]) -> int:
    """Which call of the last answer of the model it is, from 0; also 0 if it is none of them."""
    ids = [call["id"] for call in _last_calls(messages)]
    return ids.index(call_id) if call_id in ids else 0


def changing_before(call_id: str, messages: Sequence[Any]) -> list[tuple[int, ToolCall]]:
    """The calls before this one in the same answer that may change what is loaded, with their places.

    One that has a result already is none of them: the state has what it changed, or somebody has refused it.
    """
    done = {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}
    earlier = list(enumerate(_last_calls(messages)))[: place_of(call_id, messages)]
    return [(place, call) for place, call in earlier if call["name"] in _CHANGING and call["id"] not in done]


def tool_message(name: str, call_id: str, result: ToolResult) -> ToolMessage:
    """What the model reads. For programs, `artifact` has the files that were kept."""
    files = result.data.get(_FILES)
    return ToolMessage(
        result.text,
        name=name,
        tool_call_id=call_id,
        status="success" if result.error is None else "error",
        artifact={_FILES: files} if files else None,
    )


def _last_calls(messages: Sequence[Any]) -> Sequence[ToolCall]:
    return next((message.tool_calls for message in reversed(messages) if isinstance(message, AIMessage)), ())
