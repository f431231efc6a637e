"""What a person types into a chat: an order for us, or words for the agent, with skills and files named in them. Pure.

/name rest       an order, or a skill of that name; `//` at the beginning is a plain slash
$name            a skill, anywhere in the words
@path            a file to send, anywhere in the words; with blanks in it: @"my file.csv"
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

_ORDER = re.compile(r"/(?P<name>[\w-]*)(?:\s+(?P<rest>.*))?", re.DOTALL)
_SKILL = re.compile(r"(?<![A-Za-z0-9_$@/\\.-])\$(?P<name>[^\W_]+(?:-[^\W_]+)*)(?![\w-])")
_FILE = re.compile(r'(?<![A-Za-z0-9_$@/\\.-])@(?:"(?P<quoted>[^"\n]+)"|(?P<bare>[^\s"]\S*))')
_ASCII = re.compile(r"[!-~]+")
_AFTER_A_WORD = ".,;:!?)]}'\"，。；：！？、）】」』"


@dataclass(frozen=True, slots=True)
class Order:
    """`/name rest`."""

    name: str
    rest: str = ""


@dataclass(frozen=True, slots=True)
class Sent:
    """Words for the agent, with the paths of the files that go with them, and what looks like a file and is none."""

    text: str
    files: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def order_in(line: str) -> Order | None:
    """The order that a line is; None when it is words. A path such as `/etc/hosts` is words."""
    found = _ORDER.fullmatch(line.strip())
    return Order(found["name"], (found["rest"] or "").strip()) if found else None


def words_in(line: str) -> str:
    """The words of a line that is no order."""
    text = line.strip()
    return text[1:] if text.startswith("//") else text


Find: TypeAlias = Callable[[str], str | None]
"""From what is written to what is meant by it; None when it means nothing."""


def skills_in(text: str, find: Find) -> tuple[str, ...]:
    """The skills that are named with a `$`, each once. What `find` does not know is text: `$5`, `$HOME`."""
    found = (_meant(match["name"], find) for match in _SKILL.finditer(text))
    return tuple(dict.fromkeys(name for _, name in filter(None, found)))


def first_unknown_skill(text: str, find: Find) -> str | None:
    """The name after a `$` that a text begins with, when `find` does not know it."""
    match = _SKILL.match(text)
    return match["name"] if match and _meant(match["name"], find) is None else None


def files_in(text: str, name_of: Find) -> Sent:
    """Take the files out of a text: in the place of `@path` stands the name that `name_of` gives for the path.

    A full stop or another sign behind a path belongs to it only when there is such a file. What looks like a path and
    leads nowhere stays, and is among the missing.
    """
    files: list[str] = []
    missing: list[str] = []

    def replaced(match: re.Match[str]) -> str:
        written = match["quoted"] or match["bare"]
        found = _meant(written, name_of) if match["bare"] else _exactly(written, name_of)
        if found is not None:
            files.append(found[0])
            return found[1] + written[len(found[0]) :]
        if match["quoted"] or "/" in written or "." in written.strip(_AFTER_A_WORD):
            missing.append(written)
        return match[0]

    said = _FILE.sub(replaced, text)
    return Sent(said, tuple(dict.fromkeys(files)), tuple(dict.fromkeys(missing)))


def _meant(written: str, find: Find) -> tuple[str, str] | None:
    """How much of a word is a name, and whose: all of it, or without the signs or the Chinese text behind it."""
    ascii_part = _ASCII.match(written)
    parts = [written, *([ascii_part[0]] if ascii_part else [])]
    found = (_exactly(part, find) for whole in parts for part in (whole, whole.rstrip(_AFTER_A_WORD)))
    return next(filter(None, found), None)


def _exactly(written: str, find: Find) -> tuple[str, str] | None:
    found = find(written) if written else None
    return None if found is None else (written, found)
