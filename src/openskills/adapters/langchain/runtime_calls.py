"""A call of a tool in a graph: its place among those of the same message, and its result as a message. Pure."""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, ToolMessage

from openskills.tools.result import ToolResult

_FILES = "artifact_files"


def place_of(call_id: str, messages: Sequence[Any]) -> int:
    """Which call of the last answer of the model it is, from 0; also 0 if it is none of them."""
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            ids = [call["id"] for call in message.tool_calls]
            return ids.index(call_id) if call_id in ids else 0
    return 0


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
