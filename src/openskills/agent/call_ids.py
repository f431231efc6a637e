"""Ids of tool calls that are each used once in a conversation, whatever models and callbacks write."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from openskills.agent.log import TOOL_CALL
from openskills.agent.model import ToolCall
from openskills.session.events import MESSAGE, Event


class CallIds:
    """The ids that are taken. Some servers begin to count anew with every answer, and caches repeat whole answers."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._taken = {identity for event in events for identity in _of(event)}
        self._numbers: dict[str, int] = {}

    def unique(self, calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
        """The calls with ids that no earlier call has; from now on these are taken, too."""
        found: list[ToolCall] = []
        for call in calls:
            base = identity = call.id or "call"
            while identity in self._taken:
                self._numbers[base] = self._numbers.get(base, 1) + 1
                identity = f"{base}-{self._numbers[base]}"
            self._taken.add(identity)
            found.append(replace(call, id=identity))
        return tuple(found)


def _of(event: Event) -> list[str]:
    if event.kind == TOOL_CALL:
        return [str(event.payload.get("call_id"))]
    message = event.payload.get("message") if event.kind == MESSAGE else None
    calls = cast("Mapping[str, Any]", message).get("tool_calls") if isinstance(message, Mapping) else None
    return [str(call["id"]) for call in cast("Sequence[Any]", calls or ())]
