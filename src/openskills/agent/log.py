"""The events of an agent's runs, and the messages of a conversation as its log has them. Pure.

    message          what somebody said: `message`, and `to`, the agent it was said to, unless an agent said it
    tool.call        a tool is called: `call_id`, `tool`, `arguments`
    tool.response    what came of it: `call_id`, `tool`, `content`, `failed`; the delta is what it changed
    artifact         a run has kept a file: `ref`, `name`, `version`
    summary          what was said up to event `upto`, in fewer words: `text`
    error, end       how a run ended: `reason` and `message`; `text`, `usage`, `steps`

A stream of a run has these and, between them, `assistant.delta` with some more `text`, which is not stored.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from openskills.session.events import MESSAGE, TOOL_RESPONSE, Event

DELTA = "assistant.delta"
TOOL_CALL = "tool.call"
ARTIFACT = "artifact"
SUMMARY = "summary"
ERROR = "error"
END = "end"

SUMMARISED = "Summary of the conversation so far:"
INTERRUPTED = "error: interrupted; the process ended before this call was finished, and what it did is not known"

Message = dict[str, Any]


def transcript(events: Iterable[Event], agent: str) -> list[Message]:
    """The messages between an agent and those who talk to it, as they were stored.

    The results of one answer's calls stand in the order of the calls. Everything up to the last summary is one message.
    """
    entries: list[tuple[int, Message]] = []
    summary = ""
    for event in events:
        if event.kind == SUMMARY and event.author == agent:
            summary = str(event.payload.get("text", ""))
            entries = [entry for entry in entries if entry[0] > int(event.payload.get("upto", 0))]
        else:
            message = _message(event, agent)
            if message is not None:
                entries.append((event.seq, message))
    found = in_order([message for _, message in entries])
    return [{"role": "system", "content": f"{SUMMARISED}\n{summary}"}, *found] if summary else found


def last_turn(events: Sequence[Event], agent: str, turns: int = 1) -> int:
    """The number of the event before the last `turns` messages that somebody said to an agent; 0 for none before."""
    if turns == 0:
        return events[-1].seq if events else 0
    said = [event.seq for event in events if event.kind == MESSAGE and event.payload.get("to") == agent]
    return said[-turns] - 1 if len(said) > turns else 0


def unanswered(messages: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Id and tool of every call that has no result."""
    results = Counter(str(message.get("tool_call_id")) for message in messages if message.get("role") == "tool")
    found: list[tuple[str, str]] = []
    for message in messages:
        for identity, name in _calls(message):
            # An old log may have an id twice: each of its results is for one call, as in `in_order`.
            results[identity] -= 1
            if results[identity] < 0:
                found.append((identity, name))
    return found


def in_order(messages: Sequence[Message]) -> list[Message]:
    """The same messages with the results of each answer right behind it, in the order of its calls."""
    results: dict[str, list[Message]] = {}
    for message in messages:
        if message.get("role") == "tool":
            results.setdefault(str(message.get("tool_call_id")), []).append(message)
    ordered: list[Message] = []
    for message in messages:
        if message.get("role") != "tool":
            ordered.append(message)
            for identity, _ in _calls(message):
                if results.get(identity):
                    ordered.append(results[identity].pop(0))
    return ordered


def _message(event: Event, agent: str) -> Message | None:
    payload = event.payload
    if event.kind == TOOL_RESPONSE and event.author == agent and payload.get("call_id"):
        return {"role": "tool", "tool_call_id": payload["call_id"], "content": payload.get("content", "")}
    if event.kind == MESSAGE and (payload.get("to") == agent or (event.author == agent and "to" not in payload)):
        message = payload.get("message")
        return dict(cast("Mapping[str, Any]", message)) if isinstance(message, Mapping) else None
    return None


def _calls(message: Mapping[str, Any]) -> list[tuple[str, str]]:
    calls = message.get("tool_calls") or ()
    return [(str(call["id"]), str(call["function"]["name"])) for call in cast("Sequence[Any]", calls)]
