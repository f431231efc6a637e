"""The text of a manifest, YAML or JSON, to values that remember how and where they were written. Pure.

YAML comes from the reader of SKILL.md, which refuses aliases, anchors and tags and bounds depth and number of values.
Its scalars stay text; here an unquoted one also gets the meaning it has in the core schema of YAML 1.2, so `no` is
text and `true` is not, and whoever knows the field takes the text or the meaning.
"""

import re
from collections.abc import Mapping

from openskills.host.registry.document import Document, Node, Places, Scalar, twice
from openskills.host.registry.json_text import read_json
from openskills.skillmd.lines import Lines
from openskills.skillmd.problem import Problem
from openskills.skillmd.value import Value, ValuePath
from openskills.skillmd.yamltree import YamlFault, read_tree

MAX_MANIFEST_BYTES = 256 * 1024
"""A whole manifest. Even those with large schemas have a few kilobytes."""

_INTEGER = re.compile(r"[-+]?[0-9]{1,30}")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]{1,30}|[0-9]{1,30}(?:\.[0-9]{0,30})?)(?:[eE][-+]?[0-9]{1,3})?")
_WORDS = {word: value for value in (True, False) for word in (str(value), str(value).lower(), str(value).upper())}


def read_document(data: bytes, *, is_json: bool) -> Document:
    """Read a manifest; faults are in the document and nothing is raised."""
    if len(data) > MAX_MANIFEST_BYTES:
        return Document(problems=(too_large(len(data)),))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"byte 0x{data[error.start]:02x} is not UTF-8; save the manifest as UTF-8"
        return Document(problems=(Problem("text-encoding", message, line=line),))
    return read_json(text) if is_json else _yaml(text)


def too_large(size: int) -> Problem:
    """The problem of a file that is no manifest."""
    return Problem("file-size", f"the file has {size:,} bytes; a manifest has at most {MAX_MANIFEST_BYTES:,}")


def _yaml(text: str) -> Document:
    seen, lines = Places(), Lines(text)
    try:
        tree = read_tree(text, seen)
    except YamlFault as fault:
        line, column = lines.at(fault.offset)
        rule = fault.rule.replace("frontmatter", "manifest")
        return Document(
            problems=(Problem(rule, fault.message.replace("front matter", "manifest"), line=line, column=column),)
        )
    problems: list[Problem] = []
    for name, offset in tree.duplicates:
        line, column = lines.at(offset)
        problems.append(twice(name, line, column))
    fields = {name: _meant(value, (name,), seen) for name, value in tree.fields.items()}
    return Document(fields, tuple(problems), seen.lines(text))


def _meant(value: Value, path: ValuePath, seen: Places) -> Node:
    if value is None:
        return Scalar("", None)
    if isinstance(value, str):
        style = seen.spans.get(path, (0, ""))[1]
        return Scalar(value, value if style else _core(value))
    if isinstance(value, Mapping):
        return {name: _meant(item, (*path, name), seen) for name, item in value.items()}
    return [_meant(item, (*path, number), seen) for number, item in enumerate(value)]


def _core(text: str) -> str | int | float | bool:
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    # Four digits of an exponent would be infinite, which JSON does not have.
    number = float(text) if _FLOAT.fullmatch(text) else None
    return text if number is None or number in (float("inf"), float("-inf")) else number
