"""Texts cut to a budget of tokens, at a stated place. Pure."""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, fields
from itertools import accumulate
from typing import TypeAlias

from openskills.errors import InvalidArgument
from openskills.prompt.fragments import Lines, lines_in, lines_of
from openskills.prompt.shown import Piece
from openskills.tokens import TokenCounter

Rest: TypeAlias = Callable[[int, int], str]
"""How to read on from a line, and from a character of it: a sentence for the model."""

LEAST = 64
"""With less room than this many tokens, showing a text makes no sense."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How many tokens one body, one document, and all loaded texts of an agent may have, their headings included."""

    body: int = 20_000
    doc: int = 20_000
    total: int = 80_000

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value < LEAST:
                raise InvalidArgument(f"budget.{field.name}", f"{value} is too little; {LEAST} tokens is the least")


def fitted(path: str, text: str, room: int, count: TokenCounter, rest: Rest, part: Lines | None = None) -> Piece:
    """The text, or as many of its first lines as fit into `room` tokens and a line that says how to read on.

    A first line that is too long by itself is cut within. Less room than `LEAST` counts as that much. With `part`, only
    those lines of the text are meant; lines are counted from its beginning all the same.
    """
    first, character = (part.first, part.character) if part else (1, 1)
    wanted = lines_of(text, part) if part else text
    whole = text.count("\n") + (not text.endswith("\n") and bool(text))
    room = max(room, LEAST)
    tokens = count(wanted)
    if tokens <= room:
        return Piece(path, wanted, tokens, whole)
    lines = lines_in(wanted)
    # Each part is counted by itself, and so rounded by itself.
    room -= count(f"\n\n{_note(whole, whole, rest(whole, len(wanted)))}\n") + 2
    ends = list(accumulate(map(len, lines)))
    kept = bisect_right(ends, 0, key=lambda end: 0 if count(wanted[:end]) <= room else 1)
    if kept:
        shown, note = wanted[: ends[kept - 1]], _note(first + kept - 1, whole, rest(first + kept, 1))
    else:
        shown = _beginning(lines[0], room, count)
        note = _note(first, whole, rest(first, character + len(shown)), within=True)
    cut = f"{shown.rstrip() if kept else shown}\n\n{note}\n"
    return Piece(path, cut, count(cut), whole, first + kept - 1)


def _beginning(line: str, room: int, count: TokenCounter) -> str:
    """As much of one line as fits."""
    low, high = 0, len(line)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(line[:middle]) <= room else (low, middle - 1)
    return line[:low]


def _note(line: int, lines: int, rest: str, *, within: bool = False) -> str:
    return f"[cut {'within' if within else 'after'} line {line} of {lines}; {rest}]"
