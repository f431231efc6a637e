"""Front matter that is not YAML but that a person can read: an unquoted `: `, a description of several paragraphs.

What the client guide asks for: take the value that broke the parser as text, and try again. We cut the front matter at
its top-level keys, read each entry alone, and take the text of the entries that still fail. Every entry recovered is
reported, with a fix that quotes the value.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from openskills.skillmd.manifest import CLIENT_EXTENSIONS, SPEC_FIELDS
from openskills.skillmd.value import Value
from openskills.skillmd.yamltree import YamlFault, read_tree

_KNOWN = frozenset((*SPEC_FIELDS, *CLIENT_EXTENSIONS))
_KEY_LINE = re.compile(r"([A-Za-z_][\w.-]*)[ \t]*:(?=[ \t\r\n]|\Z)")
_LINES = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")


@dataclass(frozen=True, slots=True)
class Entry:
    """One top-level field: its key, the offsets of its whole text and of its value, and its first line (from 0)."""

    key: str
    start: int
    value_start: int
    end: int
    line: int


@dataclass(frozen=True, slots=True)
class Recovered:
    """An entry that was no YAML, and the value that its text stands for."""

    entry: Entry
    value: str
    replacement: str


@dataclass(frozen=True, slots=True)
class Recovery:
    """Broken front matter, read entry by entry."""

    fields: dict[str, Value]
    entries: tuple[Entry, ...]
    recovered: tuple[Recovered, ...]


def recover(front: str) -> Recovery | None:
    """What can be made of broken front matter, or None when it is hopeless.

    Raises `YamlFault` for what is refused rather than broken: aliases, tags, depth, size.
    """
    entries = tuple(_entries(front))
    if not entries:
        return None
    fields: dict[str, Value] = {}
    recovered: list[Recovered] = []
    for entry in entries:
        try:
            fields.update(read_tree(front[entry.start : entry.end]).fields)
        except YamlFault as fault:
            if fault.rule != "yaml-syntax":
                raise YamlFault(fault.rule, fault.message, entry.line + fault.line, fault.column) from None
            mended = _as_text(front, entry)
            fields[entry.key] = mended.value
            recovered.append(mended)
    return Recovery(fields, entries, tuple(recovered))


def _entries(front: str) -> Iterator[Entry]:
    begun: tuple[str, int, int, int] | None = None
    for line, match in enumerate(_LINES.finditer(front)):
        text = match.group()
        key = _KEY_LINE.match(text)
        if key and _is_field(key.group(1)):
            if begun:
                yield Entry(begun[0], begun[1], begun[2], match.start(), begun[3])
            begun = (key.group(1), match.start(), match.start() + key.end(), line)
        elif begun is None and text.strip() and not text.lstrip().startswith("#"):
            return
    if begun:
        yield Entry(begun[0], begun[1], begun[2], len(front), begun[3])


def _is_field(key: str) -> bool:
    """Fields are lower case by every convention; `Keywords:` inside a description is prose."""
    return key in _KNOWN or key == key.lower()


def _as_text(front: str, entry: Entry) -> Recovered:
    raw = front[entry.value_start : entry.end]
    lines = [line.strip() for line in raw.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    value = _unquoted(_folded(lines))
    return Recovered(entry, value, _written(value))


def _folded(lines: list[str]) -> str:
    """Join lines as YAML folds a plain scalar: one line end is a space, a blank line is a line end."""
    paragraphs: list[list[str]] = [[]]
    for line in lines:
        if line:
            paragraphs[-1].append(line)
        elif paragraphs[-1]:
            paragraphs.append([])
    return "\n".join(" ".join(paragraph) for paragraph in paragraphs if paragraph)


def _unquoted(text: str) -> str:
    """Without the quotes around the whole, which the author meant even though a quote inside broke them."""
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1].replace('\\"', '"') if text[0] == '"' else text[1:-1].replace("''", "'")
    # A block scalar that was indented wrongly keeps its indicator on the first line.
    return re.sub(r"\A[|>][+-]?(?:\s+|\Z)", "", text)


def _written(value: str) -> str:
    """`value` as YAML that every parser reads back to the same text."""
    if "\n" in value:
        return " |-\n" + "\n".join(f"  {line}" for line in value.split("\n")) + "\n"
    return ' "' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t") + '"\n'
