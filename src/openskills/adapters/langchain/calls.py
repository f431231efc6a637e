"""A call of one of our tools, as it sees the thread it belongs to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from openskills.adapters.langchain.thread import Thread

LOAD, UNLOAD = "load_skill", "unload_skill"
_EDITED = "hitl_edited_tool_calls"
"""Where LangChain keeps what a person made of calls, by their ids: the message has them as the model wrote them."""


@dataclass(frozen=True, slots=True)
class SkillCall:
    """A call that concerns `skill`, with the state of the thread before the message that made it.

    Calls of one message run at the same time, so what became of those before this one cannot be known here. What may
    have become of them is: `unloads` and `loads` are the skills that they ask to unload and to load.
    """

    skill: str
    id: str
    thread: Thread
    loads: frozenset[str] = frozenset()
    unloads: frozenset[str] = frozenset()

    @classmethod
    def of(cls, skill: str, call_id: str | None, state: Mapping[str, Any]) -> "SkillCall":
        """The call with this id."""
        thread = Thread(state)
        earlier = _earlier(thread.messages, call_id, state.get(_EDITED) or {})
        loads = frozenset(name for tool, name in earlier if tool == LOAD)
        unloads = frozenset(name for tool, name in earlier if tool == UNLOAD)
        return cls(skill, call_id or "", thread, loads, unloads)

    @property
    def loaded(self) -> tuple[str, ...]:
        """What was loaded before the message."""
        return self.thread.loaded

    @property
    def staying(self) -> list[str]:
        """What no earlier call asks to unload: it is loaded now, whatever became of them."""
        return [name for name in self.loaded if name not in self.unloads]


def _earlier(messages: Sequence[BaseMessage], call_id: str | None, edited: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Tool and skill of the calls that stand before this one in its message and have no answer yet.

    A call with an answer did not run: a person rejected it.
    """
    answered: set[str] = set()
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            answered.add(message.tool_call_id)
        elif isinstance(message, AIMessage):
            calls = message.tool_calls
            place = next((index for index, call in enumerate(calls) if call["id"] == call_id), None)
            if place is None:
                return []
            made = (edited.get(call["id"] or "", call) for call in calls[:place] if call["id"] not in answered)
            return [_named(call) for call in made if call["name"] in {LOAD, UNLOAD}]
    return []


def _named(call: Mapping[str, Any]) -> tuple[str, str]:
    return call["name"], str(cast("Mapping[str, object]", call["args"]).get("skill_name"))
