"""Safe values, masking.

What may stand in a span or a line: plain values, short, on one line, of whole characters. Pure.

Secrets in what is said about a piece of work: their names instead of their values. Pure.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence

from openskills.errors import SkillError

Value = str | bool | int | float | Sequence[str] | None
"""What somebody may give; None is the same as nothing."""
Attributes = Mapping[str, Value]
PlainValue = str | bool | int | float | list[str]

MAX_TEXT = 1024
"""Characters of one text."""
MAX_CONTENT = 16 * 1024
"""Characters of a text that was written by a model, a skill or a user, where it is wanted at all."""
MAX_ITEMS = 64
"""Items of one list."""
MAX_NAME = 200


def to_plain_attributes(attributes: Attributes, *, longest: int = MAX_TEXT) -> dict[str, PlainValue]:
    """The same attributes without those that say nothing; long texts and lists are cut."""
    return {name: _to_plain_value(value, longest) for name, value in attributes.items() if value is not None}


def to_one_line(text: str) -> str:
    """A name as it can stand in any log: what would begin a new line, or move a cursor, is written as an escape."""
    text = text[:MAX_NAME]
    return text if text.isprintable() else "".join(map(_escape_character, text))


def error_type(error: BaseException) -> str:
    """One of few words for what went wrong: the `reason` of our errors, the class of all others. Never the message."""
    return error.reason if isinstance(error, SkillError) else type(error).__qualname__


def _to_plain_value(value: str | bool | int | float | Sequence[str], longest: int) -> PlainValue:
    if isinstance(value, str):
        return truncate_text(value, longest)
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, list | tuple):
        return [truncate_text(str(item), longest) for item in value[:MAX_ITEMS]]
    # Nobody's work may fail because of what is said about it.
    return truncate_text(str(value), longest)


def truncate_text(text: str, longest: int = MAX_TEXT) -> str:
    """Text of whole characters, cut when it is long, with a note of how much is missing."""
    if len(text) > longest:
        text = f"{text[:longest]}[... {len(text) - longest:,} more characters]"
    # Half a character, as in a file name that is no UTF-8, would make an exporter drop everything it has.
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _escape_character(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")


MIN_SECRET_LENGTH = 4
"""Shorter secrets would also be found in words that have nothing to do with them."""


def mask_text(text: str, secrets: Mapping[str, str]) -> str:
    """The text with every secret in it replaced by its name, also where it stands in JSON. Longer ones first."""
    mask = build_masker(secrets)
    return text if mask is None else mask(text)


def build_masker(secrets: Mapping[str, str]) -> Callable[[str], str] | None:
    """What `masked` does, made once for many texts; None when there is nothing to look for."""
    names = {
        form: name
        for name, value in secrets.items()
        if len(value) >= MIN_SECRET_LENGTH
        for form in _list_secret_forms(value)
    }
    if not names:
        return None
    longest_first = sorted(names, key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, longest_first)))
    return lambda text: pattern.sub(lambda match: f"[secret {names[match[0]]}]", text)


def mask_attributes(attributes: Attributes, secrets: Mapping[str, str]) -> dict[str, Value]:
    """The same for everything in them that is text."""
    return {name: _mask_value(value, secrets) for name, value in attributes.items()}


def _mask_value(value: Value, secrets: Mapping[str, str]) -> Value:
    if isinstance(value, str):
        return mask_text(value, secrets)
    if value is None or isinstance(value, bool | int | float):
        return value
    return [mask_text(str(one), secrets) for one in value]


def _list_secret_forms(value: str) -> tuple[str, ...]:
    """How a value may be written: as it is, and with the escapes of JSON."""
    return value, *(json.dumps(value, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False))
