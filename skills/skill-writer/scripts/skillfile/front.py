"""The front matter of a SKILL.md, as far as it is plain: fields with text, quoted or not, and blocks of text.

No YAML library is needed for what good skills have. What is beyond this is left to `openskills validate`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

_FIELD = re.compile(r"([A-Za-z_][\w-]*)[ \t]*:(?:[ \t]+(.*))?")
_BLOCK = re.compile(r"[|>][+-]?\d?[+-]?\s*(?:#.*)?")


@dataclass(frozen=True)
class Finding:
    """A fault: the rule, where it is, what it is, and how bad."""

    rule: str
    message: str
    line: int = 1
    file: str = "SKILL.md"
    level: str = "error"


@dataclass
class Front:
    """Fields with their texts and lines, and the body with the line where it begins."""

    fields: dict[str, str] = field(default_factory=dict[str, str])
    lines: dict[str, int] = field(default_factory=dict[str, int])
    body: str = ""
    body_line: int = 1
    findings: list[Finding] = field(default_factory=list[Finding])


def read_front(text: str) -> Front:
    """Take a file apart. Faults become findings; nothing is raised."""
    front = Front()
    rows = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if rows[0].rstrip() != "---":
        front.findings.append(Finding("frontmatter-missing", "the first line is not ---"))
        front.body = text
        return front
    end = next((number for number, row in enumerate(rows[1:], 1) if row.rstrip() == "---"), None)
    if end is None:
        front.findings.append(Finding("frontmatter-unclosed", "no second line --- ends the front matter"))
        return front
    front.body, front.body_line = "\n".join(rows[end + 1 :]), end + 2
    _fields(front, rows[1:end])
    return front


def _fields(front: Front, rows: list[str]) -> None:
    name = ""
    for number, row in enumerate(rows, 2):
        if not row.strip() or row.lstrip().startswith("#"):
            continue
        if row.startswith("\t"):
            front.findings.append(Finding("yaml-tab", "a tab cannot indent YAML; use blanks", number))
        elif row.startswith(" ") and name:
            front.fields[name] = f"{front.fields[name]} {row.strip()}".strip()
        elif match := _FIELD.fullmatch(row.rstrip()):
            name = match[1]
            if name in front.fields:
                front.findings.append(Finding("yaml-duplicate-key", f"{name} is there twice", number))
            front.fields[name], front.lines[name] = _value(front, name, match[2] or "", number), number
        else:
            front.findings.append(Finding("yaml-syntax", f"not a field: {row.strip()[:60]!r}", number))


def _value(front: Front, name: str, text: str, line: int) -> str:
    """What stands after the colon, as text."""
    text = text.strip()
    if _BLOCK.fullmatch(text):
        return ""
    if text[:1] == '"':
        try:
            found = json.loads(text)
        except ValueError:
            # YAML knows more escapes than JSON; the text is near enough to be judged.
            return text.strip('"')
        return found if isinstance(found, str) else text
    if text[:1] == "'":
        return text[1:].removesuffix("'").replace("''", "'")
    if ": " in text or text.endswith(":"):
        front.findings.append(Finding("yaml-unquoted", f"{name} has a colon; put the value in quotes", line))
    if " #" in text:
        message = f"{name}: YAML drops everything from # on; put the value in quotes"
        front.findings.append(Finding("yaml-comment-in-value", message, line, level="warning"))
    return text
