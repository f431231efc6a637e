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
_SKILL = re.compile(r"(?<![\w$@/\\])\$(?P<name>[^\W_]+(?:-[^\W_]+)*)(?![\w-])")
_FILE = re.compile(r'(?<!\S)@(?:"(?P<quoted>[^"\n]+)"|(?P<bare>[^\s"]\S*))')
_AFTER_A_WORD = ".,;:!?)]}'\"，。；：！？）】」』"


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
    found = (find(match["name"]) for match in _SKILL.finditer(text))
    return tuple(dict.fromkeys(name for name in found if name is not None))


def first_unknown_skill(text: str, find: Find) -> str | None:
    """The name after a `$` that a text begins with, when `find` does not know it."""
    match = _SKILL.match(text)
    return match["name"] if match and find(match["name"]) is None else None


def files_in(text: str, name_of: Find) -> Sent:
    """Take the files out of a text: in the place of `@path` stands the name that `name_of` gives for the path.

    A full stop or another sign behind a path belongs to it only when there is such a file. What looks like a path and
    leads nowhere stays, and is among the missing.
    """
    files: list[str] = []
    missing: list[str] = []

    def replaced(match: re.Match[str]) -> str:
        written = match["quoted"] or match["bare"]
        for path in (written, written.rstrip(_AFTER_A_WORD)) if match["bare"] else (written,):
            name = name_of(path) if path else None
            if name is not None:
                files.append(path)
                return name + written[len(path) :]
        if match["quoted"] or "/" in written or "." in written.strip(_AFTER_A_WORD):
            missing.append(written)
        return match[0]

    said = _FILE.sub(replaced, text)
    return Sent(said, tuple(dict.fromkeys(files)), tuple(dict.fromkeys(missing)))
