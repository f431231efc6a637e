"""Recover front matter that is not valid YAML, such as an unquoted `: `, and quote values for YAML.

As the client guide asks, a value that breaks the parser is taken as text. The front matter is split at its top-level
keys and each entry is parsed alone; an entry with indented pairs is split in the same way. Every recovered value is
reported with a fix that quotes it.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from openskills.skillmd.manifest import CLIENT_EXTENSIONS, SPEC_FIELDS, TEXT_FIELDS
from openskills.skillmd.yaml import MAX_KEYS, FrontMatterError, Value, ValuePath, YamlSpans, read_yaml

_SAFE = r"[^\x00-\x1f\x7f-\x9f:#\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]"
_PLAIN = re.compile(rf"[^\W_](?:{_SAFE}|:(?! |$)|(?<! )#)*(?<! )")
_ESCAPED = re.compile('[\\\\"\x00-\x1f\x7f-\xa0\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]')
_NAMED = {"\\": "\\\\", '"': '\\"', "\t": "\\t", "\n": "\\n", "\r": "\\r"}

# What the resolvers of YAML 1.1 and 1.2 turn into something that is not text.
_OTHER_TYPE = re.compile(
    r"(?P<nothing>~|null|Null|NULL|)"
    r"|(?P<true_or_false>(?i:true|false|yes|no|on|off))"
    r"|(?P<a_date>\d{4}-\d{1,2}-\d{1,2}(?:[Tt ][\d:. TtZz+-]*)?)"
    r"|(?P<a_number>[-+]?(?:0x[\da-fA-F_]+|0o[0-7_]+|0b[01_]+|\d[\d_]*(?::[0-5]?\d)*(?:\.[\d_]*)?"
    r"|(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|\.(?i:inf)|\.(?i:nan)))",
    re.ASCII,
)
_FIRST = frozenset(("", *"~+-.0123456789nNtTfFyYoO"))


def guess_yaml_type(plain: str) -> str | None:
    """The YAML type of an unquoted scalar, such as "a number" or "a date"; None for text."""
    if plain[:1] not in _FIRST:
        return None
    match = _OTHER_TYPE.fullmatch(plain)
    return match.lastgroup.replace("_", " ") if match and match.lastgroup else None


def quote_yaml(text: str) -> str:
    """`text` in double quotes, on one line, as every YAML parser reads it."""
    return '"' + _ESCAPED.sub(_escape, text) + '"'


def to_yaml(text: str) -> str:
    """`text` as a value on one line, quoted only if necessary."""
    return text if _PLAIN.fullmatch(text) and guess_yaml_type(text) is None else quote_yaml(text)


def _escape(match: re.Match[str]) -> str:
    character = match.group()
    return _NAMED.get(character) or f"\\u{ord(character):04x}"


_KNOWN = frozenset((*SPEC_FIELDS, *CLIENT_EXTENSIONS))
_KEY = re.compile(r"([ ]*)([A-Za-z_][\w.-]*)[ \t]*:(?=[ \t\r\n]|\Z)")
_LINES = re.compile(r"[^\r\n]+(?:\r\n|\r|\n|\Z)|\r\n|\r|\n")
_BLOCK = re.compile(r"([|>])(?:[1-9][+-]?|[+-][1-9]?)?(?:\s+|\Z)")
_ITEM = re.compile(r"-(?:[ \t]+|\Z)")
_EMPTY_LINE = re.compile(r"[ \t]*(?:#[^\r\n]*)?[\r\n]")
# Blank lines and comments. U+2028 would end the comment, and a tab would be a fault.
_NEUTRAL = re.compile(r" *(?:#[^\x85\u2028\u2029]*)?")
# Characters that a block scalar does not preserve.
_ODD = re.compile("[\t\x85\u2028\u2029\ufeff]")
_MAX_LEVELS = 4


@dataclass(frozen=True, slots=True)
class FrontMatterEntry:
    """One field with the offsets of its key, its whole text and its value.

    Blank lines and comments after the value belong to the entry only.
    """

    key: str
    key_start: int
    start: int
    end: int
    value_start: int
    value_end: int


@dataclass(frozen=True, slots=True)
class RecoveredValue:
    """A value that was not valid YAML: its path, its entry, the recovered value, and the correct YAML."""

    path: ValuePath
    entry: FrontMatterEntry
    value: Value
    replacement: str


@dataclass(slots=True)
class Recovery:
    """Broken front matter, parsed entry by entry.

    `broken` has the starts of the entries that are not valid YAML or contain such entries. `duplicates` are repeated
    keys with the offset of the later one.
    """

    fields: dict[str, Value] = field(default_factory=dict[str, Value])
    entries: list[tuple[ValuePath, FrontMatterEntry]] = field(default_factory=list[tuple[ValuePath, FrontMatterEntry]])
    recovered: list[RecoveredValue] = field(default_factory=list[RecoveredValue])
    duplicates: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    broken: set[int] = field(default_factory=set[int])


def has_text_as_map(fields: Mapping[str, Value]) -> bool:
    """Whether a text field was read as a map, such as an indented paragraph with `: ` in it."""
    return any(value.__class__ is dict and key in TEXT_FIELDS for key, value in fields.items())


def recover(front: str) -> Recovery | None:
    """Recover broken front matter, or return None. Raises `FrontMatterError` for aliases, tags, depth and size."""
    result = Recovery()
    result.fields = _read_entries(front, 0, len(front), (), result)
    return result if result.entries else None


def find_entry_spans(front: str, recovery: Recovery) -> YamlSpans:
    """The spans of recovered fields: exact for valid entries, approximate for the others."""
    spans = YamlSpans()
    for path, entry in recovery.entries:
        spans.keys[path] = (entry.key_start, entry.key_start + len(entry.key), "")
        if entry.start in recovery.broken:
            raw = front[entry.value_start : entry.value_end]
            spans.values[path] = (entry.value_end - len(raw.lstrip()), entry.value_end, "")
            continue
        inner = YamlSpans()
        read_yaml(front[entry.start : entry.end], inner)
        for found, target in ((inner.keys, spans.keys), (inner.values, spans.values)):
            for below, (start, end, style) in found.items():
                target[(*path[:-1], *below)] = (start + entry.start, end + entry.start, style)
    return spans


def _read_entries(
    front: str, start: int, end: int, above: ValuePath, result: Recovery, deeper_than: int = -1
) -> dict[str, Value]:
    fields: dict[str, Value] = {}
    for entry in _split_entries(front, start, end, top=not above, deeper_than=deeper_than):
        path = (*above, entry.key)
        result.entries.append((path, entry))
        if len(result.entries) > MAX_KEYS:
            raise FrontMatterError("yaml-keys", f"more than {MAX_KEYS:,} keys and items", entry.key_start)
        try:
            tree = read_yaml(front[entry.start : entry.end])
        except FrontMatterError as fault:
            if fault.rule != "yaml-syntax":
                raise FrontMatterError(fault.rule, fault.message, entry.start + fault.offset) from None
            result.broken.add(entry.start)
            found: dict[str, Value] = {entry.key: _recover_value(front, entry, path, result)}
        else:
            found = tree.fields
            result.duplicates.extend((key, entry.start + offset) for key, offset in tree.duplicates)
            if not above and has_text_as_map(found) and _EMPTY_LINE.match(front, entry.value_start):
                result.broken.add(entry.start)
                found = {entry.key: _recover_value(front, entry, path, result)}
        result.duplicates.extend((key, entry.key_start) for key in found if key in fields)
        fields.update(found)
    return fields


def _recover_value(front: str, entry: FrontMatterEntry, path: ValuePath, result: Recovery) -> Value:
    """The value of an invalid entry: the pairs or items indented under it, or its text."""
    raw = front[entry.value_start : entry.value_end]
    is_text = path[0] in TEXT_FIELDS
    if not is_text and _EMPTY_LINE.match(raw) and len(path) < _MAX_LEVELS:
        indent = entry.key_start - entry.start
        pairs = _read_entries(front, entry.value_start, entry.value_end, path, result, indent)
        if pairs:
            return pairs
    value = _parse_text(raw) if is_text else _parse_items(raw) or _parse_text(raw)
    result.recovered.append(RecoveredValue(path, entry, value, _write_value(value, raw, entry)))
    return value


def _split_entries(front: str, start: int, end: int, *, top: bool, deeper_than: int) -> Iterator[FrontMatterEntry]:
    """Split at the lines that start a field: those with a key and the indentation of the first one.

    A block that starts with anything else, or is not indented more than its parent, has no entries.
    """
    begun: re.Match[str] | None = None
    value_end = start
    for line in _LINES.finditer(front, start, end):
        text = line.group().rstrip("\r\n")
        if _NEUTRAL.fullmatch(text):
            continue
        key = _KEY.match(front, line.start(), end)
        if key and len(key.group(1)) > deeper_than and _is_field_start(key, begun, top=top):
            if begun:
                yield _build_entry(begun, value_end, line.start())
            begun = key
        elif begun is None and text.strip():
            return
        value_end = line.start() + len(text)
    if begun:
        yield _build_entry(begun, value_end, end)


def _is_field_start(key: re.Match[str], begun: re.Match[str] | None, *, top: bool) -> bool:
    indent, name = key.group(1, 2)
    if begun is not None and len(indent) != len(begun.group(1)) and not (top and not indent):
        return False
    # Fields are lower case by every convention; `Keywords:` in the middle of a description is prose.
    return not top or name in _KNOWN or name == name.lower()


def _build_entry(key: re.Match[str], value_end: int, end: int) -> FrontMatterEntry:
    value_start = key.end()
    return FrontMatterEntry(key.group(2), key.start(2), key.start(), end, value_start, max(value_start, value_end))


def _parse_items(raw: str) -> list[str]:
    """The items of a wrongly indented list; none unless every line is an item."""
    first, *lines = _strip_lines(raw)
    written = [line for line in lines if line]
    if first or not all(_ITEM.match(line) for line in written):
        return []
    return [_strip_quotes(_ITEM.sub("", line, count=1)) for line in written]


def _parse_text(raw: str) -> str:
    lines = _strip_lines(raw)
    # A wrongly indented block scalar has its indicator on the first line.
    block = _BLOCK.match(lines[0])
    if block is None:
        return _strip_quotes(_fold_lines(lines))
    lines[0] = lines[0][block.end() :]
    return "\n".join(lines).strip() if block.group(1) == "|" else _fold_lines(lines)


def _strip_lines(raw: str) -> list[str]:
    return [line.strip() for line in raw.replace("\r\n", "\n").replace("\r", "\n").split("\n")]


def _fold_lines(lines: list[str]) -> str:
    """Join lines as YAML folds a plain scalar: one line end is a space, a blank line is a line end."""
    paragraphs: list[list[str]] = [[]]
    for line in lines:
        if line:
            paragraphs[-1].append(line)
        elif paragraphs[-1]:
            paragraphs.append([])
    return "\n".join(" ".join(paragraph) for paragraph in paragraphs if paragraph)


def _strip_quotes(text: str) -> str:
    """Remove the quotes around the whole text, even if another quote inside broke the YAML."""
    quote = text[:1]
    if quote not in ('"', "'") or len(text) < 2:
        return text
    inner = text.find(quote, 1)
    if inner == -1:
        return text[1:].strip()
    # In `"one" and "two"` the second quote closes; in `"say "hello" twice"` it opens; in `'don't'` it does neither.
    closes = not text[inner - 1].isspace() and text[inner - 1] != "\\" and not text[inner + 1 : inner + 2].isalnum()
    if text[-1] != quote or (closes and inner < len(text) - 1):
        return text
    return text[1:-1].replace('\\"', '"') if quote == '"' else text[1:-1].replace("''", "'")


def _write_value(value: Value, raw: str, entry: FrontMatterEntry) -> str:
    """A recovered value as YAML, with the line ends of the text that it replaces."""
    line_end = "\r\n" if "\r\n" in raw else "\r" if "\r" in raw else "\n"
    margin = line_end + " " * (entry.key_start - entry.start + 2)
    if not isinstance(value, str):
        return "".join(f"{margin}- {quote_yaml(item)}" for item in value or () if isinstance(item, str))
    if "\n" not in value or _ODD.search(value):
        return f" {quote_yaml(value)}"
    return " |-" + "".join(margin + line if line else line_end for line in value.split("\n"))
