"""A conversation that is over, as a person reads it. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from openskills.agent.log import ARTIFACT, ERROR, SUMMARY, TOOL_CALL
from openskills.cli.chat_lines import call_line, cut, result_line, whole
from openskills.cli.output import Part, plain
from openskills.session.events import MESSAGE, TOOL_RESPONSE, USER, Event


def story(events: Sequence[Event]) -> Iterator[tuple[Part, ...]]:
    """The lines of a conversation: what was said in full, every tool call with what came of it in one."""
    results = {str(event.payload.get("call_id")): event for event in events if event.kind == TOOL_RESPONSE}
    for event in events:
        yield from _lines(event, results)


def title(events: Iterable[Event]) -> str:
    """What the user said first, on one line."""
    for event in events:
        if event.kind == MESSAGE and event.author == USER:
            return cut(_content(event).partition("\n\n[attached: ")[0])
    return ""


def _lines(event: Event, results: Mapping[str, Event]) -> Iterator[tuple[Part, ...]]:
    payload = event.payload
    if event.kind == MESSAGE and (text := _content(event)):
        to = payload.get("to")
        others = f" to {plain(str(to))}" if to and event.author != USER else ""
        style = "bold green" if event.author == USER else "bold cyan"
        yield ((f"{plain(event.author)}{others}", style), ": ", whole(text))
    elif event.kind == TOOL_CALL:
        result = results.get(str(payload.get("call_id")))
        came = _result(result) if result else "no result"
        line = call_line(str(payload.get("tool")), str(payload.get("arguments") or ""))
        yield (("  * ", "dim"), line, (" -> ", "dim"), came)
    elif event.kind == TOOL_RESPONSE and not payload.get("call_id"):
        # Loaded by the person, not by the model.
        yield (("  * ", "dim"), _result(event))
    elif event.kind == ARTIFACT:
        yield (("  kept ", "dim"), plain(str(payload.get("ref"))))
    elif event.kind == SUMMARY:
        yield (("  summary of everything before", "dim"), ": ", whole(str(payload.get("text"))))
    elif event.kind == ERROR:
        yield (("  error", "red"), ": ", plain(str(payload.get("message"))))


def _result(event: Event) -> str:
    return result_line(str(event.payload.get("content") or ""), failed=bool(event.payload.get("failed")))


def _content(event: Event) -> str:
    message = event.payload.get("message")
    content = cast("Mapping[str, Any]", message).get("content") if isinstance(message, Mapping) else None
    return content.strip("\n") if isinstance(content, str) else ""
