"""Parse the text of a SKILL.md into manifest, body and problems."""

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from openskills.skillmd.frontmatter import FrontMatter, SkillDocument, read_front_matter, split_document
from openskills.skillmd.manifest import (
    CLIENT_EXTENSIONS,
    SPEC_FIELDS,
    SkillManifest,
    read_requirements,
    read_tools,
    split_words,
)
from openskills.skillmd.problem import Problem
from openskills.skillmd.yaml import Value

_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})


@dataclass(frozen=True, slots=True)
class ParsedSkill:
    """A parsed SKILL.md.

    `manifest` is None when the front matter cannot be read. A field that is absent or of the wrong type has its default
    there; `front.fields` has every value as written. `problems` are those of parsing; the rules check the values.
    """

    manifest: SkillManifest | None
    problems: tuple[Problem, ...]
    front: FrontMatter
    document: SkillDocument

    @property
    def body(self) -> str:
        """The instructions with LF line ends, without leading blank lines and trailing white space."""
        return self.document.body

    @property
    def body_line(self) -> int:
        """The first line of the body in the file."""
        return self.document.body_line


def parse(text: str) -> ParsedSkill:
    """Parse the text of a SKILL.md. Never raises; linear in the length of the text."""
    halves = split_document(text)
    front = read_front_matter(halves)
    manifest = manifest_from_fields(front.fields) if front.readable else None
    return ParsedSkill(manifest, front.problems, front, halves)


def manifest_from_fields(fields: Mapping[str, Value]) -> SkillManifest:
    declared: dict[str, Any] = {"name": "", "description": ""}
    extra: dict[str, Value] = {}
    for key, value in fields.items():
        reader = _READERS.get(key)
        if reader is None:
            extra[key] = value
        else:
            attribute, read = reader
            declared[attribute] = read(value)
    if extra:
        declared["extra"] = extra
    metadata = declared.get("metadata")
    if metadata:
        declared["requirements"] = read_requirements(metadata)
        if not declared.get("version"):
            declared["version"] = _text_or_none(metadata.get("version"))
    if extra or metadata:
        declared["keywords"] = _collect_keywords(extra, metadata or {})
    return SkillManifest(**declared)


def parse_flag(value: Value) -> bool | None:
    """Parse a boolean as authors write it, or None."""
    word = value.strip().lower() if isinstance(value, str) else ""
    return True if word in _TRUE else False if word in _FALSE else None


def normalize_name(name: str) -> str:
    """The spelling under which names are compared: NFKC, without surrounding blanks."""
    return name if name.isascii() else unicodedata.normalize("NFKC", name).strip()


def _text_or_none(value: Value) -> str | None:
    return (value.strip() or None) if isinstance(value, str) else None


def _parse_argument_hint(value: Value) -> str | None:
    """Text, also for `argument-hint: [file] [format]`, which YAML reads as a list."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return " ".join(f"[{item}]" for item in value if isinstance(item, str)) or None
    return _text_or_none(value)


def _text_or_empty(value: Value) -> str:
    return value.strip() if isinstance(value, str) else ""


def _collect_keywords(fields: Mapping[str, Value], metadata: Mapping[str, Value]) -> tuple[str, ...]:
    found: list[str] = []
    for holder, key in product((fields, metadata), ("keywords", "tags")):
        if key in holder:
            value = holder[key]
            listed = value.split(",") if isinstance(value, str) else value if isinstance(value, Sequence) else ()
            found.extend(item.strip() for item in listed if isinstance(item, str))
    return tuple(dict.fromkeys(filter(None, found)))


_SPECIAL_READERS: Mapping[str, Callable[[Value], object]] = {
    "name": lambda value: normalize_name(_text_or_empty(value)),
    "description": _text_or_empty,
    "metadata": lambda value: value if isinstance(value, Mapping) else {},
    "allowed-tools": read_tools,
    "disable-model-invocation": lambda value: parse_flag(value) is True,
    "user-invocable": lambda value: parse_flag(value) is not False,
    "argument-hint": _parse_argument_hint,
    "paths": split_words,
    "hooks": lambda value: value,
}
_READERS: Mapping[str, tuple[str, Callable[[Value], object]]] = {
    key: (key.replace("-", "_"), _SPECIAL_READERS.get(key, _text_or_none)) for key in (*SPEC_FIELDS, *CLIENT_EXTENSIONS)
}
