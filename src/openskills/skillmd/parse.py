"""A SKILL.md as text to what it declares, its body, and the problems of reading it."""

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from openskills.skillmd.fences import cut
from openskills.skillmd.frontmatter import FrontMatter, read_front
from openskills.skillmd.manifest import CLIENT_EXTENSIONS, SPEC_FIELDS, SkillManifest
from openskills.skillmd.problem import Problem
from openskills.skillmd.requirements import NO_REQUIREMENTS, read_requirements, words
from openskills.skillmd.tools import read_tools
from openskills.skillmd.value import Value

_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})
_DECLARED = frozenset((*SPEC_FIELDS, *CLIENT_EXTENSIONS))


@dataclass(frozen=True, slots=True)
class ParsedSkill:
    """A SKILL.md that was read.

    `manifest` is None when the front matter is beyond reading. A field that is absent or of the wrong type has its
    default there; `front.fields` has every value as written. `problems` are those of reading; whether the values are
    acceptable is for the rules to say. `body_line` is the line of the file on which the body begins.
    """

    manifest: SkillManifest | None
    body: str
    problems: tuple[Problem, ...]
    front: FrontMatter
    body_line: int


def parse(text: str) -> ParsedSkill:
    """Read the text of a SKILL.md. Never raises; linear in the length of the text."""
    halves = cut(text)
    front = read_front(halves)
    manifest = manifest_of(front.fields) if front.readable else None
    return ParsedSkill(manifest, halves.body, front.problems, front, halves.body_line)


def manifest_of(fields: Mapping[str, Value]) -> SkillManifest:
    """The manifest that these fields declare."""
    raw_metadata = fields.get("metadata")
    metadata: Mapping[str, Value] = raw_metadata if isinstance(raw_metadata, Mapping) else {}

    def text(key: str) -> str | None:
        return _text(fields.get(key))

    return SkillManifest(
        name=normal_name(text("name") or ""),
        description=text("description") or "",
        license=text("license"),
        compatibility=text("compatibility"),
        metadata=metadata,
        allowed_tools=read_tools(fields.get("allowed-tools")),
        disable_model_invocation=flag(fields.get("disable-model-invocation")) is True,
        user_invocable=flag(fields.get("user-invocable")) is not False,
        argument_hint=_hint(fields.get("argument-hint")),
        model=text("model"),
        context=text("context"),
        agent=text("agent"),
        version=text("version") or _text(metadata.get("version")),
        homepage=text("homepage"),
        when_to_use=text("when_to_use"),
        effort=text("effort"),
        shell=text("shell"),
        paths=words(fields.get("paths")),
        hooks=fields.get("hooks"),
        keywords=_keywords(fields, metadata),
        requirements=read_requirements(metadata) if metadata else NO_REQUIREMENTS,
        extra={key: value for key, value in fields.items() if key not in _DECLARED},
    )


def flag(value: Value) -> bool | None:
    """A switch as authors write it, or None when it is not one."""
    word = value.strip().lower() if isinstance(value, str) else ""
    return True if word in _TRUE else False if word in _FALSE else None


def normal_name(name: str) -> str:
    """The one spelling under which a name is compared: composed, compatibility forms folded, no blanks around it."""
    return name if name.isascii() else unicodedata.normalize("NFKC", name).strip()


def _text(value: Value) -> str | None:
    return (value.strip() or None) if isinstance(value, str) else None


def _hint(value: Value) -> str | None:
    """`argument-hint: [file] [format]` is a YAML list to a parser and a line of text to its author."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return " ".join(f"[{item}]" for item in value if isinstance(item, str)) or None
    return _text(value)


def _keywords(fields: Mapping[str, Value], metadata: Mapping[str, Value]) -> tuple[str, ...]:
    found: list[str] = []
    for holder in (fields, metadata):
        for key in ("keywords", "tags"):
            value = holder.get(key)
            if isinstance(value, str):
                found.extend(part.strip() for part in value.split(","))
            elif isinstance(value, Sequence):
                found.extend(item.strip() for item in value if isinstance(item, str))
    return tuple(dict.fromkeys(word for word in found if word))
