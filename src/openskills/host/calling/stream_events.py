"""What a client sees while a skill works: one event after the other, the last of them the result. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openskills.errors import BadSkillOutput
from openskills.host.calling.reading import NotNormalised, excerpt, from_plain, object_of, read_json
from openskills.host.calling.server_events import ServerEvent
from openskills.host.result import InvokeResult

RESULT = "result"


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """`kind` is `start`, `stdout`, `stderr`, `progress`, `artifact` or `result`; hosts may have others.

    `result` is there in the event of that kind, which is the last. `id` is where one may go on after it.
    """

    kind: str
    data: Mapping[str, Any]
    id: str | None = None
    result: InvokeResult | None = None

    def plain(self) -> dict[str, Any]:
        """For programs."""
        return {"event": self.kind, "data": dict(self.data)}


def ended(result: InvokeResult) -> StreamEvent:
    """The last event, where a host has answered without a stream."""
    return StreamEvent(RESULT, result.plain(), None, result)


def read_event(event: ServerEvent) -> StreamEvent:
    """An event of the wire. Raises `BadSkillOutput` with an excerpt when it is not what it says."""
    try:
        data = object_of(read_json(event.data), "it")
        return StreamEvent(event.kind, data, event.id, from_plain(data) if event.kind == RESULT else None)
    except NotNormalised as why:
        message = f"an event {event.kind[:50]!r} of the host cannot be read: {why}"
        raise BadSkillOutput(message, excerpt=excerpt(event.data.encode("utf-8", "replace"))) from None
