"""Inline script metadata (PEP 723): what a Python script says about the packages that it needs. Pure.

# /// script
# requires-python = ">=3.11"
# dependencies = ["httpx"]
# ///
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from openskills.errors import InvalidArgument

MAX_BLOCK = 64 * 1024

_START = re.compile(r"# /// ([a-zA-Z0-9-]+)")
_END = "# ///"
_TOML_LINE = re.compile(r"at line (\d+)")


@dataclass(frozen=True, slots=True)
class ScriptMetadata:
    """What the block says. `line` is where it begins in the script, `text` is its TOML."""

    dependencies: tuple[str, ...]
    requires_python: str | None
    tool: Mapping[str, Any]
    line: int
    text: str = field(repr=False)


def script_metadata(source: str, *, name: str = "script") -> ScriptMetadata | None:
    """What a script's `script` block says; None when it has none. A block that is not closed is not one.

    Raises `InvalidArgument` with `name` and the line for a second block and for one that is not what the
    specification says.
    """
    found = [(line, content) for line, kind, content in blocks(source) if kind == "script"]
    if not found:
        return None
    if len(found) > 1:
        first, second = found[0][0], found[1][0]
        raise _fault(name, second, f"there is a `script` block at line {first} already; a script has one")
    line, content = found[0]
    text = "\n".join(row[2:] if row.startswith("# ") else row[1:] for row in content)
    if len(text) > MAX_BLOCK:
        raise _fault(name, line, f"the `script` block has more than {MAX_BLOCK:,} characters")
    table = _table(text, name, line)
    return ScriptMetadata(
        _dependencies(table, text, name, line),
        _requires_python(table, text, name, line),
        _tool(table, text, name, line),
        line,
        text,
    )


def blocks(source: str) -> list[tuple[int, str, list[str]]]:
    """The line, type and content of every closed block of metadata.

    The specification gives a regular expression, which needs quadratic time for a file of opening lines. This finds
    the same: a block ends at the last closing line of the run of comment lines that it begins.
    """
    lines = source.replace("\r\n", "\n").split("\n")
    found: list[tuple[int, str, list[str]]] = []
    place = 0
    while place < len(lines):
        match = _START.fullmatch(lines[place])
        if not match:
            place += 1
            continue
        after = _after_run(lines, place + 1)
        end = next((row for row in range(after - 1, place + 1, -1) if lines[row] == _END), None)
        if end is not None:
            found.append((place + 1, match[1], lines[place + 1 : end]))
        # What is left of the run after the end, or all of it without one, has no closing line for another block.
        place = after
    return found


def _after_run(lines: list[str], place: int) -> int:
    while place < len(lines) and (lines[place] == "#" or lines[place].startswith("# ")):
        place += 1
    return place


def _table(text: str, name: str, line: int) -> Mapping[str, object]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        where = _TOML_LINE.search(str(error))
        # Without a number it is the end of the block.
        at = line + (int(where[1]) if where else text.count("\n") + 1)
        message = re.sub(r" \(at .*\)$", "", str(error))
        raise _fault(name, at, f"the `script` block is not TOML: {message}") from None
    except RecursionError:
        raise _fault(name, line, "the `script` block is nested too deeply") from None


def _dependencies(table: Mapping[str, object], text: str, name: str, line: int) -> tuple[str, ...]:
    value = table.get("dependencies", [])
    items = cast("list[object]", value) if isinstance(value, list) else None
    if items is None or not all(isinstance(item, str) for item in items):
        raise _fault(name, _line_of("dependencies", text, line), "`dependencies` must be a list of strings")
    return tuple(cast("list[str]", items))


def _requires_python(table: Mapping[str, object], text: str, name: str, line: int) -> str | None:
    value = table.get("requires-python")
    if value is not None and not isinstance(value, str):
        raise _fault(name, _line_of("requires-python", text, line), '`requires-python` must be a string like ">=3.11"')
    return value


def _tool(table: Mapping[str, object], text: str, name: str, line: int) -> Mapping[str, Any]:
    value = table.get("tool", {})
    if not isinstance(value, dict):
        raise _fault(name, _line_of("tool", text, line), "`tool` must be a table, with one table for each tool")
    return cast("dict[str, Any]", value)


def _line_of(key: str, text: str, line: int) -> int:
    """The line of the script on which a key stands; the first of the block when it cannot be told."""
    rows = text.split("\n")
    return line + next((row for row, content in enumerate(rows, 1) if content.lstrip(" \t['\"").startswith(key)), 0)


def _fault(name: str, line: int, message: str) -> InvalidArgument:
    return InvalidArgument(name, f"line {line}: {message}")
