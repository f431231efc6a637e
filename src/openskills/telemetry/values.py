"""Safe values for spans and log lines: plain, short and valid Unicode."""

from collections.abc import Mapping, Sequence

from openskills.errors import SkillError

Value = str | bool | int | float | Sequence[str] | None
"""An attribute value; None is ignored."""
Attributes = Mapping[str, Value]
PlainValue = str | bool | int | float | list[str]

MAX_TEXT = 1024
"""Characters of one text."""
MAX_CONTENT = 16 * 1024
"""Characters of a text of a model, a skill or a user."""
MAX_ITEMS = 64
"""Items of one list."""
MAX_NAME = 200


def to_plain_attributes(attributes: Attributes, *, max_length: int = MAX_TEXT) -> dict[str, PlainValue]:
    """The attributes without None; long texts and lists are truncated."""
    return {name: _to_plain_value(value, max_length) for name, value in attributes.items() if value is not None}


def to_one_line(text: str) -> str:
    """A short name for logs, with line breaks and control characters escaped."""
    text = text[:MAX_NAME]
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def error_type(error: BaseException) -> str:
    """The `reason` of our errors, the class name of others; never the message."""
    return error.reason if isinstance(error, SkillError) else type(error).__qualname__


def _to_plain_value(value: str | bool | int | float | Sequence[str], max_length: int) -> PlainValue:
    if isinstance(value, str):
        return truncate_text(value, max_length)
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, list | tuple):
        return [truncate_text(str(item), max_length) for item in value[:MAX_ITEMS]]
    # Telemetry must not fail because of an unexpected type.
    return truncate_text(str(value), max_length)


def truncate_text(text: str, max_length: int = MAX_TEXT) -> str:
    """Truncate a long text with a note, and replace lone surrogates."""
    if len(text) > max_length:
        text = f"{text[:max_length]}[... {len(text) - max_length:,} more characters]"
    # A lone surrogate, as in a file name that is not UTF-8, would make an exporter drop its whole batch.
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
