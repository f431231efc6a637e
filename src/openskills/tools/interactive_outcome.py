"""What a model and a program are told about a command that is talked to. Pure."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from openskills.executors.processes.interactive import Poll
from openskills.executors.processes.plain_text import stripped
from openskills.executors.processes.screen import Picture
from openskills.executors.processes.viewing import View
from openskills.executors.requests import RunResult
from openskills.executors.spec import Captured
from openskills.tools.run_outcome import told as result_told
from openskills.tools.uploads import StagedUpload

# From the change to a program's own screen to the change back, or to the end.
_OWN_SCREEN = re.compile(rb"\x1b\[\?(?:1049|1047|47)h.*?(?:\x1b\[\?(?:1049|1047|47)l|\Z)", re.DOTALL)
_LEFT_OUT = "what the program drew on a screen of its own is not in stdout"


def progress(session_id: str, poll: Poll, view: View) -> dict[str, Any]:
    """How far a command is. Offsets count the bytes that it has written, whatever of them is shown."""
    optional: dict[str, Any] = {
        "missed": poll.missed,
        "more": poll.more,
        "interaction": poll.interaction and _interaction(poll),
        "screen": view.picture and _screen(view.picture),
    }
    found = {
        "status": poll.status,
        "session_id": session_id,
        "output": view.text,
        "offset": poll.offset,
        "next_offset": poll.next_offset,
        **{name: value for name, value in optional.items() if value},
    }
    return found if poll.result is None else {**found, "exit_code": poll.result.exit_code}


def told(data: Mapping[str, Any]) -> str:
    """The same for a model: compact JSON, in which no content stands twice."""
    rest = {name: value for name, value in data.items() if name != "result"}
    text = json.dumps(rest, ensure_ascii=False, separators=(",", ":"))
    return f'{text[:-1]},"result":{result_told(data["result"])}}}' if "result" in data else text


def readable(result: RunResult) -> RunResult:
    """The result of a command that had a terminal, with its output as text to be read."""
    whole = result.ended.stdout.bytes()
    lines = _OWN_SCREEN.sub(b"", whole)
    ended = replace(result.ended, stdout=Captured(stripped(lines).encode()))
    warnings = result.warnings if lines == whole else (*result.warnings, _LEFT_OUT)
    return replace(result, ended=ended, warnings=warnings)


def staged_inputs(files: Iterable[StagedUpload]) -> list[dict[str, Any]]:
    """Where the user's files are."""
    return [{"name": file.path, "original_name": file.original_name, "size_bytes": file.size} for file in files]


def _interaction(poll: Poll) -> dict[str, Any] | None:
    found = poll.interaction
    return found and {"needs_input": found.needs_input, "kind": found.kind, "hint": found.hint}


def _screen(picture: Picture) -> dict[str, Any]:
    """Rows up to the last that is not empty; the cursor's place is counted from 1, as editors do."""
    used = max((number for number, line in enumerate(picture.lines, 1) if line), default=0)
    found: dict[str, Any] = {
        "lines": list(picture.lines[:used]),
        "cursor": {"row": picture.row + 1, "column": picture.column + 1},
    }
    return {**found, "incomplete": True} if picture.has_gap else found
