"""Results that must reach the model whole.

`FilesystemMiddleware` puts every long tool result into a file and leaves a pointer. It looks for `ToolMessage`s; the
same message in its plain form passes, and LangGraph makes a `ToolMessage` of it again.
"""

from typing import Any, cast

from langchain_core.messages import ToolMessage
from langgraph.types import Command

from openskills.adapters.langchain.marks import mark_of, text_of

EVICTED_OVER = 80_000
"""Characters of a tool result that deepagents leaves where they are, by default."""

SPEECH_EVICTED_OVER = 200_000
"""Characters of a message of the user that deepagents leaves where they are, by default."""


def kept_whole(result: ToolMessage | Command[Any], over: int) -> ToolMessage | Command[Any]:
    """The result of a load in a form that is not evicted, if it has more than `over` characters."""
    update = result.update if isinstance(result, Command) else None
    if not isinstance(update, dict):
        return result
    changes = cast("dict[str, Any]", update)
    messages = [_plain(message) if _is_long(message, over) else message for message in changes.get("messages", ())]
    command = cast("Command[Any]", result)
    return Command(
        graph=command.graph, goto=command.goto, resume=command.resume, update={**changes, "messages": messages}
    )


def _is_long(message: object, over: int) -> bool:
    if not isinstance(message, ToolMessage) or len(text_of(message)) <= over:
        return False
    mark = mark_of(message)
    return mark is not None and mark.loads


def _plain(message: ToolMessage) -> dict[str, Any]:
    return {
        "role": "tool",
        "content": text_of(message),
        "tool_call_id": message.tool_call_id,
        "name": message.name,
        "additional_kwargs": message.additional_kwargs,
    }
