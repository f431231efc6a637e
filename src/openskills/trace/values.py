"""What may stand in a span or a line: plain values, short, on one line, of whole characters. Pure."""

from collections.abc import Mapping, Sequence

from openskills.errors import SkillError

Value = str | bool | int | float | Sequence[str] | None
"""What somebody may give; None is the same as nothing."""
Attributes = Mapping[str, Value]
Plain = str | bool | int | float | list[str]

LONGEST = 1024
"""Characters of one text."""
LONGEST_CONTENT = 16 * 1024
"""Characters of a text that was written by a model, a skill or a user, where it is wanted at all."""
MOST = 64
"""Items of one list."""
LONGEST_NAME = 200


def plain(attributes: Attributes, *, longest: int = LONGEST) -> dict[str, Plain]:
    """The same attributes without those that say nothing; long texts and lists are cut."""
    return {name: _plain(value, longest) for name, value in attributes.items() if value is not None}


def one_line(text: str) -> str:
    """A name as it can stand in any log: what would begin a new line, or move a cursor, is written as an escape."""
    text = text[:LONGEST_NAME]
    return text if text.isprintable() else "".join(map(_visible, text))


def error_type(error: BaseException) -> str:
    """One of few words for what went wrong: the `reason` of our errors, the class of all others. Never the message."""
    return error.reason if isinstance(error, SkillError) else type(error).__qualname__


def _plain(value: str | bool | int | float | Sequence[str], longest: int) -> Plain:
    if isinstance(value, str):
        return whole(value, longest)
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, list | tuple):
        return [whole(str(item), longest) for item in value[:MOST]]
    # Nobody's work may fail because of what is said about it.
    return whole(str(value), longest)


def whole(text: str, longest: int = LONGEST) -> str:
    """Text of whole characters, cut when it is long, with a note of how much is missing."""
    if len(text) > longest:
        text = f"{text[:longest]}[... {len(text) - longest:,} more characters]"
    # Half a character, as in a file name that is no UTF-8, would make an exporter drop everything it has.
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _visible(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
