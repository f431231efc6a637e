"""One simple command in the words that a shell would see, when that can be said for certain. Pure.

Unlike `words`, which refuses what a policy does not want, this only looks: it answers None whenever a
shell could do anything else than start one program with these words.
"""

import re
from dataclasses import dataclass

MOST = 16 * 1024

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_VARIABLE = rf"\$(?:{_NAME}|\{{{_NAME}\}})"
_PIECE = re.compile(
    rf"""'(?P<single>[^']*)'
    |"(?P<double>(?:[^"\\$`]|\\.|{_VARIABLE})*)"
    |\\(?P<escaped>.)
    |(?P<expanded>{_VARIABLE}|[*?\[\]{{}}~!\#]+)
    |(?P<plain>[^\ \t'"\\$`;&|<>()*?\[\]{{}}~!\#]+)
    |(?P<blank>[\ \t]+)""",
    re.VERBOSE,
)
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_ASSIGNMENT = re.compile(rf"{_NAME}(?:\[.*\])?\+?=")
_IN_QUOTES = re.compile(r'\\([$`"\\])')


@dataclass(frozen=True, slots=True)
class Word:
    """One word. What is not `literal` may become something else: a variable, a glob, braces or a tilde is in it."""

    text: str
    literal: bool = True


def simple_command(command: str) -> tuple[Word, ...] | None:
    """The words, or None for everything that is, or may be, more than one program with arguments.

    That is: operators, redirections, substitutions, parentheses, comments, a variable set before the command, control
    characters, unfinished quotes, and text that a builtin might evaluate (`test -v 'a[$(id)]'`).
    """
    if len(command) > MOST or _CONTROL.search(command):
        return None
    found = _split(command)
    if not found or not found[0].text or _ASSIGNMENT.match(found[0].text):
        return None
    # A quoted substitution is only text, until something like `test -v` or `printf -v` reads it as arithmetic.
    if any("$(" in word.text or "`" in word.text for word in found):
        return None
    return tuple(found)


def _split(command: str) -> list[Word] | None:
    found: list[Word] = []
    inside = False
    place = 0
    while place < len(command):
        match = _PIECE.match(command, place)
        if match is None or (not inside and match[0].startswith("#")):
            return None
        place = match.end()
        if match["blank"] is not None:
            inside = False
            continue
        word = _word(match)
        if inside:
            before = found.pop()
            word = Word(before.text + word.text, before.literal and word.literal)
        found.append(word)
        inside = True
    return found


def _word(match: re.Match[str]) -> Word:
    double = match["double"]
    if double is not None:
        return Word(_IN_QUOTES.sub(r"\1", double), "$" not in re.sub(r"\\.", "", double))
    text = next(part for part in (match["single"], match["escaped"], match["plain"], match[0]) if part is not None)
    return Word(text, match["expanded"] is None)
