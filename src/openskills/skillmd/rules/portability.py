"""Rules about portability: valid by the specification, but not accepted or read differently by some client."""

import re
from collections.abc import Iterator, Mapping, Sequence

from openskills.skillmd.manifest import CLIENT_EXTENSIONS, FLAG_EXTENSIONS, SPEC_FIELDS, TEXT_FIELDS
from openskills.skillmd.parse import parse_flag
from openskills.skillmd.problem import Edit, Fix, Severity
from openskills.skillmd.recovery import guess_yaml_type, quote_yaml
from openskills.skillmd.rules.rule import (
    Finding,
    RuleStage,
    Subject,
    define_rule,
    describe_type,
    finding_at_key,
    finding_at_value,
)
from openskills.skillmd.rules.specification import describe_unsafe
from openskills.skillmd.yaml import Value

_RESERVED = ("anthropic", "claude")
_SPECIFIED = frozenset(SPEC_FIELDS)
_EXTENSIONS = frozenset(CLIENT_EXTENSIONS)
_PROSE = frozenset({"description", "compatibility", "when_to_use", "argument-hint"})

# Joiners belong between letters of Hindi or Persian and inside emoji, not next to ASCII.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff"
    "\uffa0\ufff9-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
    "|(?:(?<=[\x00-\x7f])|\\A)[\u200c\u200d]|[\u200c\u200d](?:(?=[\x00-\x7f])|\\Z)"
)
_COMMENT = re.compile(r"[ \t]+(#.*)")
_GLUED_COMMENT = re.compile(r"[ \t]+(#[^\s#!].*)")

_ASCII = "portability: the specification says `a-z`, `0-9` in one place and Unicode in another; many clients take ASCII"
_EXTENSION = "portability: a field outside the specification, read by some clients only"


@define_rule("name-unicode", Severity.WARNING, _ASCII)
def name_unicode(subject: Subject) -> Iterator[Finding]:
    """The name is plain ASCII."""
    name = subject.manifest.name
    if not name.isascii():
        message = f"the name {name!r} has characters outside a-z, 0-9 and hyphen, which many clients refuse"
        yield finding_at_value(subject, "name", message)


@define_rule("name-normalised", Severity.WARNING, _ASCII)
def name_normalised(subject: Subject) -> Iterator[Finding]:
    """The name is written in the one form under which it is compared (NFKC)."""
    written = subject.fields.get("name")
    name = subject.manifest.name
    if isinstance(written, str) and written != name and written.strip() != name:
        message = f"the name is not written in its normal form; expected {name!r} (Unicode NFKC)"
        yield finding_at_value(subject, "name", message)


@define_rule("name-reserved", Severity.WARNING, "portability: Anthropic's platform reserves `anthropic` and `claude`")
def name_reserved(subject: Subject) -> Iterator[Finding]:
    """The name has no words that a vendor keeps for itself."""
    for word in _RESERVED:
        if word in subject.manifest.name:
            message = f"the name contains {word!r}, which some clients reserve; use another word"
            yield finding_at_value(subject, "name", message)


@define_rule("description-markup", Severity.WARNING, "portability: Anthropic's validator refuses angle brackets")
def description_markup(subject: Subject) -> Iterator[Finding]:
    """The description has no angle brackets."""
    text = subject.manifest.description
    if "<" in text or ">" in text:
        found = "<" if "<" in text else ">"
        message = f"the description contains {found!r}, which some clients refuse as markup; use other brackets"
        yield finding_at_value(subject, "description", message)


@define_rule(
    "text-invisible",
    Severity.WARNING,
    "portability: what a model reads and a person cannot see is how instructions are smuggled",
)
def text_invisible(subject: Subject) -> Iterator[Finding]:
    """Name and description show everything they say."""
    for key, text in (("name", subject.manifest.name), ("description", subject.manifest.description)):
        if text.isascii() or (key == "name" and describe_unsafe(text)):
            continue
        found = _INVISIBLE.findall(text)
        if found:
            first = f"U+{ord(found[0]):04X}"
            message = f"the {key} has {len(found)} invisible or bidirectional characters, first {first}; remove them"
            yield finding_at_value(subject, key, message)


@define_rule("field-unknown", Severity.NOTE, _EXTENSION, stage=RuleStage.BODY)
def field_unknown(subject: Subject) -> Iterator[Finding]:
    """Every field is of the specification or has a meaning to some client."""
    for key in subject.manifest.extra:
        if _is_prose(key):
            continue
        message = f"the field {key!r} is not in the specification; put it under metadata, or expect it to be ignored"
        yield finding_at_key(subject, message, key)


@define_rule(
    "field-prose",
    Severity.WARNING,
    "client guide: text of several paragraphs that is not quoted; YAML cuts it at the first `: `",
    stage=RuleStage.BODY,
)
def field_prose(subject: Subject) -> Iterator[Finding]:
    """No line of text was taken for a field."""
    for key in subject.manifest.extra:
        if _is_prose(key):
            message = f"{key!r} is read as a field and lost to the text it belongs to; indent or quote that text"
            yield finding_at_key(subject, message, key)


def _is_prose(key: str) -> bool:
    return len(key.split()) > 1


@define_rule("field-extension", Severity.NOTE, _EXTENSION, stage=RuleStage.BODY)
def field_extension(subject: Subject) -> Iterator[Finding]:
    """No field depends on a particular client."""
    for key in subject.fields:
        if key not in _SPECIFIED and key in _EXTENSIONS:
            yield finding_at_key(subject, f"the field {key!r} is an extension that only some clients understand", key)


@define_rule("extension-type", Severity.WARNING, _EXTENSION)
def extension_type(subject: Subject) -> Iterator[Finding]:
    """A client's own field has the type that this client reads."""
    if subject.fields.keys() <= _SPECIFIED:
        return
    for key, value in subject.fields.items():
        expected = _describe_expected(key, value) if key in _EXTENSIONS and value is not None else None
        if expected:
            shown = repr(value) if isinstance(value, str) else describe_type(value)
            yield finding_at_key(subject, f"{key} is {shown}; expected {expected}", key)


@define_rule(
    "value-not-text",
    Severity.WARNING,
    "portability: other readers get a number, a date or a switch where the specification says text",
)
def value_not_text(subject: Subject) -> Iterator[Finding]:
    """A text that YAML would read as a number, a date or a switch is quoted."""
    for key, value in subject.fields.items():
        if key not in TEXT_FIELDS or not isinstance(value, str):
            continue
        other = guess_yaml_type(value)
        place = subject.front.find_unquoted(value, key) if other else None
        if place:
            message = f"{key}: {value} is {other} to a YAML reader; expected text, as in {quote_yaml(value)}"
            fix = Fix(f"quote {key}", (Edit(place.start, place.end, quote_yaml(value)),))
            yield finding_at_value(subject, key, message, fix)


@define_rule("yaml-comment-in-value", Severity.WARNING, "YAML 1.2, 6.6: a # after a blank begins a comment")
def comment_in_value(subject: Subject) -> Iterator[Finding]:
    """No ` #` cuts a value short: what follows is a comment to YAML, and lost to every reader."""
    if "#" not in subject.front.text:
        return
    paths = [(key,) for key in subject.fields] + [("metadata", key) for key in subject.manifest.metadata]
    for path in paths:
        lost = _find_lost_comment(subject, path)
        if lost:
            name = ".".join(path)
            message = f"{name} ends before {lost[:40]!r}, which YAML takes for a comment; quote the value to keep it"
            yield finding_at_key(subject, message, *path)


def _find_lost_comment(subject: Subject, path: tuple[str, ...]) -> str:
    place = subject.front.find_value(*path)
    value: object = subject.fields.get(path[0]) if len(path) == 1 else subject.manifest.metadata.get(path[1])
    if place is None or place.style or not (value is None or isinstance(value, str)):
        return ""
    pattern = _COMMENT if path[0] in _PROSE else _GLUED_COMMENT
    match = pattern.match(subject.front.rest_of_line(place))
    return match.group(1) if match else ""


def _describe_expected(key: str, value: Value) -> str | None:
    """The expected type, if the value has another one."""
    if key in FLAG_EXTENSIONS:
        return "true or false" if parse_flag(value) is None else None
    if key == "hooks":
        return "a map of events to hooks" if not isinstance(value, Mapping) else None
    if key in ("paths", "argument-hint"):
        return "text or a list of texts" if not isinstance(value, (str, Sequence)) else None
    return None if isinstance(value, str) else "text"
