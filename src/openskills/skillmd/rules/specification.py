"""Rules of the specification about the fields of the front matter."""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from openskills.skillmd.manifest import read_tools
from openskills.skillmd.parse import normalize_name
from openskills.skillmd.problem import Edit, Fix, Severity
from openskills.skillmd.recovery import guess_yaml_type, quote_yaml, to_yaml
from openskills.skillmd.rules.rule import Finding, Subject, define_rule, describe_type, finding_at_key, finding_at_value
from openskills.skillmd.yaml import Value

MAX_NAME = 64

_PLAIN_NAME = re.compile(r"[a-z0-9-]*")
_UNSAFE_ASCII = re.compile(r"[/\\\x00-\x1f\x7f]")
_UNSAFE_CATEGORIES = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp"})
_MARKS = frozenset({"Mn", "Mc"})
_EXPECTED = "lowercase letters, digits and hyphens"

_NAME = "specification, name field"
_DESCRIPTION = "specification, description field"
_COMPATIBILITY = "specification, compatibility field: must be 1-500 characters if provided"
_METADATA = "specification, metadata field: a map from string keys to string values"
_TOOLS = "specification, allowed-tools field: a space-separated string of tools"


@define_rule("name-required", Severity.ERROR, f"{_NAME}: required")
def name_required(subject: Subject) -> Iterator[Finding]:
    """There is a name, and it is not blank."""
    value = subject.fields.get("name")
    if value is None or (isinstance(value, str) and not value.strip()):
        message = f"the name is missing; expected `name:` with 1 to {MAX_NAME} {_EXPECTED}"
        yield finding_at_value(subject, "name", message, _add_name_fix(subject))


@define_rule("name-type", Severity.ERROR, f"{_NAME}: a string")
def name_type(subject: Subject) -> Iterator[Finding]:
    """The name is text."""
    value = subject.fields.get("name")
    if value is not None and not isinstance(value, str):
        yield finding_at_value(subject, "name", f"the name is {describe_type(value)}; expected text")


@define_rule("name-length", Severity.ERROR, f"{_NAME}: must be 1-64 characters")
def name_length(subject: Subject) -> Iterator[Finding]:
    """The name has at most 64 characters, counted after NFKC."""
    if len(subject.manifest.name) > MAX_NAME:
        found = len(subject.manifest.name)
        yield finding_at_value(subject, "name", f"the name has {found} characters; expected at most {MAX_NAME}")


@define_rule("name-unsafe", Severity.ERROR, f"{_NAME}: only alphanumerics and hyphens", fatal=True)
def name_unsafe(subject: Subject) -> Iterator[Finding]:
    """The name cannot lead out of a folder or hide what it is."""
    what = describe_unsafe(subject.manifest.name)
    if what:
        message = f"the name {_excerpt(subject.manifest.name)} {what}; expected {_EXPECTED} only"
        yield finding_at_value(subject, "name", message)


@define_rule("name-uppercase", Severity.ERROR, f"{_NAME}: lowercase")
def name_uppercase(subject: Subject) -> Iterator[Finding]:
    """The name is lower case."""
    name = subject.manifest.name
    if name != name.lower():
        better = suggest_name(name) or name.lower()
        message = f"the name {_excerpt(name)} has upper-case letters; expected lower case, such as {_excerpt(better)}"
        yield finding_at_value(subject, "name", message, _rename_fix(subject))


@define_rule("name-characters", Severity.ERROR, f"{_NAME}: only alphanumerics and hyphens")
def name_characters(subject: Subject) -> Iterator[Finding]:
    """The name has only letters, digits and hyphens."""
    name = subject.manifest.name
    if _PLAIN_NAME.fullmatch(name) or describe_unsafe(name):
        return
    wrong = dict.fromkeys(character for character in name if not _is_allowed(character))
    if wrong:
        shown = ", ".join(_describe_character(character) for character in list(wrong)[:5])
        message = f"the name {_excerpt(name)} contains {shown}; expected {_EXPECTED} only"
        yield finding_at_value(subject, "name", message, _rename_fix(subject))


@define_rule("name-hyphen-edge", Severity.ERROR, f"{_NAME}: no hyphen at start or end")
def name_hyphen_edge(subject: Subject) -> Iterator[Finding]:
    """The name neither starts nor ends with a hyphen."""
    name = subject.manifest.name
    if name[:1] == "-" or name[-1:] == "-":
        message = f"the name {_excerpt(name)} starts or ends with a hyphen; expected a letter or digit there"
        yield finding_at_value(subject, "name", message)


@define_rule("name-hyphen-double", Severity.ERROR, f"{_NAME}: no consecutive hyphens")
def name_hyphen_double(subject: Subject) -> Iterator[Finding]:
    """The name has no two hyphens in a row."""
    if "--" in subject.manifest.name:
        message = f"the name {_excerpt(subject.manifest.name)} has two hyphens in a row; expected single ones"
        yield finding_at_value(subject, "name", message)


@define_rule("name-folder", Severity.ERROR, f"{_NAME}: must match the parent directory name")
def name_folder(subject: Subject) -> Iterator[Finding]:
    """The name is that of the folder."""
    name, folder = subject.manifest.name, subject.folder
    if folder is None or folder == name or not name or normalize_name(folder) == name or describe_unsafe(name):
        return
    message = f"the name is {_excerpt(name)} and the folder {_excerpt(folder)}; expected the same name for both"
    yield finding_at_value(subject, "name", message, _rename_fix(subject))


def is_valid_name(name: str) -> bool:
    """Whether the specification allows this name, however portable it is."""
    return (
        0 < len(name) <= MAX_NAME
        and name == normalize_name(name) == name.lower()
        and name[0] != "-"
        and name[-1] != "-"
        and "--" not in name
        and all(map(_is_allowed, name))
    )


def suggest_name(text: str) -> str:
    """The nearest valid name; empty if none can be made from the text."""
    lowered = normalize_name(text.strip()).lower()
    kept = "".join(character if _is_allowed(character) else "-" for character in lowered)
    return re.sub(r"-{2,}", "-", kept).strip("-")[:MAX_NAME].rstrip("-")


def describe_unsafe(name: str) -> str:
    """Why a name is dangerous in a path or deceptive; empty if it is safe."""
    if name in (".", ".."):
        return "stands for a folder"
    if name.isascii() and not _UNSAFE_ASCII.search(name):
        return ""
    for climb in ("../", "..\\"):
        if climb in name:
            return f"contains '{climb}', which leads out of its folder"
    for character in name:
        if character in "/\\" or unicodedata.category(character) in _UNSAFE_CATEGORIES:
            return f"contains {_describe_character(character)}"
    return ""


def _is_allowed(character: str) -> bool:
    # Vowel signs are marks, not letters; names in Hindi or Thai need them.
    return character == "-" or character.isalnum() or unicodedata.category(character) in _MARKS


def _describe_character(character: str) -> str:
    if character == " ":
        return "a blank"
    return f"'{character}'" if character.isprintable() else f"U+{ord(character):04X}"


def _excerpt(name: str) -> str:
    return repr(name if len(name) <= 80 else name[:80] + "…")


def _rename_fix(subject: Subject) -> Fix | None:
    """Use the folder's name, if the written name clearly means it."""
    folder = subject.folder
    meant = re.sub(r"[_\s]+", "-", subject.manifest.name.lower())
    place = subject.front.find_value("name")
    # A block scalar ends with a line end that must stay.
    if folder is None or place is None or place.style in ("|", ">") or meant != folder or not is_valid_name(folder):
        return None
    return Fix(f"name it {folder}, as its folder", (Edit(place.start, place.end, folder),))


def _add_name_fix(subject: Subject) -> Fix | None:
    """Add the folder's name, which a loader uses anyway, before the first field."""
    folder = subject.folder
    first = next((subject.front.find_key(key) for key in subject.fields), None)
    if folder is None or not is_valid_name(folder) or "name" in subject.fields or first is None or first.column != 1:
        return None
    line_end = "\r\n" if "\r\n" in subject.front.text else "\r" if "\r" in subject.front.text else "\n"
    return Fix(f"name it {folder}, as its folder", (Edit(first.start, first.start, f"name: {folder}{line_end}"),))


MAX_DESCRIPTION = 1024
MAX_COMPATIBILITY = 500


@define_rule("description-required", Severity.ERROR, f"{_DESCRIPTION}: required, non-empty", fatal=True)
def description_required(subject: Subject) -> Iterator[Finding]:
    """There is a description, and it is not blank."""
    value = subject.fields.get("description")
    if value is None or (isinstance(value, str) and not value.strip()):
        message = "the description is missing; expected what the skill does and when to use it"
        yield finding_at_value(subject, "description", message)


@define_rule("description-type", Severity.ERROR, f"{_DESCRIPTION}: a string", fatal=True)
def description_type(subject: Subject) -> Iterator[Finding]:
    """The description is text."""
    value = subject.fields.get("description")
    if value is not None and not isinstance(value, str):
        message = f"the description is {describe_type(value)}; expected text (quote it if it begins with a bracket)"
        yield finding_at_value(subject, "description", message)


@define_rule("description-length", Severity.ERROR, f"{_DESCRIPTION}: 1-1024 characters")
def description_length(subject: Subject) -> Iterator[Finding]:
    """The description has at most 1024 characters, counted without blanks around it."""
    length = len(subject.manifest.description)
    if length > MAX_DESCRIPTION:
        message = f"the description has {length:,} characters; expected at most {MAX_DESCRIPTION:,}"
        yield finding_at_value(subject, "description", message)


@define_rule("license-type", Severity.ERROR, "specification, license field: a name or a file")
def license_type(subject: Subject) -> Iterator[Finding]:
    """The licence is text."""
    if "license" in subject.fields and not isinstance(subject.fields["license"], str):
        found = describe_type(subject.fields["license"])
        yield finding_at_key(
            subject, f"the license is {found}; expected its name, or that of the file it is in", "license"
        )


@define_rule("compatibility-type", Severity.ERROR, _COMPATIBILITY)
def compatibility_type(subject: Subject) -> Iterator[Finding]:
    """The compatibility is text."""
    value = subject.fields.get("compatibility")
    if value is not None and not isinstance(value, str):
        yield finding_at_key(subject, f"the compatibility is {describe_type(value)}; expected text", "compatibility")


@define_rule("compatibility-length", Severity.ERROR, _COMPATIBILITY)
def compatibility_length(subject: Subject) -> Iterator[Finding]:
    """The compatibility has 1 to 500 characters."""
    if "compatibility" not in subject.fields:
        return
    text = subject.manifest.compatibility or ""
    is_empty = not text and isinstance(subject.fields["compatibility"], str | None)
    if is_empty or len(text) > MAX_COMPATIBILITY:
        found = f"has {len(text):,} characters" if text else "is empty"
        expected = f"expected 1 to {MAX_COMPATIBILITY} characters, or no such field"
        yield finding_at_key(subject, f"the compatibility {found}; {expected}", "compatibility")


@define_rule("metadata-type", Severity.ERROR, _METADATA)
def metadata_type(subject: Subject) -> Iterator[Finding]:
    """The metadata is a map."""
    if not subject.manifest.metadata and not isinstance(subject.fields.get("metadata", {}), Mapping):
        found = describe_type(subject.fields["metadata"])
        yield finding_at_key(subject, f"the metadata is {found}; expected a map of keys to text", "metadata")


@define_rule("metadata-value-type", Severity.WARNING, _METADATA)
def metadata_values(subject: Subject) -> Iterator[Finding]:
    """Every value of the metadata is text. What YAML reads as a number, a date or a switch is none."""
    for key, value in subject.manifest.metadata.items():
        other = _find_other_type(subject, key, value)
        if other:
            message = f"metadata.{key} is {other}; expected text"
            fix = _quote_fix(subject, key, value) if isinstance(value, str) else None
            if isinstance(value, str):
                message += f", as in {quote_yaml(value)}"
            yield finding_at_key(subject, message, "metadata", key, fix=fix)


@define_rule("allowed-tools-type", Severity.ERROR, _TOOLS)
def allowed_tools_type(subject: Subject) -> Iterator[Finding]:
    """The allowed tools are text."""
    value = subject.fields.get("allowed-tools", "")
    if not isinstance(value, str) and (value is None or isinstance(value, Mapping)):
        message = f"allowed-tools is {describe_type(value)}; expected text with blanks between the tools"
        yield finding_at_key(subject, message, "allowed-tools")


@define_rule("allowed-tools-list", Severity.WARNING, _TOOLS)
def allowed_tools_list(subject: Subject) -> Iterator[Finding]:
    """The allowed tools are one text, not a list."""
    value = subject.fields.get("allowed-tools")
    if value is not None and not isinstance(value, str | Mapping):
        message = "allowed-tools is a list; expected one text with blanks between the tools, which every client reads"
        yield finding_at_key(subject, message, "allowed-tools", fix=_join_fix(subject, value))


def _find_other_type(subject: Subject, key: str, value: Value) -> str | None:
    if not isinstance(value, str):
        return describe_type(value)
    other = guess_yaml_type(value)
    return other if other and subject.front.find_unquoted(value, "metadata", key) else None


def _quote_fix(subject: Subject, key: str, value: str) -> Fix | None:
    place = subject.front.find_value("metadata", key)
    return Fix(f"quote metadata.{key}", (Edit(place.start, place.end, quote_yaml(value)),)) if place else None


def _join_fix(subject: Subject, value: Sequence[Value]) -> Fix | None:
    """One line instead of a list, if it means the same."""
    items = [item for item in value if isinstance(item, str)]
    key, whole = subject.front.find_key("allowed-tools"), subject.front.find_value("allowed-tools")
    if key is None or whole is None or key.column != 1 or len(items) < len(value):
        return None
    text = " ".join(items)
    replaced = subject.front.read_source(replace(key, start=key.end, end=whole.end))
    # A comment would be lost or become text; a block scalar ends with a line end that must stay.
    comment = "#" in replaced or subject.front.rest_of_line(whole).startswith("#")
    if read_tools(text) != tuple(items) or comment or replaced.endswith(("\n", "\r")):
        return None
    return Fix("write the tools as one text", (Edit(key.end, whole.end, f": {to_yaml(text)}"),))
