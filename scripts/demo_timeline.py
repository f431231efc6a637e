"""The events of a turn and its requests to the model, in the order of their times, each as one line."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from demo_tokens import Asked
from demo_words import Words

from openskills.agent.agent import ARTIFACT, END, ERROR, TOOL_CALL
from openskills.session.events import MESSAGE, TOOL_RESPONSE, USER, Event


@dataclass(frozen=True, slots=True)
class Moment:
    """Something happened."""

    at: datetime
    what: str
    text: str
    failed: bool = False


def timeline(events: Sequence[Event], asked: Sequence[Asked], words: Words) -> list[Moment]:
    """Everything that a person wants to see of a turn."""
    requests = [Moment(one.at, words.model, _cost(one, words)) for one in asked]
    found = [moment for event in events for moment in _moments(event, words)]
    return sorted([*found, *requests], key=lambda moment: moment.at)


def _cost(asked: Asked, words: Words) -> str:
    said = words.as_before.format(unchanged=asked.unchanged) if asked.unchanged else ""
    return words.tokens.format(total=asked.total) + said


def _moments(event: Event, words: Words) -> Iterator[Moment]:
    payload = event.payload
    match event.kind:
        case kind if kind == MESSAGE and event.author == USER:
            names = ", ".join(str(file["name"]) for file in payload.get("files") or ())
            said = str(payload["message"]["content"]).partition("\n")[0]
            yield Moment(event.at, words.user, f"{said} [{names}]" if names else said)
        case kind if kind == TOOL_CALL:
            yield Moment(event.at, words.call, f"{payload['tool']} {_call(str(payload['arguments']))}")
        case kind if kind == TOOL_RESPONSE:
            text, failed = _result(str(payload.get("content", "")))
            yield Moment(event.at, words.result, text, failed=failed or bool(payload.get("failed")))
        case kind if kind == ARTIFACT:
            yield Moment(event.at, words.artifact, str(payload["ref"]))
        case kind if kind == END:
            yield Moment(event.at, words.answered, words.steps.format(**payload))
        case kind if kind == ERROR:
            yield Moment(event.at, kind, str(payload.get("message")), failed=True)
        case _:
            return


def _call(arguments: str) -> str:
    found: Mapping[str, Any] = json.loads(arguments)
    return str(found.get("command") or found.get("skill") or arguments)


def _result(content: str) -> tuple[str, bool]:
    """How a command ended and what it made, or the first line of any other result."""
    if not content.startswith("{"):
        return _first_line(content), content.startswith("error:")
    found: Mapping[str, Any] = json.loads(content)
    files = ", ".join(f"{file['name']} ({file['size_bytes']:,} bytes)" for file in found["output_files"])
    ended = f"exit code {found['exit_code']}, {found['duration_ms']} ms, {found['isolation']}"
    parts = [ended, *([_first_line(found["stdout"])] if found["stdout"] else []), *([files] if files else [])]
    return "; ".join(parts), found["exit_code"] != 0


def _first_line(text: str) -> str:
    return text.partition("\n")[0]
