"""Words of hooks at the end of a tool's result."""

from collections.abc import Sequence
from typing import Any, cast

from langchain_core.messages import BaseMessage, ToolMessage
from langgraph.types import Command

from openskills.adapters.langchain.marks import retold, text_of


def with_notes(
    result: ToolMessage | Command[Any], call_id: str, notes: Sequence[str], done: Sequence[str]
) -> ToolMessage | Command[Any]:
    """The result with `notes` below it, and with `done` among the hooks of the thread that ran."""
    if not notes and not done:
        return result
    update: dict[str, Any] = {"skill_hooks_done": list(done)} if done else {}
    if isinstance(result, ToolMessage):
        message = _noted(result, call_id, notes)
        return Command(update={"messages": [message], **update}) if done else cast("ToolMessage", message)
    changes = cast("object", result.update)
    if not isinstance(changes, dict):
        return result
    theirs = cast("dict[str, Any]", changes)
    messages = [_noted(message, call_id, notes) for message in theirs.get("messages", ())]
    changed = {**theirs, "messages": messages, **update}
    return Command(graph=result.graph, goto=result.goto, resume=result.resume, update=changed)


def _noted(message: BaseMessage, call_id: str, notes: Sequence[str]) -> BaseMessage:
    if not isinstance(message, ToolMessage) or message.tool_call_id != call_id or not notes:
        return message
    return retold(message, "\n\n".join([text_of(message), *notes]))
