"""What the specification says about every field but `name`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from openskills.skillmd.problem import Edit, Fix
from openskills.skillmd.quoting import as_yaml, quoted, reads_as
from openskills.skillmd.rules.rule import Finding, Subject, at_key, at_value, kind
from openskills.skillmd.tools import read_tools
from openskills.skillmd.value import Value

MAX_DESCRIPTION = 1024
MAX_COMPATIBILITY = 500


def description_required(subject: Subject) -> Iterator[Finding]:
    """There is a description, and it is not blank."""
    value = subject.fields.get("description")
    if value is None or (isinstance(value, str) and not value.strip()):
        message = "there is no description; expected what the skill does and when to use it"
        yield at_value(subject, "description", message)


def description_type(subject: Subject) -> Iterator[Finding]:
    """The description is text."""
    value = subject.fields.get("description")
    if value is not None and not isinstance(value, str):
        message = f"the description is {kind(value)}; expected text (quote it if it begins with a bracket)"
        yield at_value(subject, "description", message)


def description_length(subject: Subject) -> Iterator[Finding]:
    """The description has at most 1024 characters, counted without blanks around it."""
    length = len(subject.manifest.description)
    if length > MAX_DESCRIPTION:
        message = f"the description has {length:,} characters; expected at most {MAX_DESCRIPTION:,}"
        yield at_value(subject, "description", message)


def license_type(subject: Subject) -> Iterator[Finding]:
    """The licence is text."""
    if "license" in subject.fields and not isinstance(subject.fields["license"], str):
        found = kind(subject.fields["license"])
        yield at_key(subject, f"the license is {found}; expected its name, or that of the file it is in", "license")


def compatibility_type(subject: Subject) -> Iterator[Finding]:
    """The compatibility is text."""
    value = subject.fields.get("compatibility")
    if value is not None and not isinstance(value, str):
        yield at_key(subject, f"the compatibility is {kind(value)}; expected text", "compatibility")


def compatibility_length(subject: Subject) -> Iterator[Finding]:
    """The compatibility has 1 to 500 characters."""
    if "compatibility" not in subject.fields:
        return
    text = subject.manifest.compatibility or ""
    is_empty = not text and isinstance(subject.fields["compatibility"], str | None)
    if is_empty or len(text) > MAX_COMPATIBILITY:
        found = f"has {len(text):,} characters" if text else "is empty"
        expected = f"expected 1 to {MAX_COMPATIBILITY} characters, or no such field"
        yield at_key(subject, f"the compatibility {found}; {expected}", "compatibility")


def metadata_type(subject: Subject) -> Iterator[Finding]:
    """The metadata is a map."""
    if not subject.manifest.metadata and not isinstance(subject.fields.get("metadata", {}), Mapping):
        found = kind(subject.fields["metadata"])
        yield at_key(subject, f"the metadata is {found}; expected a map of keys to text", "metadata")


def metadata_values(subject: Subject) -> Iterator[Finding]:
    """Every value of the metadata is text. What YAML reads as a number, a date or a switch is none."""
    for key, value in subject.manifest.metadata.items():
        other = _not_text(subject, key, value)
        if other:
            message = f"metadata.{key} is {other}; expected text"
            fix = _in_quotes(subject, key, value) if isinstance(value, str) else None
            if isinstance(value, str):
                message += f", as in {quoted(value)}"
            yield at_key(subject, message, "metadata", key, fix=fix)


def allowed_tools_type(subject: Subject) -> Iterator[Finding]:
    """The allowed tools are text."""
    value = subject.fields.get("allowed-tools", "")
    if not isinstance(value, str) and (value is None or isinstance(value, Mapping)):
        message = f"allowed-tools is {kind(value)}; expected text with blanks between the tools"
        yield at_key(subject, message, "allowed-tools")


def allowed_tools_list(subject: Subject) -> Iterator[Finding]:
    """The allowed tools are one text, not a list."""
    value = subject.fields.get("allowed-tools")
    if value is not None and not isinstance(value, str | Mapping):
        message = "allowed-tools is a list; expected one text with blanks between the tools, which every client reads"
        yield at_key(subject, message, "allowed-tools", fix=_joined(subject, value))


def _not_text(subject: Subject, key: str, value: Value) -> str | None:
    if not isinstance(value, str):
        return kind(value)
    other = reads_as(value)
    return other if other and subject.front.unquoted(value, "metadata", key) else None


def _in_quotes(subject: Subject, key: str, value: str) -> Fix | None:
    place = subject.front.value("metadata", key)
    return Fix(f"quote metadata.{key}", (Edit(place.start, place.end, quoted(value)),)) if place else None


def _joined(subject: Subject, value: Sequence[Value]) -> Fix | None:
    """One line instead of a list, when it surely means the same."""
    items = [item for item in value if isinstance(item, str)]
    key, whole = subject.front.key("allowed-tools"), subject.front.value("allowed-tools")
    if key is None or whole is None or key.column != 1 or len(items) < len(value):
        return None
    text = " ".join(items)
    replaced = subject.front.source(replace(key, start=key.end, end=whole.end))
    # A comment would be lost, or become part of the text; the end of a block scalar is a line end that must stay.
    comment = "#" in replaced or subject.front.rest_of_line(whole).startswith("#")
    if read_tools(text) != tuple(items) or comment or replaced.endswith(("\n", "\r")):
        return None
    return Fix("write the tools as one text", (Edit(key.end, whole.end, f": {as_yaml(text)}"),))
