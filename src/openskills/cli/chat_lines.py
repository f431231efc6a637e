"""Tool calls and their results, each as one line for a person. Pure."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from openskills.cli.output import counted, plain
from openskills.paths import printable

MOST = 200
_MOST_FILES = 4
_FIRST = ("skill", "command", "path", "query", "glob", "pattern", "session_id", "chars", "task")
"""The arguments that say most, in the order in which they are shown."""


def call_line(tool: str, arguments: str) -> str:
    """`skill_run csv-report: python3 scripts/report.py`."""
    found = _object(arguments)
    if found is None:
        return cut(f"{tool} {arguments}")
    shown = [_value(found[name]) for name in _FIRST if found.get(name) not in (None, "")]
    if not shown:
        shown = [f"{name}={_value(value)}" for name, value in found.items() if value not in (None, "", [], {})]
    return cut(f"{tool} {': '.join(shown)}" if shown else tool)


def result_line(content: str, *, failed: bool = False) -> str:
    """What came of a call: how a command ended and what it made, or the first line of a text."""
    found = None if failed else _object(content)
    if found is None:
        return _first_line(content)
    if "status" in found:
        return cut(_talking(found))
    if "exit_code" in found:
        return cut(_ended(found))
    return cut(json.dumps(found, ensure_ascii=False))


def whole(text: str) -> str:
    """A text with all of its lines, safe for a terminal."""
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join("\t".join(plain_part(part) for part in line.split("\t")) for line in lines)


def plain_part(text: str) -> str:
    """A piece of a line, with what cannot be seen made visible, but for the joiners in words and emoji."""
    return "".join(char if char in "\u200c\u200d" else printable(char) for char in text)


def cut(text: str, most: int = MOST) -> str:
    """Foreign text on one line, not longer than is good to read."""
    line = plain(text)
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _first_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return "(nothing)"
    more = f" (+{counted(len(lines) - 1, 'line')})" if len(lines) > 1 else ""
    return cut(lines[0]) + more


def _ended(found: Mapping[str, Any]) -> str:
    code = found["exit_code"]
    parts = [f"exit code {code}" + (", timed out" if found.get("timed_out") else "")]
    said = str(found.get("stdout") or "") if code == 0 else str(found.get("stderr") or found.get("stdout") or "")
    lines = [line for line in said.splitlines() if line.strip()]
    if lines:
        # A program says what it does first, and what went wrong last.
        parts.append(lines[0] if code == 0 else lines[-1])
    parts += _files(found.get("output_files"))
    if found.get("isolation") == "none":
        parts.append("not isolated")
    return "; ".join(parts)


def _files(files: object) -> list[str]:
    listed = cast("Sequence[Any]", files) if isinstance(files, list) else ()
    names = [str(cast("Mapping[str, Any]", file).get("name")) for file in listed if isinstance(file, Mapping)]
    if not names:
        return []
    more = f" and {len(names) - _MOST_FILES} more" if len(names) > _MOST_FILES else ""
    return [", ".join(names[:_MOST_FILES]) + more]


def _talking(found: Mapping[str, Any]) -> str:
    interaction = found.get("interaction")
    if isinstance(interaction, Mapping) and (hint := cast("Mapping[str, Any]", interaction).get("hint")):
        return f"{found['status']}; it asks: {hint}"
    if isinstance(found.get("result"), Mapping):
        return f"{found['status']}; {_ended({'exit_code': found.get('exit_code'), **found['result']})}"
    output = [line for line in str(found.get("output") or "").splitlines() if line.strip()]
    return "; ".join([str(found["status"]), *output[-1:]])


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _object(text: str) -> dict[str, Any] | None:
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None
