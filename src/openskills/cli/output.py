"""What the commands print: styled lines for people at a terminal, plain ones in a pipe, JSON for programs.

Text from skills is somebody else's: it goes through `plain` before it reaches a terminal.
"""

import json
import sys
from functools import cache
from typing import TYPE_CHECKING, TextIO, TypeAlias

from openskills.paths import printable

if TYPE_CHECKING:
    from rich.console import Console

Part: TypeAlias = str | tuple[str, str]
"""A piece of a line: text, or text with the name of a style."""


def plain(text: str) -> str:
    """Foreign text on one line: runs of white space are one blank, what cannot be seen is escaped."""
    return printable(" ".join(text.split()))


def say(*parts: Part) -> None:
    """One line of the answer, on stdout."""
    _line(sys.stdout, parts)


def warn(*parts: Part) -> None:
    """One line beside the answer, on stderr."""
    _line(sys.stderr, parts)


def say_text(text: str) -> None:
    """Text of the answer exactly as it is, with a newline after it; the caller has made it safe."""
    sys.stdout.write(text + "\n")


def say_json(value: object) -> None:
    """The answer for a program. Everything beyond ASCII is escaped, so no encoding and no terminal can spoil it."""
    say_text(json.dumps(value, indent=2))


def console_of(stream: TextIO) -> "Console":
    """The rich console of a stream that is a terminal."""
    return _error_console() if stream is sys.stderr else _answer_console()


def counted(number: int, noun: str) -> str:
    """`1 skill`, `2 skills`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _line(stream: TextIO, parts: tuple[Part, ...]) -> None:
    if not stream.isatty():
        stream.write("".join(part if isinstance(part, str) else part[0] for part in parts) + "\n")
        return
    from rich.text import Text

    # Never as markup: a description may say `[red]`. The terminal wraps, so that a path can be copied whole.
    console_of(stream).print(Text.assemble(*parts), soft_wrap=True, highlight=False)


@cache
def _answer_console() -> "Console":
    from rich.console import Console

    return Console(emoji=False, markup=False, highlight=False)


@cache
def _error_console() -> "Console":
    from rich.console import Console

    return Console(stderr=True, emoji=False, markup=False, highlight=False)
