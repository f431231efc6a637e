"""Ids of tool calls that are each used once in a conversation, whatever models and callbacks write."""

import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from openskills.agent.log import TOOL_CALL
from openskills.agent.model import ToolCall
from openskills.session.events import MESSAGE, Event

_STRICT = re.compile(r"(?!\d+$)[A-Za-z0-9]{9}")
"""The ids of Mistral's models, whose servers refuse every other."""

_DRAWN = re.compile(
    r"(?=[A-Za-z0-9]*[0-9][A-Za-z])[A-Za-z0-9]{8}|(?=[A-Za-z0-9]*[a-z][A-Z]|[A-Za-z0-9]*[A-Z][a-z])[A-Za-z0-9]{16}"
)
"""Many letters and digits in a row, mixed: what providers draw by lot has that, what is counted has not."""


class CallIds:
    """The ids that are taken. Some servers begin to count anew with every answer, and caches repeat whole answers.

    Another process may work on the conversation at the same time, and what it takes is not known here. So an id that
    was not drawn by lot gets the `tag`, which is, and the same in a whole run.
    """

    def __init__(self, events: Iterable[Event] = (), *, tag: str = "") -> None:
        self._taken = {identity for event in events for identity in _of(event)}
        self._numbers: dict[str, int] = {}
        self._tag = tag or secrets.token_hex(5)

    def unique(self, calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
        """The calls with ids that no other call has; from now on these are taken, too."""
        found: list[ToolCall] = []
        for call in calls:
            base = identity = self._told_apart(call)
            while identity in self._taken:
                self._numbers[base] = self._numbers.get(base, 1) + 1
                identity = f"{base}-{self._numbers[base]}"
            self._taken.add(identity)
            found.append(replace(call, id=identity))
        return tuple(found)

    def _told_apart(self, call: ToolCall) -> str:
        wanted = call.id or "call"
        is_strict = _STRICT.fullmatch(wanted) is not None
        is_drawn = is_strict or _DRAWN.search(wanted.replace(call.name, "")) is not None
        if is_drawn and wanted not in self._taken:
            return wanted
        return secrets.token_hex(5)[:9] if is_strict else f"{wanted}-{self._tag}"


def _of(event: Event) -> list[str]:
    if event.kind == TOOL_CALL:
        return [str(event.payload.get("call_id"))]
    message = event.payload.get("message") if event.kind == MESSAGE else None
    calls = cast("Mapping[str, Any]", message).get("tool_calls") if isinstance(message, Mapping) else None
    return [str(call["id"]) for call in cast("Sequence[Any]", calls or ())]
