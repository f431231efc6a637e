"""Calls of our tools outside a graph, with the runtime that LangGraph would give them."""

from typing import Any, cast

from langchain.tools import ToolRuntime
from langgraph.types import Command

from openskills.adapters.langchain.state import merge_loaded


def runtime(state: dict[str, Any] | None = None, call_id: str = "call") -> ToolRuntime[Any, Any]:
    """The runtime of a call in a thread with this state."""
    return ToolRuntime(
        state={"messages": [], **(state or {})},
        context=None,
        config={},
        stream_writer=_silent,
        tool_call_id=call_id,
        store=None,
    )


def update_of(answer: Command[Any] | str) -> dict[str, Any]:
    """What a call changes; fails when it answered with an error."""
    assert isinstance(answer, Command), answer
    update = cast("object", answer.update)
    assert isinstance(update, dict)
    return cast("dict[str, Any]", update)


def loaded_after(answer: Command[Any] | str, before: list[str] | None = None) -> list[str]:
    """The loaded skills once the change of a call is applied."""
    return merge_loaded(before, update_of(answer)["skills_loaded"])


def text_of(answer: Command[Any] | str) -> str:
    """What the model is told."""
    if isinstance(answer, str):
        return answer
    (message,) = update_of(answer)["messages"]
    return str(message.text)


def _silent(_: object) -> None:
    """Streams to nobody."""
